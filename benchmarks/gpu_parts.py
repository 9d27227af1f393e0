"""The parts of `on_gpu.py`, each a function that yields rows: `benchmarks/gpu_parts.py PART FOLDER DEVICE SMALL`.

Each row is written at once, so that a part that is ended at its limit keeps its rows.
"""

from __future__ import annotations

import contextlib
import json
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.gpu_beside_torch import Row, Settings, networks  # noqa: E402

_SHARES = 8  # processes for ONNX's conformance cases


def environment(settings: Settings) -> Iterator[Row]:
    import dataclasses

    from workbench.run.worker.machine import machine

    yield dataclasses.asdict(machine("cuda:0" if settings.device == "cuda" else "cpu"))


def tests(settings: Settings) -> Iterator[Row]:
    """The outcomes of tests/test_cuda.py, and of the tests of `out=` overloads."""
    command = [sys.executable, "-m", "pytest", "tests/test_cuda.py", "tests/test_arena.py", "-q", "-rA", "--run-slow"]
    selection = "overload_takes or further" if settings.small else "cuda or overload"
    ran = subprocess.run(
        [*command, "-k", selection, "-p", "no:cacheprovider"], capture_output=True, text=True, cwd=ROOT
    )
    for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (?:\[\d+\] )?(\S+)", ran.stdout, re.M):
        yield {"test": name, "outcome": outcome.lower()}
    if ran.returncode not in (0, 1):
        yield {"test": "pytest", "outcome": "failed", "text": (ran.stdout + ran.stderr)[-2000:]}


def conformance(settings: Settings) -> Iterator[Row]:
    """ONNX's conformance cases, eager and on CUDA as CUDA graphs, by several processes."""
    shares = 2 if settings.small else _SHARES
    command = [
        sys.executable,
        __file__,
        "share_of_conformance",
        str(settings.folder),
        settings.device,
        str(int(settings.small)),
    ]
    ran = [
        subprocess.Popen([*command, str(share), str(shares)], stdout=subprocess.PIPE, text=True)
        for share in range(shares)
    ]
    for process in ran:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)


