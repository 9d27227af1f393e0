"""Groups of nodes: by the scopes that exporters write, by repeated blocks, and by runs of consecutive nodes.

A run of nodes in topological order is convex (no path leaves it and returns), so a graph of closed runs has no cycle.
Merging only chains would halve a graph at best.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.ir import Node
from workbench.view import ids
from workbench.view.node_style import NodeStyle, shortened_name
from workbench.view.source_code import SCOPES, texts_in
from workbench.view.timeline import Timeline

BUDGET = 1000  # boxes of the first picture; those too small to read are drawn as their group
_MAX_UNGROUPED = 80  # nodes of a picture without runs
_MIN_NODES = 3  # of a group
_MAX_CHILDREN = 40  # of a group; longer lists are split into runs
_MAX_PERIOD = 400  # nodes of a repeated block
_MIN_REPEATS = 3
_OPERATORS_IN_TITLE = 2  # of a group without a scope
_MAIN_CATEGORIES = ("convolution", "matmul", "recurrent")  # categories of operators that come first in a group's title
_MAX_END = 15  # characters of the first and last node's name
_MIN_BETWEEN = 4  # consecutive nodes between groups that are a group of their own
_MIN_BLOCK = 4  # nodes of a repeated block; Conv and Relu repeated are no structure


@dataclass
class Group:
    """A group of the tree.

    path:     titles from the root.
    children: groups and names of nodes, in the graph's order.
    same:     "x12 identical", "1 of 12 identical" or "".
    fused:    whether it is a fused group, whose operators one call computes.
    about:    its first and last node, if no scope names the group.
    """

    path: tuple[str, ...]
    children: list[Group | str] = field(default_factory=list)
    same: str = ""
    fused: bool = False
    about: str = ""

    @property
    def id(self) -> str:
        return ids.GROUP_ID + "/".join(part.replace("/", "\\/") for part in self.path)

    @property
    def title(self) -> str:
        """The last part of its path, without the enclosing scope as prefix: "0" for "layer1.0" in "layer1"."""
        *enclosing, last = self.path or ("",)
        return last.removeprefix(f"{enclosing[-1]}.") if enclosing else last

    @property
    def is_folded(self) -> bool:
        """Whether its children are identical blocks."""
        return self.same.startswith("x")

    def groups(self) -> Iterator[Group]:
        """The groups directly inside."""
        return (child for child in self.children if isinstance(child, Group))

    def members(self) -> Iterator[str]:
        """The names of all nodes inside, at any depth."""
        for child in self.children:
            if isinstance(child, Group):
                yield from child.members()
            else:
                yield child

    def below(self) -> Iterator[Group]:
        """All groups inside, at any depth."""
        for group in self.groups():
            yield group
            yield from group.below()


def group_nodes(timeline: Timeline) -> Group:
    """The tree of the timeline's nodes, without those that exist only within a step; its root is the model."""
    order = _order(timeline)
    names = [name for name in sorted(order, key=order.__getitem__) if name not in timeline.short_lived]
    scopes = _with_fused(_all_scopes(timeline, names), timeline.group_of)
    root = _tree(names, scopes, set(timeline.group_of.values()))
    _simplify(root)
    numbers = {name: _signature(timeline.versions[name][0].node, timeline.shapes[name]) for name in names}
    _numbered(root, numbers)
    styles = {name: timeline.versions[name][0].style for name in names}
    for group in [root, *root.below()]:
        _fold_repeats(group, numbers, styles)
    if len(names) > _MAX_UNGROUPED:
        _split_long(root, [(edge.source, edge.target) for edge in timeline.edges], styles)
        for group in [root, *root.below()]:
            _gather_between(group, styles)
    return root


def opened_at_first(root: Group, timeline: Timeline, budget: int = BUDGET) -> set[str]:
    """Ids of the groups that are open in the first picture: those with most changes, then the largest.

    budget: the maximum number of boxes.
    """
    changing = {group.id: sum(map(timeline.changes, group.members())) for group in root.below()}
    size = {group.id: sum(1 for _ in group.members()) for group in root.below()}
    queue = [(-changing[g.id], -size[g.id], i, g) for i, g in enumerate(root.groups())]
    heapq.heapify(queue)
    shown, opened = len(root.children), set[str]()
    number = len(queue)
    while queue:
        *_, group = heapq.heappop(queue)
        folded = group.is_folded and not changing[group.id]  # it says more when closed: "x12 identical"
        if folded or shown + len(group.children) > budget:
            continue
        shown += len(group.children)
        opened.add(group.id)
        for inner in group.groups():
            number += 1
            heapq.heappush(queue, (-changing[inner.id], -size[inner.id], number, inner))
    return opened


def flat(root: Group) -> Group:
    """The same nodes without groups."""
    return Group((), list(root.members()))


def groups_around(root: Group, name: str) -> list[Group]:
    """The groups around a node, the outermost first."""
    for group in root.groups():
        if any(member == name for member in group.members()):
            return [group, *groups_around(group, name)]
    return []


