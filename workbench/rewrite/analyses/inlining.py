"""Inlines a body in place of the node that holds it."""

from __future__ import annotations

import dataclasses

from workbench.inference.shapes import infer_types
from workbench.ir import Edit, Graph, Node
from workbench.ir.function_calls import in_place
from workbench.rewrite.analyses.better_types import better_types


def inlined(graph: Graph, node: Node, body: Graph, given: dict[str, str]) -> Edit:
    """The edit that replaces `node` by the nodes of its body and infers the types of the graph again.

    given: the value for each input of the body. Names that the graph has already are changed; the results of
    the body replace those of the node.
    """
    edit = in_place(graph, node, body, given)
    after = graph.copy()
    after.apply(edit)
    return dataclasses.replace(edit, types={**edit.types, **better_types(after)})


def inlined_call(graph: Graph, node: Node, body: Graph, given: dict[str, str]) -> Edit:
    """The same for a function's body; only its own types are inferred, since those of the call's results are known."""
    edit = in_place(graph, node, body, given)
    read = [value for inner in edit.insert for value in inner.operands]
    constants = {value: graph.constants[value] for value in read if value in graph.constants}
    made = {value for inner in edit.insert for value in inner.outputs}
    inputs = [v for v in dict.fromkeys(read) if v not in made and v not in constants and v not in edit.constants]
    piece = Graph(
        inputs=inputs,
        outputs=[value for value in made if value],
        nodes=edit.insert,
        constants={**constants, **{v: c for v, c in edit.constants.items() if c is not None}},
        types={value: type_ for value in inputs if (type_ := graph.type(value)) is not None},
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )
    types = {value: type_ for value, type_ in infer_types(piece, {}, again=True).items() if value in made}
    return dataclasses.replace(edit, types={**edit.types, **types})
