"""Replaces the calls of a graph that hold the size of a batch by calls for a batch of any size.

The sizes of all values are computed for another batch, node by node. If a Reshape may put the batch on several axes,
the likeliest axis is tried first, and the next one if a later node does not take the resulting sizes.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx.shape_inference import InferenceError

from workbench.analysis.inference.bound_sizes import bound_types, inferred_shapes
from workbench.errors import UserError
from workbench.ir import Edit, Graph, Node
from workbench.ir.types import Shape
from workbench.rewrite.analyses.batched import Batched, Sized, batched, element_sizes
from workbench.rewrite.core.rule import NoMatch

BatchAxes = Mapping[tuple[str, int], str]  # the symbol of an input's axis

_FACTOR = 3  # the other batch, in units of the graph's
_MAX_TRIES = 200  # the most combinations of axes that are tried


class BatchError(UserError):
    """The graph does not take a batch of another size, or does not have an axis that was named."""


def in_any_batch(graph: Graph, axes: BatchAxes) -> tuple[dict[str, Batched], Sized]:
    """The replacement of each node that holds a size of the batch, by node name, and the sizes of a larger batch.

    Raises BatchError.
    """
    search = _Search(graph, axes)
    first: BatchError | None = None
    for _ in range(_MAX_TRIES):
        try:
            search.advance()
            return {name: one for name, one in search.replacements.items() if one.done}, search.sized
        except BatchError as error:
            first = first or error
        if not search.backtrack():
            break
    assert first is not None
    raise first


class _Search:
    """Depth-first search over the axes on which a Reshape may put the batch.

    replacements: the calls chosen so far, by node, in order.
    """

    def __init__(self, graph: Graph, axes: BatchAxes) -> None:
        types = bound_types(graph)
        old = {value: sizes for value, type_ in types.items() if (sizes := type_.static_shape) is not None}
        self.sized = Sized(graph.copy(), graph, old, _FACTOR, next(iter(axes)))
        self.replacements: dict[str, Batched] = {}
        self._types = types
        self._undo: dict[str, Edit] = {}
        self._choices: dict[str, int] = {}
        self._nodes, self._next = list(graph.nodes), 0
        self._dependent = {value for value, _ in axes}
        for value in graph.inputs:
            taken = enumerate(old.get(value, ()))
            self._retype({value: tuple(size * _FACTOR if (value, i) in axes else size for i, size in taken)})

    def advance(self) -> None:
        """Follow the nodes to the end. Raises BatchError at one that does not take its operands' sizes."""
        for index in range(self._next, len(self._nodes)):
            self._next = index
            self._follow(self._nodes[index])

    def backtrack(self) -> bool:
        """Return to the last node that may put the batch on another axis, and choose it; False if there is none."""
        last = next((name for name in reversed(self.replacements) if self.replacements[name].others), None)
        if last is None:
            return False
        names = list(self.replacements)
        for name in reversed(names[names.index(last) :]):
            self.sized.graph.apply(self._undo.pop(name))
            del self.replacements[name]
            choice = self._choices.pop(name)
        self._choices[last] = choice + 1
        self._next = next(index for index, node in enumerate(self._nodes) if node.name == last)
        return True

    def _follow(self, node: Node) -> None:
        graph = self.sized.graph
        if not self._dependent.intersection(node.operands):
            self._retype({value: self.sized.old.get(value) for value in node.outputs})
            return
        self._dependent.update(filter(None, node.outputs))
        choice = self._choices.get(node.name, 0)
        try:
            replaced = batched(self.sized, node, choice)
            elements = element_sizes(self.sized, node)
        except NoMatch as no:
            raise BatchError(f"the batch cannot have another size: {no}") from None
        call = node
        if replaced is not None:
            edit = Edit((node.name,), replaced.nodes, constants=replaced.constants, types=replaced.types)
            self._undo[node.name], self.replacements[node.name] = graph.apply(edit), replaced
            self._choices[node.name] = choice
            call = replaced.nodes[-1]
        sizes = {**_sizes_of(graph, call), **elements}
        self._retype({value: sizes.get(value) for value in call.outputs})
        for value in filter(self.sized.old.__contains__, call.outputs):
            inner = None if replaced is None else replaced.inner
            if inner is None:
                inner = self.sized.inner_of(value, call.inputs)
            self.sized.inner.pop(value, None)  # of another choice
            if inner is not None:
                self.sized.inner[value] = inner

    def _retype(self, shapes: Mapping[str, Shape]) -> None:
        types = {value: self._types[value].with_shape(shapes[value]) for value in shapes if value in self._types}
        self.sized.graph.apply(Edit(types=types))


def _sizes_of(graph: Graph, node: Node) -> dict[str, Shape]:
    try:
        return dict(inferred_shapes(graph, node, {}))
    except InferenceError:
        sizes = ", ".join(f"'{value}' of {list(graph.shape(value) or ())}" for value in node.operands[:3])
        raise BatchError(
            f"the batch cannot have another size: {node} does not take {sizes}, which are its operands' sizes for a "
            f"batch {_FACTOR} times as large"
        ) from None
