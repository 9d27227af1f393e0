"""An e-graph as a problem of choosing one e-node for each needed e-class; constants cost nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from workbench.planning.saturation.regions import AlgebraicRegion, ElementSizes
from workbench.planning.saturation.saturating import EGraph, ENode


@dataclass(frozen=True)
class Option:
    """An e-node that may compute its e-class. All options of an e-class compute the same number of elements.

    needs:    e-classes that must be computed for it, without those that cost nothing.
    cost:     1 for an operator; 0 for an existing value or one that is computed once from constants.
    elements: the number that it computes in one run; 0 if sizes are unknown.
    """

    node: ENode
    needs: frozenset[int]
    cost: int
    elements: int


@dataclass(frozen=True)
class Choices:
    """options: by e-class. roots: the e-classes of the region's results. start: the options of the unchanged region.

    all_sizes_known: whether the number of elements of every option is known.
    free: by constant e-class, the e-node to take.
    lower_bound: a bound for the operators of any selection: each result reads all inputs that it reads in the region.
    """

    options: Mapping[int, Sequence[Option]]
    roots: tuple[int, ...]
    start: Mapping[int, Option]
    all_sizes_known: bool
    free: Mapping[int, ENode]
    lower_bound: int


def choices_of(region: AlgebraicRegion, egraph: EGraph, new_constants: bool) -> Choices:
    """The options of each e-class.

    new_constants: whether operators on constants that the region does not have may be computed once, if the result
    is not larger than the largest operand.
    """
    reader = _EGraphReader(region, egraph, new_constants)
    roots = tuple(dict.fromkeys(egraph.eclass_of[index] for index in region.results))
    options = {eclass: reader.options(eclass) for eclass in reader.nodes}
    first_nodes = {
        node.eclass: node for node in reversed(reader.region_nodes)
    }  # of equal values the first, which none of the others computes
    start = {eclass: _option_of(options[eclass], node) for eclass, node in first_nodes.items()}
    all_sizes_known = all(eclass in reader.sizes for eclass in reader.nodes)
    return Choices(
        {e: o for e, o in options.items() if o}, roots, start, all_sizes_known, reader.free, _lower_bound(region)
    )


def _option_of(options: Sequence[Option], node: ENode) -> Option:
    """The option of the e-node, or that of a leaf, which stands for the whole e-class."""
    return next(option for option in options if option.node == node or not option.cost)


def _lower_bound(region: AlgebraicRegion) -> int:
    """The fewest operators that combine the inputs of results: n - 1 for n inputs, since no operator has more than two
    operands. Results that share an input are counted together."""
    reads = [frozenset({index}) - region.constants for index in range(region.leaves)]
    for node in region.nodes:
        reads.append(frozenset().union(*(reads[region.index_of[value]] for value in node.inputs)))
    input_sets: list[frozenset[int]] = []
    for index in region.results:
        inputs = reads[index]
        shared = [other for other in input_sets if other & inputs]
        input_sets = [other for other in input_sets if other not in shared] + [inputs.union(*shared)]
    return sum(max(len(inputs) - 1, 0) for inputs in input_sets)


class _EGraphReader:
    """nodes: by e-class. own: the region's operators as e-nodes. leaves: e-classes of values that the region reads.
    free: by constant e-class, the e-node to take. sizes: known sizes of tensors, by e-class."""

    def __init__(self, region: AlgebraicRegion, egraph: EGraph, new_constants: bool) -> None:
        self.region, self.egraph = region, egraph
        self.nodes: dict[int, list[ENode]] = defaultdict(list)
        for node in egraph.nodes:
            self.nodes[node.eclass].append(node)
        self.region_nodes = [self._enode(index) for index in range(region.leaves, len(region.values))]
        self.leaves = {node.eclass for node in egraph.nodes if self._is_leaf(node)}
        self.sizes = self._all_sizes()
        self.free = self._constants(new_constants)

    def options(self, eclass: int) -> list[Option]:
        if eclass in self.free:
            return [Option(self.free[eclass], frozenset(), 0, 0)]
        leaf_nodes = [node for node in self.nodes[eclass] if self._is_leaf(node)]
        if leaf_nodes:
            return [Option(leaf_nodes[0], frozenset(), 0, 0)]
        elements = math.prod(self.sizes.get(eclass, (0,)))
        operators = [node for node in self.nodes[eclass] if node.operator not in ("Value", "Num")]
        needs = [(node, frozenset(node.operands).difference(self.free, self.leaves)) for node in operators]
        return [Option(node, needed, 1, elements) for node, needed in needs if eclass not in node.operands]

    def _enode(self, index: int) -> ENode:
        node = self.region.nodes[index - self.region.leaves]
        eclasses = self.egraph.eclass_of
        numbers = {number: eclass for eclass, number in self.egraph.numbers.items()}
        operands = [self.region.index_of[value] for value in node.inputs]
        scalars = self.region.numbers
        return ENode(
            node.op, eclasses[index], tuple(numbers[scalars[p]] if p in scalars else eclasses[p] for p in operands)
        )

    def _is_leaf(self, node: ENode) -> bool:
        return node.operator == "Value" and int(node.datum) < self.region.leaves

    def _constants(self, new: bool) -> dict[int, ENode]:
        """For each constant e-class, the e-node to take; in an order without cycles."""
        free = {node.eclass: node for node in self.egraph.nodes if node.operator == "Num"}
        for node in self.egraph.nodes:
            if self._is_leaf(node) and int(node.datum) in self.region.constants:
                free[node.eclass] = node
        region_nodes = set(self.region_nodes)
        waiting = [
            node
            for node in self.egraph.nodes
            if node.operator not in ("Num", "Value") and (new or node in region_nodes)
        ]
        while True:
            ready = [node for node in waiting if all(operand in free for operand in node.operands)]
            fresh = {node.eclass: node for node in ready if node.eclass not in free and self._is_no_larger(node)}
            if not fresh:
                return free
            free |= fresh
            waiting = [node for node in waiting if node.eclass not in free]

    def _is_no_larger(self, node: ENode) -> bool:
        sizes = [math.prod(self.sizes.get(eclass, (math.inf,))) for eclass in node.operands]
        return math.prod(self.sizes.get(node.eclass, (math.inf,))) <= max(sizes) < math.inf

    def _all_sizes(self) -> dict[int, ElementSizes]:
        """The known sizes of e-classes: of the graph's values, and of others by broadcasting their operands."""
        sizes: dict[int, ElementSizes] = {node.eclass: () for node in self.egraph.nodes if node.operator == "Num"}
        for index, eclass in self.egraph.eclass_of.items():
            known = self.region.sizes[index]
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
