"""The number of transposes of a graph."""

from workbench.analysis.metrics.metric import Metric
from workbench.analysis.metrics.transpose_cost import count_transposes

METRIC = Metric(
    name="transposes",
    unit="transposes",
    help="Transposes of computed values, including those in bodies and functions.",
    analyse=count_transposes,
    value=lambda counts: counts.transposes,
    column=2,
)
