"""Our backends and plain torch on the same networks and inputs, interleaved in one process."""

from __future__ import annotations

import copy
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

Row = dict[str, Any]
_ROUNDS = 20
_SHARE = 1 / 3  # of a part's time in which the runs of one network are opened; the others are left for another start
_WHO = ("torch", "ours")
_LEFT = "not opened: no time was left"
# What is opened after the rest, since compiling takes tens of seconds, and after that.
_STAGES = {"compiled": 1, "torch-compile": 1, "fused": 2}
_AUTOTUNED = {"autotuned", "torch-compile-autotuned"}


@dataclass(frozen=True)
class Settings:
    """The settings of a run. device: "cuda" or "cpu". small: narrow networks and few runs, to check that every part
    runs. folder: of the results. seconds: which the part may take."""

    device: str
    small: bool
    folder: Path
    seconds: float

    @property
    def batches(self) -> tuple[int, ...]:
        return (1,) if self.small else (1, 64)

    @property
    def rounds(self) -> int:
        return 3 if self.small else _ROUNDS


class MoreToDo(Exception):
    """Time has passed; another start with the same folder goes on."""


def networks(settings: Settings) -> Iterator[Row]:
    """A row for each network, batch, data type and backend; autotuned ones after all others, since they take minutes.

    What an earlier start has measured is not measured again. Raises MoreToDo.
    """
    from benchmarks.gpu.networks import NETWORKS

    begin, before = time.monotonic(), earlier_rows(settings.folder, "networks")
    names = ["resnet50"] if settings.small else list(NETWORKS)
    dtypes = ("float16", "mixed") if settings.device == "cuda" else ("float32",)
    is_left = False
    for autotuned in (False,) if settings.small else (False, True):
        for batch in settings.batches:
            for name in names:
                for dtype in dtypes:
                    about = {"network": name, "batch": batch, "dtype": dtype}
                    if _is_measured(before, about, autotuned):
                        continue
                    if time.monotonic() - begin > settings.seconds * (1 - _SHARE):
                        raise MoreToDo
                    try:
                        for row in _beside_torch(settings, about, autotuned):
                            is_left |= row.get("failed") == _LEFT
                            yield row
                    except Exception as error:  # a network that cannot be made does not stop the others
                        how = "torch-compile-autotuned" if autotuned else "torch"
                        yield about | {"who": "ours", "how": how, "failed": _in_short(error)}
    if is_left:
        raise MoreToDo


def earlier_rows(folder: Path, part: str) -> list[Row]:
    """The rows of a part that an earlier start has left."""
    file = folder / f"{part}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def _is_measured(rows: list[Row], about: Row, autotuned: bool) -> bool:
    """Whether all runs were opened: the last row of each says so."""
    last = {
        (row["who"], row["how"]): row
        for row in rows
        if about.items() <= row.items() and _is_autotuned(row["how"]) == autotuned
    }
    return bool(last) and all(row.get("failed") != _LEFT for row in last.values())


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _is_autotuned(how: str) -> bool:
    return how.split(",")[0] in _AUTOTUNED


def _beside_torch(settings: Settings, about: Row, autotuned: bool) -> Iterator[Row]:
    import torch

    from benchmarks.gpu.networks import exported, network
    from workbench.run.measurement.interleave import Repetitions, interleaved

    begin, dtype = time.monotonic(), about["dtype"]
    module, inputs = network(about["network"], about["batch"], settings.small)
    runs: dict[tuple[str, str], Callable[[], float]] = {}
    opening: dict[tuple[str, str], float] = {}
    torch._dynamo.reset()  # else it compiles a function, as that of Sequential, for eight networks and no more
    gc.collect()  # the network before lies in cycles
    torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as folder:
        path = exported(module, inputs, Path(folder) / "network.onnx")
        plain, own = _plain_torch(settings, module, inputs, dtype), _ours(settings, path, inputs, dtype)
        makers = [(who, *one) for pair in zip_longest(plain, own) for who, one in zip(_WHO, pair, strict=True) if one]
        for who, how, make in sorted(makers, key=lambda one: _STAGES.get(one[1].split(",")[0], 0)):
            if _is_autotuned(how) != autotuned:
                continue
            if runs and time.monotonic() - begin > settings.seconds * _SHARE:
                yield about | {"who": who, "how": how, "failed": _LEFT}
                continue
            start = time.perf_counter()
            try:
                runs[who, how] = make()
            except Exception as error:  # a backend that fails does not stop the others
                yield about | {"who": who, "how": how, "failed": _in_short(error)}
                continue
            opening[who, how] = time.perf_counter() - start
        by_label = {" ".join(key): run for key, run in runs.items()}
        times = interleaved(by_label, Repetitions(3, settings.rounds, settings.rounds))
    for who, how in runs:
        times_of_run = sorted(times[f"{who} {how}"])
        figures = {
            "median_ms": median(times_of_run),
            "min_ms": times_of_run[0],
            "p90_ms": times_of_run[int(0.9 * len(times_of_run))],
        }
        yield about | {"who": who, "how": how, **figures, "opening_s": opening[who, how]}


