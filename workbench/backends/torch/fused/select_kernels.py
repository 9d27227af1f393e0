"""Chooses the fastest lowering of each group of operators.

A first run chooses group by group, on operands in the memory layout that the kernels before produce. A lowering is
prepared, and timed interleaved with the operators one by one; the faster is chosen. Groups of the same structure on
operands of the same shapes, strides and types are compiled and timed once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.backends.profiling.profile_result import Kernel
from workbench.backends.profiling.progress import StageCallback
from workbench.backends.torch.executor.compilers import missing_compiler
from workbench.backends.torch.executor.device_times import kernel_times_ms
from workbench.backends.torch.executor.instruction import Instruction
from workbench.backends.torch.executor.program import Program
from workbench.backends.torch.fused.compiling_ahead import compile_ahead, processes_for, was_compiled
from workbench.backends.torch.fused.concat_views import write_in_place
from workbench.backends.torch.fused.in_place import in_place_calls
from workbench.backends.torch.fused.inductor import compile_group
from workbench.backends.torch.fused.interleaved_trials import fastest_ms
from workbench.backends.torch.fused.lowering import Lowering, NoLowering
from workbench.backends.torch.fused.products import LIBRARIES, Fastest, has_product, product_calls
from workbench.backends.torch.fused.structure import structure_of
from workbench.backends.torch.fused.tracing import TracedGroup, trace_group
from workbench.ops import fusion_kind_of
from workbench.ops.fusion_kinds import FUSABLE, REDUCTION
from workbench.planning.fusion.group_calls import group_call, group_function

if TYPE_CHECKING:
    import torch

    from workbench.backends.torch.executor.executor import TorchExecutor

# Calls of libraries leave channels-last results, which make the next calls faster than this comparison shows.
# The time of a kernel relative to that of the operators one by one.
_MAX_RELATIVE_TIME = {"inductor": 1.0, "in place": 1.0, **dict.fromkeys(LIBRARIES, 4 / 3)}


@dataclass
class Chosen:
    """The kernels of a program's groups, in order, and the bytes of weights that they store in another order."""

    kernels: list[Kernel] = field(default_factory=list)
    packed_bytes: int = 0


@dataclass
class _Group:
    """A step of the main program and its operators as a program.

    constants: the constant operands, by position.
    """

    step: Instruction
    body: Program
    constants: Mapping[int, torch.Tensor]


def choose_kernels(executor: TorchExecutor, tensors: Mapping[str, Any], on_stage: StageCallback) -> Chosen:
    """Run once, and replace the groups of the executor's program by kernels.

    Groups for the compiler are compiled before, by several processes.
    on_stage: is called with the present stage, group by group; may raise to stop.
    """
    result = ((position, _group(executor, step)) for position, step in enumerate(executor.program.steps))
    groups = {position: group for position, group in result if group is not None}
    chooser = _Chooser(str(executor.device), executor.is_float32)
    chosen = Chosen()
    lowerings: dict[int, Lowering] = {}
    _compile_ahead(executor, tensors, groups.values(), on_stage)

    def deciding_run(position: int, group: _Group) -> Callable[..., Any]:
        def run(call: Any, *operands: Any) -> Any:
            on_stage(f"choosing the kernel of group {len(chosen.kernels) + 1:,} of {len(groups):,}")
            kernel, lowering = chooser.decide(group, operands)
            chosen.kernels.append(kernel)
            chosen.packed_bytes += lowering.packed_bytes
            lowerings[position] = lowering
            group.step.run = lowering.run
            _read_only(group.step, lowering.positions)
            return lowering.run(call, *(operands[position] for position in lowering.positions))

        return run

    for position, group in groups.items():
        group.step.run = deciding_run(position, group)
    executor.program.steps_changed()
    executor.run_tensors(tensors)
    write_in_place(executor.program, lowerings)
    executor.program.drop_unread_constants()
    return chosen


def _compile_ahead(
    executor: TorchExecutor, tensors: Mapping[str, Any], groups: Collection[_Group], on_stage: StageCallback
) -> None:
    """Compile the groups in several processes, after a run operator by operator that gives their operands."""
    device, traced = str(executor.device), dict[Hashable, TracedGroup]()
    cores = os.cpu_count() or 1
    if processes_for(len(groups), cores) < 2 or missing_compiler(device) is not None:
        return

    def tracing_run(group: _Group) -> Callable[..., Any]:
        def run(call: Any, *operands: Any) -> Any:
            structure = structure_of(group.body.graph, operands, frozenset(group.constants))
            if structure not in traced and is_compiled(group.body, device) and not was_compiled(structure):
                with suppress(NoLowering):
                    traced[structure] = trace_group(group.body, operands)
            return group.body.call(call, *operands)

        return run

    for group in groups:
        group.step.run = tracing_run(group)
    executor.program.steps_changed()
    executor.run_tensors(tensors)
    count = len(traced)
    with executor.tf32():  # on which code and the key of the cache depend
        compile_ahead(traced, cores, lambda done: on_stage(f"compiling groups, {done:,} of {count:,} done"))


