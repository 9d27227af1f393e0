"""Whether the numbers of a graph's inputs decide more than the numbers of its results: sizes, axes, branches."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.backends.torch.executor.host_placement import SHAPE_ONLY
from workbench.ir import DataType, Function, Graph, Node
from workbench.ir.function_calls import Key, function_key
from workbench.ops.contract import contract_of
from workbench.ops.npu import is_own, own_function

_DATA_DEPENDENT_SIZE_OPS = frozenset(
    {"Compress", "NonZero", "Unique"}
)  # how many elements they give, their operands' numbers say


def reader_of_input_numbers(graph: Graph) -> Node | None:
    """The first node that reads numbers computed from inputs while it decides what to run, or that may do so; None if
    one run, recorded for the sizes of its inputs, serves all inputs of these sizes."""
    return _reader(graph, graph.functions, set(graph.inputs))


def _reader(graph: Graph, functions: Mapping[Key, Function], computed: set[str]) -> Node | None:
    """computed: the values that are known to depend on numbers of inputs."""
    for node in graph.nodes:
        if node.op in SHAPE_ONLY or computed.isdisjoint(node.operands):
            continue
        if _is_compared_in_parts(graph, node) or _may_read(node, functions, computed):
            return node
        computed.update(value for value in node.outputs if value)
    return None


def _is_compared_in_parts(graph: Graph, node: Node) -> bool:
    """Whether it has an operand of uint64: torch has few operators for these, and whether a number is above those of
    int64 decides how others are used."""
    types = (graph.tensor_type(value) for value in node.operands)
    return any(type_ is not None and type_.dtype == DataType.UINT64 for type_ in types)


def _may_read(node: Node, functions: Mapping[Key, Function], computed: set[str]) -> bool:
    """What runs in a body, or in ONNX Runtime, is not looked at, and may."""
    if node.bodies or node.op in _DATA_DEPENDENT_SIZE_OPS:
        return True
    contract = contract_of(node)
    if contract is not None:
        return any(place < len(node.inputs) and node.inputs[place] in computed for place in contract.host_inputs)
    function = functions.get(function_key(node))
    if function is None and node.domain == "workbench" and is_own(node.op_type):
        function = own_function(node.op_type)
    if function is None:
        return True
    given = {inner for inner, value in zip(function.graph.inputs, node.inputs, strict=False) if value in computed}
    return _reader(function.graph, functions, given) is not None
