"""Random nodes of the layout-sensitive operators and of matrix products."""

from __future__ import annotations

import numpy as np

from tests.carrying import Case, Draw, Fixed, graph_of, row
from tests.running import outputs
from workbench.ops.channels_last import FUSED_CONVOLUTIONS
from workbench.ops.fused_activations import OF_PRODUCTS

ORDERS = ("supports channels first and channels last", "reads images")
TURNED = ("depends on the order of its spatial axes", "the weight")


def _image(draw: Draw, channels: int = 4, least: int = 1, most: int = 3, size: int = 3) -> np.ndarray:
    spatial = [size + draw.one_of(0, 1, 2) for _ in range(draw.random.integers(least, most + 1))]
    return draw.normal(draw.one_of(1, 2), channels, *spatial)


def _window(draw: Draw, axes: int) -> dict:
    kernel = [draw.one_of(1, 2, 3) for _ in range(axes)]
    attributes = {"kernel_shape": kernel, "strides": [draw.one_of(1, min(2, k)) for k in kernel]}
    if draw.one_of(True, False, False):
        return attributes | {"auto_pad": draw.one_of("SAME_UPPER", "SAME_LOWER", "VALID")}
    return attributes | {"pads": [draw.random.integers(0, k) for k in (*kernel, *kernel)]}


