"""Random nodes of the operators whose attributes and small operands follow the axes."""

from __future__ import annotations

import numpy as np

from tests.carrying import Case, Draw, Fixed, row
from workbench.ir.permutation import inverse
from workbench.ops.fused_normalization import FUSED_NORM_BODIES

COMPUTED = "is computed at runtime"


def _int64(numbers) -> np.ndarray:
    return np.array(numbers, np.int64)


def _maybe_fixed(draw: Draw, array: np.ndarray):
    """A constant, most times."""
    return draw.one_of(Fixed(array), Fixed(array), Fixed(array), array)


@row("Softmax LogSoftmax LpNormalization", exact=False)
@row("Hardmax")
def _along_axis(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    return Case([x], draw.one_of({"axis": draw.axis(x.ndim)}, {}))


@row("workbench.fused_bias_add_mask_scale")
def _bias_and_mask(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    axis, mask = draw.axis(x.ndim), draw.flags(*x.shape)
    bias = draw.normal(x.shape[axis])
    return Case([x, draw.one_of(bias, Fixed(bias)), draw.one_of(mask, Fixed(mask))], {"axis": axis, "scale": 2.0})


@row("workbench.fused_bias_add_gelu", exact=False)
def _bias_and_gelu(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    axis = draw.axis(x.ndim)
    bias = draw.normal(x.shape[axis])
    return Case([x, draw.one_of(bias, Fixed(bias))], {"axis": axis, "approximate": draw.one_of("none", "tanh")})


@row("Concat")
def _concat(draw: Draw, op: str) -> Case:
    dims = draw.dims()
    axis = draw.axis(len(dims))
    operands = []
    for _ in range(draw.one_of(1, 2, 3)):
        dims[axis] = draw.one_of(1, 2, 3)
        array = draw.normal(*dims)
        operands.append(draw.one_of(array, array, Fixed(array)) if operands else array)
    return Case(operands, {"axis": axis})


@row("Split")
def _split(draw: Draw, op: str) -> Case:
    dims = draw.dims()
    axis = draw.axis(len(dims))
    sizes = draw.integers(1, 4, draw.one_of(1, 2, 3))
    dims[axis] = int(sizes.sum())
    if draw.one_of(True, False) or len(sizes) > 2:  # with three, the last of equal parts may be none
        return Case([draw.normal(*dims), _maybe_fixed(draw, sizes)], {"axis": axis}, outputs=len(sizes))
    return Case([draw.normal(*dims)], {"axis": axis, "num_outputs": len(sizes)}, outputs=len(sizes))


@row("TopK")
def _top_k(draw: Draw, op: str) -> Case:
    x = draw.integers(0, 4, *draw.dims()).astype(np.float32)
    axis = draw.axis(x.ndim)
    count = _int64([draw.random.integers(1, x.shape[axis] + 1)])
    attributes = {"axis": axis, "largest": draw.one_of(0, 1)}
    return Case([x, _maybe_fixed(draw, count)], attributes, outputs=2)


@row("ArgMax ArgMin")
def _arg(draw: Draw, op: str) -> Case:
    x = draw.integers(0, 4, *draw.dims()).astype(np.float32)
    attributes = {"axis": draw.axis(x.ndim), "keepdims": draw.one_of(0, 1), "select_last_index": draw.one_of(0, 1)}
    return Case([x], attributes)


@row("CumSum", COMPUTED, exact=False)
def _running(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    axis = np.array(draw.axis(x.ndim), draw.one_of(np.int64, np.int32))
    return Case([x, _maybe_fixed(draw, axis)], {"reverse": draw.one_of(0, 1), "exclusive": draw.one_of(0, 1)})


@row("ReduceMax ReduceMin", COMPUTED)
@row(
    "ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ReduceLogSum",
    COMPUTED,
    exact=False,
)
def _reduce(draw: Draw, op: str) -> Case:
    x = draw.between(0.5, 2, *draw.dims())
    attributes = {"keepdims": draw.one_of(0, 1), "noop_with_empty_axes": draw.one_of(0, 0, 1)}
    axes = draw.one_of(None, Fixed(_int64([])), *[_maybe_fixed(draw, _int64(draw.axes(x.ndim)))] * 4)
    return Case([x] if axes is None else [x, axes], attributes)


@row("MeanVarianceNormalization", exact=False)
def _mean_variance(draw: Draw, op: str) -> Case:
    if draw.one_of(True, False):
        return Case([draw.normal(*draw.dims(4, 4))])
    x = draw.normal(*draw.dims(1, 4))
    return Case([x], {"axes": [a % x.ndim for a in draw.axes(x.ndim)]})


@row("workbench.SampleNormalization", "the first axis counts them", exact=False)
def _sample_norm(draw: Draw, op: str) -> Case:
    x = draw.normal(draw.one_of(1, 2), *draw.dims(2, 3))
    return Case([x, Fixed(draw.between(0.5, 2, 1)), Fixed(draw.normal(1))], draw.one_of({}, {"epsilon": 0.1}))


@row("LayerNormalization RMSNormalization", "which would not be the last", "more axes than", COMPUTED, exact=False)
def _trailing_norm(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(2, 5))
    axis = draw.axis(x.ndim)
    shape = x.shape[axis % x.ndim :]
    parameters = [draw.one_of(a, Fixed(a), Fixed(a)) for a in (draw.normal(*shape), draw.normal(*shape))]
    if op == "RMSNormalization":
        return Case([x, parameters[0]], {"axis": axis})
    return Case([x, *parameters[: draw.one_of(1, 2)]], {"axis": axis}, outputs=draw.one_of(1, 3))


@row(
    " ".join(f"workbench.{name}" for name in FUSED_NORM_BODIES),
    "which would not be the last",
    "more axes than",
    COMPUTED,
    exact=False,
)
def _sum_and_norm(draw: Draw, op: str) -> Case:
    case = _trailing_norm(draw, op.rpartition("Add")[2].removesuffix("WithSum"))
    x, *parameters = case.operands
    bias = [draw.normal(x.shape[-1])] if "Bias" in op else []
    return Case([x, *bias, draw.normal(*x.shape), *parameters], case.attributes, outputs=1 + op.endswith("WithSum"))


@row("QuantizeLinear DequantizeLinear")
def _quantize(draw: Draw, op: str) -> Case:
    dims = draw.dims(1, 4)
    axis, kind = draw.axis(len(dims)), draw.one_of("tensor", "axis", "block" if max(dims) > 1 else "axis")
    attributes = {} if kind == "tensor" else {"axis": axis}
    shape = {"tensor": [], "axis": [dims[axis]], "block": list(dims)}[kind]
    if kind == "block":
        dims[axis] *= 2
        attributes["block_size"] = 2
    scale, zero = draw.between(0.01, 0.1, *shape), draw.integers(0, 9, *shape, dtype=np.uint8)
    parameters = draw.one_of([scale, zero], [Fixed(scale), Fixed(zero)], [Fixed(scale)])
    if op == "DequantizeLinear":
        return Case([draw.integers(0, 255, *dims, dtype=np.uint8), *parameters], attributes)
    return Case([draw.normal(*dims), *parameters], attributes)


# ---- axes that come and go ---------------------------------------------------------------


@row("Squeeze", COMPUTED)
def _squeeze(draw: Draw, op: str) -> Case:
    dims = draw.dims(2, 5)
    axes = draw.axes(len(dims))
    for axis in axes:
        dims[axis] = 1
    return Case([draw.normal(*dims), *draw.one_of([], [_maybe_fixed(draw, _int64(axes))])])


@row("Unsqueeze", COMPUTED)
def _unsqueeze(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(1, 4))
    rank = x.ndim + draw.one_of(1, 1, 2)
    axes = [axis - rank * draw.one_of(0, 1) for axis in draw.random.permutation(rank)[: rank - x.ndim]]
    return Case([x, _maybe_fixed(draw, _int64(axes))])


@row("OneHot")
def _one_hot(draw: Draw, op: str) -> Case:
    indices = draw.integers(-4, 4, *draw.dims(1, 4))
    return Case([indices, Fixed(_int64([4])), Fixed(draw.normal(2))], {"axis": draw.axis(indices.ndim + 1)})


@row("Expand", COMPUTED)
def _expand(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(1, 4))
    shape = [draw.one_of(1, 2, 3) if d == 1 else draw.one_of(d, 1) for d in x.shape]
    shape = draw.one_of(shape, shape, shape[1:], [2, 3, *shape])
    return Case([x, _maybe_fixed(draw, _int64(shape))])


@row("Tile", COMPUTED)
def _tile(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    return Case([x, _maybe_fixed(draw, draw.integers(1, 3, x.ndim))])


@row("Transpose")
def _transpose(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(2, 5))
    return Case([x], draw.one_of({}, {"perm": draw.permutation(x.ndim)}, {"perm": inverse(draw.permutation(x.ndim))}))


@row("Shape")
def _shape(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(2, 5))
    start = draw.axis(x.ndim)
    return Case([x], draw.one_of({}, {"start": start, "end": start % x.ndim + 1}, {"start": -2}, {"end": 2}))


# ---- parts and borders ------------------------------------------------------------------------


@row("Pad", COMPUTED)
def _pad(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(1, 4))
    mode = draw.one_of("constant", "edge", "reflect", "wrap")
    axes = draw.one_of(None, draw.axes(x.ndim))
    chosen = range(x.ndim) if axes is None else axes
    most = [3 if mode == "constant" else x.shape[axis] for axis in chosen]
    pads = _int64([draw.random.integers(0, n) for n in (*most, *most)])
    value = draw.one_of(None, np.float32(7)) if mode == "constant" else None
    given = [x, _maybe_fixed(draw, pads), None if value is None else Fixed(np.array(value))]
    given += [] if axes is None else [_maybe_fixed(draw, _int64(axes))]
    return Case(given, {"mode": mode})


@row("Slice", COMPUTED)
def _slice(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    axes = draw.one_of(None, draw.axes(x.ndim))
    count = x.ndim - draw.one_of(0, 0, x.ndim - 1) if axes is None else len(axes)
    dtype = draw.one_of(np.int64, np.int32)
    backwards = draw.flags(count)
    starts = np.where(backwards, -1, draw.integers(0, 2, count)).astype(dtype)
    ends = np.where(backwards, -9, draw.integers(1, 9, count)).astype(dtype)
    steps = np.where(backwards, -1, draw.integers(1, 3, count)).astype(dtype)
    operands = [_maybe_fixed(draw, starts), _maybe_fixed(draw, ends)]
    operands.append(None if axes is None else _maybe_fixed(draw, np.array(axes, dtype)))
    operands.append(Fixed(steps))
    if axes is None and draw.one_of(True, False):
        return Case([x, Fixed(np.zeros(count, dtype)), _maybe_fixed(draw, np.abs(ends))])
    return Case([x, *operands])


@row("CenterCropPad")
def _crop(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(2, 4))
    axes = draw.one_of(None, draw.axes(x.ndim))
    lengths = draw.integers(1, 7, x.ndim if axes is None else len(axes))
    return Case([x, Fixed(lengths)], {} if axes is None else {"axes": axes})


@row("Trilu", COMPUTED, "which would not be the last")
def _trilu(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(2, 3))
    diagonal = draw.one_of([], [_maybe_fixed(draw, np.array(draw.one_of(-1, 0, 1, 2), np.int64))])
    return Case([x, *diagonal], {"upper": draw.one_of(0, 1)})


@row("EyeLike")
def _eye(draw: Draw, op: str) -> Case:
    return Case([draw.normal(*draw.dims(2, 2))], {"k": draw.one_of(-1, 0, 1)})


@row("Resize", COMPUTED, "which ONNX Runtime does not support", exact=False)
def _resize(draw: Draw, op: str) -> Case:
    x = draw.normal(*[draw.one_of(1, 2, 3, 4) for _ in range(draw.one_of(2, 3, 4, 4))])
    mode = draw.one_of("nearest", "linear", "cubic" if x.ndim in (2, 4) else "linear")
    resized = [0] * (x.ndim - 2) + [1, 1] if mode != "nearest" else [draw.one_of(0, 1) for _ in x.shape]
    attributes = {"mode": mode, "coordinate_transformation_mode": draw.one_of("half_pixel", "asymmetric")}
    axes = draw.one_of(None, [axis - x.ndim * draw.one_of(0, 1) for axis in np.flatnonzero(resized)]) or None
    chosen = [axis % x.ndim for axis in axes] if axes else range(x.ndim)
    scales = np.array([draw.one_of(2, 3, 1.5) if resized[axis] else 1 for axis in chosen], np.float32)
    if axes:
        attributes["axes"] = [int(axis) for axis in axes]
    if draw.one_of(True, False):
        return Case([x, None, _maybe_fixed(draw, scales)], attributes)
    sizes = _int64([int(x.shape[axis] * scale) for axis, scale in zip(chosen, scales, strict=True)])
    return Case([x, None, None, _maybe_fixed(draw, sizes)], attributes)


# ---- indices ---------------------------------------------------------------------------------


@row("Gather", "has another rank than the permutation")
def _gather(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(1, 4))
    axis = draw.axis(x.ndim)
    length = x.shape[axis]
    indices = draw.integers(-length, length, *draw.one_of([], [3], [1], [2, 3], [2, 3, 2]))
    if draw.one_of(True, True, False) or not indices.ndim:
        return Case([x, _maybe_fixed(draw, indices)], {"axis": axis})
    return Case([Fixed(x), indices], {"axis": axis}, rank=indices.ndim)


@row("GatherElements")
def _gather_elements(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    axis = draw.axis(x.ndim)
    shape = list(x.shape)
    shape[axis] = 3
    indices = draw.integers(-x.shape[axis], x.shape[axis], *shape)
    return Case([x, draw.one_of(indices, Fixed(indices))], {"axis": axis})


@row("ScatterElements")
def _scatter_elements(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    axis = draw.axis(x.ndim)
    places = np.stack([draw.random.permutation(x.shape[axis]) for _ in range(x.size // x.shape[axis])])
    others = [d for a, d in enumerate(x.shape) if a != axis % x.ndim]
    indices = np.moveaxis(places.reshape(*others, x.shape[axis]), -1, axis)
    updates = draw.normal(*x.shape)
    reduction = draw.one_of("none", "add", "max")
    return Case([x, draw.one_of(indices, Fixed(indices)), updates], {"axis": axis, "reduction": reduction})


@row("GatherND", "indexes the first")
def _gather_nd(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(3, 5))
    batch = draw.one_of(0, 0, 1)
    depth = draw.one_of(1, 1, 2)
    lead = [*x.shape[:batch], *draw.one_of([3], [2, 3])]
    columns = [draw.integers(-n, n, *lead) for n in x.shape[batch : batch + depth]]
    return Case([x, _maybe_fixed(draw, np.stack(columns, -1))], {"batch_dims": batch})


@row("Compress", "order in memory")
def _compress(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    axis = draw.one_of(None, draw.axis(x.ndim), draw.axis(x.ndim))
    length = x.size if axis is None else x.shape[axis]
    return Case([x, np.arange(length) % 2 == 0], {} if axis is None else {"axis": axis})


# ---- shapes ---------------------------------------------------------------------------------


APART = ("not adjacent in the other order", "depends on the order of its axes")


@row("Reshape", *APART)
def _reshape(draw: Draw, op: str) -> Case:
    """The same factors joined at two places."""
    factors = draw.dims(3, 6)
    shape = _joined(draw, factors)
    shape[draw.random.integers(len(shape))] = -1
    return Case([draw.normal(*_joined(draw, factors)), Fixed(_int64(shape))])


def _joined(draw: Draw, factors: list[int]) -> list[int]:
    dims = factors[:1]
    for factor in factors[1:]:
        if draw.one_of(True, False):
            dims[-1] *= factor
        else:
            dims.append(factor)
    return dims


@row("Flatten", *APART)
def _flatten(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims(2, 5))
    return Case([x], {"axis": draw.axis(x.ndim)})
