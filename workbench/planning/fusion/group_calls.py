"""A group of operators as a call of an ONNX function, which any runtime with functions can run."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ir import Constant, Edit, Function, Graph, Node
from workbench.ir.function_calls import function_key
from workbench.ops import contract_of
from workbench.ops.channels_last import DOMAIN

_PREFIX = "group_"
_MAX_NAMED = 4  # operators in a function's name


def group_name(number: int) -> str:
    return f"{_PREFIX}{number}"


def group_function(graph: Graph, node: Node) -> Function | None:
    """The function of which the node is a call, if `group_call` made it; else None."""
    if node.domain != DOMAIN or not node.op_type.startswith(_PREFIX):
        return None
    return graph.functions.get(function_key(node))


def group_call(graph: Graph, members: Sequence[Node], name: str) -> tuple[Node, Function]:
    """The call named `name` of a function that computes these nodes of `graph`, in topological order.

    The values that flow in and out keep their names. Constants are operands of the call, except those that the host
    reads, such as a shape, which are in the body.
    """
    produced = {value: None for node in members for value in node.outputs if value}
    inside = _host_constants(graph, members)
    inputs = tuple(
        dict.fromkeys(v for node in members for v in node.inputs if v and v not in produced and v not in inside)
    )
    names = {node.name for node in members}
    outputs = tuple(
        value
        for value in produced
        if graph.is_output(value) or any(user.name not in names for user in graph.users(value))
    )
    imports = {"": graph.opset_imports[""], **{node.domain: 1 for node in members if node.domain}}
    body = Graph(
        name=name,
        inputs=inputs,
        outputs=outputs,
        nodes=members,
        constants=inside,
        types={v: type_ for v in (*inputs, *produced, *inside) if (type_ := graph.type(v)) is not None},
        opset_imports=imports,
        dims=graph.dims,
        bound_types={v: type_ for v in (*inputs, *produced) if (type_ := graph.bound_types.get(v)) is not None},
    )
    operators = [node.op_type for node in members[:_MAX_NAMED]]
    more = len(members) - _MAX_NAMED
    op_type = "_".join((name, *operators, *((f"and_{more}_more",) if more > 0 else ())))
    return Node(op_type, inputs, outputs, name=name, domain=DOMAIN), Function(op_type, DOMAIN, body)


def call_edit(graph: Graph, ungrouped: Graph, members: Sequence[Node], name: str, remove: Sequence[str]) -> Edit:
    """The edit that puts a call in place of `remove`: nodes of `graph`, or calls of smaller groups.

    ungrouped: the graph of which `members` are nodes.
    """
    call, function = group_call(ungrouped, members, name)
    removed = [node for node in map(graph.node, remove) if (node.domain, node.op_type, "") in graph.functions]
    functions: dict[tuple[str, str, str], Function | None] = {
        (node.domain, node.op_type, ""): None for node in removed if node.domain == DOMAIN
    }
    return Edit(remove=tuple(remove), insert=(call,), functions={**functions, function.key: function})


def _host_constants(graph: Graph, members: Sequence[Node]) -> dict[str, Constant]:
    """The constants among operands that the host reads."""
    results = {}
    for node in members:
        contract = contract_of(node)
        for index in () if contract is None else contract.host_inputs:
            value = node.inputs[index] if index < len(node.inputs) else ""
            if value in graph.constants:
                results[value] = graph.constants[value]
    return results
