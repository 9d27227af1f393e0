"""Memory planners: one per file, discovered like passes.

Each file of this folder defines `PLANNER`, a `Planner` with the name of the file. There is no list to edit.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from workbench.errors import UserError
from workbench.planning.memory.blocks.planner import Action, Packed, Planner, pack

__all__ = ["Action", "Packed", "Planner", "pack", "planner_of", "planners"]


@cache
def planners() -> Mapping[str, Planner]:
    """All planners by name, in alphabetical order. Raises TypeError for a file without one."""
    results = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name == "planner":
            continue
        planner = getattr(importlib.import_module(f"{__name__}.{module.name}"), "PLANNER", None)
        if not isinstance(planner, Planner) or planner.name != module.name:
            raise TypeError(
                f"workbench/planning/memory/planners/{module.name}.py must define PLANNER, with the file's name"
            )
        results[module.name] = planner
    return results


def planner_of(name: str) -> Planner:
    """The planner of that name. Raises UserError if there is none."""
    if name not in planners():
        raise UserError(f"There is no planner '{name}'; choose one of: {', '.join(planners())}.")
    return planners()[name]
