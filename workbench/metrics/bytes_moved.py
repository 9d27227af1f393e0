"""The number of bytes that the transposes of a graph move."""

from workbench.metrics.metric import Metric
from workbench.metrics.transpose_cost import count

METRIC = Metric(
    name="bytes_moved",
    unit="bytes",
    help="Bytes that the transposes move in one run, as far as shapes are known.",
    analyse=count,
    value=lambda counts: counts.bytes_moved,
)
