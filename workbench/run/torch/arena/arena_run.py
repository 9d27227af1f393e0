"""A program whose planned values lie in one arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.errors import UserError
from workbench.memory.blocks.packing import check_offsets
from workbench.memory.planning import MemoryPlan
from workbench.memory.shared_memory import Alias
from workbench.run.torch.arena.kernels import writing_calls
from workbench.run.torch.arena.out_kernels import Write
from workbench.run.torch.executor.instruction import Instruction
from workbench.run.torch.executor.program import Program

if TYPE_CHECKING:
    import torch

    from workbench.run.torch.executor.executor import TorchExecutor

ARENA_ALIGNMENT = 64  # bytes, of blocks and of the arena itself
_POISON = 0xFF  # of which every float type makes NaN


@dataclass
class ArenaStep:
    """run: computes the step's results, and puts them where they lie. kernel: "view", "out" (a kernel writes into the
    arena), "copy" (computed elsewhere and copied) or "outside" (not in the arena).

    dying: the bytes of the arena that are free after it, as begin and end.
    """

    instruction: Instruction
    run: Write
    kernel: str
    dying: list[tuple[int, int]] = field(default_factory=list)


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
        self._places = {value.name: value for value in plan.values if value.offset is not None}
        whole = torch.empty(plan.packed.total + ARENA_ALIGNMENT, dtype=torch.uint8, device=executor.device)
        begin = -whole.data_ptr() % ARENA_ALIGNMENT
        self.bytes = whole[begin : begin + plan.packed.total]
        self._held: dict[str, torch.Tensor] = {}  # values that are passed on, outside of the arena
        self._moving: set[int] = set()  # registers whose tensors are others in each run
        self._registers: list[Any] = self._program.filled_registers([tensors[v] for v in executor.graph.inputs])
        self.steps = [self._step(step) for step in self._program.steps]
        for step, dying in zip(self.steps, self._dying(), strict=True):
            step.dying = dying
        self._runs = [step.run for step in self.steps if step.kernel != "view"]

    @property
    def outputs(self) -> tuple[Any, ...]:
        return tuple(self._registers[register] for register in self._program.outputs)

    def run(self) -> tuple[Any, ...]:
        for run in self._runs:
            run()
        return self.outputs

    def run_poisoned(self) -> tuple[Any, ...]:
        """A run that fills the arena, and what is free after each step, with NaN: what reads it later shows."""
        self.bytes.fill_(_POISON)
        for step in self.steps:
            step.run()
            for begin, end in step.dying:
                self.bytes[begin:end].fill_(_POISON)
        return self.outputs

    # ---- preparing -----------------------------------------------------------------------------

    def _step(self, step: Instruction) -> ArenaStep:
        """Runs the step once, as its operands are now."""
        results = self._program.results(step, self._registers)
        placed = [self._placed(name, value) for name, value in zip(step.node.outputs, results, strict=False)]
        if all(place is None for place in placed):
            return self._view_outside(step, results) or self._outside(step, results)
        if self._is_view(step) and placed[0] is not None and _lies_at(results, placed):
            self._keep(step, placed, results)
            return ArenaStep(step, lambda: None, "view")
        write = self._write(step, placed[0]) if len(placed) == 1 and placed[0] is not None else None
        if write is not None:
            write()
            self._keep(step, placed, results)
            return ArenaStep(step, self._releasing(step, write), "out")
        if len(results) == 1 and self._is_overwritten_at_once(step.node.outputs[0]):
            return self._passed_on(step, results)
        return self._copied(step, placed, results)

    def _write(self, step: Instruction, place: torch.Tensor) -> Write | None:
        """What computes the step into its place, if torch has kernels for that and all operands stay where they are."""
        if step.one_node is not None or step.call.bodies or step.function is not None:
            return None
        if self._moving.intersection(step.inputs):
            return None
        operands = self._program.operands(step, self._registers)
        if not self._stay(step, operands):
            return None
        if step.node.op == "Concat":
            return _joined(operands, place, step.call.attr("axis"))
        return writing_calls(lambda *given: step.run(step.call, *given), operands, place)

    def _stay(self, step: Instruction, operands: list[Any]) -> bool:
        """Whether no operand was converted on its way to the step, to a type of the run, which each run has to do."""
        constant = self._program.constant_registers
        return all(
            value is self._registers[register] or register in constant
            for register, value in zip(step.inputs, operands, strict=True)
        )

    def _passed_on(self, step: Instruction, results: tuple[Any, ...]) -> ArenaStep:
        """The result stays where its own function left it, until its only reader has run."""
        program, registers = self._program, self._registers
        held = results[0].clone()

        def run() -> None:
            held.set_(self._copied_out(program.results(step, registers)[0]))

        self._registers[step.outputs[0]] = held
        self._held[step.node.outputs[0]] = held
        return ArenaStep(step, run, "passed on")

    def _releasing(self, step: Instruction, write: Write) -> Write:
        """The step's run, after which what it alone reads outside of the arena is free."""
        held = [self._held[value] for value in step.node.inputs if value in self._held]
        if not held:
            return write
        empty = held[0].new_empty(0)

        def run() -> None:
            write()
            for one in held:
                one.set_(empty)  # type: ignore[call-overload]

        return run

    def _is_overwritten_at_once(self, value: str) -> bool:
        """Whether only one operator reads it, which writes over it, and nothing else lies in its memory. On several
        streams never: torch's allocator would give its bytes away before the other stream has read them."""
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
            for place, value, register in zip(placed, result, step.outputs, strict=False):
                if place is None:
                    registers[register] = self._copied_out(value)
                else:
                    _put(value, place)

        for place, value in zip(placed, results, strict=False):
            if place is not None:
                _put(value, place)
        self._keep(step, placed, results)
        return ArenaStep(step, self._releasing(step, run), "copy")

    def _view_outside(self, step: Instruction, results: tuple[Any, ...]) -> ArenaStep | None:
        """A view of a weight or an input, which is the same in every run."""
        if step.call.bodies or step.function is not None or self._moving.intersection(step.inputs):
            return None
        stores = {_storage(self._registers[register]) for register in step.inputs} - {_storage(self.bytes), None}
        if any(_storage(value) not in stores for value in results):
            return None
        for register, value in zip(step.outputs, results, strict=False):
            self._registers[register] = value
        return ArenaStep(step, lambda: None, "view")

    def _outside(self, step: Instruction, results: tuple[Any, ...]) -> ArenaStep:
        program, registers = self._program, self._registers

        def run() -> None:
            for register, value in zip(step.outputs, program.results(step, registers), strict=False):
                registers[register] = self._copied_out(value)

        self._keep(step, [None] * len(results), results)
        return ArenaStep(step, run, "outside")

    def _keep(self, step: Instruction, placed: list[Any], results: tuple[Any, ...]) -> None:
        for register, place, value in zip(step.outputs, placed, results, strict=False):
            self._registers[register] = self._copied_out(value) if place is None else place
            if place is None:
                self._moving.add(register)

    def _copied_out(self, value: Any) -> Any:
        """A value that does not lie in the arena; a view of it, as a branch or a sequence may pass on, is copied, since
        others write there later."""
        if isinstance(value, list):
            return [self._copied_out(one) for one in value]
        return value.clone() if _storage(value) == _storage(self.bytes) else value

    def _is_view(self, step: Instruction) -> bool:
        values = [self._places.get(name) for name in step.node.outputs if name]
        return all(value is not None and value.how == Alias.VIEW for value in values)

    def _placed(self, name: str, value: Any) -> torch.Tensor | None:
        """The tensor at the value's place in the arena, of the type and shape that the run gives."""
        import torch

        planned = self._places.get(name)
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

    def _dying(self) -> list[list[tuple[int, int]]]:
        """For each step the bytes whose block nothing uses after it."""
        results: list[list[tuple[int, int]]] = [[] for _ in self.steps]
        for block, offset in zip(self.plan.sharing.packing.blocks, self.plan.packed.offsets, strict=True):
            if block.bytes and block.dies < len(results) + 1 and block.dies > 0:
                results[block.dies - 1].append((offset, offset + block.bytes))
        return [one if place < len(results) - 1 else [] for place, one in enumerate(results)]


def _storage(value: Any) -> int | None:
    """The address of a tensor's memory; None for what is no tensor, or has no bytes."""
    store = value.untyped_storage() if hasattr(value, "untyped_storage") else None
    return store.data_ptr() if store is not None and store.nbytes() else None


def _lies_at(results: tuple[Any, ...], placed: list[Any]) -> bool:
    return all(place is not None and _is_same(value, place) for value, place in zip(results, placed, strict=False))


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are the same elements in the same order."""
    return one.data_ptr() == other.data_ptr() and one.is_contiguous() and other.is_contiguous()


def _put(value: torch.Tensor, place: torch.Tensor) -> None:
    """Of several results some may be views that lie in their places."""
    if not _is_same(value, place):
        place.copy_(value)


def _joined(operands: list[Any], place: torch.Tensor, axis: int) -> Write:
    """Copies the operands of a Concat that do not lie in its result already."""
    copies, begin = [], 0
    for operand in operands:
        part = place.narrow(axis, begin, operand.shape[axis])
        begin += operand.shape[axis]
        if not _is_same(operand, part):
            copies.append((part, operand))

    def write() -> None:
        for part, operand in copies:
            part.copy_(operand)

    return write
