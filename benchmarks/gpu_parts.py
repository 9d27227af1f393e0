"""The parts of `on_gpu.py`, each a function that yields rows; `python benchmarks/gpu_parts.py PART FOLDER DEVICE SMALL`.

A row is written when it is there, so that a part that is ended at its limit leaves what it has.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

Row = dict[str, Any]
_SHARES = 8  # processes of ONNX's cases
_TURNS = 20


@dataclass(frozen=True)
class Place:
    """device: "cuda" or "cpu". small: narrow networks, few runs: for a look at whether everything runs."""

    device: str
    small: bool

    @property
    def batches(self) -> tuple[int, ...]:
        return (1,) if self.small else (1, 64)

    @property
    def turns(self) -> int:
        return 3 if self.small else _TURNS


def environment(place: Place) -> Iterator[Row]:
    import dataclasses

    from workbench.run.worker.machine import machine

    yield dataclasses.asdict(machine("cuda:0" if place.device == "cuda" else "cpu"))


def tests(place: Place) -> Iterator[Row]:
    """tests/test_cuda.py and every overload that writes into a given place."""
    command = [sys.executable, "-m", "pytest", "tests/test_cuda.py", "tests/test_arena.py", "-q", "-rA", "--run-slow"]
    wanted = "overload" if place.small else "cuda or overload"
    ran = subprocess.run([*command, "-k", wanted, "-p", "no:cacheprovider"], capture_output=True, text=True, cwd=ROOT)
    for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (?:\[\d+\] )?(\S+)", ran.stdout, re.M):
        yield {"test": name, "outcome": outcome.lower()}
    if ran.returncode not in (0, 1):
        yield {"test": "pytest", "outcome": "failed", "text": (ran.stdout + ran.stderr)[-2000:]}


def conformance(place: Place) -> Iterator[Row]:
    """ONNX's cases, eager and, on CUDA, recorded, by several processes."""
    shares = 2 if place.small else _SHARES
    command = [sys.executable, __file__, "share_of_conformance", "-", place.device, str(int(place.small))]
    ran = [
        subprocess.Popen([*command, str(share), str(shares)], stdout=subprocess.PIPE, text=True) for share in range(shares)
    ]
    for process in ran:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)


def share_of_conformance(place: Place, share: int, shares: int) -> Iterator[Row]:
    from tests import conformance as cases
    from workbench.run.torch.cuda_graph import NotCaptured, captured
    from workbench.run.torch.executor import TorchExecutor

    class Executor(TorchExecutor):
        """On the device, its outputs brought back; from the second run on recorded, where that can be."""

        def __init__(self, graph: Any) -> None:
            super().__init__(graph, place.device)
            self.recorded: Callable[[], Mapping[str, Any]] | None = None

        def run_tensors(self, inputs: Mapping[str, Any], observe: Any = None) -> dict[str, Any]:
            run = lambda: TorchExecutor.run_tensors(self, inputs)  # noqa: E731
            found = run()
            if place.device == "cuda":
                with contextlib.suppress(NotCaptured):
                    found = dict(captured(_Bare(self, inputs), inputs, run).run())
            return {name: _on_host(value) for name, value in found.items()}

    cases.TorchExecutor = Executor  # type: ignore[misc]
    for name in sorted(cases.cases())[share :: shares * (20 if place.small else 1)]:
        verdict = cases.verdict(name)
        yield {"case": name, "operator": verdict.operator, "kind": verdict.kind, "reason": verdict.reason}


class _Bare:
    """What recording asks of an executor, without the subclass's own runs."""

    def __init__(self, executor: Any, inputs: Mapping[str, Any]) -> None:
        self.device, self.fallbacks = executor.device, executor.fallbacks
        self.run_tensors = lambda given, observe=None: type(executor).__mro__[1].run_tensors(executor, given, observe)


def _on_host(value: Any) -> Any:
    if isinstance(value, list):
        return [_on_host(one) for one in value]
    return value.cpu() if hasattr(value, "cpu") else value


# ---- networks, beside plain torch --------------------------------------------------------------


def networks(place: Place) -> Iterator[Row]:
    """Our backends and plain torch on the same network and inputs, by turns in one process."""
    from benchmarks.gpu_networks import NETWORKS

    names = ["resnet50", "bert"] if place.small else list(NETWORKS)
    for batch in place.batches:
        for name in names:
            for dtype in ("float16", "mixed") if place.device == "cuda" else ("float32",):
                yield from _beside_torch(place, name, batch, dtype)


