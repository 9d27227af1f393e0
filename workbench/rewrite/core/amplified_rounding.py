"""Operators that make a difference in the last bit of a value visible: periods of large angles, steps of large numbers.

A difference of rounding is a share of its value, 6e-8 in float32. Operators with a known slope pass it on: Neg keeps
it, Mul by 300 makes it 300 times larger, Tanh of a large number loses it. `AMPLIFIES_FROM` says from which size it
shows. Other operators, such as MatMul and Exp, have slopes that depend on data, and are not followed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from workbench.ir import DataType, Edit, Graph, Node, constant_shape
from workbench.rewrite.core.limits import Parents

MAX_ANGLE = 100.0  # radians; half an ulp of float32 is then 4e-6, and grows with the angle
MAX_STEPPED = 1000.0  # one in 16,000 numbers of this size lies within half an ulp of float32 of the next integer
PERIODIC = ("Sin", "Cos", "Tan")
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
AMPLIFIES_FROM = {
    **dict.fromkeys(PERIODIC, MAX_ANGLE),
    **dict.fromkeys(("Floor", "Ceil", "Round", "Mod", "Cast", *COMPARISONS), MAX_STEPPED),
}
ORDINARY = 1.0  # the size that a value is taken to have of which nothing is known, as networks keep theirs
_MOVED = frozenset(
    {
        "Concat",
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "Pad",
        "Reshape",
        "Resize",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
_SLOPE_ONE = frozenset(
    {
        "Abs",
        "Add",
        "AveragePool",
        "Cast",
        "Cos",
        "Dropout",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "LeakyRelu",
        "Max",
        "MaxPool",
        "Mean",
        "Min",
        "Mod",
        "Neg",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "Relu",
        "Sin",
        "Sub",
        "Where",
    }
)
_BOUNDED_BY_ONE = frozenset(
    ("Atan", "Cos", "Erf", "HardSigmoid", "Sigmoid", "Sign", "Sin", "Softmax", "Softsign", "Tanh")
)
# Results are about as large as the scale, operand 1, beside the bias, operand 2, whatever comes in.
_NORMALIZATIONS = ("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization")
_SUMS = ("CumSum", "ReduceSum")
_READS_ALL = ("Add", "Concat", "Max", "Mean", "Min", "Mul", "Sub")
_MAX_VALUES = 64  # the most values that are followed
_MAX_DEPTH = 16
_LARGEST_CONSTANT = 65_536  # elements; larger constants are weights, of ordinary size
_SHORTER_TYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)  # in double the last bit is never visible


@dataclass(frozen=True)
class Amplifier:
    """node: what makes the last bit of `value` visible. size: by how much a difference grows, as a size of angles."""

    node: Node
    value: str
    size: float

    @property
    def sentence(self) -> str:
        size = "of any size" if math.isinf(self.size) else f"of some {self.size:,.3g}"
        what = f"angles {size} radians" if self.node.op in PERIODIC else f"numbers {size}"
        return f"{self.node} has {what}, and shows a difference in the last bit of '{self.value}'"


def amplifier_of_edit(graph: Graph, edit: Edit, parents: Parents = ()) -> Amplifier | None:
    """What would show that the results of the edit are rounded in another way; None if nothing is known to.

    parents: of a body.
    """
    if not graph.nodes_of(AMPLIFIES_FROM) and not graph.with_bodies and not parents:
        return None
    removed = set(edit.remove)
    for name in edit.remove:
        for value in filter(None, graph.node(name).outputs):
            if graph.is_output(value) or any(user.name not in removed for user in graph.users(value)):
                found = amplifier_of(graph, value, without=removed, parents=parents)
                if found is not None:
                    return found
    return None


def amplifier_of(
    graph: Graph,
    value: str,
    unknown: float = ORDINARY,
    operators: Collection[str] = frozenset(AMPLIFIES_FROM),
    without: Collection[str] = (),
    parents: Parents = (),
) -> Amplifier | None:
    """The first of these operators that shows a difference in the last bit of the value; None if none is known to.

    unknown: the size of values of which nothing is known. without: names of nodes that are not followed.
    parents: of a body.
    """
    if not _is_rounded(graph, value):
        return None
    search = _Search(unknown, operators, without)
    errors = {value: magnitude_of(graph, value, unknown)}
    found = search.first(graph, errors)
    for parent in parents:
        if found is not None or not errors:
            break
        holder = parent.graph.node(parent.name)
        found, errors = search.turn(holder, graph, errors)
        graph = parent.graph
        found = found or search.first(graph, errors)
    return None if found is None else Amplifier(found[0], value, found[1])


@dataclass(frozen=True)
class _Search:
    """The arguments of `amplifier_of`."""

    unknown: float
    operators: Collection[str]
    without: Collection[str]

    def first(self, graph: Graph, errors: dict[str, float]) -> tuple[Node, float] | None:
        """The first operator that shows one of the differences, and how large that is there, bodies included.

        errors: the differences of values, by name; those of the values behind them are added.
        """
        waiting = list(errors)
        for _ in range(_MAX_VALUES):
            if not waiting:
                return None
            at = waiting.pop(0)
            for user in graph.users(at):
                if user.name in self.without:
                    continue
                if user.op in self.operators and _is_step(user) and errors[at] > AMPLIFIES_FROM[user.op]:
                    return user, errors[at]
                found, results = self._behind(graph, user, at, errors[at])
                if found is not None:
                    return found
                for result, error in results.items():
                    if error > errors.get(result, 0.0) and _is_rounded(graph, result):
                        errors[result] = error
                        waiting.append(result)
        return None

    def _behind(
        self, graph: Graph, node: Node, value: str, error: float
    ) -> tuple[tuple[Node, float] | None, dict[str, float]]:
        """What in bodies of the node shows the difference, and the differences of its results."""
        if not node.bodies:
            error = _passed_on(graph, node, value, error, self.unknown) or 0.0
            return None, dict.fromkeys(filter(None, node.outputs), error)
        results: dict[str, float] = {}
        for body in node.bodies.values():
            inside = dict.fromkeys(_names_inside(node, body, value), error)
            found = self.first(body, inside)
            if found is None:
                found, of_body = self.turn(node, body, inside)
                results = {name: max(results.get(name, 0.0), of_body.get(name, 0.0)) for name in {**results, **of_body}}
            if found is not None:
                return found, {}
        return None, results

    def turn(
        self, node: Node, body: Graph, errors: dict[str, float]
    ) -> tuple[tuple[Node, float] | None, dict[str, float]]:
        """What shows the differences in the next iteration, and those of the node's results.

        errors: the differences within the body, which grow by what an iteration hands to the next.
        """
        for formal, result in _states(node, body):
            if errors.get(result, 0.0) > errors.get(formal, 0.0):
                errors[formal] = errors[result]
        found = self.first(body, errors)
        own = body.outputs[1:] if node.op == "Loop" else body.outputs
        return found, {name: errors[value] for name, value in zip(node.outputs, own, strict=False) if value in errors}


def _names_inside(node: Node, body: Graph, value: str) -> Iterator[str]:
    """The names that a value has in a body which captures it, or to which it is handed."""
    if value in body.captured:
        yield value
    if node.op in ("Loop", "Scan"):
        yield from (formal for formal, operand in zip(body.inputs, node.inputs, strict=False) if operand == value)


def _states(node: Node, body: Graph) -> Iterator[tuple[str, str]]:
    """What each iteration hands to the next, as inputs and outputs of the body."""
    if node.op == "Loop":
        yield from zip(body.inputs[2:], body.outputs[1:], strict=False)
    elif node.op == "Scan":
        states = len(body.inputs) - int(node.attr("num_scan_inputs"))
        yield from zip(body.inputs[:states], body.outputs, strict=False)


def _is_rounded(graph: Graph, value: str) -> bool:
    type_ = graph.tensor_type(value)
    return type_ is None or type_.dtype in _SHORTER_TYPES


def _is_step(node: Node) -> bool:
    return node.op != "Cast" or not DataType(node.attr("to")).is_floating_point()


def _passed_on(graph: Graph, node: Node, value: str, error: float, unknown: float) -> float | None:
    """The difference in the node's results; None if its slope is not known."""
    if node.op in _MOVED:
        return error if value == node.inputs[0] or node.op == "Concat" else None
    if node.op == "Clip":
        return min(error, _clip_bound(graph, node, unknown))
    if node.op in _BOUNDED_BY_ONE and node.op not in PERIODIC:
        return min(error, 1.0)
    if node.op in _SLOPE_ONE:
        return error
    if node.op == "Mul":
        others = [*node.inputs]
        others.remove(value)  # of a square it is the other factor too
        return error * node.inputs.count(value) * math.prod(magnitude_of(graph, other, unknown) for other in others)
    if node.op == "Div":
        other = magnitude_of(graph, node.inputs[0], unknown)
        return error / _divisor(graph, node.inputs[1]) if value == node.inputs[0] else error * other
    if node.op in _SUMS and value == node.inputs[0]:
        return error * _summands(graph, node, unknown)
    return None


