"""The number of transposes of a graph."""

from workbench.metrics.metric import Metric
from workbench.metrics.transpose_cost import count

METRIC = Metric(
    name="transposes",
    unit="transposes",
    help="Transposes of computed values, those of bodies and functions too.",
    analyse=count,
    value=lambda counts: counts.transposes,
)
