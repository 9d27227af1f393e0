"""Declare inputs and outputs in the type that is computed: the Casts at the border of the model are removed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.inference.bound_shapes import bound_shape
from workbench.ir import DataType, Edit, Graph, Node
from workbench.ir.narrowed_io import IN_FLOAT32, INPUT_TYPE, OUTPUT_TYPE
from workbench.ir.types import TensorType, numpy_name
from workbench.metrics.transpose_cost import elements, known_sum
from workbench.precision.element_types import NARROW_TYPES, WIDE
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite


@dataclass(frozen=True)
class PrecisionIo(Pass):
    """A float32 input that every reader casts to float16 or bfloat16 is declared in that type, and the Casts are
    removed. So is an output that is the result of a Cast from that type to float32.

    The model then takes and returns other types than before; names and shapes stay. The notes "workbench.fed_type.x"
    and "workbench.given_type.y" in the file's metadata hold the type of the loaded model; comparing and measuring cast.
    The pass is in no preset, since the caller must cast. `precision_undo` declares float32 again.

    Does not apply to an input:

    - if something reads it in float32, or a body does;
    - if readers cast it to different types;
    - if a cast value is cast back to float32, which rounds it on purpose;
    - if it has a default value, or is an output too.

    Does not apply to an output:

    - if something else reads it in float32;
    - if the operand of its Cast is an input or an output.

    Source: `keep_io_types=False` of onnxconverter-common.
    """

    title = "Precision: inputs and outputs in the types that are computed"
    live_only = True
    exactness = Exactness.NARROWED  # ONNX Runtime on a CPU does not round what a Cast to the type gives its kernels

    extra_examples = (
        Example(
            title="What a precision strategy leaves of a convolution",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float16[2,2,1,1] w = {15360, 16384, 16896, 17408}> {
                a = Cast<to=10>(x)
                b = Conv(a, w)
                y = Cast<to=1>(b)
            }""",
            after="""g (float16[1,2,4,4] x) => (float16[1,2,4,4] y)
                <float16[2,2,1,1] w = {15360, 16384, 16896, 17408}> {
                y = Conv(x, w)
            }""",
            sentences=(
                "output 'y' is returned in float16, as it is computed; 32 elements no longer cast",
                "input 'x' is taken in float16, as its reader casts it; 32 elements no longer cast",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        for value in graph.outputs:
            cast = graph.producer(value)
            if cast is None or not _is_removable(graph, cast):
                continue
            computed = graph.tensor_type(cast.inputs[0])
            assert computed is not None  # otherwise it is no Cast from a known type
            edit = Edit(
                remove=(cast.name,),
                replace={value: cast.inputs[0]},
                types={value: computed},
                metadata={OUTPUT_TYPE + value: IN_FLOAT32},
            )
            sentence = f"output '{value}' is returned in {numpy_name(computed.dtype)}, as it is computed"
            yield Rewrite(edit, f"{sentence}; {_saved(graph, (cast,))}", (cast.name,))
        for value in graph.inputs:
            casts, narrow = graph.users(value), _type_that_is_read(graph, value)
            type_ = graph.tensor_type(value)
            if narrow is None or type_ is None or value in graph.kept.defaults or graph.is_output(value):
                continue
            edit = Edit(
                remove=tuple(cast.name for cast in casts),
                replace={cast.outputs[0]: value for cast in casts},
                types={value: TensorType(narrow, type_.shape)},
                metadata={INPUT_TYPE + value: IN_FLOAT32},
            )
            readers = "its reader casts" if len(casts) == 1 else f"its {len(casts):,} readers cast"
            sentence = f"input '{value}' is taken in {numpy_name(narrow)}, as {readers} it; {_saved(graph, casts)}"
            yield Rewrite(edit, sentence, tuple(cast.name for cast in casts))


def _type_that_is_read(graph: Graph, value: str) -> DataType | None:
    """The narrower type to which every reader casts a float32 value, for good; None if one does not."""
    type_ = graph.tensor_type(value)
    if type_ is None or type_.dtype != WIDE:
        return None
    read = {node.attr("to") if node.op == "Cast" else None for node in graph.users(value)}
    after = (user for node in graph.users(value) for result in node.outputs for user in graph.users(result))
    if any(user.op == "Cast" and user.attr("to") == WIDE.value for user in after):
        return None
    return next((narrow for narrow in NARROW_TYPES.values() if read == {narrow.value}), None)


def _is_removable(graph: Graph, node: Node) -> bool:
    """Whether `node` casts another node's result to float32, from a narrower type, for the caller only."""
    if node.op != "Cast" or graph.users(node.outputs[0]) or graph.outputs.count(node.outputs[0]) > 1:
        return False
    source, result = (graph.tensor_type(value) for value in (node.inputs[0], node.outputs[0]))
    if source is None or source.dtype not in NARROW_TYPES.values() or result is None or result.dtype != WIDE:
        return False
    return graph.producer(node.inputs[0]) is not None and not graph.is_output(node.inputs[0])


def _saved(graph: Graph, casts: tuple[Node, ...]) -> str:
    shapes = (bound_shape(graph, cast.inputs[0]) for cast in casts)
    return f"{elements(known_sum(None if shape is None else math.prod(shape) for shape in shapes))} no longer cast"
