"""The candidates of a tuning: pipelines, the graphs of which are then run by a backend in an element type.

Ten to a hundred, not the full product. A pipeline begins with one of three lists: none, the preset `default`, the
preset `simplify`. Left out, and why:

- Layout strategies that only repeat another's result on most models (`record-then-insert`, `insert-and-cancel`,
  `convert-layout`, `optimal-any-order`), and `blocked`, whose convolutions our executor unblocks and blocks again.
- Layouts for ONNX Runtime: it computes the body of a channels-last function, Transpose, operator, Transpose, which
  is what it would compute without, and more.
- Fused patterns for ONNX Runtime, which inlines them and fuses by itself; for `fused`, which groups all operators; and
  for `torch-compile`, which fuses what it traces.
- Fused patterns after `greedy`, since they act after `optimal` as they do there.
- `order_for_memory` unless memory is what counts: it changes no operator.
- For memory, backends whose peak counts other bytes, or fewer: on a CPU only `arena` tells all that it allocates.
- Other element types but after the preset `simplify`, with and without channels last: a smaller type gains the same
  on every list of passes.
- Optimizers of others: what they do best, ONNX Runtime does when it opens a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.errors import UserError
from workbench.pipeline.pipeline import part_text
from workbench.registry.pass_choice import choose

OBJECTIVES = {
    "latency": "the least time of one run",
    "memory": "the least memory of one run",
    "size": "the smallest file",
}
TUNED_TARGET = "cuda"  # channels last for convolutions, as every layout strategy here wants them
_LAYOUTS = ("greedy", "optimal")
_BEST_LAYOUT = "optimal"
_TIMED, _TIMED_FROM_S = "measured", 300.0  # the layout strategy that times operators, which takes its time
_FUSE = ("fuse_conv", "fuse_linear", "fuse_skip_layer_norm", "fuse_bias_gelu", "fuse_silu")
_ORDER = "order_for_memory"
_RUNTIME = "onnxruntime"
EXECUTED = ("torch", "arena", "lanes", "cuda-graphs")  # backends that run operator by operator what the passes leave
# The order is that of the cost of opening a model, so that a short budget compares what it can.
_BACKENDS = {
    "cpu": ("torch", _RUNTIME, "arena", "torch-compile", "lanes", "fused"),
    "cuda": ("torch", _RUNTIME, "cuda-graphs", "torch-compile", "arena", "lanes", "fused"),
}
# Backends whose peaks count the same bytes: all that is allocated, in passing too.
_COUNTED_ALIKE = {"cpu": ("arena",), "cuda": ("torch", "torch-compile", "arena")}
# By element type, the largest relative error of one rounding; a model's is larger.
_ROUNDING = {"tf32": 2.0**-11, "mixed": 2.0**-8, "bfloat16": 2.0**-8, "float16": 2.0**-11}
_DTYPES = {"cpu": ("mixed", "bfloat16"), "cuda": ("tf32", "mixed", "float16", "bfloat16")}


class TuneError(UserError):
    """What is asked for cannot be tuned."""


@dataclass(frozen=True)
class NamedPasses:
    """Passes, in the words of `pass_choice.choose`: a preset, and what is added to it, in the words of tables."""

    preset: str
    more: tuple[str, ...]
    passes: tuple[str, ...]
    export_for: str | None = None
    options: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def label(self) -> str:
        """What tables call it."""
        return ", ".join(("as it is" if self.preset == "none" else self.preset, *self.more))


@dataclass(frozen=True)
class Configuration:
    """A pipeline's graph run by a backend in an element type."""

    pipeline: NamedPasses
    backend: str
    dtype: str = "float32"

    @property
    def label(self) -> str:
        precision = "" if self.dtype == "float32" else f" in {self.dtype}"
        return f"{self.backend}{precision}, {self.pipeline.label}"

    @property
    def way(self) -> tuple[str, str]:
        """How it is run, whatever its passes."""
        return self.backend, self.dtype


def every_candidate(objective: str, device: str, max_error: float, budget_s: float) -> list[Configuration]:
    """All candidates, the plainest first.

    device: "cpu" or "cuda". max_error: the largest relative error; types whose rounding alone is larger are left out.
    budget_s: the time for all; the strategy that times every operator is a candidate of long tunings only.
    Raises TuneError for an unknown objective.
    """
    if objective not in OBJECTIVES:
        raise TuneError(f"there is no objective '{objective}'; tune for one of: {', '.join(OBJECTIVES)}")
    if objective == "size":
        return [Configuration(pipeline, _RUNTIME) for pipeline in _for_size()]
    backends = _BACKENDS[device] if objective == "latency" else _COUNTED_ALIKE[device]
    results = [Configuration(pipeline, b) for b in backends for pipeline in _for_backend(b, objective)]
    for dtype in _DTYPES[device]:
        if max_error >= _ROUNDING[dtype]:
            ways = [backend for backend in ("torch", "cuda-graphs", "torch-compile") if backend in backends]
            results += [Configuration(pipeline, backend, dtype) for backend in ways for pipeline in _reduced()]
    if objective == "latency" and budget_s >= _TIMED_FROM_S:
        results += [Configuration(_pipeline("simplify", _TIMED), b) for b in backends if b in ("torch", "cuda-graphs")]
    return results


def _for_size() -> Iterator[NamedPasses]:
    yield _pipeline("none")
    for preset in ("default", "simplify"):
        yield _pipeline(preset)
        yield _pipeline(preset, fused=True)
        yield _pipeline(preset, runtime=True)


def _reduced() -> Iterator[NamedPasses]:
    for layout in (None, *_LAYOUTS):
        yield _pipeline("simplify", layout)


def _for_backend(backend: str, objective: str) -> Iterator[NamedPasses]:
    orders = (False, True) if objective == "memory" and backend in EXECUTED else (False,)
    for ordered in orders:
        yield _pipeline("default", ordered=ordered)
        yield _pipeline("none", ordered=ordered)
        yield _pipeline("simplify", ordered=ordered)
    if backend == _RUNTIME:
        yield _pipeline("default", runtime=True)
        yield _pipeline("simplify", runtime=True)
        return
    for ordered in orders:
        for preset in ("default", "simplify"):
            for layout in _LAYOUTS:
                yield _pipeline(preset, layout, ordered=ordered)
            if backend in EXECUTED:
                yield _pipeline(preset, fused=True, ordered=ordered)
                yield _pipeline(preset, _BEST_LAYOUT, fused=True, ordered=ordered)
    if backend == "fused":
        yield _pipeline("simplify", groups=True)


def _pipeline(
    preset: str,
    layout: str | None = None,
    *,
    fused: bool = False,
    groups: bool = False,
    ordered: bool = False,
    runtime: bool = False,
) -> NamedPasses:
    added = [*(_FUSE if fused else ()), *(["fuse_minimum"] if groups else []), *([_ORDER] if ordered else [])]
    words = (
        f"layout {layout}" if layout else "",
        "fused patterns" if fused else "",
        "groups of least traffic" if groups else "",
        "ordered for memory" if ordered else "",
        f"for {_RUNTIME}" if runtime else "",
    )
    made = choose(preset=preset, layout=layout)
    passes = (*map(part_text, made.parts), *added)
    return NamedPasses(preset, tuple(filter(None, words)), passes, _RUNTIME if runtime else None)
