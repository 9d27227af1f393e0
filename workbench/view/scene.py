"""The scene: all that the browser needs to draw a history at any moment, as JSON.

docs/view.md describes the format. Boxes are placed here, once for all moments;
the browser places nothing.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.ir import node_line
from workbench.view.arrangement import Arrangement, arrange
from workbench.view.boxes import Box, Boxes, boxes_of
from workbench.view.edge_shortcuts import Gaps
from workbench.view.groups import Group, flat, group_nodes, opened_at_first, way_to
from workbench.view.links import Links, links_of
from workbench.view.node_style import CLASSES, NodeStyle
from workbench.view.placement import Place
from workbench.view.timeline import Event, Timeline

_MOST_TEXTS = 1500  # rewrites up to which their texts are sent; of more, only the sentences
_LONGEST_LINE = 400  # characters of a node's text


@dataclass(frozen=True)
class Costs:
    """Measurements of a node: microseconds of one run, and megabytes of its results."""

    us: float | None = None
    mb: float | None = None


@dataclass
class View:
    """The user's choices for the picture: which groups are open, and what else is shown.

    costs: by name of node, for the graphs at the first and last moment.
    """

    timeline: Timeline
    title: str
    target: str
    chosen: dict[str, bool] = field(default_factory=dict)  # groups that the user opened (True) or closed
    constants: bool = False
    is_flat: bool = False
    costs: tuple[Mapping[str, Costs], Mapping[str, Costs]] = field(default_factory=lambda: ({}, {}))
    root: Group = field(init=False)
    opened: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.root = group_nodes(self.timeline)
        self.opened = opened_at_first(self.root, self.timeline)
        self._choose(self.chosen)

    def set_open(self, id_: str, is_open: bool, deep: bool) -> None:
        """Open or close a group, with `deep` all groups in it too; an unknown id changes nothing."""
        group = self._group(id_)
        if group is None:
            return
        ids = {id_, *(inner.id for inner in group.below())} if deep else {id_}
        self._choose(dict.fromkeys(ids, is_open))

    def reveal(self, *names: str) -> bool:
        """Open the groups that hide the nodes; returns whether any was closed."""
        hiding = {group.id: True for name in names for group in way_to(self.root, name)}
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
        return next((group for group in self.root.below() if group.id == id_), None)

    def boxes(self) -> Boxes:
        """The boxes that are shown now."""
        return boxes_of(self.timeline, flat(self.root) if self.is_flat else self.root, self.opened, self.constants)

    def scene(self, boxes: Boxes | None = None) -> dict[str, Any]:
        """The scene as shown now; `boxes` are those of now, if the caller has them."""
        boxes = self.boxes() if boxes is None else boxes
        return _Writer(self, boxes, links_of(self.timeline, boxes)).write()


def packed(entries: Mapping[str, Any] | Sequence[str]) -> tuple[str, str]:
    """A scene, or a table of texts, as base64 of gzip of JSON, with an id that changes with the content."""
    raw = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode(), hashlib.sha256(raw).hexdigest()[:16]


def steps_of(timeline: Timeline) -> list[dict[str, Any]]:
    """What a scene says of each step."""
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
    """Writes a scene; looks, words and categories are sent once each, and referred to by number."""

    def __init__(self, view: View, boxes: Boxes, links: Links) -> None:
        self.view, self.boxes, self.links = view, boxes, links
        self.end = view.timeline.last + 1
        self.styles: dict[tuple[NodeStyle, Costs], int] = {}
        self.words: dict[str, int] = {}
        self.categories: list[str] = []

    def write(self) -> dict[str, Any]:
        placed = arrange(self.boxes, self.links)
        places = placed.places
        timeline = self.view.timeline
        boxes = [self._box(box, where) for box, where in zip(self.boxes.boxes, places, strict=True)]
        edges = self._edges(placed, Gaps(self.boxes.boxes, places))
        styles = [self._look(style, costs) for style, costs in self.styles]
        return {
            "title": self.view.title,
            "T": timeline.last,
            "pair": int(timeline.is_pair),
            "nodes": sum(1 for versions in timeline.versions.values() if versions[0].born == 0),
            "steps": steps_of(timeline),
            "rewrites": [self._rewrite(event) for event in timeline.events],
            "categories": self.categories,
            "classes": list(CLASSES),
            "target": self.view.target,
            "looks": styles,
            "boxes": boxes,
            "edges": edges,
            "words": list(self.words),
            "measured": self._measured(),
            "width": placed.width,
            "height": placed.height,
        }

    def _rewrite(self, event: Event) -> dict[str, Any]:
        names = dict.fromkeys((*event.nodes, *(node.name for node in event.inserted)))
        numbers = dict.fromkeys(self.boxes.number[name] for name in names if name in self.boxes.number)
        entries = {"s": event.sentence, "c": event.case, "b": list(numbers)}
        if self.view.timeline.last <= _MOST_TEXTS:
            entries["g"], entries["a"] = _text(event.removed), _text(event.inserted)
        return entries

    def _box(self, box: Box, where: Place) -> dict[str, Any]:
        entries: dict[str, Any] = {
            "id": box.id,
            "kind": box.kind,
            "x": where.x,
            "y": where.y,
            "w": where.width,
            "h": where.height,
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
        if box.is_open:
            return entries
        timeline = self.view.timeline
        mix, inner, us, known = [0, 0, 0], [], 0.0, False
        for member, name in enumerate(box.members):
            versions = timeline.versions[name]
            costs = self._costs(name, versions[-1].born, versions[-1].dies)
            known, us = known or costs.us is not None, us + (costs.us or 0.0)
            if not timeline.changes(name):
                mix[versions[0].style.layout] += 1
                continue
            inner += [[v.born, min(v.dies, self.end), member, v.style.layout] for v in versions]
        return entries | {"n": sum(mix), "mix": mix, "inner": inner, "us": round(us, 1) if known else None}

    def _number(self, box: Box, style: NodeStyle, born: int, dies: int) -> int:
        if box.is_open:
            return -1
        costs = self._costs(box.id, born, dies) if box.kind == "node" else Costs()
        return self.styles.setdefault((style, costs), len(self.styles))

    def _costs(self, name: str, born: int, dies: int) -> Costs:
        before, after = self.view.costs
        if dies > self.view.timeline.last:
            return after.get(name, Costs())
        return before.get(name, Costs()) if born == 0 else Costs()

    def _look(self, style: NodeStyle, costs: Costs) -> dict[str, Any]:
        return {**style.report(self.categories), "us": costs.us, "mb": costs.mb}

    def _measured(self) -> dict[str, Any] | None:
        known = [costs for _, costs in self.styles if costs.us is not None]
        if not known:
            return None
        us, mb = [c.us for c in known if c.us is not None], [c.mb for c in known if c.mb is not None]
        return {"us": [min(us), max(us)], "mb": [min(mb, default=0), max(mb, default=0)]}

    def _edges(self, placed: Arrangement, gaps: Gaps) -> list[dict[str, Any]]:
        entries = []
        boxes = self.boxes.boxes
        for link in self.links.links:
            entry: dict[str, Any] = {
                "a": link.source,
                "b": link.target,
                "v": [[born, min(dies, self.end), self._word(words), kind] for born, dies, words, kind in link.said],
            }
            if link.values > 1:
                entry["n"] = link.values
            route = () if link.is_tick else placed.lines.get((link.source, link.target), ())
            if link.is_tick:
                entry["tick"] = 1
            elif len(route) > 1:
                entry["p"] = [number for point in route for number in point]
            if len(route) > 2 and not (boxes[link.source].is_chip or boxes[link.target].is_chip):
                for message in entry["v"]:
                    x = gaps.straight(link.source, link.target, message[0], message[1])
                    message += [] if x is None else [x]
            entries.append(entry)
        return entries

    def _word(self, words: str) -> int:
        return self.words.setdefault(words, len(self.words)) if words else -1


def _text(nodes: tuple[Any, ...]) -> str:
    lines = [node_line(node) for node in nodes]
    return "\n".join(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..." for line in lines)
