"""Let the file take a batch of any size: sizes of inputs that count a batch become symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workbench.analysis.inference.shapes import infer_types
from workbench.errors import counted
from workbench.ir import Edit, Graph, TensorType
from workbench.ir.types import Dim
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite
from workbench.rewrite.analyses.any_batch import BatchAxes, BatchError, in_any_batch
from workbench.rewrite.analyses.batched import Sized
from workbench.rewrite.core.passes import option

_AXIS = re.compile(r"(?P<input>.+):(?P<axis>\d{1,2})=(?P<symbol>[A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True)
class FreeDims(Pass):
    """The named axes of inputs count a batch: their sizes become symbols. Sizes of the batch that calls hold become
    open too:

    - a Reshape takes the axis from its operand (0), or computes it (-1);
    - an Expand leaves the axis as it is, a Resize to given sizes leaves it out;
    - an operand of one row that is joined to rows of the batch, such as a class token or the initial state of an LSTM,
      is expanded to as many rows.

    Verification then also runs a batch twice as large; each half must give what the original gives for that half alone.
    It runs first, so that the passes after it do not take the old sizes for constants. The pass is in no preset.

    Does not apply, and says which node, if an operator does not take other sizes, or if it mixes the batch with other
    axes.

    Source: static exports of torch, in which `x.view(x.size(0), -1)` has become a Reshape to [1, -1].
    """

    title = "Take a batch of any size"
    exactness = Exactness.BIT_EXACT

    axes: str = option(
        "", "The axes that count the batch, each with its symbol, as in images:0=N, separated by commas."
    )

    extra_examples = (
        Example(
            title="An image becomes a batch of images; a Reshape held its size",
            before="""g (float[1,2,2,2] x) => (float[1,8] y) <int64[2] s = {1, 8}> {
                a = Relu(x)
                y = Reshape(a, s)
            }""",
            after="""g (float[N,2,2,2] x) => (float[N,8] y) <int64[2] s_of_any_batch = {0, 8}> {
                a = Relu(x)
                y = Reshape(a, s_of_any_batch)
            }""",
            sentences=("N counts 'x' along axis 0, which was 1; Reshape 'Reshape_y' no longer fixes axis 0",),
            options={"axes": "x:0=N"},
        ),
        Example(
            title="A row that is joined to each of the batch",
            before="""g (float[1,2,3] x) => (float[1,3,3] y) <float[1,1,3] token = {1, 2, 3}> {
                y = Concat<axis=1>(token, x)
            }""",
            after="""g (float[N,2,3] x) => (float[N,3,3] y)
                <float[1,1,3] token = {1, 2, 3}, int64[2] token_ones = {1, 1}> {
                token_batch = Shape<start=0, end=1>(x)
                token_sizes = Concat<axis=0>(token_batch, token_ones)
                token_expanded = Expand(token, token_sizes)
                y = Concat<axis=1>(token_expanded, x)
            }""",
            sentences=(
                "N counts 'x' along axis 0, which was 1; 1 operand of Concat 'Concat_y' gets the rows of the batch",
            ),
            options={"axes": "x:0=N"},
        ),
    )

    def new_dims(self, graph: Graph) -> dict[str, int]:
        return {symbol: _size(graph, value, axis) for (value, axis), symbol in self._axes(graph).items()}

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        axes = self._axes(graph)
        if not axes:
            return
        result, sized = in_any_batch(graph, axes)
        nodes = tuple(node for change in result.values() for node in change.nodes)
        constants = {name: tensor for change in result.values() for name, tensor in change.constants.items()}
        untyped = Edit(remove=tuple(result), insert=nodes, constants=constants)
        types = _types(graph, untyped, axes, sized)
        counts = ", ".join(
            f"{symbol} counts '{value}' along axis {axis}, which was {_size(graph, value, axis):,}"
            for (value, axis), symbol in axes.items()
        )
        changes = [change.done for change in result.values()]
        sentence = "; ".join(
            [counts, *changes[:2], *([f"{counted(len(changes) - 2, 'other node')} likewise"] if changes[2:] else [])]
        )
        edit = Edit(remove=tuple(result), insert=nodes, constants=constants, types=types)
        readers = dict.fromkeys(node.name for value, _ in axes for node in graph.users(value))
        yield Rewrite(edit, sentence, (*dict.fromkeys((*result, *readers)),))

    def _axes(self, graph: Graph) -> BatchAxes:
        """The symbol of each named axis of an input, if it is not that symbol already. Raises BatchError."""
        results: dict[tuple[str, int], str] = {}
        for part in filter(None, (part.strip() for part in self.axes.split(","))):
            match = _AXIS.fullmatch(part)
            if match is None:
                raise BatchError(f"'{part[:80]}' does not name an axis; write input:axis=symbol, as in images:0=N")
            value, axis, symbol = match["input"], int(match["axis"]), match["symbol"]
            if value not in graph.inputs:
                raise BatchError(f"there is no input '{value[:80]}'; the inputs are {', '.join(graph.inputs)[:200]}")
            shape = graph.shape(value)
            if shape is None or axis >= len(shape):
                raise BatchError(f"input '{value}' has no axis {axis}; name one of its {len(shape or ())} axes")
            if shape[axis] == symbol:
                continue
            if not isinstance(shape[axis], int):
                raise BatchError(
                    f"axis {axis} of input '{value}' is '{shape[axis]}' already, which no number is bound in"
                )
            if any(symbol in (graph.shape(other) or ()) for other in graph.inputs):
                raise BatchError(f"'{symbol}' names another size of the inputs; choose another symbol for '{value}'")
            results[value, axis] = symbol
        return results


def _size(graph: Graph, value: str, axis: int) -> int:
    shape = graph.shape(value)
    size = None if shape is None else shape[axis]
    assert isinstance(size, int)  # checked by `_axes`
    return size


def _types(graph: Graph, edit: Edit, axes: BatchAxes, sized: Sized) -> dict[str, TensorType]:
    """The types that change: of the inputs, and those that follow by inference. `_declared` gives sizes of outputs that
    inference leaves open."""
    after = graph.copy()
    after.apply(edit)
    inputs = {}
    for value in dict.fromkeys(value for value, _ in axes):
        type_ = graph.tensor_type(value)
        assert type_ is not None and type_.shape is not None
        inputs[value] = type_.with_shape(tuple(axes.get((value, i), size) for i, size in enumerate(type_.shape)))
    computed = {
        value: type_.with_shape(None)
        for value, type_ in after.types.items()
        if isinstance(type_, TensorType) and after.producer(value) is not None
    }
    after.apply(Edit(types={**computed, **inputs}))
    types = infer_types(after, {})
    sizes = {symbol: _size(graph, *axis) for axis, symbol in axes.items()}
    types |= {value: _declared(types[value], sized, value, sizes) for value in graph.outputs if value in types}
    return {
        value: type_
        for value, type_ in types.items()
        if type_ != graph.types.get(value) and value not in after.constants
    }


def _declared(type_: TensorType, sized: Sized, value: str, batches: Mapping[str, int]) -> TensorType:
    """The type of an output: an unknown size that grows as a batch does is the symbol of that batch."""
    old, new = sized.old.get(value), sized.graph.shape(value)
    result = type_.shape or (None,) * len(old or ())
    if old is None or new is None or not len(result) == len(old) == len(new):
        return type_

    def declared(dim: Dim, before: int, after: Dim) -> Dim:
        if isinstance(dim, int) or dim in batches or after != before * sized.times:
            return dim
        return next((symbol for symbol, size in batches.items() if size == before), dim)

    return type_.with_shape(tuple(map(declared, result, old, new)))