def magnitude_of(graph: Graph, value: str, unknown: float = ORDINARY, depth: int = 0) -> float:
    """The magnitude of the value's elements, as it follows from constants, with `unknown` for what does not follow."""
    tensor = graph.constant(value)
    if tensor is not None:
        if tensor.dtype is DataType.STRING or math.prod(constant_shape(tensor)) > _LARGEST_CONSTANT:
            return unknown
        numbers = np.abs(tensor.numpy().astype(np.float64))
        return float(numbers.max(initial=0.0)) if not np.isnan(numbers).any() else math.inf
    node = graph.producer(value)
    if node is None or depth > _MAX_DEPTH:
        return unknown
    if node.op in _BOUNDED_BY_ONE:
        return 1.0
    if node.op == "Clip":
        return min(magnitude_of(graph, node.inputs[0], unknown, depth + 1), _clip_bound(graph, node, unknown, depth))
    if node.op in _NORMALIZATIONS:
        return sum(magnitude_of(graph, operand, unknown, depth + 1) for operand in node.inputs[1:3] if operand)
    if node.op not in _MOVED | _SLOPE_ONE | {"Mul", "Div", *_SUMS}:
        return unknown
    read = node.inputs if node.op in _READS_ALL else node.inputs[1:] if node.op == "Where" else node.inputs[:1]
    sizes = [magnitude_of(graph, operand, unknown, depth + 1) for operand in read if operand]
    match node.op:
        case "Mul":
            return math.prod(sizes) if all(map(math.isfinite, sizes)) else math.inf
        case "Div":
            return sizes[0] / _divisor(graph, node.inputs[1])
        case "Mod":
            return min(sizes[0], magnitude_of(graph, node.inputs[1], unknown, depth + 1))
        case "Add" | "Sub":
            return sum(sizes)
        case "CumSum" | "ReduceSum":
            return sizes[0] * _summands(graph, node, unknown)
        case _:
            return max(sizes, default=unknown)


