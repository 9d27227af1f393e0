"""Export a graph as an ONNX file: complete, checked, and moved into place atomically."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import onnx

from workbench.errors import UserError, one_sentence
from workbench.formats.io.checks import every_node, every_tensor
from workbench.formats.io.replacing import Draft, replacing_model
from workbench.formats.io.streaming_proto import write_model, write_weight
from workbench.formats.io.value_types import UNTYPED, undefined_results
from workbench.formats.io.written_types import contradict, with_written_types
from workbench.formats.opsets.written import AS_NEEDED, INLINE, FileForm, Opset, Written, at_written_opset
from workbench.ir import Constant, Graph, TensorType
from workbench.ir.function_calls import with_all_inlined
from workbench.ir.node import ONNX_DOMAINS
from workbench.ir.provenance import KEYS, without_provenance
from workbench.ir.to_proto import TensorPlace, is_large, structure, write_value
from workbench.ops.channels_last import DOMAIN
from workbench.ops.own_functions import with_own_functions
from workbench.support.files import SPECIAL, is_special, not_written

LARGEST_FILE = 2**31 - 2**20  # bytes; protobuf's limit, minus room for the structure
_UNCHECKED = "workbench.unchecked"  # a domain that onnx.checker passes over
ALIGNMENT = 4096  # bytes; a page, so that external weights can be mapped one by one


class ExportError(UserError):
    """The graph cannot be written; the message is one sentence for the user."""


@dataclass(frozen=True, repr=False)
class ExportReport:
    """What was written. bytes: of all files together. checks: names of passed checks, or why a check was not run."""

    path: Path
    written: Written
    bytes: int
    sha256: str
    files: tuple[Path, ...]
    checks: tuple[str, ...]

    def __repr__(self) -> str:
        checks = ", ".join(self.checks) or "nothing"
        return f"<ExportReport: {self.path}, {self.bytes / 1e6:,.2f} MB, opset {self.written.opset}; checked: {checks}>"


def export_onnx(
    graph: Graph,
    path: str | Path,
    *,
    external_data: bool | None = None,
    check: bool = True,
    opset: Opset = None,
    ir: int | None = None,
    functions: str | None = None,
    metadata: bool = True,
) -> ExportReport:
    """Write the graph to `path`.

    external_data: write weights to a separate file (None: if the model exceeds 2 GB).
    opset:         "keep" for the opset of the graph's file, "newest" for that of the graph, or a number (None: the
                   file's, raised only as far as an operator needs it).
    ir:            the version of the file format (None: the lowest that suffices).
    functions:     "inline" inlines functions (None or "keep": they stay).
    metadata:      whether nodes that a pass made or changed say so in their metadata (`workbench.ir.provenance`).
    Files are written and checked in a temporary folder and then moved, so a failure
    leaves existing files unchanged. The weight file of a model that is replaced
    has another name than the old one (`replacing_model`). Raises ExportError.
    """
    check_replaceable(path)
    path = Path(os.path.realpath(path) if os.path.islink(path) else path)  # a link stays, and its target is replaced
    completed, written = complete(graph, FileForm(opset, ir, functions))
    completed = _with_provenance(completed, metadata)
    structure_only = structure(completed, path.name, written.ir)
    external = outside_bytes(structure_only) > LARGEST_FILE if external_data is None else external_data
    try:
        with replacing_model(path) as draft:
            digest = _write(draft, completed, external, written.ir)
            checks = _check(draft.model, completed, structure_only, written.foreign) if check else ()
            files = [draft.model, draft.data] if external else [draft.model]
            size = sum(file.stat().st_size for file in files)
    except OSError as error:
        raise ExportError(str(not_written(path, error))) from None
    return ExportReport(path, written, size, digest, tuple(path.with_name(file.name) for file in files), checks)


def check_replaceable(path: str | Path) -> None:
    """Raises ExportError if the path is a folder, a pipe or a device."""
    if os.path.isdir(path):
        raise ExportError(f"'{path}' is a folder; name a file in it, such as '{Path(path) / 'model.onnx'}'")
    if is_special(path):
        raise ExportError(f"a model cannot be written to '{path}', since {SPECIAL}; name a file")


def to_bytes(graph: Graph) -> bytes:
    """The whole model as an ONNX file's bytes, its weights inside."""
    out = io.BytesIO()
    write_model(out, complete(graph)[0])
    return out.getvalue()


# ---- what a file needs beyond the graph --------------------------------------------


def complete(graph: Graph, form: FileForm = AS_NEEDED) -> tuple[Graph, Written]:
    """The graph with everything that a file needs: bodies of workbench operators, imports, types, and its opset.

    Raises ExportError for a workbench operator without a function body, OpsetError if the opset is impossible.
    """
    completed = with_own_functions(graph)
    for node in (*completed.nodes, *(n for f in completed.functions.values() for n in f.graph.nodes)):
        if node.domain == DOMAIN and (DOMAIN, node.op_type, node.overload) not in completed.functions:
            raise ExportError(f"{node} has no body, so no other runtime could run the file")
    if form.functions == INLINE:
        completed = with_all_inlined(completed)
    return at_written_opset(with_written_types(completed), form.opset, form.ir)


