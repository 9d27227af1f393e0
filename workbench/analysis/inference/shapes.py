"""Types of all values, from ONNX's own shape inference on a model without its weights.

ONNX's inference does not evaluate Range, Gather or Where of constants, with
which exporters compute axes and shapes. Such small computations are evaluated
first and replaced by constants: those of integers, and those of floats that
depend on known numbers alone (a size times 2.0, rounded down).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.inliner
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from workbench.analysis.inference.boundaries import (
    MADE_UP,
    ROUNDS_OF_PROOF,
    Assumed,
    assume_states,
    cut_boundaries,
    declare_proven,
    drop_wrong,
    without_cuts,
)
from workbench.analysis.inference.exact import enlarged, exact
from workbench.analysis.inference.propagation import is_bounded, lengths_of
from workbench.analysis.inference.stand_ins import has_stand_in, put_stand_ins
from workbench.ir import Graph, TensorType, constant_type
from workbench.ir.from_proto import attribute_value, bodies, value_type
from workbench.ir.node import ONNX_DOMAINS
from workbench.ir.signature_changes import is_valid_unchanged
from workbench.ir.text import OPSET
from workbench.ir.to_proto import structure
from workbench.ir.types import Dim
from workbench.ops.own_functions import with_own_functions

_SMALL = 64  # elements; shapes, axes and pads have fewer
_ROUNDS = 8  # each infers shapes that numbers of the previous round determine
_INTEGERS = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
_COMPUTED = frozenset(
    # small arithmetic that `exact.py` evaluates
    "Shape Size Range Gather Concat Unsqueeze Squeeze Cast CastLike Add Sub Mul Div Neg Abs Slice Reshape Equal Less "  # noqa: SIM905
    "Greater Where ConstantOfShape Expand ReduceProd ReduceSum ReduceMax ReduceMin Min Max Mod Not And Or Identity "
    "Transpose Flatten Tile ScatterND Floor Ceil Sqrt".split()
)

StaticShape = tuple[int, ...] | None
_SIZES = ("Shape", "Size")

_GENERATED = "unk_"  # prefix of symbols that later inferences generate; MADE_UP begins with it too
_COUNTER = itertools.count()
_TYPE_OF_OPERAND = ("GroupNormalization",)  # ONNX infers nothing for it; the result has the type of the first operand


def infer_types(
    graph: Graph, dims: Mapping[str, int] | None = None, *, again: bool = False, model: ModelProto | None = None
) -> dict[str, TensorType]:
    """The type of every tensor value, constants included and bodies excluded, with `dims` bound.

    dims:  numbers for symbolic dims; None: `graph.dims`. A value without an inferred
           type keeps the graph's type for it, with `dims` bound.
    again: whether the result is merged with types of an earlier inference. Then unknown sizes get
           new names, since unk__0 was another size there.
    model: the graph as a model without its weights, if the caller has it.
    """
    bound = graph.dims if dims is None else dims
    completed = with_own_functions(graph, of_types=True)
    added = completed.functions.keys() - graph.functions.keys()
    model = structure(completed) if model is None or added else _copy(model)
    opaque = {value for node in model.graph.node if not _is_inferred(node, model) for value in node.output}
    infos = GraphProto(value_info=[info for info in model.graph.value_info if info.name in opaque])
    del model.graph.value_info[:]
    model.graph.value_info.extend(infos.value_info)
    for output in model.graph.output:
        if output.type.HasField("tensor_type") and output.name not in opaque:
            output.type.tensor_type.ClearField("shape")
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        _bind_dims(value, bound)
    if model.functions:  # bodies then have the attributes of the call, which inference needs
        model = onnx.inliner.inline_local_functions(model)
    types = {v: with_dims(t, bound) for v, t in graph.types.items() if isinstance(t, TensorType)}
    if not again:  # the file's unk__0 comes from another inference
        types.update((v, _without_made_up(t)) for v, t in types.items() if not graph.is_input(v))
    if bound:  # numbers that follow from the bound sizes save a round of inference
        kinds = {value: type_.dtype.value for value, type_ in types.items()}
        _compute_numbers(model, kinds, {value: type_.static_shape for value, type_ in types.items()})
    typed = infer_model(model)
    input_symbols = {d for v in graph.inputs if v in types for d in types[v].shape or () if isinstance(d, str)}
    names: dict[str, str] = {}
    types.update((name, constant_type(tensor)) for name, tensor in graph.constants.items())
    for info in (*typed.graph.value_info, *typed.graph.output):
        inferred = value_type(info.type)
        if isinstance(inferred, TensorType) and graph.has_value(info.name) and info.name not in graph.constants:
            inferred = _with_new_names(inferred, names, input_symbols) if again else inferred
            types[info.name] = _merged(inferred, types.get(info.name))
    return types


def _is_inferred(node: NodeProto, model: ModelProto) -> bool:
    """Whether inference can give types to the results of the node; other operators keep those that they have."""
    if onnx.defs.has(node.op_type, "" if node.domain in ONNX_DOMAINS else node.domain):
        return True
    return has_stand_in(node) or any((f.domain, f.name) == (node.domain, node.op_type) for f in model.functions)


def is_generated_symbol(dim: Dim) -> bool:
    """Whether the dim is a symbol that an inference generated."""
    return isinstance(dim, str) and dim.startswith(_GENERATED)


def _without_made_up(type_: TensorType) -> TensorType:
    if type_.shape is None:
        return type_
    return type_.with_shape(tuple(None if isinstance(d, str) and d.startswith(MADE_UP) else d for d in type_.shape))


def _with_new_names(tensor_type: TensorType, names: dict[str, str], input_symbols: set[str]) -> TensorType:
    """The type with its generated symbols renamed. names: by symbol, its new name."""
    if tensor_type.shape is None:
        return tensor_type
    made_up = (d for d in tensor_type.shape if isinstance(d, str) and d.startswith(MADE_UP) and d not in input_symbols)
    for dim in made_up:
        if dim not in names:
            names[dim] = f"{_GENERATED}{next(_COUNTER)}"
    return tensor_type.with_shape(tuple(names.get(d, d) if isinstance(d, str) else d for d in tensor_type.shape))


def _bind_dims(value: ValueInfoProto, dims: Mapping[str, int]) -> None:
    for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
        if dim.dim_param in dims:
            dim.dim_value = dims[dim.dim_param]


def with_dims(tensor_type: TensorType, dims: Mapping[str, int]) -> TensorType:
    """The type with numbers in place of symbols that have a number."""
    if tensor_type.shape is None:
        return tensor_type
    return tensor_type.with_shape(tuple(dims.get(d, d) if isinstance(d, str) else d for d in tensor_type.shape))


def _merged(tensor_type: TensorType, known: TensorType | None) -> TensorType:
    """The inferred type, with its unknown dims taken from the known type."""
    if known is None or known.shape is None:
        return tensor_type
    if tensor_type.shape is None:
        return tensor_type.with_shape(known.shape)
    if len(tensor_type.shape) != len(known.shape):
        return tensor_type
    pairs = zip(tensor_type.shape, known.shape, strict=True)
    return tensor_type.with_shape(tuple(k if not isinstance(f, int) and isinstance(k, int) else f for f, k in pairs))


# ---- inference on a model ---------------------------------------------------------------


@dataclass(frozen=True)
class TypesOfFile:
    """Results of an inference without data propagation that save the next one from repeating it.

    infos:    types of the main graph's values, if all have a rank and there are no bodies; else None.
    lengths:  `lengths_of` the graph, if some size is unknown; None if all are known.
    nested:   whether a node holds a body, of functions too.
    """

    infos: Sequence[ValueInfoProto] | None
    lengths: Mapping[str, int] | None
    nested: bool


def types_of_file(typed: ModelProto, nested: bool) -> TypesOfFile:
    """The types in a typed model, copied so that the model can be released from memory."""
    graph = typed.graph
    complete = _has_ranks(graph) and not (nested and _has_bodies(graph))
    infos = GraphProto(value_info=[*graph.value_info, *graph.output]).value_info if complete else None
    return TypesOfFile(infos, None if _is_settled(graph) else lengths_of(graph, nested), nested)


def _has_ranks(typed: GraphProto) -> bool:
    infos = itertools.chain(typed.value_info, typed.output)
    ranked = {info.name for info in infos if info.type.tensor_type.HasField("shape")}
    return all(value in ranked for node in typed.node for value in node.output if value)


def _has_bodies(graph: GraphProto) -> bool:
    return any(bodies(attribute) for node in graph.node for attribute in node.attribute)


def state_half_spectra(graph: GraphProto) -> None:
    """Give each STFT, in bodies too, the attribute `onesided`, without which ONNX's inference takes 0 for it, not 1."""
    for node in graph.node:
        if node.op_type == "STFT" and node.domain in ("", "ai.onnx") and not node.attribute:
            node.attribute.append(helper.make_attribute("onesided", 1))
        for attribute in node.attribute:
            for body in bodies(attribute):
                state_half_spectra(body)


