"""The boxes of a picture: nodes, closed groups, frames of open groups, inputs, outputs, and optionally constants."""

from __future__ import annotations

import itertools
import re
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from workbench.presentation.view import ids
from workbench.presentation.view.block_names import OperatorKind, main_operators
from workbench.presentation.view.border_styles import FOREVER
from workbench.presentation.view.engines import BoxSize
from workbench.presentation.view.groups import Group
from workbench.presentation.view.node_style import NO_KIND, PLAIN, NodeStyle, shortened_name
from workbench.presentation.view.placement import Item
from workbench.presentation.view.timeline import Timeline, Version

NODE, GROUP, INPUT, OUTPUT, CONSTANT = "node", "group", "input", "output", "constant"
_LETTER_WIDTH, _SIDE_MARGINS = 6.5, 22  # pixels of a letter, and of both margins of a box
_MIN_WIDTH, _MAX_WIDTH = 84, 236
_HEIGHT, _LOW, _CHIP = 38, 24, 16  # pixels of a box, of a box with one line, of a chip
_GROUP = (220, 84)  # pixels of a closed group
_MIN_SHARED = 6  # inputs with a common prefix, such as past_key_values.*, that are shown as one box
_BY_TEXT: BoxSize = (0, 0)
_DIGITS = re.compile(r"\d")

Alive = tuple[int, int, NodeStyle]
_FRAME = NodeStyle("", "", "", PLAIN, NO_KIND, GROUP, "")


@dataclass
class Box:
    """A box of the picture.

    alive:   when it exists, and its style then.
    frame:   the number of the box of the open group around it, or -1.
    group:   the group that it shows, if any. members: the nodes of a closed group.
    size:    in pixels, of a closed group, and of a box in a frame that fills a pane; else it is what its text needs.
    is_chip: whether it is a node that exists only within a step; it lies on an edge and is not placed.
    """

    id: str
    kind: str
    alive: list[Alive]
    frame: int = -1
    group: Group | None = None
    is_open: bool = False
    members: tuple[str, ...] = ()
    size: BoxSize = _BY_TEXT
    is_chip: bool = False

    @property
    def item(self) -> Item:
        """Its size and frame, for the placement."""
        if self.is_open:
            return Item(0, 0, self.frame, is_frame=True)
        if self.size != _BY_TEXT:
            return Item(*self.size, self.frame)
        letters = max([self._letters(style) for *_, style in self.alive], default=0) * _LETTER_WIDTH + _SIDE_MARGINS
        width = min(max(round(letters), _MIN_WIDTH), _MAX_WIDTH)
        is_one_line = all(not style.detail for *_, style in self.alive)
        return Item(width, _LOW if is_one_line else _HEIGHT, self.frame)

    @staticmethod
    def _letters(style: NodeStyle) -> int:
        swatch = 2 if style.weights != NO_KIND else 0
        return max(len(style.op) + len(style.name) + 1 + swatch, len(style.detail))

    @property
    def chip_size(self) -> tuple[int, int]:
        letters = max(len(f"{style.op} {style.detail}") for *_, style in self.alive)
        return min(round(letters * _LETTER_WIDTH) + 10, _MAX_WIDTH), _CHIP


@dataclass
class Boxes:
    """The boxes of a picture. number: of the box that shows a node, an input or an output, by its id."""

    boxes: list[Box] = field(default_factory=list)
    number: dict[str, int] = field(default_factory=dict)

    def add(self, box: Box, stands_for: Iterable[str]) -> int:
        self.boxes.append(box)
        for name in stands_for:
            self.number[name] = len(self.boxes) - 1
        return len(self.boxes) - 1


def boxes_of(
    timeline: Timeline, root: Group, opened: Collection[str], constants: bool = False, group_size: BoxSize = _GROUP
) -> Boxes:
    """The boxes of the picture.

    opened: ids of the open groups. constants: whether constants have boxes. group_size: of a closed group, in pixels.
    """
    boxes = Boxes()
    _public(boxes, timeline, ids.INPUT_ID, INPUT, timeline.inputs)
    _inside(boxes, timeline, root, opened, group_size, -1)
    _public(boxes, timeline, ids.OUTPUT_ID, OUTPUT, timeline.outputs)
    _short_lived(boxes, timeline)
    if constants:
        _constants(boxes, timeline)
    return boxes


def _inside(
    boxes: Boxes, timeline: Timeline, group: Group, opened: Collection[str], group_size: BoxSize, frame: int
) -> None:
    for child in group.children:
        if isinstance(child, str):
            boxes.add(Box(child, NODE, _alive(timeline.versions[child]), frame), [child])
            continue
        if child.id in opened:
            alive = _frame_spans(timeline, child)
            number = boxes.add(Box(child.id, GROUP, alive, frame, child, is_open=True), [])
            _inside(boxes, timeline, child, opened, group_size, number)
            continue
        members = tuple(child.members())
        boxes.add(_closed(timeline, child, members, group_size, frame), members)


def _frame_spans(timeline: Timeline, group: Group) -> list[Alive]:
    """When the frame of an open group is drawn: of a fused group while it exists, else while it has a node."""
    if group.fused:
        return [(born, dies, _FRAME) for born, dies in timeline.groups[group.path[-1]]]
    return _joined([(v.born, v.dies, _FRAME) for name in group.members() for v in timeline.versions[name]])


