"""The correspondence of nodes between two graphs, such as two files whose names differ.

First come certain pairs: equal name and operator, equal name of a result, equal operator with equal weights. Further
pairs are found along edges from known pairs, by the strictest label first, in time linear in the number of edges.

Sources: Falleri et al., "Fine-grained and Accurate Source Code Differencing" (GumTree), ASE 2014: identical and unique
parts first, then what is connected with them; Shervashidze et al., "Weisfeiler-Lehman Graph Kernels", JMLR 12, 2011: a
node is identified by its label and the labels of its neighbours.

Throughout, x and y are nodes, or names of nodes, of the graphs a and b; u and v are values of a and b.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.ir import Graph, Node
from workbench.presentation.view.labels import BARE, COLOUR, COMPLETE, SHAPES, Labels, attributes_key, has_weights

_NAME, _OUTPUT, _STRUCTURE = "name", "output", "structure"
_METHODS = {_NAME: "by name", _OUTPUT: "by the name of the result", _STRUCTURE: "by structure"}
# Names are used if their agreement with the edges is at least this share of the agreement by structure.
_NAMES_PREFERENCE = 0.9
_HOPS = (2, 4, 8)  # edges between a pair and the next one; nodes between them have no counterpart
_MAX_BETWEEN = 100  # nodes that are searched between two pairs
_MAX_WIDTH = 50  # users of a value or operands of a node, above which a neighbouring pair is weak evidence


@dataclass(frozen=True)
class Correspondence:
    """The nodes of two graphs a and b that correspond.

    pairs:  name in b -> name in a, one to one.
    how:    name in b -> "name", "output" (same name of a result) or "structure".
    only_a, only_b: names without a counterpart, in topological order.
    """

    pairs: Mapping[str, str]
    how: Mapping[str, str]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Such as "312 nodes by name, 20 by structure; 5 only in the first, 3 only in the second"."""
        counts = Counter(self.how.values())
        results = [(counts[how], words) for how, words in _METHODS.items() if counts[how]]
        if not results:
            return f"no node corresponds; {self._unmatched_text}"
        first, *others = results
        nodes = f"{first[0]:,} node{'' if first[0] == 1 else 's'} {first[1]}"
        return f"{', '.join([nodes, *(f'{number:,} {words}' for number, words in others)])}; {self._unmatched_text}"

    @property
    def _unmatched_text(self) -> str:
        ends = [(len(self.only_a), "first"), (len(self.only_b), "second")]
        return ", ".join(f"{number:,} only in the {which}" for number, which in ends if number) or "none is left over"


def match_graphs(a: Graph, b: Graph) -> Correspondence:
    """Find the nodes of `b` that correspond to nodes of `a`.

    Nodes of equal name and operator are paired, unless structure alone explains edges and weights clearly better; then
    the names are misleading. Nodes of equal name and different operator are paired only if nothing better is found.
    Constants are read and hashed.
    """
    sides = Labels(a), Labels(b)
    names_first, structure_first = _Matcher(*sides), _Matcher(*sides)
    names_first.by_names()
    names_first.by_structure()
    structure_first.by_structure()
    structure_first.by_names()
    names_mislead = _NAMES_PREFERENCE * structure_first.agreement() > names_first.agreement()
    best = structure_first if names_mislead else names_first
    if not names_mislead:
        best.by_remaining_names()
    how = {y: _how(a.node(x), b.node(y)) for y, x in best.pairs.items()}
    return Correspondence(best.pairs, how, tuple(best.free_a), tuple(best.free_b))


def _how(x: Node, y: Node) -> str:
    if x.name == y.name:
        return _NAME
    return _OUTPUT if set(filter(None, x.outputs)).intersection(y.outputs) else _STRUCTURE


