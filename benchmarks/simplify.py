"""Nodes that simplifiers leave, their time and memory.

Ours, onnxsim, onnxslim, onnxscript and ONNX Runtime at its basic level, by default on the nine light models with random
weights. The other tools are installed in a virtual environment (`--peers` keeps it). Each run is a
separate process, interleaved `--repeat` times, from its start to the written file, with at most 300 seconds and three
quarters of the free memory.

nodes left: of the graph, its subgraphs and functions; Constant nodes are not counted. Bold: the fewest that are right.
seconds:    median of the wall time.
peak:       largest resident set of the process.
error:      largest difference from the original over its largest value, of any output, both run by ONNX Runtime
            unoptimized on seeded inputs; 0 is bitwise equal, bold is above 1e-6. Or the failure.

--scale: BERTs of these numbers of nodes instead of the models, by default 1,100 to 20,000.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.shared.benchmark import MODELS, Benchmark, Item, RealModels, option, repeat
from benchmarks.shared.models import LIGHT, model_files, models_of
from benchmarks.shared.processes import Ran, compile_modules, ended, environment_with, graph_workbench, python
from workbench.run.records.published import PublishedTable

LIMIT_S = 300
MAX_RELATIVE_ERROR = 1e-6
MAX_FAILURE = 120  # characters of a failure
SCALE = (1_100, 5_000, 10_000, 20_000)

# Arguments: the model, the file to write, and "external" if the weights must stay in a separate file.
ONNXSIM = """
import sys, onnx, onnxsim
model, right = onnxsim.simplify(onnx.load(sys.argv[1]))
assert right, "its own check failed"
onnx.save(model, sys.argv[2], save_as_external_data=sys.argv[3] == "external")
"""
ONNXSLIM = """
import sys, onnx, onnxslim
model = onnxslim.slim(onnx.load(sys.argv[1]))
onnx.save(model, sys.argv[2], save_as_external_data=sys.argv[3] == "external")
"""
ONNXSCRIPT = """
import sys, onnx
from onnxscript import optimizer
model = optimizer.optimize(onnx.load(sys.argv[1]))
onnx.save(model, sys.argv[2], save_as_external_data=sys.argv[3] == "external")
"""
RUNTIME = """
import sys, onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
options.optimized_model_filepath = sys.argv[2]
if sys.argv[3] == "external":
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.data")
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""
CHECK = "import sys; from benchmarks.simplify import check; check(*sys.argv[1:])"
PINNED = {"onnxsim==0.8.1": ONNXSIM, "onnxslim==0.1.98": ONNXSLIM, "onnxscript==0.7.2": ONNXSCRIPT}
SAME_AS_OURS = ("onnx", "onnxruntime")
TOOLS = (
    *("ours", *(pinned.replace("==", " ") for pinned in PINNED)),
    f"ONNX Runtime {version('onnxruntime')}, basic",
)

Command = Callable[[Path, Path], list[str]]  # takes a model and the file to write


@dataclass(frozen=True)
class Run:
    """One process of a tool. failure: "" if it wrote a file."""

    ran: Ran
    failure: str


@dataclass(frozen=True)
class Result:
    """A tool's result for a model. right: `verify` finds it equal. nodes: None without a file."""

    runs: list[Run]
    nodes: int | None
    error: str
    right: bool


@dataclass(frozen=True)
class Row:
    """A model and each tool's result. size: bytes of its files."""

    name: str
    size: int
    nodes: int
    results: dict[str, Result]


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    if chosen.scale is None:
        yield from results(models_of(chosen, LIGHT), chosen.repeat, chosen.peers)
        return
    yield (
        "Larger BERTs as TorchScript exports them, with symbolic batch and sequence. (With 20,000 nodes, onnxscript "
        "did not end in 300 s; `python -m benchmarks simplify --scale 10000 20000`.)"
    )
    berts = model_files([f"bert_{nodes}" for nodes in chosen.scale or SCALE])
    yield from results(berts, chosen.repeat, chosen.peers)


