"""How large boxes are, and in how many columns they stand, chosen so that a model's first picture fills a pane."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from workbench.presentation.view.arrangement import Arrangement, arrange
from workbench.presentation.view.boxes import CONSTANT, GROUP, Boxes, boxes_of
from workbench.presentation.view.engines import BoxSize
from workbench.presentation.view.groups import Group
from workbench.presentation.view.links import Links, links_of
from workbench.presentation.view.placement import Columns
from workbench.presentation.view.timeline import Timeline

_PANE, _ONLY_PANE = (
    (531, 562),
    (780, 449),
)  # pixels in a window of 1366 x 768: of one of two, and of a model's first one
_MARGIN = 14  # pixels around the picture in it
_GROUP = (220, 84)  # pixels of a closed group in other pictures
_LEAST, _MOST = (
    (84, 46),
    (300, 170),
)  # pixels of a closed group: two lines of a name, and its shape; all that it can say
_LOW = 52  # pixels of height of a node, an input and an output: operator, name, details
_LOW_ALONE = 150  # pixels of height of a node in a picture without groups
_READABLE = (124, 60)  # pixels on the screen: a name of 16 letters; it, the shape, the cost, and what changed inside
_ENOUGH = 0.55  # of the pane; with as much, fewer columns are read more easily
_MAX_BOXES = 44  # in a picture that can fill a pane and be read
_MAX_COLUMNS, _MAX_INNER_COLUMNS = 6, 3  # of the picture, and of a frame in it
_TRIED: tuple[BoxSize, BoxSize] = ((140, 70), (180, 90))  # pixels; a picture grows evenly with its boxes


@dataclass(frozen=True)
class Overview:
    """The sizes of boxes in pixels, and the columns of frames.

    group:   of all closed groups. other: of nodes, inputs and outputs in frames that stand in columns.
    columns: by the frame's id, "" for the picture itself, the number of boxes in each column.
    closed:  by the same id, how many groups were closed in it.
    """

    group: BoxSize = _GROUP
    other: BoxSize = (0, 0)
    columns: Mapping[str, Columns] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)

    def arrange(self, boxes: Boxes, links: Links) -> Arrangement:
        """The picture. A frame of whose groups most are open by now has its boxes in layers: they differ in size."""
        columns = {id_: counts for id_, counts in self.columns.items() if _is_like_at_first(self, boxes, id_)}
        for box in boxes.boxes:
            if box.kind not in (GROUP, CONSTANT) and not box.is_chip and _frame_id(boxes, box.frame) in columns:
                box.size = self.other
        return arrange(boxes, links, columns)


def overview_of(timeline: Timeline, root: Group, opened: Collection[str]) -> Overview:
    """The overview of a model. opened: ids of the groups that are open in the first picture.

    It fits into one of two panes, and that of a history without a change into the only one.
    """
    pane = _PANE if timeline.last else _ONLY_PANE
    boxes = boxes_of(timeline, root, opened)
    links = links_of(timeline, boxes)
    placed = [i for i, box in enumerate(boxes.boxes) if not box.is_open and not box.is_chip]
    if len(placed) > _MAX_BOXES or _is_about_labels(boxes, links):
        return Overview()
    found = [_fitted(boxes, links, columns, pane) for columns in _choices(boxes)]
    return max(found, key=lambda overview: _quality(overview, boxes, links, pane))


def _is_about_labels(boxes: Boxes, links: Links) -> bool:
    """Whether it is of nodes alone and labels of its lines change, as layouts do: between columns both have no room."""
    texts = ({(text, kind) for _, _, text, kind, _ in link.labels} for link in links.links)
    return not any(box.members for box in boxes.boxes) and any(len(of_link) > 1 for of_link in texts)


def _choices(boxes: Boxes) -> Iterator[dict[str, Columns]]:
    """Numbers of columns of the picture and of the frames that are open in it, few columns first."""
    items = Counter(_frame_id(boxes, box.frame) for box in boxes.boxes if not box.is_chip)
    most = {id_: min(_MAX_INNER_COLUMNS if id_ else _MAX_COLUMNS, count) for id_, count in items.items()}
    numbers = [range(1, count + 1) for count in most.values()]
    if sum(map(len, numbers)) > 3 * _MAX_COLUMNS:
        numbers = [range(1, 2) if id_ else range(1, count + 1) for id_, count in most.items()]
    for chosen in itertools.product(*numbers):
        yield dict(zip(most, chosen, strict=True))


def _fitted(boxes: Boxes, links: Links, columns: Mapping[str, Columns], pane: BoxSize) -> Overview:
    """The overview with these columns whose boxes are as large as lets them be shown at zoom 1."""
    (w, h), (wider, higher) = _TRIED
    first, second = (_sized(boxes, size, columns).arrange(boxes, links) for size in _TRIED)
    across = (second.width - first.width) / (wider - w)
    down = (second.height - first.height) / (higher - h)
    space = [side - 2 * _MARGIN for side in pane]
    wanted = (
        w + (space[0] - first.width) / across if across > 0 else _MOST[0],
        h + (space[1] - first.height) / down if down > 0 else _MOST[1],
    )
    size = tuple(round(min(max(side, least), most)) for side, least, most in zip(wanted, _LEAST, _MOST, strict=True))
    overview = _sized(boxes, (size[0], size[1]), columns)
    return Overview(overview.group, overview.other, _counts(overview, boxes, links), overview.closed)


def _sized(boxes: Boxes, size: BoxSize, columns: Mapping[str, Columns]) -> Overview:
    closed = Counter(_frame_id(boxes, box.frame) for box in boxes.boxes if box.members)
    for box in boxes.boxes:
        if box.kind == GROUP and not box.is_open:
            box.size = size
    return Overview(size, (size[0], min(size[1], _LOW if closed else _LOW_ALONE)), columns, closed)


def _counts(overview: Overview, boxes: Boxes, links: Links) -> dict[str, Columns]:
    """How many boxes are in each column: those of a column are in line."""
    places = overview.arrange(boxes, links).places
    at: dict[str, Counter[int]] = {}
    for box, place in zip(boxes.boxes, places, strict=True):
        if not box.is_chip:
            at.setdefault(_frame_id(boxes, box.frame), Counter())[place.x] += 1
    return {id_: tuple(counts[x] for x in sorted(counts)) for id_, counts in at.items() if id_ in overview.columns}


def _quality(overview: Overview, boxes: Boxes, links: Links, pane: BoxSize) -> tuple[float, float]:
    """How well the picture can be read, from 0 to 1, and what of the pane its boxes fill."""
    overview = _sized(boxes, overview.group, overview.columns)
    picture = overview.arrange(boxes, links)
    zoom = min((side - 2 * _MARGIN) / of for side, of in zip(pane, (picture.width, picture.height), strict=True))
    shown = [p for p, box in zip(picture.places, boxes.boxes, strict=True) if not box.is_open and not box.is_chip]
    fill = sum(place.width * place.height for place in shown) * zoom**2 / (pane[0] * pane[1])
    side = overview.group if any(box.members for box in boxes.boxes) else overview.other
    across, down = (min(1.0, length * zoom / least) for length, least in zip(side, _READABLE, strict=True))
    return round(min(fill, _ENOUGH) * across * down, 2), -sum(map(_number, overview.columns.values()))


def _number(columns: Columns) -> int:
    return columns if isinstance(columns, int) else len(columns)


def _frame_id(boxes: Boxes, frame: int) -> str:
    """The id of a frame, "" for the picture."""
    return boxes.boxes[frame].id if frame >= 0 else ""


def _is_like_at_first(overview: Overview, boxes: Boxes, id_: str) -> bool:
    """Whether at least half of the groups are closed that were in a frame at first."""
    closed = sum(1 for box in boxes.boxes if box.members and _frame_id(boxes, box.frame) == id_)
    return 2 * closed >= overview.closed.get(id_, 0)
