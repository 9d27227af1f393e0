"""For the reference: lines of a docstring such as "layout: a strategy" are a list on the page, as in the source."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ENTRY = re.compile(r"^(\w+(?:, \w+)*):\s+(?=\S)")


class DocstringLists(Extension):
    """Called by griffe for each module, class and function that it has read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            summary, *paragraphs = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join([summary, *map(as_list, paragraphs)])


def as_list(paragraph: str) -> str:
    """The paragraph; one whose first line is an entry as a list, what is indented belonging to the entry before."""
    lines = paragraph.split("\n")
    first = next((place for place, line in enumerate(lines) if _ENTRY.match(line)), None)
    if first is None:
        return paragraph
    listed = [_ENTRY.sub(lambda found: f"- `{found[1]}`: ", line) for line in lines[first:]]
    return "\n".join([*lines[:first], *([""] if first else []), *(re.sub(r"^\s{2,}", "    ", line) for line in listed)])
