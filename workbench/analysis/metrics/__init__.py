"""Metrics of graphs, one per file, discovered: nodes, transposes, elements and bytes moved, FLOPs; `transpose_cost.py`
counts what Transposes move.

Each file of this folder defines `METRIC`, a `Metric` with the name of the file, and is found by that.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from workbench.analysis.metrics.metric import Measurements, Metric
from workbench.ir import Graph

_NOT_METRICS = ("metric", "transpose_cost")  # modules that metrics use
__all__ = ["Measurements", "Metric", "measurements_of", "metrics", "step_metrics"]


@cache
def metrics() -> Mapping[str, Metric]:
    """All metrics by name, in alphabetical order. Raises TypeError for a file without a valid METRIC."""
    results = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name in _NOT_METRICS:
            continue
        metric = getattr(importlib.import_module(f"{__name__}.{module.name}"), "METRIC", None)
        if not isinstance(metric, Metric) or metric.name != module.name:
            raise TypeError(
                f"workbench/analysis/metrics/{module.name}.py must define METRIC, a Metric with the file's name"
            )
        results[module.name] = metric
    return results


def step_metrics() -> list[Metric]:
    """The metrics of the tables of steps, in the order of their columns."""
    columns = [(metric.column, metric) for metric in metrics().values() if metric.column is not None]
    return [metric for _, metric in sorted(columns, key=lambda pair: pair[0])]


def measurements_of(graph: Graph) -> Measurements:
    """The values of all metrics with `of_steps`. An analysis that several metrics share runs once."""
    analyses: dict[Callable[[Graph], Any], Any] = {}
    values = {}
    for metric in metrics().values():
        if not metric.of_steps:
            continue
        if metric.analyse not in analyses:
            analyses[metric.analyse] = metric.analyse(graph)
        values[metric.name] = metric.value(analyses[metric.analyse])
    return Measurements(values)
