"""A program whose planned values lie in one arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.backends.torch.arena.kernels import writing_calls
from workbench.backends.torch.arena.out_kernels import Write
from workbench.backends.torch.executor.instruction import Instruction
from workbench.backends.torch.executor.program import Program
from workbench.errors import UserError
from workbench.planning.memory.blocks.packing import check_offsets
from workbench.planning.memory.planning import MemoryPlan
from workbench.planning.memory.shared_memory import Alias

if TYPE_CHECKING:
    import torch

    from workbench.backends.torch.executor.executor import TorchExecutor

ARENA_ALIGNMENT = 64  # bytes, of blocks and of the arena itself
_POISON = 0xFF  # every float type reads these bytes as NaN


@dataclass
class ArenaStep:
    """A step of the program with its results in the arena.

    run:    computes the results and stores them.
    kernel: "view", "out" (a kernel writes into the arena), "copy" (computed outside and copied), "passed on" (outside,
            until its only user overwrites it) or "outside" (not in the arena).
    freed:  ranges (begin, end) of the arena that nothing uses after the step.
    """

    instruction: Instruction
    run: Write
    kernel: str
    freed: list[tuple[int, int]] = field(default_factory=list)


class ArenaRun:
    """A run of an executor's program on fixed inputs, values at the addresses of a plan.

    Outputs are tensors of the arena, valid until the next run. Raises OverlapError if the plan's blocks overlap, and
    UserError if a value has another size than the plan says.
    """

    def __init__(self, executor: TorchExecutor, tensors: Mapping[str, Any], plan: MemoryPlan) -> None:
        import torch

        check_offsets(plan.sharing.packing, plan.packed.offsets)
        self.plan = plan
        self._program: Program = executor.program
        self._planned = {value.name: value for value in plan.values if value.offset is not None}
        buffer = torch.empty(plan.packed.total + ARENA_ALIGNMENT, dtype=torch.uint8, device=executor.device)
        begin = -buffer.data_ptr() % ARENA_ALIGNMENT
        self.bytes = buffer[begin : begin + plan.packed.total]
        self._passed_on_values: dict[str, torch.Tensor] = {}  # values that are passed on outside of the arena
        self._volatile: set[int] = set()  # registers whose tensors differ in each run
        self._registers: list[Any] = self._program.filled_registers([tensors[v] for v in executor.graph.inputs])
        self.steps = [self._step(step) for step in self._program.steps]
        for step, freed in zip(self.steps, self._freed_bytes(), strict=True):
            step.freed = freed
        self._runs = [step.run for step in self.steps if step.kernel != "view"]

    @property
    def outputs(self) -> tuple[Any, ...]:
        return tuple(self._registers[register] for register in self._program.outputs)

    def run(self) -> tuple[Any, ...]:
        for run in self._runs:
            run()
        return self.outputs

    def run_poisoned(self) -> tuple[Any, ...]:
        """A run that fills the arena, and after each step its freed bytes, with NaN, which reveals later reads."""
        self.bytes.fill_(_POISON)
        for step in self.steps:
            step.run()
            for begin, end in step.freed:
                self.bytes[begin:end].fill_(_POISON)
        return self.outputs

    # ---- preparing -----------------------------------------------------------------------------

    def _step(self, step: Instruction) -> ArenaStep:
        """Run the step once on its present operands, and return how later runs compute it."""
        results = self._program.results(step, self._registers)
        placed = [self._placed(name, value) for name, value in zip(step.node.outputs, results, strict=False)]
        if all(target is None for target in placed):
            return self._view_outside(step, results) or self._outside(step, results)
        if self._is_view(step) and placed[0] is not None and _lies_at(results, placed):
            self._set_registers(step, placed, results)
            return ArenaStep(step, lambda: None, "view")
        write = self._write(step, placed[0]) if len(placed) == 1 and placed[0] is not None else None
        if write is not None:
            write()
            self._set_registers(step, placed, results)
            return ArenaStep(step, self._with_release(step, write), "out")
        if len(results) == 1 and self._is_overwritten_by_only_user(step.node.outputs[0]):
            return self._in_own_tensor(step, results)
        return self._copied(step, placed, results)

    def _write(self, step: Instruction, target: torch.Tensor) -> Write | None:
        """Kernels that compute the step into `target`; None if torch has none, or an operand changes its address."""
        if step.one_node is not None or step.call.bodies or step.function is not None:
            return None
        if self._volatile.intersection(step.inputs):
            return None
        operands = self._program.operands(step, self._registers)
        if not self._are_unconverted(step, operands):
            return None
        if step.node.op == "Concat":
            return _concatenated(operands, target, step.call.attr("axis"))
        return writing_calls(lambda *values: step.run(step.call, *values), operands, target)

    def _are_unconverted(self, step: Instruction, operands: list[Any]) -> bool:
        """Whether no operand was converted to the type of the run, which every run must repeat."""
        constant = self._program.constant_registers
        return all(
            value is self._registers[register] or register in constant
            for register, value in zip(step.inputs, operands, strict=True)
        )

    def _in_own_tensor(self, step: Instruction, results: tuple[Any, ...]) -> ArenaStep:
        """A step whose result stays in its own tensor until its only user has run."""
        program, registers = self._program, self._registers
        held = results[0].clone()

        def run() -> None:
            held.set_(self._outside_arena(program.results(step, registers)[0]))

        self._registers[step.outputs[0]] = held
        self._passed_on_values[step.node.outputs[0]] = held
        return ArenaStep(step, run, "passed on")

    def _with_release(self, step: Instruction, write: Write) -> Write:
        """The step's run, which then releases operands outside of the arena that only this step reads."""
        held = [self._passed_on_values[value] for value in step.node.inputs if value in self._passed_on_values]
        if not held:
            return write
        empty = held[0].new_empty(0)

        def run() -> None:
            write()
            for one in held:
                one.set_(empty)  # type: ignore[call-overload]

        return run

    def _is_overwritten_by_only_user(self, value: str) -> bool:
        """Whether its only user overwrites it, and no other value shares its memory.

        Always False on several streams: torch's allocator would reuse its bytes before the other stream has read them.
        """
        if self.bytes.is_cuda and self.plan.sharing.packing.partial_order is not None:
            return False
        graph = self._program.graph
        inside = [one for one in self.plan.values if one.alias_of == value]
        return (
            len(inside) == 1
            and inside[0].how == Alias.IN_PLACE
            and graph.count_users(value) == 1
            and not graph.is_output(value)
        )

    def _copied(self, step: Instruction, placed: list[Any], results: tuple[Any, ...]) -> ArenaStep:
        program, registers = self._program, self._registers

        def run() -> None:
            result = program.results(step, registers)
            for target, value, register in zip(placed, result, step.outputs, strict=False):
                if target is None:
                    registers[register] = self._outside_arena(value)
                else:
                    _copy_into(value, target)

        for target, value in zip(placed, results, strict=False):
            if target is not None:
                _copy_into(value, target)
        self._set_registers(step, placed, results)
        return ArenaStep(step, self._with_release(step, run), "copy")

    def _view_outside(self, step: Instruction, results: tuple[Any, ...]) -> ArenaStep | None:
        """A view of a weight or an input, which is the same in every run."""
        if step.call.bodies or step.function is not None or self._volatile.intersection(step.inputs):
            return None
        storages = {_storage(self._registers[register]) for register in step.inputs} - {_storage(self.bytes), None}
        if any(_storage(value) not in storages for value in results):
            return None
        for register, value in zip(step.outputs, results, strict=False):
            self._registers[register] = value
        return ArenaStep(step, lambda: None, "view")

    def _outside(self, step: Instruction, results: tuple[Any, ...]) -> ArenaStep:
        program, registers = self._program, self._registers

        def run() -> None:
            for register, value in zip(step.outputs, program.results(step, registers), strict=False):
                registers[register] = self._outside_arena(value)

        self._set_registers(step, [None] * len(results), results)
        return ArenaStep(step, run, "outside")

    def _set_registers(self, step: Instruction, placed: list[Any], results: tuple[Any, ...]) -> None:
        for register, target, value in zip(step.outputs, placed, results, strict=False):
            self._registers[register] = self._outside_arena(value) if target is None else target
            if target is None:
                self._volatile.add(register)

    def _outside_arena(self, value: Any) -> Any:
        """The value outside of the arena. A view of the arena, as a branch or a sequence may pass on, is copied, since
        other steps write there later."""
        if isinstance(value, list):
            return [self._outside_arena(one) for one in value]
        return value.clone() if _storage(value) == _storage(self.bytes) else value

    def _is_view(self, step: Instruction) -> bool:
        values = [self._planned.get(name) for name in step.node.outputs if name]
        return all(value is not None and value.how == Alias.VIEW for value in values)

    def _placed(self, name: str, value: Any) -> torch.Tensor | None:
        """The tensor at the value's offset in the arena, with the type and shape of the run; None without offset."""
        import torch

        planned = self._planned.get(name)
        if planned is None or not isinstance(value, torch.Tensor) or value.device != self.bytes.device:
            return None
        if value.nbytes != planned.bytes:
            raise UserError(
                f"The plan has {planned.bytes:,} bytes for '{name}', and the run computes {value.nbytes:,}; plan again"
                " for these inputs."
            )
        assert planned.offset is not None
        result = self.bytes[planned.offset : planned.offset + value.nbytes]
        return result.view(value.dtype).view(value.shape)

    def _freed_bytes(self) -> list[list[tuple[int, int]]]:
        """For each step the ranges of bytes whose block nothing uses after it."""
        results: list[list[tuple[int, int]]] = [[] for _ in self.steps]
        for block, offset in zip(self.plan.sharing.packing.blocks, self.plan.packed.offsets, strict=True):
            if block.bytes and block.dies < len(results) + 1 and block.dies > 0:
                results[block.dies - 1].append((offset, offset + block.bytes))
        return [one if target < len(results) - 1 else [] for target, one in enumerate(results)]


def _storage(value: Any) -> int | None:
    """The address of a tensor's storage; None for other values, and for an empty tensor."""
    storage = value.untyped_storage() if hasattr(value, "untyped_storage") else None
    return storage.data_ptr() if storage is not None and storage.nbytes() else None


def _lies_at(results: tuple[Any, ...], placed: list[Any]) -> bool:
    return all(target is not None and _is_same(value, target) for value, target in zip(results, placed, strict=False))


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are the same elements in the same order."""
    return one.data_ptr() == other.data_ptr() and one.is_contiguous() and other.is_contiguous()


def _copy_into(value: torch.Tensor, target: torch.Tensor) -> None:
    """Copy the value, unless it is in `target` already, as a view may be."""
    if not _is_same(value, target):
        target.copy_(value)


def _concatenated(operands: list[Any], target: torch.Tensor, axis: int) -> Write:
    """A function that copies the operands of a Concat that are not in its result already."""
    copies, begin = [], 0
    for operand in operands:
        part = target.narrow(axis, begin, operand.shape[axis])
        begin += operand.shape[axis]
        if not _is_same(operand, part):
            copies.append((part, operand))

    def write() -> None:
        for part, operand in copies:
            part.copy_(operand)

    return write
