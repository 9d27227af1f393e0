"""The data of a lesson: stops, each a moment of a model's history with a key sentence, a question and its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import UserError
from workbench.pipeline.command_text import command_text
from workbench.rewrite import DEFAULT_MODE

DEFAULT_PROFILE = "cuda"  # on every machine, so that a lesson shows the same everywhere
_WORDS_A_MINUTE, _MINUTES_A_PICTURE = 130, 0.5  # at which a text in a foreign language is read; to look at a picture


@dataclass(frozen=True)
class Fault:
    """A fault in a lesson's file. line: counted from 1."""

    file: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.sentence}"


class LessonError(UserError):
    """A lesson cannot be read or played. The message is its first fault, with the number of further ones."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        more = f" (and {len(faults) - 1:,} more: `{command_text('lesson', 'check')}`)" if len(faults) > 1 else ""
        super().__init__(f"{faults[0]}{more}")


@dataclass(frozen=True)
class LessonPipeline:
    """What runs before a stop. The values are those of the file, and are not checked.

    model:    a sample's file, or one beside the lesson.
    layouts:  of inputs, "input2=HWOI".
    passes:   names in order; None for those of `preset`, or for none without a preset.
    strategy: a layout strategy, run at "layout" among the passes or after them; "" for none.
    """

    model: str = ""
    dims: str = ""
    layouts: tuple[str, ...] = ()
    profile: str = DEFAULT_PROFILE
    preset: str = ""
    passes: tuple[str, ...] | None = None
    strategy: str = ""
    mode: str = DEFAULT_MODE


@dataclass(frozen=True)
class Stop:
    """A moment that is shown. The texts are Markdown.

    moment:  "start", "end", or a pass or strategy, which shows all of its rewrites. With a number N after it, its first
             N rewrites are done, and the last of them is shown.
    node:    the selected node's name, or "in:<value>", "out:<value>"; "" for none.
    frame:   the names of what the picture must show so that the question can be answered; () for the whole graph.
    beside:  the text beside the graph, "expression" or "nodes"; "" for none.
    picture: what is drawn beside the graph, "memory PLANNER ORDER" or "elements VALUE"; "" for nothing.
    notes:   for whoever presents the lesson; "" for none.
    expected: what the answer says of the graph at the moment, such as "count(op:Transpose) = 2".
    line:    of the title in the file.
    lines:   of the keys, in the stop or else in the front matter.
    """

    title: str
    pipeline: LessonPipeline
    moment: str
    sentence: str
    text: str
    question: str
    answer: str
    node: str = ""
    frame: tuple[str, ...] = ()
    beside: str = ""
    picture: str = ""
    notes: str = ""
    expected: tuple[str, ...] = ()
    line: int = 1
    lines: Mapping[str, int] | None = None

    def line_of(self, key: str) -> int:
        """The line of the key; that of the title if the file does not have it."""
        return (self.lines or {}).get(key, self.line)


@dataclass(frozen=True)
class Lesson:
    """The contents of a lesson's file. about: one sentence. text: the introduction before the first stop."""

    file: Path
    title: str
    about: str
    text: str
    stops: tuple[Stop, ...]

    @property
    def minutes(self) -> int:
        """The minutes that the lesson takes: the time to read its words, and half a minute for each picture."""
        texts = [self.text, *(f"{stop.sentence} {stop.text} {stop.question} {stop.answer}" for stop in self.stops)]
        return math.ceil(
            sum(len(text.split()) for text in texts) / _WORDS_A_MINUTE + _MINUTES_A_PICTURE * len(self.stops)
        )

    @property
    def name(self) -> str:
        """The name in links: that of the file, without its ending and the number for sorting."""
        return self.file.stem.lstrip("0123456789").lstrip("_")
