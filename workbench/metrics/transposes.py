"""How many transposes a graph has."""

from workbench.layout.cost import count
from workbench.metrics.metric import Metric

METRIC = Metric(
    name="transposes",
    unit="transposes",
    help="Transposes of computed values, those of bodies too.",
    look=count,
    value=lambda counts: counts.transposes,
)