def _beside_torch(place: Place, name: str, batch: int, dtype: str) -> Iterator[Row]:
    from benchmarks.gpu_networks import exported, network
    from workbench.run.measurement.interleave import Repetitions, by_turns

    module, inputs = network(name, batch, place.small)
    runs: dict[tuple[str, str], Callable[[], float]] = {}
    about = {"network": name, "batch": batch, "dtype": dtype}
    opening: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = exported(module, inputs, Path(folder) / "network.onnx")
        for who, makers in (("torch", _anchors(place, module, inputs, dtype)), ("ours", _ours(place, path, inputs, dtype))):
            for how, make in makers:
                begun = time.perf_counter()
                try:
                    runs[who, how] = make()
                except Exception as error:  # one that does not run leaves the others
                    yield about | {"who": who, "how": how, "failed": f"{type(error).__name__}: {error}"[:300]}
                    continue
                opening[who, how] = time.perf_counter() - begun
        by_label = {" ".join(key): run for key, run in runs.items()}
        times = by_turns(by_label, Repetitions(3, place.turns, place.turns))
    for who, how in runs:
        taken = sorted(times[f"{who} {how}"])
        figures = {"median_ms": median(taken), "min_ms": taken[0], "p90_ms": taken[int(0.9 * len(taken))]}
        yield about | {"who": who, "how": how, **figures, "opening_s": opening[who, how]}


def _anchors(place: Place, module: Any, inputs: Any, dtype: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Plain torch: eager, recorded, compiled and autotuned, each also with channels last where there are images."""
    import torch

    device = torch.device(place.device)
    formats = [torch.contiguous_format, *([torch.channels_last] if inputs[0].dim() == 4 else [])]
    for memory in formats:
        last = ", channels last" if memory is torch.channels_last else ""
        own = module.to(device, memory_format=memory)
        own = own.half() if dtype == "float16" else own
        given = [_given(x, device, dtype, memory) for x in inputs]

        def run(model: Any = own, given: Any = given) -> Any:
            with torch.inference_mode(), torch.autocast("cuda", torch.float16, enabled=dtype == "mixed"):
                return model(*given)

        yield f"eager{last}", lambda run=run: _timed(run, device)
        modes = {"compiled": "default"} | ({} if place.small else {"autotuned": "max-autotune-no-cudagraphs"})
        if place.device == "cuda":
            yield f"CUDA graph{last}", lambda run=run: _timed(_recorded(run), device)
        for label, mode in modes.items():
            compiled = torch.compile(own, mode=mode)
            again = lambda run=run, compiled=compiled: run(compiled)  # noqa: E731
            if place.device == "cuda":
                yield f"{label}, CUDA graph{last}", lambda again=again: _timed(_recorded(again), device)
            else:
                yield f"{label}{last}", lambda again=again: _timed(again, device)
        module = module.float()


def _given(value: Any, device: Any, dtype: str, memory: Any) -> Any:
    value = value.half() if dtype == "float16" and value.is_floating_point() else value
    return value.to(device, memory_format=memory) if value.dim() == 4 else value.to(device)


def _recorded(run: Callable[[], Any]) -> Callable[[], Any]:
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def _timed(run: Callable[[], Any], device: Any) -> Callable[[], float]:
    """Milliseconds of a run, by the device's own clock where there is one. It has run once."""
    import torch

    run()

    def on_cpu() -> float:
        begun = time.perf_counter()
        run()
        return (time.perf_counter() - begun) * 1e3

    def on_gpu() -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)

    return on_cpu if device.type == "cpu" else on_gpu


