"""A pipeline as rows of the sidebar, which the user switches and moves, and back.

A row has a key: the pass's name, with a number from its second place on ("fold_pad#2"). "layout" is the place of the
strategy; "fixpoint" and "repeat" enclose what is repeated until nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.layout.strategies.layout_strategy import LayoutStrategy
from workbench.pipeline.pipeline import LAYOUT, Fixpoint, LayoutSlot, Part, Pipeline
from workbench.pipeline.repeat import ROUNDS
from workbench.registry.pass_registry import library
from workbench.rewrite import Pass, with_options

OPEN, CLOSE = "fixpoint", "repeat"


@dataclass
class Rows:
    """keys: in order. options: of the pass of a row, by key. rounds: of a fixpoint, by the key of its OPEN.
    strategy: the layout strategy, None for none; it stands at the one row "layout"."""

    keys: list[str] = field(default_factory=list)
    options: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    strategy: LayoutStrategy | None = None


def name_of(key: str) -> str:
    """The pass of a row, or LAYOUT, OPEN, CLOSE."""
    return key.partition("#")[0]


def to_rows(pipeline: Pipeline) -> Rows:
    """The rows; the pipeline's first layout strategy stands at the place "layout", a further one as a pass."""
    rows, times = Rows(), Counter[str]()

    def add(name: str) -> str:
        times[name] += 1
        key = name if times[name] == 1 else f"{name}#{times[name]}"
        rows.keys.append(key)
        return key

    def walk(parts: Iterable[Part]) -> None:
        for part in parts:
            if isinstance(part, Pipeline):
                walk(part.parts)
            elif isinstance(part, Fixpoint):
                rows.rounds[add(OPEN)] = part.rounds
                walk(part.parts)
                add(CLOSE)
            elif isinstance(part, LayoutStrategy) and rows.strategy is None:
                rows.strategy = part
                rows.keys = [key for key in rows.keys if key != LAYOUT]
                rows.keys.append(LAYOUT)
            elif isinstance(part, LayoutSlot):
                rows.keys += [] if LAYOUT in rows.keys else [LAYOUT]
            elif isinstance(part, LayoutStrategy):
                times[part.name] = max(times[part.name], 1)  # the first number is that of the strategy at its place
                rows.options[add(part.name)] = part.options()
            else:
                rows.options[add(part.name)] = part.options()

    walk(pipeline.parts)
    return rows


def pipeline_of(
    keys: Sequence[str],
    is_on: Callable[[str], bool],
    options: Mapping[str, Mapping[str, Any]],
    rounds: Mapping[str, int],
    strategy: Pass | None,
) -> Pipeline:
    """The pipeline of the rows that are on; a fixpoint whose end is off, or missing, is its parts."""
    open_parts: list[tuple[str, list[Part]]] = [("", [])]
    for key in keys:
        name = name_of(key)
        if name == OPEN:
            open_parts.append((key, []))
        elif name == CLOSE:
            if len(open_parts) > 1:
                opened, parts = open_parts.pop()
                kept: list[Part] = [Fixpoint(parts, rounds.get(opened, ROUNDS))] if is_on(key) and parts else parts
                open_parts[-1][1].extend(kept)
        elif name == LAYOUT:
            open_parts[-1][1].extend([] if strategy is None else [strategy])
        elif is_on(key):
            open_parts[-1][1].append(with_options(library.find_pass(name), options.get(key, {})))
    return Pipeline(part for _, parts in open_parts for part in parts)
