"""The log's edits: what an applied rewrite changed, and how two graphs differ, as nodes out and nodes in.

`Edit.replace` is spelled out: a node that reads another value is removed and inserted again, so that whoever follows
the log needs to know nothing but nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from workbench.certification.flat import Json, flat_constant, flat_function, flat_nodes, flat_type, node_key
from workbench.ir import Constant, Edit, Function, Graph, constant_shape
from workbench.ir.to_proto import is_large


def logged_rewrite(after: Graph, inverse: Edit) -> Json:
    """What was changed by the edit that `inverse` undoes. after: the graph behind it."""
    come = sorted((after.node(name) for name in inverse.remove), key=lambda node: after.position(node.name))
    values = inverse.constants
    named = {*after.inputs, *after.outputs}
    return _without_empty(
        {
            "remove": flat_nodes(inverse.insert),
            "insert": flat_nodes(come),
            "drop": {
                value: flat_constant(tensor)
                for value, tensor in values.items()
                if tensor is not None and value not in after.constants
            },
            "constants": {v: flat_constant(after.constants[v]) for v in values if v in after.constants},
            "types": {value: flat_type(after.types.get(value)) for value in inverse.types if value in named},
            "functions": [_function(key, after.functions.get(key)) for key in inverse.functions],
        }
    )


def difference_of(before: Graph, after: Graph) -> Json:
    """The edit from one graph to the other. A large weight of the same name, type and shape counts as the same."""
    old, new = ({node_key(node): flat_nodes([node]) for node in graph.nodes} for graph in (before, after))
    read = {value for node in before.nodes for value in node.operands} | set(before.outputs)
    gone = [v for v in before.constants if v not in after.constants and (v in read or after.has_value(v))]
    functions = {**before.functions, **after.functions}
    return _without_empty(
        {
            "remove": [node for key, told in old.items() if told != new.get(key) for node in told],
            "insert": [node for key, told in new.items() if told != old.get(key) for node in told],
            "drop": {value: flat_constant(before.constants[value]) for value in gone},
            "constants": {
                name: flat_constant(tensor)
                for name, tensor in after.constants.items()
                if not _same(before.constants.get(name), tensor)
            },
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


def _same(one: Constant | None, other: Constant) -> bool:
    if one is None or one.dtype != other.dtype or constant_shape(one) != constant_shape(other):
        return False
    return is_large(other) or flat_constant(one) == flat_constant(other)


def _differ(one: Function | None, other: Function | None) -> bool:
    return one is None or other is None or flat_function(one) != flat_function(other)


def _function(key: tuple[str, str, str], function: Function | None) -> Json:
    domain, name, overload = key
    told = {} if function is None else flat_function(function)
    return {"domain": domain, "name": name, "overload": overload, **told}


def _without_empty(edit: Mapping[str, object]) -> Json:
    return {name: told for name, told in edit.items() if told}
