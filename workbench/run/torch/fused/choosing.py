"""Each group of operators by its fastest lowering.

A first run decides, group after group, on the operands as the kernels before left them in memory: a lowering is
prepared and timed by turns with the operators one by one, and the faster stays. Groups of the same structure on
operands of the same shapes, strides and types are compiled and timed once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.fusion.group_calls import group_call, group_function
from workbench.ops import fusion_kind_of
from workbench.ops.fusion_kinds import FUSABLE, REDUCTION
from workbench.run.profiling.profiled import Kernel
from workbench.run.profiling.progress import OnStage
from workbench.run.torch.executor.compilers import missing_compiler
from workbench.run.torch.executor.device_times import kernel_times_ms
from workbench.run.torch.executor.instruction import Instruction
from workbench.run.torch.executor.program import Program
from workbench.run.torch.fused.compiling_ahead import compile_ahead, processes_for, was_compiled
from workbench.run.torch.fused.concat_views import write_in_place
from workbench.run.torch.fused.in_place import in_place_calls
from workbench.run.torch.fused.inductor import compile_group
from workbench.run.torch.fused.lowering import Lowering, NoLowering
from workbench.run.torch.fused.products import LIBRARIES, Fastest, has_product, product_calls
from workbench.run.torch.fused.structure import structure_of
from workbench.run.torch.fused.tracing import TracedGroup, trace_group
from workbench.run.torch.fused.trials import fastest_ms

if TYPE_CHECKING:
    import torch

    from workbench.run.torch.executor.executor import TorchExecutor

# Calls of these leave channels-last results, on which the next ones are faster than it shows here.
_ALLOWED = {"inductor": 1.0, "in place": 1.0, **dict.fromkeys(LIBRARIES, 4 / 3)}  # of the time one by one


@dataclass
class Chosen:
    """The kernels of a program's groups, in order, and the bytes of the weights that they hold in another order."""

    kernels: list[Kernel] = field(default_factory=list)
    packed_bytes: int = 0


@dataclass
class _Group:
    """A step of the main program and its operators as a program.

    constants: its operands that are constants, by place.
    """

    step: Instruction
    body: Program
    constants: Mapping[int, torch.Tensor]


