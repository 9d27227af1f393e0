"""What NumPy computes in place of ONNX Runtime has the same bits, and where it cannot have them, it has no say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from workbench.analysis.inference.evaluate import CannotEvaluate, by_onnxruntime
from workbench.analysis.inference.exact import _RULES, ENLARGING, enlarged, exact
from workbench.ir import Node, constant

SAMPLES = 40
OPSETS = {"": 23}
FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int32", "int64")
OTHERS = ("bool", "int8", "uint8", "uint16", "uint64")
ALL = (*FLOATS, *INTEGERS, *OTHERS)
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.5, 1e-40, 65504.0, 3e38]

Rng = np.random.Generator
Call = tuple[list[np.ndarray | None], dict[str, Any]]


def numbers(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Of any bits; floats among them NaN, infinities, -0.0, denormal numbers."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind.kind == "f":
        bits = rng.integers(0, 2 ** (8 * kind.itemsize) - 1, shape, dtype=f"u{kind.itemsize}", endpoint=True)
        with np.errstate(over="ignore"):
            special = np.asarray(rng.choice(SPECIAL, shape)).astype(kind)
        return np.where(rng.random(shape) < 0.3, special, bits.view(kind))
    bounds = np.iinfo(kind)
    wide = rng.integers(bounds.min, bounds.max, shape, dtype=kind, endpoint=True)
    small = rng.integers(max(bounds.min, -3), 4, shape).astype(kind)
    return np.where(rng.random(shape) < 0.5, small, wide)


def shape_of(rng: Rng, rank: int | None = None, least: int = 0) -> tuple[int, ...]:
    rank = int(rng.integers(0, 4)) if rank is None else rank
    return tuple(int(d) for d in rng.integers(least, 4, rank))


def broadcast(rng: Rng, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast together."""
    whole = shape_of(rng, least=1)
    shapes = []
    for _ in range(count):
        shape = tuple(d if rng.random() < 0.7 else 1 for d in whole)
        shapes.append(shape[int(rng.integers(0, len(shape) + 1)) if rng.random() < 0.3 else 0 :])
    return shapes


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def elementwise(count: int, types: tuple[str, ...]) -> Callable[[Rng], Call]:
    def made(rng: Rng) -> Call:
        dtype = str(rng.choice(types))
        return [numbers(rng, dtype, shape) for shape in broadcast(rng, count)], {}

    return made


def moved(rng: Rng, least: int = 0, rank: int | None = None) -> np.ndarray:
    return numbers(rng, str(rng.choice(ALL)), shape_of(rng, rank, least))


def modulo(rng: Rng) -> Call:
    operands, _ = elementwise(2, INTEGERS)(rng)
    operands[1] = operands[1] | operands[1].dtype.type(1)
    return operands, {"fmod": int(rng.integers(0, 2))}


def division(rng: Rng) -> Call:
    operands, _ = elementwise(2, (*FLOATS, *INTEGERS))(rng)
    if operands[1].dtype.kind == "i":
        operands[1] = operands[1] | operands[1].dtype.type(1)
    return operands, {}


def cast(rng: Rng) -> Call:
    x, to = moved(rng), str(rng.choice(ALL))
    if rng.random() < 0.2:  # between two halves, and a little beside
        x, to = 1 + 2.0**-11 + rng.choice([-(2.0**-40), 0, 2.0**-40], shape_of(rng)), "float16"
    if x.dtype.kind == "f" and np.dtype(to).kind in "iu":
        x = rng.integers(0, 100, x.shape).astype(x.dtype) + np.asarray(0.5, x.dtype)
    return [x], {"to": int(constant(np.zeros(1, to)).dtype)}


def cast_like(rng: Rng) -> Call:
    return [numbers(rng, str(rng.choice(INTEGERS)), shape_of(rng)), moved(rng)], {}


def sequence(rng: Rng) -> Call:
    dtype = str(rng.choice(("float32", "float64", "int32", "int64")))
    start, limit, delta = rng.integers(-20, 20, 3)
    return [np.array(n, dtype) for n in (start, limit, delta or 1)], {}


