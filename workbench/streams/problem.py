"""A graph as operators that could run side by side, with their times: measured, or by a stated model of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.fusion.traffic import is_view, size_of
from workbench.inference.bound_shapes import bound_shape
from workbench.ir import Graph, Node, TensorType
from workbench.ops import contract_of
from workbench.streams.dependencies import Dependencies


@dataclass(frozen=True)
class DeviceModel:
    """Rates of a device: an operator takes the longer of its bytes and its FLOPs, and a launch."""

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


# NVIDIA's data sheet of the H100 SXM: 3.35 TB/s and 67 TFLOP/s in float32; about nine tenths of it is reached.
GPU_MODEL = DeviceModel("an H100", 3e12, 60e12, 2.0)


@dataclass(frozen=True)
class ParallelProblem:
    """operators: the nodes that run something, in topological order: no views, nor what constants alone determine.

    needed: for each node by its name, views included, the operators that must have run before.
    """

    operators: tuple[Node, ...]
    dependencies: Dependencies
    needed: Mapping[str, frozenset[int]]


def parallel_problem(
    graph: Graph, model: DeviceModel = GPU_MODEL, measured_us: Mapping[str, float] | None = None
) -> ParallelProblem:
    """measured_us: times of operators by node name, in place of the model's."""
    made: dict[str, frozenset[int]] = {}  # by value, the operators that must have run, seen through views
    constant = set(graph.constants)
    operators: list[Node] = []
    after: list[tuple[int, ...]] = []
    by_node: dict[str, frozenset[int]] = {}
    for node in graph.nodes:
        needed = frozenset().union(*(made.get(value, frozenset()) for value in node.operands))
        by_node[node.name] = needed
        if node.operands and all(value in constant for value in node.operands) and not node.bodies:
            constant.update(node.outputs)
        elif is_view(graph, node):
            made |= dict.fromkeys(node.outputs, needed)
        else:
            made |= dict.fromkeys(node.outputs, frozenset({len(operators)}))
            operators.append(node)
            after.append(tuple(sorted(needed)))
    costs = [_cost(graph, node, model) for node in operators]
    given = measured_us or {}
    times = tuple(given.get(node.name, cost.us) for node, cost in zip(operators, costs, strict=True))
    return ParallelProblem(
        tuple(operators), Dependencies(tuple(after), times, tuple(cost.is_computing for cost in costs)), by_node
    )


@dataclass(frozen=True)
class _Cost:
    """us: the time. is_computing: whether FLOPs take longer than bytes."""

    us: float
    is_computing: bool


def _cost(graph: Graph, node: Node, model: DeviceModel) -> _Cost:
    moved = sum(size_of(graph, value) or 0 for value in dict.fromkeys((*node.operands, *node.outputs)) if value)
    contract = contract_of(node)
    flops = (
        None
        if contract is None
        else contract.count_flops(node, _types(graph, node.inputs), _types(graph, node.outputs))
    )
    by_bytes, by_flops = moved / model.bytes_per_s, (flops or 0) / model.flops_per_s
    return _Cost(max(by_bytes, by_flops) * 1e6 + model.launch_us, by_flops > by_bytes)


def _types(graph: Graph, values: Sequence[str]) -> list[TensorType | None]:
    """The types with dims bound."""
    results = []
    for value in values:
        type_, shape = graph.tensor_type(value) if value else None, bound_shape(graph, value) if value else None
        results.append(None if type_ is None else type_.with_shape(shape))
    return results
