"""The number of nodes of a graph."""

from workbench.analysis.metrics.metric import Metric
from workbench.ir import Graph


def count_nodes(graph: Graph) -> int:
    """The number of nodes, including those of bodies; constants do not count."""
    return len(graph) + sum(count_nodes(body) for node in graph.with_bodies for body in node.bodies.values())


METRIC = Metric(
    name="nodes",
    unit="nodes",
    help="Operators, including those in bodies; constants do not count.",
    analyse=count_nodes,
    value=lambda nodes: nodes,
    column=1,
)
