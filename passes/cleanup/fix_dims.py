"""Write the numbers to which symbolic dims are bound into the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.analysis.inference.shapes import infer_types, with_dims
from workbench.errors import counted
from workbench.ir import Edit, Graph, TensorType, ValueType
from workbench.ir.retyping import retyped, retyped_node
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite


@dataclass(frozen=True)
class FixDims(Pass):
    """The symbols in the types of the inputs become the numbers with which the model runs (`--dims`, else common
    sizes); the sizes of all other values follow by inference.

    It runs first, so that the passes after it see the numbers. Their result is compared with the original and
    written. The model then takes inputs of these sizes only, so the pass is in no preset.

    Does not apply if all sizes of the inputs are numbers.

    Source: ONNX Runtime's onnxruntime.tools.make_dynamic_shape_fixed.
    """

    title = "Fix the bound dims"
    exactness = Exactness.BIT_EXACT

    extra_examples = (
        Example(
            title="A batch of two",
            before="g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }",
            after="g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }",
            sentences=("N = 2; the sizes of 1 input and of 1 value are numbers now",),
            dims={"N": 2},
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        symbols = dict.fromkeys(d for value in graph.inputs for d in graph.shape(value) or () if d in graph.dims)
        dims = {symbol: graph.dims[symbol] for symbol in symbols if isinstance(symbol, str)}
        if not dims:
            return

        def fixed(type_: ValueType) -> ValueType:
            return with_dims(type_, dims) if isinstance(type_, TensorType) else type_

        result = infer_types(retyped(graph, fixed), {})
        types = {value: result.get(value, fixed(type_)) for value, type_ in graph.types.items()}
        changed = {value: type_ for value, type_ in types.items() if type_ != graph.types[value]}
        bodies = tuple(retyped_node(node, fixed) for node in graph.with_bodies)
        edit = Edit(remove=tuple(node.name for node in bodies), insert=bodies, types=changed)
        inputs = sum(value in changed for value in graph.inputs)
        sentence = (
            f"{', '.join(f'{name} = {size:,}' for name, size in dims.items())}; the sizes of "
            f"{counted(inputs, 'input')} and of {counted(len(changed) - inputs, 'value')} are numbers now"
        )
        readers = dict.fromkeys(node.name for value in graph.inputs if value in changed for node in graph.users(value))
        yield Rewrite(edit, sentence, tuple(readers))
