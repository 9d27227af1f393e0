"""The number of elements that the transposes of a graph move."""

from workbench.metrics.metric import Metric
from workbench.metrics.transpose_cost import count

METRIC = Metric(
    name="elements_moved",
    unit="elements",
    help="Elements that the transposes move in one run, as far as shapes are known.",
    analyse=count,
    value=lambda counts: counts.elements_moved,
)
