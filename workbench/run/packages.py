"""Compiles a graph into a package of torch (.pt2) in the worker, and compares it in a process with only torch."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from workbench.backends.randomness import uses_random_numbers
from workbench.backends.tensors import load_tensors, save_tensors
from workbench.backends.torch.executor.compilers import missing_compiler, missing_toolkit
from workbench.backends.torch.executor.input_numbers import reader_of_input_numbers
from workbench.backends.torch.packaging import WITHOUT_TF32, PackageError
from workbench.formats.opsets.written import IN_MEMORY
from workbench.ir import DataType, Graph
from workbench.run.compare import Comparison, compare
from workbench.run.inputs import fed_inputs, in_forms, output_forms
from workbench.run.tolerances import tolerances_of_run
from workbench.run.worker.client import Worker
from workbench.run.worker.process import ProgressSink
from workbench.support.files import not_written, replacing
from workbench.support.optional_torch import need_torch

PACKAGE_DTYPES = (
    "float32",
    "mixed",
    "float16",
    "bfloat16",
)  # TF32 is a setting of the running process, not of a package
_SUFFIX = ".pt2"
_LIMIT_S = 3600.0  # compiling C++ takes a minute for a small model
_Described = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PackageReport:
    """The result of packaging.

    bytes: the size of the file; 0 if it was not written, since its outputs differ from ONNX Runtime's.
    inputs, outputs: name and type of each, in order: ("images", "float32[1, 3, 224, 224]").
    """

    path: Path
    device: str
    bytes: int
    inputs: _Described
    outputs: _Described
    comparison: Comparison

    @property
    def sentence(self) -> str:
        """How its outputs differ from ONNX Runtime's."""
        return f"In a process with only torch, compared with ONNX Runtime: {self.comparison.sentence}"

    @property
    def call(self) -> tuple[str, str]:
        """A line with its inputs and outputs, and a line of code that calls it."""
        taken, returned = (", ".join(f"{name} {type_}" for name, type_ in one) for one in (self.inputs, self.outputs))
        names = ", ".join(name if name.isidentifier() else f"x{index}" for index, (name, _) in enumerate(self.inputs))
        code = f"torch._inductor.aoti_load_package({str(self.path)!r})({names})"
        without = "" if self.device == "cpu" else f"; compared without TF32 ({WITHOUT_TF32})"
        return f"takes {taken} on {self.device}, of these shapes only; gives the tuple {returned}{without}", code


class RunOfOriginal(Protocol):
    """The expected outputs of a graph on some inputs, and the worker that computed them."""

    @property
    def original(self) -> Graph: ...
    @property
    def inputs(self) -> Mapping[str, np.ndarray]: ...
    @property
    def reference(self) -> Mapping[str, np.ndarray]: ...
    @property
    def worker(self) -> Worker: ...


def package_graph(
    graph: Graph,
    path: str | Path,
    right: RunOfOriginal,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    on_progress: ProgressSink | None = None,
) -> PackageReport:
    """Compile the graph for a device and for the shapes of the inputs, and write it if its outputs are right.

    right: a `Verifier`; the graph may take the inputs of its original in another layout.
    dtype: one of PACKAGE_DTYPES. Raises PackageError, and RunError for a failure in the worker.
    """
    _check_package(graph, path, device, dtype)
    original, worker, reference = right.original, right.worker, right.reference
    folder = Path(tempfile.mkdtemp(dir=worker.folder, prefix="package-"))
    try:
        model, package = folder / "model.onnx", folder / f"model{_SUFFIX}"
        _export(graph, model)
        save_tensors(folder / "inputs.npz", fed_inputs(right.inputs, original, graph))
        described_tensors = worker.request(
            "package",
            model=str(model),
            inputs=str(folder / "inputs.npz"),
            target=str(package),
            outputs=str(folder / "outputs.npz"),
            device=device,
            dtype=dtype,
            on_progress=on_progress,
            timeout_s=_LIMIT_S,
        )
        outputs = in_forms(load_tensors(folder / "outputs.npz"), output_forms(original, graph))
        result = compare(reference, outputs, tolerances_of_run(dtype, original))
        size = _copy_to(package, path) if result.ok else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sides = [tuple((name, type_) for name, type_ in described_tensors[side]) for side in ("inputs", "outputs")]
    return PackageReport(Path(path), device, size, sides[0], sides[1], result)


def _check_package(graph: Graph, path: str | Path, device: str, dtype: str) -> None:
    """Raises PackageError, before any work, for a package that cannot be made on this machine."""
    need_torch("A compiled package", PackageError)
    if Path(path).suffix != _SUFFIX:
        raise PackageError(f"torch loads packages whose names end in {_SUFFIX}; rename '{path}'.")
    if dtype not in PACKAGE_DTYPES:
        raise PackageError(f"No package can be made in '{dtype}'; use {', '.join(PACKAGE_DTYPES)}.")
    # The package's own code is C++ on a GPU too.
    missing = missing_compiler("cpu") or missing_compiler(device) or missing_toolkit(device)
    if missing is not None:
        raise PackageError(f"No package can be compiled here: {missing}.")
    for name in graph.inputs:
        type_ = graph.tensor_type(name)
        if type_ is None or type_.dtype == DataType.STRING:
            raise PackageError(f"A package takes tensors of numbers, and input '{name}' is not one; export it as ONNX.")
    if uses_random_numbers(graph):
        raise PackageError(
            "The model draws random numbers, so that no package of it can be compared; export it as ONNX."
        )
    reader = reader_of_input_numbers(graph)
    if reader is not None:
        raise PackageError(
            f"No package can be made, since {reader} may read numbers that depend on the inputs, and a package fixes "
            "those of one run; export it as ONNX."
        )


def _export(graph: Graph, model: Path) -> None:
    from workbench.formats.io.exporting import export_onnx

    export_onnx(graph, model, check=False, opset=IN_MEMORY)


def _copy_to(package: Path, path: str | Path) -> int:
    """Copy the package to its path; returns its bytes."""
    try:
        with replacing(path) as draft:
            shutil.copyfile(package, draft)
            return draft.stat().st_size
    except OSError as error:
        raise not_written(path, error) from None
