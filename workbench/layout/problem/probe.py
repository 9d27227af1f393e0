"""What is timed: one operator alone, as it is written and in the other layout.

The strategies that weigh time ask for probes; who holds a device answers with
times (`workbench/run/measurement/operator_timer.py`). Neither knows the other: what
passes are told (`PassContext`) names the timer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.errors import UserError
from workbench.ir import Constant, Graph, Node, TensorType, constant_shape
from workbench.ir.permutation import Permutation, moves_data
from workbench.layout.conversion.convert import convert
from workbench.layout.cost import bound_shape
from workbench.layout.profile import Profile
from workbench.ops import NotPermutable

MOST_NUMBERS = 64  # a constant of so many whole numbers says what an operator does (pads, axes); others only weigh


class OperatorTimerError(UserError):
    """Nothing can be timed here."""


@dataclass(frozen=True)
class Probe:
    """One operator on operands of known shapes; equal where operator and signature are.

    signature: operands' types, attributes, and the numbers of small constants.
    graph:     the operator alone, its computed operands as inputs.
    """

    operator: str
    signature: str
    graph: Graph = field(compare=False, repr=False)


@dataclass(frozen=True)
class Time:
    """The quickest of many runs, and how far the lower quartile lies above it, in nanoseconds.

    On a machine that does other things too, the quickest run says most of the operator (Python's timeit says so).
    """

    best: int
    spread: int = 0


@dataclass(frozen=True)
class Times:
    """What the probes took, and where: the device's name."""

    device: str
    by_probe: Mapping[Probe, Time]


class OperatorTimer(Protocol):
    """Times operators on a device."""

    def times(self, probes: Sequence[Probe], device: str) -> Times:
        """The times of all probes on `device` ("cpu", "cuda", "auto": CUDA where there is one)."""


@dataclass(frozen=True)
class GivenTimes:
    """Tells what it was given, by operator, in microseconds: for examples, whose sentences must not change."""

    times_us: Mapping[str, float]

    def times(self, probes: Sequence[Probe], device: str) -> Times:
        known = (probe for probe in probes if probe.operator in self.times_us)
        return Times("given times", {probe: Time(round(self.times_us[probe.operator] * 1e3)) for probe in known})


def require_operator_timer(timer: OperatorTimer | None, target: Profile) -> OperatorTimer:
    """The timer. Raises OperatorTimerError where there is none."""
    if timer is None:
        raise OperatorTimerError(
            f"target '{target.name}' has no device to time operators on; run through workbench.optimize, the command "
            "line or the app, or weigh bytes"
        )
    return timer


def distinguishable(own: Time, other: Time) -> tuple[int, int]:
    """Both times; where they differ by less than either spreads, the smaller for both: noise decides nothing."""
    if abs(own.best - other.best) <= max(own.spread, other.spread):
        return (min(own.best, other.best),) * 2
    return own.best, other.best


def probe_of(graph: Graph, node: Node) -> Probe | None:
    """The node alone; None where it has bodies, is a model's own function, or a shape is not known."""
    if node.bodies or (node.domain, node.op_type, node.overload) in graph.functions or not node.operands:
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


def _bound(graph: Graph, value: str) -> TensorType | None:
    """The type with its dims as numbers; None where they are not known."""
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
    """The probe's operator as `convert` makes it, alone again; None where it cannot be carried there."""
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
