"""The command `lesson`: check lessons, or write one as an HTML file."""

from __future__ import annotations

import argparse

from workbench.errors import UserError
from workbench.interfaces.cli.exit_codes import DONE, FAILED
from workbench.interfaces.cli.printing import megabytes, say
from workbench.support.files import check_outputs, write_data, write_text

HELP = "check lessons, or write one as an HTML file"
EXAMPLES = (
    "check why_a_transpose   # plays a lesson, prints every fault with its line",
    "export why_a_transpose -o lesson.html   # `export all -o lessons.zip`: all of them",
    "list",
)
_ALL = "all"


def add_arguments(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="does", required=True, metavar="DOES")
    check = actions.add_parser("check", help="play lessons and print every fault with its file and line")
    check.add_argument("lessons", nargs="+", metavar="FILE", help="an .md file, the name of a lesson, or 'all'")
    export = actions.add_parser("export", help="write a lesson as one HTML file that works offline")
    export.add_argument("lesson", metavar="FILE", help="an .md file, the name of a lesson, or 'all' for a ZIP of all")
    export.add_argument("-o", "--output", required=True, metavar="L.html", help="the file to write; for 'all' L.zip")
    actions.add_parser("list", help="list the lessons that are part of the program")


def run(chosen: argparse.Namespace) -> int:
    if chosen.does == "list":
        return list_command()
    if chosen.does == "check":
        return check_command(chosen.lessons)
    return export_command(chosen.lesson, chosen.output)


def list_command() -> int:
    """Print the name, title and summary of every shipped lesson."""
    from workbench.interfaces.lessons import shipped_lessons

    for lesson in shipped_lessons():
        say(f"{lesson.name}: {lesson.title} {lesson.about}")
    return DONE


def check_command(names: list[str]) -> int:
    """Print every fault of every lesson. FAILED if there is one."""
    from workbench.interfaces.lessons import LessonError, find_lesson, play, shipped_lessons

    chosen = [lesson.name for lesson in shipped_lessons()] if _ALL in names else names
    code = DONE
    for name in chosen:
        try:
            lesson = find_lesson(name)
            stops = play(lesson)
        except LessonError as error:
            code = FAILED
            for fault in error.faults:
                say(str(fault))
            continue
        say(f"{lesson.file}: {len(stops)} stop{'' if len(stops) == 1 else 's'}, no fault")
    return code


def export_command(name: str, output: str) -> int:
    """Write the lesson as an HTML file, or all of them as a ZIP. Raises UserError."""
    from workbench.interfaces.lessons import find_lesson, play
    from workbench.interfaces.lessons.exporting import lesson_html, lessons_zip

    if name == _ALL:
        if not output.endswith(".zip"):
            raise UserError(f"all lessons are written as a ZIP of HTML files; end '{output}' with .zip")
        check_outputs([output], [])
        content = lessons_zip()
        write_data(output, content)
        say(f"wrote {output}, {megabytes(len(content))}; unpack it, and open its first file in a browser")
        return DONE
    if not output.endswith(".html"):
        raise UserError(f"the lesson is written as HTML; end '{output}' with .html")
    check_outputs([output], [name])
    lesson = find_lesson(name)
    text = lesson_html(lesson, play(lesson))
    write_text(output, text)
    say(f"wrote {output}, {megabytes(len(text.encode()))}; open it in a browser")
    return DONE
