"""Our backends beside plain torch: the same network, the same inputs, by turns in one process."""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

Row = dict[str, Any]
_TURNS = 20


@dataclass(frozen=True)
class Place:
    """device: "cuda" or "cpu". small: narrow networks, few runs: for a look at whether everything runs. folder: of what
    is found."""

    device: str
    small: bool
    folder: Path

    @property
    def batches(self) -> tuple[int, ...]:
        return (1,) if self.small else (1, 64)

    @property
    def turns(self) -> int:
        return 3 if self.small else _TURNS


def networks(place: Place) -> Iterator[Row]:
    """Our backends and plain torch on the same network and inputs, by turns in one process."""
    from benchmarks.gpu_networks import NETWORKS

    names = ["resnet50"] if place.small else list(NETWORKS)
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
        for who, makers in (
            ("torch", _anchors(place, module, inputs, dtype)),
            ("ours", _ours(place, path, inputs, dtype)),
        ):
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
        own = copy.deepcopy(module).to(device, memory_format=memory)
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


def _given(value: Any, device: Any, dtype: str, memory: Any) -> Any:
    value = value.half() if dtype == "float16" and value.is_floating_point() else value
    return value.to(device, memory_format=memory) if value.dim() == 4 else value.to(device)


def _recorded(run: Callable[[], Any]) -> Callable[[], Any]:
    import torch

    from workbench.run.torch.executor.cuda_graph import warm_up

    warm_up(run, 3)
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
    arrays = {
        name: value.cpu().float().numpy() if value.is_floating_point() else value.cpu().numpy()
        for name, value in zip(graph.inputs, inputs, strict=True)
    }
    plain = wb.optimize(graph, preset="simplify").graph
    graphs = {"": plain}
    if inputs[0].dim() == 4:
        timed = {f"layout_measured.{key}": value for key, value in (("device", place.device), ("dtype", dtype))}
        graphs[", measured layouts"] = wb.optimize(plain, layout="measured", options=timed, target="cuda").graph
    backends = (
        ["torch", "cuda-graphs", "torch-compile", "fused"] if place.device == "cuda" else ["torch", "torch-compile"]
    )
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
