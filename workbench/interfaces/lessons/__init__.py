"""Lessons: text files that show moments of a model's history, each with a key sentence, a question and its answer."""

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
