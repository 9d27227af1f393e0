"""What a graph is measured by: one metric a file, discovered as passes are.

A file of this folder holds one `Metric`, METRIC, which has the file's name. Nothing is registered by hand.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from workbench.ir import Graph
from workbench.metrics.metric import Measurements, Metric

__all__ = ["Measurements", "Metric", "measurements_of", "metrics"]


@cache
def metrics() -> Mapping[str, Metric]:
    """Every metric by name, in the order of the names. Raises TypeError for a file without one."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name == "metric":
            continue
        metric = getattr(importlib.import_module(f"{__name__}.{module.name}"), "METRIC", None)
        if not isinstance(metric, Metric) or metric.name != module.name:
            raise TypeError(f"workbench/metrics/{module.name}.py must hold METRIC, a Metric with the file's name")
        found[module.name] = metric
    return found


def measurements_of(graph: Graph) -> Measurements:
    """The graph by every metric that steps are measured by; what several of them look at is looked at once."""
    seen: dict[Callable[[Graph], Any], Any] = {}
    values = {}
    for metric in metrics().values():
        if not metric.of_steps:
            continue
        if metric.look not in seen:
            seen[metric.look] = metric.look(graph)
        values[metric.name] = metric.value(seen[metric.look])
    return Measurements(values)
