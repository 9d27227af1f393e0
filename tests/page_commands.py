"""The blocks of code of a page: commands, with the output that it shows of them, and snippets."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PROGRAMS = ("workbench", "graph-workbench")
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$|^ {4}(?P<indented>python -m \S[^\n]*)$", re.M | re.S)
_PROMPT = "$ "
_COMMENT = re.compile(r"\s+#\s.*$")


@dataclass(frozen=True)
class Command:
    """text: without its comment. shown: the output that the page shows of it, if any."""

    text: str
    shown: str = ""

    @cached_property
    def words(self) -> list[str]:
        return shlex.split(self.text)

    @property
    def program(self) -> str:
        """That is run, or the module that is run as one."""
        module = self.words[:2] == ["python", "-m"]
        return self.words[2 if module else 0]

    @property
    def arguments(self) -> list[str] | None:
        """Those of our command line; None for another program."""
        if self.program not in PROGRAMS:
            return None
        return self.words[self.words.index(self.program) + 1 :]


@dataclass(frozen=True)
class Snippet:
    """A block that is no command: a file, or the output of one of the commands."""

    text: str


def steps_of(page: Path) -> list[Command | Snippet]:
    """What is in the page's blocks of code, in its order."""
    steps: list[Command | Snippet] = []
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        text = block["text"] if block["indented"] is None else block["indented"]
        lines = text.splitlines()
        if lines[0].startswith(_PROMPT):
            steps += _with_output(text)
        elif block["language"] in ("bash", "sh") or all(line.startswith("python -m ") for line in lines):
            steps += [_command(line) for line in lines]
        else:
            steps.append(Snippet(text))
    return steps


def _with_output(text: str) -> list[Command]:
    parts = re.split(rf"^{re.escape(_PROMPT)}", text, flags=re.M)[1:]
    return [_command(line, output) for line, _, output in (part.partition("\n") for part in parts)]


def _command(line: str, shown: str = "") -> Command:
    return Command(_COMMENT.sub("", line), shown)