def results(models: Iterator[Path], repeat: int, peers: Path | None) -> list[PublishedTable]:
    """The four tables of these models. peers: the folder of the virtual environment; None for a temporary one."""
    compile_modules()
    with tempfile.TemporaryDirectory() as folder:
        tools = tools_in(peers or Path(folder) / "peers")
        rows = []
        for model in models:
            rows.append(row(model, tools, repeat))
            print(f"{model.stem}: {len(rows)} models are measured", file=sys.stderr)
    return tables(rows)


# ---- the tools -----------------------------------------------------------------------


def ours(model: Path, out: Path) -> list[str]:
    return graph_workbench("optimize", model, "-o", out, "--preset", "simplify", "--no-verify")


def tools_in(folder: Path) -> dict[str, Command]:
    """Ours, and the other tools in a virtual environment in the folder; missing packages are installed."""
    packages = [*PINNED, *(f"{name}=={version(name)}" for name in SAME_AS_OURS)]
    interpreter = environment_with(folder, packages)

    def command(code: str) -> Command:
        return lambda model, out: [str(interpreter), "-I", "-c", code, str(model), str(out), _weights(model)]

    return dict(zip(TOOLS, (ours, *map(command, (*PINNED.values(), RUNTIME))), strict=True))


def _weights(model: Path) -> str:
    return "external" if _weights_file(model).exists() else "inside"


def _weights_file(model: Path) -> Path:
    return model.with_name(model.name + ".data")


def free_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/meminfo does not say how much memory is free.")


# ---- a row ---------------------------------------------------------------------------


def row(model: Path, tools: dict[str, Command], repeat: int) -> Row:
    """Runs of every tool on the model, interleaved, and the comparison of its result with the original."""
    with tempfile.TemporaryDirectory() as folder:
        outs = {tool: Path(folder) / tool / "model.onnx" for tool in tools}
        runs: dict[str, list[Run]] = {tool: [] for tool in tools}
        for _ in range(repeat):
            for tool, command in tools.items():
                if not any(run.failure for run in runs[tool]):
                    shutil.rmtree(outs[tool].parent, ignore_errors=True)
                    outs[tool].parent.mkdir()
                    runs[tool].append(run_of(command(model, outs[tool]), outs[tool]))
        written = [str(outs[tool]) for tool in tools if not runs[tool][-1].failure]
        checks = json.loads(python(CHECK, model, *written))
    results = {tool: _result(runs[tool], checks.get(str(outs[tool]))) for tool in tools}
    weights_bytes = _weights_file(model).stat().st_size if _weights_file(model).exists() else 0
    return Row(model.stem, model.stat().st_size + weights_bytes, checks[str(model)]["nodes"], results)


def _result(runs: list[Run], check_of_file: dict | None) -> Result:
    if check_of_file is None:
        return Result(runs, None, runs[-1].failure, False)
    return Result(runs, check_of_file["nodes"], relative_error_text(check_of_file), check_of_file["ok"] is True)


