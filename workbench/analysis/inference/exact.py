"""Operators with one exact result, in NumPy: sizes, integers, comparisons, data movement, single roundings.

ONNX Runtime gives the same bits, but needs 25 MB and a session for each kind of
call. It evaluates other operators. It also evaluates operands whose result ONNX or the
processor leaves undefined (a cast out of range, an integer divided by zero).

Source: ONNX's operator definitions, https://onnx.ai/onnx/operators/; IEEE 754 rounds +, -, *, / and
square root correctly, so every library that follows it gives the same bits.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir

from workbench.ir.attribute_defaults import with_defaults

_Attributes = Mapping[str, Any]  # attributes of the node, with defaults; tensors are arrays
_Rule = Callable[..., np.ndarray]  # from attributes and operands; raises ValueError if it does not apply

_FLOATS = frozenset(np.dtype(name) for name in ("float16", "float32", "float64"))
_INTEGERS = frozenset(np.dtype(name) for name in ("int32", "int64"))
_BOOL = frozenset({np.dtype(bool)})
_SMALLER = frozenset(np.dtype(name) for name in ("int8", "int16", "uint8", "uint16", "uint32", "uint64"))
PLAIN_TYPES = _FLOATS | _INTEGERS | _BOOL | _SMALLER  # element types that both NumPy and ONNX Runtime support
ENLARGING = ("Range", "ConstantOfShape", "Expand", "Tile")  # operators whose results may be much larger than operands
# ONNX Runtime 1.31 computes Mod with fmod and reductions in double, which loses digits beyond this.
_MAX_EXACT_DOUBLE = 2**53
_MAX_EXACT_HALF = 2**11  # float16 represents every integer up to here


def exact(operator: str, operands: Sequence[np.ndarray | None], attributes: _Attributes) -> np.ndarray | None:
    """The exact result of an operator of ONNX's domain; None if this module does not apply.

    attributes: those of the node, tensors as arrays. The size of the result is not limited; see `enlarged`.
    """
    if operator not in _RULES:
        return None
    types, rule = _RULES[operator]
    present = [operand for operand in operands if operand is not None]
    if any(operand.dtype not in types for operand in present[:1]) or any(o.dtype not in PLAIN_TYPES for o in present):
        return None
    if len(present) < len(operands) and operator not in _OPTIONAL:
        return None
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(rule(with_defaults(operator, attributes), *operands))
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError, MemoryError):
        # The call is not valid ONNX, or too large: ONNX Runtime then reports why.
        return None
    owns_memory = result.base is None and result.flags.c_contiguous
    return result if owns_memory else result.copy()  # a view would keep its operand in memory


def enlarged(operator: str, operands: Sequence[np.ndarray | None]) -> int | None:
    """The number of elements of the result of an operator in ENLARGING; None for others, or if unknown."""
    present = [operand for operand in operands if operand is not None]
    if operator == "Range" and [operand.size for operand in present] == [1, 1, 1]:
        start, limit, delta = (operand.item() for operand in present)
        steps = (limit - start) / delta if delta else math.inf
        return max(0, math.ceil(steps)) if math.isfinite(steps) else None
    if operator == "ConstantOfShape" and len(present) == 1:
        return int(math.prod(present[0].reshape(-1).tolist()))
    if operator == "Tile" and len(present) == 2:
        return present[0].size * int(math.prod(present[1].reshape(-1).tolist()))
    if operator == "Expand" and len(present) == 2:
        pairs = itertools.zip_longest(present[0].shape[::-1], present[1].reshape(-1).tolist()[::-1], fillvalue=1)
        return math.prod(max(dim, target) for dim, target in pairs)
    return None


# ---- numbers -------------------------------------------------------------------------


def _same_typed(function: Callable[..., np.ndarray]) -> _Rule:
    """An elementwise operator whose operands all have one element type."""

    def rule(_: _Attributes, first: np.ndarray, *others: np.ndarray) -> np.ndarray:
        _require(all(other.dtype == first.dtype for other in others))
        return functools.reduce(function, others, first) if others else function(first)

    return rule


def _require(holds: object) -> None:
    if not holds:
        raise ValueError("no rule applies")


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype in _FLOATS:
        return np.asarray(np.divide(a, b))
    _require(_divides(a, b))
    return np.asarray(np.floor_divide(a - np.fmod(a, b), b))  # ONNX rounds towards zero


def _divides(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((b != 0).all()) and not overflows(a, b)


def overflows(dividend: np.ndarray, divisor: np.ndarray) -> bool:
    """Whether the smallest integer is divided by -1, which crashes ONNX Runtime 1.31."""
    if dividend.dtype.kind != "i":
        return False
    return bool((divisor == -1).any() and (dividend == np.iinfo(dividend.dtype).min).any())


def _mod(attributes: _Attributes, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    _require(a.dtype == b.dtype and _divides(a, b))
    if not attributes["fmod"]:
        return np.asarray(np.mod(a, b))
    _require(all((np.abs(operand.astype(np.float64)) <= _MAX_EXACT_DOUBLE).all() for operand in (a, b)))
    return np.asarray(np.fmod(a, b))


def _cast(attributes: _Attributes, x: np.ndarray) -> np.ndarray:
    return _cast_to(onnx_ir.DataType(attributes["to"]).numpy(), x)


def _cast_like(_: _Attributes, x: np.ndarray, like: np.ndarray) -> np.ndarray:
    return _cast_to(like.dtype, x)


def _cast_to(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    _require(dtype in PLAIN_TYPES)
    if x.dtype in _FLOATS and dtype.kind in "iu" and x.size:  # undefined in C for numbers out of range
        bounds = np.iinfo(dtype)
        _require(bounds.min <= float(x.min()) and float(x.max()) <= bounds.max)  # also false for NaN
    if x.dtype == np.float64 and dtype == np.float16:  # ONNX Runtime rounds twice
        x = x.astype(np.float32)
    return x.astype(dtype)


def _range(_: _Attributes, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
    _require(start.size == limit.size == delta.size == 1 and start.dtype == limit.dtype == delta.dtype)
    numbers = [operand.reshape(-1)[0].item() for operand in (start, limit, delta)]
    _require(numbers[2] != 0)
    if start.dtype in _FLOATS:  # ONNX multiplies, ONNX Runtime accumulates; equal for small integers
        _require(all(number == int(number) and abs(number) <= _MAX_EXACT_HALF for number in numbers))
        _require(numbers[0] != 0 or math.copysign(1, numbers[0]) > 0)
    return np.arange(*map(int, numbers)).astype(start.dtype)


def _reduce(ufunc: np.ufunc) -> _Rule:
    def rule(attributes: _Attributes, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
        chosen = () if axes is None else tuple(axes.tolist())
        noop = attributes["noop_with_empty_axes"]
        if noop and not chosen:
            return x
        reduced_axes = chosen or None
        if not x.size:  # the maximum is undefined, and ONNX Runtime 1.31 sums over wrong axes
            _require(ufunc in (np.add, np.multiply) and x.ndim == 1 and reduced_axes in (None, (0,)) and not noop)
        bound = min(_MAX_EXACT_DOUBLE, np.iinfo(x.dtype).max)
        _require((ufunc.reduce(np.abs(x.astype(np.float64)), axis=reduced_axes) <= bound).all())
        keepdims = attributes["keepdims"] == 1
        return np.asarray(ufunc.reduce(x, axis=reduced_axes, dtype=x.dtype, keepdims=keepdims))

    return rule


# ---- shapes and data movement -----------------------------------------------------------------


def _same(_: _Attributes, x: np.ndarray) -> np.ndarray:
    return x


def _shape(attributes: _Attributes, x: np.ndarray) -> np.ndarray:
    return np.array(x.shape[attributes["start"] : attributes.get("end")], np.int64)


def _size(_: _Attributes, x: np.ndarray) -> np.ndarray:
    return np.array(x.size, np.int64)


def _reshape(attributes: _Attributes, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    dims = shape.tolist()
    _require(shape.ndim == 1 and all(d >= -1 for d in dims) and not (0 in dims and attributes["allowzero"]))
    target = [x.shape[axis] if d == 0 else d for axis, d in enumerate(dims)]
    _require(x.size or -1 not in target)
    return x.reshape(target)


def _flatten(attributes: _Attributes, x: np.ndarray) -> np.ndarray:
    axis = attributes["axis"]
    _require(-x.ndim <= axis <= x.ndim)
    axis += x.ndim if axis < 0 else 0
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _transpose(attributes: _Attributes, x: np.ndarray) -> np.ndarray:
    return np.transpose(x, attributes.get("perm"))


def _squeeze(_: _Attributes, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    _require(axes is None or axes.size)
    return np.squeeze(x, None if axes is None else tuple(axes.tolist()))


def _unsqueeze(_: _Attributes, x: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, tuple(axes.reshape(-1).tolist()))


def _concat(attributes: _Attributes, *parts: np.ndarray) -> np.ndarray:
    _require(all(part.dtype == parts[0].dtype for part in parts))
    return np.concatenate(parts, attributes["axis"])


def _slice(_: _Attributes, x: np.ndarray, *operands: np.ndarray | None) -> np.ndarray:
    starts, ends, *rest = ([] if o is None else o.tolist() for o in operands)
    axes, steps = (*rest, [], [])[:2]
    axes = [a + x.ndim if a < 0 else a for a in axes] or list(range(len(starts)))
    steps = steps or [1] * len(starts)
    _require(len(set(axes)) == len(axes) and all(0 <= axis < x.ndim for axis in axes) and 0 not in steps)
    slices = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # Otherwise Python and ONNX clamp differently.
        _require(step > 0 or (start >= -x.shape[axis] and end < x.shape[axis]))
        slices[axis] = slice(start, end, step)
    return x[tuple(slices)]


def _gather(attributes: _Attributes, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    _require(indices.dtype in _INTEGERS)
    return np.take(x, indices, attributes["axis"])


def _gather_elements(attributes: _Attributes, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    axis = attributes["axis"]
    _require(indices.dtype in _INTEGERS and x.ndim == indices.ndim and -x.ndim <= axis < x.ndim)
    _require(all(n == m or a == axis % x.ndim for a, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True))))
    return np.take_along_axis(x, indices, axis)


def _scatter_nd(attributes: _Attributes, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    _require(attributes["reduction"] == "none" and updates.dtype == x.dtype and indices.dtype == np.int64)
    _require(indices.ndim and updates.shape == indices.shape[:-1] + x.shape[indices.shape[-1] :])
    result = x.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result


def _where(_: _Attributes, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    _require(x.dtype == y.dtype)
    if x.dtype in _FLOATS:  # ONNX Runtime 1.31 loses the sign of zero there
        _require(not any(np.signbit(branch[branch == 0]).any() for branch in (x, y)))
    return np.where(condition, x, y)


def _expand(_: _Attributes, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _tile(_: _Attributes, x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    _require(repeats.shape == (x.ndim,))
    return np.tile(x, repeats.tolist())


def _constant_of_shape(attributes: _Attributes, shape: np.ndarray) -> np.ndarray:
    value = attributes.get("value", np.zeros(1, np.float32))
    _require(isinstance(value, np.ndarray) and value.dtype in PLAIN_TYPES and value.shape == (1,) and shape.ndim == 1)
    return np.full(tuple(shape.tolist()), value.reshape(-1)[0], value.dtype)


_OPTIONAL = ("Slice", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "Squeeze")  # may omit an operand
# By operator: the element types of the first operand, and the rule.
_RULES: Mapping[str, tuple[frozenset[np.dtype], _Rule]] = {
    "Add": (_FLOATS | _INTEGERS, _same_typed(np.add)),
    "Sub": (_FLOATS | _INTEGERS, _same_typed(np.subtract)),
    "Mul": (_FLOATS | _INTEGERS, _same_typed(np.multiply)),
    "Div": (_FLOATS | _INTEGERS, _same_typed(_divide)),
    "Neg": (_FLOATS | _INTEGERS, _same_typed(np.negative)),
    "Abs": (_FLOATS | _INTEGERS, _same_typed(np.abs)),
    "Sqrt": (_FLOATS, _same_typed(np.sqrt)),
    "Floor": (_FLOATS, _same_typed(np.floor)),
    "Ceil": (_FLOATS, _same_typed(np.ceil)),
    "Mod": (_INTEGERS, _mod),
    "Min": (_INTEGERS, _same_typed(np.minimum)),
    "Max": (_INTEGERS, _same_typed(np.maximum)),
    "Equal": (_FLOATS | _INTEGERS | _BOOL, _same_typed(np.equal)),
    "Less": (_FLOATS | _INTEGERS, _same_typed(np.less)),
    "LessOrEqual": (_FLOATS | _INTEGERS, _same_typed(np.less_equal)),
    "Greater": (_FLOATS | _INTEGERS, _same_typed(np.greater)),
    "GreaterOrEqual": (_FLOATS | _INTEGERS, _same_typed(np.greater_equal)),
    "Not": (_BOOL, _same_typed(np.logical_not)),
    "And": (_BOOL, _same_typed(np.logical_and)),
    "Or": (_BOOL, _same_typed(np.logical_or)),
    "Where": (_BOOL, _where),
    "Cast": (PLAIN_TYPES, _cast),
    "CastLike": (PLAIN_TYPES, _cast_like),
    "Range": (_FLOATS | _INTEGERS, _range),
    "ReduceSum": (_INTEGERS, _reduce(np.add)),
    "ReduceProd": (_INTEGERS, _reduce(np.multiply)),
    "ReduceMax": (_INTEGERS, _reduce(np.maximum)),
    "ReduceMin": (_INTEGERS, _reduce(np.minimum)),
    "Identity": (PLAIN_TYPES, _same),
    "Shape": (PLAIN_TYPES, _shape),
    "Size": (PLAIN_TYPES, _size),
    "Reshape": (PLAIN_TYPES, _reshape),
    "Flatten": (PLAIN_TYPES, _flatten),
    "Transpose": (PLAIN_TYPES, _transpose),
    "Squeeze": (PLAIN_TYPES, _squeeze),
    "Unsqueeze": (PLAIN_TYPES, _unsqueeze),
    "Concat": (PLAIN_TYPES, _concat),
    "Slice": (PLAIN_TYPES, _slice),
    "Gather": (PLAIN_TYPES, _gather),
    "GatherElements": (PLAIN_TYPES, _gather_elements),
    "ScatterND": (PLAIN_TYPES, _scatter_nd),
    "Expand": (PLAIN_TYPES, _expand),
    "Tile": (PLAIN_TYPES, _tile),
    "ConstantOfShape": (_INTEGERS, _constant_of_shape),
}