def reduction(rng: Rng) -> Call:
    x = numbers(rng, str(rng.choice(INTEGERS)), shape_of(rng, least=int(rng.random() < 0.8)))
    chosen = [a - x.ndim if rng.random() < 0.5 else a for a in range(x.ndim) if rng.random() < 0.5]
    attributes = {"keepdims": int(rng.integers(0, 2)), "noop_with_empty_axes": int(rng.integers(0, 2))}
    return [x, *([ints(*chosen)] if rng.random() < 0.8 else [])], attributes


def reshape(rng: Rng) -> Call:
    x = moved(rng)
    dims = [int(d) for d in rng.permutation(x.shape)]
    if dims and rng.random() < 0.5 and x.size:
        dims[int(rng.integers(0, len(dims)))] = -1
    kept = [0 if n < x.ndim and d == x.shape[n] and rng.random() < 0.3 else d for n, d in enumerate(dims)]
    return [x, ints(*kept)], {}


def flatten(rng: Rng) -> Call:
    x = moved(rng)
    return [x], {"axis": int(rng.integers(-x.ndim, x.ndim + 1))}


def transpose(rng: Rng) -> Call:
    x = moved(rng)
    return [x], {"perm": tuple(int(a) for a in rng.permutation(x.ndim))} if rng.random() < 0.7 else {}


def squeeze(rng: Rng) -> Call:
    x = moved(rng)[..., None]
    return [x, ints(int(rng.choice([-1, x.ndim - 1])))] if rng.random() < 0.7 else [x], {}


def unsqueeze(rng: Rng) -> Call:
    x = moved(rng)
    return [x, ints(int(rng.integers(-x.ndim - 1, x.ndim + 1)))], {}


def concat(rng: Rng) -> Call:
    shape, axis = shape_of(rng, int(rng.integers(1, 4))), 0
    dtype = str(rng.choice(ALL))
    parts = [numbers(rng, dtype, (int(rng.integers(0, 3)), *shape[1:])) for _ in range(int(rng.integers(1, 4)))]
    return list(parts), {"axis": axis if rng.random() < 0.5 else -len(shape)}


def section(rng: Rng) -> Call:
    x = moved(rng, rank=int(rng.integers(1, 4)))
    axes = [int(a) for a in rng.permutation(x.ndim)][: int(rng.integers(1, x.ndim + 1))]
    ends = [int(rng.choice([-(2**63), -2, -1, 0, 1, 2, 3, 2**63 - 1])) for _ in axes]
    starts = [int(rng.choice([-(2**63), -2, -1, 0, 1, 2, 2**63 - 1])) for _ in axes]
    steps = ints(*(int(rng.choice([-2, -1, 1, 2])) for _ in axes))
    named = [a - x.ndim if rng.random() < 0.5 else a for a in axes]
    if rng.random() < 0.2:
        return [x, ints(*starts), ints(*ends)], {}
    return [x, ints(*starts), ints(*ends), ints(*named), *([steps] if rng.random() < 0.8 else [])], {}


def gather(rng: Rng) -> Call:
    x = moved(rng, 1, int(rng.integers(1, 4)))
    axis = int(rng.integers(-x.ndim, x.ndim))
    indices = rng.integers(-x.shape[axis], x.shape[axis], shape_of(rng))
    return [x, np.asarray(indices, str(rng.choice(INTEGERS)))], {"axis": axis}


def gather_elements(rng: Rng) -> Call:
    x = moved(rng, 1, int(rng.integers(1, 4)))
    axis = int(rng.integers(-x.ndim, x.ndim))
    return [x, rng.integers(-x.shape[axis], x.shape[axis], x.shape)], {"axis": axis}


