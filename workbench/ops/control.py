"""Control flow, whose bodies are run by `call.run_body`."""

from __future__ import annotations

import itertools

from workbench.ops.contract import operator
from workbench.ops.dtypes import CannotRun, torch_dtype
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import BARRIER


@operator("If", category="control", layout=BARRIER, fusion=OPAQUE, host_inputs=(0,))
def if_(call, condition):
    return tuple(call.run_body(call.attr("then_branch" if bool(condition) else "else_branch"), ()))


@operator("Loop", category="control", layout=BARRIER, fusion=OPAQUE, host_inputs=(0, 1))
def loop(call, trips, condition=None, *carried):
    """The final carried values, then the stacked other results of all iterations."""
    body = call.attr("body")
    count = None if trips is None else int(trips)
    goes_on = True if condition is None else bool(condition)
    collected: list[list[torch.Tensor]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
    for step in itertools.count():
        if not goes_on or step == count:
            break
        number = torch.full((), step, dtype=torch.int64, device=call.device)
        verdict, *results = call.run_body(body, (number, torch.tensor(goes_on), *carried))
        goes_on = bool(verdict)
        carried = tuple(results[: len(carried)])
        for column, value in zip(collected, results[len(carried) :], strict=True):
            column.append(value)
    results = body.outputs[1 + len(carried) :]
    stacked = [
        torch.stack(column) if column else _of_no_turn(call, body, value)
        for column, value in zip(collected, results, strict=True)
    ]
    return *carried, *stacked


def _of_no_turn(call, body, value):
    """What a Loop that never runs returns for a result of its body: sizes that the body does not fix are 0 too."""
    type_ = body.tensor_type(value)
    if type_ is None:
        return torch.zeros(0, device=call.device)
    sizes = [dim if isinstance(dim, int) else 0 for dim in type_.shape or ()]
    return torch.zeros((0, *sizes), dtype=torch_dtype(type_.dtype), device=call.device)


@operator("Scan", category="control", layout=BARRIER, fusion=OPAQUE)
def scan(call, *operands):
    """The final states, then the other results of all steps, stacked along their axes."""
    if call.opset < 9 or operands[0] is None:
        raise CannotRun("before opset 9 Scan has a batch axis")
    body, scanned = call.attr("body"), call.attr("num_scan_inputs")
    states, sequences = operands[: len(operands) - scanned], operands[len(operands) - scanned :]
    results = len(body.outputs) - len(states)
    axes_in = call.attr("scan_input_axes") or (0,) * scanned
    axes_out = call.attr("scan_output_axes") or (0,) * results
    backwards_in = call.attr("scan_input_directions") or (0,) * scanned
    backwards_out = call.attr("scan_output_directions") or (0,) * results
    length = sequences[0].shape[axes_in[0]]
    collected: list[list[torch.Tensor]] = [[] for _ in range(results)]
    for step in range(length):
        slices = [
            x.select(axis, length - 1 - step if back else step)
            for x, axis, back in zip(sequences, axes_in, backwards_in, strict=True)
        ]
        made = call.run_body(body, (*states, *slices))
        states = made[: len(states)]
        for column, value in zip(collected, made[len(states) :], strict=True):
            column.append(value)
    stacked = [
        torch.stack(column[::-1] if back else column, axis)
        for column, axis, back in zip(collected, axes_out, backwards_out, strict=True)
    ]
    return *states, *stacked


@operator("SequenceMap", category="control", layout=BARRIER, fusion=OPAQUE)
def sequence_map(call, first, *others):
    """The body's results for each element of the first sequence; operands that are tensors are passed to every call."""
    body = call.attr("body")
    results: tuple[list[torch.Tensor], ...] = tuple([] for _ in body.outputs)
    for i, element in enumerate(first):
        made = call.run_body(body, (element, *(x[i] if isinstance(x, list) else x for x in others)))
        for sequence, value in zip(results, made, strict=True):
            sequence.append(value)
    return results
