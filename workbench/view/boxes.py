"""The boxes of a picture: nodes, closed groups, frames of open groups, inputs and outputs, constants on request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from workbench.view import ids
from workbench.view.groups import Group
from workbench.view.node_style import NO_KIND, PLAIN, NodeStyle, shortened_name
from workbench.view.placement import Item
from workbench.view.timeline import FOREVER, Timeline, Version

NODE, GROUP, INPUT, OUTPUT, CONSTANT = "node", "group", "input", "output", "constant"
_LETTER, _SIDES = 6.5, 22  # pixels of a letter, and of a box beside its letters
_NARROWEST, _WIDEST = 84, 236
_HEIGHT, _LOW, _CHIP = 38, 24, 16  # of a box, of one of a single line, of a node on an edge
_MANY = 6  # so many inputs with a common prefix, such as a language model's past_key_values.*, become one box
_DIGITS = re.compile(r"\d")

Alive = tuple[int, int, NodeStyle]
_FRAME = NodeStyle("", "", "", PLAIN, NO_KIND, GROUP, "")


@dataclass
class Box:
    """A box of the picture, and when it exists.

    frame:   number of the box of the open group around it, or -1.
    group:   the group that it stands for, if any; members: the nodes in a closed group.
    is_chip: whether it is a node that exists only within a step, and lies on an edge without being placed.
    """

    id: str
    kind: str
    alive: list[Alive]
    frame: int = -1
    group: Group | None = None
    is_open: bool = False
    members: tuple[str, ...] = ()
    is_chip: bool = False

    @property
    def item(self) -> Item:
        """Its size, for placement."""
        if self.is_open:
            return Item(0, 0, self.frame, is_frame=True)
        width = max([self._letters(style) for *_, style in self.alive], default=0) * _LETTER + _SIDES
        if self.group is not None:
            width = max(width, 190)
        low = all(not style.detail for *_, style in self.alive)
        return Item(min(max(round(width), _NARROWEST), _WIDEST), _LOW if low else self._height, self.frame)

    @property
    def _height(self) -> int:
        return 50 if self.group is not None else _HEIGHT

    @staticmethod
    def _letters(style: NodeStyle) -> int:
        swatch = 2 if style.weights != NO_KIND else 0
        return max(len(style.op) + len(style.name) + 1 + swatch, len(style.detail))

    @property
    def chip_size(self) -> tuple[int, int]:
        letters = max(len(f"{style.op} {style.detail}") for *_, style in self.alive)
        return min(round(letters * _LETTER) + 10, _WIDEST), _CHIP


@dataclass
class Boxes:
    """The boxes of a picture; `number` is the box in which a node, or an end of an edge, is shown."""

    boxes: list[Box] = field(default_factory=list)
    number: dict[str, int] = field(default_factory=dict)

    def add(self, box: Box, stands_for: Iterable[str]) -> int:
        self.boxes.append(box)
        for name in stands_for:
            self.number[name] = len(self.boxes) - 1
        return len(self.boxes) - 1


def boxes_of(timeline: Timeline, root: Group, opened: set[str], constants: bool = False) -> Boxes:
    """The boxes that are shown if the groups with ids in `opened` are open."""
    boxes = Boxes()
    _public(boxes, timeline, ids.INPUT_ID, INPUT, timeline.inputs)
    _inside(boxes, timeline, root, opened, -1)
    _public(boxes, timeline, ids.OUTPUT_ID, OUTPUT, timeline.outputs)
    _short_lived(boxes, timeline)
    if constants:
        _constants(boxes, timeline)
    return boxes


def _inside(boxes: Boxes, timeline: Timeline, group: Group, opened: set[str], frame: int) -> None:
    for child in group.children:
        if isinstance(child, str):
            boxes.add(Box(child, NODE, _alive(timeline.versions[child]), frame), [child])
            continue
        if child.id in opened:
            alive = [(born, dies, _FRAME) for born, dies in _spans(timeline, child)]
            number = boxes.add(Box(child.id, GROUP, alive, frame, child, is_open=True), [])
            _inside(boxes, timeline, child, opened, number)
            continue
        members = tuple(child.members())
        boxes.add(_closed(timeline, child, members, frame), members)


def _spans(timeline: Timeline, group: Group) -> list[tuple[int, int]]:
    """When the frame of the open group is drawn: that of a fused group while it exists, any other always."""
    return timeline.groups[group.path[-1]] if group.fused else [(0, FOREVER)]


def _closed(timeline: Timeline, group: Group, members: tuple[str, ...], frame: int) -> Box:
    ops = Counter(timeline.versions[name][0].style.op for name in members)
    words = ", ".join(f"{count} {op}" for op, count in ops.most_common(3))
    detail = shortened_name(group.about or (words if len(ops) <= 3 else f"{words} ..."))
    style = NodeStyle(
        shortened_name(group.title),
        "1 node" if len(members) == 1 else f"{len(members):,} nodes",
        detail,
        PLAIN,
        NO_KIND,
        GROUP,
        "",
    )
    return Box(group.id, GROUP, [(0, FOREVER, style)], frame, group, members=members)


def _alive(versions: list[Version]) -> list[Alive]:
    return [(version.born, version.dies, version.style) for version in versions]


def _public(boxes: Boxes, timeline: Timeline, prefix: str, kind: str, values: Iterable[str]) -> None:
    """Boxes of inputs or outputs; many with a common prefix share one box."""
    beginnings: dict[str, list[str]] = {}
    for value in values:
        beginnings.setdefault(_DIGITS.split(value, maxsplit=1)[0], []).append(value)
    for beginning, named in beginnings.items():
        if len(named) >= _MANY:
            style = NodeStyle(f"{len(named)} {kind}s", f"{beginning}*", "", PLAIN, NO_KIND, kind, "")
            box = Box(f"{prefix}{beginning}*", kind, [(0, FOREVER, style)])
            boxes.add(box, [f"{prefix}{value}" for value in named])
            continue
        for value in named:
            id_ = f"{prefix}{value}"
            boxes.add(Box(id_, kind, [(0, FOREVER, timeline.styles_of_values[id_])]), [id_])


def _short_lived(boxes: Boxes, timeline: Timeline) -> None:
    """Nodes that exist only within a step: in a closed group if all their neighbours are in it, else on an edge."""
    names = [name for name in timeline.versions if name in timeline.short_lived]
    waiting = set(names)
    beside: dict[str, list[str]] = {name: [] for name in names}
    for edge in timeline.edges:
        for name, other in ((edge.source, edge.target), (edge.target, edge.source)):
            if name in waiting:
                beside[name].append(other)
    for name in names:
        homes = {boxes.number[other] for other in beside[name] if other in boxes.number}
        home = boxes.boxes[next(iter(homes))] if len(homes) == 1 else None
        if home is not None and home.members:
            home.members += (name,)
            boxes.number[name] = next(iter(homes))
            continue
        frame = min((boxes.boxes[number].frame for number in homes), default=-1)
        boxes.add(Box(name, NODE, _alive(timeline.versions[name]), frame, is_chip=True), [name])


def _constants(boxes: Boxes, timeline: Timeline) -> None:
    """A box for each constant that a shown node reads."""
    for value, users in _readers_of_constants(timeline, boxes).items():
        style = timeline.constant_styles[value]
        spans = [(v.born, v.dies, style) for name in users for v in timeline.versions[name] if value in v.node.operands]
        box = Box(f"{ids.CONSTANT_ID}{value}", CONSTANT, _joined(spans), boxes.boxes[boxes.number[users[0]]].frame)
        boxes.add(box, [box.id])


def _readers_of_constants(timeline: Timeline, boxes: Boxes) -> dict[str, list[str]]:
    """For each constant, the shown nodes that read it at any moment."""
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
    """Merge spans of the same look that touch or overlap."""
    joined: list[Alive] = []
    for born, dies, style in sorted(spans, key=lambda span: span[0]):
        if joined and born <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], dies), style)
        else:
            joined.append((born, dies, style))
    return joined
