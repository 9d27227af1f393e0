"""Control flow, whose bodies are run by `call.run_body`."""

from __future__ import annotations

import itertools

from workbench.ir import Graph, TensorType
from workbench.ops.contract import Call, Value, operator
from workbench.ops.dtypes import torch_dtype
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER


@operator("If", category="control", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(0,))
def if_(call: Call, condition: torch.Tensor) -> tuple[Value, ...]:
    return tuple(call.run_body(call.attr("then_branch" if bool(condition) else "else_branch"), ()))


@operator("Loop", category="control", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(0, 1))
def loop(
    call: Call, trips: torch.Tensor | None, condition: torch.Tensor | None = None, *carried: Value
) -> tuple[Value, ...]:
    """The final carried values, then each further result of the body, stacked over the iterations."""
    body: Graph = call.attr("body")
    count = None if trips is None else int(trips)
    goes_on = True if condition is None else bool(condition)
    collected: list[list[torch.Tensor]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
    for step in itertools.count():
        if not goes_on or step == count:
            break
        number = torch.full((), step, dtype=torch.int64, device=call.device)
        next_condition, *results = call.run_body(body, (number, torch.tensor(goes_on), *carried))
        goes_on = bool(next_condition)
        carried = tuple(results[: len(carried)])
        for column, value in zip(collected, results[len(carried) :], strict=True):
            column.append(value)
    stacked = [
        torch.stack(column) if column else _result_without_iterations(call, body, value)
        for column, value in zip(collected, body.outputs[1 + len(carried) :], strict=True)
    ]
    return *carried, *stacked


def _result_without_iterations(call: Call, body: Graph, value: str) -> torch.Tensor:
    """A result of the body, stacked over no iterations; dims that its type in the file does not fix are 0 too."""
    type_ = body.kept.outputs.get(value, body.type(value))
    if not isinstance(type_, TensorType):
        return torch.zeros(0, device=call.device)
    sizes = [dim if isinstance(dim, int) else 0 for dim in type_.shape or ()]
    return torch.zeros((0, *sizes), dtype=torch_dtype(type_.dtype), device=call.device)


@operator("Scan", category="control", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def scan(call: Call, *operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The final states, then each further result of the body, stacked over the steps along its axis.

    operands: the initial states, then the tensors that are scanned.
    """
    body: Graph = call.attr("body")
    count: int = call.attr("num_scan_inputs")
    states, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    results = len(body.outputs) - len(states)
    axes_in = call.attr("scan_input_axes") or (0,) * count
    axes_out = call.attr("scan_output_axes") or (0,) * results
    backwards_in = call.attr("scan_input_directions") or (0,) * count
    backwards_out = call.attr("scan_output_directions") or (0,) * results
    length = scanned[0].shape[axes_in[0]]
    collected: list[list[torch.Tensor]] = [[] for _ in range(results)]
    for step in range(length):
        slices = [
            x.select(axis, length - 1 - step if back else step)
            for x, axis, back in zip(scanned, axes_in, backwards_in, strict=True)
        ]
        step_results = call.run_body(body, (*states, *slices))
        states = step_results[: len(states)]
        for column, value in zip(collected, step_results[len(states) :], strict=True):
            column.append(value)
    stacked = [
        torch.stack(column[::-1] if back else column, axis)
        for column, axis, back in zip(collected, axes_out, backwards_out, strict=True)
    ]
    return *states, *stacked


@operator("SequenceMap", category="control", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def sequence_map(call: Call, first: list[torch.Tensor], *others: Value) -> tuple[list[torch.Tensor], ...]:
    """Sequences of the body's results, one for each element of `first`. Each run of the body reads all of a tensor."""
    body: Graph = call.attr("body")
    results: tuple[list[torch.Tensor], ...] = tuple([] for _ in body.outputs)
    for i, element in enumerate(first):
        step_results = call.run_body(body, (element, *(x[i] if isinstance(x, list) else x for x in others)))
        for sequence, value in zip(results, step_results, strict=True):
            sequence.append(value)
    return results