def _group(executor: TorchExecutor, step: Instruction) -> _Group | None:
    """The group of a step that calls one, or of one reduction or product; None for any other step."""
    node, known = step.node, executor.program.constant_registers
    if step.function is not None and group_function(executor.graph, node) is not None:
        body = step.function
    elif step.one_node is None and not node.bodies and fusion_kind_of(node) in (FUSABLE, REDUCTION):
        call, function = group_call(executor.graph, [node], node.name)
        body = Program(function.graph, executor.program.setting)
        results = dict(zip(node.outputs, step.outputs, strict=True))
        step.outputs = tuple(results[value] for value in call.outputs)
        _read_only(step, [node.inputs.index(value) for value in call.inputs])
    else:
        return None
    return _Group(step, body, {i: known[register] for i, register in enumerate(step.inputs) if register in known})


def _read_only(step: Instruction, positions: Sequence[int]) -> None:
    """Let the step read only these of its operands."""
    step.inputs = tuple(step.inputs[position] for position in positions)
    step.host = None if step.host is None else tuple(step.host[position] for position in positions)


@dataclass
class _Chooser:
    """Chooses lowerings, once for each structure.

    decided: by structure of a group, its first kernel and its lowering.
    fastest: as in `products.py`.
    """

    device: str
    is_float32: bool
    decided: dict[Hashable, tuple[Kernel, Lowering]] = field(default_factory=dict)
    fastest: Fastest = field(default_factory=dict)

    def decide(self, group: _Group, operands: Sequence[Any]) -> tuple[Kernel, Lowering]:
        body = group.body
        values = dict(zip(body.graph.inputs, operands, strict=True))
        body.execute(operands, (), lambda node, results: values.update(zip(node.outputs, results, strict=False)))
        structure = structure_of(body.graph, operands, frozenset(group.constants))
        names = tuple(step.node.name for step in body.steps)
        if structure in self.decided:
            first, lowering = self.decided[structure]
            if lowering.by in LIBRARIES:  # it contains the weights of the other group
                lowering = self._as_calls(group, values)
            elif lowering.by == "torch":
                lowering = _sequential(body)
            return replace(first, group=group.step.node.name, operators=names, same_as=first.group, source=""), lowering
        lowering, torch_ms, time_ms = self._fastest(group, operands, values)
        fields = {name: getattr(lowering, name) for name in ("by", "how", "kernels", "bytes", "compile_s", "source")}
        kernel = Kernel(group.step.node.name, names, time_ms=time_ms, torch_ms=torch_ms, **fields)
        self.decided[structure] = kernel, lowering
        return kernel, lowering

    def _fastest(
        self, group: _Group, operands: Sequence[Any], values: Mapping[str, Any]
    ) -> tuple[Lowering, float, float]:
        """The fastest lowering, and the milliseconds of the operators one by one and of that lowering."""
        sequential = _sequential(group.body)
        try:
            alternative = self._alternative(group, operands, values)
        except NoLowering as reason:
            (torch_ms,) = self._milliseconds([sequential], operands)
            return replace(sequential, how=f"{sequential.how}: {reason}"), torch_ms, torch_ms
        torch_ms, alternative_ms = self._milliseconds([sequential, alternative], operands)
        if alternative_ms < torch_ms * _MAX_RELATIVE_TIME[alternative.by]:
            return alternative, torch_ms, alternative_ms
        slower = f"{sequential.how}: {alternative.by} takes {alternative_ms:,.3f} ms"
        return replace(sequential, how=slower, compile_s=alternative.compile_s), torch_ms, torch_ms

    def _alternative(self, group: _Group, operands: Sequence[Any], values: Mapping[str, Any]) -> Lowering:
        """A lowering other than operator by operator. Raises NoLowering."""
        ort_operators = _ort_operators(group.body)
        if ort_operators:
            raise NoLowering(f"ONNX Runtime runs {', '.join(sorted(ort_operators))}")
        if not is_compiled(group.body, self.device):
            return self._as_calls(group, values)
        try:
            return compile_group(group.body, operands, self.device)
        except NoLowering as reason:
            return in_place_calls(group.body, operands, instead_of=str(reason))

    def _as_calls(self, group: _Group, values: Mapping[str, Any]) -> Lowering:
        if not self.is_float32:
            raise NoLowering("calls compute products in float32 only")
        return product_calls(group.body, group.constants, values, self.fastest)

    def _milliseconds(self, lowerings: Sequence[Lowering], operands: Sequence[Any]) -> list[float]:
        """The fastest of a few interleaved runs of each lowering; on CUDA the time of its kernels alone."""
        runs = [
            partial(lowering.run, None, *(operands[position] for position in lowering.positions))
            for lowering in lowerings
        ]
        if self.device != "cpu":
            recorded = [kernel_times_ms(run, self.device) for run in runs]
            if all(recorded):
                return [min(times) for times in recorded]
        return fastest_ms(runs, self._finish)

    def _finish(self) -> None:
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize(self.device)


def is_compiled(body: Program, device: str) -> bool:
    """Whether the group is compiled; on a CPU a group with a product is not, since libraries compute products."""
    return not _ort_operators(body) and (device != "cpu" or not has_product(body))


def _ort_operators(body: Program) -> set[str]:
    """The operators that ONNX Runtime runs."""
    return {step.node.op for step in body.steps if step.one_node is not None}


def _sequential(body: Program) -> Lowering:
    return Lowering("torch", "operator by operator", body.call, tuple(range(len(body.inputs))))
