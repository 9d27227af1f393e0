"""Write the tables of rooms and folders into docs/architecture.md, from docstrings: `python docs/make_rooms.py`."""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

PAGE = HERE / "architecture.md"
FEW = 5  # rooms that are listed by name; of more, those that are missing are
EVERYWHERE = ("errors", "support")
READ_ON = {  # the section of the page about a room or a folder
    "checker": "evidence",
    "run": "running",
    "planning/precision": "precision",
    "planning/fusion": "groups-of-operators",
    "planning/memory": "memory",
    "planning/streams": "streams",
    "evidence/verification": "verification",
    "evidence/reduction": "reducing-a-fault",
    "evidence/certification": "evidence",
    "interfaces/study": "tuning",
    "interfaces/lessons": "lessons",
}


def with_tables(page: str, rooms: Mapping[str, Collection[str]]) -> str:
    """The page with both tables anew. rooms: what each may import of ours, from the ground floor up."""
    for name, rows in (("rooms", room_rows(rooms)), ("folders", folder_rows(rooms))):
        begin, end = f"<!-- {name}: made by docs/make_rooms.py -->", f"<!-- end of {name} -->"
        if page.count(begin) != 1 or end not in page:
            raise ValueError(f"{PAGE.name} has no place for the table of {name}: between '{begin}' and '{end}'")
        before, _, behind = page.partition(begin)
        table = "\n".join(rows)
        page = f"{before}{begin}\n\n{table}\n\n{end}{behind.partition(end)[2]}"
    return page


def room_rows(rooms: Mapping[str, Collection[str]]) -> Iterator[str]:
    """A row for each room, and for the app's file, which is in none."""
    yield "| room | what it has | may import of ours |"
    yield "|---|---|---|"
    for room in rooms:
        yield f"| {place_of(room)} | {about(room)} | {allowed_text(room, rooms)} |"
    yield f"| `app.py` (beside the package) | {first_paragraph(ROOT / 'app.py')} | `interfaces` |"


def folder_rows(rooms: Collection[str]) -> Iterator[str]:
    """A row for each folder of a room that is a package."""
    yield "| folder | what it has |"
    yield "|---|---|"
    for room in rooms:
        for file in sorted((ROOT / "workbench" / room).glob("*/__init__.py")):
            folder = f"{room}/{file.parent.name}"
            yield f"| `{folder}/` | {about(folder)} |"


def place_of(room: str) -> str:
    """The room as a file or folder of `workbench/`, or beside it."""
    if room == "passes":
        return "`passes/` (beside the package)"
    return f"`{room}/`" if (ROOT / "workbench" / room).is_dir() else f"`{room}.py`"


def about(place: str) -> str:
    """What the docstring of a room or folder says first, with a link to the section of the page about it."""
    top = ROOT if place == "passes" else ROOT / "workbench"
    file = top / place / "__init__.py"
    text = first_paragraph(file if file.exists() else top / f"{place}.py")
    section = READ_ON.get(place)
    return f"{text} ([more](#{section}))" if section else text


def first_paragraph(file: Path) -> str:
    """The first paragraph of a module's docstring as one line, without its full stop."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).removesuffix(".").replace("|", "\\|")


def allowed_text(room: str, rooms: Mapping[str, Collection[str]]) -> str:
    """What the room may import: by name, or which of the rooms below are missing."""
    floors = [name for name in rooms if name not in EVERYWHERE]
    allowed = [name for name in floors if name in rooms[room]]
    if not allowed:
        return "nothing, not even `errors.py`" if room == "checker" else "nothing"
    if len(allowed) <= FEW:
        return _names(allowed)
    below = floors[: floors.index(room)]
    return f"all above but {_names([name for name in below if name not in allowed])}"


def _names(rooms: Collection[str]) -> str:
    return ", ".join(f"`{room}`" for room in rooms)


if __name__ == "__main__":
    from tests.test_architecture import ROOMS
    from workbench.support.files import write_text

    write_text(PAGE, with_tables(PAGE.read_text(encoding="utf-8"), ROOMS))