def _clip_bound(graph: Graph, node: Node, unknown: float, depth: int = 0) -> float:
    bounds = (*node.inputs, "", "")[1:3]
    return max((magnitude_of(graph, bound, unknown, depth + 1) if bound else math.inf) for bound in bounds)


def _divisor(graph: Graph, value: str) -> float:
    """The smallest number of a constant divisor; 1 if it is computed or holds a zero."""
    tensor = graph.constant(value)
    if tensor is None or not 0 < math.prod(constant_shape(tensor)) <= _LARGEST_CONSTANT:
        return 1.0
    return float(np.abs(tensor.numpy().astype(np.float64)).min()) or 1.0


def _summands(graph: Graph, node: Node, unknown: float) -> float:
    """How many numbers a CumSum or ReduceSum adds to one at most; at least 1, and `unknown` if a size is free."""
    shape, axes = graph.shape(node.inputs[0]), graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if shape is None or (axes is None and len(node.inputs) > 1 and node.inputs[1]):
        return max(unknown, 1.0)
    chosen = range(len(shape)) if axes is None else np.atleast_1d(axes.numpy()).tolist()
    sizes = [shape[axis] for axis in chosen if -len(shape) <= axis < len(shape)]
    return max(math.prod(size if isinstance(size, int) else unknown for size in sizes), 1.0)
