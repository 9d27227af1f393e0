"""Convolutions and products of constant weights as calls of oneDNN or BLAS, with the operators behind them.

oneDNN's weights are reordered once. A convolution computes channels last, whatever the layout of the graph: its operand
and result are views of such tensors. A product of matrices, and a convolution that is one, is computed by whichever
of the two is faster: a call of oneDNN takes longer to prepare, and takes the operators behind it along.

Source: oneDNN's post-ops, https://uxlfoundation.github.io/oneDNN/dev_guide_attributes_post_ops.html, through the
operators that inductor calls, torch/_inductor/fx_passes/mkldnn_fusion.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import UserError
from workbench.ops import contract_of
from workbench.ops.channels_last import parse_channels_last
from workbench.ops.lazy import F
from workbench.ops.lazy import torch as late_torch
from workbench.ops.windows import Window, torch_pads
from workbench.run.torch.fused.activations import NOTHING, Unary, unary_of
from workbench.run.torch.fused.lowering import Lowering, NoLowering
from workbench.run.torch.fused.trials import fastest_ms
from workbench.run.torch.program import ABSENT, Instruction, Program
from workbench.run.worker.failures import first_line

if TYPE_CHECKING:
    import torch

_TO_NHWC, _TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
_Run = Callable[..., Any]


@dataclass(frozen=True)
class _Call:
    """A product's call, and whose it is."""

    run: _Run
    library: Literal["oneDNN", "BLAS"] = "oneDNN"


@dataclass
class _Behind:
    """What a product takes along: an Add of `bias` or `other`, then `unary`. result: the register of the last."""

    result: int
    steps: list[Instruction]
    bias: torch.Tensor | None = None
    other: int | None = None
    unary: Unary = NOTHING


def has_product(body: Program) -> bool:
    """Whether a group has a convolution or a product of matrices."""
    contracts = [contract_of(step.node) for step in body.steps]
    return any(_plain_op(step) in _PRODUCTS for step in body.steps) or any(
        contract is not None and contract.category in ("convolution", "matmul") for contract in contracts
    )


def product_calls(body: Program, constants: Mapping[int, torch.Tensor], values: Mapping[str, Any]) -> Lowering:
    """The group with its products as calls of oneDNN. Raises NoLowering.

    constants: the operands of the group that are constants, by place.
    values:    its operands, and what it computed from them, by name.
    """
    if not late_torch.backends.mkldnn.is_available():
        raise NoLowering("this torch is built without oneDNN")
    own = Program(body.graph, body.setting, body.binding)
    known = own.constant_registers | {own.inputs[place]: value for place, value in constants.items()}
    shapes = {
        own.register_of[name]: tuple(value.shape)
        for name, value in values.items()
        if name in own.register_of and isinstance(value, late_torch.Tensor)
    }
    try:
        calls = {step.node.name: used for step in list(own.steps) if (used := _use(own, step, known, shapes))}
    except RuntimeError as error:  # weights that it cannot reorder
        raise NoLowering(f"oneDNN refuses: {first_line(error)}") from error
    if not calls:
        raise NoLowering("oneDNN has no call for its product, or the weights are computed")
    own.free_after_last_use()
    read = {*own.outputs, *(register for step in own.steps for register in (*step.inputs, *step.captured))}
    places = tuple(place for place, register in enumerate(own.inputs) if register in read)
    own.inputs = [own.inputs[place] for place in places]
    rest = [step.node.op_type for step in own.steps if step.node.name not in calls]
    _try(own, [values[body.graph.inputs[place]] for place in places])
    libraries = {library for library, _ in calls.values()}
    phrases = [f"{words} ({library})" if len(libraries) > 1 else words for library, words in calls.values()]
    how = f"one call for {', one for '.join(phrases)}" + (f"; {', '.join(rest)} one by one" if rest else "")
    weights = sum(value.nbytes for place, value in constants.items() if place not in places)
    return Lowering(max(libraries), how, own.call, places, packed_bytes=weights)


def _try(program: Program, operands: Sequence[Any]) -> None:
    """Run once. Raises NoLowering if a call fails, or would be left to another runtime."""
    try:
        program.execute(operands, ())
    except UserError as error:
        raise NoLowering(f"oneDNN fails: {error}") from error
    if any(step.one_node is not None for step in program.steps):
        raise NoLowering("this oneDNN has no kernel for it")


def _use(
    body: Program, step: Instruction, known: Mapping[int, torch.Tensor], shapes: Mapping[int, tuple[int, ...]]
) -> tuple[str, str] | None:
    """Replace a product of the program by one call: of which library, and a phrase for it; None if that cannot be."""
    make = _maker(step, known, shapes)
    if make is None:
        return None
    behind = _behind(body, step, known, shapes)
    made = make(behind)
    step.run = made.run
    step.inputs = (step.inputs[0], *(() if behind.other is None else (behind.other,)))
    step.outputs = (behind.result,)
    body.steps = [other for other in body.steps if other not in behind.steps and other is not step]
    body.steps.insert(_after(body, step.inputs), step)
    return made.library, " + ".join((_plain_op(step), *(other.node.op_type for other in behind.steps)))