def share_of_conformance(settings: Settings, share: int, shares: int) -> Iterator[Row]:
    from tests import conformance as cases
    from workbench.run.torch.executor.cuda_graph import NotCaptured, captured
    from workbench.run.torch.executor.executor import TorchExecutor

    class OnDevice:
        """An executor with outputs on the CPU; on CUDA, its second run is a CUDA graph if it can be captured."""

        def __init__(self, graph: Any) -> None:
            self._executor, self._ran = TorchExecutor(graph, settings.device), False
            self.graph, self.fallbacks, self.upload = graph, self._executor.fallbacks, self._executor.upload

        def run_tensors(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
            outputs: Mapping[str, Any] = self._executor.run_tensors(inputs)
            if settings.device == "cuda" and self._ran:
                with contextlib.suppress(NotCaptured):
                    outputs = captured(self._executor, inputs, lambda: self._executor.run_tensors(inputs)).run()
            self._ran = True
            return {name: _on_host(value) for name, value in outputs.items()}

    cases.TorchExecutor = OnDevice  # type: ignore[misc,assignment]
    for name in sorted(cases.cases())[share :: shares * (60 if settings.small else 1)]:
        verdict = cases.verdict(name)
        yield {"case": name, "operator": verdict.operator, "kind": verdict.kind, "reason": verdict.reason}


def _on_host(value: Any) -> Any:
    if isinstance(value, list):
        return [_on_host(one) for one in value]
    return value.cpu() if hasattr(value, "cpu") else value


# ---- other parts for a GPU --------------------------------------------------------------------


def lanes(settings: Settings) -> Iterator[Row]:
    """Operators on several streams, a CUDA graph and the arena, with the memory of each."""
    yield from _measured(settings, "inception_v2", ("float32",), ("cuda-graphs", "arena", "lanes"))


def memory(settings: Settings) -> Iterator[Row]:
    yield from _measured(settings, "resnet50", ("float16", "mixed"), ("torch", "cuda-graphs", "arena", "lanes"))


def _measured(settings: Settings, name: str, dtypes: tuple[str, ...], backends: tuple[str, ...]) -> Iterator[Row]:
    import onnx

    import workbench as wb
    from sample_models.light import random_light
    from workbench.run.measurement.variants import combined

    dtypes_here = dtypes if settings.device == "cuda" else ("float32",)
    backends_here = backends if settings.device == "cuda" else tuple(one for one in backends if one != "cuda-graphs")
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(random_light(name, narrow=8 if settings.small else 1), Path(folder) / "network.onnx")
        graph = wb.optimize(wb.load(Path(folder) / "network.onnx"), preset="simplify").graph
        measurement = wb.measure(
            combined({name: graph}, backends_here, dtypes_here), device=settings.device, repeat=settings.rounds
        )
        keep_runs(settings, measurement, {name: graph})
    for label in measurement.variants:
        if label in measurement.failures:
            yield {"network": name, "variant": label, "failed": measurement.failures[label]}
            continue
        yield {"network": name, "variant": label, **_figures(measurement.ran[label])}


def _figures(ran: MeasuredVariant) -> Row:
    return {
        "median_ms": ran.latency.median_ms,
        "p90_ms": ran.latency.p90_ms,
        "operators_ms": ran.sum_ms,
        "difference": ran.difference,
        "peak_bytes": ran.memory.peak_bytes,
        "workspaces_bytes": ran.memory.workspaces_bytes,
        "memory": ran.memory.kind,
        "fallbacks": dict(ran.fallbacks),
        "equal": None if ran.error is None else ran.error.ok,
    }


def profiler(settings: Settings) -> Iterator[Row]:
    """The sum of the operators' device times, the time of the CUDA graph, and the kernels' time by torch's profiler."""
    import torch

    from benchmarks.gpu_networks import exported, network
    from workbench.run.inputs import seed_inputs
    from workbench.run.torch.torch_run import TorchRun

    if settings.device != "cuda":
        return
    import workbench as wb

    for name in ("resnet50", "bert"):
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
        yield {
            "network": name,
            "recorded_ms": median(runs),
            "operators_ms": sum(one.time_ms for one in operators),
            "profiler_ms": kernels,
            "slowest": Counter({one.name: one.time_ms for one in operators}).most_common(3),
        }


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
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet.onnx"
        onnx.save(resnet(stages, side), path)
        for batch in (2,) if settings.small else (16, 32, 64):
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
                variants, inputs=seed_inputs(graph), device=settings.device, repeat=settings.rounds
            )
            keep_runs(settings, measurement, graphs)
            for label, ran in measurement.ran.items():
                yield {"batch": batch, "strategy": label, "median_ms": ran.latency.median_ms, "ratio": ran.ratio.ratio}


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
    for name, text in texts.items():
        file = settings.folder / "fusion.txt"
        file.write_text(f'<ir_version: 10, opset_import: ["": 20]>\n{text}', encoding="utf-8")
        measurement = wb.measure(
            combined({name: wb.load(file)}, backends, [dtype]), device=settings.device, repeat=settings.rounds
        )
        for label, ran in measurement.ran.items():
            yield {"network": name, "variant": label, **_figures(ran)}


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
    "lanes": lanes,
    "memory": memory,
    "fusions": fusions,
}


def main() -> None:
    warnings.simplefilter("ignore")
    name, folder, device, small, *more = sys.argv[1:]
    settings = Settings(device, small == "1", Path(folder))
    if name == "share_of_conformance":
        for row in share_of_conformance(settings, *map(int, more)):
            print(json.dumps(row), flush=True)
        return
    with (Path(folder) / f"{name}.jsonl").open("w", encoding="utf-8") as file:
        for row in PARTS[name](settings):
            file.write(json.dumps(row, default=str) + "\n")
            file.flush()
            print(json.dumps(row, default=str), flush=True)


if __name__ == "__main__":
    main()
