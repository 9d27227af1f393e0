"""Lessons: reading a file, playing its stops (each pipeline once), the view of a stop (`equation_view.py` where it is
algebra), the pictures and the text beside the graph, one HTML file or a ZIP of all; `shipped.py` finds those of the top
folder `lessons/`, in the package `lesson_files/`.
"""

from workbench.interfaces.lessons.lesson import Fault, Lesson, LessonError, LessonPipeline, Stop
from workbench.interfaces.lessons.playing import PlayedStop, play
from workbench.interfaces.lessons.reading import read_lesson
from workbench.interfaces.lessons.shipped import find_lesson, shipped_lessons

__all__ = [
    "Fault",
    "Lesson",
    "LessonError",
    "LessonPipeline",
    "PlayedStop",
    "Stop",
    "find_lesson",
    "play",
    "read_lesson",
    "shipped_lessons",
]
