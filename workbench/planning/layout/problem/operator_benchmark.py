"""Benchmarks of single operators, as written and in another layout, whose times a strategy needs.

Strategies request benchmarks; an operator timer measures them on a device
(`workbench/run/measurement/operator_timer.py`). The two are decoupled: a pass gets
the timer from its `PassContext`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.errors import UserError
from workbench.ir import Constant, Edit, Function, Graph, Node, TensorType, constant_shape
from workbench.ir.function_calls import function_key
from workbench.ir.permutation import Permutation, moves_data
from workbench.ir.types import numpy_name
from workbench.ops import NotPermutable
from workbench.planning.layout.conversion.convert import convert
from workbench.planning.layout.profile import Profile

# An integer constant of up to so many elements may be a parameter (pads, axes); its numbers are in the signature.
MAX_NUMBERS = 64


class OperatorTimerError(UserError):
    """Operators cannot be timed."""


@dataclass(frozen=True)
class OperatorBenchmark:
    """One operator, or a call of a group, on operands of known shapes; compared by operator and signature.

    signature: operands' types, attributes, and the numbers of small constants.
    graph:     the operator alone, with computed operands as inputs.
    backend:   what runs it, as in `workbench.run.measurement.variants.BACKENDS`.
    """

    operator: str
    signature: str
    graph: Graph = field(compare=False, repr=False)
    backend: str = field(default="torch", compare=False)


@dataclass(frozen=True)
class Time:
    """The fastest of many runs, and the distance from it to the lower quartile, in nanoseconds.

    On a busy machine the fastest run says most about the operator, as the documentation of Python's timeit explains.
    """

    best: int
    spread: int = 0


@dataclass(frozen=True)
class Times:
    """The times of benchmarks, and the name of the device."""

    device: str
    by_benchmark: Mapping[OperatorBenchmark, Time]


class OperatorTimer:
    """Times operators on a device; an extension of PassContext."""

    def times(self, benchmarks: Sequence[OperatorBenchmark], device: str, dtype: str = "float32") -> Times:
        """The times of all benchmarks on `device` ("cpu", "cuda", or "auto": CUDA if available).

        dtype: what a run computes the graph's float32 in, as in `workbench.run.tolerances.DTYPES`; times in
        "mixed" are those in the narrow type, in which most operators of such a run compute.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class GivenTimes(OperatorTimer):
    """A timer that returns given times in microseconds, by operator or by operator and the type of its first operand
    ("MatMul float16"): for examples, whose sentences must not vary."""

    times_us: Mapping[str, float]

    def times(self, benchmarks: Sequence[OperatorBenchmark], device: str, dtype: str = "float32") -> Times:
        found = {benchmark: self._given(benchmark) for benchmark in benchmarks}
        return Times("given times", {key: Time(round(us * 1e3)) for key, us in found.items() if us is not None})

    def _given(self, benchmark: OperatorBenchmark) -> float | None:
        type_ = benchmark.graph.tensor_type(benchmark.graph.inputs[0]) if benchmark.graph.inputs else None
        of_type = "" if type_ is None else f"{benchmark.operator} {numpy_name(type_.dtype)}"
        return self.times_us.get(of_type, self.times_us.get(benchmark.operator))


def require_operator_timer(timer: OperatorTimer | None, target: Profile) -> OperatorTimer:
    """The timer. Raises OperatorTimerError if there is none."""
    if timer is None:
        raise OperatorTimerError(
            f"target '{target.name}' has no device to time operators on; run through workbench.optimize, the command "
            "line or the app, or weigh bytes"
        )
    return timer


def distinguishable(first: Time, second: Time) -> tuple[int, int]:
    """Both times; or twice the smaller one if their difference is noise, that is, at most the larger spread."""
    if abs(first.best - second.best) <= max(first.spread, second.spread):
        return (min(first.best, second.best),) * 2
    return first.best, second.best


def benchmark_of(graph: Graph, node: Node) -> OperatorBenchmark | None:
    """The node alone; None if it has bodies, calls a function of the model, or has operands of unknown shape."""
    if node.bodies or function_key(node) in graph.functions or not node.operands:
        return None
    names = {value: f"x{index}" for index, value in enumerate(node.operands)}
    constants, types = {}, {}
    for value, name in names.items():
        tensor = graph.constant(value)
        if tensor is not None:
            constants[name] = tensor
            continue
        type_ = _bound(graph, value)
        if type_ is None:
            return None
        types[name] = type_
    names_out = {value: f"y{index}" for index, value in enumerate(node.outputs) if value}
    single = node.with_values_renamed(names).replace(
        outputs=tuple(names_out.get(value, "") for value in node.outputs), name="op", metadata={}
    )
    results = {name: type_ for value, name in names_out.items() if (type_ := _bound(graph, value)) is not None}
    return _benchmark(single, types, results, constants, graph.opset_imports)


