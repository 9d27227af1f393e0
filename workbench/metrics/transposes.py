"""The number of transposes of a graph."""

from workbench.layout.cost import count
from workbench.metrics.metric import Metric

METRIC = Metric(
    name="transposes",
    unit="transposes",
    help="Transposes of computed values, those of bodies and functions too.",
    look=count,
    value=lambda counts: counts.transposes,
)
