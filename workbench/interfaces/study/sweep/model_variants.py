"""The variants of a model file that a matrix measures; passes make them on the machine that measures."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.formats.io import load_model
from workbench.interfaces.api import optimize
from workbench.interfaces.study.cluster.file_transfer import digest_of, manifest_of
from workbench.ir import Graph
from workbench.pipeline.command_text import optimize_text
from workbench.pipeline.registry.pass_choice import DEFAULT_PRESET, choose
from workbench.planning.layout.profile import load_profile, machine_target


@dataclass(frozen=True)
class ModelFile:
    """A model file and how its variants are made; see `model_file_at`.

    dims:    sizes by name, see `load_model`.
    layouts: layout strategies, each of which makes a variant.
    steps:   instead of strategies, the graph after each step that changes it is a variant.
    profile: the target's profile as TOML. digest: of the model's files, see `digest_of`.
    """

    path: str
    dims: tuple[tuple[str, int], ...]
    preset: str
    target: str
    layouts: tuple[str, ...]
    steps: bool
    profile: str
    digest: str

    def load(self) -> Graph:
        """The model as loaded. Raises UserError if it cannot be loaded, or a preset or strategy does not exist."""
        for layout in (None, *self.layouts):
            choose(None, preset=self.preset, layout=layout)
        return _loaded(Path(self.path), self.dims, self.digest)

    def variants(self, local_path: Path) -> Mapping[str, tuple[Graph, str]]:
        """For each step or strategy, the graph and the command that produces it, which is "" for the model as loaded.

        local_path: the path on this machine of a file. Raises UserError.
        """
        if load_profile(self.target).toml() != self.profile:
            raise UserError(f"the target '{self.target}' has another profile on {platform.node()}; copy yours to it")
        if _digest(str(local_path)) != self.digest:
            raise UserError(f"'{self.path}' was changed after the command began; start it again")
        return _variants_of(self, local_path)

    def key(self) -> dict[str, Any]:
        """Everything that the variants depend on, except the version of this program."""
        return {name: value for name, value in asdict(self).items() if name != "path"}


def model_file_at(
    path: str,
    dims: Mapping[str, int] | None = None,
    preset: str = DEFAULT_PRESET,
    target: str | None = None,
    layouts: Sequence[str] = (),
    steps: bool = False,
) -> ModelFile:
    """The model file with its digest. target: None: this machine's.

    Raises UserError if the file cannot be read, or there is no such target.
    """
    profile = load_profile(target or machine_target())
    sizes, text = tuple((dims or {}).items()), profile.toml()
    return ModelFile(path, sizes, preset, profile.name, tuple(layouts), steps, text, _digest(path))


def _digest(path: str) -> str:
    return digest_of(manifest_of(path))


@lru_cache(maxsize=1)
def _loaded(path: Path, dims: tuple[tuple[str, int], ...], digest: str) -> Graph:
    return load_model(path, dict(dims))


@lru_cache(maxsize=1)  # blocks of one model follow each other
def _variants_of(file: ModelFile, local_path: Path) -> Mapping[str, tuple[Graph, str]]:
    graph, path, target = _loaded(local_path, file.dims, file.digest), file.path, file.target
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
        optimized = optimize(graph, preset=file.preset, target=target, layout=layout).graph
        variants[layout or file.preset] = (
            optimized,
            optimize_text(path, preset=file.preset, target=target, layout=layout),
        )
    return variants
