"""Metrics of graphs: one per file, discovered as passes are.

Each file of this folder defines `METRIC`, a `Metric` with the name of the file. There is no list to edit.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from workbench.ir import Graph
from workbench.metrics.metric import Measurements, Metric

_SHARED = ("metric", "transpose_cost")  # what metrics use, and no metric
__all__ = ["Measurements", "Metric", "measurements_of", "metrics"]


@cache
def metrics() -> Mapping[str, Metric]:
    """All metrics by name, in alphabetical order. Raises TypeError for a file without one."""
    results = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name in _SHARED:
            continue
        metric = getattr(importlib.import_module(f"{__name__}.{module.name}"), "METRIC", None)
        if not isinstance(metric, Metric) or metric.name != module.name:
            raise TypeError(f"workbench/metrics/{module.name}.py must define METRIC, a Metric with the file's name")
        results[module.name] = metric
    return results


def measurements_of(graph: Graph) -> Measurements:
    """The values of all metrics with `of_steps`; what several of them share is computed once."""
    seen: dict[Callable[[Graph], Any], Any] = {}
    values = {}
    for metric in metrics().values():
        if not metric.of_steps:
            continue
        if metric.analyse not in seen:
            seen[metric.analyse] = metric.analyse(graph)
        values[metric.name] = metric.value(seen[metric.analyse])
    return Measurements(values)
