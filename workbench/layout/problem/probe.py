"""Probes: single operators, as written and in another layout, whose times a strategy needs.

Strategies request probes; an operator timer measures them on a device
(`workbench/run/measurement/operator_timer.py`). The two are decoupled: a pass gets
the timer from its `PassContext`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.errors import UserError
from workbench.inference.bound_shapes import bound_shape
from workbench.ir import Constant, Edit, Function, Graph, Node, TensorType, constant_shape
from workbench.ir.function_calls import function_key
from workbench.ir.permutation import Permutation, moves_data
from workbench.layout.conversion.convert import convert
from workbench.layout.profile import Profile
from workbench.ops import NotPermutable

MOST_NUMBERS = (
    64  # an integer constant of up to so many elements may be a parameter (pads, axes), and is part of the signature
)


class OperatorTimerError(UserError):
    """Operators cannot be timed."""


@dataclass(frozen=True)
class Probe:
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
    """The times of probes, and the name of the device."""

    device: str
    by_probe: Mapping[Probe, Time]


class OperatorTimer:
    """Times operators on a device; an extension of PassContext."""

    def times(self, probes: Sequence[Probe], device: str, dtype: str = "float32") -> Times:
        """The times of all probes on `device` ("cpu", "cuda", or "auto": CUDA if available).

        dtype: what a run computes the graph's float32 in, as in `workbench.run.tolerances.DTYPES`; times in
        "mixed" are those in the narrow type, which most operators of such a run get.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class GivenTimes(OperatorTimer):
    """A timer that returns given times, by operator, in microseconds: for examples, whose sentences must not vary."""

    times_us: Mapping[str, float]

    def times(self, probes: Sequence[Probe], device: str, dtype: str = "float32") -> Times:
        known = (probe for probe in probes if probe.operator in self.times_us)
        return Times("given times", {probe: Time(round(self.times_us[probe.operator] * 1e3)) for probe in known})


def require_operator_timer(timer: OperatorTimer | None, target: Profile) -> OperatorTimer:
    """The timer. Raises OperatorTimerError if there is none."""
    if timer is None:
        raise OperatorTimerError(
            f"target '{target.name}' has no device to time operators on; run through workbench.optimize, the command "
            "line or the app, or weigh bytes"
        )
    return timer


def distinguishable(own: Time, other: Time) -> tuple[int, int]:
    """Both times; if they differ by no more than the larger spread, which is noise, the smaller one for both."""
    if abs(own.best - other.best) <= max(own.spread, other.spread):
        return (min(own.best, other.best),) * 2
    return own.best, other.best


def probe_of(graph: Graph, node: Node) -> Probe | None:
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
    alone = node.with_values_renamed(names).replace(
        outputs=tuple(names_out.get(value, "") for value in node.outputs), name="op", metadata={}
    )
    results = {name: type_ for value, name in names_out.items() if (type_ := _bound(graph, value)) is not None}
    return _probe(alone, types, results, constants, graph.opset_imports)


def kernel_probe(graph: Graph, node: Node) -> Probe | None:
    """The node alone, by its fastest kernel; None as for `probe_of`."""
    alone = probe_of(graph, node)
    return None if alone is None else replace(alone, signature=f"{alone.signature}; by its kernel", backend="fused")


def group_probe(graph: Graph, call: Node, function: Function) -> Probe | None:
    """A call of a group of `graph`'s operators alone, by its fastest kernel; None if a shape is unknown."""
    alone = probe_of(graph, call)
    if alone is None:
        return None
    body: Graph = function.graph
    numbers = {value: f"x{number}" for number, value in enumerate((*body.inputs, *body.constants))}
    steps = []
    for node in body.nodes:
        operands = ", ".join(numbers.get(value, "none") for value in node.inputs)
        attributes = "".join(f", {key}={_attribute(value)}" for key, value in sorted(node.attributes.items()))
        steps.append(f"{node.op}({operands}{attributes})")
        numbers |= {value: f"v{len(steps)}.{place}" for place, value in enumerate(node.outputs)}
    held = [f"{numbers[value]} = {_operand(value, {}, body.constants)}" for value in body.constants]
    apart = alone.graph.copy()
    apart.apply(Edit(functions={function.key: function}))
    return Probe(
        " + ".join(node.op_type for node in body.nodes),
        f"{alone.signature}: {'; '.join((*held, *steps))}",
        apart,
        "fused",
    )


def _bound(graph: Graph, value: str) -> TensorType | None:
    """The type with its dims as numbers; None if they are unknown."""
    type_, shape = graph.tensor_type(value), bound_shape(graph, value)
    return None if type_ is None or shape is None else type_.with_shape(shape)


def transpose_probe(graph: Graph, type_: TensorType, perm: Permutation) -> Probe | None:
    """A Transpose of a value of that type; None where it moves nothing or the shape is not known."""
    shape = type_.static_shape
    if shape is None or not moves_data(perm, shape):
        return None
    node = Node("Transpose", ("x0",), ("y0",), {"perm": perm}, name="op")
    return _probe(node, {"x0": type_}, {"y0": type_.permuted(perm)}, {}, graph.opset_imports)


def converted_probe(probe: Probe, perm: Permutation, layout: str, target: Profile) -> Probe | None:
    """The probe of its operator after `convert`; None if it cannot run on permuted operands."""
    graph = probe.graph.copy()
    try:
        conversion = convert(graph, graph.node("op"), perm, layout, target)
    except NotPermutable:
        return None
    graph.apply(conversion.edit)
    return probe_of(graph, graph.node("op"))


def _probe(
    node: Node,
    types: Mapping[str, TensorType],
    results: Mapping[str, TensorType],
    constants: Mapping[str, Constant],
    opsets: Mapping[str, int],
) -> Probe:
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
    return Probe(node.op, ", ".join((*operands, *attributes)), graph)


def _operand(value: str, types: Mapping[str, TensorType], constants: Mapping[str, Constant]) -> str:
    if not value:
        return "none"
    if value in types:
        return str(types[value])
    tensor = constants[value]
    shape = constant_shape(tensor)
    kind = f"constant {TensorType(tensor.dtype, shape)}"
    if not tensor.dtype.is_integer() or math.prod(shape) > MOST_NUMBERS:
        return kind
    return f"{kind} {tensor.numpy().tolist()}"


def _attribute(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
