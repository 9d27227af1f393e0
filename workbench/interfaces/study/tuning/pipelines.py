"""The candidates of a tuning: a pipeline whose result a backend runs in an element type.

There are ten to a hundred, not the full product. A pipeline begins with one of three lists of passes: none, the preset
`normalize`, the preset `simplify`. These combinations are left out:

- Layout strategies that only repeat another's result on most models (`record-then-insert`, `insert-and-cancel`,
  `convert-layout`), and `blocked`, since our executor undoes and repeats its blocking around each convolution.
- Layouts for ONNX Runtime: a channels-last function is computed by its body, Transpose, operator, Transpose, which is
  more work than the operator alone.
- Fused patterns for ONNX Runtime, which inlines them and fuses by itself; for `fused`, which groups all operators; and
  for `torch-compile`, which fuses what it traces.
- Fused patterns after `greedy`, where they act as after `optimal`.
- `order_for_memory`, except when tuning for memory: it changes no operator.
- For memory, backends whose peaks count other bytes: on a CPU, only `arena` reports all that it allocates.
- Smaller element types, except with the preset `simplify`, with and without channels-last: a smaller type gains the
  same with every pipeline.
- Optimizers of other projects: ONNX Runtime does most of their work when it opens a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.errors import UserError
from workbench.pipeline.pipeline import part_text
from workbench.pipeline.registry.pass_choice import choose

OBJECTIVES = {
    "latency": "the least time of one run",
    "memory": "the least memory of one run",
    "size": "the smallest file",
}
TUNED_TARGET = "cuda"  # its convolutions are channels-last, as the layout strategies here require
_LAYOUTS = ("greedy", "optimal")
_BEST_LAYOUT = "optimal"
_MEASURED_LAYOUT, _MEASURED_LAYOUT_FROM_S = (
    "measured",
    300.0,
)  # the layout strategy that times operators, which takes long
_FUSED_PATTERNS = ("fuse_conv", "fuse_linear", "fuse_skip_layer_norm", "fuse_bias_gelu", "fuse_silu")
_MEMORY_ORDER = "order_for_memory"
RUNTIME = "onnxruntime"
AS_IT_IS = "as it is"  # the label of the pipeline without passes
EXECUTED = ("torch", "arena", "streams", "cuda-graphs")  # backends that run operator by operator
# Ordered by the time to open a model, so that a short budget compares as many as possible.
_BACKENDS = {
    "cpu": ("torch", RUNTIME, "arena", "torch-compile", "fused"),
    "cuda": ("torch", RUNTIME, "cuda-graphs", "torch-compile", "arena", "streams", "fused"),
}
# Backends whose peaks count the same bytes: all that is allocated, temporary memory of operators included.
_WITH_COMPARABLE_PEAKS = {"cpu": ("arena",), "cuda": ("torch", "torch-compile", "arena")}
# By element type, the largest relative error of one rounding; that of a model is larger.
_ROUNDING = {"tf32": 2.0**-11, "mixed": 2.0**-8, "bfloat16": 2.0**-8, "float16": 2.0**-11}
_DTYPES = {"cpu": ("mixed", "bfloat16"), "cuda": ("tf32", "mixed", "float16", "bfloat16")}


class TuneError(UserError):
    """The request cannot be tuned."""


@dataclass(frozen=True)
class NamedPasses:
    """A pipeline: a preset and additions to it.

    more:   the additions, as tables show them. passes: all passes in order.
    passes, export_for, options: arguments of `pass_choice.choose`.
    """

    preset: str
    more: tuple[str, ...]
    passes: tuple[str, ...]
    export_for: str | None = None
    options: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def label(self) -> str:
        """Its name in tables."""
        return ", ".join((AS_IT_IS if self.preset == "none" else self.preset, *self.more))


@dataclass(frozen=True)
class Configuration:
    """A candidate: the result of a pipeline, run by a backend in an element type."""

    pipeline: NamedPasses
    backend: str
    dtype: str = "float32"

    @property
    def label(self) -> str:
        precision = "" if self.dtype == "float32" else f" in {self.dtype}"
        return f"{self.backend}{precision}, {self.pipeline.label}"

    @property
    def execution(self) -> tuple[str, str]:
        """The backend and the element type."""
        return self.backend, self.dtype


def every_candidate(objective: str, device: str, max_error: float, budget_s: float) -> list[Configuration]:
    """All candidates, the plainest first.

    device:    "cpu" or "cuda".
    max_error: the largest allowed relative error; element types whose rounding alone is larger are left out.
    budget_s:  the time for the whole tuning; the layout strategy that times operators is left out of short ones.
    Raises TuneError for an unknown objective.
    """
    if objective not in OBJECTIVES:
        raise TuneError(f"there is no objective '{objective}'; tune for one of: {', '.join(OBJECTIVES)}")
    if objective == "size":
        return [Configuration(pipeline, RUNTIME) for pipeline in _for_size()]
    backends = _BACKENDS[device] if objective == "latency" else _WITH_COMPARABLE_PEAKS[device]
    results = [Configuration(pipeline, b) for b in backends for pipeline in _for_backend(b, objective)]
    for dtype in _DTYPES[device]:
        if max_error >= _ROUNDING[dtype]:
            supported = [backend for backend in ("torch", "cuda-graphs", "torch-compile") if backend in backends]
            results += [
                Configuration(pipeline, backend, dtype) for backend in supported for pipeline in _for_small_types()
            ]
    if objective == "latency" and budget_s >= _MEASURED_LAYOUT_FROM_S:
        results += [
            Configuration(_pipeline("simplify", _MEASURED_LAYOUT), b) for b in backends if b in ("torch", "cuda-graphs")
        ]
    return results


def _for_size() -> Iterator[NamedPasses]:
    yield _pipeline("none")
    for preset in ("normalize", "simplify"):
        yield _pipeline(preset)
        yield _pipeline(preset, fused=True)
        yield _pipeline(preset, runtime=True)


def _for_small_types() -> Iterator[NamedPasses]:
    for layout in (None, *_LAYOUTS):
        yield _pipeline("simplify", layout)


def _for_backend(backend: str, objective: str) -> Iterator[NamedPasses]:
    orders = (False, True) if objective == "memory" and backend in EXECUTED else (False,)
    for ordered in orders:
        yield _pipeline("normalize", ordered=ordered)
        yield _pipeline("none", ordered=ordered)
        yield _pipeline("simplify", ordered=ordered)
    if backend == RUNTIME:
        yield _pipeline("normalize", runtime=True)
        yield _pipeline("simplify", runtime=True)
        return
    for ordered in orders:
        for preset in ("normalize", "simplify"):
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
    added = [
        *(_FUSED_PATTERNS if fused else ()),
        *(["fuse_minimum"] if groups else []),
        *([_MEMORY_ORDER] if ordered else []),
    ]
    descriptions = (
        f"layout {layout}" if layout else "",
        "fused patterns" if fused else "",
        "groups of least traffic" if groups else "",
        "ordered for memory" if ordered else "",
        f"for {RUNTIME}" if runtime else "",
    )
    pipeline = choose(preset=preset, layout=layout)
    passes = (*map(part_text, pipeline.parts), *added)
    return NamedPasses(preset, tuple(filter(None, descriptions)), passes, RUNTIME if runtime else None)