@row("Conv ConvTranspose", *ORDERS, *TURNED, exact=False)
def _conv(draw: Draw, op: str) -> Case:
    x = _image(draw, 4)
    attributes = _window(draw, x.ndim - 2)
    group = draw.one_of(1, 1, 2)
    if op == "ConvTranspose":
        attributes.pop("auto_pad", None)
        attributes["output_padding"] = [draw.one_of(0, s - 1) for s in attributes["strides"]]
    channels = (6, 4 // group) if op == "Conv" else (4, 6 // group)
    weight = draw.normal(*channels, *attributes["kernel_shape"])
    rest = [draw.one_of(weight, Fixed(weight), Fixed(weight)), *draw.one_of([], [Fixed(draw.normal(6))])]
    return Case([x, *rest], attributes | {"group": group})


@row(" ".join(f"workbench.{name}" for name in FUSED_CONVOLUTIONS), *ORDERS, *TURNED, exact=False)
def _fused_conv(draw: Draw, op: str) -> Case:
    case = _conv(draw, "Conv")
    attributes = {"ConvAddHardSigmoid": {"alpha": 0.3, "beta": 0.4}, "ConvHardSigmoid": {"alpha": 0.3, "beta": 0.4}}
    more = attributes.get(op.removeprefix("workbench."), {"alpha": 0.1} if "LeakyRelu" in op else {})
    operands = [*case.operands, *([None] * (3 - len(case.operands)))]
    if "Add" not in op:
        return Case(operands[:3] if operands[2] is not None else operands[:2], case.attributes | more)
    graph, feeds = graph_of("Conv", case)
    residual = draw.normal(*outputs(graph, feeds)["y0"].shape)
    return Case([*operands, draw.one_of(residual, Fixed(residual))], case.attributes | more)


@row("ConvInteger QLinearConv", *ORDERS, *TURNED)
def _integer_conv(draw: Draw, op: str) -> Case:
    image = _image(draw, 4, 2, 2)
    x = draw.integers(0, 255, *image.shape, dtype=np.uint8)
    attributes = _window(draw, 2)
    weight = draw.integers(0, 255, 6, 4, *attributes["kernel_shape"], dtype=np.uint8)
    weight, zero = draw.one_of(weight, Fixed(weight)), Fixed(np.array(3, np.uint8))
    if op == "ConvInteger":
        return Case([x, weight, *[zero, zero][: draw.one_of(0, 1, 2)]], attributes)
    scale = Fixed(np.array(0.02, np.float32))
    wide = Fixed(np.array(1.5, np.float32))
    bias = draw.one_of([], [Fixed(draw.integers(-9, 9, 6, dtype=np.int32))])
    return Case([x, scale, zero, weight, Fixed(draw.between(0.01, 0.03, 6)), zero, wide, zero, *bias], attributes)


@row("MaxPool", *ORDERS, "are indices in the order of its axes")
@row("AveragePool LpPool", *ORDERS, exact=False)
def _pool(draw: Draw, op: str) -> Case:
    x = _image(draw, 3)
    attributes = _window(draw, x.ndim - 2) | {"ceil_mode": draw.one_of(0, 0, 1)}
    if op == "LpPool":
        del attributes["ceil_mode"]
    return Case([x], attributes, outputs=draw.one_of(1, 2) if op == "MaxPool" else 1)


@row("MaxUnpool", *ORDERS, *TURNED, "has no output_shape")
def _unpool(draw: Draw, op: str) -> Case:
    """Every element goes to a place of its own window, 2 wide along each axis."""
    x = _image(draw, 2, 1, 3, size=2)
    axes = x.ndim - 2
    larger = [2 * n for n in x.shape[2:]]
    corner = np.indices(x.shape)
    corner[2:] = 2 * corner[2:] + draw.integers(0, 2, axes, *x.shape)
    indices = np.ravel_multi_index(tuple(corner), (*x.shape[:2], *larger)).astype(np.int64)
    shape = draw.one_of([], [Fixed(np.array([*x.shape[:2], *larger], np.int64))])
    return Case([x, indices, *shape], {"kernel_shape": [2] * axes, "strides": [2] * axes})


@row("GlobalAveragePool", *ORDERS, exact=False)
@row("GlobalLpPool", *ORDERS, exact=False, opset=21)
@row("GlobalMaxPool", *ORDERS)
def _global_pool(draw: Draw, op: str) -> Case:
    return Case([_image(draw, 3)])


@row("BatchNormalization InstanceNormalization GroupNormalization", *ORDERS, exact=False)
def _normalization(draw: Draw, op: str) -> Case:
    x = _image(draw, 4)
    parameters = [Fixed(draw.between(0.5, 2, 4)) for _ in range(4 if op == "BatchNormalization" else 2)]
    return Case([x, *parameters], {"num_groups": 2} if op == "GroupNormalization" else {})


@row("LRN", *ORDERS, exact=False)
def _lrn(draw: Draw, op: str) -> Case:
    return Case([_image(draw, 5, 2, 2)], {"size": 3})


@row("GridSample", *ORDERS, *TURNED, exact=False)
def _grid_sample(draw: Draw, op: str) -> Case:
    x = _image(draw, 3, 2, 3)
    grid = draw.between(-1.2, 1.2, x.shape[0], *[3] * (x.ndim - 2), x.ndim - 2)
    return Case([x, draw.one_of(grid, Fixed(grid))], {"mode": draw.one_of("linear", "nearest")})


@row("DepthToSpace SpaceToDepth", *ORDERS, *TURNED)
def _depth(draw: Draw, op: str) -> Case:
    if op == "SpaceToDepth":
        return Case([draw.normal(1, 3, 4, 6)], {"blocksize": 2})
    return Case([_image(draw, 8, 2, 2)], {"blocksize": 2, "mode": draw.one_of("DCR", "CRD")})


OWN = ("supports NCHW and NHWC", *ORDERS, *TURNED)


@row("workbench.mirror workbench.rotate workbench.unpool", *OWN)
@row("workbench.tensornorm workbench.bilinear workbench.img2col", *OWN, exact=False)
def _own(draw: Draw, op: str) -> Case:
    attributes = {
        "workbench.unpool": {"factor": 2},
        "workbench.bilinear": {"size": [6, 7]},
        "workbench.tensornorm": {"epsilon": 1e-5},
        "workbench.img2col": {"kernel_shape": [2, 2], "dilations": [1, 1], "pads": [0] * 4, "strides": [1, 1]},
    }
    return Case([_image(draw, 3, 2, 2)], attributes.get(op, {}))


@row("workbench.maskunpool", *OWN)
def _mask_unpool(draw: Draw, op: str) -> Case:
    x = _image(draw, 3, 2, 2)
    return Case([x, draw.flags(*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3])], {"factor": 2})


@row("workbench.BPA workbench.BPW", *OWN, exact=False)
def _gradient(draw: Draw, op: str) -> Case:
    window = {"dilations": [1, 1], "pads": [0] * 4, "strides": [1, 1]}
    if op == "workbench.BPA":
        extra = {"group": 1, "output_padding": [0, 0]}
        return Case([draw.normal(1, 4, 3, 3), Fixed(draw.normal(4, 2, 2, 2))], window | extra)
    return Case([draw.normal(2, 3, 5, 5), draw.normal(2, 4, 4, 4)], window | {"kernel_shape": [2, 2]})


