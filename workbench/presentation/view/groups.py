"""Groups of nodes: by the scopes that exporters write, by repeated blocks, and by stages of consecutive nodes.

A picture of a whole model has at most `MOST_BOXES` boxes, which open one level at a time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.ir import Node
from workbench.presentation.view import ids
from workbench.presentation.view.block_names import block_name
from workbench.presentation.view.repeats import repeats
from workbench.presentation.view.source_code import SCOPES, texts_in
from workbench.presentation.view.stages import Crossings, Entry, crossings_in, size_of_data, stages
from workbench.presentation.view.timeline import Timeline

MOST_BOXES = 24  # of the first picture of a model with groups, besides inputs and outputs
_MAX_UNGROUPED = 40  # nodes of a model that is drawn whole
_MIN_NODES = 3  # of a group
_MAX_CHILDREN = 20  # of a group; longer lists are cut into stages
_EQUAL_PARTS = 12  # of a list in which the size of the data does not change
_MIN_BETWEEN = 3  # consecutive nodes between groups that are a group of their own
_MIN_BLOCK = 4  # nodes of a repeated block; Conv and Relu repeated are no structure, unless more than _MAX_CHILDREN are
_FEW = 12  # nodes of a result that are drawn as nodes, if most of a larger model is gone
_ENOUGH = 6  # boxes; in a picture of fewer a group that has most of the nodes is dissolved


@dataclass
class Group:
    """A group of the tree.

    path:     titles from the root.
    children: groups and names of nodes, in the graph's order.
    same:     "x12 identical", "1 of 12 identical" or "".
    fused:    whether it is a fused group, whose operators one call computes.
    is_scope: whether a scope names it; else what its nodes compute.
    """

    path: tuple[str, ...]
    children: list[Group | str] = field(default_factory=list)
    same: str = ""
    fused: bool = False
    is_scope: bool = True

    @property
    def id(self) -> str:
        return ids.GROUP_ID + "/".join(part.replace("/", "\\/") for part in self.path)

    @property
    def title(self) -> str:
        """The last part of its path, without the enclosing scope as prefix: "0" for "layer1.0" in "layer1"."""
        *enclosing, last = self.path or ("",)
        return last.removeprefix(f"{enclosing[-1]}.") if enclosing and self.is_scope else last

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
    alone = _few_that_stay(timeline, names)
    grouped = [name for name in names if name not in alone]
    scopes = _with_fused(_all_scopes(timeline, grouped), timeline.group_of)
    root = _tree(grouped, scopes, set(timeline.group_of.values()))
    _simplify(root)
    numbers: dict[int, int] = {}
    signatures = {name: _signature(timeline.versions[name][0].node, timeline.shapes[name]) for name in grouped}
    _number(root, signatures, numbers)
    for group in [root, *root.below()]:
        _fold_repeats(group, signatures, numbers, timeline)
    if len(grouped) > _MAX_UNGROUPED:
        for group in [root, *root.below()]:
            if any(inner.is_scope for inner in group.groups()):
                _gather_between(group)  # else the size of the data tells more
        _split_long(root, timeline)
        for group in [root, *root.below()]:
            _gather_between(group)
        _dissolve_most(root)
    root.children = sorted([*root.children, *alone], key=lambda child: order[next(_names(child))])
    _set_paths(root, timeline)
    return root


def opened_at_first(root: Group) -> set[str]:
    """Ids of the groups that are open in the first picture: all of a small model, but for stacks."""
    if sum(1 for _ in root.members()) > _MAX_UNGROUPED:
        return set()
    return {group.id for group in root.below() if not group.is_folded}


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
    """Replace groups of a single child by that child, and dissolve groups of two nodes, and one of the whole model."""
    for inner in group.groups():
        _simplify(inner)
    only = group.children[0] if len(group.children) == 1 else None
    if not group.path and isinstance(only, Group) and not only.fused:
        group.children = only.children
    group.children = [item for child in group.children for item in _simplified(child)]


def _simplified(child: Group | str) -> list[Group | str]:
    if isinstance(child, str):
        return [child]
    if child.fused:
        return [child]
    is_small = len(child.children) == 1 or (len(child.children) < _MIN_NODES and not list(child.groups()))
    return child.children if is_small else [child]


def _few_that_stay(timeline: Timeline, names: Sequence[str]) -> set[str]:
    """The nodes of the last graph, if they are few of many: they are drawn as nodes beside the groups of the others."""
    stay = {name for name in names if timeline.versions[name][-1].lives_at(timeline.last)}
    return stay if len(stay) <= _FEW and len(names) > _MAX_UNGROUPED else set()


def _number(group: Group, signatures: Mapping[str, int], numbers: dict[int, int]) -> int:
    """Add a number of each group to `numbers`, by its Python id; returns the number of this group.

    Groups of equal operators, attributes, shapes and order share it.
    """
    inside = (
        signatures[child] if isinstance(child, str) else _number(child, signatures, numbers) for child in group.children
    )
    numbers[id(group)] = hash(tuple(inside))
    return numbers[id(group)]


def _signature(node: Node, shape: str) -> int:
    """A number that nodes of equal operator, attributes and result shape share."""
    plain = tuple((k, v) for k, v in sorted(node.attributes.items()) if isinstance(v, int | float | str | tuple))
    return hash((node.op, shape, repr(plain), len(node.inputs)))


def _fold_repeats(group: Group, signatures: Mapping[str, int], numbers: Mapping[int, int], timeline: Timeline) -> None:
    """Replace consecutive identical blocks by a group of groups, "x12 identical"."""
    row = [signatures[child] if isinstance(child, str) else numbers[id(child)] for child in group.children]
    children: list[Group | str] = []
    done = 0
    for start, period, times in repeats(row, _crossings(group, timeline).counts):
        nodes = sum(1 for child in group.children[start : start + period] for _ in _names(child))
        if nodes < _MIN_BLOCK and period * times <= _MAX_CHILDREN:
            continue
        children += group.children[done:start]
        blocks = [group.children[start + period * i : start + period * (i + 1)] for i in range(times)]
        children.append(_folded(blocks))
        done = start + period * times
    group.children = [*children, *group.children[done:]]
    only = group.children[0] if len(group.children) == 1 and group.path else None
    if isinstance(only, Group) and only.is_folded:
        group.children, group.same = only.children, only.same


def _folded(blocks: list[list[Group | str]]) -> Group:
    folded = _unnamed([block[0] if len(block) == 1 else _unnamed(block) for block in blocks])
    for number, group in enumerate(folded.groups(), 1):
        group.same = f"{number} of {len(blocks)} identical"
    folded.same = f"x{len(blocks)} identical"
    return folded


def _unnamed(children: list[Group | str]) -> Group:
    """A group that no scope names; `_set_paths` names it."""
    return Group((), children, is_scope=False)


def _split_long(group: Group, timeline: Timeline) -> None:
    """Cut long lists of children into stages. Identical blocks are a list that nobody reads, so they are left."""
    for inner in group.groups():
        _split_long(inner, timeline)
    if len(group.children) <= _MAX_CHILDREN or group.is_folded:
        return
    entries = [_entry(child, timeline) for child in group.children]
    cuts = [0, *stages(entries, _crossings(group, timeline), _MAX_CHILDREN, _EQUAL_PARTS), len(entries)]
    parts = [group.children[a:b] for a, b in itertools.pairwise(cuts)]
    group.children = [part[0] if len(part) == 1 else _unnamed(part) for part in parts]
    for inner in group.groups():
        _split_long(inner, timeline)


def _dissolve_most(root: Group) -> None:
    """Replace a group that has most of the nodes by what is in it, where there is else little to see at first."""
    total = sum(1 for _ in root.members())
    while len(root.children) < _ENOUGH:
        most = next((g for g in root.groups() if 2 * sum(1 for _ in g.members()) > total), None)
        if most is None or most.fused or most.is_folded or len(root.children) + len(most.children) > MOST_BOXES:
            return
        root.children = [inner for child in root.children for inner in (most.children if child is most else [child])]


def _crossings(group: Group, timeline: Timeline) -> Crossings:
    """The values that cross each position of the group's children."""
    index = {name: i for i, child in enumerate(group.children) for name in _names(child)}
    read = ((i, reader) for name, i in index.items() for reader in timeline.readers[name])
    return crossings_in(len(group.children), ((i, index[reader]) for i, reader in read if reader in index))


