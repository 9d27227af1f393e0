"""A body put in the place of the node that holds it."""

from __future__ import annotations

import dataclasses

from workbench.ir import Edit, Graph, Node, TensorType
from workbench.ops.shapes import infer_types


def inlined(graph: Graph, node: Node, body: Graph, given: dict[str, str]) -> Edit:
    """The edit that puts the body's nodes where `node` stands.

    given: for each input of the body the value that it gets. Names that are
    taken outside are changed; the results of the node are those of the body,
    and the types of all that follows from them are found anew.
    """
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
    edit = Edit(
        remove=(node.name,),
        insert=tuple(nodes),
        replace={old: new for old, new in zip(node.outputs, results, strict=False) if old and old != new},
        constants={names[value]: tensor for value, tensor in body.constants.items()},
        types={names[value]: type_ for value, type_ in body.types.items() if value not in given},
    )
    after = graph.copy()
    after.apply(edit)
    return dataclasses.replace(edit, types={**edit.types, **_better_types(after)})


def _better_types(graph: Graph) -> dict[str, TensorType]:
    """Types that are found now and say more than those that the graph has; public values keep theirs."""
    found = infer_types(graph, {}, again=True)
    public = {*graph.inputs, *graph.outputs, *graph.constants}
    return {v: t for v, t in found.items() if v not in public and _says_more(t, graph.tensor_type(v))}


def _says_more(found: TensorType, known: TensorType | None) -> bool:
    if known is None or known.shape is None:
        return known is None or found.shape is not None
    if found.shape is None or len(found.shape) != len(known.shape):
        return False
    return sum(isinstance(d, int) for d in found.shape) > sum(isinstance(d, int) for d in known.shape)


def _is_free(graph: Graph, value: str, taken: set[str]) -> bool:
    return not (value in taken or value in graph.reserved or graph.has_value(value))
