"""The number of floating-point operations in one run of a graph."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.analysis.inference.bound_sizes import bound_types
from workbench.analysis.metrics.metric import Metric
from workbench.ir import Graph
from workbench.ir.function_calls import function_key
from workbench.ops import contract_of


@dataclass(frozen=True)
class Flops:
    """known: the FLOPs of operators whose count is known. unknown: the number of the other operators."""

    known: int
    unknown: int


def count_flops(graph: Graph) -> Flops:
    """The FLOPs with the graph's dims bound. Called functions count.

    An operator with bodies (If, Loop, Scan) is of unknown cost: which of them run, and how often, depends on elements.
    """
    by_node = flops_by_node(graph)
    return Flops(sum(flops.known for flops in by_node.values()), sum(flops.unknown for flops in by_node.values()))


def flops_by_node(graph: Graph) -> dict[str, Flops]:
    """The FLOPs of each node, by its name, as `count_flops` counts them."""
    bound = bound_types(graph) if graph.dims else {}  # without symbols the graph's own types suffice
    results: dict[str, Flops] = {}
    for node in graph.nodes:
        contract = contract_of(node)
        function = graph.functions.get(function_key(node))
        if contract is None and function is not None:
            results[node.name] = count_flops(function.graph)
            continue
        if contract is None or node.bodies:
            results[node.name] = Flops(0, 1)
            continue
        input_types = [bound.get(v) or graph.tensor_type(v) if v else None for v in node.inputs]
        output_types = [bound.get(v) or graph.tensor_type(v) if v else None for v in node.outputs]
        flops = contract.count_flops(node, input_types, output_types)
        results[node.name] = Flops(flops or 0, int(flops is None))
    return results


METRIC = Metric(
    name="flops",
    unit="FLOPs",
    help="Floating-point operations of one run; unknown if the count of an operator is unknown.",
    analyse=count_flops,
    value=lambda flops: None if flops.unknown else flops.known,
    of_steps=False,  # slow: it infers types if dims are bound, and calls every operator's contract
)
