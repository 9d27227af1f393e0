"""The scene: everything that the browser needs to draw a history at any moment, as JSON.

docs/view.md describes the format. This module places the boxes, once for all moments;
the browser only draws.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from workbench.ir import node_line
from workbench.presentation.view.arrangement import Arrangement
from workbench.presentation.view.boxes import Box, Boxes, boxes_of
from workbench.presentation.view.edge_shortcuts import FreeLines
from workbench.presentation.view.engines import Place
from workbench.presentation.view.groups import Group, flat, group_nodes, groups_around, opened_at_first
from workbench.presentation.view.links import Links, links_of
from workbench.presentation.view.node_style import CLASSES, NO_KIND, NodeStyle, are_of_target, coloured_kind
from workbench.presentation.view.overview import Overview, overview_of
from workbench.presentation.view.source_code import module_categories
from workbench.presentation.view.timeline import Event, Timeline, Version

_MAX_REWRITES_WITH_NODES = 1500  # of longer histories, a rewrite has only its sentence, not its nodes
_MAX_LINE = 400  # characters of a node's text


@dataclass(frozen=True)
class Costs:
    """What was measured or asked of a node; None if it was not.

    us: microseconds of one run. mb: megabytes of its results. provider: where ONNX Runtime runs it, or why nowhere.
    us_at_first: of a node in the first and the last graph, microseconds in the first one.
    """

    us: float | None = None
    mb: float | None = None
    provider: str | None = None
    us_at_first: float | None = None


CostsOfSides = tuple[Mapping[str, Costs], Mapping[str, Costs]]  # by node, in the first graph and in the last


@dataclass
class View:
    """A timeline and the user's choices for its picture: which groups are open, and what else is shown.

    costs: by node name, for the graph at the first and at the last moment. measured_in: the backend that ran them.
    """

    timeline: Timeline
    title: str
    target: str
    chosen: dict[str, bool] = field(default_factory=dict)  # by group's id: opened (True) or closed by the user
    constants: bool = False
    is_flat: bool = False
    costs: CostsOfSides = field(default_factory=lambda: ({}, {}))
    measured_in: str = ""
    fills_pane: ClassVar[bool] = True  # else a box is as large as its text, and the picture as high as it gets
    root: Group = field(init=False)
    opened: set[str] = field(init=False)
    overview: Overview = field(init=False)

    def __post_init__(self) -> None:
        self.root = group_nodes(self.timeline)
        self.opened = opened_at_first(self.root)
        self.overview = overview_of(self.timeline, self.root, self.opened) if self.fills_pane else Overview()
        self._choose(self.chosen)

    def set_open(self, id_: str, is_open: bool, deep: bool) -> None:
        """Open or close a group, or the root, and with `deep` every group in it; an unknown id changes nothing."""
        group = self._group(id_)
        if group is None:
            return
        ids = {id_, *(inner.id for inner in group.below())} if deep else {id_}
        self._choose(dict.fromkeys(ids, is_open))

    def reveal(self, *names: str) -> bool:
        """Open the groups that hide the nodes; returns whether any was closed."""
        hiding = {group.id: True for name in names for group in groups_around(self.root, name)}
        was_closed = not hiding.keys() <= self.opened
        self._choose(hiding)
        return was_closed

    def _choose(self, chosen: Mapping[str, bool]) -> None:
        self.chosen.update(chosen)
        self.opened = self.opened - {i for i, on in chosen.items() if not on} | {i for i, on in chosen.items() if on}

    def members(self, id_: str) -> tuple[str, ...]:
        """The nodes in the group of that id, at any depth; empty if there is no such group."""
        group = self._group(id_)
        return () if group is None else tuple(group.members())

    def _group(self, id_: str) -> Group | None:
        return next((group for group in (self.root, *self.root.below()) if group.id == id_), None)

    def boxes(self) -> Boxes:
        """The boxes that are shown now."""
        root = flat(self.root) if self.is_flat else self.root
        return boxes_of(self.timeline, root, self.opened, self.constants, self.overview.group)

    def scene(self, boxes: Boxes | None = None) -> dict[str, Any]:
        """The scene as shown now. boxes: the result of `boxes()`, if the caller already has it."""
        boxes = self.boxes() if boxes is None else boxes
        return _Writer(self, boxes, links_of(self.timeline, boxes)).write()


def with_providers(costs: Mapping[str, Costs], providers: Mapping[str, str]) -> dict[str, Costs]:
    """The costs of nodes with their providers, both by node."""
    return {**costs, **{name: replace(costs.get(name, Costs()), provider=text) for name, text in providers.items()}}


def packed(entries: Mapping[str, Any] | Sequence[str]) -> tuple[str, str]:
    """A scene, or a table of texts, as base64 of gzip of JSON, with an id that changes with the content."""
    raw = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode(), hashlib.sha256(raw).hexdigest()[:16]


def starts_in_target(timeline: Timeline) -> bool:
    """Whether every CNN value of the first graph is in the target's layout, which is then the model's own."""
    return are_of_target({v.style.layout for versions in timeline.versions.values() for v in versions if v.born == 0})


def steps_of(timeline: Timeline) -> list[dict[str, Any]]:
    """The entries of a scene's "steps"."""
    return [
        {
            "title": span.title,
            "pass": span.pass_name,
            "first": span.first,
            "rewrites": span.rewrites,
            "verdict": span.verdict,
            "ok": span.ok,
            "facts": span.facts,
        }
        for span in timeline.step_spans
    ]


