"""Inlines a body in place of the node that holds it."""

from __future__ import annotations

import dataclasses

from workbench.inference.shapes import infer_types
from workbench.ir import Edit, Graph, Node
from workbench.rewrite.better_types import better_types


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


def in_place(graph: Graph, node: Node, body: Graph, given: dict[str, str]) -> Edit:
    """The edit that replaces `node` by the nodes of its body, with the types that the body declares."""
    names = dict(given)
    taken = {v for other in graph.nodes if other.bodies and other.name != node.name for v in other.inner_values}
    for value in body.values():
        if value not in names:
            names[value] = value if _is_free(graph, value, taken) else graph.fresh(value, taken)
            taken.add(names[value])
    nodes, used = [], set[str]()
    for inner in body.nodes:
        name = inner.name if inner.name not in graph and inner.name not in used else graph.fresh(inner.name, used)
        used.add(name)
        renamed = inner.with_values_renamed(names)
        nodes.append(renamed.replace(name=name, outputs=tuple(names.get(v, v) for v in inner.outputs)))
    results = [names.get(value, value) for value in body.outputs]
    return Edit(
        remove=(node.name,),
        insert=tuple(nodes),
        replace={old: new for old, new in zip(node.outputs, results, strict=False) if old and old != new},
        constants={names[value]: tensor for value, tensor in body.constants.items()},
        types={names[value]: type_ for value, type_ in body.types.items() if value not in given},
    )


def _is_free(graph: Graph, value: str, taken: set[str]) -> bool:
    return not (value in taken or value in graph.reserved or graph.has_value(value))
