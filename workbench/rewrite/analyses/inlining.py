"""Inlines a body in place of the node that holds it."""

from __future__ import annotations

import dataclasses

from workbench.analysis.inference.shapes import infer_types
from workbench.ir import Edit, Graph, Node
from workbench.ir.function_calls import in_place
from workbench.rewrite.analyses.better_types import better_types


def inlined(graph: Graph, node: Node, body: Graph, operands: dict[str, str]) -> Edit:
    """The edit that replaces `node` by the nodes of its body and infers the types of the graph again.

    operands: the value for each input of the body. Names that the graph has already are changed. The results of
    the body replace those of the node.
    """
    edit = in_place(graph, node, body, operands)
    after = graph.copy()
    after.apply(edit)
    return dataclasses.replace(edit, types={**edit.types, **better_types(after)})


def inlined_call(graph: Graph, node: Node, body: Graph, operands: dict[str, str]) -> Edit:
    """The same for a function's body. Only types inside are inferred, since those of the call's results are known."""
    edit = in_place(graph, node, body, operands)
    used = [value for inner in edit.insert for value in inner.operands]
    constants = {value: graph.constants[value] for value in used if value in graph.constants}
    results = {value for inner in edit.insert for value in inner.outputs}
    inputs = [v for v in dict.fromkeys(used) if v not in results and v not in constants and v not in edit.constants]
    subgraph = Graph(
        inputs=inputs,
        outputs=[value for value in results if value],
        nodes=edit.insert,
        constants={**constants, **{v: c for v, c in edit.constants.items() if c is not None}},
        types={value: type_ for value in inputs if (type_ := graph.type(value)) is not None},
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )
    types = {value: type_ for value, type_ in infer_types(subgraph, {}, again=True).items() if value in results}
    return dataclasses.replace(edit, types={**edit.types, **types})
