"""A memory plan for the actual sizes and types of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.backends.torch.arena.arena_run import ARENA_ALIGNMENT
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.ir import Edit, Graph, Node, TensorType
from workbench.ops.dtypes import element_type_of
from workbench.planning.memory.planning import DEFAULT_PLANNER, MemoryPlan, plan_memory, sharing_of


def plan_of_run(executor: TorchExecutor, tensors: Mapping[str, Any], planner: str = DEFAULT_PLANNER) -> MemoryPlan:
    """The memory plan for these inputs, for the values that have a type in `graph_of_run`."""
    graph = graph_of_run(executor, tensors)
    return plan_memory(sharing_of(graph, inner=False, alignment=ARENA_ALIGNMENT), planner)


def graph_of_run(executor: TorchExecutor, tensors: Mapping[str, Any]) -> Graph:
    """The graph with the types of all values in one run with these inputs.

    Values that are not tensors, or are on another device, have no type.
    """
    types: dict[str, TensorType] = {}

    def observe(node: Node, results: tuple[Any, ...]) -> None:
        types.update(_types(node.outputs, results, executor.device.type))

    types.update(_types(tuple(tensors), tuple(tensors.values()), executor.device.type))
    executor.run_tensors(tensors, observe)
    return _typed(executor.graph, types)


def _types(names: tuple[str, ...], values: tuple[Any, ...], device: str) -> dict[str, TensorType]:
    import torch

    results = {}
    for name, value in zip(names, values, strict=False):
        if name and isinstance(value, torch.Tensor) and value.device.type == device:
            dtype = element_type_of(value.dtype)
            if dtype is not None:
                results[name] = TensorType(dtype, tuple(value.shape))
    return results


def _typed(graph: Graph, types: Mapping[str, TensorType]) -> Graph:
    """The graph with these types; other values have none."""
    typed = graph.copy()
    typed.bound_types = {}
    computed = [value for node in graph.nodes for value in node.outputs if value]
    typed.apply(Edit(types={value: types.get(value) for value in (*graph.inputs, *computed)}))
    return typed