def scatter_nd(rng: Rng) -> Call:
    x = numbers(rng, str(rng.choice(("float32", "int64"))), shape_of(rng, 2, 1))
    rows = rng.permutation(x.shape[0])[: int(rng.integers(0, x.shape[0] + 1))]
    return [x, rows[:, None].astype(np.int64), numbers(rng, x.dtype.name, (len(rows), x.shape[1]))], {}


def where(rng: Rng) -> Call:
    dtype = str(rng.choice(("float32", "int32", "int64", "uint8", "bool")))
    first, second, third = broadcast(rng, 3)
    return [numbers(rng, "bool", first), numbers(rng, dtype, second), numbers(rng, dtype, third)], {}


def expand(rng: Rng) -> Call:
    first, second = broadcast(rng, 2)
    return [numbers(rng, str(rng.choice(ALL)), first), ints(*second)], {}


def tile(rng: Rng) -> Call:
    x = moved(rng, rank=int(rng.integers(1, 4)))
    return [x, rng.integers(0, 3, x.ndim)], {}


def constant_of_shape(rng: Rng) -> Call:
    shape = np.asarray(shape_of(rng), np.int64)
    value = numbers(rng, str(rng.choice(ALL)), (1,))
    return [shape], {"value": value} if rng.random() < 0.8 else {}


def span(rng: Rng) -> Call:
    x = moved(rng)
    return [x], {"start": int(rng.integers(-2, 3)), "end": int(rng.integers(-2, 4))} if rng.random() < 0.7 else {}


NUMBERS = (*FLOATS, *INTEGERS)
CALLS: dict[str, Callable[[Rng], Call]] = {
    **dict.fromkeys(("Add", "Sub", "Mul"), elementwise(2, NUMBERS)),
    "Div": division,
    **dict.fromkeys(("Neg", "Abs"), elementwise(1, NUMBERS)),
    "Sqrt": elementwise(1, FLOATS),
    "Floor": elementwise(1, FLOATS),
    "Ceil": elementwise(1, FLOATS),
    "Mod": modulo,
    **dict.fromkeys(("Min", "Max"), elementwise(3, INTEGERS)),
    "Equal": elementwise(2, (*NUMBERS, "bool")),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), elementwise(2, NUMBERS)),
    "Not": elementwise(1, ("bool",)),
    **dict.fromkeys(("And", "Or"), elementwise(2, ("bool",))),
    "Where": where,
    "Cast": cast,
    "CastLike": cast_like,
    "Range": sequence,
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"), reduction),
    **dict.fromkeys(("Identity", "Size"), lambda rng: ([moved(rng)], {})),
    "Shape": span,
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Concat": concat,
    "Slice": section,
    "Gather": gather,
    "GatherElements": gather_elements,
    "ScatterND": scatter_nd,
    "Expand": expand,
    "Tile": tile,
    "ConstantOfShape": constant_of_shape,
}


