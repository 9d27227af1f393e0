"""The types that a model's messages give to values: those that follow from its inputs, and declared ones that no
inference can give."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from workbench.analysis.inference.boundaries import MADE_UP
from workbench.analysis.inference.shapes import TypesOfFile, infer_model, state_half_spectra, types_of_file
from workbench.analysis.inference.stand_ins import put_stand_ins
from workbench.formats.io.checks import every_graph, every_node, is_early, onnx_domain
from workbench.formats.io.errors import LoadError
from workbench.ir.from_proto import bodies

# The first input of a body that may have any shape; ONNX Runtime demands that those before it are scalars.
_FIRST_FED_INPUT = {"Loop": 2}


def undefined_results(model: ModelProto) -> frozenset[str]:
    """The results of operators that neither ONNX, at the model's opsets, nor a function of the model defines."""
    functions = {(f.domain, f.name) for f in model.functions}
    versions = {onnx_domain(entry.domain): entry.version for entry in model.opset_import}
    defined: dict[tuple[str, str], bool] = {}
    results: set[str] = set()
    for node in every_node(model):
        key = (onnx_domain(node.domain), node.op_type)
        if key not in defined:
            version = versions.get(key[0], 1)
            is_known = onnx.defs.has(node.op_type, max_inclusive_version=version, domain=key[0])
            defined[key] = bool(is_known) or key in functions or is_early(node, version)
        if not defined[key]:
            results.update(node.output)
    return frozenset(results - {""})


def without_declared_types(model: ModelProto, nested: bool, foreign: bool = False) -> ModelProto:
    """A copy without the types of intermediate values and the shapes of outputs, and of the inputs of bodies.

    nested: whether there are bodies. foreign: whether results of undefined operators keep their types, which no
    inference gives them.
    """
    bare = ModelProto()
    bare.CopyFrom(model)
    state_half_spectra(bare.graph)
    kept = undefined_results(model) if foreign else frozenset()
    for graph in every_graph(bare, nested):
        infos = [info for info in graph.value_info if info.name in kept]
        copies = GraphProto(value_info=infos)
        del graph.value_info[:]
        graph.value_info.extend(copies.value_info)
        body_inputs = [
            value
            for node in (graph.node if nested else ())
            for attribute in node.attribute
            for body in bodies(attribute)
            for value in body.input[_FIRST_FED_INPUT.get(node.op_type, 0) :]
        ]
        for value in (*graph.value_info, *graph.output):
            forget_generated_symbols(value)
        outputs = [value for value in graph.output if value.name not in kept]
        for value in (*outputs, *body_inputs):
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    return bare


def forget_generated_symbols(info: ValueInfoProto) -> None:
    """Remove symbols that an earlier inference generated: they mean other sizes than those of the same names here."""
    for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
        if dim.dim_param.startswith(MADE_UP):
            dim.Clear()


UNTYPED = "expected to have type but instead is null"  # what a body reads has no type, as of a foreign operator
_NOT_HERE = re.compile(r"Cannot parse data from external tensors.*for tensor: (.*)")


def check_types(model: ModelProto, nodes: Iterable[NodeProto]) -> TypesOfFile:
    """The types of values. Raises LoadError for an ill-typed graph: a float added to an int, shapes that do not fit.

    nodes: all nodes of the model. Declared types of intermediate values and shapes of outputs are ignored, as by
    ONNX Runtime: exporters often write wrong ones.
    """
    nested = any(bodies(attribute) for node in nodes for attribute in node.attribute)
    bare, undefined = without_declared_types(model, nested), undefined_results(model)
    try:
        typed = onnx.shape_inference.infer_shapes(bare, check_type=True, strict_mode=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError) as error:
        # ValidationError: calls nested too deep; ValueError: an empty type
        if absent := _NOT_HERE.search(str(error)):
            raise LoadError(
                f"weight '{absent[1]}' decides a shape, and its external data file is missing; put it beside the model"
            ) from None
        if not (undefined and UNTYPED in str(error)):
            raise LoadError(f"the graph is ill-typed: {_reason(error)}") from None
    if undefined:  # not strict: nothing but their own runtimes checks such operators
        bare = without_declared_types(model, nested, foreign=True)
        put_stand_ins(bare)
        typed = onnx.shape_inference.infer_shapes(bare)
    return types_of_file(typed, nested)