def infer_model(model: ModelProto, lengths: Mapping[str, int] | None = None) -> ModelProto:
    """The model with the inferred types of its values. Weights may be missing.

    `model` is changed in place: computations on shapes become constants, and operators that ONNX does not define
    become their stand-ins.

    lengths: `lengths_of` the model, if an inference without data propagation is known to leave sizes unknown;
             None: that inference is made first.
    """
    put_stand_ins(model)
    state_half_spectra(model.graph)
    for node in model.graph.node:
        if node.op_type in _TYPE_OF_OPERAND and node.domain in ("", "ai.onnx"):
            node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output, node.name))
    if not cut_boundaries(model):
        return _with_numbers(model, lengths)
    typed, assumed = _proven(model), list[Assumed]()
    while more := assume_states(model, typed, assumed):  # the states of a nested Loop depend on the outer assumptions
        assumed += more
        typed = _proven(model, assumed)
    while assumed:
        valid = drop_wrong(assumed, model, typed)
        if len(valid) == len(assumed):
            break
        assumed = valid
        typed = _proven(model, assumed)
    return without_cuts(typed)


def _proven(model: ModelProto, assumed: Sequence[Assumed] = ()) -> ModelProto:
    """The model with types; results of Cuts have their proven types. assumed: about states of Loops."""
    typed = _with_numbers(model)
    for _ in range(ROUNDS_OF_PROOF):
        if not declare_proven(model, typed, assumed):
            break
        del typed  # as in `_inferred`
        typed = _with_numbers(model)
    return typed