def with_names_of(a: Graph, b: Graph, pairs: Mapping[str, str]) -> Graph:
    """`b` with the names of `a` for corresponding nodes and values, so that both can be compared by name.

    Nodes of `pairs`, their results, the graph's inputs and outputs, and constants of equal contents get their name in
    `a`; equivalent attributes become equal. Any other name that `a` has too is replaced by a fresh one.
    """
    nodes = _names(b, {node.name for node in b.nodes}, pairs, {node.name for node in a.nodes})
    inner = {value for node in b.nodes for value in node.inner_values}
    new_names = {v: u for v, u in _values_by_pairs(a, b, pairs).items() if u not in inner}
    values = _names(b, set(b.values()), new_names, set(a.values()))

    def renamed_node(node: Node) -> Node:
        counterpart = a.find(pairs.get(node.name, ""))
        same = counterpart is not None and attributes_key(counterpart) == attributes_key(node) and not node.bodies
        node = node.with_values_renamed(values)
        outputs = tuple(values.get(v, v) for v in node.outputs)
        attributes = counterpart.attributes if counterpart is not None and same else node.attributes
        return node.replace(name=nodes.get(node.name, node.name), outputs=outputs, attributes=attributes)

    def with_new_names(table: Mapping[str, Any]) -> dict[str, Any]:
        return {values.get(value, value): entry for value, entry in table.items()}

    changed = {
        "inputs": [values.get(v, v) for v in b.inputs],
        "outputs": [values.get(v, v) for v in b.outputs],
        "constants": with_new_names(b.constants),
        "types": with_new_names(b.types),
        "bound_types": with_new_names(b.bound_types),
        "provenance": {nodes.get(name, name): made for name, made in b.provenance.items()},
    }
    return Graph(**b.constructor_arguments | changed, nodes=[renamed_node(node) for node in b.nodes])


def _names(b: Graph, old_names: set[str], new_names: Mapping[str, str], of_a: set[str]) -> dict[str, str]:
    """Old name -> new name: `new_names`, and a fresh name for any other that `a` has too. of_a: the names of `a`."""
    names = dict(new_names)
    used = of_a | set(names.values())
    for name in old_names - names.keys():
        if name in used:
            names[name] = b.fresh(name, used)
            used.add(names[name])
    return names


def _values_by_pairs(a: Graph, b: Graph, pairs: Mapping[str, str]) -> dict[str, str]:
    """Value of b -> value of a, one to one: inputs, outputs, results of pairs, their constants of equal contents."""
    results = {v: u for u, v in corresponding_inputs_or_outputs(a.inputs, b.inputs)}
    of_a, of_b = Labels(a), Labels(b)
    for y, x in pairs.items():
        one, other = a.node(x), b.node(y)
        results.update((v, u) for u, v in zip(one.outputs, other.outputs, strict=False) if u and v)
    value_of = {u: v for v, u in results.items()}
    # An output may be computed by one node more in one of the graphs, such as a Cast.
    for u, v in corresponding_inputs_or_outputs(a.outputs, b.outputs):
        if v not in results and value_of.get(u) not in b.outputs:
            results.pop(value_of.get(u, ""), None)
            results[v] = u
    used = set(results.values())
    for y, x in pairs.items():
        for u, v in zip(a.node(x).inputs, b.node(y).inputs, strict=False):
            if v in results or u in used or u not in a.constants or v not in b.constants:
                continue
            if of_a.content(u) == of_b.content(v):
                results[v] = u
                used.add(u)
    return results


