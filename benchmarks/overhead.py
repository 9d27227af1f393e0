"""The overhead of our executor over torch: a module, and its export run operator by operator.

Small modules with random weights, for which the overhead around operators is largest. They are exported by TorchScript,
opened, and run by `TorchExecutor` without any pass, interleaved with the module, in one process with all threads. The
ratio is of the medians, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

import workbench as wb
from benchmarks.shared.benchmark import Benchmark, Item, Row, option, table
from benchmarks.shared.timing import interleaved, interval
from tests.torch_bert import Bert
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.run.measurement.statistics import ratio, spread

TABLE = table("module", "nodes", "module ms", "executor ms", "ratio", "95 % between")


class Residual(nn.Module):
    """A block of a small ResNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.second(torch.relu(self.first(x))))


class Scan(nn.Module):
    """A selective scan of 64 steps, as in Mamba, unrolled: each step reads its slices of four tensors."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(a[:, 0])
        results = []
        for step in range(a.shape[1]):
            state = a[:, step] * state + b[:, step] * x[:, step, :, None]
            results.append((state * c[:, step, None]).sum(-1))
        return torch.stack(results, 1)


def modules() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """By name, a module and its operands."""
    torch.manual_seed(0)
    layers = [layer for _ in range(16) for layer in (nn.Linear(64, 64), nn.GELU())]
    convolutional = nn.Sequential(nn.Conv2d(3, 32, 3, stride=2, padding=1), *(Residual(32) for _ in range(8)))
    ids = torch.randint(0, 100, (1, 16))
    return {
        "16 linear layers of 64, with GELU": (nn.Sequential(*layers), (torch.randn(1, 64),)),
        "8 residual blocks of 32 channels on 32x32": (convolutional, (torch.randn(1, 3, 64, 64),)),
        "BERT of 12 layers of 64, 16 words": (Bert(), (ids, torch.ones_like(ids), torch.zeros_like(ids))),
        "selective scan of 64 steps": (
            Scan(),
            (torch.rand(1, 64, 32, 16), torch.rand(1, 64, 32, 16), torch.rand(1, 64, 16), torch.rand(1, 64, 32)),
        ),
    }


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    for name, (module, operands) in modules().items():
        yield (name, *cells(module.eval(), operands, chosen.iterations))
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    yield f"{chosen.iterations} iterations; {torch.get_num_threads()} threads; {versions}."


@torch.inference_mode()
def cells(module: nn.Module, operands: tuple[torch.Tensor, ...], iterations: int) -> Row:
    """The cells of a row. Raises AssertionError if the executor's outputs differ from the module's."""
    graph = exported(module, operands)
    executor = TorchExecutor(graph)
    names = list(graph.inputs)

    def run(*values: Any) -> tuple[Any, ...]:
        return tuple(executor.run_tensors(dict(zip(names, values, strict=True))).values())

    expected, outputs = module(*operands), run(*operands)
    for one, other in zip([expected] if isinstance(expected, torch.Tensor) else expected, outputs, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)
    runs = {"module": lambda: module(*operands), "executor": lambda: run(*operands)}
    times = interleaved(runs, iterations, warmup=iterations // 10)
    medians = [f"{spread(milliseconds).median_ms:.3f}" for milliseconds in times.values()]
    to_module = ratio(times["executor"], times["module"])
    return (
        f"{len(graph.nodes):,}",
        *medians,
        f"{to_module.ratio:.3f}",
        interval(to_module, 3),
    )


def exported(module: nn.Module, operands: tuple[torch.Tensor, ...]) -> wb.Graph:
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(module, operands, f"{folder}/module.onnx", dynamo=False)
        return wb.load(f"{folder}/module.onnx")


BENCHMARK = Benchmark(measure, (TABLE,), (option("--iterations", type=int, default=400),))
