"""The number of bytes that the transposes of a graph move."""

from workbench.layout.cost import count
from workbench.metrics.metric import Metric

METRIC = Metric(
    name="bytes_moved",
    unit="bytes",
    help="Bytes that the transposes move in one run, as far as shapes are known.",
    look=count,
    value=lambda counts: counts.bytes_moved,
)