def _with_provenance(graph: Graph, is_written: bool) -> Graph:
    """The graph, whose nodes have their provenance in their metadata, or none of it. Other nodes stay as they are."""
    if is_written:
        entries = {name: made.metadata for name, made in graph.provenance.items()}
    else:
        entries = {node.name: {} for node in graph.nodes if any(key in node.metadata for key in KEYS)}
    if not entries:
        return graph
    return graph.with_nodes(
        node.replace(metadata={**without_provenance(node.metadata), **entries[node.name]})
        if node.name in entries
        else node
        for node in graph.nodes
    )


# ---- writing and checking ----------------------------------------------------------------


class _Hashed:
    """A file that is hashed as it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> int:
        self._digest.update(data)
        return self._file.write(data)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def outside_bytes(model: onnx.ModelProto) -> int:
    """Bytes of weights that are not inside the message."""
    entries = (entry for tensor in every_tensor(model) for entry in tensor.external_data)
    return sum(int(entry.value) for entry in entries if entry.key == "length")


def _write(draft: Draft, graph: Graph, external: bool, ir: int) -> str:
    """Write the model with internal or external weights; returns the SHA-256 of the `.onnx` file."""
    with open(draft.model, "wb") as file, contextlib.ExitStack() as open_files:
        hashed = _Hashed(file)
        place = None
        if external:
            place = placed_in(open_files.enter_context(open(draft.data, "wb")), draft.data.name)
        write_model(hashed, graph, place, ir)  # type: ignore[arg-type]
    return hashed.sha256


def placed_in(file: BinaryIO, location: str) -> TensorPlace:
    """A function that writes each large constant to `file` and returns its place there."""

    def place(tensor: Constant, name: str) -> Mapping[str, str] | None:
        if not is_large(tensor):
            return None
        file.write(b"\0" * (-file.tell() % ALIGNMENT if tensor.nbytes >= ALIGNMENT else -file.tell() % 64))
        entries = {"location": location, "offset": str(file.tell()), "length": str(tensor.nbytes)}
        write_weight(file, tensor)
        return entries

    return place


def _has_unknown_type(graph: Graph, value: str) -> bool:
    """Whether the value's type, or its rank, is unknown."""
    tensor = graph.tensor_type(value)
    return graph.type(value) is None or (tensor is not None and tensor.shape is None)


def _leave_untrue_sizes_open(bare: onnx.ModelProto, graph: Graph) -> None:
    """Of outputs that are declared as in the file although other sizes follow, which onnx.checker would refuse."""
    for output in bare.graph.output:
        followed = graph.kept.followed.get(output.name)
        if isinstance(followed, TensorType) and contradict(followed, graph.kept.outputs.get(output.name)):
            write_value(output, output.name, followed.with_shape((None,) * len(followed.shape or ())))


def _check(draft: Path, graph: Graph, bare: onnx.ModelProto, foreign: Collection[str]) -> tuple[str, ...]:
    """Run onnx.checker on the structure, its weights staying in the draft file.

    foreign: nodes of ONNX's domain that the file had and the checker may not know; it passes over other domains.
    """
    open_ = [v for v in (*graph.inputs, *graph.outputs) if _has_unknown_type(graph, v)]
    if open_:  # runtimes infer it themselves
        return (
            f"onnx.checker not run: it demands every input's and output's rank, and that of '{open_[0]}' is unknown",
        )
    excluded = [node for node in every_node(bare) if node.name in foreign and node.domain in ONNX_DOMAINS]
    for node in excluded:
        node.domain = _UNCHECKED
    for owner in (bare, *bare.functions) if excluded else ():
        owner.opset_import.add(domain=_UNCHECKED, version=1)
    _leave_untrue_sizes_open(bare, graph)
    bare_file = draft.with_name("structure.onnx" if draft.name != "structure.onnx" else "structure_.onnx")
    bare_file.write_bytes(bare.SerializeToString())
    exceptions = sorted({node.op_type for node in excluded})
    try:
        try:
            onnx.checker.check_model(str(bare_file), full_check=True)
        except onnx.shape_inference.InferenceError as error:
            if not (UNTYPED in str(error) and undefined_results(bare)):
                raise
            exceptions.append("types that a foreign operator leaves open")
            onnx.checker.check_model(str(bare_file))
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        reason = one_sentence(str(error), 200)
        raise ExportError(f"the graph is not valid ONNX, and nothing was written: {reason}") from None
    finally:
        bare_file.unlink()
    return (f"onnx.checker, but for {', '.join(exceptions)}" if exceptions else "onnx.checker",)