def _entry(child: Group | str, timeline: Timeline) -> Entry:
    names = list(_names(child))
    last = timeline.versions[names[-1]][0]
    return Entry(len(names), size_of_data(timeline.shapes[names[-1]], last.layouts[0] if last.layouts else ""))


def _gather_between(group: Group) -> None:
    """Replace consecutive nodes before, between and behind groups by a group of their own."""
    if not any(group.groups()):
        return
    parts = [(kind, list(part)) for kind, part in itertools.groupby(group.children, key=type)]
    group.children = []
    for kind, part in parts:
        group.children += [_unnamed(part)] if kind is str and len(part) >= _MIN_BETWEEN else part


def _names(child: Group | str) -> Iterator[str]:
    return iter((child,)) if isinstance(child, str) else child.members()


# ---- names ----------------------------------------------------------------------


def _set_paths(group: Group, timeline: Timeline) -> None:
    """Name the groups that no scope names, and set the paths of all: no two in a group have the same title.

    Parts of "bottleneck 2" that are bottlenecks are "bottleneck 2.1" and so on.
    """
    last = len(group.children) - 1
    scopes = Counter(child.path[-1] for child in group.groups() if child.is_scope)
    titles = {}
    for position, child in enumerate(group.children):
        if isinstance(child, str):
            continue
        if child.is_scope:  # scopes around it that held nothing else are gone, so that another one may end alike
            titles[id(child)] = child.path[-1] if scopes[child.path[-1]] == 1 else "/".join(child.path)
            continue
        at = (not group.path and position == 0, not group.path and position == last)
        titles[id(child)] = _name(child, timeline, *at)
    counts = Counter(titles.values())
    taken = {titles[id(child)] for child in group.groups() if child.is_scope}
    for child in group.groups():
        title = titles[id(child)]
        if not child.is_scope and (counts[title] > 1 or title in taken):
            around = group.path[-1] if group.path else ""
            start = f"{around}." if around.startswith(f"{title} ") else f"{title} "
            title = next(f"{start}{n}" for n in itertools.count(1) if f"{start}{n}" not in taken)
        taken.add(title)
        child.path = (*group.path, title)
        _set_paths(child, timeline)


def _name(group: Group, timeline: Timeline, is_first: bool, is_last: bool) -> str:
    """What a group is; identical blocks have the name of one."""
    scopes = [child.path[-1] for child in group.groups() if child.is_scope]
    if group.is_folded and scopes:
        return f"{scopes[0]} to {scopes[-1]}"
    if 2 * len(scopes) > len(group.children):
        return scopes[0] if len(scopes) == 1 else f"{scopes[0]} to {scopes[-1]}"
    if group.is_folded:
        is_first = is_last = False
    shown = list(_names(group.children[0])) if group.is_folded else list(group.members())
    nodes = [timeline.versions[name][0].node for name in shown]
    return block_name(nodes, timeline.shapes, timeline.constant_styles, is_first=is_first, is_last=is_last)
