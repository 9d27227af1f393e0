"""Conversion to networkx, for the user's own analyses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.ir.node import Body, Node

if TYPE_CHECKING:
    from networkx import MultiDiGraph

_INPUT, _OUTPUT = "in:", "out:"


def networkx_graph(graph: Body) -> MultiDiGraph:
    """The result of `Graph.to_networkx`.

    Nodes:  operators by name, with `op`, `domain`, `attributes`, `metadata` (the exporter's notes), `outputs`,
            `constants` (names of those that they read, since constants are not nodes) and `bodies` (of If, Loop, Scan:
            graphs like this one). Inputs and outputs are "in:x" and "out:y"; in a body, captured
            values are "in:v" too. `kind` is "operator", "input", "output" or "captured".
    Edges:  a value from its producer to one reader, with `value` (its name), `dtype` ("FLOAT", ...) and `shape`, None
            if unknown; the key is the position among the reader's operands. Values that bodies capture come last.

    Raises ValueError if a node has a name like "in:x" that an input or output gets.
    """
    import networkx  # imported late: it is rarely needed and slows every start

    read = [*graph.inputs, *graph.captured]
    public = {*(_INPUT + value for value in read), *(_OUTPUT + value for value in graph.outputs)}
    clash = next((node.name for node in graph.nodes if node.name in public), None)
    if clash is not None:
        raise ValueError(f"node '{clash}' has the name that an input or output gets in networkx; give it another name")
    result = networkx.MultiDiGraph(name=graph.name, opset_imports=dict(graph.opset_imports))
    for value in read:
        result.add_node(_INPUT + value, kind="input" if value in graph.inputs else "captured", value=value)
    for node in graph.nodes:
        result.add_node(node.name, **_node_attributes(graph, node))
    for value in graph.outputs:
        result.add_node(_OUTPUT + value, kind="output", value=value)
    for node in graph.nodes:
        captured = [value for value in node.operands if value not in node.inputs]
        for position, value in enumerate((*node.inputs, *captured)):
            _add_edge(result, graph, value, node.name, position)
    for value in graph.outputs:
        _add_edge(result, graph, value, _OUTPUT + value, 0)
    return result


def _node_attributes(graph: Body, node: Node) -> dict[str, Any]:
    bodies = {key.partition("[")[0] for key in node.bodies}
    return {
        "kind": "operator",
        "op": node.op_type,
        "domain": node.domain,
        "attributes": {key: value for key, value in node.attributes.items() if key not in bodies},
        "metadata": dict(node.metadata),
        "constants": tuple(value for value in node.inputs if value in graph.constants),
        "outputs": node.outputs,
        "bodies": {key: networkx_graph(body) for key, body in node.bodies.items()},
    }


def _add_edge(result: MultiDiGraph, graph: Body, value: str, reader: str, position: int) -> None:
    if not value or value in graph.constants:
        return
    producer, type_ = graph.producer(value), graph.tensor_type(value)
    result.add_edge(
        _INPUT + value if producer is None else producer.name,
        reader,
        key=position,
        value=value,
        dtype=None if type_ is None else type_.dtype.name,
        shape=None if type_ is None else type_.shape,
    )
