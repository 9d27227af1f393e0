"""Replaces the convolutions and products of constant weights in a group by calls, with the operators after them.

A convolution is computed channels last for any layout of the graph: its operand and result are views of such tensors.
The fastest of three computes each: oneDNN, whose calls take long to prepare; BLAS, which computes no epilogue; or our
kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from workbench.backends.failures import first_line
from workbench.backends.torch.executor.instruction import Instruction
from workbench.backends.torch.executor.program import Program
from workbench.backends.torch.fused.concat_views import join_of
from workbench.backends.torch.fused.convolutions import CompiledCall
from workbench.backends.torch.fused.epilogue import (
    Epilogue,
    concat_after,
    epilogue_of_product,
    has_bias,
    is_channel_bias,
    with_shuffle,
)
from workbench.backends.torch.fused.interleaved_trials import fastest_ms
from workbench.backends.torch.fused.libraries import blas_product, onednn_product
from workbench.backends.torch.fused.lowering import Lowering, NoLowering
from workbench.backends.torch.fused.product import TO_NCHW, TO_NHWC, ConstantProduct, RunProduct, axis_of_channels
from workbench.errors import UserError
from workbench.ops import contract_of
from workbench.ops.channels_last import parse_channels_last, plain_op
from workbench.ops.lazy import torch as lazy_torch
from workbench.ops.windows import Window

if TYPE_CHECKING:
    import torch

_FEW_CHANNELS = 16  # an image of so few channels is read channels first
_OUR_KERNEL = "C++"
# A trial does not show two advantages of our kernel: it prepares nothing, which matters when caches are cold, and it
# can write into the result of a Concat.
_OUR_MARGIN = 1.15
LIBRARIES: Mapping[str, Callable[[ConstantProduct, Epilogue], RunProduct]] = {
    "oneDNN": onednn_product,
    _OUR_KERNEL: CompiledCall,
    "BLAS": blas_product,
}
Fastest = dict[Hashable, str]


@dataclass(frozen=True)
class _Call:
    """The call of a product, and the library that computes it."""

    run: RunProduct
    library: str


def has_product(body: Program) -> bool:
    """Whether a group has a convolution or a product of matrices."""
    contracts = [contract_of(step.node) for step in body.steps]
    return any(plain_op(step.node) in _PRODUCTS for step in body.steps) or any(
        contract is not None and contract.category in ("convolution", "matmul") for contract in contracts
    )


def product_calls(
    body: Program, constants: Mapping[int, torch.Tensor], values: Mapping[str, Any], fastest: Fastest
) -> Lowering:
    """The group with its products as calls. Raises NoLowering.

    constants: constant operands of the group, by position.
    values:    operands and computed values of the group, by name.
    fastest:   the fastest library by key of the product; new results are added.
    """
    program = Program(body.graph, body.setting, body.binding)
    known = program.constant_registers | {program.inputs[position]: value for position, value in constants.items()}
    tensors = {
        program.register_of[name]: value
        for name, value in values.items()
        if name in program.register_of and isinstance(value, lazy_torch.Tensor)
    }
    group = _Group(program, known, tensors, fastest)
    calls = {step.node.name: use for step in list(program.steps) if (use := _replace_product(group, step))}
    if not calls:
        raise NoLowering("there is no call for its product, or the weights are computed")
    program.free_after_last_use()
    read = {*program.outputs, *(register for step in program.steps for register in (*step.inputs, *step.captured))}
    positions = tuple(position for position, register in enumerate(program.inputs) if register in read)
    program.inputs = [program.inputs[position] for position in positions]
    remaining = [step.node.op_type for step in program.steps if step.node.name not in calls]
    _try(program, [values[body.graph.inputs[position]] for position in positions])
    libraries = {use.call.library for use in calls.values()}
    phrases = [
        f"{use.operators} ({use.call.library})" if len(libraries) > 1 else use.operators for use in calls.values()
    ]
    how = f"one call for {', one for '.join(phrases)}" + (f"; {', '.join(remaining)} one by one" if remaining else "")
    weights = sum(value.nbytes for position, value in constants.items() if position not in positions)
    plain = Lowering(max(libraries), how, program.call, positions, packed_bytes=weights)
    return plain if len(calls) > 1 else _without_program(group, next(iter(calls.values())), plain)


def _without_program(group: _Group, use: _ReplacedProduct, plain: Lowering) -> Lowering:
    """The lowering of a group with one call, without a program if the call is all of the group.

    If a Concat of channels follows, our kernel writes into the result of the Concat.
    """
    body, step = group.body, use.step
    into = partial(_into_part, use.call.run, use.is_channels_last) if isinstance(use.call.run, CompiledCall) else None
    if body.steps == [step]:
        positions = tuple(plain.positions[body.inputs.index(register)] for register in step.inputs)
        return replace(plain, run=step.run, positions=positions, into=into)
    concat = concat_after(body, step.outputs[0], group.shapes, axis_of_channels(use.is_channels_last))
    if into is None or concat is None or body.steps != [step, concat] or len(body.outputs) > 1:
        return plain
    join = join_of(body, step, concat, group.shapes, use.is_channels_last, into)
    how = f"{use.operators}, in the result of Concat"
    return replace(plain, how=f"one call for {how}", run=lambda call, *x: join.run(None, (), x), join=join)


def _try(program: Program, operands: Sequence[Any]) -> None:
    """Run once. Raises NoLowering if a call fails, or if ONNX Runtime would run it."""
    try:
        program.execute(operands, ())
    except UserError as error:
        raise NoLowering(f"a call fails: {error}") from error
    if any(step.one_node is not None for step in program.steps):
        raise NoLowering("this torch has no kernel for it")


@dataclass(frozen=True)
class _Group:
    """A group whose products are replaced. known, tensors: by register, constants and values of the first run."""

    body: Program
    known: Mapping[int, torch.Tensor]
    tensors: Mapping[int, torch.Tensor]
    fastest: Fastest

    @cached_property
    def shapes(self) -> dict[int, tuple[int, ...]]:
        return {register: tuple(tensor.shape) for register, tensor in self.tensors.items()}


@dataclass(frozen=True)
class _ReplacedProduct:
    """A replaced product.

    step:      the step that makes the call.
    operators: the computed operators as text, "Conv + Relu".
    is_channels_last: as in `_Product`.
    """

    call: _Call
    step: Instruction
    operators: str
    is_channels_last: bool


def _replace_product(group: _Group, step: Instruction) -> _ReplacedProduct | None:
    """Replace a product of the group by one call; None if the step is not such a product."""
    result = _product_of(group, step)
    if result is None:
        return None
    call, epilogue = _call_of(group, step, result)
    step.run = _in_layout(call.run, result.is_channels_last)
    step.inputs = (step.inputs[0], *(() if epilogue.other is None else (epilogue.other,)))
    step.outputs = (epilogue.result,)
    body = group.body
    body.steps = [other for other in body.steps if other not in epilogue.steps and other is not step]
    body.steps.insert(_insert_position(body, step.inputs), step)
    operators = " + ".join((plain_op(step.node), *(other.node.op_type for other in epilogue.steps)))
    return _ReplacedProduct(call, step, operators, result.is_channels_last)


def _insert_position(body: Program, registers: Sequence[int]) -> int:
    """The position of the first step that may read these registers."""
    producers = [position for position, step in enumerate(body.steps) if not set(registers).isdisjoint(step.outputs)]
    return max(producers, default=-1) + 1


# ---- products ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Product:
    """A product of the program. is_channels_last: whether its operand and result are channels last in the graph."""

    product: ConstantProduct
    is_channels_last: bool = True


def _product_of(group: _Group, step: Instruction) -> _Product | None:
    """The product of a step; None unless it is a product with a constant float32 weight."""
    make, known = _PRODUCTS.get(plain_op(step.node)), group.known
    if make is None or step.inputs[1] not in known or step.inputs[0] not in group.tensors:
        return None
    if has_bias(step) and step.inputs[2] not in known:
        return None
    return None if known[step.inputs[1]].dtype != lazy_torch.float32 else make(group, step)


def _convolution(group: _Group, step: Instruction) -> _Product | None:
    x, weight = group.tensors[step.inputs[0]], group.known[step.inputs[1]]
    if x.dim() != 4:
        return None
    parts = parse_channels_last(step.node.domain, step.node.op_type)
    if parts is None:
        x = x.permute(TO_NHWC)
    elif parts.weight_perm is not None:
        weight = weight.permute(parts.weight_perm)
    window = Window.of(step.call, weight.shape[2:], x.shape[1:3])
    is_channels_first = x.shape[-1] <= _FEW_CHANNELS and x.permute(TO_NCHW).is_contiguous() and not x.is_contiguous()
    product = ConstantProduct(weight, tuple(x.shape), window, step.call.attr("group", 1), not is_channels_first)
    return _Product(product, parts is not None)


def _gemm(group: _Group, step: Instruction) -> _Product | None:
    attr, known = step.call.attr, group.known
    if attr("transA", 0) or attr("alpha", 1.0) != 1.0 or attr("beta", 1.0) != 1.0:
        return None
    shape = group.shapes[step.inputs[0]]
    weight = known[step.inputs[1]] if attr("transB", 0) else known[step.inputs[1]].t()
    if has_bias(step) and not is_channel_bias(known[step.inputs[2]], (shape[0], weight.shape[0]), -1):
        return None
    return _Product(ConstantProduct(weight, shape))


def _matmul(group: _Group, step: Instruction) -> _Product | None:
    weight, shape = group.known[step.inputs[1]], group.shapes[step.inputs[0]]
    return None if weight.dim() != 2 or len(shape) < 2 else _Product(ConstantProduct(weight.t(), shape))


_PRODUCTS = {"Conv": _convolution, "Gemm": _gemm, "MatMul": _matmul}


# ---- their calls ---------------------------------------------------------------------------


def _call_of(group: _Group, step: Instruction, result: _Product) -> tuple[_Call, Epilogue]:
    """The fastest call and its epilogue, with a shuffle of channels if a library computes it. Raises NoLowering."""
    epilogue = epilogue_of_product(group.body, step, group.known, group.shapes)
    if result.product.window.kernel:
        shuffled = with_shuffle(group.body, epilogue, group.shapes, axis_of_channels(result.is_channels_last))
        with suppress(NoLowering):
            if shuffled is not None:
                return _call(result.product, shuffled, group.fastest), shuffled
    return _call(result.product, epilogue, group.fastest), epilogue


def _call(product: ConstantProduct, epilogue: Epilogue, fastest: Fastest) -> _Call:
    """The fastest call. Raises NoLowering if no library can compute it."""
    key = *product.kind, epilogue.other is None, epilogue.unary, epilogue.order
    known = fastest.get(key)
    candidates = LIBRARIES if epilogue.order is None else [_OUR_KERNEL]  # only our kernel shuffles channels
    calls = _calls(product, epilogue, candidates if known is None else [known])
    best = calls[0] if len(calls) == 1 else _fastest(calls, product, epilogue)
    fastest[key] = best.library
    return best


def _calls(product: ConstantProduct, epilogue: Epilogue, libraries: Iterable[str]) -> list[_Call]:
    result, reasons = [], []
    for library in libraries:
        try:
            result.append(_Call(LIBRARIES[library](product, epilogue), library))
        except NoLowering as reason:
            reasons.append(f"{library}: {reason}")
        except RuntimeError as error:  # oneDNN cannot reorder the weights
            reasons.append(f"{library} refuses: {first_line(error)}")
    if not result:
        raise NoLowering("; ".join(reasons))
    return result


def _fastest(calls: Sequence[_Call], product: ConstantProduct, epilogue: Epilogue) -> _Call:
    operands = [product.example()]
    if epilogue.other is not None:
        operands.append(lazy_torch.zeros(product.result_shape))
    with lazy_torch.inference_mode():
        times = fastest_ms([partial(call.run, *operands) for call in calls])
    our_index = next((i for i, call in enumerate(calls) if call.library == _OUR_KERNEL), None)
    if our_index is not None and times[our_index] <= _OUR_MARGIN * min(times):
        return calls[our_index]
    return calls[times.index(min(times))]


def _in_layout(run: RunProduct, is_channels_last: bool) -> Callable[..., torch.Tensor]:
    """The run on operands and for a result in the layout of the program."""
    if is_channels_last:
        return lambda call, *operands: run(*operands)
    if isinstance(run, CompiledCall):
        of_images = run.of_images
        return lambda call, *operands: of_images(*operands)
    return lambda call, *operands: run(*[x.permute(TO_NHWC) for x in operands]).permute(TO_NCHW)


def _into_part(
    call: CompiledCall, is_channels_last: bool, buffer: torch.Tensor, offset: int, *operands: torch.Tensor
) -> torch.Tensor:
    """The call as in `Lowering.into`, on operands in the layout of the program."""
    if is_channels_last:
        return call.into(buffer, offset, *operands)
    return call.into(buffer, offset, *[x.permute(TO_NHWC) for x in operands]).permute(TO_NCHW)