class _Writer:
    """Writes a scene. Looks, labels and categories are written once each; other entries hold their numbers."""

    def __init__(self, view: View, boxes: Boxes, links: Links) -> None:
        self.view, self.boxes, self.links = view, boxes, links
        self.end = view.timeline.last + 1
        self.styles: dict[tuple[NodeStyle, Costs, str], int] = {}
        self.labels: dict[str, int] = {}
        self.is_own = starts_in_target(view.timeline)
        self.categories: list[str] = []
        self.types: list[str] = []
        self.module_of = {name: modules[0] for name, modules in view.timeline.modules.items()}
        self.module_categories = module_categories(self.module_of.values())
        self.providers = sorted({costs.provider for of in view.costs for costs in of.values() if costs.provider})
        self.modules = sorted(set(self.module_categories.values()))
        self.totals = [sum(flops.values()) for flops in view.timeline.flops]

    def write(self) -> dict[str, Any]:
        arrangement = self._arrangement()
        places = arrangement.places
        timeline = self.view.timeline
        boxes = [self._box(box, place) for box, place in zip(self.boxes.boxes, places, strict=True)]
        edges = self._edges(arrangement, FreeLines(self.boxes.boxes, places))
        styles = [self._look(style, costs, module) for style, costs, module in self.styles]
        return {
            "title": self.view.title,
            "T": timeline.last,
            "pair": int(timeline.is_pair),
            "nodes": sum(1 for versions in timeline.versions.values() if versions[0].born == 0),
            "steps": steps_of(timeline),
            "rewrites": [self._rewrite(event) for event in timeline.events],
            "categories": self.categories,
            "types": self.types,
            "classes": list(CLASSES),
            "modules": self.modules,
            "providers": self.providers,
            "target": self.view.target,
            "own": self.is_own,
            "looks": styles,
            "boxes": boxes,
            "edges": edges,
            "words": list(self.labels),
            "widths": timeline.widths.names,
            "measured": self._measured(),
            "width": arrangement.width,
            "height": arrangement.height,
        }

    def _arrangement(self) -> Arrangement:
        overview = Overview() if self.view.is_flat else self.view.overview
        return overview.arrange(self.boxes, self.links)

    def _rewrite(self, event: Event) -> dict[str, Any]:
        names = dict.fromkeys((*event.nodes, *(node.name for node in event.inserted)))
        numbers = dict.fromkeys(self.boxes.number[name] for name in names if name in self.boxes.number)
        entries = {"s": event.sentence, "c": event.case, "b": list(numbers)}
        if self.view.timeline.last <= _MAX_REWRITES_WITH_NODES:
            entries["g"], entries["a"] = _text(event.removed), _text(event.inserted)
        return entries

    def _box(self, box: Box, place: Place) -> dict[str, Any]:
        entries: dict[str, Any] = {
            "id": box.id,
            "kind": box.kind,
            "x": place.x,
            "y": place.y,
            "w": place.width,
            "h": place.height,
            "up": box.frame,
            "v": [[born, min(dies, self.end), self._number(box, style, born, dies)] for born, dies, style in box.alive],
        }
        if box.is_chip:
            entries["chip"] = 1
        if box.group is not None:
            entries |= self._group(box, box.group)
        return entries

    def _group(self, box: Box, group: Group) -> dict[str, Any]:
        entries = {"open": box.is_open, "title": group.title, "path": list(group.path), "same": group.same}
        timeline = self.view.timeline
        still: dict[int, int] = {}  # by look
        inner = []
        members = box.members or tuple(group.members())
        for member, name in enumerate(members):
            versions = timeline.versions[name]
            if not timeline.changes(name):
                look = self._inner_look(name, versions[0])
                still[look] = still.get(look, 0) + 1
                continue
            inner += [[v.born, min(v.dies, self.end), member, self._inner_look(name, v)] for v in versions]
        return entries | {
            "still": list(still.items()),
            "inner": inner,
            "us": self._times(members),
            "mb": self._largest_memory(members),
            "flops": self._flops(members),
        }

    def _inner_look(self, name: str, version: Version) -> int:
        """The number of the look of a node in a group: what colours it, without what its box says."""
        provider = self._costs(name, version.born, version.dies).provider
        module = self.module_categories.get(self.module_of.get(name, ""), "")
        bare = replace(version.style, op="", name="", detail="", weights=NO_KIND)
        return self.styles.setdefault((bare, Costs(provider=provider), module), len(self.styles))

    def _times(self, members: Collection[str]) -> list[float | None] | None:
        """The sums of the members' times in the graphs at the first and at the last moment; None without a time."""
        versions, (before, after) = self.view.timeline.versions, self.view.costs
        first = [before[name].us for name in members if name in before and versions[name][0].born == 0]
        last = [after[name].us for name in members if name in after and versions[name][-1].dies >= self.end]
        times = [_sum(first), _sum(last)]
        return None if times == [None, None] else times

    def _largest_memory(self, members: Collection[str]) -> list[float | None] | None:
        """The largest memory of a member in the first and in the last graph, in megabytes; None without any."""
        largest = [
            max((costs[name].mb or 0.0 for name in members if name in costs), default=None) for costs in self.view.costs
        ]
        return largest if any(largest) else None

    def _flops(self, members: Collection[str]) -> list[int] | None:
        """The members' percentages of the FLOPs of the first and of the last graph; None if neither has any."""
        shares = [
            round(100 * sum(flops.get(name, 0) for name in members) / total) if total else 0
            for flops, total in zip(self.view.timeline.flops, self.totals, strict=True)
        ]
        return shares if any(shares) else None

    def _number(self, box: Box, style: NodeStyle, born: int, dies: int) -> int:
        if box.is_open:
            return -1
        costs, module = Costs(), ""
        if box.kind == "node":
            costs = self._costs(box.id, born, dies)
            module = self.module_categories.get(self.module_of.get(box.id, ""), "")
        return self.styles.setdefault((style, costs, module), len(self.styles))

    def _costs(self, name: str, born: int, dies: int) -> Costs:
        before, after = self.view.costs
        if dies > self.view.timeline.last:
            first = before.get(name, Costs()).us if born == 0 else None
            return replace(after.get(name, Costs()), us_at_first=first)
        return before.get(name, Costs()) if born == 0 else Costs()

    def _look(self, style: NodeStyle, costs: Costs, module: str) -> dict[str, Any]:
        numbers = {
            "m": self.modules.index(module) if module else -1,
            "e": self.providers.index(costs.provider) if costs.provider else -1,
        }
        style = replace(style, layout=self._kind(style.layout), weights=self._kind(style.weights))
        times = {"us": costs.us, "us0": costs.us_at_first, "mb": costs.mb}
        return {**style.report(self.categories, self.types), **numbers, **times}

    def _kind(self, kind: int) -> int:
        return coloured_kind(kind, self.is_own)

    def _measured(self) -> dict[str, Any] | None:
        known = [costs for graph in self.view.costs for costs in graph.values() if costs.us is not None]
        if not known:
            return None
        us = [costs.us for costs in known if costs.us is not None]
        mb = [costs.mb for costs in known if costs.mb is not None]
        totals = [_sum([costs.us for costs in graph.values()]) for graph in self.view.costs]
        ranges = {"us": [min(us), max(us)], "mb": [min(mb, default=0), max(mb, default=0)]}
        return {**ranges, "totals": totals, "backend": self.view.measured_in}

    def _edges(self, arrangement: Arrangement, free_lines: FreeLines) -> list[dict[str, Any]]:
        entries = []
        boxes = self.boxes.boxes
        for link in self.links.links:
            entry: dict[str, Any] = {
                "a": link.source,
                "b": link.target,
                "v": [
                    [born, min(dies, self.end), self._label(label), self._kind(kind), int(is_narrow)]
                    for born, dies, label, kind, is_narrow in link.labels
                ],
            }
            if link.values > 1:
                entry["n"] = link.values
            route = () if link.is_tick else arrangement.lines.get((link.source, link.target), ())
            if link.is_tick:
                entry["tick"] = 1
            elif len(route) > 1:
                entry["p"] = [number for point in route for number in point]
            if len(route) > 2 and not (boxes[link.source].is_chip or boxes[link.target].is_chip):
                for interval in entry["v"]:
                    x = free_lines.x_between(link.source, link.target, interval[0], interval[1])
                    interval += [] if x is None else [x]
            entries.append(entry)
        return entries

    def _label(self, label: str) -> int:
        return self.labels.setdefault(label, len(self.labels)) if label else -1


def _sum(times: Sequence[float | None]) -> float | None:
    """The sum of those that were measured; None if none was."""
    measured = [time for time in times if time is not None]
    return round(sum(measured), 1) if measured else None


def _text(nodes: tuple[Any, ...]) -> str:
    lines = [node_line(node) for node in nodes]
    return "\n".join(line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}..." for line in lines)