def _closed(timeline: Timeline, child: Group, members: tuple[str, ...], size: BoxSize, frame: int) -> Box:
    """The box of a closed group, which exists while it has a node: with its operators and the shape of its result."""
    title = shortened_name(child.title)
    alive = [
        (born, dies, NodeStyle(title, operators, shape, PLAIN, NO_KIND, GROUP, ""))
        for born, dies, (operators, shape) in _contents(timeline, members)
    ]
    return Box(child.id, GROUP, alive, frame, child, members=members, size=size)


def _contents(timeline: Timeline, members: tuple[str, ...]) -> list[tuple[int, int, tuple[str, str]]]:
    """The main operators of a group and the shape of the last result that leaves it, while these last."""
    inside = set(members)
    leaving = {name for name in members if not timeline.readers[name] <= inside}
    changes: dict[int, list[tuple[int, int, Version]]] = {}  # by moment: one more (1) or less (-1) of this version
    for position, name in enumerate(members):
        for version in timeline.versions[name]:
            changes.setdefault(version.born, []).append((1, position, version))
            changes.setdefault(version.dies, []).append((-1, position, version))
    spans: list[tuple[int, int, tuple[str, str]]] = []
    operators, results = Counter[OperatorKind](), list[tuple[int, str]]()
    for born, dies in itertools.pairwise(sorted(changes)):
        for sign, position, version in changes[born]:
            operators[OperatorKind(version.style.op, version.style.category)] += sign
            if members[position] not in leaving:
                continue
            result = (position, version.shapes[0] if version.shapes else "")
            if sign > 0:
                insort(results, result)
            else:
                results.remove(result)
        living = +operators
        content = (main_operators(living, with_counts=True), results[-1][1] if results else "")
        if not living:
            continue
        if spans and spans[-1][1:] == (born, content):
            spans[-1] = (spans[-1][0], dies, content)
        else:
            spans.append((born, dies, content))
    return spans


def _alive(versions: list[Version]) -> list[Alive]:
    return [(version.born, version.dies, version.style) for version in versions]


def _public(boxes: Boxes, timeline: Timeline, prefix: str, kind: str, values: Iterable[str]) -> None:
    """Add boxes of inputs or outputs; many with a common prefix share one box."""
    by_prefix: dict[str, list[str]] = {}
    for value in values:
        by_prefix.setdefault(_DIGITS.split(value, maxsplit=1)[0], []).append(value)
    for common, names in by_prefix.items():
        if len(names) >= _MIN_SHARED:
            style = NodeStyle(f"{len(names)} {kind}s", f"{common}*", "", PLAIN, NO_KIND, kind, "")
            box = Box(f"{prefix}{common}*", kind, [(0, FOREVER, style)])
            boxes.add(box, [f"{prefix}{value}" for value in names])
            continue
        for value in names:
            id_ = f"{prefix}{value}"
            boxes.add(Box(id_, kind, timeline.styles_of_values[id_]), [id_])


def _short_lived(boxes: Boxes, timeline: Timeline) -> None:
    """Add nodes that exist only within a step: to a closed group with all their neighbours, else as chips."""
    names = [name for name in timeline.versions if name in timeline.short_lived]
    short_lived = set(names)
    neighbours: dict[str, list[str]] = {name: [] for name in names}
    for edge in timeline.edges:
        for name, other in ((edge.source, edge.target), (edge.target, edge.source)):
            if name in short_lived:
                neighbours[name].append(other)
    for name in names:
        numbers = {boxes.number[other] for other in neighbours[name] if other in boxes.number}
        only_box = boxes.boxes[next(iter(numbers))] if len(numbers) == 1 else None
        if only_box is not None and only_box.members:
            only_box.members += (name,)
            boxes.number[name] = next(iter(numbers))
            continue
        frame = min((boxes.boxes[number].frame for number in numbers), default=-1)
        boxes.add(Box(name, NODE, _alive(timeline.versions[name]), frame, is_chip=True), [name])


def _constants(boxes: Boxes, timeline: Timeline) -> None:
    """Add a box for each constant that a shown node reads."""
    for value, users in _readers_of_constants(timeline, boxes).items():
        style = timeline.constant_styles[value]
        spans = [(v.born, v.dies, style) for name in users for v in timeline.versions[name] if value in v.node.operands]
        box = Box(f"{ids.CONSTANT_ID}{value}", CONSTANT, _joined(spans), boxes.boxes[boxes.number[users[0]]].frame)
        boxes.add(box, [box.id])


def _readers_of_constants(timeline: Timeline, boxes: Boxes) -> dict[str, list[str]]:
    """By constant, the shown nodes that read it at any moment."""
    users: dict[str, list[str]] = {}
    for name, versions in timeline.versions.items():
        box = boxes.boxes[boxes.number[name]]
        if box.members or box.is_chip:
            continue
        for value in dict.fromkeys(value for version in versions for value in version.node.operands):
            if value in timeline.constant_styles:
                users.setdefault(value, []).append(name)
    return users


def _joined(spans: list[Alive]) -> list[Alive]:
    """The spans of a constant, where those that touch or overlap are merged."""
    joined: list[Alive] = []
    for born, dies, style in sorted(spans, key=lambda span: span[0]):
        if joined and born <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], dies), style)
        else:
            joined.append((born, dies, style))
    return joined
