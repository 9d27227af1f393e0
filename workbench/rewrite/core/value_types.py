"""Types of the values that a rewrite creates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from workbench.analysis.inference.shapes import infer_types
from workbench.ir import Edit, Graph, ValueType


def with_inferred_types(graph: Graph, edit: Edit) -> Edit:
    """The edit with missing types of new values inferred from its nodes alone, symbols kept.

    A rule gives types itself only if it knows more than inference.
    """
    new_values = [value for node in edit.insert for value in node.outputs if value]
    untyped = [value for value in new_values if value not in edit.types and graph.type(value) is None]
    if not untyped:
        return edit
    return replace(edit, types={**edit.types, **inferred_types(graph, edit, untyped)})


def inferred_types(graph: Graph, edit: Edit, values: Sequence[str]) -> Mapping[str, ValueType]:
    """The types of these values of the edit's nodes, as far as they follow from those nodes alone."""
    new_values = [value for node in edit.insert for value in node.outputs if value]
    operands = dict.fromkeys(value for node in edit.insert for value in node.operands if value not in new_values)
    constants = {v: tensor for v in operands if (tensor := edit.constants.get(v) or graph.constant(v)) is not None}
    inputs = [value for value in operands if value not in constants]
    subgraph = Graph(
        inputs=inputs,
        outputs=values,
        nodes=edit.insert,
        constants=constants,
        types={value: type_ for value in inputs if (type_ := graph.type(value)) is not None},
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )
    result = infer_types(subgraph, {}, again=True)
    return {value: result[value] for value in values if value in result}
