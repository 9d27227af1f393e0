"""The cost of verification.

CPU seconds (user and system, of all processes) of `optimize --preset simplify`: with `--no-verify`, by default (the
result compared with the original), and with `--verify each`; and of one run of the model, a process that opens the file
in ONNX Runtime without its optimizations and runs it once on the same inputs. Commands are interleaved; figures are
medians of `--repeat`. The bound is 1.5 times the first plus three runs. The default models are the samples.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.shared.benchmark import MODELS, Benchmark, Item, RealModels, Row, default_and_real, repeat, table
from benchmarks.shared.models import SAMPLES, models_of
from benchmarks.shared.processes import compile_modules, graph_workbench, ran

TABLE = table(
    *("model", "not verified (CPU s)", "end (CPU s)", "each step (CPU s)", "one run (CPU s)", "bound (CPU s)"),
    "end / bound",
)
NOT_VERIFIED = 3  # an exit code
ONE_RUN = """
import sys
import onnxruntime
from workbench.support.imports import import_onnx_ir
import_onnx_ir()
from workbench.backends.onnxruntime.sessions import open_session, run_session
from workbench.backends.tensors import load_tensors
run_session(open_session(sys.argv[1], "disabled", arena=False), load_tensors(sys.argv[2]))
"""


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    compile_modules()
    yield TABLE
    with tempfile.TemporaryDirectory() as folder:
        for model in models_of(chosen, SAMPLES):
            yield row(model, Path(folder), chosen.repeat)


def row(model: Path, folder: Path, repeat: int) -> Row:
    inputs = folder / "inputs.npz"
    save_inputs(model, inputs)
    optimize = graph_workbench("optimize", model, "-o", folder / "out.onnx", "--preset", "simplify", "--verify")
    commands = [*([*optimize, mode] for mode in ("off", "end", "each"))]
    commands.append([sys.executable, "-c", ONE_RUN, str(model), str(inputs)])
    rounds = [[cpu_seconds(command) for command in commands] for _ in range(repeat)]
    off, end, each, one = (statistics.median(times) for times in zip(*rounds, strict=True))
    bound = 1.5 * off + 3 * one
    return (model.stem, *(f"{s:.2f}" for s in (off, end, each, one, bound)), f"{end / bound:.2f}")


def cpu_seconds(command: list[str]) -> float:
    return ran(command, allowed=(0, NOT_VERIFIED)).cpu_seconds


def save_inputs(model: Path, file: Path) -> None:
    """Write the inputs of the model's verification."""
    from workbench.backends.tensors import save_tensors
    from workbench.evidence.verification.verifier import Verifier
    from workbench.interfaces.api import load

    with Verifier(load(model)) as verifier:
        save_tensors(file, verifier.inputs)


def published(real: RealModels) -> list[list[str]]:
    return [["--repeat", "1", *words] for words in default_and_real(real)]


BENCHMARK = Benchmark(measure, (TABLE,), (*MODELS, repeat(3)), published)