def _reason(error: Exception) -> str:
    """The line of ONNX's message that names the operator, without source locations."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = next((line for line in lines if "op_type" in line), lines[-1] if lines else "no reason given")
    return re.sub(r"\[(Shape|Type)InferenceError\] |Inference error\(s\): ", "", message).rstrip(".")


def with_types(model: ModelProto, types: TypesOfFile) -> ModelProto:
    """The model with the types of all values that follow from its inputs.

    Declared types of other values are not reliable: exporters often write wrong ones (a Squeeze of [N,3] is declared as
    [N,3], and is [3] if N is 1). Only their element type is kept, except for results of undefined operators, which keep
    the whole type. types: of the model before opset conversion.
    """
    typed = infer_model(without_declared_types(model, types.nested, foreign=True), types.lengths)
    return _combined(model, typed, types.nested)


def with_plain_inference(model: ModelProto, types: TypesOfFile) -> ModelProto:
    """The same by ONNX's inference alone, which knows the operators of any opset. types: of this model."""
    if types.infos is None:
        typed = onnx.shape_inference.infer_shapes(without_declared_types(model, types.nested, foreign=True))
        return _combined(model, typed, types.nested)
    result = ModelProto()
    result.CopyFrom(model)
    del result.graph.value_info[:]
    result.graph.value_info.extend(types.infos)
    inferred = {info.name: info for info in types.infos}
    for output in result.graph.output:
        if output.name in inferred:
            output.type.CopyFrom(inferred[output.name].type)
    return result


def _combined(model: ModelProto, typed: ModelProto, nested: bool) -> ModelProto:
    """The model with the types of the inferred one, and what is reliable of its own. nested: whether nodes hold
    bodies."""
    result = ModelProto()
    result.CopyFrom(model)
    undefined = undefined_results(model)
    main, *bodies = pairs = list(zip(every_graph(result, nested), every_graph(typed, nested), strict=True))
    for graph, inferred in pairs:
        _combine_values(graph, inferred, undefined)
        for output, inferred_value in zip(graph.output, inferred.output, strict=True):
            if inferred_value.type.WhichOneof("value") is None or not has_shape(inferred_value):
                _as_declared(output, undefined if graph is main[0] else ())
            else:
                output.type.CopyFrom(inferred_value.type)
    for body, inferred in bodies:
        for value, inferred_value in zip(body.input, inferred.input, strict=True):
            value.type.CopyFrom(inferred_value.type)
    return result


def _combine_values(graph: GraphProto, inferred: GraphProto, undefined: Collection[str]) -> None:
    sized = {info.name for info in inferred.value_info if has_shape(info)}
    only_declared = [_as_declared(info, undefined) for info in graph.value_info if info.name not in sized]
    names = {info.name for info in only_declared}
    kept = [*only_declared, *(info for info in inferred.value_info if info.name not in names)]
    infos = GraphProto(value_info=kept if only_declared else inferred.value_info)
    del graph.value_info[:]
    graph.value_info.extend(infos.value_info)


def _as_declared(info: onnx.ValueInfoProto, undefined: Collection[str]) -> onnx.ValueInfoProto:
    """Remove from a declared type, in place, what is not reliable: its shape, unless its operator is undefined."""
    if info.name not in undefined and info.type.HasField("tensor_type"):
        info.type.tensor_type.ClearField("shape")
    forget_generated_symbols(info)
    return info


def has_shape(info: onnx.ValueInfoProto) -> bool:
    return not info.type.HasField("tensor_type") or info.type.tensor_type.HasField("shape")
