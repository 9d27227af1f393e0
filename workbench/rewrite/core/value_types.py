"""Types of the values that a rewrite creates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from workbench.inference.shapes import infer_types
from workbench.ir import Edit, Graph, ValueType


def with_inferred_types(graph: Graph, edit: Edit) -> Edit:
    """The edit with missing types of new values inferred from its nodes alone, symbols kept.

    A rule gives types itself only if it knows more than inference.
    """
    made = [value for node in edit.insert for value in node.outputs if value]
    bare = [value for value in made if value not in edit.types and graph.type(value) is None]
    if not bare:
        return edit
    return replace(edit, types={**edit.types, **inferred_types(graph, edit, bare)})


def inferred_types(graph: Graph, edit: Edit, values: Sequence[str]) -> Mapping[str, ValueType]:
    """Types of values that the edit's nodes compute, as far as they follow from these nodes alone."""
    made = [value for node in edit.insert for value in node.outputs if value]
    read = dict.fromkeys(value for node in edit.insert for value in node.operands if value not in made)
    constants = {v: tensor for v in read if (tensor := edit.constants.get(v) or graph.constant(v)) is not None}
    inputs = [value for value in read if value not in constants]
    part = Graph(
        name=graph.name,
        inputs=inputs,
        outputs=values,
        nodes=edit.insert,
        constants=constants,
        types={value: type_ for value in inputs if (type_ := graph.type(value)) is not None},
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )
    result = infer_types(part, {}, again=True)
    return {value: result[value] for value in values if value in result}
