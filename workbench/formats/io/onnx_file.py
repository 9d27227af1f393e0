"""Load an ONNX file as a graph: read, check, convert to one opset, infer types, bind dims."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir
from onnx import ModelProto, NodeProto, TensorProto, helper, parser

from workbench.analysis.inference.bound_sizes import bound_types
from workbench.analysis.inference.open_sizes import types_with_open_sizes
from workbench.errors import counted
from workbench.formats.io.broadcasts import expand_prelu_operands
from workbench.formats.io.checks import (
    EARLY,
    SHOWN_NOT_RUN,
    check_model,
    every_node,
    every_tensor,
    opset_of,
    unknown_operators,
)
from workbench.formats.io.deprecated import replace_deprecated
from workbench.formats.io.dims import bind_dims, name_unknown_dims
from workbench.formats.io.empty_results import collected_results, keep_collected
from workbench.formats.io.errors import LoadError
from workbench.formats.io.inference_crashes import check_calls
from workbench.formats.io.operand_ranks import check_operands
from workbench.formats.io.opset import to_opset
from workbench.formats.io.own_bodies import add_own_bodies, take_own_bodies
from workbench.formats.io.sparse import keep_sparse, make_dense
from workbench.formats.io.streaming_proto import MalformedProtoError, TooDeepError, read_model
from workbench.formats.io.value_types import check_types, has_shape, with_types
from workbench.formats.io.weights import Files, mapped, note_read
from workbench.formats.io.written_types import in_own_order, untrue_outputs
from workbench.formats.opsets.lowering import newer_than
from workbench.ir import DataType, Edit, Graph, constant_shape
from workbench.ir.from_proto import NodeMetadata, from_proto, value_type
from workbench.ir.preserved_metadata import PassthroughFields, kept_fields
from workbench.ir.text import OPSET, parser_message
from workbench.ir.to_proto import LARGE
from workbench.ir.types import MAX_AXES, MissingConstant, Shape
from workbench.ops.channels_last import DOMAIN
from workbench.ops.declared import use_declared_operators
from workbench.ops.npu import CONVERSIONS
from workbench.ops.own_functions import without_own_functions

_MAX_BRACKETS = 300  # ONNX's messages are nested at most 100 deep; a nested If takes 3 levels and 2 brackets
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|=>|#[^\n]*|[()\[\]{}<>]')
_MAX_NAMED = 3  # inputs in one warning
WITHOUT_BODY = "without a body, which no runtime runs"
LARGEST_ARRAY = 2**63 - 1  # bytes of a NumPy array, axes of size 0 counted as 1
_TYPED_DATA = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def load_onnx(
    path: Path, dims: Mapping[str, int] | None = None, newest: int = OPSET, freeze_defaults: bool = False
) -> Graph:
    """The graph of an `.onnx` file; its weights stay in the file.

    newest: see `to_opset`. freeze_defaults: whether inputs with a default value become constants. Raises LoadError.
    """
    return _load(mapped(path), path.parent, dims, newest, freeze_defaults)


def load_text(
    text: str, dims: Mapping[str, int] | None = None, freeze_defaults: bool = False
) -> tuple[Graph, ModelProto]:
    """The graph of a model in ONNX's textual syntax, and the parsed model. Raises LoadError."""
    if _brackets_deep(text) > _MAX_BRACKETS:  # the parser's stack would overflow, which ends the process
        raise LoadError(f"the text has more than {_MAX_BRACKETS} nested brackets; no runtime could run it")
    try:
        model = parser.parse_model(text)
    except parser.ParseError as error:
        raise LoadError(f"the text is not ONNX's textual syntax: {parser_message(error)}; correct it") from None
    return load_proto(model, dims, freeze_defaults), model


def _brackets_deep(text: str) -> int:
    """The largest number of open brackets, outside of texts in quotation marks."""
    depth = deepest = 0
    for token in _BRACKETS.finditer(text):
        if token[0] in ("(", "[", "{", "<"):
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in (")", "]", "}", ">"):
            depth = max(depth - 1, 0)
    return deepest


def load_proto(model: ModelProto, dims: Mapping[str, int] | None = None, freeze_defaults: bool = False) -> Graph:
    """The graph of a model in memory. Raises LoadError."""
    return _load(memoryview(model.SerializeToString()), None, dims, OPSET, freeze_defaults)


