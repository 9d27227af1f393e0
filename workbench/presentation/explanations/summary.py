"""A summary of a model: operators, parameters, FLOPs, inputs and outputs, layouts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from workbench.analysis.inference.bound_sizes import bound_types
from workbench.analysis.metrics.flops import count_flops
from workbench.analysis.metrics.nodes import count_nodes
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir import Graph, Node, constant_shape
from workbench.ops import contract_of
from workbench.planning.layout.infer import TENSOR, infer_layouts, is_cnn


@dataclass(frozen=True)
class ValueSummary:
    """An input or output: its name, declared type, and type with the symbolic dims bound."""

    name: str
    type: str
    bound: str
    layout: str


@dataclass(frozen=True)
class Summary:
    """A model in numbers.

    opset: the graph's, converted from file_opset.
    parameters: numbers in constants; weight_bytes: their size.
    flops: the FLOPs of one run with `dims`, as far as known; unknown_flops: the number of operators of unknown cost.
    not_native: operators without a contract, which the torch executor leaves to ONNX Runtime.
    """

    name: str
    opset: int
    file_opset: int
    nodes: int
    operators: dict[str, int]
    parameters: int
    weight_bytes: int
    flops: int
    unknown_flops: int
    transposes: int
    elements_moved: int
    cnn_values: int
    tensor_values: int
    inputs: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    dims: dict[str, int]
    functions: tuple[str, ...]
    not_native: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarize(graph: Graph) -> Summary:
    """The summary of the graph, bodies included."""
    counts = count_transposes(graph)
    bound = bound_types(graph) if graph.dims else {}  # without symbols the graph's types are enough
    layouts = infer_layouts(graph)
    computed = [v for v in layouts if v not in graph.constants]
    flops = count_flops(graph)
    functions = {(f.domain, f.name) for f in graph.functions.values()}
    native = {n.op for n in _all_nodes(graph) if contract_of(n) is not None or (n.domain, n.op_type) in functions}
    operators = Counter(node.op for node in _all_nodes(graph))

    def describe(value: str) -> ValueSummary:
        type_ = graph.type(value)
        shape = bound.get(value)
        return ValueSummary(
            value, str(type_ or "unknown"), str(shape or type_ or "unknown"), layouts.get(value, TENSOR)
        )

    return Summary(
        name=graph.name,
        opset=graph.opset_imports.get("", 0),
        file_opset=graph.opset_imports.get("", 0) if graph.file_opset is None else graph.file_opset,
        nodes=count_nodes(graph),
        operators=dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        parameters=sum(_numbers(g)[0] for g in _all_graphs(graph)),
        weight_bytes=sum(_numbers(g)[1] for g in _all_graphs(graph)),
        flops=flops.known,
        unknown_flops=flops.unknown,
        transposes=counts.transposes,
        elements_moved=counts.elements_moved,
        cnn_values=sum(is_cnn(layouts[v]) for v in computed),
        tensor_values=sum(layouts[v] == TENSOR for v in computed),
        inputs=tuple(describe(v) for v in graph.inputs),
        outputs=tuple(describe(v) for v in graph.outputs),
        dims=dict(graph.dims),
        functions=tuple(sorted(f"{f.domain}.{f.name}" for f in graph.functions.values())),
        not_native=tuple(sorted(set(operators) - native)),
        warnings=graph.warnings,
    )


def _all_graphs(graph: Graph) -> list[Graph]:
    results = [graph]
    for node in graph.nodes:
        for body in node.bodies.values():
            results.extend(_all_graphs(body))
    return results


def _all_nodes(graph: Graph) -> list[Node]:
    return [node for g in _all_graphs(graph) for node in g.nodes]


def _numbers(graph: Graph) -> tuple[int, int]:
    sizes = [(math.prod(constant_shape(t)), t.nbytes) for t in graph.constants.values()]
    return sum(n for n, _ in sizes), sum(b for _, b in sizes)