def _with_numbers(model: ModelProto, lengths: Mapping[str, int] | None = None) -> ModelProto:
    """The model with inferred types: infers, computes numbers that follow, and infers again."""
    typed = _inferred(model, lengths)
    for _ in range(_ROUNDS):
        if _is_settled(typed.graph) or not _compute_numbers(model, *_dtypes_and_shapes(model, typed)):
            break
        del typed  # as in `_inferred`
        typed = _inferred(model)
    return typed


def _is_settled(typed: GraphProto) -> bool:
    """Whether all sizes are known, so that evaluating numbers adds nothing. False if there are bodies."""
    known = set()
    for info in itertools.chain(typed.value_info, typed.output):
        if not _is_sized(info.type.tensor_type):
            return False
        known.add(info.name)
    if not all(value in known for node in typed.node for value in node.output if value):
        return False
    return not _has_bodies(typed)


def _is_sized(type_: TypeProto.Tensor) -> bool:
    return type_.HasField("shape") and all(dim.HasField("dim_value") for dim in type_.shape.dim)


def _inferred(model: ModelProto, lengths: Mapping[str, int] | None = None) -> ModelProto:
    if lengths is None:
        typed = onnx.shape_inference.infer_shapes(model)
        if _is_settled(typed.graph) or not is_bounded(model, lengths_of(typed.graph)):
            return typed
        del typed  # it takes 50 MB for a graph of 20,000 nodes, and the next inference as much again
    elif not is_bounded(model, lengths):
        return onnx.shape_inference.infer_shapes(model)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _copy(model: ModelProto) -> ModelProto:
    result = ModelProto()
    result.CopyFrom(model)
    return result


def _dtypes_and_shapes(model: ModelProto, typed: ModelProto) -> tuple[dict[str, int], dict[str, StaticShape]]:
    """The element type of each value, and the known shapes of operands of Shape and Size."""
    shape_operands = {node.input[0] for node in model.graph.node if node.op_type in _SIZES and node.input}
    dtypes: dict[str, int] = {}
    shapes: dict[str, StaticShape] = {}
    for info in itertools.chain(typed.graph.value_info, typed.graph.input, typed.graph.output):
        name, type_ = info.name, info.type.tensor_type
        dtypes[name] = type_.elem_type
        if name in shape_operands and _is_sized(type_):
            shapes[name] = tuple(dim.dim_value for dim in type_.shape.dim)
    return dtypes, shapes


