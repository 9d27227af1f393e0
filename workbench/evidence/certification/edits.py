"""The log's edits: what an applied rewrite changed, and how two graphs differ, as removed and inserted nodes.

`Edit.replace` is written out: a node that reads another value is removed and inserted again, so that a reader of the
log needs nodes only.
"""

from __future__ import annotations

from collections.abc import Mapping

from workbench.evidence.certification.flat import Json, flat_constant, flat_function, flat_nodes, flat_type, node_key
from workbench.ir import Constant, Edit, Function, Graph, Node, constant_shape
from workbench.ir.to_proto import is_large


def logged_rewrite(after: Graph, inverse: Edit) -> Json:
    """The edit that `inverse` undoes. after: the graph after the edit."""
    inserted = {node.name: node for node in map(after.node, inverse.remove)}
    removed = {node.name: node for node in inverse.insert}
    inside = [
        body_edit for name in removed.keys() & inserted.keys() if (body_edit := _inside(removed[name], inserted[name]))
    ]
    in_place = {body_edit["node"] for body_edit in inside}
    in_order = sorted(inserted.values(), key=lambda node: after.position(node.name))
    values = inverse.constants
    interface = {*after.inputs, *after.outputs}
    return _without_empty(
        {
            "remove": flat_nodes(node for node in removed.values() if node_key(node) not in in_place),
            "insert": flat_nodes(node for node in in_order if node_key(node) not in in_place),
            "inside": sorted(inside, key=lambda body_edit: str(body_edit["node"])),
            "drop": {value: flat_constant(tensor) for value, tensor in values.items() if tensor is not None},
            "constants": {v: flat_constant(after.constants[v]) for v in values if v in after.constants},
            "types": {value: flat_type(after.types.get(value)) for value in inverse.types if value in interface},
            "functions": [_function(key, after.functions.get(key)) for key in inverse.functions],
        }
    )


def difference_of(before: Graph, after: Graph) -> Json:
    """The edit from one graph to the other. A large weight of the same name, type and shape counts as the same."""
    functions = {**before.functions, **after.functions}
    return _without_empty(
        {
            **_nodes_and_constants(before, after),
            "types": {
                value: flat_type(after.types.get(value))
                for value in (*after.inputs, *after.outputs)
                if flat_type(before.types.get(value)) != flat_type(after.types.get(value))
            },
            "functions": [
                _function(key, after.functions.get(key))
                for key in functions
                if _differ(before.functions.get(key), after.functions.get(key))
            ],
            **({"opsets": after.opset_imports} if before.opset_imports != after.opset_imports else {}),
        }
    )


def _inside(node: Node, changed_node: Node) -> Json | None:
    """The edits of a node's bodies; None if more than their nodes and constants changed."""
    if not node.bodies or node.bodies.keys() != changed_node.bodies.keys():
        return None
    changed = {
        key: (body, changed_node.bodies[key])
        for key, body in node.bodies.items()
        if body is not changed_node.bodies[key]
    }
    if any(one.inputs != other.inputs or one.outputs != other.outputs for one, other in changed.values()):
        return None
    if flat_nodes([_without_bodies(node)]) != flat_nodes([_without_bodies(changed_node)]):
        return None
    edits = [
        {"body": key, "edit": _without_empty(_nodes_and_constants(*pair, body=True))} for key, pair in changed.items()
    ]
    return {"node": node_key(node), "bodies": edits}


def _without_bodies(node: Node) -> Node:
    body_attributes = {key.partition("[")[0] for key in node.bodies}
    return node.replace(
        attributes={name: value for name, value in node.attributes.items() if name not in body_attributes}
    )


def _nodes_and_constants(before: Graph, after: Graph, body: bool = False) -> Json:
    """The nodes and constants that differ. body: whether the graphs are bodies, of which the checker has used
    constants."""
    old, new = ({node_key(node): flat_nodes([node]) for node in graph.nodes} for graph in (before, after))
    known = set(before.constants)
    if body:
        known &= {value for node in before.nodes for value in node.operands} | set(before.outputs)
    changed = {
        name: tensor
        for name, tensor in after.constants.items()
        if name not in known or not _same(before.constants.get(name), tensor)
    }
    removed = [name for name in before.constants if name in known and (name in changed or name not in after.constants)]
    return {
        "remove": [node for key, nodes in old.items() if nodes != new.get(key) for node in nodes],
        "insert": [node for key, nodes in new.items() if nodes != old.get(key) for node in nodes],
        "drop": {value: flat_constant(before.constants[value]) for value in removed},
        "constants": {name: flat_constant(tensor) for name, tensor in changed.items()},
    }


def _same(one: Constant | None, other: Constant) -> bool:
    if one is None or one.dtype != other.dtype or constant_shape(one) != constant_shape(other):
        return False
    return is_large(other) or flat_constant(one) == flat_constant(other)


def _differ(one: Function | None, other: Function | None) -> bool:
    return one is None or other is None or flat_function(one) != flat_function(other)


def _function(key: tuple[str, str, str], function: Function | None) -> Json:
    domain, name, overload = key
    content = {} if function is None else flat_function(function)
    return {"domain": domain, "name": name, "overload": overload, **content}


def _without_empty(edit: Mapping[str, object]) -> Json:
    return {name: content for name, content in edit.items() if content}
