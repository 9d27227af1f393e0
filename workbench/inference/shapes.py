"""Types of all values, from ONNX's own shape inference on a model without its weights.

ONNX's inference does not follow numbers through Range, Gather or Where of
constants, with which exporters compute axes and shapes; such small
computations are carried out first, and their results stand as constants:
those of integers, and of floats what hangs on known numbers alone (a size
times 2.0, rounded down).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import onnx
import onnx.inliner
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from workbench.inference.exact import enlarged, exact
from workbench.inference.propagation import is_bounded
from workbench.ir import Graph, TensorType, constant_type
from workbench.ir.from_proto import attribute_value, bodies, value_type
from workbench.ir.to_proto import structure
from workbench.ops.npu import with_own_functions

_SMALL = 64  # elements; shapes, axes and pads have fewer
_ROUNDS = 8  # each finds the shapes that the numbers of the one before decide
_INTEGERS = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
_COMPUTED = frozenset(
    # small arithmetic, of which `exact.py` knows the one result
    "Shape Size Range Gather Concat Unsqueeze Squeeze Cast CastLike Add Sub Mul Div Neg Abs Slice Reshape Equal Less "  # noqa: SIM905
    "Greater Where ConstantOfShape Expand ReduceProd ReduceSum ReduceMax ReduceMin Min Max Mod Not And Or Identity "
    "Transpose Flatten Tile ScatterND Floor Ceil Sqrt".split()
)

StaticShape = tuple[int, ...] | None
_SIZES = ("Shape", "Size")

_MADE_UP = "unk__"  # what ONNX's inference calls a size that it does not know
_OWN = "unk_"
_NUMBERS = itertools.count()
_AS_OPERAND = ("GroupNormalization",)  # ONNX infers nothing of it; its result has its first operand's type


def infer_types(
    graph: Graph, dims: Mapping[str, int] | None = None, *, again: bool = False, model: ModelProto | None = None
) -> dict[str, TensorType]:
    """The type of every tensor value (constants too) when `dims` are put in; those of bodies are not among them.

    dims:  values of symbolic dims; None: `graph.dims`. A value that inference
           leaves open keeps the type that the graph has for it, `dims` put in.
    again: the graph has types from an inference, with which new ones will stand: what
           inference calls unk__0 now is another size than unk__0 then, and gets a name of its own.
    model: the graph as a model without its weights, where loading has it at hand.
    """
    bound = graph.dims if dims is None else dims
    whole = with_own_functions(graph)
    added = whole.functions.keys() - graph.functions.keys()
    model = structure(whole) if model is None or added else _copy(model)
    del model.graph.value_info[:]
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    for value in model.graph.input:
        _put_in(value, bound)
    if model.functions:  # bodies then see the attributes of the call, which inference needs for numbers
        model = onnx.inliner.inline_local_functions(model)
    types = {v: _bound(t, bound) for v, t in graph.types.items() if isinstance(t, TensorType)}
    if not again:  # what the file calls unk__0 was found by somebody else's inference
        types.update((v, _without_made_up(t)) for v, t in types.items() if v not in graph.inputs)
    if bound:  # numbers that follow from the sizes put in spare a round of inference
        kinds = {value: type_.dtype.value for value, type_ in types.items()}
        _compute_numbers(model, kinds, {value: type_.static_shape for value, type_ in types.items()})
    typed = infer_model(model)
    given = {d for v in graph.inputs if v in types for d in types[v].shape or () if isinstance(d, str)}
    names: dict[str, str] = {}
    types.update((name, constant_type(tensor)) for name, tensor in graph.constants.items())
    for info in (*typed.graph.value_info, *typed.graph.output):
        found = value_type(info.type)
        if isinstance(found, TensorType) and graph.has_value(info.name) and info.name not in graph.constants:
            found = _with_own_names(found, names, given) if again else found
            types[info.name] = _merged(found, types.get(info.name))
    return types


def _without_made_up(type_: TensorType) -> TensorType:
    if type_.shape is None:
        return type_
    return type_.with_shape(tuple(None if isinstance(d, str) and d.startswith(_MADE_UP) else d for d in type_.shape))


def _with_own_names(found: TensorType, names: dict[str, str], given: set[str]) -> TensorType:
    """The type, its made-up symbols called anew; `names` are those of this inference."""
    if found.shape is None:
        return found
    made_up = (d for d in found.shape if isinstance(d, str) and d.startswith(_MADE_UP) and d not in given)
    for dim in made_up:
        if dim not in names:
            names[dim] = f"{_OWN}{next(_NUMBERS)}"
    return found.with_shape(tuple(names.get(d, d) if isinstance(d, str) else d for d in found.shape))


def _put_in(value: ValueInfoProto, dims: Mapping[str, int]) -> None:
    for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
        if dim.dim_param in dims:
            dim.dim_value = dims[dim.dim_param]


def _bound(found: TensorType, dims: Mapping[str, int]) -> TensorType:
    if found.shape is None:
        return found
    return found.with_shape(tuple(dims.get(d, d) if isinstance(d, str) else d for d in found.shape))


def _merged(found: TensorType, known: TensorType | None) -> TensorType:
    """What inference found, its open dims from what was known."""
    if known is None or known.shape is None:
        return found
    if found.shape is None:
        return found.with_shape(known.shape)
    if len(found.shape) != len(known.shape):
        return found
    pairs = zip(found.shape, known.shape, strict=True)
    return found.with_shape(tuple(k if not isinstance(f, int) and isinstance(k, int) else f for f, k in pairs))


# ---- inference on a model ---------------------------------------------------------------


def infer_model(model: ModelProto) -> ModelProto:
    """The model with the types of its values, as far as they follow. Its weights may be left out.

    What is given is changed: computations on shapes become constants in it.
    """
    for node in model.graph.node:
        if node.op_type in _AS_OPERAND and node.domain in ("", "ai.onnx"):
            node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output, node.name))
    typed = _inferred(model)
    for _ in range(_ROUNDS):
        if _is_settled(typed.graph) or not _compute_numbers(model, *_kinds_and_shapes(model, typed)):
            break
        del typed  # as in `_inferred`
        typed = _inferred(model)
    return typed


def _is_settled(typed: GraphProto) -> bool:
    """Are all sizes known, so that numbers have no more to tell? Nothing is said of bodies."""
    known = set()
    for info in itertools.chain(typed.value_info, typed.output):
        if not _is_sized(info.type.tensor_type):
            return False
        known.add(info.name)
    if not all(value in known for node in typed.node for value in node.output if value):
        return False
    return not any(bodies(attribute) for node in typed.node for attribute in node.attribute)


def _is_sized(type_: TypeProto.Tensor) -> bool:
    return type_.HasField("shape") and all(dim.HasField("dim_value") for dim in type_.shape.dim)


def _inferred(model: ModelProto) -> ModelProto:
    typed = onnx.shape_inference.infer_shapes(model)
    if _is_settled(typed.graph) or not is_bounded(model, typed):
        return typed
    del typed  # of a graph of 20,000 nodes it takes 50 MB, and inference needs as much again
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _copy(model: ModelProto) -> ModelProto:
    result = ModelProto()
    result.CopyFrom(model)
    return result


def _kinds_and_shapes(model: ModelProto, typed: ModelProto) -> tuple[dict[str, int], dict[str, StaticShape]]:
    """By value its element type, and its shape where that is known and a node of the model asks for it."""
    asked = {node.input[0] for node in model.graph.node if node.op_type in _SIZES and node.input}
    kinds: dict[str, int] = {}
    shapes: dict[str, StaticShape] = {}
    for info in itertools.chain(typed.graph.value_info, typed.graph.input, typed.graph.output):
        name, type_ = info.name, info.type.tensor_type
        kinds[name] = type_.elem_type
        if name in asked and _is_sized(type_):
            shapes[name] = tuple(dim.dim_value for dim in type_.shape.dim)
    return kinds, shapes


def _compute_numbers(model: ModelProto, kinds: Mapping[str, int], shapes: Mapping[str, StaticShape]) -> int:
    """Replace small integer computations by constants, in place; how many there were.

    kinds, shapes: by value its element type, and its shape where that is known.
    """
    computed = _computed_nodes(model, kinds)
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


def _computed_nodes(model: ModelProto, kinds: Mapping[str, int]) -> list[NodeProto]:
    """Nodes whose numbers may be known; of floats only what hangs on such nodes and on constants alone."""
    known, computed = {tensor.name for tensor in model.graph.initializer} | {""}, []
    for node in model.graph.node:
        if node.op_type == "Constant":
            known.update(node.output)
        if node.domain not in ("", "ai.onnx") or node.op_type not in _COMPUTED or len(node.output) != 1:
            continue
        kind = kinds.get(node.output[0], 0)
        if kind in _INTEGERS or (kind == TensorProto.FLOAT and known.issuperset(node.input)):
            known.update(node.output)
            computed.append(node)
    return computed


def _is_small(tensor: TensorProto) -> bool:
    small = np.prod(tensor.dims, dtype=np.int64) <= _SMALL and tensor.data_location != TensorProto.EXTERNAL
    return bool(small and tensor.data_type in (*_INTEGERS, TensorProto.FLOAT))


def _constant_value(attribute: onnx.AttributeProto) -> np.ndarray | None:
    """The numbers of a Constant node, whichever attribute they are written in."""
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
    """The node's numbers; None where those that it reads are not known, or it makes far more of them."""
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
    """Does it hold its value here, and no tensor of texts?"""
    left_out = attribute.ref_attr_name or attribute.t.data_location == TensorProto.EXTERNAL
    return not left_out and attribute.t.data_type != TensorProto.STRING
