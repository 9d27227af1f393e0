"""Our own operators."""
from __future__ import annotations
from collections.abc import Iterator

from workbench.ir import Function, Graph, Node
from workbench.ir.text import OPSET
from workbench.ops.channels_last import DOMAIN, channels_last_function, parse_channels_last


def own_function(op_type: str, opset: int) -> Function:
    """The body of `workbench.<op_type>`. Raises KeyError for a name that is none of ours."""
    if parse_channels_last(DOMAIN, op_type) is not None:
        return channels_last_function(op_type, opset)
    raise KeyError(op_type)


def with_own_functions(graph: Graph) -> Graph:
    """The graph with the bodies of our operators that it calls, and the imports that it needs.

    Raises KeyError for an operator of our domain that has no body.
    """
    opset = graph.opset_imports.get("") or OPSET
    functions = dict(graph.functions)
    waiting = [n.op_type for n in _every_node(graph, functions) if n.domain == DOMAIN]
    while waiting:
        op_type = waiting.pop()
        if (DOMAIN, op_type, "") in functions:
            continue
        function = own_function(op_type, opset)
        functions[function.key] = function
        waiting += [n.op_type for n in function.graph.nodes if n.domain == DOMAIN]
    result = graph.copy()
    result.functions = functions
    for node in _every_node(result, functions):
        result.opset_imports.setdefault(node.domain, opset if node.domain == "" else 1)
    return result


def _every_node(graph: Graph, functions: dict) -> Iterator[Node]:
    waiting = [graph, *(f.graph for f in functions.values())]
    while waiting:
        for node in waiting.pop().nodes:
            yield node
            waiting.extend(node.bodies.values())
