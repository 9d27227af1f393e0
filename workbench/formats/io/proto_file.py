"""A file as an ONNX message, with its opset, operators, attributes and functions, which a graph does not keep.

It is for reducing and editing files, since a fault of another tool may depend on each of these. Large weights stay in
their files, as for graphs; metadata of nodes is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto, TensorProto, TypeProto

from workbench.analysis.inference.shapes import infer_model
from workbench.errors import reading
from workbench.formats.io.checks import check_model, every_node, every_tensor
from workbench.formats.io.errors import LoadError
from workbench.formats.io.exporting import LARGEST_FILE, outside_bytes, placed_in
from workbench.formats.io.inference_crashes import check_calls
from workbench.formats.io.onnx_file import read_small_weights
from workbench.formats.io.replacing import replacing_model
from workbench.formats.io.sparse import SparseWeight, make_dense, make_sparse
from workbench.formats.io.streaming_proto import MalformedProtoError, read_model, write_message
from workbench.formats.io.value_types import without_declared_types
from workbench.formats.io.weights import Files, mapped, note_read
from workbench.ir import Constant
from workbench.ir.to_proto import THIS_FILE

ReadTensor = Callable[[TensorProto], Constant]


@dataclass(frozen=True)
class ProtoFile:
    """A model without its large weights, and the function that reads these from their files.

    sparse: weights that are dense in the model, and sparse in the file.
    """

    model: ModelProto
    read_weight: ReadTensor
    sparse: tuple[SparseWeight, ...] = ()


def open_proto(path: str | Path) -> ProtoFile:
    """The model of an `.onnx` file, without node metadata and with dense weights in place of sparse ones.

    Raises LoadError, as loading a graph does.
    """
    path = Path(path)
    with reading(path.name, LoadError, "export or copy it again"):
        return _opened(path)


def _opened(path: Path) -> ProtoFile:
    try:
        data = mapped(path)
        model, _ = read_model(data)
    except MalformedProtoError:
        raise LoadError(f"{path.name}: the file is not ONNX, or it was cut off; export or copy it again") from None
    except OSError as error:
        raise LoadError(f"{path.name}: the file cannot be read ({error.strerror or error})") from None
    note_read(data)
    files = Files(path.parent, data)
    try:
        sparse = make_dense(model, files)
        check_model(model)
        check_calls(model, every_node(model))
        read_small_weights(every_tensor(model), files)
    except LoadError as error:
        raise LoadError(f"{path.name}: {error}") from None
    return ProtoFile(model, files.read, tuple(sparse))


def known_types(model: ModelProto) -> dict[str, TypeProto]:
    """The types of the main graph's values: inferred ones, else declared ones; values without a type are left out."""
    results = {info.name: info.type for info in (*model.graph.value_info, *model.graph.output)}
    typed = infer_model(without_declared_types(model, nested=True)).graph
    for info in (*typed.value_info, *typed.output):
        if is_typed(info.type) or info.name not in results:
            results[info.name] = info.type
    results.update((info.name, info.type) for info in model.graph.input)
    return {name: type_ for name, type_ in results.items() if is_typed(type_)}


def is_typed(type_: TypeProto) -> bool:
    """Whether the type has what onnx.checker demands of inputs and outputs: an element type, and a tensor's rank."""
    kind = type_.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return kind is not None
    tensor = getattr(type_, kind)
    return bool(tensor.elem_type != TensorProto.UNDEFINED and tensor.HasField("shape"))


def write_proto(path: str | Path, model: ModelProto, read: ReadTensor, sparse: Sequence[SparseWeight] = ()) -> None:
    """Write the model in chunks, with its weights inside or, above 2 GB, in an external file.

    sparse: as in `ProtoFile`; the model's weights that are equal to one of these are written so.
    Files are replaced together or not at all. Raises OSError.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    make_sparse(copy, sparse)
    external = [tensor for tensor in every_tensor(copy) if tensor.data_location == TensorProto.EXTERNAL]
    weights = [read(tensor) for tensor in external]
    with replacing_model(Path(path)) as draft, contextlib.ExitStack() as files:
        place = None
        if outside_bytes(model) > LARGEST_FILE:
            place = placed_in(files.enter_context(open(draft.data, "wb")), draft.data.name)
        for index, (tensor, weight) in enumerate(zip(external, weights, strict=True)):
            inside = {"location": THIS_FILE, "offset": str(index)}
            entries = inside if place is None else place(weight, tensor.name) or inside
            del tensor.external_data[:]
            for key, text in entries.items():
                tensor.external_data.add(key=key, value=text)
        write_message(files.enter_context(open(draft.model, "wb")), copy, weights)