def _load(
    data: memoryview, folder: Path | None, dims: Mapping[str, int] | None, newest: int, freeze_defaults: bool
) -> Graph:
    try:
        model, metadata = read_model(data)
    except TooDeepError:
        raise LoadError("its bodies are nested deeper than ONNX's parsers allow, so no runtime could run it") from None
    except MalformedProtoError:
        raise LoadError("the file is not ONNX, or it was cut off; export or copy it again") from None
    note_read(data)
    files = Files(folder, data, may_lack=True)
    if model.ir_version == 0 and not model.opset_import and not model.HasField("graph"):
        raise LoadError("the file is not ONNX, or it was cut off; export or copy it again")
    sparse = make_dense(model, files)
    check_model(model)
    kept = kept_fields(model)
    defaults = take_defaults(model, freeze_defaults)
    nodes, tensors = list(every_node(model)), [*every_tensor(model), *defaults]  # collected once for all steps below
    _check_sizes(tensors)
    read_small_weights(tensors, files)
    _replace_npu_conversions(nodes)
    name_unknown_dims(model)
    declared_operators, faults = use_declared_operators()
    unknown = unknown_operators(model, nodes, declared_operators)
    check_calls(model, nodes)
    types, collected = check_types(model, nodes), collected_results(model)
    types_of_outputs = ((output.name, value_type(output.type)) for output in model.graph.output)
    declared = {value: type_ for value, type_ in types_of_outputs if type_ is not None}
    deprecated = replace_deprecated(model, types)
    nodes = list(every_node(model)) if deprecated else nodes
    own_bodies = take_own_bodies(model, nodes)
    nodes = list(every_node(model)) if own_bodies else nodes

    def at_one_opset(keep: Collection[str] = ()) -> tuple[Graph, ModelProto, list[str], list[str]]:
        converted, reasons = to_opset(model, nodes, types, newest, keep=keep)
        add_own_bodies(converted, own_bodies, opset_of(converted))
        graph, without_body = without_own_functions(_readable(with_types(converted, types), files, metadata))
        graph.file_opset = opset_of(model)
        return graph, converted, reasons, without_body

    graph, converted, conversion_warnings, without_body = at_one_opset()
    unwritable = newer_than(graph, opset_of(model), EARLY)
    if unwritable:
        graph, converted, conversion_warnings, without_body = at_one_opset(unwritable)
    if converted is not model:
        _share_new_constants(graph, {*(t.name for t in tensors), *(v for node in nodes for v in node.output)})
    check_operands(graph)
    expanded = expand_prelu_operands(graph)
    graph.apply(Edit(types=types_with_open_sizes(graph)))
    keep_collected(graph, collected)
    keep_sparse(graph, sparse)
    inputs, followed = (
        {value: type_ for value in values if (type_ := graph.type(value)) is not None}
        for values in (graph.inputs, graph.outputs)
    )
    graph.kept = PassthroughFields(
        kept,
        {tensor.name: files.read(tensor) for tensor in defaults},
        {value: in_own_order(graph, value, type_) for value, type_ in declared.items()},
        inputs,
        {value: in_own_order(graph, value, type_) for value, type_ in followed.items()},
    )
    graph.warnings = (
        *_missing_file_warnings(files),
        *_default_value_warnings(defaults),
        *deprecated,
        *unknown,
        *(faults if unknown else ()),
        *conversion_warnings,
        *expanded,
        *_without_body_warnings(without_body),
        *untrue_outputs(followed, declared),
    )
    graph.dims = bind_dims(graph, dims)
    if graph.dims and not _all_sizes_follow(graph):
        graph.bound_types = bound_types(graph, None if expanded else converted)
    return graph


def _all_sizes_follow(graph: Graph) -> bool:
    """Whether the sizes of every value are known from the bound symbols of its own type."""
    types = (graph.tensor_type(value) for value in graph.values() if value not in graph.constants)
    shapes = [None if type_ is None else type_.shape for type_ in types]
    return all(s is not None and all(isinstance(d, int) or d in graph.dims for d in s) for s in shapes)


def _readable(model: ModelProto, files: Files, metadata: NodeMetadata) -> Graph:
    try:
        return from_proto(model, files.read, metadata)
    except (onnx_ir.serde.SerdeError, ValueError) as error:
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        raise LoadError(f"a part of the model cannot be read: {reason}; export it without this part") from None


def take_defaults(model: ModelProto, freeze: bool) -> list[TensorProto]:
    """Remove the default values of inputs from the model, and return them.

    freeze: whether these inputs become constants instead. Before IR 4 they always do, since all constants were inputs.
    """
    constants = {t.name: t for t in model.graph.initializer}
    with_default = {i.name: i for i in model.graph.input if i.name in constants}
    constant = model.ir_version < 4 or freeze
    model.ir_version = max(model.ir_version, 4)
    if constant:
        kept = [i for i in model.graph.input if i.name not in with_default]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        return []
    results = [TensorProto.FromString(constants[name].SerializeToString()) for name in with_default]
    for tensor in results:
        if not _is_typed(with_default[tensor.name]):
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            with_default[tensor.name].type.CopyFrom(info.type)
    if results:
        rest = [t for t in model.graph.initializer if t.name not in with_default]
        del model.graph.initializer[:]
        model.graph.initializer.extend(rest)
    return results


def _is_typed(info: onnx.ValueInfoProto) -> bool:
    return has_shape(info) and info.type.tensor_type.elem_type != TensorProto.UNDEFINED


