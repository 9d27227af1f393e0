"""Nodes in groups: by the scopes that exporters write, by repeated blocks, or by runs of consecutive nodes.

A run of nodes in topological order is convex (no path leaves it and comes
back), so a graph of closed runs has no cycle. Merging chains alone would
only halve a graph.
"""

from __future__ import annotations

import ast
import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.ir import Node
from workbench.view import ids
from workbench.view.node_style import NodeStyle, shortened_name
from workbench.view.timeline import Timeline

BUDGET = 200  # boxes of a picture as it is first shown
_FEWEST_NODES = 3  # of a group
_MOST_CHILDREN = 40  # entries of a group; longer lists are split
_LONGEST_PERIOD = 400  # nodes of a block whose repetition is searched
_FEWEST_REPEATS = 3
_OPERATORS_IN_TITLE = 2  # of a group that no scope names
_HEAVY = ("convolution", "matmul", "recurrent")  # categories of operators that say most of what a group does
_LONGEST_END = 15  # characters of the first and last node's name
_SMALLEST_BLOCK = 4  # nodes of a block that repeats: two in a row, such as Conv and Relu, are no structure
_SCOPES = "pkg.torch.onnx.name_scopes"  # written by torch's dynamo exporter, a list as Python prints it


@dataclass
class Group:
    """A group of the tree: `children` are groups and names of nodes, in the graph's order.

    path: titles from the root; same: "x12 identical", "1 of 12 identical" or "".
    fused: whether it is a group of operators that one call computes.
    about: from which node to which it goes, if its title says what it holds.
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
        """The last part of its path, without what the enclosing scope says: "layer1.0" in "layer1" is "0"."""
        *above, last = self.path or ("",)
        return last.removeprefix(f"{above[-1]}.") if above else last

    @property
    def is_folded(self) -> bool:
        """Whether it holds identical blocks in a row."""
        return self.same.startswith("x")

    def groups(self) -> Iterator[Group]:
        """The groups directly inside."""
        return (child for child in self.children if isinstance(child, Group))

    def members(self) -> Iterator[str]:
        """All nodes inside, at any depth."""
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
    """The tree of all nodes of the timeline, without those that exist only within a step; its root is the model."""
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
    if len(names) > BUDGET:
        _split_long(root, [(edge.source, edge.target) for edge in timeline.edges], styles)
    return root


def opened_at_first(root: Group, timeline: Timeline, budget: int = BUDGET) -> set[str]:
    """Ids of the groups that are open: those with most changes first, then the largest, within the budget."""
    changing = {group.id: sum(map(timeline.changes, group.members())) for group in root.below()}
    size = {group.id: sum(1 for _ in group.members()) for group in root.below()}
    waiting = [(-changing[g.id], -size[g.id], i, g) for i, g in enumerate(root.groups())]
    heapq.heapify(waiting)
    shown, opened = len(root.children), set[str]()
    number = len(waiting)
    while waiting:
        *_, group = heapq.heappop(waiting)
        folded = group.is_folded and not changing[group.id]  # more informative if closed: "x12 identical"
        if folded or shown + len(group.children) > budget:
            continue
        shown += len(group.children)
        opened.add(group.id)
        for inner in group.groups():
            number += 1
            heapq.heappush(waiting, (-changing[inner.id], -size[inner.id], number, inner))
    return opened


def flat(root: Group) -> Group:
    """The same nodes without groups."""
    return Group((), list(root.members()))


def way_to(root: Group, name: str) -> list[Group]:
    """The groups around the node, the outermost first; empty if it is in none."""
    for group in root.groups():
        if any(member == name for member in group.members()):
            return [group, *way_to(group, name)]
    return []


# ---- scopes ---------------------------------------------------------------------


def scope_of(node: Node) -> tuple[str, ...]:
    """The scopes that the exporter wrote, in metadata or in the name: "/layer1/conv1/Conv"."""
    written = node.metadata.get(_SCOPES)
    if written:
        return _from_metadata(written)
    *scopes, _ = node.name.split("/")
    return tuple(filter(None, scopes))


def _from_metadata(written: str) -> tuple[str, ...]:
    try:
        scopes = ast.literal_eval(written)
    except (ValueError, SyntaxError):
        return ()  # someone else's metadata of that name
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        return ()
    return tuple(filter(None, scopes[:-1]))


def _all_scopes(timeline: Timeline, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Scopes by node; a node that a pass inserted is in the scope that its neighbours share."""
    beside: dict[str, set[str]] = {}
    for edge in timeline.edges:
        beside.setdefault(edge.source, set()).add(edge.target)
        beside.setdefault(edge.target, set()).add(edge.source)
    first = {name for name in names if timeline.versions[name][0].born == 0}
    scopes = {name: scope_of(timeline.versions[name][0].node) for name in first}
    for name in names:
        if name not in scopes:
            near = [scopes[other] for other in beside.get(name, ()) if other in scopes]
            scopes[name] = _shared(near)
    return scopes


