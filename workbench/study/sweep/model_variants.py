"""The variants of a model file that a matrix measures, made by passes where they are measured."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from workbench.api import DEFAULT_TARGET, optimize
from workbench.errors import UserError
from workbench.io import load_model
from workbench.ir import Graph
from workbench.layout.profile import load_profile
from workbench.pipeline.command_text import optimize_text
from workbench.registry.pass_choice import DEFAULT_PRESET, choose
from workbench.study.cluster.travelling_files import digest_of, manifest_of


@dataclass(frozen=True)
class ModelFile:
    """A model, and the lists of passes whose results are measured beside it.

    dims: by name, see `load_model`. layouts: strategies, each in a variant of its own; steps: in place of these, the
    graph after each step that changes it. profile: what the target's profile says, in TOML. digest: of the files.
    `model_with_passes` makes one.
    """

    path: str
    dims: tuple[tuple[str, int], ...]
    preset: str
    target: str
    layouts: tuple[str, ...]
    steps: bool
    profile: str
    digest: str

    def check(self) -> Graph:
        """The model as loaded. Raises UserError if it cannot be loaded, or a name is none of a preset or a strategy."""
        for layout in (None, *self.layouts):
            choose(None, preset=self.preset, layout=layout)
        return _loaded(Path(self.path), self.dims, self.digest)

    def made(self, here: Path) -> Mapping[str, tuple[Graph, str]]:
        """By step or strategy, the graph and the command that produces it, "" for the model as loaded.

        here: where the file lies on this machine. Raises UserError.
        """
        if load_profile(self.target).toml() != self.profile:
            raise UserError(f"the target '{self.target}' has another profile on {platform.node()}; copy yours to there")
        if _digest(str(here)) != self.digest:
            raise UserError(f"'{self.path}' was changed after the command began; start it again")
        return _made(self, here)

    def key(self) -> dict[str, Any]:
        """All that the variants depend on, the program aside."""
        return {name: value for name, value in asdict(self).items() if name != "path"}


def model_with_passes(
    path: str,
    dims: Mapping[str, int] | None = None,
    preset: str = DEFAULT_PRESET,
    target: str = DEFAULT_TARGET,
    layouts: Sequence[str] = (),
    steps: bool = False,
) -> ModelFile:
    """Raises UserError if the file is no model, or there is no such target."""
    profile = load_profile(target).toml()
    return ModelFile(path, tuple((dims or {}).items()), preset, target, tuple(layouts), steps, profile, _digest(path))


def _digest(path: str) -> str:
    return digest_of(manifest_of(path))


@lru_cache(maxsize=1)
def _loaded(path: Path, dims: tuple[tuple[str, int], ...], digest: str) -> Graph:
    return load_model(path, dict(dims))


@lru_cache(maxsize=1)  # blocks of one model follow each other
def _made(file: ModelFile, here: Path) -> Mapping[str, tuple[Graph, str]]:
    graph, path, target = _loaded(here, file.dims, file.digest), file.path, file.target
    variants = {"as loaded": (graph, "")}
    if file.steps:
        history = optimize(graph, preset=file.preset, target=target)
        for number, step in enumerate(history.steps):
            if number and step.changed:
                names = [done.pass_name for done in history.steps[1 : number + 1]]
                command = optimize_text(path, passes=names, target=target)
                variants[f"{number} {step.pass_name}"] = (history.at(number), command)
        return variants
    for layout in (None, *file.layouts):
        made = optimize(graph, preset=file.preset, target=target, layout=layout).graph
        variants[layout or file.preset] = made, optimize_text(path, preset=file.preset, target=target, layout=layout)
    return variants
