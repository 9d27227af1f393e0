"""The lessons that are part of the program: the files of `lessons/`, in the order of their names."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from workbench.errors import UserError, closest
from workbench.interfaces.lessons.lesson import Lesson
from workbench.interfaces.lessons.reading import read_lesson

_PACKAGE = Path(__file__).resolve().parents[2]
_INSTALLED = _PACKAGE / "lesson_files"
LESSONS_FOLDER = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "lessons"


@cache
def shipped_lessons() -> tuple[Lesson, ...]:
    """All shipped lessons. Raises LessonError."""
    return tuple(read_lesson(file) for file in sorted(LESSONS_FOLDER.glob("*.md")))


def find_lesson(name: str) -> Lesson:
    """The shipped lesson of this name, or the lesson of this .md file. Raises UserError."""
    result = next((lesson for lesson in shipped_lessons() if lesson.name == name), None)
    if result is not None:
        return result
    if not name.endswith(".md"):
        raise UserError(f"there is no lesson '{name}'{closest(name, [lesson.name for lesson in shipped_lessons()])}")
    return read_lesson(name)


def lesson_after(name: str) -> Lesson | None:
    """The shipped lesson after the one of this name; None after the last and after a lesson of one's own."""
    lessons = shipped_lessons()
    names = [lesson.name for lesson in lessons]
    return lessons[names.index(name) + 1] if name in names[:-1] else None
