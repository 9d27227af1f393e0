"""Concats of channels without copies: what computes an operand writes it into the result.

With channels last the operands of such a Concat interleave in memory, so that copying them is slow. The first call that
computes one makes the buffer for all; those after it get the buffer by its result, which is a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from workbench.ops.lazy import torch as late_torch
from workbench.run.torch.executor.instruction import Instruction
from workbench.run.torch.executor.program import Program
from workbench.run.torch.fused.lowering import Join, Lowering
from workbench.run.torch.fused.product import TO_NCHW, TO_NHWC, axis_of_channels

if TYPE_CHECKING:
    import torch


def join_of(
    body: Program,
    call: Instruction,
    concat: Instruction,
    shapes: Mapping[int, tuple[int, ...]],
    is_last: bool,
    into: Callable[..., torch.Tensor],
) -> Join:
    """Of a group with a call and a Concat after it. into: as of `Lowering`, of the call."""
    axis = axis_of_channels(is_last)
    sizes = [shapes[register][axis] for register in concat.inputs]
    first = dict(enumerate(accumulate(sizes, initial=0)))  # channels, by operand of the Concat
    own = concat.inputs.index(call.outputs[0])
    joined = [(body.inputs.index(register), first[i], sizes[i]) for i, register in enumerate(concat.inputs) if i != own]
    read = [body.inputs.index(register) for register in call.inputs]
    shape = list(shapes[concat.outputs[0]])
    shape.append(shape.pop(axis))

    def run(buffer: torch.Tensor | None, there: Collection[int], operands: Sequence[torch.Tensor]) -> torch.Tensor:
        if buffer is None:
            buffer = late_torch.empty(shape, dtype=late_torch.float32)
        for place, offset, size in joined:
            if place not in there:
                value = operands[place]
                buffer[..., offset : offset + size] = value if is_last else value.permute(TO_NHWC)
        into(buffer, first[own], *[operands[place] for place in read])
        return buffer if is_last else buffer.permute(TO_NCHW)

    return Join(tuple(shape), tuple((place, offset) for place, offset, _ in joined), run)


def write_in_place(program: Program, lowerings: Mapping[int, Lowering]) -> None:
    """Let calls write into the Concats that alone read what they compute. lowerings: by place of the step."""
    producers = {register: place for place, step in enumerate(program.steps) for register in step.outputs}
    for place, lowering in lowerings.items():
        if lowering.join is not None:
            _write_in_place(program, program.steps[place], lowering.join, lowerings, producers)
    program.free_after_last_use()


def _write_in_place(
    program: Program, joining: Instruction, join: Join, lowerings: Mapping[int, Lowering], producers: Mapping[int, int]
) -> None:
    writers = []
    for operand, offset in join.offsets:
        register = joining.inputs[operand]
        producer = producers.get(register, -1)
        into = lowerings[producer].into if producer in lowerings else None
        if into is not None and _is_read_once(program, register):
            writers.append((producer, operand, into, offset))
    if not writers:
        return
    strides = late_torch.empty(join.shape, device="meta").stride()
    writers.sort(key=lambda writer: writer[0])
    (first, first_operand, into, offset), *others = writers
    program.steps[first].run = partial(_begin, into, join.shape, offset)
    for producer, _, into, offset in others:
        step = program.steps[producer]
        step.inputs = (*step.inputs, joining.inputs[first_operand])
        step.run = partial(_go_on, into, join.shape, strides, offset)
    there = frozenset(operand for _, operand, _, _ in writers)

    def run(call: Any, *operands: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = join.run(_buffer(operands[first_operand], join.shape, strides), there, operands)
        return result

    joining.run = run


def _is_read_once(program: Program, register: int) -> bool:
    reads = 0
    for step in program.steps:
        bodies = (read for _, captured in step.call.bodies.values() for read in captured)
        reads += [*step.inputs, *step.captured, *bodies].count(register)
    return reads == 1 and register not in program.outputs


def _begin(into: Callable[..., torch.Tensor], shape: Sequence[int], offset: int, call: Any, *operands: Any) -> Any:
    return into(late_torch.empty(shape, dtype=late_torch.float32), offset, *operands)


def _go_on(
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
    """The whole buffer of which this is a part."""
    return part.as_strided(shape, strides, 0)
