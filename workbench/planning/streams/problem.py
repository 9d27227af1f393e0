"""Reads a graph as operators with dependencies and times, which are measured or from a model of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ir import Graph, Node, TensorType
from workbench.ops import contract_of
from workbench.planning.fusion.traffic import is_view, size_of
from workbench.planning.streams.dependencies import Dependencies


@dataclass(frozen=True)
class DeviceModel:
    """The rates of a device: an operator takes the longer time of its bytes and its FLOPs, plus a launch."""

    name: str
    bytes_per_s: float
    flops_per_s: float
    launch_us: float

    @property
    def sentence(self) -> str:
        return (
            f"a model, not measured: {self.name} with {self.bytes_per_s / 1e12:g} TB/s, {self.flops_per_s / 1e12:g}"
            f" TFLOP/s and {self.launch_us:g} us for each launch"
        )


# NVIDIA's data sheet of the H100 SXM: 3.35 TB/s and 67 TFLOP/s in float32; kernels reach about nine tenths of it.
GPU_MODEL = DeviceModel("an H100", 3e12, 60e12, 2.0)


@dataclass(frozen=True)
class ParallelProblem:
    """A graph as operators.

    operators: the nodes in topological order, without views and nodes that depend on constants alone.
    needed:    by name of each node, views included, the operators that must have run before.
    """

    operators: tuple[Node, ...]
    dependencies: Dependencies
    needed: Mapping[str, frozenset[int]]


def parallel_problem(
    graph: Graph, model: DeviceModel = GPU_MODEL, measured_us: Mapping[str, float] | None = None
) -> ParallelProblem:
    """The problem of a graph. measured_us: times of operators by node name, which replace those of the model."""
    operators_before: dict[
        str, frozenset[int]
    ] = {}  # by value, the operators that must have run; a view has those of its operand
    constant = set(graph.constants)
    operators: list[Node] = []
    after: list[tuple[int, ...]] = []
    by_node: dict[str, frozenset[int]] = {}
    for node in graph.nodes:
        needed = frozenset().union(*(operators_before.get(value, frozenset()) for value in node.operands))
        by_node[node.name] = needed
        if node.operands and all(value in constant for value in node.operands) and not node.bodies:
            constant.update(node.outputs)
        elif is_view(graph, node):
            operators_before |= dict.fromkeys(node.outputs, needed)
        else:
            operators_before |= dict.fromkeys(node.outputs, frozenset({len(operators)}))
            operators.append(node)
            after.append(tuple(sorted(needed)))
    costs = [_cost(graph, node, model) for node in operators]
    measured = measured_us or {}
    times = tuple(measured.get(node.name, cost.us) for node, cost in zip(operators, costs, strict=True))
    return ParallelProblem(
        tuple(operators), Dependencies(tuple(after), times, tuple(cost.is_computing for cost in costs)), by_node
    )


@dataclass(frozen=True)
class _Cost:
    """The cost of an operator. us: its time. is_computing: whether FLOPs take longer than bytes."""

    us: float
    is_computing: bool


def _cost(graph: Graph, node: Node, model: DeviceModel) -> _Cost:
    moved_bytes = sum(size_of(graph, value) or 0 for value in dict.fromkeys((*node.operands, *node.outputs)) if value)
    contract = contract_of(node)
    flops = (
        None
        if contract is None
        else contract.count_flops(node, _types(graph, node.inputs), _types(graph, node.outputs))
    )
    by_bytes, by_flops = moved_bytes / model.bytes_per_s, (flops or 0) / model.flops_per_s
    return _Cost(max(by_bytes, by_flops) * 1e6 + model.launch_us, by_flops > by_bytes)


def _types(graph: Graph, values: Sequence[str]) -> list[TensorType | None]:
    """The types with dims bound."""
    results = []
    for value in values:
        type_, shape = graph.tensor_type(value) if value else None, bound_shape(graph, value) if value else None
        results.append(None if type_ is None else type_.with_shape(shape))
    return results
