"""What a lesson is: stops, each a moment of a model's history with a key sentence, a question and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.api import DEFAULT_TARGET
from workbench.errors import UserError
from workbench.pipeline.command_text import command_text
from workbench.rewrite import DEFAULT_MODE


@dataclass(frozen=True)
class Fault:
    """Something wrong in a lesson's file, at a line of it, counted from 1."""

    file: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.sentence}"


class LessonError(UserError):
    """A lesson cannot be read or played; the words are those of its first fault."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        more = f" (and {len(faults) - 1:,} more: `{command_text('lesson', 'check')}`)" if len(faults) > 1 else ""
        super().__init__(f"{faults[0]}{more}")


@dataclass(frozen=True)
class LessonPipeline:
    """What runs before a stop: the words of the file, unchecked, with the line of each.

    model:  a sample's file, or one beside the lesson. passes: names in order; None for those of `preset`, if there is
            one, else none. strategy: of layouts, at the place "layout" of the passes, else after them; "" for none.
    layouts: of inputs, "input2=HWOI".
    """

    model: str = ""
    dims: str = ""
    layouts: tuple[str, ...] = ()
    profile: str = DEFAULT_TARGET
    preset: str = ""
    passes: tuple[str, ...] | None = None
    strategy: str = ""
    mode: str = DEFAULT_MODE


@dataclass(frozen=True)
class Stop:
    """One moment. The texts are Markdown.

    moment:  "start", "end", a pass or strategy, or one with the number of its rewrites that are done, of which the last
             is then shown; else what the whole pass did.
    node:    is selected: a node's name, or "in:<value>", "out:<value>"; "" for none.
    picture: what is drawn beside the graph, "memory PLANNER ORDER" or "elements VALUE"; "" for nothing.
    lines:   where each key stands in the file, in the stop or else in the front matter; `line` is that of the title.
    """

    title: str
    pipeline: LessonPipeline
    moment: str
    sentence: str
    text: str
    question: str
    answer: str
    node: str = ""
    picture: str = ""
    line: int = 1
    lines: Mapping[str, int] | None = None

    def line_of(self, key: str) -> int:
        return (self.lines or {}).get(key, self.line)


@dataclass(frozen=True)
class Lesson:
    """A lesson as its file has it. about: one sentence. text: what stands before the first stop."""

    file: Path
    title: str
    about: str
    text: str
    stops: tuple[Stop, ...]

    @property
    def name(self) -> str:
        """The name in links: the file's, without its ending and the number that orders it."""
        return self.file.stem.lstrip("0123456789").lstrip("_")
