"""The parts of `on_gpu.py`, each a function that yields rows.

`python -m benchmarks.gpu.parts PART FOLDER DEVICE SMALL SECONDS`, as `on_gpu.py` starts it, runs one.

Each row is written at once, so that a part that is ended at its limit keeps its rows. Exits with MORE_TO_DO where time
has passed and another start goes on.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.ir import Graph
    from workbench.run.measurement.measurement_result import MeasuredVariant, Measurement

from benchmarks.gpu.beside_torch import MoreToDo, Row, Settings, earlier_rows, networks
from benchmarks.on_gpu import MORE_TO_DO, ROOT

_SHARES = 8  # processes for ONNX's conformance cases
_GOES_ON = ("tests", "networks", "memory", "profiler", "oneflow", "fusions")  # they keep the rows of earlier starts
# A line of pytest; with xdist the outcome comes before the name.
_OUTCOME = re.compile(r"(?:\[gw\d+\] \[ *\d+%\] )?(?:(\S+::\S+) )?(PASSED|FAILED|ERROR|SKIPPED)(?: (\S+::\S+))?")
_NODE = "node "
_LONG_MS = 0.02  # operators that are compared one by one


def environment(settings: Settings) -> Iterator[Row]:
    import dataclasses

    from workbench.run.worker.machine import machine

    yield dataclasses.asdict(machine("cuda:0" if settings.device == "cuda" else "cpu"))


def tests(settings: Settings) -> Iterator[Row]:
    """The outcomes of tests/test_cuda.py, and of the tests of `out=` overloads, but for those that passed before."""
    passed = [row["test"] for row in earlier_rows(settings.folder, "tests") if row["outcome"] == "passed"]
    command = [sys.executable, "-m", "pytest", "tests/test_cuda.py", "tests/test_arena.py", "-v", "--run-slow"]
    command += ["-n", "4"] if importlib.util.find_spec("xdist") else []
    command += ["-k", "overload_takes or further" if settings.small else "cuda or overload", "-p", "no:cacheprovider"]
    command += [f"--deselect={name}" for name in passed]
    ran = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    assert ran.stdout is not None
    outcomes: dict[str, str] = {}
    for line in ran.stdout:
        print(line, end="", flush=True)
        found = _OUTCOME.match(line)
        name = (found[1] or found[3]) if found else None
        if found and name and name not in outcomes:  # those that failed are listed again at the end
            outcomes[name] = found[2].lower()
            yield {"test": name, "outcome": outcomes[name]}
    if ran.wait() not in (0, 1, 5) or not (outcomes or passed):  # 5: all are left out
        raise RuntimeError(f"pytest ended with {ran.returncode}")


def conformance(settings: Settings) -> Iterator[Row]:
    """ONNX's conformance cases, eager and on CUDA as CUDA graphs, by several processes."""
    shares = 2 if settings.small else _SHARES
    command = [
        *(sys.executable, "-m", "benchmarks.gpu.parts", "share_of_conformance"),
        str(settings.folder),
        settings.device,
        str(int(settings.small)),
        str(settings.seconds),
    ]
    ran = [
        subprocess.Popen([*command, str(share), str(shares)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for share in range(shares)
    ]
    for process in ran:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
        if process.wait():
            raise RuntimeError(f"a share of the cases ended with {process.returncode}")


def share_of_conformance(settings: Settings, share: int, shares: int) -> Iterator[Row]:
    from tests import conformance as cases
    from workbench.backends.torch.executor.cuda_graph import NotCaptured, captured
    from workbench.backends.torch.executor.executor import TorchExecutor

    class OnDevice:
        """An executor with outputs on the CPU; on CUDA, its second run is a CUDA graph if it can be captured."""

        captured = False  # of the last one

        def __init__(self, graph: Any) -> None:
            self._executor, self._ran = TorchExecutor(graph, settings.device), False
            OnDevice.captured = False
            self.graph, self.fallbacks, self.upload = graph, self._executor.fallbacks, self._executor.upload

        def run_tensors(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
            outputs: Mapping[str, Any] = self._executor.run_tensors(inputs)
            if settings.device == "cuda" and self._ran:
                with contextlib.suppress(NotCaptured):
                    outputs = captured(self._executor, inputs, lambda: self._executor.run_tensors(inputs)).run()
                    OnDevice.captured = True
            self._ran = True
            return {name: _on_host(value) for name, value in outputs.items()}

    cases.TorchExecutor = OnDevice  # type: ignore[misc,assignment]
    for name in sorted(cases.cases())[share :: shares * (60 if settings.small else 1)]:
        verdict = cases.verdict(name)
        found = {"operator": verdict.operator, "kind": verdict.kind, "reason": verdict.reason}
        yield {"case": name, **found, "captured": OnDevice.captured}


def _on_host(value: Any) -> Any:
    if isinstance(value, list):
        return [_on_host(one) for one in value]
    return value.cpu() if hasattr(value, "cpu") else value


# ---- other parts for a GPU --------------------------------------------------------------------


def streams(settings: Settings) -> Iterator[Row]:
    """Operators on several streams, a CUDA graph and the arena, with the memory of each."""
    yield from _measured(settings, "inception_v2", "float32", ("cuda-graphs", "arena", "streams"), operators=False)


def memory(settings: Settings) -> Iterator[Row]:
    done = {row["variant"].split()[-1] for row in earlier_rows(settings.folder, "memory")}
    for dtype in ("float16", "mixed") if settings.device == "cuda" else ("float32",):
        if dtype in done:
            continue
        backends = ("torch", "cuda-graphs", "arena", "streams")
        yield from _measured(settings, "resnet50", dtype, backends, operators=dtype != "mixed")


def _measured(settings: Settings, name: str, dtype: str, backends: tuple[str, ...], operators: bool) -> Iterator[Row]:
    """operators: whether each is timed, which takes seconds for every backend."""
    import onnx

    import workbench as wb
    from sample_models.light import random_light
    from workbench.run.measurement.variants import combined

    backends_here = backends if settings.device == "cuda" else tuple(one for one in backends if one != "cuda-graphs")
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(random_light(name, narrow=8 if settings.small else 1), Path(folder) / "network.onnx")
        graph = wb.optimize(wb.load(Path(folder) / "network.onnx"), preset="simplify").graph
        measurement = wb.measure(
            combined({name: graph}, backends_here, [dtype]),
            device=settings.device,
            repeat=settings.rounds,
            operators=operators,
        )
        keep_runs(settings, measurement, {name: graph})
    for label in measurement.variants:
        if label in measurement.failures:
            yield {"network": name, "variant": f"{label} {dtype}", "failed": measurement.failures[label]}
            continue
        yield {"network": name, "variant": f"{label} {dtype}", **_figures(measurement.ran[label])}


def _figures(ran: MeasuredVariant) -> Row:
    return {
        "median_ms": ran.latency.median_ms,
        "p90_ms": ran.latency.p90_ms,
        **({"operators_ms": ran.sum_ms, "difference": ran.difference} if ran.operators else {}),
        "peak_bytes": ran.memory.peak_bytes,
        "weights_bytes": ran.memory.weights_bytes,
        "reserved_bytes": ran.memory.reserved_bytes,
        "workspaces_bytes": ran.memory.workspaces_bytes,
        "memory": ran.memory.kind,
        "fallbacks": dict(ran.fallbacks),
        "equal": None if ran.error is None else ran.error.ok,
    }


def profiler(settings: Settings) -> Iterator[Row]:
    """The operators' device times beside the time of the CUDA graph and the kernels' times by torch's profiler, in sum
    and, where they exceed _LONG_MS, one by one."""
    import torch

    from benchmarks.gpu.networks import exported, network
    from workbench.backends.torch.torch_run import TorchRun
    from workbench.run.inputs import seed_inputs

    if settings.device != "cuda":
        return
    import workbench as wb

    done = {row["network"] for row in earlier_rows(settings.folder, "profiler")}
    for name in ("resnet50", "bert"):
        if name in done:
            continue
        os.environ.setdefault("TEARDOWN_CUPTI", "0")  # it is asked twice, beside CUDA graphs
        with tempfile.TemporaryDirectory() as folder:
            graph = wb.load(exported(*network(name, 1, settings.small), Path(folder) / "network.onnx"))
            inputs = seed_inputs(graph)
            wb.export(wb.optimize(graph, preset="simplify").graph, Path(folder) / "ours.onnx")
            opened = TorchRun(
                str(Path(folder) / "ours.onnx"), inputs, "cuda:0", "cuda-graphs", "float16", lambda stage: None
            )
            opened.outputs()
            runs = [opened.time_ms() for _ in range(settings.rounds)]
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                opened.time_ms()
            kernels = sum(event.self_device_time_total for event in profile.key_averages()) / 1e3
            operators = opened.operators()
            by_profiler = _kernels_ms(str(Path(folder) / "ours.onnx"), inputs)
        differences = [
            (abs(one.time_ms / by_profiler[one.name] - 1), one.name)
            for one in operators
            if by_profiler.get(one.name, 0.0) > _LONG_MS
        ]
        yield {
            "network": name,
            "recorded_ms": median(runs),
            "operators_ms": sum(one.time_ms for one in operators),
            "profiler_ms": kernels,
            "compared": len(differences),
            "differences": sorted(differences)[-3:],
            "slowest": Counter({one.name: one.time_ms for one in operators}).most_common(3),
        }


def _kernels_ms(model: str, inputs: Mapping[str, Any]) -> dict[str, float]:
    """The milliseconds of the kernels of each node in one run by steps, by torch's profiler."""
    import torch
    from torch.profiler import ProfilerActivity, record_function

    from workbench.backends.torch.executor.opening import open_executor
    from workbench.backends.torch.executor.program import store

    executor = open_executor(model, "cuda:0", "float16")
    tensors, program = executor.upload(inputs), executor.program
    executor.run_tensors(tensors)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with executor.computing(), torch.profiler.profile(activities=activities) as profile:
        registers = program.filled_registers([tensors[name] for name in executor.graph.inputs])
        for number, step in enumerate(program.steps):
            with record_function(f"{_NODE}{number}"):
                results = program.results(step, registers)
            store(step, results, registers)
        torch.cuda.synchronize()
    names = {f"{_NODE}{number}": step.node.name for number, step in enumerate(program.steps)}
    on_host = (event for event in profile.key_averages() if event.device_type == torch.autograd.DeviceType.CPU)
    return {names[event.key]: event.device_time_total / 1e3 for event in on_host if event.key in names}


def oneflow(settings: Settings) -> Iterator[Row]:
    """ResNet-101 in mixed precision, as NCHW and by layout strategies."""
    import onnx

    import workbench as wb
    from sample_models.resnet import RESNET_101, resnet
    from workbench.run.inputs import seed_inputs
    from workbench.run.measurement.measure import measure_models
    from workbench.run.measurement.variants import Variant

    dtype = "mixed"
    stages, side = ((1, 1, 1, 1), 64) if settings.small else (RESNET_101, 224)
    done = {row["batch"] for row in earlier_rows(settings.folder, "oneflow")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet.onnx"
        onnx.save(resnet(stages, side), path)
        for batch in (2,) if settings.small else (16, 32, 64):
            if batch in done:
                continue
            graph = wb.load(path, dims={"N": batch})
            graphs = {"NCHW": wb.optimize(graph, preset="normalize").graph}
            for layout in ("insert-and-cancel", "greedy", "record-then-insert", "optimal", "measured"):
                timing = {"layout_measured.device": settings.device, "layout_measured.dtype": dtype}
                options = timing if layout == "measured" else {}
                graphs[layout] = wb.optimize(
                    graph, preset="normalize", layout=layout, options=options, target="cuda"
                ).graph
            backend = "cuda-graphs" if settings.device == "cuda" else "torch"
            variants = {label: Variant(layout_graph, backend, dtype, label) for label, layout_graph in graphs.items()}
            # Without a comparison of results: ONNX Runtime on a CPU takes minutes for a batch of 64.
            measurement = measure_models(
                variants, inputs=seed_inputs(graph), device=settings.device, repeat=settings.rounds, operators=False
            )
            keep_runs(settings, measurement, graphs)
            for label, ran in measurement.ran.items():
                yield {"batch": batch, "strategy": label, "median_ms": ran.latency.median_ms, "ratio": ran.ratio.ratio}
            for label, sentence in measurement.failures.items():
                yield {"batch": batch, "strategy": label, "failed": sentence}


def fusions(settings: Settings) -> Iterator[Row]:
    """Fusions of transformers: a bias with GELU, and a bias with Dropout's mask and the residual."""
    import workbench as wb
    from workbench.run.measurement.variants import combined

    rows, width = (64, 64) if settings.small else (4096, 4096)
    x, b = f"float[{rows},{width}]", f"float[{width}]"
    texts = {
        "bias + GELU": f"g ({x} x, {b} b) => ({x} y) {{ s = Add(x, b)  y = Gelu(s) }}",
        "bias + mask + residual": f"g ({x} x, {b} b, {x} m, {x} r) => ({x} y)"
        " { s = Add(x, b)  d = Mul(s, m)  y = Add(d, r) }",
    }
    backends = ["cuda-graphs", "fused"] if settings.device == "cuda" else ["torch", "fused"]
    dtype = "float16" if settings.device == "cuda" else "float32"
    done = {row["network"] for row in earlier_rows(settings.folder, "fusions")}
    for name, text in texts.items():
        if name in done:
            continue
        file = settings.folder / "fusion.txt"
        file.write_text(f'<ir_version: 10, opset_import: ["": 20]>\n{text}', encoding="utf-8")
        measurement = wb.measure(
            combined({name: wb.load(file)}, backends, [dtype]), device=settings.device, repeat=settings.rounds
        )
        for label, ran in measurement.ran.items():
            yield {"network": name, "variant": label, **_figures(ran)}
        for label, sentence in measurement.failures.items():
            yield {"network": name, "variant": label, "failed": sentence}


def keep_runs(settings: Settings, measurement: Measurement, graphs: Mapping[str, Graph]) -> None:
    """Keep the measurement in FOLDER/runs.sqlite; the pages Runs and Measure open it with
    WORKBENCH_RUNS_URL=sqlite:///FOLDER/runs.sqlite.
    """
    from workbench.run.records.store import RunOrigin, keep, model_hash

    hashes = {name: model_hash(graph) for name, graph in graphs.items()}
    origins = {label: RunOrigin(hashes[ran.step], ran.step) for label, ran in measurement.ran.items()}
    keep(measurement, origins, f"sqlite:///{(settings.folder / 'runs.sqlite').resolve()}")


PARTS: Mapping[str, Callable[[Settings], Iterator[Row]]] = {
    "environment": environment,
    "tests": tests,
    "conformance": conformance,
    "networks": networks,
    "profiler": profiler,
    "oneflow": oneflow,
    "streams": streams,
    "memory": memory,
    "fusions": fusions,
}


def main() -> None:
    warnings.simplefilter("ignore")
    name, folder, device, small, seconds, *more = sys.argv[1:]
    settings = Settings(device, small == "1", Path(folder), float(seconds))
    if name == "share_of_conformance":
        for row in share_of_conformance(settings, *map(int, more)):
            print(json.dumps(row), flush=True)
        return
    with (Path(folder) / f"{name}.jsonl").open("a" if name in _GOES_ON else "w", encoding="utf-8") as file:
        try:
            for row in PARTS[name](settings):
                file.write(json.dumps(row, default=str) + "\n")
                file.flush()
                print(json.dumps(row, default=str), flush=True)
        except MoreToDo:
            sys.exit(MORE_TO_DO)


if __name__ == "__main__":
    main()
