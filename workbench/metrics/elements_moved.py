"""The number of elements that the transposes of a graph move."""

from workbench.layout.cost import count
from workbench.metrics.metric import Metric

METRIC = Metric(
    name="elements_moved",
    unit="elements",
    help="Elements that the transposes move in one run, as far as shapes are known.",
    look=count,
    value=lambda counts: counts.elements_moved,
)
