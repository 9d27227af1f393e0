"""The size of closed groups, chosen so that their names and shapes can be read in a model's first picture."""

from __future__ import annotations

from collections.abc import Collection

from workbench.presentation.view.arrangement import arrange
from workbench.presentation.view.boxes import boxes_of
from workbench.presentation.view.engines import BoxSize
from workbench.presentation.view.groups import Group
from workbench.presentation.view.links import links_of
from workbench.presentation.view.timeline import Timeline

_SIZES = ((220, 84), (176, 84), (260, 84), (300, 84))  # pixels
_PANE = (500, 520)  # pixels of one of two panes in a window of 1366 x 768
_READABLE = (120, 34)  # pixels on the screen: a name of 15 letters, and a line for the shape


def size_of_groups(timeline: Timeline, root: Group, opened: Collection[str]) -> BoxSize:
    """The size in pixels of all closed groups. opened: ids of the groups that are open in the first picture.

    It is the first of a few sizes whose picture, fitted into a pane, shows most of a readable box.
    """
    if not any(group.id not in opened for group in root.below()):
        return _SIZES[0]
    return max(_SIZES, key=lambda size: _legibility(timeline, root, opened, size))


def _legibility(timeline: Timeline, root: Group, opened: Collection[str], size: BoxSize) -> float:
    """From 0 to 1: the product of the shares of a readable width and height that a closed group has on the screen."""
    boxes = boxes_of(timeline, root, opened, group_size=size)
    picture = arrange(boxes, links_of(timeline, boxes))
    zoom = min(_PANE[0] / picture.width, _PANE[1] / picture.height, 1.0)
    across, down = (min(1.0, side * zoom / least) for side, least in zip(size, _READABLE, strict=True))
    return across * down
