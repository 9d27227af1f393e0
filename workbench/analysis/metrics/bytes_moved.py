"""The number of bytes that the transposes of a graph move."""

from workbench.analysis.metrics.metric import Metric
from workbench.analysis.metrics.transpose_cost import count_transposes

METRIC = Metric(
    name="bytes_moved",
    unit="bytes",
    help="Bytes that transposes of known shape move in one run.",
    analyse=count_transposes,
    value=lambda counts: counts.bytes_moved,
)
