"""A graph in narrower types, written so that float32 kernels give its numbers: each result is rounded by Casts.

ONNX Runtime on a CPU computes float16 operators in float32 and leaves out the Casts between two of them, and it has no
kernels for bfloat16. What it gives for such a graph is therefore closer to float32 than what a device gives that
computes in the type. Explicit Casts to the type and back stay.
"""

from __future__ import annotations

from workbench.ir import DataType, Edit, Graph, Node, TensorType
from workbench.ir.types import Constant, ValueType
from workbench.planning.precision.conversion import cast_node
from workbench.planning.precision.element_types import WIDE, FloatCall, NotConvertible, cast_constant, float_call


def rounded_everywhere(graph: Graph, narrow: DataType) -> Graph:
    """A copy in which each operator in the narrower type runs in float32 on operands of that type, its results cast to
    it."""
    copy = graph.copy()
    wide: dict[str, str] = {}  # by value in the type: the value in float32
    for name in [node.name for node in copy.nodes]:
        node = copy.node(name)
        try:
            call = float_call(copy, node, narrow)
        except NotConvertible:
            continue
        if call.dtype == narrow:
            copy.apply(_in_float32(copy, node, call, narrow, wide))
    return copy


def _in_float32(graph: Graph, node: Node, call: FloatCall, narrow: DataType, wide: dict[str, str]) -> Edit:
    constants: dict[str, Constant] = {}
    types: dict[str, ValueType] = {}
    taken: set[str] = set()
    nodes: list[Node] = []

    def fresh(base: str) -> str:
        name = graph.fresh(base, taken)
        taken.add(name)
        return name

    def in_float32(value: str) -> str:
        name = fresh(f"{value}_in_float32")
        type_ = graph.tensor_type(value)
        types[name] = TensorType(WIDE, None if type_ is None else type_.shape)
        return name

    for value in (node.inputs[index] for index in call.inputs):
        if value in wide:
            continue
        wide[value] = in_float32(value)
        tensor = graph.constant(value)
        if tensor is None:
            nodes.append(cast_node(value, wide[value], WIDE, fresh(f"cast_{wide[value]}")))
        else:
            constants[wide[value]] = cast_constant(tensor, WIDE)
    exact = {node.outputs[index]: in_float32(node.outputs[index]) for index in call.outputs}
    inputs = [wide[value] if index in call.inputs else value for index, value in enumerate(node.inputs)]
    results = tuple(exact.get(value, value) for value in node.outputs)
    nodes.append(call.stated(graph, node, WIDE).replace(inputs=tuple(inputs), outputs=results))
    nodes += [cast_node(result, value, narrow, fresh(f"cast_{value}")) for value, result in exact.items()]
    return Edit(remove=(node.name,), insert=tuple(nodes), constants=constants, types=types)