def _after(body: Program, registers: Sequence[int]) -> int:
    """The place of the first step that may read these registers."""
    makers = [place for place, step in enumerate(body.steps) if not set(registers).isdisjoint(step.outputs)]
    return max(makers, default=-1) + 1


# ---- products ------------------------------------------------------------------------------


def _plain_op(step: Instruction) -> str:
    """Conv for its channels-last forms too."""
    parts = parse_channels_last(step.node.domain, step.node.op_type)
    return step.node.op if parts is None else parts.op_type


def _maker(
    step: Instruction, known: Mapping[int, torch.Tensor], shapes: Mapping[int, tuple[int, ...]]
) -> Callable[[_Behind], _Call] | None:
    """What makes the call for a product; None if there is none."""
    make = _PRODUCTS.get(_plain_op(step))
    if make is None or step.inputs[1] not in known or step.inputs[0] not in shapes:
        return None
    if _has_bias(step) and step.inputs[2] not in known:
        return None
    return None if known[step.inputs[1]].dtype != late_torch.float32 else make(step, known, shapes[step.inputs[0]])


def _convolution(
    step: Instruction, known: Mapping[int, torch.Tensor], shape: tuple[int, ...]
) -> Callable[[_Behind], _Call] | None:
    weight = known[step.inputs[1]]
    if len(shape) != 4:
        return None
    parts = parse_channels_last(step.node.domain, step.node.op_type)
    if parts is not None and parts.weight_perm is not None:
        weight = weight.permute(parts.weight_perm)
    spatial = shape[2:] if parts is None else shape[1:3]
    window = Window.of(step.call, weight.shape[2:], spatial)
    pads = torch_pads(window.begins, window.ends) if window.begins != window.ends else None
    padding = [0, 0] if pads else list(window.begins)
    strides, dilations, group = list(window.strides), list(window.dilations), step.call.attr("group", 1)
    is_product = group == 1 and {*weight.shape[2:], *strides} == {1} and not any((*window.begins, *window.ends))

    def made(behind: _Behind) -> _Call:
        if is_product and behind.other is None:
            return _product_of_channels(weight.flatten(1), math.prod((shape[0], *spatial)), behind, parts is not None)
        reorder = late_torch.ops.mkldnn._reorder_convolution_weight
        packed = reorder(weight.contiguous(), padding, strides, dilations, group)
        bias, unary, scalars = behind.bias, behind.unary, list(behind.unary.scalars)
        plain = late_torch.ops.mkldnn._convolution_pointwise.default
        binary = late_torch.ops.mkldnn._convolution_pointwise.binary

        def run(call: Any, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
            x = _image(x, parts is not None)
            if pads:
                x = F.pad(x, pads)
            if other is None:
                y = plain(x, packed, bias, padding, strides, dilations, group, unary.name, scalars, unary.algorithm)
            else:
                name = None if unary.name == "none" else unary.name
                added = _image(other, parts is not None)
                y = binary(x, added, packed, bias, padding, strides, dilations, group, "add", None, name, [], None)
            return y if parts is None else y.permute(_TO_NHWC)

        return _Call(run)

    return made


def _product_of_channels(weight: torch.Tensor, rows: int, behind: _Behind, is_last: bool) -> _Call:
    """A convolution with a window of one element as a product, which has less to prepare in each call."""
    product = _linear(weight, (rows, weight.shape[1]))(behind)

    def run(call: Any, x: torch.Tensor) -> torch.Tensor:
        y = product.run(call, (x if is_last else x.permute(_TO_NHWC)).contiguous())
        return y if is_last else y.permute(_TO_NCHW)

    return _Call(run, product.library)


def _image(value: torch.Tensor, is_last: bool) -> torch.Tensor:
    """The value as NCHW, channels last in memory."""
    value = value.permute(_TO_NCHW) if is_last else value
    return value.contiguous(memory_format=late_torch.channels_last)


def _gemm(
    step: Instruction, known: Mapping[int, torch.Tensor], shape: tuple[int, ...]
) -> Callable[[_Behind], _Call] | None:
    attr = step.call.attr
    if attr("transA", 0) or attr("alpha", 1.0) != 1.0 or attr("beta", 1.0) != 1.0:
        return None
    weight = known[step.inputs[1]] if attr("transB", 0) else known[step.inputs[1]].t()
    if _has_bias(step) and not _is_row(known[step.inputs[2]], (shape[0], weight.shape[0]), -1):
        return None
    return _linear(weight, shape)


def _matmul(
    step: Instruction, known: Mapping[int, torch.Tensor], shape: tuple[int, ...]
) -> Callable[[_Behind], _Call] | None:
    weight = known[step.inputs[1]]
    return None if weight.dim() != 2 or len(shape) < 2 else _linear(weight.t(), shape)


def _linear(weight: torch.Tensor, shape: tuple[int, ...]) -> Callable[[_Behind], _Call]:
    """weight: [outputs, inputs]."""
    rows = math.prod(shape[:-1])

    def made(behind: _Behind) -> _Call:
        ways = _Call(_linear_by_onednn(weight, rows, behind)), _Call(_linear_by_blas(weight, behind), "BLAS")
        example = late_torch.zeros(rows, weight.shape[1])
        others = () if behind.other is None else (late_torch.zeros(rows, weight.shape[0]),)
        return _faster(ways, (example, *others))

    return made


def _linear_by_onednn(weight: torch.Tensor, rows: int, behind: _Behind) -> _Run:
    packed = late_torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
    bias, unary, scalars = behind.bias, behind.unary, list(behind.unary.scalars)
    plain = late_torch.ops.mkldnn._linear_pointwise.default
    binary = late_torch.ops.mkldnn._linear_pointwise.binary

    def run(call: Any, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        if other is None:
            return plain(x, packed, bias, unary.name, scalars, unary.algorithm)
        return binary(x, other, packed, bias, "add")

    return run


def _linear_by_blas(weight: torch.Tensor, behind: _Behind) -> _Run:
    bias, activate = behind.bias, behind.unary.in_place

    def run(call: Any, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        y = F.linear(x, weight, bias)
        return activate(y if other is None else y.add_(other))

    return run


def _faster(ways: Sequence[_Call], operands: Sequence[torch.Tensor]) -> _Call:
    with late_torch.inference_mode():
        times = fastest_ms([partial(way.run, None, *operands) for way in ways])
    return ways[times.index(min(times))]


_PRODUCTS = {"Conv": _convolution, "Gemm": _gemm, "MatMul": _matmul}


# ---- what stands behind them -----------------------------------------------------------------


def _behind(
    body: Program,
    product: Instruction,
    known: Mapping[int, torch.Tensor],
    shapes: Mapping[int, tuple[int, ...]],
) -> _Behind:
    """The operators that the product's call can take along."""
    found = _with_bias(body, product, known, shapes)
    add = _only_reader(body, found.result)
    if add is not None and add.node.op in ("Add", "Sum") and len(set(add.inputs)) == len(add.inputs) == 2:
        other = next(register for register in add.inputs if register != found.result)
        if other not in known and shapes.get(other) == shapes.get(found.result):
            found = replace(found, result=add.outputs[0], steps=[*found.steps, add], other=other)
            relu = _only_reader(body, found.result)
            if _plain_op(product) == "Conv" and relu is not None and relu.node.op == "Relu":
                found = replace(found, result=relu.outputs[0], steps=[*found.steps, relu], unary=Unary("relu"))
            return found
    swish = _swish(body, found.result)
    if swish is not None:
        return replace(found, result=swish[-1].outputs[0], steps=[*found.steps, *swish], unary=Unary("swish"))
    step = _only_reader(body, found.result)
    unary = None if step is None else unary_of(step, found.result, known)
    if step is None or unary is None:
        return found
    return replace(found, result=step.outputs[0], steps=[*found.steps, step], unary=unary)


def _with_bias(
    body: Program,
    product: Instruction,
    known: Mapping[int, torch.Tensor],
    shapes: Mapping[int, tuple[int, ...]],
) -> _Behind:
    """The product with its own bias, or with one that is added behind it."""
    result = product.outputs[0]
    if _has_bias(product):
        return _Behind(result, [], known[product.inputs[2]].reshape(-1))
    add = _only_reader(body, result)
    if add is None or add.node.op != "Add" or set(add.inputs).isdisjoint(known):
        return _Behind(result, [])
    summand = known[next(register for register in add.inputs if register in known)]
    if not _is_row(summand, shapes[result], _channels(product)):
        return _Behind(result, [])
    return _Behind(add.outputs[0], [add], summand.reshape(-1))


def _has_bias(product: Instruction) -> bool:
    return len(product.inputs) > 2 and product.inputs[2] != ABSENT


def _channels(product: Instruction) -> int:
    """The axis of the result along which a bias lies."""
    return -3 if product.node.op == "Conv" else -1


def _is_row(value: torch.Tensor, shape: tuple[int, ...], axis: int) -> bool:
    """Whether it has one number for each place of that axis, counted from the end, of a result of that shape."""
    fits = -axis <= value.dim() <= len(shape) and value.dtype == late_torch.float32
    return fits and value.numel() == value.shape[axis] == shape[axis]


def _readers(body: Program, register: int) -> list[Instruction]:
    return [step for step in body.steps if register in (*step.inputs, *step.captured)]


def _only_reader(body: Program, register: int) -> Instruction | None:
    readers = _readers(body, register)
    return readers[0] if len(readers) == 1 and register not in body.outputs else None


def _swish(body: Program, register: int) -> list[Instruction] | None:
    """Sigmoid and Mul of x * sigmoid(x), if nothing else reads x."""
    readers = _readers(body, register)
    if len(readers) != 2 or register in body.outputs:
        return None
    sigmoid, mul = sorted(readers, key=lambda step: step.node.op == "Mul")
    if (sigmoid.node.op, mul.node.op) != ("Sigmoid", "Mul") or _only_reader(body, sigmoid.outputs[0]) is not mul:
        return None
    return [sigmoid, mul] if set(mul.inputs) == {register, sigmoid.outputs[0]} else None
