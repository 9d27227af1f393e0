"""Nodes that simplifiers leave, their time and memory: `python benchmarks/simplify.py [MODEL or FOLDER ...]`.

Ours, onnxsim, onnxslim, onnxscript and ONNX Runtime at its basic level, on the nine light models with random weights
and on the given models. The other tools are installed in a virtual environment (`--peers` keeps it). Each run is a
separate process, interleaved `--repeat` times, from its start to the written file, with at most 300 seconds and three
quarters of the free memory.

nodes left: of the graph, its subgraphs and functions; Constant nodes are not counted. Bold: the fewest that are right.
seconds:    median of the wall time.
peak:       largest resident set of the process.
error:      largest difference from the original over its largest value, of any output, both run by ONNX Runtime
            unoptimized on seeded inputs; 0 is bitwise equal, bold is above 1e-6. Or the failure.

--scale: BERTs of these numbers of nodes instead of the models, by default 1,100 to 20,000. --large: a model of 3 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.engine import compile_modules  # noqa: E402

LIMIT_S = 300
MAX_RELATIVE_ERROR = 1e-6
MAX_FAILURE = 120  # characters of a failure
SCALE = (1_100, 5_000, 10_000, 20_000)
LARGE = (12, 8_192)  # layers, width: 3.2 GB

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


# Programs that write a model. Arguments: the file to write, and the model's parameters.
LIGHT = """
import sys, onnx
from sample_models.light import random_light
onnx.save(random_light(sys.argv[2]), sys.argv[1])
"""
BERT = """
import sys, onnx
from benchmarks.simplify_models import bert_of
onnx.save(bert_of(int(sys.argv[2])), sys.argv[1])
"""
HEAVY = """
import sys
from pathlib import Path
from benchmarks.simplify_models import write_large
write_large(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
"""

Command = Callable[[Path, Path], list[str]]  # takes a model and the file to write


@dataclass(frozen=True)
class Run:
    """One process. peak: in bytes. failure: "" if it wrote a file."""

    seconds: float
    peak: int
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help=".onnx files, or folders of them")
    parser.add_argument("--peers", type=Path, help="folder of the virtual environment (default: a temporary one)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--scale", type=int, nargs="*", help="BERTs of these numbers of nodes (default: 1,100 to 20,000)"
    )
    parser.add_argument("--large", action="store_true", help="a model of 3 GB with external data")
    chosen = parser.parse_args()
    compile_modules()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.large:
            _refuse_unless_fits(folder)
        tools = {"ours": ours, **peers(chosen.peers or folder / "peers")}
        rows = []
        for model in models(chosen, folder / "models"):
            rows.append(row(model, tools, chosen.repeat))
            print(tables(rows[-1:]), file=sys.stderr)
    print(tables(rows), end="")


# ---- the tools -----------------------------------------------------------------------


def ours(model: Path, out: Path) -> list[str]:
    arguments = ["optimize", str(model), "-o", str(out), "--preset", "simplify", "--no-verify"]
    return [sys.executable, "-m", "workbench", *arguments]


def peers(folder: Path) -> dict[str, Command]:
    """The other tools, in a virtual environment in `folder`; missing packages are installed."""
    python = folder.resolve() / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    requirements = [*PINNED, *(f"{name}=={version(name)}" for name in SAME_AS_OURS)]
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True, stdout=sys.stderr)

    def command(code: str) -> Command:
        return lambda model, out: [str(python), "-I", "-c", code, str(model), str(out), _weights(model)]

    tools = {pinned.replace("==", " "): command(code) for pinned, code in PINNED.items()}
    return {**tools, f"ONNX Runtime {version('onnxruntime')}, basic": command(RUNTIME)}


def _weights(model: Path) -> str:
    return "external" if _weights_file(model).exists() else "inside"


def _weights_file(model: Path) -> Path:
    return model.with_name(model.name + ".data")


# ---- the models ----------------------------------------------------------------------


def models(chosen: argparse.Namespace, folder: Path) -> Iterator[Path]:
    """The models one after the other. A generated model is deleted when the next one is requested."""
    for path in chosen.models:
        yield from sorted(path.resolve().glob("*.onnx")) if path.is_dir() else [path.resolve()]
    makers: list[tuple[str, str, list[str]]] = []
    if chosen.scale is not None:
        makers += [(f"bert_{nodes}", BERT, [str(nodes)]) for nodes in chosen.scale or SCALE]
    if chosen.large:
        makers += [("large", HEAVY, [str(number) for number in LARGE])]
    if not makers:
        names = _python("from sample_models.light import LIGHT_MODELS; print(*LIGHT_MODELS)").split()
        makers += [(name, LIGHT, [name]) for name in names]
    for name, code, parameters in makers:
        folder.mkdir()
        _python(code, str(folder / f"{name}.onnx"), *parameters)
        yield folder / f"{name}.onnx"
        shutil.rmtree(folder)


def _python(code: str, *arguments: str) -> str:
    """The printed text of the code, run in another process: a process's peak memory starts at its parent's, so this one
    must stay small.
    """
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _refuse_unless_fits(folder: Path) -> None:
    """Exit unless disk and memory suffice: each tool writes the large model, and holds it in memory at least once."""
    layers, width = LARGE
    size = 4 * layers * width * width
    files = size * (1 + len(PINNED) + 2)
    disk, memory = shutil.disk_usage(folder).free, _free_memory()
    if disk < files:
        sys.exit(f"--large needs {files / 1e9:.0f} GB of disk, and {folder} has {disk / 1e9:.0f}.")
    if memory < 2 * size:
        sys.exit(f"--large needs {2 * size / 1e9:.0f} GB of memory, and {memory / 1e9:.0f} are free.")


def _free_memory() -> int:
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
        checks = json.loads(_python(CHECK, str(model), *written))
    results = {tool: _result(runs[tool], checks.get(str(outs[tool]))) for tool in tools}
    weights_bytes = _weights_file(model).stat().st_size if _weights_file(model).exists() else 0
    return Row(model.stem, model.stat().st_size + weights_bytes, checks[str(model)]["nodes"], results)


def _result(runs: list[Run], check_of_file: dict | None) -> Result:
    if check_of_file is None:
        return Result(runs, None, runs[-1].failure, False)
    return Result(runs, check_of_file["nodes"], relative_error_text(check_of_file), check_of_file["ok"] is True)


def run_of(command: list[str], out: Path) -> Run:
    """One process, with a limit of time and of memory."""
    memory_limit = _free_memory() * 3 // 4
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, memory_limit)),
        )
        timer = threading.Timer(LIMIT_S, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Run(seconds, usage.ru_maxrss * 1024, _failure(process.returncode, seconds, text, out))


def _failure(code: int, seconds: float, text: str, out: Path) -> str:
    """The failure in a few words; "" if there is none."""
    if seconds >= LIMIT_S:
        return f"takes over {LIMIT_S} s"
    if code < 0:
        return f"dies of {signal.Signals(-code).name}"
    if code:
        return _short(next((line for line in reversed(text.splitlines()) if line.strip()), f"exit code {code}"))
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


def tables(rows: list[Row]) -> str:
    """Four tables as Markdown: nodes left, seconds, peak, error."""
    return "\n".join(
        (
            _table("nodes left", "before", rows, lambda r: f"{r.nodes:,}", _nodes),
            _table("seconds", "nodes", rows, lambda r: f"{r.nodes:,}", _seconds),
            _table("peak (MB)", "file (MB)", rows, lambda r: f"{r.size / 1e6:,.1f}", _peak),
            _table("error", "nodes", rows, lambda r: f"{r.nodes:,}", lambda _, result: result.error),
        )
    )


def _table(
    what: str, fact: str, rows: list[Row], fact_of: Callable[[Row], str], cell: Callable[[Row, Result], str]
) -> str:
    tools = list(rows[0].results)
    lines = [f"| {what} | {fact} | {' | '.join(tools)} |", f"|---|---|{'---|' * len(tools)}"]
    for r in rows:
        lines.append(f"| {r.name} | {fact_of(r)} | {' | '.join(cell(r, result) for result in r.results.values())} |")
    return "\n".join(lines) + "\n"


def _nodes(r: Row, result: Result) -> str:
    if result.nodes is None:
        return "fails"
    fewest = min((other.nodes for other in r.results.values() if other.right and other.nodes is not None), default=None)
    return f"**{result.nodes:,}**" if result.right and result.nodes == fewest else f"{result.nodes:,}"


def _seconds(_: Row, result: Result) -> str:
    return "fails" if result.nodes is None else f"{statistics.median(run.seconds for run in result.runs):.2f}"


def _peak(_: Row, result: Result) -> str:
    return f"{max(run.peak for run in result.runs) / 1e6:,.0f}"


if __name__ == "__main__":
    main()
