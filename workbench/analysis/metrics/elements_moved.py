"""The number of elements that the transposes of a graph move."""

from workbench.analysis.metrics.metric import Metric
from workbench.analysis.metrics.transpose_cost import count_transposes

METRIC = Metric(
    name="elements_moved",
    unit="elements",
    help="Elements that transposes of known shape move in one run.",
    analyse=count_transposes,
    value=lambda counts: counts.elements_moved,
    column=3,
)
