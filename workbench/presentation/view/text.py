"""Two texts side by side, line by line: what was removed, added, changed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MARKS: Mapping[str, tuple[str, str]] = {  # by mark: its colour and its meaning
    "-": ("#C62828", "removed"),
    "+": ("#2E7D32", "added"),
    "~": ("#B26A00", "changed"),
}
_CONTEXT = 3  # equal lines shown around a change
_NODE = re.compile(r"\s*\[([^\]]+)\]")
_NEXT_CONSTANT = re.compile(r"(?<=[\]}]), (?=[a-z0-9]+(?:\[| ))")


@dataclass(frozen=True)
class TextRow:
    """One row: `mark` is "-", "+", "~", "" for an equal line, or "..." for `hidden` omitted equal lines."""

    mark: str
    before: str = ""
    after: str = ""
    hidden: int = 0


def one_constant_per_line(text: str) -> str:
    """A printed graph with each constant of its head on a separate line; the printer writes all on one line."""
    head, brace, body = text.partition("\n{")
    return _NEXT_CONSTANT.sub(",\n    ", head) + brace + body if brace else text


def side_by_side(before: str, after: str) -> list[TextRow]:
    """The rows of both texts; long runs of equal lines are omitted. Two lines of the same node form one changed row."""
    a, b = before.splitlines(), after.splitlines()
    results: list[TextRow] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b).get_opcodes():
        if tag == "equal":
            results.extend(_equal(a[i1:i2], first=i1 == 0, last=i2 == len(a)))
        else:
            results.extend(_paired(a[i1:i2], b[j1:j2]))
    return results


def _equal(lines: list[str], first: bool, last: bool) -> Iterator[TextRow]:
    head = 0 if first else _CONTEXT
    tail = 0 if last else _CONTEXT
    hidden = len(lines) - head - tail
    if hidden <= 1:
        yield from (TextRow("", line, line) for line in lines)
        return
    yield from (TextRow("", line, line) for line in lines[:head])
    yield TextRow("...", hidden=hidden)
    yield from (TextRow("", line, line) for line in lines[len(lines) - tail :])


def _paired(removed: list[str], added: list[str]) -> Iterator[TextRow]:
    """The rows of one changed run, in the order of both texts; two lines of the same node form one row."""
    positions = {_defined(line): index for index, line in enumerate(added)}
    written = 0
    for line in removed:
        position = positions.get(_defined(line), -1)
        if position < written:
            yield TextRow("-", before=line)
            continue
        yield from (TextRow("+", after=other) for other in added[written:position])
        yield TextRow("~", line, added[position])
        written = position + 1
    yield from (TextRow("+", after=other) for other in added[written:])


def _defined(line: str) -> str:
    """What a line defines: the node's name in brackets, or the text before "=", a constant's name and type."""
    named = _NODE.match(line)
    return named[1] if named else line.partition("=")[0].strip()