def kernel_benchmark(graph: Graph, node: Node) -> OperatorBenchmark | None:
    """The node alone, by its fastest kernel; None as for `benchmark_of`."""
    single = benchmark_of(graph, node)
    return None if single is None else replace(single, signature=f"{single.signature}; by its kernel", backend="fused")


def group_benchmark(graph: Graph, call: Node, function: Function) -> OperatorBenchmark | None:
    """A call of a group of `graph`'s operators alone, by its fastest kernel; None if a shape is unknown."""
    single = benchmark_of(graph, call)
    if single is None:
        return None
    body: Graph = function.graph
    numbers = {value: f"x{number}" for number, value in enumerate((*body.inputs, *body.constants))}
    steps = []
    for node in body.nodes:
        operands = ", ".join(numbers.get(value, "none") for value in node.inputs)
        attributes = "".join(f", {key}={_attribute(value)}" for key, value in sorted(node.attributes.items()))
        steps.append(f"{node.op}({operands}{attributes})")
        numbers |= {value: f"v{len(steps)}.{index}" for index, value in enumerate(node.outputs)}
    constants = [f"{numbers[value]} = {_operand(value, {}, body.constants)}" for value in body.constants]
    with_function = single.graph.copy()
    with_function.apply(Edit(functions={function.key: function}))
    return OperatorBenchmark(
        " + ".join(node.op_type for node in body.nodes),
        f"{single.signature}: {'; '.join((*constants, *steps))}",
        with_function,
        "fused",
    )


def _bound(graph: Graph, value: str) -> TensorType | None:
    """The type with its dims as numbers; None if they are unknown."""
    type_, shape = graph.tensor_type(value), bound_shape(graph, value)
    return None if type_ is None or shape is None else type_.with_shape(shape)


def transpose_benchmark(graph: Graph, type_: TensorType, perm: Permutation) -> OperatorBenchmark | None:
    """A Transpose of a value of the type; None if it moves nothing or the shape is unknown."""
    shape = type_.static_shape
    if shape is None or not moves_data(perm, shape):
        return None
    node = Node("Transpose", ("x0",), ("y0",), {"perm": perm}, name="op")
    return _benchmark(node, {"x0": type_}, {"y0": type_.permuted(perm)}, {}, graph.opset_imports)


def permuted_benchmark(benchmark: OperatorBenchmark, perm: Permutation, target: Profile) -> OperatorBenchmark | None:
    """A benchmark of the same operator after `convert`; None if it cannot run on permuted operands."""
    graph = benchmark.graph.copy()
    try:
        conversion = convert(graph, graph.node("op"), perm, "permuted", target)
    except NotPermutable:
        return None
    graph.apply(conversion.edit)
    return benchmark_of(graph, graph.node("op"))


def _benchmark(
    node: Node,
    types: Mapping[str, TensorType],
    results: Mapping[str, TensorType],
    constants: Mapping[str, Constant],
    opsets: Mapping[str, int],
) -> OperatorBenchmark:
    operands = [_operand(value, types, constants) for value in node.inputs]
    attributes = [f"{key}={_attribute(value)}" for key, value in sorted(node.attributes.items())]
    graph = Graph(
        inputs=tuple(types),
        outputs=tuple(value for value in node.outputs if value),
        nodes=(node,),
        constants=constants,
        types={**types, **results},
        opset_imports=opsets,
    )
    return OperatorBenchmark(node.op, ", ".join((*operands, *attributes)), graph)


def _operand(value: str, types: Mapping[str, TensorType], constants: Mapping[str, Constant]) -> str:
    if not value:
        return "none"
    if value in types:
        return str(types[value])
    tensor = constants[value]
    shape = constant_shape(tensor)
    text = f"constant {TensorType(tensor.dtype, shape)}"
    if not tensor.dtype.is_integer() or math.prod(shape) > MAX_NUMBERS:
        return text
    return f"{text} {tensor.numpy().tolist()}"


def _attribute(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