def of_onnxruntime(operator: str, operands: list[np.ndarray | None], attributes: dict[str, Any]) -> np.ndarray | None:
    """Its result; None where it has no kernel for the element type."""
    told = {k: constant(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
    node = Node(operator, tuple(f"i{n}" for n in range(len(operands))), ("y",), told, "call")
    try:
        return by_onnxruntime(node, [np.asarray(o) for o in operands], OPSETS)[0]
    except CannotEvaluate as error:
        assert "NOT_IMPLEMENTED" in str(error) or "Could not find an implementation" in str(error), error
        return None


def test_every_rule_is_called():
    assert set(CALLS) == set(_RULES)


@pytest.mark.parametrize("operator", CALLS)
def test_bits_are_those_of_onnxruntime(operator):
    rng = np.random.default_rng(len(operator) * 1000 + ord(operator[0]))
    compared = 0
    for _ in range(SAMPLES):
        operands, attributes = CALLS[operator](rng)
        ours = exact(operator, operands, attributes)
        theirs = None if ours is None else of_onnxruntime(operator, operands, attributes)
        if ours is None or theirs is None:
            continue
        compared += 1
        said = f"{operator} {attributes} of {operands}"
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), said
        numeric = ours.dtype.kind == "f"
        same = ours.tobytes() == theirs.tobytes() or (
            numeric
            and np.array_equal(ours, theirs, equal_nan=True)
            and np.array_equal(np.signbit(ours), np.signbit(theirs))
        )
        assert same, f"{said}: {ours} instead of {theirs}"
        assert ours.base is None, f"{said}: a part of an operand keeps all of it"
    assert compared > SAMPLES // 2


@pytest.mark.parametrize("operator", ENLARGING)
def test_the_size_is_known_before_it_is_made(operator):
    rng = np.random.default_rng(5)
    for _ in range(SAMPLES):
        operands, attributes = CALLS[operator](rng)
        result = exact(operator, operands, attributes)
        assert result is not None and enlarged(operator, operands) == result.size, (operands, attributes)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    "operator, operands, attributes",
    [
        ("Div", [i32(1), i32(0)], {}),
        ("Div", [i32(-(2**31)), i32(-1)], {}),
        ("Mod", [i32(1), i32(0)], {}),
        ("Add", [i32(1), ints(1)], {}),
        ("Add", [f32(1, 2), f32(1, 2, 3)], {}),
        ("Exp", [f32(1)], {}),
        ("Sqrt", [i32(4)], {}),
        ("Cast", [f32(np.nan)], {"to": 7}),
        ("Cast", [f32(1e10)], {"to": 6}),
        ("Cast", [f32(-1)], {"to": 2}),
        ("Cast", [f32(1)], {"to": 16}),
        ("Range", [np.float32(0), np.float32(1), np.float32(0.1)], {}),
        ("Range", [np.float32(0), np.float32(1e7), np.float32(1)], {}),
        ("Range", [np.int64(0), np.int64(5), np.int64(0)], {}),
        ("Range", [np.float32(0), np.float32(np.inf), np.float32(1)], {}),
        ("Range", [np.float32(-0.0), np.float32(3), np.float32(1)], {}),
        ("ConstantOfShape", [ints(2)], {"value": ints(1, 2)}),
        ("ConstantOfShape", [ints(2**40, 2**40)], {}),
        ("Unsqueeze", [f32(1), ints(2**40)], {}),
        ("ReduceMax", [np.zeros((0,), np.int64)], {}),
        ("ReduceSum", [f32(1, 2)], {}),
        ("Reshape", [f32(1, 2), ints(3)], {}),
        ("Reshape", [f32(1, 2), ints(-1, -1)], {}),
        ("Reshape", [f32(1, 2), ints(1, 1, 0)], {}),
        ("Squeeze", [f32(1, 2), ints(0)], {}),
        ("Unsqueeze", [f32(1), ints(0, 0)], {}),
        ("Concat", [f32(1), ints(1)], {"axis": 0}),
        ("Concat", [f32(1)], {}),
        ("Slice", [f32(1, 2), ints(0, 0), ints(1, 1), ints(0, 0)], {}),
        ("Slice", [f32(1, 2), ints(0), ints(1), ints(0), ints(0)], {}),
        ("Slice", [f32(1, 2), None, ints(1)], {}),
        ("Gather", [f32(1, 2), ints(2)], {}),
        ("GatherElements", [np.zeros((2, 3), np.float32), np.zeros((1, 1), np.int64)], {"axis": 0}),
        ("ScatterND", [f32(1, 2), np.zeros((1, 1), np.int64), f32(5)], {"reduction": "add"}),
        ("Where", [np.array([True]), f32(1), ints(1)], {}),
        ("Where", [None, f32(1), f32(2)], {}),
        ("Expand", [f32(1, 2), ints(3)], {}),
        ("Tile", [f32(1, 2), ints(1, 1)], {}),
        ("Transpose", [np.zeros((2, 3), np.float32)], {"perm": (0, 0)}),
        ("Add", [f32(1)], {}),
    ],
)
def test_where_it_has_no_say(operator, operands, attributes):
    assert exact(operator, operands, attributes) is None