def _compute_numbers(model: ModelProto, dtypes: Mapping[str, int], shapes: Mapping[str, StaticShape]) -> int:
    """Replace small integer computations by constants, in place; returns their number.

    dtypes, shapes: by value, its element type, and its shape if known.
    """
    computed = _with_known_operands(model, _computed_nodes(model, dtypes), shapes)
    read = {value for node in computed for value in node.input}
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name in read and _is_small(t)}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output[0] in read:
            known.update((node.output[0], value) for value in map(_constant_value, node.attribute) if value is not None)
    count = 0
    for node in computed:
        result = _shape_of(node, shapes) if node.op_type in _SIZES else _computed(node, known)
        if result is None or result.size > _SMALL:
            continue
        known[node.output[0]] = result
        constant = helper.make_node("Constant", [], list(node.output), value=numpy_helper.from_array(result))
        constant.name = node.name
        node.CopyFrom(constant)
        count += 1
    return count


def _computed_nodes(model: ModelProto, dtypes: Mapping[str, int]) -> list[NodeProto]:
    """Nodes whose results may be computed; nodes of floats only if they depend on such nodes and constants.

    They have the form of OPSET, for which `exact.py` is written.
    """
    version = max((entry.version for entry in model.opset_import if entry.domain in ONNX_DOMAINS), default=OPSET)
    known, computed = {tensor.name for tensor in model.graph.initializer} | {""}, []
    for node in model.graph.node:
        if node.op_type == "Constant":
            known.update(node.output)
        if node.domain not in ONNX_DOMAINS or node.op_type not in _COMPUTED or len(node.output) != 1:
            continue
        if version < OPSET and not is_valid_unchanged(node.op_type, version, OPSET):
            continue
        dtype = dtypes.get(node.output[0], 0)
        if dtype in _INTEGERS or (dtype == TensorProto.FLOAT and known.issuperset(node.input)):
            known.update(node.output)
            computed.append(node)
    return computed


def _with_known_operands(
    model: ModelProto, computed: list[NodeProto], shapes: Mapping[str, StaticShape]
) -> list[NodeProto]:
    """The nodes that depend on constants and known shapes alone; no element is read."""
    known, result = {tensor.name for tensor in model.graph.initializer} | {""}, []
    known.update(value for node in model.graph.node if node.op_type == "Constant" for value in node.output)
    for node in computed:
        if node.input[0] in shapes if node.op_type in _SIZES else known.issuperset(node.input):
            known.update(node.output)
            result.append(node)
    return result


def _is_small(tensor: TensorProto) -> bool:
    small = math.prod(tensor.dims) <= _SMALL and tensor.data_location != TensorProto.EXTERNAL
    return small and tensor.data_type in (*_INTEGERS, TensorProto.FLOAT)


def _constant_value(attribute: onnx.AttributeProto) -> np.ndarray | None:
    """The elements of a Constant node with this attribute; None for other element types."""
    if attribute.name == "value" and _is_small(attribute.t):
        return numpy_helper.to_array(attribute.t)
    if attribute.name in ("value_int", "value_ints"):
        return np.array(helper.get_attribute_value(attribute), dtype=np.int64)
    if attribute.name in ("value_float", "value_floats"):
        return np.array(helper.get_attribute_value(attribute), dtype=np.float32)
    return None


def _shape_of(node: NodeProto, shapes: Mapping[str, StaticShape]) -> np.ndarray | None:
    shape = shapes.get(node.input[0])
    if shape is None:
        return None
    if node.op_type == "Size":
        return np.array(np.prod(shape, dtype=np.int64))
    span = {a.name: a.i for a in node.attribute}
    return np.array(shape, dtype=np.int64)[slice(span.get("start", 0), span.get("end"))]


def _computed(node: NodeProto, known: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The node's result; None if an operand is unknown, or if the result is too large."""
    if any(value and value not in known for value in node.input):
        return None
    operands = [known[value] if value else None for value in node.input]
    if (enlarged(node.op_type, operands) or 0) > _SMALL:
        return None
    if not all(map(_is_numbers, node.attribute)):
        return None
    attributes = {a.name: attribute_value(a, numpy_helper.to_array) for a in node.attribute}
    return exact(node.op_type, operands, attributes)


def _is_numbers(attribute: onnx.AttributeProto) -> bool:
    """Whether the value is in the attribute itself and is not a tensor of strings."""
    excluded = attribute.ref_attr_name or attribute.t.data_location == TensorProto.EXTERNAL
    return not excluded and attribute.t.data_type != TensorProto.STRING