def choose_kernels(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Chosen:
    """Run once, and replace the groups of the executor's program by kernels. What the compiler has to compile for that
    is compiled before, side by side.

    say: is called with what is done, group by group; may raise to stop.
    """
    result = ((place, _group(executor, step)) for place, step in enumerate(executor.program.steps))
    groups = {place: group for place, group in result if group is not None}
    chooser = _Chooser(str(executor.device), executor.is_float32)
    chosen = Chosen()
    lowerings: dict[int, Lowering] = {}
    _compile_ahead(executor, tensors, groups.values(), say)

    def deciding(place: int, group: _Group) -> Callable[..., Any]:
        def run(call: Any, *operands: Any) -> Any:
            say(f"choosing the kernel of group {len(chosen.kernels) + 1:,} of {len(groups):,}")
            kernel, lowering = chooser.decide(group, operands)
            chosen.kernels.append(kernel)
            chosen.packed_bytes += lowering.packed_bytes
            lowerings[place] = lowering
            group.step.run = lowering.run
            _read_only(group.step, lowering.places)
            return lowering.run(call, *(operands[place] for place in lowering.places))

        return run

    for place, group in groups.items():
        group.step.run = deciding(place, group)
    executor.program.steps_changed()
    executor.run_tensors(tensors)
    write_in_place(executor.program, lowerings)
    executor.program.drop_unread_constants()
    return chosen


def _compile_ahead(
    executor: TorchExecutor, tensors: Mapping[str, Any], groups: Collection[_Group], say: OnStage
) -> None:
    """Runs once operator by operator, for the operands of every group."""
    device, traced = str(executor.device), dict[Hashable, TracedGroup]()
    cores = os.cpu_count() or 1
    if processes_for(len(groups), cores) < 2 or missing_compiler(device) is not None:
        return

    def tracing(group: _Group) -> Callable[..., Any]:
        def run(call: Any, *operands: Any) -> Any:
            structure = structure_of(group.body.graph, operands, frozenset(group.constants))
            if structure not in traced and is_compiled(group.body, device) and not was_compiled(structure):
                with suppress(NoLowering):
                    traced[structure] = trace_group(group.body, operands)
            return group.body.call(call, *operands)

        return run

    for group in groups:
        group.step.run = tracing(group)
    executor.program.steps_changed()
    executor.run_tensors(tensors)
    count = len(traced)
    compile_ahead(traced, cores, lambda done: say(f"compiling groups, {done:,} of {count:,} done"))


def _group(executor: TorchExecutor, step: Instruction) -> _Group | None:
    """A call of a group, or one operator that is more than a pass over its operands; None for any other step."""
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


def _read_only(step: Instruction, places: Sequence[int]) -> None:
    """Let the step read only these of its operands."""
    step.inputs = tuple(step.inputs[place] for place in places)
    step.host = None if step.host is None else tuple(step.host[place] for place in places)


@dataclass
class _Chooser:
    """decided: for each structure of a group, its first kernel and its lowering. fastest: as in `products.py`."""

    device: str
    is_float32: bool
    decided: dict[Hashable, tuple[Kernel, Lowering]] = field(default_factory=dict)
    fastest: Fastest = field(default_factory=dict)

    def decide(self, group: _Group, operands: Sequence[Any]) -> tuple[Kernel, Lowering]:
        body = group.body
        values = dict(zip(body.graph.inputs, operands, strict=True))
        body.execute(operands, (), lambda node, found: values.update(zip(node.outputs, found, strict=False)))
        structure = structure_of(body.graph, operands, frozenset(group.constants))
        names = tuple(step.node.name for step in body.steps)
        if structure in self.decided:
            first, lowering = self.decided[structure]
            if lowering.by in LIBRARIES:  # it holds the other group's weights
                lowering = self._by_calls(group, values)
            elif lowering.by == "torch":
                lowering = _one_by_one(body)
            return replace(first, group=group.step.node.name, operators=names, same_as=first.group, source=""), lowering
        lowering, torch_ms, time_ms = self._fastest(group, operands, values)
        figures = {name: getattr(lowering, name) for name in ("by", "how", "kernels", "bytes", "compile_s", "source")}
        kernel = Kernel(group.step.node.name, names, time_ms=time_ms, torch_ms=torch_ms, **figures)
        self.decided[structure] = kernel, lowering
        return kernel, lowering

    def _fastest(
        self, group: _Group, operands: Sequence[Any], values: Mapping[str, Any]
    ) -> tuple[Lowering, float, float]:
        """The lowering, and the milliseconds of the operators one by one and of the lowering."""
        plain = _one_by_one(group.body)
        try:
            other = self._other(group, operands, values)
        except NoLowering as reason:
            (torch_ms,) = self._milliseconds([plain], operands)
            return replace(plain, how=f"{plain.how}: {reason}"), torch_ms, torch_ms
        torch_ms, other_ms = self._milliseconds([plain, other], operands)
        if other_ms < torch_ms * _ALLOWED[other.by]:
            return other, torch_ms, other_ms
        slower = f"{plain.how}: {other.by} takes {other_ms:,.3f} ms"
        return replace(plain, how=slower, compile_s=other.compile_s), torch_ms, torch_ms

    def _other(self, group: _Group, operands: Sequence[Any], values: Mapping[str, Any]) -> Lowering:
        """Another lowering than operator by operator. Raises NoLowering."""
        outside = _outside(group.body)
        if outside:
            raise NoLowering(f"ONNX Runtime runs {', '.join(sorted(outside))}")
        if not is_compiled(group.body, self.device):
            return self._by_calls(group, values)
        try:
            return compile_group(group.body, operands, self.device)
        except NoLowering as reason:
            return in_place_calls(group.body, operands, instead_of=str(reason))

    def _by_calls(self, group: _Group, values: Mapping[str, Any]) -> Lowering:
        if not self.is_float32:
            raise NoLowering("products are calls for float32 alone")
        return product_calls(group.body, group.constants, values, self.fastest)

    def _milliseconds(self, lowerings: Sequence[Lowering], operands: Sequence[Any]) -> list[float]:
        """Of each the fastest of a few runs: by turns; on CUDA of its kernels alone, as they will be recorded."""
        runs = [partial(one.run, None, *(operands[place] for place in one.places)) for one in lowerings]
        if self.device != "cpu":
            recorded = [kernel_times_ms(run) for run in runs]
            if all(recorded):
                return [min(times) for times in recorded]
        return fastest_ms(runs, self._finish)

    def _finish(self) -> None:
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize(self.device)


def is_compiled(body: Program, device: str) -> bool:
    """Whether the compiler is tried on a group: on a CPU not where it has a product, which libraries compute."""
    return not _outside(body) and (device != "cpu" or not has_product(body))


def _outside(body: Program) -> set[str]:
    """The operators that ONNX Runtime runs."""
    return {step.node.op for step in body.steps if step.one_node is not None}


def _one_by_one(body: Program) -> Lowering:
    return Lowering("torch", "operator by operator", body.call, tuple(range(len(body.inputs))))
