"""Loading a file or a program as a graph, at one opset, with the types of all its values, and exporting a graph;
protobuf as a stream, weights that stay in their files.

In processing order: `kinds` (the file format), `streaming_proto` and `weights`
(reading, weights staying in the file), `checks`, `opset`, `dims`; a torch program is
exported to an ONNX file first (`torch_program`).
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from workbench.errors import reading
from workbench.formats.io.dims import bind_dims, symbols
from workbench.formats.io.encodings import write_unpacked
from workbench.formats.io.errors import LoadError
from workbench.formats.io.kinds import PACKINGS, TEXT, TORCH, kind_of
from workbench.formats.io.onnx_file import WITHOUT_BODY, load_onnx, load_text
from workbench.ir import Graph
from workbench.support.optional_torch import need_torch

__all__ = ["LoadError", "Model", "bind_dims", "graph_of", "load_model", "load_torch", "symbols"]

Model = Graph | str | Path  # a graph, or the path of a model's file
_PROGRAM = "a torch program"


def load_model(
    source: str | Path,
    dims: Mapping[str, int] | None = None,
    *,
    name: str | None = None,
    freeze_defaults: bool = False,
) -> Graph:
    """The graph of a model file, converted to opset 23: `.onnx`, `.onnx.gz`, `.pt2`, ONNX text, protobuf text or JSON.

    dims: numbers for symbolic dims; the others get defaults (`graph.dims`).
    freeze_defaults: whether inputs with a default value become constants.
    name: the file's name in error messages, if the user does not know it as `source`.
    Raises LoadError with one sentence.
    """
    if not str(source):
        raise LoadError("no file is named; name a model")
    path = Path(source)
    shown_name = name or path.name or str(source)
    with reading(shown_name, LoadError, "export or copy it again"):
        return _loaded(path, str(source), shown_name, dims, freeze_defaults)


def _loaded(path: Path, source: str, shown_name: str, dims: Mapping[str, int] | None, freeze_defaults: bool) -> Graph:
    try:
        kind = kind_of(path)
        if kind == TORCH:
            return _load_program_file(path, dims)
        if kind == TEXT:
            return _load_text_file(path, dims, freeze_defaults)
        if kind in PACKINGS:
            path = _unpacked(path, kind)
            source = str(path)
        graph = load_onnx(path, dims, freeze_defaults=freeze_defaults)
        return _set_source(graph, source, path.name)
    except LoadError as error:
        raise type(error)(f"{shown_name}: {error}") from None
    except OSError as error:
        raise LoadError(f"{shown_name}: the file cannot be read ({error.strerror or error})") from None


def _set_source(graph: Graph, source: str, name: str) -> Graph:
    """The graph with the file that other runtimes can read: `source`, or if bodies are missing there a new one."""
    graph.source = source
    if any(WITHOUT_BODY in sentence for sentence in graph.warnings):
        from workbench.formats.io.exporting import export_onnx

        graph.source = str(export_onnx(graph, _scratch() / name).path)
    return graph


def graph_of(model: Model) -> Graph:
    """The graph itself, or that of the file of this path."""
    return model if isinstance(model, Graph) else load_model(model)


def load_torch(factory: str, dims: Mapping[str, int] | None = None) -> Graph:
    """The graph of the program that `package.module:factory` makes.

    The factory takes no arguments and returns (module, args), (module, args, kwargs),
    (module, args, kwargs, dynamic_shapes) or a torch.export.ExportedProgram.
    Raises LoadError with one sentence.
    """
    from workbench.formats.io.torch_program import call_factory, to_onnx

    try:
        need_torch(_PROGRAM, LoadError)
        return _load_temporary(to_onnx(call_factory(factory), _scratch()), dims)
    except LoadError as error:
        raise LoadError(f"{factory}: {error}") from None


def _load_program_file(path: Path, dims: Mapping[str, int] | None) -> Graph:
    from workbench.formats.io.program_process import exported

    need_torch(_PROGRAM, LoadError)
    return _load_temporary(exported(path, _scratch()), dims)


def _unpacked(path: Path, kind: str) -> Path:
    """Unpack to a binary file, which other runtimes can read; returns its path."""
    target = _scratch() / f"{path.name.partition('.')[0] or 'model'}.onnx"
    write_unpacked(path, kind, target)
    return target


def _load_text_file(path: Path, dims: Mapping[str, int] | None, freeze_defaults: bool) -> Graph:
    """The graph of a text file; its source is a binary file of the same model, which other runtimes can read."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise LoadError("the file is not text") from None
    graph, model = load_text(text, dims, freeze_defaults)
    written = _scratch() / "model.onnx"
    written.write_bytes(model.SerializeToString())
    return _set_source(graph, str(written), written.name)


def _load_temporary(path: Path, dims: Mapping[str, int] | None) -> Graph:
    graph = load_onnx(path, dims)
    graph.source = str(path)
    return graph


def _scratch() -> Path:
    """A new folder that is deleted when the process ends."""
    return Path(tempfile.mkdtemp(dir=_scratch_root().name))


@cache
def _scratch_root() -> tempfile.TemporaryDirectory[str]:
    root = tempfile.TemporaryDirectory(prefix="graph-workbench-")
    atexit.register(root.cleanup)
    return root
