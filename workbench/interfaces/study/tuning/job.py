"""A tuning as a job for one device, since only times of the same device can be compared."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model, load_torch
from workbench.interfaces.study.cluster.jobs import Site
from workbench.interfaces.study.tuning.recipe import Recipe
from workbench.interfaces.study.tuning.tune import TuneRequest, tune
from workbench.planning.layout.declared import parse_layouts
from workbench.planning.layout.infer import declare
from workbench.run.inputs import read_inputs


@dataclass(frozen=True)
class TuningAnswer:
    """The answer of a `TuneJob`. warnings: of loading the model."""

    recipe: Recipe
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class TuneJob:
    """The job that tunes one model.

    model:   a path, or `package.module:factory` if it `is_program`. layouts: as in `--input-layout`.
    inputs:  the user's .npz file; None: random inputs from `seed`. record: see `tune`.
    """

    model: str
    request: TuneRequest
    dims: tuple[tuple[str, int], ...] = ()
    layouts: tuple[str, ...] = ()
    inputs: str | None = None
    seed: int = 0
    record: str | None = None
    is_program: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        model = () if self.is_program else (self.model,)
        return model if self.inputs is None else (*model, self.inputs)

    def run(self, site: Site) -> TuningAnswer:
        """The recipe. Raises UserError, see `tune`."""
        dims = dict(self.dims)
        graph = load_torch(self.model, dims) if self.is_program else load_model(site.path_of(self.model), dims)
        declare(graph, parse_layouts(list(self.layouts)))
        inputs = None if self.inputs is None else read_inputs(str(site.path_of(self.inputs)), graph)
        verifier = Verifier(graph, inputs, self.seed, worker=site.worker, given=dims, patient=True)
        recipe = tune(
            graph,
            replace(self.request, device=site.device),
            verifier,
            record=None if self.record is None else site.path_of(self.record),
            on_progress=lambda message: site.on_progress({"stage": message, "done": 0, "total": 1}),
        )
        return TuningAnswer(replace(recipe, device=self.request.device), tuple(graph.warnings))
