"""Concats of channels without copies: the kernels of the operands write into the result.

With channels last the operands of such a Concat interleave in memory, and copying them is slow. The call of the first
operand allocates the buffer of the result. The calls after it derive the buffer from that operand, a view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from workbench.backends.torch.executor.instruction import Instruction
from workbench.backends.torch.executor.program import Program
from workbench.backends.torch.fused.lowering import Join, Lowering
from workbench.backends.torch.fused.product import TO_NCHW, TO_NHWC, axis_of_channels
from workbench.ops.lazy import torch as lazy_torch

if TYPE_CHECKING:
    import torch


def join_of(
    body: Program,
    call: Instruction,
    concat: Instruction,
    shapes: Mapping[int, tuple[int, ...]],
    is_channels_last: bool,
    into: Callable[..., torch.Tensor],
) -> Join:
    """The Join of a group with a call and a Concat after it. into: of the call, as in `Lowering`."""
    axis = axis_of_channels(is_channels_last)
    sizes = [shapes[register][axis] for register in concat.inputs]
    first = dict(enumerate(accumulate(sizes, initial=0)))  # channels, by operand of the Concat
    call_index = concat.inputs.index(call.outputs[0])
    joined = [
        (body.inputs.index(register), first[i], sizes[i]) for i, register in enumerate(concat.inputs) if i != call_index
    ]
    read = [body.inputs.index(register) for register in call.inputs]
    shape = list(shapes[concat.outputs[0]])
    shape.append(shape.pop(axis))

    def run(buffer: torch.Tensor | None, written: Collection[int], operands: Sequence[torch.Tensor]) -> torch.Tensor:
        if buffer is None:
            buffer = lazy_torch.empty(shape, dtype=lazy_torch.float32)
        for position, offset, size in joined:
            if position not in written:
                value = operands[position]
                buffer[..., offset : offset + size] = value if is_channels_last else value.permute(TO_NHWC)
        into(buffer, first[call_index], *[operands[position] for position in read])
        return buffer if is_channels_last else buffer.permute(TO_NCHW)

    return Join(tuple(shape), tuple((position, offset) for position, offset, _ in joined), run)


def write_in_place(program: Program, lowerings: Mapping[int, Lowering]) -> None:
    """Let calls write into a Concat that is the only user of their result. lowerings: by position of the step."""
    producers = {register: position for position, step in enumerate(program.steps) for register in step.outputs}
    for position, lowering in lowerings.items():
        if lowering.join is not None:
            _write_in_place(program, program.steps[position], lowering.join, lowerings, producers)
    program.free_after_last_use()


def _write_in_place(
    program: Program,
    concat_step: Instruction,
    join: Join,
    lowerings: Mapping[int, Lowering],
    producers: Mapping[int, int],
) -> None:
    writers = []
    for operand, offset in join.offsets:
        register = concat_step.inputs[operand]
        producer = producers.get(register, -1)
        into = lowerings[producer].into if producer in lowerings else None
        if into is not None and _is_read_once(program, register):
            writers.append((producer, operand, into, offset))
    if not writers:
        return
    strides = lazy_torch.empty(join.shape, device="meta").stride()
    writers.sort(key=lambda writer: writer[0])
    (first, first_operand, into, offset), *others = writers
    program.steps[first].run = partial(_write_first, into, join.shape, offset)
    for producer, _, into, offset in others:
        step = program.steps[producer]
        step.inputs = (*step.inputs, concat_step.inputs[first_operand])
        step.run = partial(_write_part, into, join.shape, strides, offset)
    written = frozenset(operand for _, operand, _, _ in writers)

    def run(call: Any, *operands: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = join.run(_buffer(operands[first_operand], join.shape, strides), written, operands)
        return result

    concat_step.run = run


def _is_read_once(program: Program, register: int) -> bool:
    reads = 0
    for step in program.steps:
        bodies = (read for _, captured in step.call.bodies.values() for read in captured)
        reads += [*step.inputs, *step.captured, *bodies].count(register)
    return reads == 1 and register not in program.outputs


def _write_first(
    into: Callable[..., torch.Tensor], shape: Sequence[int], offset: int, call: Any, *operands: Any
) -> Any:
    return into(lazy_torch.empty(shape, dtype=lazy_torch.float32), offset, *operands)


def _write_part(
    into: Callable[..., torch.Tensor],
    shape: Sequence[int],
    strides: Sequence[int],
    offset: int,
    call: Any,
    *operands: Any,
) -> Any:
    *own, part = operands
    return into(_buffer(part, shape, strides), offset, *own)


def _buffer(part: torch.Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """The buffer of which `part` is a view."""
    return part.as_strided(shape, strides, 0)
