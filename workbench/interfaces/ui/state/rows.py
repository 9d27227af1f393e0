"""Converts a pipeline to rows of the sidebar, which the user switches and moves, and back.

The key of a row is the pass's name, with a number from its second occurrence ("fold_pad#2"). "layout" is the position
of the layout strategy; "fixpoint" and "repeat" enclose passes that are repeated until nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.pipeline.pipeline import LAYOUT, Fixpoint, LayoutSlot, Part, Pipeline
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.repeat import ROUNDS
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.rewrite import Pass, with_options

OPEN, CLOSE = "fixpoint", "repeat"


@dataclass
class Rows:
    """A pipeline as rows.

    keys:     the keys of the rows, in order. options: the options of the pass of a row, by key.
    rounds:   the rounds of a fixpoint, by the key of its row OPEN.
    strategy: the layout strategy, at the row "layout", of which there is one; or None.
    """

    keys: list[str] = field(default_factory=list)
    options: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    strategy: LayoutStrategy | None = None


def name_of(key: str) -> str:
    """The name of the row's pass, or LAYOUT, OPEN, CLOSE."""
    return key.partition("#")[0]


def to_rows(pipeline: Pipeline) -> Rows:
    """The rows of a pipeline; its first layout strategy is at the row "layout", further ones have rows as passes."""
    rows, counts = Rows(), Counter[str]()

    def add(name: str) -> str:
        counts[name] += 1
        key = name if counts[name] == 1 else f"{name}#{counts[name]}"
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
                counts[part.name] = max(counts[part.name], 1)  # the strategy at the row "layout" counts as the first
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
    """The pipeline of the rows that are on; a fixpoint whose end is off or missing is replaced by its parts."""
    open_parts: list[tuple[str, list[Part]]] = [("", [])]
    for key in keys:
        name = name_of(key)
        if name == OPEN:
            open_parts.append((key, []))
        elif name == CLOSE:
            if len(open_parts) > 1:
                opened, parts = open_parts.pop()
                closed_parts: list[Part] = (
                    [Fixpoint(parts, rounds.get(opened, ROUNDS))] if is_on(key) and parts else parts
                )
                open_parts[-1][1].extend(closed_parts)
        elif name == LAYOUT:
            open_parts[-1][1].extend([] if strategy is None else [strategy])
        elif is_on(key):
            open_parts[-1][1].append(with_options(library.find_pass(name), options.get(key, {})))
    return Pipeline(part for _, parts in open_parts for part in parts)
