"""Numbers for nodes as an overlay of the picture: a user's, from a CSV or JSON file, or those that a page computed.

CSV: a heading, then a line for each node with its name and a number for each column. JSON: an object that maps nodes to
numbers, or to objects of numbers. A column's unit is in brackets after its name: "latency (us)".
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import UserError, reading

_UNIT = re.compile(r"(.+?)\s*[(\[]([^)\]]+)[)\]]\s*")
_DELIMITERS = ",;\t"
_MAX_UNKNOWN = 5  # unknown names listed in the sentence


class NumbersError(UserError):
    """A file of numbers cannot be read, or is for another model."""


@dataclass(frozen=True)
class Column:
    """A column of numbers. unit: or "". numbers: by node.

    words: what is said of a node in place of its number. logarithmic: of its shades; numbers are then at least 0, and
    those that are not finite have the last shade.
    """

    title: str
    unit: str
    numbers: Mapping[str, float]
    words: Mapping[str, str] = field(default_factory=dict)
    logarithmic: bool = False

    def text_of(self, node: str) -> str:
        """The node's number with its unit."""
        return self.words.get(node) or f"{self.numbers[node]:,.6g} {self.unit}".strip()


@dataclass(frozen=True)
class NodeNumbers:
    """heading: of the inspector's section. origin: what the legend says after the title of a column."""

    heading: str
    origin: str
    columns: tuple[Column, ...]

    def sentence(self, nodes: Collection[str]) -> str:
        """A sentence about the numbers for these nodes; "" if there is nothing to say."""
        return ""

    def rows(self, node: str) -> list[list[str]]:
        """Title and number for the node of each column that has one."""
        return [[column.title, column.text_of(node)] for column in self.columns if node in column.numbers]


@dataclass(frozen=True)
class UserNumbers(NodeNumbers):
    """The numbers of a file."""

    file: str

    @property
    def names(self) -> tuple[str, ...]:
        """All names in the file that have a number."""
        return tuple(dict.fromkeys(name for column in self.columns for name in column.numbers))

    def sentence(self, nodes: Collection[str]) -> str:
        """A sentence: how many of these nodes have numbers, and which names in the file are not nodes."""
        unknown = [name for name in self.names if name not in nodes]
        known = len(self.names) - len(unknown)
        text = f"{self.file} has numbers for {known:,} node{'' if known == 1 else 's'}"
        if not unknown:
            return text
        more = f" and {len(unknown) - _MAX_UNKNOWN:,} more" if len(unknown) > _MAX_UNKNOWN else ""
        problem = "name in it is not a node" if len(unknown) == 1 else "names in it are not nodes"
        return f"{text}; {len(unknown):,} {problem} of this model: {', '.join(unknown[:_MAX_UNKNOWN])}{more}"


def read_numbers(file: str, text: str, nodes: Collection[str]) -> UserNumbers:
    """The numbers in a file. text: its content. Raises NumbersError, also if no name in it is one of these nodes."""
    with reading(file, NumbersError, "write a name and a number for each node"):
        return _read(file, text, nodes)


def _read(file: str, text: str, nodes: Collection[str]) -> UserNumbers:
    table = _read_json(file, text) if text.lstrip()[:1] in ("{", "[") else _read_csv(file, text)
    columns = tuple(_column(heading, numbers) for heading, numbers in table.items())
    own = UserNumbers(f"Your numbers, from {file}", f"from {file}", columns, file)
    if not own.names:
        raise NumbersError(f"{file} has no numbers; it needs a line for each node, such as conv1,3.5")
    if not any(name in nodes for name in own.names):
        raise NumbersError(
            f"{file} names no node of this model; its first name is '{own.names[0]}', and a node of the model "
            f"is '{next(iter(nodes), '')}'"
        )
    return own


def _column(heading: str, numbers: Mapping[str, float]) -> Column:
    match = _UNIT.fullmatch(heading)
    return Column(match[1], match[2], numbers) if match else Column(heading, "", numbers)


def _read_csv(file: str, text: str) -> dict[str, dict[str, float]]:
    text = text.removeprefix("\ufeff")
    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        lines = [(reader.line_num, [cell.strip() for cell in line]) for line in reader if any(line)]
    except csv.Error as error:
        raise NumbersError(
            f"line {reader.line_num} of {file} is not CSV ({error}); write a name and a number"
        ) from None
    heading = lines[0][1] if lines else []
    if len(heading) < 2 or not all(heading[1:]) or any(_is_number(cell) for cell in heading[1:]):
        raise NumbersError(f"the first line of {file} must be a heading such as node,latency (us)")
    if len(set(heading)) < len(heading):
        raise NumbersError(f"{file} has two columns of one name in its first line; give each another name")
    table: dict[str, dict[str, float]] = {title: {} for title in heading[1:]}
    seen: set[str] = set()
    for number, (name, *cells) in lines[1:]:
        where = f"line {number} of {file}"
        if len(cells) > len(heading) - 1:
            raise NumbersError(f"{where} has {len(cells) + 1} cells, but the heading has {len(heading)}; quote commas")
        if name in seen:
            raise NumbersError(f"{where} names '{name}' a second time; give each node one line")
        seen.add(name)
        for title, cell in zip(heading[1:], cells, strict=False):
            if cell:
                table[title][name] = _number(cell, f"{where}, column '{title}'")
    return table


def _read_json(file: str, text: str) -> dict[str, dict[str, float]]:
    try:
        content = json.loads(text, object_pairs_hook=lambda pairs: _object(file, pairs))
    except (ValueError, RecursionError) as error:
        raise NumbersError(f'{file} is not JSON ({error}); write an object such as {{"conv1": 3.5}}') from None
    if not isinstance(content, dict):
        raise NumbersError(f'{file} must hold an object with a number for each node, such as {{"conv1": 3.5}}')
    table: dict[str, dict[str, float]] = {}
    for name, entry in content.items():
        numbers = entry if isinstance(entry, dict) else {"number": entry}
        for title, number in numbers.items():
            table.setdefault(title, {})[name] = _number(number, f"'{title}' of '{name}' in {file}")
    return table


def _object(file: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise NumbersError(f"{file} names '{repeated}' a second time; give each node one entry")
    return entries


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not _is_number(value):
        raise NumbersError(f"{where}: '{value}' is not a number; leave it empty where nothing is known")
    return float(value)


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
