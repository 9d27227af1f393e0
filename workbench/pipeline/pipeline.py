"""Pipelines as values: passes in order, nested, with their options, and fixpoints among them.

    Pipeline([FoldConstants(), Fixpoint([CancelPairs(), RemoveNoops()], rounds=5), LayoutOptimal(weigh="time")])

Its text, "fold_constants,fixpoint{rounds=5}(cancel_pairs,remove_noops),layout{strategy=optimal weigh=time}",
is what the command line, links, recipes and presets contain. `registry/reading.py` parses it. The form is that of
MLIR's textual pass pipelines (https://mlir.llvm.org/docs/PassManagement/).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from workbench.pipeline.repeat import ROUNDS, Repeat
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.rewrite import Pass

LAYOUT, FIXPOINT = "layout", "fixpoint"  # names in the text that are not passes
_BARE = re.compile(r"[\w.+/:*-]+")  # a value that needs no quotes


@dataclass(frozen=True)
class LayoutSlot:
    """The position of the layout strategy that is chosen when the pipeline runs; nothing runs there if none is."""

    def __str__(self) -> str:
        return LAYOUT


@dataclass(frozen=True, init=False)
class Fixpoint:
    """Parts that run in order, again and again until a whole round changes nothing; `rounds` times at most.

    Parts up to the last layout strategy run once, since the strategy chose the layouts for their result.
    """

    parts: tuple[Part, ...]
    rounds: int

    def __init__(self, parts: Iterable[Part], rounds: int = ROUNDS) -> None:
        """Raises ValueError for fewer rounds than one, TypeError for what is not a part."""
        if rounds < 1:
            raise ValueError(f"a fixpoint has at least one round, not {rounds}")
        object.__setattr__(self, "parts", _checked(parts))
        object.__setattr__(self, "rounds", rounds)

    def __str__(self) -> str:
        options = "" if self.rounds == ROUNDS else _options_text({"rounds": self.rounds})
        return f"{FIXPOINT}{options}({_joined(self.parts)})"


class Planned(NamedTuple):
    """A pass as it runs. label: its name, with a number if it occurred before in the pipeline: "fold_pad#2"."""

    label: str
    pass_: Pass


@dataclass(frozen=True, init=False)
class Pipeline:
    """Parts that run in order: passes, fixpoints, the slot of the layout strategy, and pipelines."""

    parts: tuple[Part, ...]

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        """Raises TypeError for what is not a part."""
        object.__setattr__(self, "parts", _checked(parts))

    def __str__(self) -> str:
        return _joined(self.parts)

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes in the order in which they run, one for each step of the history."""
        return tuple(_passes(self.parts))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the passes, with "layout" for a slot and "repeat" after the parts of a fixpoint."""
        return tuple(_names(self.parts))

    @property
    def planned(self) -> tuple[Planned, ...]:
        """The passes in the order in which they run, each with its label."""
        counts: Counter[str] = Counter()
        planned = []
        for pass_ in self.passes:
            counts[pass_.name] += 1
            number = "" if counts[pass_.name] == 1 else f"#{counts[pass_.name]}"
            planned.append(Planned(f"{pass_.name}{number}", pass_))
        return tuple(planned)

    @property
    def strategy(self) -> LayoutStrategy | None:
        """The last layout strategy that runs; None if there is none."""
        return next((one for one in reversed(self.passes) if isinstance(one, LayoutStrategy)), None)

    def first(self, steps: int) -> Pipeline:
        """The pipeline of its first steps; a fixpoint that ends later is replaced by its parts."""
        return Pipeline(_first(self.parts, steps))

    def mapped(self, change: Callable[[Part], Iterable[Part]]) -> Pipeline:
        """The pipeline with each pass and each LayoutSlot replaced by the parts that `change` returns for it."""
        return Pipeline(_mapped(self.parts, change))

    def with_layout(self, strategy: LayoutStrategy | None) -> Pipeline:
        """The pipeline with the strategy in each slot; at the end if there is no slot and it does not run yet."""
        filled = self.mapped(lambda part: _filled(part, strategy))
        if strategy is None or any(type(one) is type(strategy) for one in filled.passes):
            return filled
        return Pipeline((*filled.parts, strategy))


Part: TypeAlias = Pass | LayoutSlot | Fixpoint | Pipeline


def _checked(parts: Iterable[Part]) -> tuple[Part, ...]:
    checked = tuple(parts)
    for part in checked:
        if not isinstance(part, Pass | LayoutSlot | Fixpoint | Pipeline):
            raise TypeError(f"{part!r} is not a part of a pipeline, such as a Pass; `read_pipeline` reads a text")
    return checked


def _joined(parts: Iterable[Part]) -> str:
    return ",".join(filter(None, map(part_text, parts)))


def part_text(part: Part) -> str:
    """The text of one part; "" for rounds behind a strategy, which every run of the pipeline has."""
    if isinstance(part, Repeat):
        return ""
    if not isinstance(part, Pass):
        return str(part)
    defaults = type(part)().options()
    changed = {key: value for key, value in part.options().items() if value != defaults[key]}
    if isinstance(part, LayoutStrategy):
        return f"{LAYOUT}{_options_text({'strategy': part.strategy, **changed})}"
    return f"{part.name}{_options_text(changed)}"


def _options_text(options: Mapping[str, Any]) -> str:
    return f"{{{' '.join(f'{key}={_value_text(value)}' for key, value in options.items())}}}" if options else ""


def _value_text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text)


def _names(parts: Iterable[Part]) -> list[str]:
    names: list[str] = []
    for part in parts:
        if isinstance(part, Pass):
            names.append(part.name)
        elif isinstance(part, LayoutSlot):
            names.append(LAYOUT)
        else:
            names += [*_names(part.parts), *(["repeat"] if isinstance(part, Fixpoint) else [])]
    return names


def _passes(parts: Iterable[Part]) -> list[Pass]:
    passes: list[Pass] = []
    for part in parts:
        if isinstance(part, Pass):
            passes.append(part)
        elif isinstance(part, Pipeline):
            passes += _passes(part.parts)
        elif isinstance(part, Fixpoint):
            first = _passes(part.parts)
            passes += [*first, Repeat(tuple(_repeated(first)), part.rounds)]
    return passes


def _first(parts: Iterable[Part], steps: int) -> list[Part]:
    first: list[Part] = []
    for part in parts:
        if steps <= 0:
            break
        length = len(_passes([part]))
        if length <= steps:
            first.append(part)
        elif isinstance(part, Fixpoint | Pipeline):
            first += _first(part.parts, steps)
        steps -= length
    return first


def _repeated(passes: list[Pass]) -> list[Pass]:
    """The passes of a fixpoint's further rounds, without the rounds of inner fixpoints."""
    start = max((index + 1 for index, pass_ in enumerate(passes) if isinstance(pass_, LayoutStrategy)), default=0)
    return [pass_ for pass_ in passes[start:] if not isinstance(pass_, Repeat)]


def _mapped(parts: Iterable[Part], change: Callable[[Part], Iterable[Part]]) -> list[Part]:
    mapped: list[Part] = []
    for part in parts:
        if isinstance(part, Pipeline):
            mapped.append(Pipeline(_mapped(part.parts, change)))
        elif isinstance(part, Fixpoint):
            mapped.append(Fixpoint(_mapped(part.parts, change), part.rounds))
        else:
            mapped += change(part)
    return mapped


def _filled(part: Part, strategy: LayoutStrategy | None) -> Iterable[Part]:
    if not isinstance(part, LayoutSlot):
        return (part,)
    return () if strategy is None else (strategy,)