def _with_fused(scopes: dict[str, tuple[str, ...]], group_of: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The scopes, where the operators of a fused group are in one more, within the scope that they share."""
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
    """An order of all nodes: that of the first graph, with later nodes just after their operands."""
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
    """Replace a group that holds a single group by that one, and dissolve groups of two nodes, which only hide them."""
    for inner in group.groups():
        _simplify(inner)
    group.children = [kept for child in group.children for kept in _kept(child)]


def _kept(child: Group | str) -> list[Group | str]:
    if isinstance(child, str):
        return [child]
    if child.fused:
        return [child]
    few = len(child.children) == 1 or (len(child.children) < _FEWEST_NODES and not list(child.groups()))
    return child.children if few else [child]


def _numbered(group: Group, numbers: dict[str, int]) -> int:
    """Give each group inside a number that identical groups share: same operators, attributes, shapes, order."""
    for inner in group.groups():
        numbers[inner.id] = _numbered(inner, numbers)
    return hash(tuple(numbers[_key(child)] for child in group.children))


def _key(child: Group | str) -> str:
    return child if isinstance(child, str) else child.id


def _signature(node: Node, shape: str) -> int:
    """A number shared by nodes of the same operator, attributes and type of result."""
    plain = tuple((k, v) for k, v in sorted(node.attributes.items()) if isinstance(v, int | float | str | tuple))
    return hash((node.op, shape, repr(plain), len(node.inputs)))


def _fold_repeats(group: Group, numbers: dict[str, int], styles: Mapping[str, NodeStyle]) -> None:
    """Consecutive identical blocks become a group of groups, "x12 identical"."""
    row = np.array([numbers[_key(child)] for child in group.children])
    children: list[Group | str] = []
    done = 0
    for start, period, times in _repeats(row):
        if sum(1 for child in group.children[start : start + period] for _ in _names(child)) < _SMALLEST_BLOCK:
            continue
        children += group.children[done:start]
        blocks = [group.children[start + period * i : start + period * (i + 1)] for i in range(times)]
        children.append(_folded(group, blocks, len(children) + 1, styles))
        done = start + period * times
    group.children = [*children, *group.children[done:]]


def _folded(group: Group, blocks: list[list[Group | str]], place: int, styles: Mapping[str, NodeStyle]) -> Group:
    inner = []
    for number, block in enumerate(blocks, 1):
        alone = block[0] if len(block) == 1 else None
        one = alone if isinstance(alone, Group) else _named(group, block, f"block {place}.{number}", styles)
        one.same = f"{number} of {len(blocks)} identical"
        inner.append(one)
    if inner[0].about:
        folded = _named(group, list(inner), f"blocks {place}.1 to {place}.{len(blocks)}", styles)
    else:
        folded = Group((*group.path, f"{inner[0].title} to {inner[-1].title}"), list(inner))
    folded.same = f"x{len(blocks)} identical"
    return folded


def _named(group: Group, children: list[Group | str], number: str, styles: Mapping[str, NodeStyle]) -> Group:
    """A group in `group` that no scope names: named by its groups or operators, and the number.

    Products and convolutions come first, then the commonest operators.
    """
    titles = [child.title for child in children if isinstance(child, Group) and not child.about]
    if 2 * len(titles) > len(children):
        held = f"{titles[0]} to {titles[-1]}"
    else:
        counts = Counter((styles[name].category in _HEAVY, styles[name].op) for c in children for name in _names(c))
        first = sorted(counts.items(), key=lambda item: (not item[0][0], -item[1]))[:_OPERATORS_IN_TITLE]
        held = ", ".join(f"{count} {op}" for (_, op), count in first)
    names = [name for child in (children[0], children[-1]) for name in _names(child)]
    ends = [shortened_name(styles[name].name or name, _LONGEST_END) for name in (names[0], names[-1])]
    return Group((*group.path, f"{held} ({number})"), children, about=" to ".join(ends))


def _repeats(row: np.ndarray) -> list[tuple[int, int, int]]:
    """Runs of the row that repeat, in order: (start, period, times); the longest are chosen first."""
    results = []
    for period in range(1, min(_LONGEST_PERIOD, len(row) // _FEWEST_REPEATS) + 1):
        same = np.concatenate(([False], row[:-period] == row[period:], [False]))
        turns = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(turns[::2], turns[1::2], strict=True):
            times = int(end - start) // period + 1
            if times >= _FEWEST_REPEATS:
                results.append((times * period, -period, int(start), times))
    taken = np.zeros(len(row), dtype=bool)
    chosen = []
    for _, negative, start, times in sorted(results, reverse=True):
        stretch = slice(start, start - negative * times)
        if not taken[stretch].any():
            taken[stretch] = True
            chosen.append((start, -negative, times))
    return sorted(chosen)


def _split_long(group: Group, edges: Sequence[tuple[str, str]], styles: Mapping[str, NodeStyle]) -> None:
    """Split a long list of children into runs, cut where the fewest values cross."""
    for inner in group.groups():
        _split_long(inner, edges, styles)
    count = len(group.children)
    if count <= _MOST_CHILDREN:
        return
    parts = min(_MOST_CHILDREN // 2, -(-count // (_MOST_CHILDREN // 2)))
    cuts = [0, *_cuts(group, edges, parts), count]
    stretches = [group.children[a:b] for a, b in itertools.pairwise(cuts) if a < b]
    group.children = [
        _named(group, stretch, f"{number} of {len(stretches)}", styles) for number, stretch in enumerate(stretches, 1)
    ]
    for inner in group.groups():
        _split_long(inner, edges, styles)


def _cuts(group: Group, edges: Sequence[tuple[str, str]], parts: int) -> list[int]:
    """Where to cut the list of children: near even distances, where the fewest values cross."""
    place = {name: i for i, child in enumerate(group.children) for name in _names(child)}
    steps = np.zeros(len(group.children) + 1, dtype=int)
    for source, target in edges:
        if source in place and target in place:
            low, high = sorted((place[source], place[target]))
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
