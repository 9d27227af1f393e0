"""The pipeline that a user chooses: its passes, its layout strategy, and what runs before and after them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from workbench.pipeline.pipeline import Fixpoint, Part, Pipeline
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.registry.reading import LEGACY_REPEAT, layout_strategy, precision_strategy, read_pipeline
from workbench.pipeline.registry.reading import preset as preset_pipeline
from workbench.pipeline.repeat import Repeat
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.precision.narrow_io import AS_COMPUTED
from workbench.planning.precision.strategies.precision_strategy import PrecisionStrategy
from workbench.rewrite import OptionError, Pass, with_options

DEFAULT_PRESET = "simplify"
# names of passes
FIX = "fix_dims"  # writes bound dims into the graph
FREE_DIMS = "free_dims"  # makes the sizes of a batch symbolic
RELAYOUT_INPUTS = "relayout_inputs"  # takes inputs in the layout in which they are used
RELAYOUT_OUTPUTS = "relayout_outputs"  # returns outputs in the layout in which they are computed
IO = "precision_io"  # takes and returns the element types that are computed

Passes = str | Sequence[str | Part] | Pipeline  # a text, a list of texts and parts, or a pipeline


@dataclass(frozen=True)
class PipelineOptions:
    """What a user chooses of a pipeline; the arguments of `choose` and, among others, of `api.optimize`.

    passes:     a pipeline, its text, or texts and parts in order; None for the preset.
    layout:     the strategy to run at "layout", or after the passes if the pipeline has no such part; None for none.
    fix_dims:   whether the pass of this name runs first.
    free_dims:  the option `axes` of the pass of this name, which then runs first.
    relayout_inputs, relayout_outputs: whether the passes of these names run last.
    export_for: a runtime ("onnxruntime"), for whose own operators the last passes are.
    precision:  the precision strategy ("optimal") to run after all of these but the last; None for none.
    io_as_computed: whether inputs and outputs get the types that it computes.
    options:    maps "pass.field" to a value, for every run of that pass.
    """

    passes: Passes | None = None
    preset: str = DEFAULT_PRESET
    layout: str | None = None
    fix_dims: bool = False
    free_dims: str = ""
    relayout_inputs: bool = False
    relayout_outputs: bool = False
    export_for: str | None = None
    precision: str | None = None
    io_as_computed: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """The fields by name, as `api.optimize` takes them."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def build(self) -> Pipeline:
        """The pipeline to run. Raises PassError, PipelineError or OptionError with one sentence."""
        chosen = preset_pipeline(self.preset) if self.passes is None else as_pipeline(self.passes)
        chosen = chosen.with_layout(None if self.layout is None else layout_strategy(self.layout))
        first = [FIX] * self.fix_dims + [FREE_DIMS] * bool(self.free_dims)
        others = chosen.mapped(lambda part: () if isinstance(part, Pass) and part.name in first else (part,))
        last = [RELAYOUT_INPUTS] * self.relayout_inputs + [RELAYOUT_OUTPUTS] * self.relayout_outputs
        if self.io_as_computed and (last or self.precision is None):
            last.append(IO)  # at an input a Cast may stand on either side of the Transpose
        types_of = {"io": AS_COMPUTED} if self.io_as_computed else {}
        types = () if self.precision is None else (precision_strategy(self.precision, types_of),)
        runtime = () if self.export_for is None else read_pipeline(library.runtime_preset(self.export_for)).parts
        before: list[Part] = [library.find_pass(name)() for name in first]
        own: list[Part] = [*before, *others.parts, *types, *(library.find_pass(name)() for name in last)]
        options_of_first = {f"{FREE_DIMS}.axes": self.free_dims} if self.free_dims else {}
        parts = with_pass_options(Pipeline((*own, *runtime)), {**options_of_first, **self.options}).parts
        return Pipeline((*parts[: len(own)], *_rounds_behind(Pipeline(parts[: len(own)])), *parts[len(own) :]))


def choose(passes: Passes | None = None, **options: Any) -> Pipeline:
    """The pipeline of these `PipelineOptions`. Raises as their `build` does."""
    return PipelineOptions(passes, **options).build()


def _rounds_behind(pipeline: Pipeline) -> tuple[Repeat, ...]:
    """Further rounds of the pipeline's fixpoints if a strategy runs behind their passes.

    They merge what it inserted with what was there, which another run would do else.
    """
    if not any(isinstance(pass_, LayoutStrategy | PrecisionStrategy) for pass_ in pipeline.passes):
        return ()
    fixpoints = Pipeline(part for part in pipeline.parts if isinstance(part, Fixpoint))
    repeated = tuple(p for p in fixpoints.passes if not isinstance(p, Repeat | LayoutStrategy | PrecisionStrategy))
    return (Repeat(repeated),) if repeated else ()


def leaves_out(passes: Passes | None, on_failure: str | None) -> bool:
    """Whether a rewrite that changes results is left out and the rest kept: for a preset, unless the user says else."""
    return on_failure == "skip" or (on_failure is None and passes is None)


def as_pipeline(passes: Passes) -> Pipeline:
    """The pipeline of `passes`, which may be one already, a text, or a list of texts and parts."""
    if isinstance(passes, Pipeline):
        return passes
    if isinstance(passes, str):
        return read_pipeline(passes)
    parts: list[Part] = []
    for one in passes:
        if isinstance(one, str) and one.strip() == LEGACY_REPEAT:
            parts = [Fixpoint(parts)]
        else:
            parts += read_pipeline(one).parts if isinstance(one, str) else (one,)
    return Pipeline(parts)


def with_pass_options(pipeline: Pipeline, options: Mapping[str, Any]) -> Pipeline:
    """The pipeline with the options "pass.field". Raises OptionError for a pass that does not run."""
    by_pass: dict[str, dict[str, Any]] = defaultdict(dict)
    names = dict.fromkeys(pass_.name for pass_ in pipeline.passes if not isinstance(pass_, Repeat))
    for key, value in options.items():
        name, dot, field = key.partition(".")
        if not dot or name not in names:
            raise OptionError(
                f"option '{key}' is not of a pass that runs; write pass.field with one of these passes: "
                f"{', '.join(names)}"
            )
        by_pass[name][field] = value

    def changed(part: Part) -> Iterable[Part]:
        if not isinstance(part, Pass) or part.name not in by_pass:
            return (part,)
        return (with_options(type(part), {**part.options(), **by_pass[part.name]}),)

    return pipeline.mapped(changed)