def corresponding_inputs_or_outputs(a: tuple[str, ...], b: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Corresponding inputs (or outputs) of two graphs: by name; the others by position if both have equally many."""
    rest_a, rest_b = [v for v in a if v not in b], [v for v in b if v not in a]
    yield from ((v, v) for v in a if v in b)
    if len(rest_a) == len(rest_b):
        yield from zip(rest_a, rest_b, strict=True)


@dataclass(frozen=True)
class _Level:
    """How two nodes at an edge are paired.

    label:    must be equal for two nodes, and unique at that edge.
    hops:     how many edges away they may be; nodes between have no counterpart.
    in_order: whether several nodes of equal label are paired in order.
    """

    label: str
    hops: int = 1
    in_order: bool = False


_LEVELS = (
    _Level(COMPLETE),
    _Level(COMPLETE),  # again, for edges near new pairs
    _Level(COLOUR),
    _Level(SHAPES),
    _Level(BARE),
    *(_Level(label, hops) for hops in _HOPS for label in (COMPLETE, SHAPES, BARE)),
    _Level(COMPLETE, in_order=True),
    _Level(SHAPES, in_order=True),
)
_RETRY_LEVEL = 1  # the level of an edge after a new pair near it


@dataclass(frozen=True)
class _Edge:
    """Corresponding values of a and b. down: their users may correspond; else their producers."""

    of_a: tuple[str, ...]
    of_b: tuple[str, ...]
    down: bool


@dataclass
class _Matcher:
    """The pairs so far, and by level the edges along which more may be found."""

    a: Labels
    b: Labels
    pairs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free_a = dict.fromkeys(node.name for node in self.a.graph.nodes)
        self.free_b = dict.fromkeys(node.name for node in self.b.graph.nodes)
        self._value_in_a: dict[str, str] = {}
        self._queues: tuple[deque[_Edge], ...] = tuple(deque() for _ in _LEVELS)
        self._level_of: dict[_Edge, int] = {}
        self._upward: dict[str, list[_Edge]] = {}  # by value of b: edges at which its producer may be paired
        self._downward: dict[str, list[_Edge]] = {}  # by value of b: edges at which its users may be paired
        for u, v in corresponding_inputs_or_outputs(self.a.graph.inputs, self.b.graph.inputs):
            self._values_agree(u, v)
        for u, v in corresponding_inputs_or_outputs(self.a.graph.outputs, self.b.graph.outputs):
            self._add(_Edge((u,), (v,), down=False))

    # ---- by names ----------------------------------------------------------------------

    def by_names(self) -> None:
        """Pair nodes of equal name and operator, then of equal name of a result and equal operator."""
        self._pair_by_names(lambda x, y: self.a.label(x, BARE) == self.b.label(y, BARE))

    def by_remaining_names(self) -> None:
        """Pair the remaining nodes by name, whatever their operators."""
        self._pair_by_names(lambda x, y: True)

    def _pair_by_names(self, agree: Callable[[Node, Node], bool]) -> None:
        for same_name in (self.a.graph.find, self._result_of_a):
            for name in list(self.free_b):
                y = self.b.graph.node(name)
                x = same_name(name)
                if x is not None and x.name in self.free_a and agree(x, y):
                    self._pair(x, y)

    def _result_of_a(self, name: str) -> Node | None:
        """The node of a with a result of the same name as a result of this node of b."""
        producers = map(self.a.graph.producer, filter(None, self.b.graph.node(name).outputs))
        return next(filter(None, producers), None)

    def agreement(self) -> int:
        """How consistent the pairs are: the number of operands that correspond or are equal constants."""
        pairs = ((self.a.graph.node(x), self.b.graph.node(y)) for y, x in self.pairs.items())
        return sum(self._agree(u, v) for x, y in pairs for u, v in zip(x.inputs, y.inputs, strict=False))

    def _agree(self, u: str, v: str) -> bool:
        if u in self.a.graph.constants and v in self.b.graph.constants:
            return self.a.content(u) == self.b.content(v)
        return bool(v) and self._value_in_a.get(v) == u

    def _unique_pairs(self, label: str, weights_only: bool = False) -> Iterator[tuple[str, str]]:
        """Yields (name in b, name in a) of the nodes whose label is unique in both graphs."""
        of_a, of_b = (_unique(side, label, weights_only) for side in (self.a, self.b))
        yield from ((name, of_a[key]) for key, name in of_b.items() if key in of_a)

    # ---- along the edges ---------------------------------------------------------------

    def by_structure(self) -> None:
        """Pair nodes of equal unique labels, then nodes connected with pairs, the most certain first."""
        for seed, weights_only in ((COLOUR, False), (COMPLETE, True)):
            for y, x in self._unique_pairs(seed, weights_only):
                if x in self.free_a and y in self.free_b:
                    self._pair(self.a.graph.node(x), self.b.graph.node(y))
        while (level := next((i for i, edges in enumerate(self._queues) if edges), None)) is not None:
            edge = self._queues[level].popleft()
            if self._level_of.get(edge) != level:  # it was moved to an earlier level
                continue
            del self._level_of[edge]
            if self._pair_along(edge, _LEVELS[level]) and level + 1 < len(_LEVELS):
                self._enqueue(edge, level + 1)

    def _pair_along(self, edge: _Edge, level: _Level) -> bool:
        """Pair nodes at an edge of both graphs; returns whether unpaired nodes may be left at it."""
        of_b = self._candidates(self.b, self.free_b, edge.of_b, edge.down, level)
        of_a = self._candidates(self.a, self.free_a, edge.of_a, edge.down, level) if of_b else {}
        for key, ys in of_b.items():
            xs = of_a.get(key, [])
            if not xs or (not level.in_order and len(xs) + len(ys) > 2):
                continue
            if level.in_order and level.label != COMPLETE and len(xs) != len(ys):
                continue
            for x, y in zip(xs, ys, strict=False):
                if x.name in self.free_a and y.name in self.free_b:
                    self._pair(x, y)
        return bool(of_a and of_b)

    def _candidates(
        self, side: Labels, free: Mapping[str, None], values: tuple[str, ...], down: bool, level: _Level
    ) -> dict[Hashable, list[Node]]:
        """The nodes at an edge without a counterpart, by label and, at one hop, position; the nearest of each label."""
        results: dict[Hashable, list[Node]] = {}
        seen: set[str] = set()
        for _ in range(level.hops):
            layer: dict[Hashable, list[Node]] = {}
            beyond: list[str] = []
            for position, node in _adjacent(side.graph, values, down):
                if node.name not in free or (level.hops > 1 and node.name in seen):
                    continue
                seen.add(node.name)
                key = (side.label(node, level.label), position if level.hops == 1 else ())
                layer.setdefault(key, []).append(node)
                beyond += node.outputs if down else node.inputs
            results = {**layer, **results}
            values = tuple(dict.fromkeys(beyond))
            if not values or len(seen) > _MAX_BETWEEN:
                break
        return results

    def _pair(self, x: Node, y: Node) -> None:
        del self.free_a[x.name], self.free_b[y.name]
        self.pairs[y.name] = x.name
        for table, values in ((self._downward, y.inputs), (self._upward, y.outputs)):
            for edge in (edge for value in values for edge in table.get(value, ())):
                self._enqueue(edge, _RETRY_LEVEL)
        for u, v in zip(x.outputs, y.outputs, strict=False):
            if u and v:
                self._values_agree(u, v)
        self._add(_Edge(x.inputs, y.inputs, down=False))

    def _values_agree(self, u: str, v: str) -> None:
        self._value_in_a[v] = u
        self._add(_Edge((u,), (v,), down=True))

    def _add(self, edge: _Edge) -> None:
        width = len(self.b.graph.users(edge.of_b[0])) if edge.down else len(edge.of_b)
        table = self._downward if edge.down else self._upward
        for value in dict.fromkeys(edge.of_b) if width <= _MAX_WIDTH else ():
            table.setdefault(value, []).append(edge)
        self._enqueue(edge, 0)

    def _enqueue(self, edge: _Edge, level: int) -> None:
        if self._level_of.get(edge, len(_LEVELS)) > level:
            self._level_of[edge] = level
            self._queues[level].append(edge)


def _unique(side: Labels, label: str, weights_only: bool) -> dict[int, str]:
    """By label, the name of the node that has it, for labels that only one node has."""
    nodes = [node for node in side.graph.nodes if not weights_only or has_weights(side.graph, node)]
    counts = Counter(side.label(node, label) for node in nodes)
    return {key: node.name for node in nodes if counts[key := side.label(node, label)] == 1}


def _adjacent(graph: Graph, values: Iterable[str], down: bool) -> Iterator[tuple[tuple[int, ...], Node]]:
    """Yields the users of the values, or their producers, each with its positions as operand or result."""
    for position, value in enumerate(values):
        if down:
            for reader in graph.users(value):
                yield tuple(i for i, operand in enumerate(reader.inputs) if operand == value), reader
        elif value and (producer := graph.producer(value)) is not None:
            yield (position, producer.outputs.index(value)), producer
