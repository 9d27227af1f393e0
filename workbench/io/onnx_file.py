"""Load an ONNX file as a graph: read, check, convert to one opset, infer types, bind dims."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir
from onnx import ModelProto, NodeProto, TensorProto, helper, parser

from workbench.errors import counted
from workbench.inference.bound_sizes import bound_types
from workbench.inference.boundaries import MADE_UP
from workbench.inference.open_sizes import types_with_open_sizes
from workbench.inference.shapes import TypesOfFile, infer_model
from workbench.io.broadcasts import spell_out_broadcasts
from workbench.io.checks import (
    SCHEMA_DOMAINS,
    SHOWN_NOT_RUN,
    check_model,
    check_types,
    every_graph,
    every_node,
    every_tensor,
    opset_of,
    unknown_operators,
    without_declared_types,
)
from workbench.io.deprecated import replace_deprecated
from workbench.io.dims import bind_dims, name_unknown_dims
from workbench.io.errors import LoadError
from workbench.io.inference_crashes import check_calls
from workbench.io.operands import check_operands
from workbench.io.opset import to_opset
from workbench.io.sparse import make_dense
from workbench.io.streaming_proto import MalformedProtoError, TooDeepError, read_model
from workbench.io.weights import Files, mapped, note_read
from workbench.ir import Edit, Graph
from workbench.ir.from_proto import NodeMetadata, from_proto, value_type
from workbench.ir.kept import Kept, kept_fields
from workbench.ir.text import OPSET, parse_words
from workbench.ir.to_proto import LARGE
from workbench.ir.types import MOST_AXES
from workbench.ops.channels_last import DOMAIN
from workbench.ops.npu import CONVERSIONS

_MOST_BRACKETS = 300  # ONNX's messages may be nested in 100 others, an If in an If in 3, with 2 brackets
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|=>|#[^\n]*|[()\[\]{}<>]')
_MOST_NAMED = 3  # most inputs named in one warning
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
    if _brackets_deep(text) > _MOST_BRACKETS:  # the parser's stack would overflow, which ends the process
        raise LoadError(f"the text has more than {_MOST_BRACKETS} brackets in each other; no runtime could run it")
    try:
        model = parser.parse_model(text)
    except parser.ParseError as error:
        raise LoadError(f"the text is not ONNX's textual syntax: {parse_words(error)}; correct it there") from None
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
    make_dense(model, files)
    check_model(model)
    kept = kept_fields(model)
    defaults = take_defaults(model, freeze_defaults)
    nodes, tensors = list(every_node(model)), [*every_tensor(model), *defaults]  # walked once, for all below
    _check_sizes(tensors)
    read_small_weights(tensors, files)
    _spell_out(nodes)
    name_unknown_dims(model)
    unknown = unknown_operators(model, nodes)
    check_calls(model, nodes)
    types = check_types(model, nodes)
    types_of_outputs = ((output.name, value_type(output.type)) for output in model.graph.output)
    declared = {value: type_ for value, type_ in types_of_outputs if type_ is not None}
    deprecated = replace_deprecated(model, types)
    nodes = list(every_node(model)) if deprecated else nodes
    if any(SHOWN_NOT_RUN in sentence for sentence in unknown):
        converted, more = model, unknown
    else:
        converted, more = to_opset(model, nodes, types, newest)
        more = [*unknown, *more]
    graph = _readable(with_types(converted, types), files, metadata)
    check_operands(graph)
    spelled_out = spell_out_broadcasts(graph)
    graph.apply(Edit(types=types_with_open_sizes(graph)))
    graph.file_opset = opset_of(model)
    graph.kept = Kept(kept, {tensor.name: files.read(tensor) for tensor in defaults}, declared)
    graph.warnings = (*_lacking(files), *_with_defaults(defaults), *deprecated, *more, *spelled_out)
    graph.dims = bind_dims(graph, dims)
    if graph.dims and not _all_sizes_follow(graph):
        graph.bound_types = bound_types(graph, None if spelled_out else converted)
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
        words = " ".join(str(error.__cause__ or error).split())[:200]
        raise LoadError(f"a part of the model cannot be read: {words}; export it without that") from None


def take_defaults(model: ModelProto, freeze: bool) -> list[TensorProto]:
    """Remove the default values of inputs from the model, and return them.

    freeze: whether these inputs become constants instead. Before IR 4, where all constants had to be inputs, they do.
    """
    constants = {t.name: t for t in model.graph.initializer}
    both = {i.name: i for i in model.graph.input if i.name in constants}
    constant = model.ir_version < 4 or freeze
    model.ir_version = max(model.ir_version, 4)
    if constant:
        kept = [i for i in model.graph.input if i.name not in both]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        return []
    results = [TensorProto.FromString(constants[name].SerializeToString()) for name in both]
    for tensor in results:
        if not _is_typed(both[tensor.name]):
            message = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            both[tensor.name].type.CopyFrom(message.type)
    if results:
        rest = [t for t in model.graph.initializer if t.name not in both]
        del model.graph.initializer[:]
        model.graph.initializer.extend(rest)
    return results


def _is_typed(info: onnx.ValueInfoProto) -> bool:
    return _has_shape(info) and info.type.tensor_type.elem_type != TensorProto.UNDEFINED


def _lacking(files: Files) -> list[str]:
    """A sentence for each file of weights that is missing."""
    return [
        f"the external data file '{location}' is missing, with the elements of {counted(len(names), 'weight')}; "
        f"{SHOWN_NOT_RUN}, until it is put beside the model"
        for location, names in files.lacking.items()
    ]


def _with_defaults(defaults: Sequence[TensorProto]) -> list[str]:
    """A sentence on the inputs that need not be given."""
    names = [tensor.name for tensor in defaults]
    if len(names) > _MOST_NAMED:
        named = ", ".join(f"'{name}'" for name in names[:_MOST_NAMED])
        rest = len(names) - _MOST_NAMED
        return [
            f"{len(names)} inputs have default values and stay inputs: {named} and {rest} more; "
            "--freeze-defaults makes constants of them"
        ]
    return [
        f"input '{name}' has a default value and stays an input; --freeze-defaults makes a constant of it"
        for name in names
    ]


def _spell_out(nodes: Iterable[NodeProto]) -> None:
    """Replace the NPU's `nchw2nhwc` and `nhwc2nchw` by Transposes, and write down the default axes of
    MeanVarianceNormalization, without which inference fails in its function body."""
    for node in nodes:
        op_type = node.op_type
        if op_type == "MeanVarianceNormalization" and node.domain in ("", "ai.onnx") and not node.attribute:
            node.attribute.append(helper.make_attribute("axes", [0, 2, 3]))
        elif op_type in CONVERSIONS and node.domain == DOMAIN:
            perm = CONVERSIONS[op_type]
            node.CopyFrom(helper.make_node("Transpose", node.input, node.output, node.name, perm=perm))


def _check_sizes(tensors: Iterable[TensorProto]) -> None:
    """Check that weights in the file have as many elements as their shape says."""
    known = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
    for tensor in tensors:
        if tensor.data_type not in known:
            raise LoadError(f"weight '{tensor.name}' is of an unknown element type, number {tensor.data_type}")
        dims = list(tensor.dims)
        if any(d < 0 for d in dims):
            raise LoadError(f"weight '{tensor.name}' has the shape {dims}, with a negative dimension")
        bits = 0 if tensor.data_type == TensorProto.STRING else onnx_ir.DataType(tensor.data_type).bitwidth
        if len(dims) > MOST_AXES:
            raise LoadError(f"weight '{tensor.name}' has {len(dims)} axes; at most {MOST_AXES} can be opened")
        if math.prod(d for d in dims if d) * max(bits, 8) // 8 > LARGEST_ARRAY:
            raise LoadError(f"weight '{tensor.name}' has the shape {dims}, which no array can have")
        elements = math.prod(dims)
        if tensor.data_location == TensorProto.EXTERNAL:
            continue
        if tensor.HasField("raw_data"):
            needed, result, unit = math.ceil(elements * bits / 8), len(tensor.raw_data), "bytes"
        elif bits == 0 or (8 <= bits <= 64 and tensor.data_type != TensorProto.COMPLEX64):
            needed, result, unit = elements, max(len(getattr(tensor, name)) for name in _TYPED_DATA), "numbers"
        else:
            continue
        if result != needed:
            raise LoadError(f"weight '{tensor.name}' needs {needed:,} {unit} and has {result:,}")


def read_small_weights(tensors: Iterable[TensorProto], files: Files) -> None:
    """Read small external tensors: they may be shapes or axes, which inference needs."""
    for tensor in tensors:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        weight = files.read(tensor)
        if weight.nbytes <= LARGE and not any(tensor.name in names for names in files.lacking.values()):
            tensor.raw_data = weight.tobytes()
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")


def with_types(model: ModelProto, types: TypesOfFile) -> ModelProto:
    """The model with the types of all values as they follow from its inputs.

    What the file declares of other values is a wish, which exporters often get wrong (a Squeeze of [N,3] is declared
    as [N,3], and is [3] where N is 1), so only the element type is kept; of results of operators that nobody defines,
    all. types: of the model before opset conversion.
    """
    typed = infer_model(without_declared_types(model, types.nested), types.lengths)
    result = ModelProto()
    result.CopyFrom(model)
    functions = {(f.domain, f.name) for f in model.functions}
    main, *bodies = pairs = list(zip(every_graph(result, types.nested), every_graph(typed, types.nested), strict=True))
    for graph, inferred in pairs:
        sized = {i.name for i in inferred.value_info if _has_shape(i)}
        undefined = {value for node in graph.node if not _is_defined(node, functions) for value in node.output}
        left = [_as_declared(i, undefined) for i in graph.value_info if i.name not in sized]
        rest = {i.name for i in left}
        kept = [*left, *(i for i in inferred.value_info if i.name not in rest)] if left else inferred.value_info
        del graph.value_info[:]
        graph.value_info.extend(kept)
        for output, outcome in zip(graph.output, inferred.output, strict=True):
            if outcome.type.WhichOneof("value") is None or not _has_shape(outcome):
                _as_declared(output, undefined if graph is main[0] else ())
            else:
                output.type.CopyFrom(outcome.type)
    for body, inferred in bodies:
        for value, outcome in zip(body.input, inferred.input, strict=True):
            value.type.CopyFrom(outcome.type)
    return result


def _is_defined(node: NodeProto, functions: Collection[tuple[str, str]]) -> bool:
    return node.domain in ("", "ai.onnx", *SCHEMA_DOMAINS) or (node.domain, node.op_type) in functions


def _as_declared(info: onnx.ValueInfoProto, undefined: Collection[str]) -> onnx.ValueInfoProto:
    """What may be believed of a declared type, in place: without its shape, unless nothing defines its operator.

    Symbols that an earlier inference made up mean other sizes than those of the same names made up here.
    """
    if not info.type.HasField("tensor_type"):
        return info
    if info.name not in undefined:
        info.type.tensor_type.ClearField("shape")
    for dim in info.type.tensor_type.shape.dim:
        if dim.dim_param.startswith(MADE_UP):
            dim.Clear()
    return info


def _has_shape(info: onnx.ValueInfoProto) -> bool:
    return not info.type.HasField("tensor_type") or info.type.tensor_type.HasField("shape")
