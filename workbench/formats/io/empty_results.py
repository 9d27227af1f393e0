"""The sizes of what a Loop collects over its turns, as the file gives them: a Loop of zero turns returns nothing else.

ONNX Runtime then reads the sizes from the types of the body's results, with 0 for each that is no number. So a file
keeps these numbers, and has no others: not fewer, where the loader found declared types unreliable, nor more, where it
found sizes that no file declares.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import GraphProto, ModelProto, NodeProto

from workbench.formats.io.checks import every_node
from workbench.ir import Edit, Graph, TensorType, ValueType
from workbench.ir.from_proto import bodies, value_type
from workbench.ir.function_calls import graphs_within
from workbench.ir.preserved_metadata import PassthroughFields
from workbench.ir.types import Dim, Shape

_BEFORE_STATES = 2  # operands of a Loop, and inputs of its body: the trip count and the condition
# The results of a Loop and of its body, which together name it -> the types of what it collects.
Collected = Mapping[tuple[str, ...], Mapping[str, ValueType]]


def collected_results(model: ModelProto) -> Collected:
    """The types that the file gives to the results that its Loops collect: declared ones, with what follows from them.

    Loops with results of the same names, as in two functions, are left out if the types differ.
    """
    if not any(_collected(node, body) for node in every_node(model) for body in _bodies(node)):
        return {}
    found: dict[tuple[str, ...], dict[str, ValueType]] = {}
    ambiguous = set()
    for node, following in zip(every_node(model), every_node(_without_declared(model)), strict=True):
        for body, typed in zip(_bodies(node), _bodies(following), strict=True):
            names = (*node.output, *(output.name for output in body.output))
            results = _merged(_collected(node, body), _collected(node, typed))
            if results and found.setdefault(names, results) != results:
                ambiguous.add(names)
    return {names: results for names, results in found.items() if names not in ambiguous}


def _without_declared(model: ModelProto) -> ModelProto:
    """The model with the types of results that follow from what else the file declares."""
    bare = ModelProto()
    bare.CopyFrom(model)
    for node in every_node(bare):
        for output in (output for body in _bodies(node) for output in body.output):
            if output.type.HasField("tensor_type"):
                output.type.tensor_type.ClearField("shape")
    try:
        return onnx.shape_inference.infer_shapes(bare)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError):  # the loader says why
        return bare


def _merged(declared: Mapping[str, ValueType], following: Mapping[str, ValueType]) -> dict[str, ValueType]:
    """The types with sizes that are declared or follow; where these contradict, none."""
    merged = {}
    for value, type_ in declared.items():
        other = following.get(value)
        if isinstance(type_, TensorType) and isinstance(other, TensorType) and other.shape is not None:
            same_rank = type_.shape is not None and len(type_.shape) == len(other.shape)
            pairs = zip(type_.shape, other.shape, strict=True) if same_rank and type_.shape else ()
            type_ = type_.with_shape(tuple(_known(*pair) for pair in pairs) if same_rank else other.shape)
        merged[value] = type_
    return merged


def _known(declared: Dim, following: Dim) -> Dim:
    if isinstance(declared, int) and isinstance(following, int):
        return declared if declared == following else None
    return declared if isinstance(declared, int) else following


def _bodies(node: NodeProto) -> tuple[GraphProto, ...]:
    if node.op_type != "Loop" or node.domain not in ("", "ai.onnx"):
        return ()
    return tuple(body for attribute in node.attribute for body in bodies(attribute))


def _collected(node: NodeProto, body: GraphProto) -> dict[str, ValueType]:
    states = max(len(node.input) - _BEFORE_STATES, 0)
    types = ((output.name, value_type(output.type)) for output in body.output[1 + states :])
    return {name: type_ for name, type_ in types if type_ is not None}


def keep_collected(graph: Graph, collected: Collected) -> None:
    """Note the types in the bodies of the graph, in place."""
    for part in graphs_within(graph, graph.functions) if collected else ():
        for node in part.nodes:
            body = node.bodies.get("body") if node.op == "Loop" else None
            if body is not None and (*node.outputs, *body.outputs) in collected:
                body.kept = PassthroughFields(outputs=collected[*node.outputs, *body.outputs])


def give_collected(graph: Graph) -> None:
    """Give the results that Loops of the graph collect the sizes of the file, in place: numbers for those that it has,
    and none for others, neither for values inside from which these would follow."""
    for body in graphs_within(graph, graph.functions):
        if not body.kept.outputs or body is graph:
            continue
        types = {
            value: type_.with_shape(_sizes(type_.shape, body.kept.outputs[value]))
            for value in body.kept.outputs
            if (type_ := body.tensor_type(value)) is not None
        }
        if any(type_.shape != body.shape(value) for value, type_ in types.items()):
            inside = ((value, body.tensor_type(value)) for value in body.types if value not in types)
            types |= {v: t.with_shape((None,) * len(t.shape)) for v, t in inside if t is not None and t.shape}
        body.apply(Edit(types=types))


def _sizes(known: Shape, of_file: ValueType) -> Shape:
    """known: the sizes that follow here. Those that are no numbers in the file, or others, are none."""
    declared = of_file.shape if isinstance(of_file, TensorType) else None
    if known is None or (declared is not None and len(declared) != len(known)):
        return declared if known is None else known
    return tuple(_size(one, other) for one, other in zip(known, declared or (None,) * len(known), strict=True))


def _size(known: Dim, of_file: Dim) -> Dim:
    if not isinstance(of_file, int):
        return None if isinstance(known, int) else known
    return None if isinstance(known, int) and known != of_file else of_file