def run_of(command: list[str], out: Path) -> Run:
    """One process, with a limit of time and of memory."""
    done = ended(command, limit_s=LIMIT_S, limit_bytes=free_memory() * 3 // 4)
    return Run(done, _failure(done, out))


def _failure(ran: Ran, out: Path) -> str:
    """The failure in a few words; "" if there is none."""
    if ran.seconds >= LIMIT_S:
        return f"takes over {LIMIT_S} s"
    if ran.code < 0:
        return f"dies of {signal.Signals(-ran.code).name}"
    if ran.code:
        lines = (line for line in reversed(ran.text.splitlines()) if line.strip())
        return _short(next(lines, f"exit code {ran.code}"))
    return "" if out.exists() else "writes no file"


def _short(text: str) -> str:
    line = " ".join(text.replace("|", "/").split())
    return line if len(line) <= MAX_FAILURE else line[:MAX_FAILURE] + "..."


# ---- checks of results ----------------------------------------------------------------


def check(original: str, *results: str) -> None:
    """Print as JSON the nodes of each file, and the comparison of each result with the original."""
    import onnx

    import workbench as wb
    from workbench.errors import UserError
    from workbench.evidence.verification.verifier import Verifier

    checks: dict[str, dict] = {}
    for path in (original, *results):
        nodes = nodes_of(onnx.load(path, load_external_data=False))
        checks[path] = {"nodes": nodes, "ok": None, "error": None, "sentence": ""}
    try:
        graph = wb.load(original)
        with Verifier(graph) as verifier:
            for path in results:
                verdict = verifier.check_file(graph, Path(path))
                checks[path] |= {"ok": verdict.ok, "error": verdict.max_rel_error, "sentence": verdict.sentence}
    except UserError as error:
        for path in results:
            checks[path]["sentence"] = str(error)
    print(json.dumps(checks))


def nodes_of(model: Any) -> int:
    """Nodes of an onnx.ModelProto: the graph's, its subgraphs' and its functions', without Constant nodes."""
    return sum(_count(part) for part in (model.graph, *model.functions))


def _count(part: Any) -> int:
    """Nodes of a graph or a function."""
    attributes = [attribute for node in part.node for attribute in node.attribute]
    bodies = [*(a.g for a in attributes if a.HasField("g")), *(body for a in attributes for body in a.graphs)]
    return sum(node.op_type != "Constant" for node in part.node) + sum(map(_count, bodies))


def relative_error_text(result: dict) -> str:
    """The largest relative error, bold if it is too large; or another failure."""
    if result["ok"] is not True or result["error"] is None:
        # ONNX Runtime's message begins with the temporary path of the file.
        return _short(result["sentence"].partition(" (allowed")[0].rpartition(" failed:")[2])
    text = f"{result['error']:.1e}" if result["error"] else "0"
    text = f"**{text}**" if result["error"] > MAX_RELATIVE_ERROR else text
    return f"{text}, proves little" if "This proves little" in result["sentence"] else text


# ---- tables --------------------------------------------------------------------------


def tables(rows: list[Row]) -> list[PublishedTable]:
    """Four tables: nodes left, seconds, peak, error. Without rows they are those of all tools."""
    return [
        _table("nodes left", "before", rows, lambda r: f"{r.nodes:,}", _nodes),
        _table("seconds", "nodes", rows, lambda r: f"{r.nodes:,}", _seconds),
        _table("peak (MB)", "file (MB)", rows, lambda r: f"{r.size / 1e6:,.1f}", _peak),
        _table("error", "nodes", rows, lambda r: f"{r.nodes:,}", lambda _, result: result.error),
    ]


def _table(
    what: str, fact: str, rows: list[Row], fact_of: Callable[[Row], str], cell: Callable[[Row, Result], str]
) -> PublishedTable:
    cells = ((r.name, fact_of(r), *(cell(r, result) for result in r.results.values())) for r in rows)
    return PublishedTable((what, fact, *(rows[0].results if rows else TOOLS)), tuple(cells))


def _nodes(r: Row, result: Result) -> str:
    if result.nodes is None:
        return "fails"
    fewest = min((other.nodes for other in r.results.values() if other.right and other.nodes is not None), default=None)
    return f"**{result.nodes:,}**" if result.right and result.nodes == fewest else f"{result.nodes:,}"


def _seconds(_: Row, result: Result) -> str:
    return "fails" if result.nodes is None else f"{statistics.median(run.ran.seconds for run in result.runs):.2f}"


def _peak(_: Row, result: Result) -> str:
    return f"{max(run.ran.peak for run in result.runs) / 1e6:,.0f}"


def published(real: RealModels) -> list[list[str]]:
    return [["--repeat", "1", *map(str, real.files)], ["--repeat", "3", "--scale", "1100", "5000"]]


PEERS = option("--peers", type=Path, help="folder of the virtual environment (default: a temporary one)")
SCALES = option("--scale", type=int, nargs="*", help="BERTs of these numbers of nodes (default: 1,100 to 20,000)")
BENCHMARK = Benchmark(measure, tuple(tables([])), (*MODELS, PEERS, repeat(3), SCALES), published)
