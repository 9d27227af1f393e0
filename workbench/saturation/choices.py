"""An e-graph as a problem of choice: one e-node for each e-class that is needed, where constants cost nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from workbench.saturation.regions import AlgebraicRegion, ElementSizes
from workbench.saturation.saturating import EGraph, ENode


@dataclass(frozen=True)
class Option:
    """An e-node that may compute its e-class. All of one e-class compute equally many elements.

    needs:    e-classes that must be computed for it; those that cost nothing are left out.
    cost:     1 for an operator; 0 for what is there, or is computed once from constants.
    elements: that it computes in one run; 0 if the sizes are not known.
    """

    node: ENode
    needs: frozenset[int]
    cost: int
    elements: int


@dataclass(frozen=True)
class Choices:
    """options: by e-class. roots: the e-classes of the region's results. start: the options of the region as it is.

    sized: whether the elements of every option are known.
    free:  what to take for e-classes that are known before anything runs.
    floor: no selection has fewer operators, since each result reads all inputs that it reads in the region.
    """

    options: Mapping[int, Sequence[Option]]
    roots: tuple[int, ...]
    start: Mapping[int, Option]
    sized: bool
    free: Mapping[int, ENode]
    floor: int


def choices_of(region: AlgebraicRegion, egraph: EGraph, new_constants: bool) -> Choices:
    """The options of each e-class.

    new_constants: whether operators on constants that the region does not have may be computed once; where the result
    is not larger than the largest operand.
    """
    reading = _Reading(region, egraph, new_constants)
    roots = tuple(dict.fromkeys(egraph.eclass_of[place] for place in region.results))
    options = {eclass: reading.options(eclass) for eclass in reading.nodes}
    first = {node.eclass: node for node in reversed(reading.own)}  # of equal values, which no other of them computes
    start = {eclass: _option_of(options[eclass], node) for eclass, node in first.items()}
    sized = all(eclass in reading.sizes for eclass in reading.nodes)
    return Choices({e: o for e, o in options.items() if o}, roots, start, sized, reading.free, _floor(region))


def _option_of(options: Sequence[Option], node: ENode) -> Option:
    """The e-node's option, or that of a leaf, which stands for the whole e-class."""
    return next(option for option in options if option.node == node or not option.cost)


def _floor(region: AlgebraicRegion) -> int:
    """Operators that results need to bring their inputs together: n - 1 for n inputs, since none has more than two
    operands; results that share an input are counted together."""
    reads = [frozenset({place}) - region.constants for place in range(region.leaves)]
    for node in region.nodes:
        reads.append(frozenset().union(*(reads[region.place_of[value]] for value in node.inputs)))
    together: list[frozenset[int]] = []
    for place in region.results:
        inputs = reads[place]
        shared = [other for other in together if other & inputs]
        together = [other for other in together if other not in shared] + [inputs.union(*shared)]
    return sum(max(len(inputs) - 1, 0) for inputs in together)


class _Reading:
    """nodes: by e-class. own: the region's operators as e-nodes. leaves: e-classes of what the region reads.
    free: what to take for constant e-classes. sizes: of the tensors of e-classes, where known."""

    def __init__(self, region: AlgebraicRegion, egraph: EGraph, new_constants: bool) -> None:
        self.region, self.egraph = region, egraph
        self.nodes: dict[int, list[ENode]] = defaultdict(list)
        for node in egraph.nodes:
            self.nodes[node.eclass].append(node)
        self.own = [self._own(place) for place in range(region.leaves, len(region.values))]
        self.leaves = {node.eclass for node in egraph.nodes if self._is_given(node)}
        self.sizes = self._all_sizes()
        self.free = self._constants(new_constants)

    def options(self, eclass: int) -> list[Option]:
        if eclass in self.free:
            return [Option(self.free[eclass], frozenset(), 0, 0)]
        given = [node for node in self.nodes[eclass] if self._is_given(node)]
        if given:
            return [Option(given[0], frozenset(), 0, 0)]
        elements = math.prod(self.sizes.get(eclass, (0,)))
        operators = [node for node in self.nodes[eclass] if node.operator not in ("Value", "Num")]
        needs = [(node, frozenset(node.operands).difference(self.free, self.leaves)) for node in operators]
        return [Option(node, needed, 1, elements) for node, needed in needs if eclass not in node.operands]

    def _own(self, place: int) -> ENode:
        node = self.region.nodes[place - self.region.leaves]
        eclasses = self.egraph.eclass_of
        numbers = {number: eclass for eclass, number in self.egraph.numbers.items()}
        operands = [self.region.place_of[value] for value in node.inputs]
        own = self.region.numbers
        return ENode(node.op, eclasses[place], tuple(numbers[own[p]] if p in own else eclasses[p] for p in operands))

    def _is_given(self, node: ENode) -> bool:
        return node.operator == "Value" and int(node.datum) < self.region.leaves

    def _constants(self, new: bool) -> dict[int, ENode]:
        """What to take for each e-class that is known before anything runs; in an order that has no circle."""
        free = {node.eclass: node for node in self.egraph.nodes if node.operator == "Num"}
        for node in self.egraph.nodes:
            if self._is_given(node) and int(node.datum) in self.region.constants:
                free[node.eclass] = node
        own = set(self.own)
        waiting = [node for node in self.egraph.nodes if node.operator not in ("Num", "Value") and (new or node in own)]
        while True:
            results = [node for node in waiting if all(operand in free for operand in node.operands)]
            fresh = {node.eclass: node for node in results if node.eclass not in free and self._is_no_larger(node)}
            if not fresh:
                return free
            free |= fresh
            waiting = [node for node in waiting if node.eclass not in free]

    def _is_no_larger(self, node: ENode) -> bool:
        sizes = [math.prod(self.sizes.get(eclass, (math.inf,))) for eclass in node.operands]
        return math.prod(self.sizes.get(node.eclass, (math.inf,))) <= max(sizes) < math.inf

    def _all_sizes(self) -> dict[int, ElementSizes]:
        """The sizes of e-classes: of values as the graph has them, of others as operands broadcast."""
        sizes: dict[int, ElementSizes] = {node.eclass: () for node in self.egraph.nodes if node.operator == "Num"}
        for place, eclass in self.egraph.eclass_of.items():
            known = self.region.sizes[place]
            if known is not None:
                sizes[eclass] = known
        waiting = [node for node in self.egraph.nodes if node.operator not in ("Num", "Value")]
        while True:
            ready = [node for node in waiting if all(operand in sizes for operand in node.operands)]
            fresh = {
                node.eclass: _broadcast(sizes[operand] for operand in node.operands)
                for node in ready
                if node.eclass not in sizes
            }
            if not fresh:
                return sizes
            sizes |= fresh
            waiting = [node for node in waiting if node.eclass not in sizes]


def _broadcast(shapes: Iterable[ElementSizes]) -> ElementSizes:
    reversed_ = [shape[::-1] for shape in shapes]
    axes = zip_longest(*reversed_, fillvalue=1)
    return tuple(next((size for size in axis if size != 1), 1) for axis in axes)[::-1]
