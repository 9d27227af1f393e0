"""The convolutions and products of constant weights in a group, each as one call with the operators after it.

A convolution computes channels last, whatever the layout of the graph: its operand and result are views of such
tensors. Each is computed by whichever is the fastest: oneDNN, whose calls take long to prepare; BLAS, which takes
nothing along; or our own kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from workbench.errors import UserError
from workbench.ops import contract_of
from workbench.ops.channels_last import parse_channels_last, plain_op
from workbench.ops.lazy import torch as late_torch
from workbench.ops.windows import Window
from workbench.run.torch.executor.instruction import Instruction
from workbench.run.torch.executor.program import Program
from workbench.run.torch.fused.concat_views import join_of
from workbench.run.torch.fused.convolutions import CompiledCall
from workbench.run.torch.fused.epilogue import (
    Epilogue,
    concat_after,
    epilogue_of_product,
    has_bias,
    is_channel_bias,
    with_shuffle,
)
from workbench.run.torch.fused.libraries import blas_product, onednn_product
from workbench.run.torch.fused.lowering import Lowering, NoLowering
from workbench.run.torch.fused.product import TO_NCHW, TO_NHWC, ConstantProduct, RunProduct, axis_of_channels
from workbench.run.torch.fused.trials import fastest_ms
from workbench.run.worker.failures import first_line

if TYPE_CHECKING:
    import torch

_FEW_CHANNELS = 16  # of an image, which is read as it lies
_OWN = "C++"
# A trial shows neither that our own kernel has nothing to prepare, since in it all is in the caches, nor that it can
# write into the result of a Concat.
_OWN_MARGIN = 1.15
LIBRARIES: Mapping[str, Callable[[ConstantProduct, Epilogue], RunProduct]] = {
    "oneDNN": onednn_product,
    _OWN: CompiledCall,
    "BLAS": blas_product,
}
Fastest = dict[Hashable, str]


@dataclass(frozen=True)
class _Call:
    """A product's call, and whose it is."""

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

    constants: the operands of the group that are constants, by place.
    values:    its operands, and what it computed from them, by name.
    fastest:   the library that was the fastest, by what it had to compute; what is found out is added.
    """
    own = Program(body.graph, body.setting, body.binding)
    known = own.constant_registers | {own.inputs[place]: value for place, value in constants.items()}
    tensors = {
        own.register_of[name]: value
        for name, value in values.items()
        if name in own.register_of and isinstance(value, late_torch.Tensor)
    }
    group = _Group(own, known, tensors, fastest)
    calls = {step.node.name: used for step in list(own.steps) if (used := _use(group, step))}
    if not calls:
        raise NoLowering("there is no call for its product, or the weights are computed")
    own.free_after_last_use()
    read = {*own.outputs, *(register for step in own.steps for register in (*step.inputs, *step.captured))}
    places = tuple(place for place, register in enumerate(own.inputs) if register in read)
    own.inputs = [own.inputs[place] for place in places]
    rest = [step.node.op_type for step in own.steps if step.node.name not in calls]
    _try(own, [values[body.graph.inputs[place]] for place in places])
    libraries = {used.call.library for used in calls.values()}
    phrases = [f"{used.words} ({used.call.library})" if len(libraries) > 1 else used.words for used in calls.values()]
    how = f"one call for {', one for '.join(phrases)}" + (f"; {', '.join(rest)} one by one" if rest else "")
    weights = sum(value.nbytes for place, value in constants.items() if place not in places)
    plain = Lowering(max(libraries), how, own.call, places, packed_bytes=weights)
    return plain if len(calls) > 1 else _alone(group, next(iter(calls.values())), plain)


def _alone(group: _Group, used: _Used, plain: Lowering) -> Lowering:
    """The lowering of a group with one call, without the registers of a program if nothing is after the call.

    With a Concat of channels after it our own kernel writes where the Concat would.
    """
    body, step = group.body, used.step
    into = partial(_into, used.call.run, used.is_last) if isinstance(used.call.run, CompiledCall) else None
    if body.steps == [step]:
        places = tuple(plain.places[body.inputs.index(register)] for register in step.inputs)
        return replace(plain, run=step.run, places=places, into=into)
    concat = concat_after(body, step.outputs[0], group.shapes, axis_of_channels(used.is_last))
    if into is None or concat is None or body.steps != [step, concat] or len(body.outputs) > 1:
        return plain
    join = join_of(body, step, concat, group.shapes, used.is_last, into)
    how = f"{used.words}, in the result of Concat"
    return replace(plain, how=f"one call for {how}", run=lambda call, *x: join.run(None, (), x), join=join)


def _try(program: Program, operands: Sequence[Any]) -> None:
    """Run once. Raises NoLowering if a call fails, or would be left to another runtime."""
    try:
        program.execute(operands, ())
    except UserError as error:
        raise NoLowering(f"a call fails: {error}") from error
    if any(step.one_node is not None for step in program.steps):
        raise NoLowering("this torch has no kernel for it")


@dataclass(frozen=True)
class _Group:
    """A group on its way to calls. known, tensors: constants, and what the deciding run saw, by register."""

    body: Program
    known: Mapping[int, torch.Tensor]
    tensors: Mapping[int, torch.Tensor]
    fastest: Fastest

    @cached_property
    def shapes(self) -> dict[int, tuple[int, ...]]:
        return {register: tuple(tensor.shape) for register, tensor in self.tensors.items()}


@dataclass(frozen=True)
class _Used:
    """A call and the step that it is now, in words too. is_last: as of `_Found`."""

    call: _Call
    step: Instruction
    words: str
    is_last: bool


def _use(group: _Group, step: Instruction) -> _Used | None:
    """Replace a product of the group by one call; None if that cannot be."""
    result = _found(group, step)
    if result is None:
        return None
    call, epilogue = _call_of(group, step, result)
    step.run = _in_layout(call.run, result.is_last)
    step.inputs = (step.inputs[0], *(() if epilogue.other is None else (epilogue.other,)))
    step.outputs = (epilogue.result,)
    body = group.body
    body.steps = [other for other in body.steps if other not in epilogue.steps and other is not step]
    body.steps.insert(_after(body, step.inputs), step)
    words = " + ".join((plain_op(step.node), *(other.node.op_type for other in epilogue.steps)))
    return _Used(call, step, words, result.is_last)


def _after(body: Program, registers: Sequence[int]) -> int:
    """The place of the first step that may read these registers."""
    producers = [place for place, step in enumerate(body.steps) if not set(registers).isdisjoint(step.outputs)]
    return max(producers, default=-1) + 1


# ---- products ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """A product of the program. is_last: whether its operand and its result have the channels last already."""

    product: ConstantProduct
    is_last: bool = True


def _found(group: _Group, step: Instruction) -> _Found | None:
    """The product that a step is; None if it is none, or not one of a constant weight of float32."""
    make, known = _PRODUCTS.get(plain_op(step.node)), group.known
    if make is None or step.inputs[1] not in known or step.inputs[0] not in group.tensors:
        return None
    if has_bias(step) and step.inputs[2] not in known:
        return None
    return None if known[step.inputs[1]].dtype != late_torch.float32 else make(group, step)


def _convolution(group: _Group, step: Instruction) -> _Found | None:
    x, weight = group.tensors[step.inputs[0]], group.known[step.inputs[1]]
    if x.dim() != 4:
        return None
    parts = parse_channels_last(step.node.domain, step.node.op_type)
    if parts is None:
        x = x.permute(TO_NHWC)
    elif parts.weight_perm is not None:
        weight = weight.permute(parts.weight_perm)
    window = Window.of(step.call, weight.shape[2:], x.shape[1:3])
    is_first = x.shape[-1] <= _FEW_CHANNELS and x.permute(TO_NCHW).is_contiguous() and not x.is_contiguous()
    product = ConstantProduct(weight, tuple(x.shape), window, step.call.attr("group", 1), is_first)
    return _Found(product, parts is not None)


def _gemm(group: _Group, step: Instruction) -> _Found | None:
    attr, known = step.call.attr, group.known
    if attr("transA", 0) or attr("alpha", 1.0) != 1.0 or attr("beta", 1.0) != 1.0:
        return None
    shape = group.shapes[step.inputs[0]]
    weight = known[step.inputs[1]] if attr("transB", 0) else known[step.inputs[1]].t()
    if has_bias(step) and not is_channel_bias(known[step.inputs[2]], (shape[0], weight.shape[0]), -1):
        return None
    return _Found(ConstantProduct(weight, shape))


def _matmul(group: _Group, step: Instruction) -> _Found | None:
    weight, shape = group.known[step.inputs[1]], group.shapes[step.inputs[0]]
    return None if weight.dim() != 2 or len(shape) < 2 else _Found(ConstantProduct(weight.t(), shape))


_PRODUCTS = {"Conv": _convolution, "Gemm": _gemm, "MatMul": _matmul}


# ---- their calls ---------------------------------------------------------------------------


def _call_of(group: _Group, step: Instruction, result: _Found) -> tuple[_Call, Epilogue]:
    """The fastest, and what it takes along: a shuffle of channels too, if a library does. Raises NoLowering."""
    epilogue = epilogue_of_product(group.body, step, group.known, group.shapes)
    if result.product.window.kernel:
        shuffled = with_shuffle(group.body, epilogue, group.shapes, axis_of_channels(result.is_last))
        with suppress(NoLowering):
            if shuffled is not None:
                return _call(result.product, shuffled, group.fastest), shuffled
    return _call(result.product, epilogue, group.fastest), epilogue


def _call(product: ConstantProduct, epilogue: Epilogue, fastest: Fastest) -> _Call:
    """The fastest. Raises NoLowering if no library has one."""
    key = *product.kind, epilogue.other is None, epilogue.unary, epilogue.order
    known = fastest.get(key)
    able = LIBRARIES if epilogue.order is None else [_OWN]  # which alone shuffles channels
    calls = _calls(product, epilogue, able if known is None else [known])
    best = calls[0] if len(calls) == 1 else _fastest(calls, product, epilogue)
    fastest[key] = best.library
    return best


def _calls(product: ConstantProduct, epilogue: Epilogue, libraries: Iterable[str]) -> list[_Call]:
    result, refused = [], []
    for library in libraries:
        try:
            result.append(_Call(LIBRARIES[library](product, epilogue), library))
        except NoLowering as reason:
            refused.append(f"{library}: {reason}")
        except RuntimeError as error:  # weights that it cannot reorder
            refused.append(f"{library} refuses: {first_line(error)}")
    if not result:
        raise NoLowering("; ".join(refused))
    return result


def _fastest(calls: Sequence[_Call], product: ConstantProduct, epilogue: Epilogue) -> _Call:
    operands = [product.example()]
    if epilogue.other is not None:
        operands.append(late_torch.zeros(product.result_shape))
    with late_torch.inference_mode():
        times = fastest_ms([partial(call.run, *operands) for call in calls])
    own = next((i for i, call in enumerate(calls) if call.library == _OWN), None)
    if own is not None and times[own] <= _OWN_MARGIN * min(times):
        return calls[own]
    return calls[times.index(min(times))]


def _in_layout(run: RunProduct, is_last: bool) -> Callable[..., torch.Tensor]:
    """The run on operands of the program, and for a result as it wants it."""
    if is_last:
        return lambda call, *operands: run(*operands)
    if isinstance(run, CompiledCall):
        of_images = run.of_images
        return lambda call, *operands: of_images(*operands)
    return lambda call, *operands: run(*[x.permute(TO_NHWC) for x in operands]).permute(TO_NCHW)


def _into(
    call: CompiledCall, is_last: bool, buffer: torch.Tensor, offset: int, *operands: torch.Tensor
) -> torch.Tensor:
    """The same as a part of a buffer with channels last."""
    if is_last:
        return call.into(buffer, offset, *operands)
    return call.into(buffer, offset, *[x.permute(TO_NHWC) for x in operands]).permute(TO_NCHW)