# ---- matrix products ---------------------------------------------------------------------------

LAST = ("would not be the last",)


def _factors(draw: Draw, make) -> tuple[np.ndarray, np.ndarray, int]:
    """Two operands of a product, and the larger rank."""
    batch = draw.dims(1, 3)
    second = draw.one_of([], [], batch, [draw.one_of(d, 1) for d in batch], batch[1:])
    first = [] if second == batch and draw.one_of(True, False, False) else batch
    a, b = make(*first, 3, 4), make(*second, 4, 2)
    return a, b, max(a.ndim, b.ndim)


@row("MatMul", *LAST, "Gemm takes a transposed operand", exact=False)
def _matmul(draw: Draw, op: str) -> Case:
    a, b, rank = _factors(draw, draw.normal)
    if draw.one_of(True, False, False, False):
        a, b, rank = draw.normal(3, 4), draw.normal(4, 2), 2
    fixed = draw.one_of(0, 1, None)
    if fixed is not None and (a, b)[1 - fixed].ndim < rank:
        fixed = None
    return Case([Fixed(v) if i == fixed else v for i, v in enumerate((a, b))], rank=rank)


@row(" ".join(f"workbench.MatMulAdd{one.name}" for one in OF_PRODUCTS), *LAST, exact=False)
def _fused_matmul(draw: Draw, op: str) -> Case:
    weight, bias = draw.normal(4, 2), draw.normal(2)
    operands = [draw.normal(*draw.dims(1, 3), 4), draw.one_of(weight, Fixed(weight)), draw.one_of(bias, Fixed(bias))]
    return Case(operands, _approximation(draw, op))


@row(" ".join(f"workbench.Gemm{one.name}" for one in OF_PRODUCTS), exact=False)
def _fused_gemm(draw: Draw, op: str) -> Case:
    case = _gemm(draw, "Gemm")
    return Case(case.operands, case.attributes | _approximation(draw, op), rank=2)


def _approximation(draw: Draw, op: str) -> dict:
    return {"approximate": draw.one_of("none", "tanh")} if op.endswith("Gelu") else {}


@row("MatMulInteger", *LAST, "a number for each")
def _matmul_integer(draw: Draw, op: str) -> Case:
    a, b, rank = _factors(draw, lambda *shape: draw.integers(0, 255, *shape, dtype=np.uint8))
    columns = draw.one_of([], [2]) if b.ndim == 2 else []
    zeros = [Fixed(draw.integers(0, 9, *shape, dtype=np.uint8)) for shape in (draw.one_of([], [1]), columns)]
    return Case([a, b, *zeros[: draw.one_of(0, 1, 2)]], rank=rank)


@row("QLinearMatMul", *LAST, "a number for each")
def _qlinear_matmul(draw: Draw, op: str) -> Case:
    a, b, rank = _factors(draw, lambda *shape: draw.integers(0, 255, *shape, dtype=np.uint8))
    scale, zero = Fixed(np.array(0.02, np.float32)), Fixed(np.array(3, np.uint8))
    wide = Fixed(np.array(0.3, np.float32))
    return Case([a, scale, zero, b, scale, zero, wide, zero], rank=rank)


@row("Gemm", exact=False)
def _gemm(draw: Draw, op: str) -> Case:
    turns = {"transA": draw.one_of(0, 1), "transB": draw.one_of(0, 1), "alpha": 0.5}
    a, b = draw.normal(3, 4), draw.normal(4, 2)
    a, b = a.T.copy() if turns["transA"] else a, b.T.copy() if turns["transB"] else b
    operands = draw.one_of([a, Fixed(b)], [Fixed(a), b], [a, b])
    return Case([*operands, *draw.one_of([], [draw.normal(2)])], turns, rank=2)


@row("Einsum", "an equation with implicit axes", exact=False)
def _einsum(draw: Draw, op: str) -> Case:
    equation = draw.one_of("bhqd,bhkd->bhqk", "bqhd,bkhd->bhqk", "bhqd, bhkd -> hq", "...hqd,...hkd->...hqk")
    shapes = ([2, 5, 3, 4], [2, 6, 3, 4]) if equation.startswith("bqhd") else ([2, 3, 5, 4], [2, 3, 6, 4])
    return Case([draw.normal(*shape) for shape in shapes], {"equation": equation})