def _share_new_constants(graph: Graph, names: Collection[str]) -> None:
    """Replace small constants that conversion made by equal ones of the file. names: of the file's values.

    An older opset has them as attributes, and a file of it as little use for two equal ones as for one.
    """
    known = {
        v: t for v, t in graph.constants.items() if t.dtype != DataType.STRING and not isinstance(t, MissingConstant)
    }
    small = {value: tensor for value, tensor in known.items() if tensor.nbytes <= LARGE}
    first: dict[tuple[DataType, Shape, bytes], str] = {}
    for value in sorted(small, key=lambda value: value not in names):
        first.setdefault((small[value].dtype, constant_shape(small[value]), small[value].tobytes()), value)
    equal = {v: first[t.dtype, constant_shape(t), t.tobytes()] for v, t in small.items() if v not in names}
    replaced = {value: other for value, other in equal.items() if value != other and not graph.is_output(value)}
    graph.apply(Edit(replace=replaced))


def _missing_file_warnings(files: Files) -> list[str]:
    """A sentence for each file of weights that is missing."""
    return [
        f"the external data file '{location}' is missing, with the elements of {counted(len(names), 'weight')}; "
        f"{SHOWN_NOT_RUN}, until it is put beside the model"
        for location, names in files.missing_files.items()
    ]


def _default_value_warnings(defaults: Sequence[TensorProto]) -> list[str]:
    """Sentences about inputs that a caller need not feed."""
    names = [tensor.name for tensor in defaults]
    if len(names) > _MAX_NAMED:
        named = ", ".join(f"'{name}'" for name in names[:_MAX_NAMED])
        rest = len(names) - _MAX_NAMED
        return [
            f"{len(names)} inputs have default values and stay inputs: {named} and {rest} more; "
            "--freeze-defaults makes constants of them"
        ]
    return [
        f"input '{name}' has a default value and stays an input; --freeze-defaults makes a constant of it"
        for name in names
    ]


def _without_body_warnings(operators: Sequence[str]) -> list[str]:
    more = f" and {len(operators) - 1} more" if len(operators) > 1 else ""
    return [f"the file calls {operators[0]}{more} {WITHOUT_BODY}; the bodies were added"] if operators else []


def _replace_npu_conversions(nodes: Iterable[NodeProto]) -> None:
    """Replace the NPU's `nchw2nhwc` and `nhwc2nchw` by Transposes, and add the default axes of
    MeanVarianceNormalization, without which inference fails in its function body."""
    for node in nodes:
        op_type = node.op_type
        if op_type == "MeanVarianceNormalization" and node.domain in ("", "ai.onnx") and not node.attribute:
            node.attribute.append(helper.make_attribute("axes", [0, 2, 3]))
        elif op_type in CONVERSIONS and node.domain == DOMAIN:
            perm = CONVERSIONS[op_type]
            node.CopyFrom(helper.make_node("Transpose", node.input, node.output, node.name, perm=perm))


def _check_sizes(tensors: Iterable[TensorProto]) -> None:
    """Raise LoadError for a weight whose type is unknown, or whose elements do not fit its shape."""
    known = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
    for tensor in tensors:
        if tensor.data_type not in known:
            raise LoadError(f"weight '{tensor.name}' has an unknown element type, number {tensor.data_type}")
        dims = list(tensor.dims)
        if any(d < 0 for d in dims):
            raise LoadError(f"weight '{tensor.name}' has the shape {dims}, with a negative dimension")
        bits = 0 if tensor.data_type == TensorProto.STRING else onnx_ir.DataType(tensor.data_type).bitwidth
        if len(dims) > MAX_AXES:
            raise LoadError(f"weight '{tensor.name}' has {len(dims)} axes; at most {MAX_AXES} can be opened")
        if math.prod(d for d in dims if d) * max(bits, 8) // 8 > LARGEST_ARRAY:
            raise LoadError(f"weight '{tensor.name}' has the shape {dims}, which no array can have")
        elements = math.prod(dims)
        if tensor.data_location == TensorProto.EXTERNAL:
            continue
        if tensor.HasField("raw_data"):
            needed, present, unit = math.ceil(elements * bits / 8), len(tensor.raw_data), "bytes"
        elif bits == 0 or (8 <= bits <= 64 and tensor.data_type != TensorProto.COMPLEX64):
            needed, present, unit = elements, max(len(getattr(tensor, name)) for name in _TYPED_DATA), "numbers"
        else:
            continue
        if present != needed:
            raise LoadError(f"weight '{tensor.name}' needs {needed:,} {unit} and has {present:,}")


def read_small_weights(tensors: Iterable[TensorProto], files: Files) -> None:
    """Read small external tensors: they may be shapes or axes, which inference needs."""
    for tensor in tensors:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        weight = files.read(tensor)
        if weight.nbytes <= LARGE and not any(tensor.name in names for names in files.missing_files.values()):
            tensor.raw_data = weight.tobytes()
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