# ---- scopes ---------------------------------------------------------------------


def scope_of(node: Node) -> tuple[str, ...]:
    """The scopes that the exporter wrote, in the metadata or in the name, such as "/layer1/conv1/Conv"."""
    if node.metadata.get(SCOPES):
        return tuple(filter(None, texts_in(node.metadata, SCOPES)[:-1]))
    *scopes, _ = node.name.split("/")
    return tuple(filter(None, scopes))


def _all_scopes(timeline: Timeline, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The scopes of each node; an inserted node has the scope that its neighbours share."""
    neighbours: dict[str, set[str]] = {}
    for edge in timeline.edges:
        neighbours.setdefault(edge.source, set()).add(edge.target)
        neighbours.setdefault(edge.target, set()).add(edge.source)
    first = {name for name in names if timeline.versions[name][0].born == 0}
    scopes = {name: scope_of(timeline.versions[name][0].node) for name in first}
    for name in names:
        if name not in scopes:
            near = [scopes[other] for other in neighbours.get(name, ()) if other in scopes]
            scopes[name] = _shared(near)
    return scopes


def _with_fused(scopes: dict[str, tuple[str, ...]], group_of: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The scopes, where the operators of a fused group have the group as innermost scope."""
    members: dict[str, list[str]] = {}
    for name in scopes:
        if name in group_of:
            members.setdefault(group_of[name], []).append(name)
    shared = {group: _shared([scopes[name] for name in names]) for group, names in members.items()}
    return scopes | {name: (*shared[group], group) for group, names in members.items() for name in names}


def _shared(scopes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The longest common prefix."""
    shared = []
    for parts in zip(*scopes, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return tuple(shared)


def _order(timeline: Timeline) -> dict[str, float]:
    """Numbers that order all nodes as in the first graph, with later nodes just after their producers."""
    order: dict[str, float] = {}
    sources: dict[str, list[str]] = {}
    for edge in timeline.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    for number, (name, versions) in enumerate(timeline.versions.items()):
        if versions[0].born == 0:
            order[name] = float(number)
            continue
        after = max((order[source] for source in sources.get(name, ()) if source in order), default=-1.0)
        order[name] = after + (number + 1) / (2.0 * len(timeline.versions) + 2)
    return order


# ---- the tree -------------------------------------------------------------------


def _tree(names: Sequence[str], scopes: Mapping[str, tuple[str, ...]], fused: set[str]) -> Group:
    groups: dict[tuple[str, ...], Group] = {(): Group(())}
    for name in names:
        scope = scopes[name]
        for depth in range(1, len(scope) + 1):
            path = scope[:depth]
            if path not in groups:
                groups[path] = Group(path, fused=path[-1] in fused)
                groups[path[:-1]].children.append(groups[path])
        groups[scope].children.append(name)
    return groups[()]


def _simplify(group: Group) -> None:
    """Replace groups of a single child by that child, and dissolve groups of two nodes."""
    for inner in group.groups():
        _simplify(inner)
    group.children = [item for child in group.children for item in _simplified(child)]


def _simplified(child: Group | str) -> list[Group | str]:
    if isinstance(child, str):
        return [child]
    if child.fused:
        return [child]
    is_small = len(child.children) == 1 or (len(child.children) < _MIN_NODES and not list(child.groups()))
    return child.children if is_small else [child]


def _numbered(group: Group, numbers: dict[str, int]) -> int:
    """Add a number of each group to `numbers`; groups of equal operators, attributes, shapes and order share it.

    Returns the number of this group.
    """
    for inner in group.groups():
        numbers[inner.id] = _numbered(inner, numbers)
    return hash(tuple(numbers[_key(child)] for child in group.children))


def _key(child: Group | str) -> str:
    return child if isinstance(child, str) else child.id


def _signature(node: Node, shape: str) -> int:
    """A number that nodes of equal operator, attributes and result shape share."""
    plain = tuple((k, v) for k, v in sorted(node.attributes.items()) if isinstance(v, int | float | str | tuple))
    return hash((node.op, shape, repr(plain), len(node.inputs)))


def _fold_repeats(group: Group, numbers: dict[str, int], styles: Mapping[str, NodeStyle]) -> None:
    """Replace consecutive identical blocks by a group of groups, "x12 identical"."""
    row = np.array([numbers[_key(child)] for child in group.children])
    children: list[Group | str] = []
    done = 0
    for start, period, times in _repeats(row):
        if sum(1 for child in group.children[start : start + period] for _ in _names(child)) < _MIN_BLOCK:
            continue
        children += group.children[done:start]
        blocks = [group.children[start + period * i : start + period * (i + 1)] for i in range(times)]
        children.append(_folded(group, blocks, len(children) + 1, styles))
        done = start + period * times
    group.children = [*children, *group.children[done:]]


def _folded(group: Group, blocks: list[list[Group | str]], index: int, styles: Mapping[str, NodeStyle]) -> Group:
    inner = []
    for number, block in enumerate(blocks, 1):
        single = block[0] if len(block) == 1 else None
        block_group = single if isinstance(single, Group) else _titled(group, block, f"block {index}.{number}", styles)
        block_group.same = f"{number} of {len(blocks)} identical"
        inner.append(block_group)
    if inner[0].about:
        folded = _titled(group, list(inner), f"blocks {index}.1 to {index}.{len(blocks)}", styles)
    else:
        folded = Group((*group.path, f"{inner[0].title} to {inner[-1].title}"), list(inner))
    folded.same = f"x{len(blocks)} identical"
    return folded


def _titled(group: Group, children: list[Group | str], number: str, styles: Mapping[str, NodeStyle]) -> Group:
    """A group without a scope, in `group`; its title has its groups or operators, and `number`.

    Products and convolutions come first, then the most frequent operators.
    """
    titles = [child.title for child in children if isinstance(child, Group) and not child.about]
    if 2 * len(titles) > len(children):
        title = f"{titles[0]} to {titles[-1]}"
    else:
        counts = Counter(
            (styles[name].category in _MAIN_CATEGORIES, styles[name].op) for c in children for name in _names(c)
        )
        first = sorted(counts.items(), key=lambda item: (not item[0][0], -item[1]))[:_OPERATORS_IN_TITLE]
        title = ", ".join(f"{count} {op}" for (_, op), count in first)
    names = [name for child in (children[0], children[-1]) for name in _names(child)]
    ends = [shortened_name(styles[name].name or name, _MAX_END) for name in (names[0], names[-1])]
    return Group((*group.path, f"{title} ({number})"), children, about=" to ".join(ends))


def _repeats(row: np.ndarray) -> list[tuple[int, int, int]]:
    """Repetitions in a row of numbers, in order: (start, period, times); the longest ones are preferred."""
    results = []
    for period in range(1, min(_MAX_PERIOD, len(row) // _MIN_REPEATS) + 1):
        same = np.concatenate(([False], row[:-period] == row[period:], [False]))
        borders = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(borders[::2], borders[1::2], strict=True):
            times = int(end - start) // period + 1
            if times >= _MIN_REPEATS:
                results.append((times * period, -period, int(start), times))
    covered = np.zeros(len(row), dtype=bool)
    chosen = []
    for _, negative, start, times in sorted(results, reverse=True):
        stretch = slice(start, start - negative * times)
        if not covered[stretch].any():
            covered[stretch] = True
            chosen.append((start, -negative, times))
    return sorted(chosen)


def _split_long(group: Group, edges: Sequence[tuple[str, str]], styles: Mapping[str, NodeStyle]) -> None:
    """Split long lists of children into runs, at positions that the fewest values cross."""
    for inner in group.groups():
        _split_long(inner, edges, styles)
    count = len(group.children)
    if count <= _MAX_CHILDREN:
        return
    parts = min(_MAX_CHILDREN // 2, -(-count // (_MAX_CHILDREN // 2)))
    cuts = [0, *_cuts(group, edges, parts), count]
    runs = [group.children[a:b] for a, b in itertools.pairwise(cuts) if a < b]
    group.children = [
        _titled(group, stretch, f"{number} of {len(runs)}", styles) for number, stretch in enumerate(runs, 1)
    ]
    for inner in group.groups():
        _split_long(inner, edges, styles)


def _gather_between(group: Group, styles: Mapping[str, NodeStyle]) -> None:
    """Replace consecutive nodes before, between and behind groups by a group of their own."""
    if not any(group.groups()):
        return
    parts = [(kind, list(part)) for kind, part in itertools.groupby(group.children, key=lambda child: type(child))]
    number, group.children = 0, []
    for kind, part in parts:
        if kind is str and len(part) >= _MIN_BETWEEN:
            number += 1
            part = [_titled(group, part, f"part {number}", styles)]
        group.children += part


def _cuts(group: Group, edges: Sequence[tuple[str, str]], parts: int) -> list[int]:
    """Positions that split the children into about equal parts, where the fewest values cross."""
    index = {name: i for i, child in enumerate(group.children) for name in _names(child)}
    steps = np.zeros(len(group.children) + 1, dtype=int)
    for source, target in edges:
        if source in index and target in index:
            low, high = sorted((index[source], index[target]))
            steps[low + 1] += 1
            steps[high + 1 if high + 1 < len(steps) else high] -= 1
    crossing = np.cumsum(steps)
    size = len(group.children) / parts
    cuts = []
    for number in range(1, parts):
        middle = round(number * size)
        near = range(max(1, middle - int(size / 3)), min(len(group.children), middle + int(size / 3)) + 1)
        cuts.append(min(near, key=lambda i: (crossing[i], abs(i - middle))))
    return cuts


def _names(child: Group | str) -> Iterator[str]:
    return iter((child,)) if isinstance(child, str) else child.members()