def _plain_torch(settings: Settings, module: Any, inputs: Any, dtype: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Plain torch: eager, as a CUDA graph, compiled and autotuned; for images, each also with channels last."""
    import torch

    device = torch.device(settings.device)
    formats = [torch.contiguous_format, *([torch.channels_last] if inputs[0].dim() == 4 else [])]
    for memory in formats:
        last = ", channels last" if memory is torch.channels_last else ""
        own = copy.deepcopy(module).to(device, memory_format=memory)
        own = own.half() if dtype == "float16" else own
        operands = [_on_device(x, device, dtype, memory) for x in inputs]

        def run(model: Any = own, operands: Any = operands) -> Any:
            with torch.inference_mode(), torch.autocast("cuda", torch.float16, enabled=dtype == "mixed"):
                return model(*operands)

        yield f"eager{last}", lambda run=run: _timed(run, device)
        modes = {"compiled": "default"} | ({} if settings.small else {"autotuned": "max-autotune-no-cudagraphs"})
        if settings.device == "cuda":
            yield f"CUDA graph{last}", lambda run=run: _timed(_captured(run), device)
        for label, mode in modes.items():
            compiled = torch.compile(own, mode=mode)
            again = lambda run=run, compiled=compiled: run(compiled)  # noqa: E731
            if settings.device == "cuda":
                yield f"{label}, CUDA graph{last}", lambda again=again: _timed(_captured(again), device)
            else:
                yield f"{label}{last}", lambda again=again: _timed(again, device)


def _on_device(value: Any, device: Any, dtype: str, memory: Any) -> Any:
    value = value.half() if dtype == "float16" and value.is_floating_point() else value
    return value.to(device, memory_format=memory) if value.dim() == 4 else value.to(device)


def _captured(run: Callable[[], Any]) -> Callable[[], Any]:
    import torch

    from workbench.backends.torch.executor.cuda_graph import recorded, warm_up

    warm_up(run, 3)
    graph, results = recorded(run, torch.cuda.graph_pool_handle())

    def replay() -> Any:
        graph.replay()
        return results  # which lives as long as the graph

    return replay


def _timed(run: Callable[[], Any], device: Any) -> Callable[[], float]:
    """A function that runs `run` and returns its milliseconds, on CUDA by events; `run` is run once before."""
    import torch

    run()

    def on_cpu() -> float:
        start = time.perf_counter()
        run()
        return (time.perf_counter() - start) * 1e3

    def on_gpu() -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)

    return on_cpu if device.type == "cpu" else on_gpu


def _ours(settings: Settings, path: Path, inputs: Any, dtype: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each backend on the simplified graph and, for images, on the graph with measured layouts."""
    import workbench as wb
    from workbench.backends.torch.torch_run import TorchRun
    from workbench.formats.io.exporting import export_onnx
    from workbench.formats.opsets.written import NEWEST
    from workbench.planning.fusion.groups_at_once import grouped

    graph = wb.load(path)
    arrays = {
        name: value.cpu().float().numpy() if value.is_floating_point() else value.cpu().numpy()
        for name, value in zip(graph.inputs, inputs, strict=True)
    }
    plain = wb.optimize(graph, preset="simplify").graph
    graphs = {"": plain}
    if inputs[0].dim() == 4:
        timed = {f"layout_measured.{key}": value for key, value in (("device", settings.device), ("dtype", dtype))}
        graphs[", measured layouts"] = wb.optimize(
            plain, preset="normalize", layout="measured", options=timed, target="cuda"
        ).graph
    backends = (
        ["torch", "cuda-graphs", "torch-compile", "fused"] if settings.device == "cuda" else ["torch", "torch-compile"]
    )
    if not settings.small:
        backends.append("torch-compile-autotuned")
    for label, optimized in graphs.items():
        files = {name: path.with_name(f"{name}{len(label)}.onnx") for name in ("one_by_one", "groups")}
        export_onnx(optimized, files["one_by_one"], check=False, opset=NEWEST)
        export_onnx(grouped(optimized), files["groups"], check=False, opset=NEWEST)
        for backend in backends:
            file = files["groups" if backend == "fused" else "one_by_one"]

            def make(file: Path = file, backend: str = backend) -> Callable[[], float]:
                device = "cuda:0" if settings.device == "cuda" else "cpu"
                opened = TorchRun(str(file), arrays, device, backend, dtype, lambda stage: None)
                opened.outputs()
                return opened.time_ms

            yield f"{backend}{label}", make
