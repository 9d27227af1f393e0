"""The benchmarks by the pages of the site on which their tables stand. docs/results.md has the first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """A page `results/PLACE.md` of the site. names: of the benchmarks, and of their files in docs/results."""

    place: str
    title: str
    names: tuple[str, ...]


GROUPS = (
    Group("simplifying", "Simplifying", ("simplify", "large", "written", "second_runs", "growth", "compared")),
    Group("engine", "The engine", ("engine", "opens", "revisions")),
    Group(
        "evidence",
        "Evidence",
        ("verified", "planted", "sound", "rounding", "certificates", "reducing", "mutants"),
    ),
    Group("layouts", "Layouts", ("minimum", "strategies", "layouts", "resnet101")),
    Group("types", "Element types", ("precision", "precision_with_layout", "int8")),
    Group("fusion", "Fusion and algebra", ("fusion", "saturation")),
    Group("running", "Running", ("running", "backends", "extended", "overhead", "beside", "waiting", "streams")),
    Group("memory", "Memory", ("memory", "peaks")),
    Group("tuning", "Tuning and sweeps", ("tuning", "sweep")),
    Group("app", "The app", ("view", "first_minute")),
    Group("gpu", "On a GPU", ("on_gpu",)),
)
NAMES = tuple(name for group in GROUPS for name in group.names)