def _ours(place: Place, path: Path, inputs: Any, dtype: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The simplified graph, and the one with layouts by measured time, by each backend."""
    import workbench as wb
    from workbench.io.exporting import export_onnx
    from workbench.opsets.written import NEWEST
    from workbench.run.torch.opened import TorchRun

    graph = wb.load(path)
    arrays = {name: value.cpu().float().numpy() if value.is_floating_point() else value.cpu().numpy()
              for name, value in zip(graph.inputs, inputs, strict=True)}
    plain = wb.optimize(graph, preset="simplify").graph
    graphs = {"": plain}
    if inputs[0].dim() == 4:
        timed = {f"layout_measured.{key}": value for key, value in (("device", place.device), ("dtype", dtype))}
        graphs[", measured layouts"] = wb.optimize(plain, layout="measured", options=timed).graph
    backends = ["torch", "cuda-graphs", "torch-compile", "fused"] if place.device == "cuda" else ["torch", "torch-compile"]
    if not place.small:
        backends.append("torch-compile-autotuned")
    for label, made in graphs.items():
        file = path.with_name(f"ours{len(label)}.onnx")
        export_onnx(made, file, check=False, opset=NEWEST)
        for backend in backends:

            def make(file: Path = file, backend: str = backend) -> Callable[[], float]:
                where = "cuda:0" if place.device == "cuda" else "cpu"
                opened = TorchRun(str(file), arrays, where, backend, dtype, lambda words: None)
                opened.outputs()
                return opened.time_ms

            yield f"{backend}{label}", make


# ---- what else only a GPU shows -----------------------------------------------------------------


def lanes(place: Place) -> Iterator[Row]:
    """Operators side by side, beside the recorded run, with the memory of each."""
    yield from _measured(place, "inception_v2", ("float32",), ("cuda-graphs", "arena", "lanes"))


def memory(place: Place) -> Iterator[Row]:
    yield from _measured(place, "resnet50", ("float16", "mixed"), ("torch", "cuda-graphs", "arena", "lanes"))


def _measured(place: Place, name: str, dtypes: tuple[str, ...], backends: tuple[str, ...]) -> Iterator[Row]:
    import onnx

    import workbench as wb
    from sample_models.light import random_light
    from workbench.run.measurement.variants import combined

    own = dtypes if place.device == "cuda" else ("float32",)
    ways = backends if place.device == "cuda" else tuple(one for one in backends if one != "cuda-graphs")
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(random_light(name, narrow=8 if place.small else 1), Path(folder) / "network.onnx")
        graph = wb.optimize(wb.load(Path(folder) / "network.onnx"), preset="simplify").graph
        found = wb.measure(combined({name: graph}, ways, own), device=place.device, repeat=place.turns)
    for label, variant in found.variants.items():
        if label in found.failures:
            yield {"network": name, "variant": label, "failed": found.failures[label]}
            continue
        ran = found.ran[label]
        row = {"network": name, "variant": label, "median_ms": ran.latency.median_ms, "p90_ms": ran.latency.p90_ms}
        row |= {"peak_bytes": ran.memory.peak_bytes, "workspaces_bytes": ran.memory.workspaces_bytes}
        row |= {"memory": ran.memory.kind, "fallbacks": dict(ran.fallbacks), "equal": None if ran.error is None else ran.error.ok}
        yield row | {"operators_ms": ran.sum_ms, "difference": ran.difference}


def profiler(place: Place) -> Iterator[Row]:
    """The sum of the operators' device times beside the recorded run, and beside what torch's profiler counts there."""
    import torch

    from benchmarks.gpu_networks import exported, network
    from workbench.run.inputs import seed_inputs
    from workbench.run.torch.opened import TorchRun

    if place.device != "cuda":
        return
    import workbench as wb

    for name in ("resnet50", "bert"):
        with tempfile.TemporaryDirectory() as folder:
            graph = wb.load(exported(*network(name, 1, place.small), Path(folder) / "network.onnx"))
            inputs = seed_inputs(graph)
            wb.export(wb.optimize(graph, preset="simplify").graph, Path(folder) / "ours.onnx")
            opened = TorchRun(str(Path(folder) / "ours.onnx"), inputs, "cuda:0", "cuda-graphs", "float16", lambda words: None)
            opened.outputs()
            runs = [opened.time_ms() for _ in range(place.turns)]
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as watched:
                opened.time_ms()
            kernels = sum(event.self_device_time_total for event in watched.key_averages()) / 1e3
            operators = opened.operators()
        yield {
            "network": name,
            "recorded_ms": median(runs),
            "operators_ms": sum(one.time_ms for one in operators),
            "profiler_ms": kernels,
            "slowest": Counter({one.name: one.time_ms for one in operators}).most_common(3),
        }


def oneflow(place: Place) -> Iterator[Row]:
    """ResNet-101 by every strategy that weighs nothing, and by measured time, in mixed precision."""
    import onnx

    import workbench as wb
    from sample_models.resnet import RESNET_101, resnet
    from workbench.run.measurement.variants import Variant

    dtype = "mixed"
    stages, side = ((1, 1, 1, 1), 64) if place.small else (RESNET_101, 224)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet.onnx"
        onnx.save(resnet(stages, side), path)
        for batch in (2,) if place.small else (16, 32, 64):
            graph = wb.load(path, dims={"N": batch})
            made = {"NCHW": wb.optimize(graph).graph}
            for layout in ("insert-and-cancel", "greedy", "record-then-insert", "optimal", "measured"):
                timed = {"layout_measured.device": place.device, "layout_measured.dtype": dtype}
                options = timed if layout == "measured" else {}
                made[layout] = wb.optimize(graph, layout=layout, options=options).graph
            variants = {label: Variant(one, "torch", dtype, label) for label, one in made.items()}
            found = wb.measure(variants, device=place.device, repeat=place.turns, operators=False)
            for label, ran in found.ran.items():
                yield {"batch": batch, "strategy": label, "median_ms": ran.latency.median_ms, "ratio": ran.ratio.ratio}


PARTS: Mapping[str, Callable[[Place], Iterator[Row]]] = {
    "environment": environment,
    "tests": tests,
    "conformance": conformance,
    "networks": networks,
    "profiler": profiler,
    "oneflow": oneflow,
    "lanes": lanes,
    "memory": memory,
}


def main() -> None:
    warnings.simplefilter("ignore")
    name, folder, device, small, *more = sys.argv[1:]
    place = Place(device, small == "1")
    if name == "share_of_conformance":
        for row in share_of_conformance(place, *map(int, more)):
            print(json.dumps(row), flush=True)
        return
    with (Path(folder) / f"{name}.jsonl").open("w", encoding="utf-8") as file:
        for row in PARTS[name](place):
            file.write(json.dumps(row, default=str) + "\n")
            file.flush()
            print(json.dumps(row, default=str), flush=True)


if __name__ == "__main__":
    main()
