"""Products as calls of oneDNN and BLAS. oneDNN's weights are reordered once.

Source: oneDNN's post-ops, https://uxlfoundation.github.io/oneDNN/dev_guide_attributes_post_ops.html, through the
operators that inductor calls, torch/_inductor/fx_passes/mkldnn_fusion.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.backends.torch.fused.epilogue import Epilogue
from workbench.backends.torch.fused.lowering import NoLowering
from workbench.backends.torch.fused.product import TO_NCHW, TO_NHWC, ConstantProduct, RunProduct
from workbench.ops.lazy import F
from workbench.ops.lazy import torch as lazy_torch
from workbench.ops.windows import torch_pads

if TYPE_CHECKING:
    import torch


def onednn_product(product: ConstantProduct, epilogue: Epilogue) -> RunProduct:
    """The product and its epilogue as a call of oneDNN. Raises NoLowering."""
    if not lazy_torch.backends.mkldnn.is_available():
        raise NoLowering("this torch is built without it")
    if epilogue.unary.name == "clamped_linear":
        raise NoLowering("its HardSigmoid has a fixed slope")
    is_linear = product.is_pointwise and (epilogue.other is None or not product.window.kernel)
    return _linear(product, epilogue) if is_linear else _convolution(product, epilogue)


def _convolution(product: ConstantProduct, epilogue: Epilogue) -> RunProduct:
    window, groups = product.window, product.groups
    if len(window.kernel) != 2:
        raise NoLowering("it is only called for images")
    pads = torch_pads(window.begins, window.ends) if window.begins != window.ends else None
    padding = [0, 0] if pads else list(window.begins)
    strides, dilations = list(window.strides), list(window.dilations)
    reorder = lazy_torch.ops.mkldnn._reorder_convolution_weight
    packed = reorder(product.weight.contiguous(), padding, strides, dilations, groups)
    bias, unary, scalars = epilogue.bias, epilogue.unary, list(epilogue.unary.scalars)
    plain = lazy_torch.ops.mkldnn._convolution_pointwise.default
    binary = lazy_torch.ops.mkldnn._convolution_pointwise.binary

    def run(x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        x = x.contiguous().permute(TO_NCHW)
        if pads:
            x = F.pad(x, pads)
        if other is None:
            y = plain(x, packed, bias, padding, strides, dilations, groups, unary.name, scalars, unary.algorithm)
        else:
            added, name = other.contiguous().permute(TO_NCHW), None if unary.name == "none" else unary.name
            y = binary(x, added, packed, bias, padding, strides, dilations, groups, "add", None, name, [], None)
        result: torch.Tensor = y.permute(TO_NHWC)
        return result

    return run


def _linear(product: ConstantProduct, epilogue: Epilogue) -> RunProduct:
    rows, weight = math.prod(product.shape[:-1]), product.weight.flatten(1)
    packed = lazy_torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
    bias, unary, scalars = epilogue.bias, epilogue.unary, list(epilogue.unary.scalars)
    plain = lazy_torch.ops.mkldnn._linear_pointwise.default
    binary = lazy_torch.ops.mkldnn._linear_pointwise.binary

    def run(x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        result: torch.Tensor
        if other is None:
            result = plain(x.contiguous(), packed, bias, unary.name, scalars, unary.algorithm)
        else:
            result = binary(x.contiguous(), other.contiguous(), packed, bias, "add")
        return result

    return run


def blas_product(product: ConstantProduct, epilogue: Epilogue) -> RunProduct:
    """The product and its epilogue as a call of BLAS. Raises NoLowering."""
    if not product.is_pointwise:
        raise NoLowering("it is not a product of matrices")
    weight, bias, activate = product.weight.flatten(1), epilogue.bias, epilogue.unary.in_place

    def run(x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        y = F.linear(x.contiguous(), weight, bias)
        return activate(y if other is None else y.add_(other))

    return run
