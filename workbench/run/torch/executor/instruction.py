"""One node of a program, prepared: its call, its operands' registers, and what is kept of it from run to run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.ir import Graph, Node
from workbench.ir.attribute_defaults import default_of
from workbench.ops.lazy import torch as late_torch
from workbench.run.torch.executor.fallback import OneNodeModel

if TYPE_CHECKING:
    import torch

_MOST_HELD = 16  # tensors of one call that its sizes alone decide


@dataclass(slots=True, eq=False)
class StepCall:
    """The call that an operator's function receives; see `workbench.ops.Call`."""

    node: Node
    device: torch.device
    opset: int
    attributes: dict[str, Any]
    numbers: Mapping[int, int]  # operands that are constant integers of rank 0, by place
    is_narrowed: bool = False
    bodies: dict[int, tuple[Any, tuple[int, ...]]] = field(default_factory=dict)
    registers: list[Any] = field(default_factory=list)  # of the present run, for bodies
    held_tensors: dict[Hashable, Any] = field(default_factory=dict)

    def attr(self, name: str, default: Any = None) -> Any:
        value = self.attributes.get(name, default)
        return default_of(self.node.op, name) if value is None else value

    def number(self, place: int) -> int | None:
        return self.numbers.get(place)

    def held(self, key: Hashable, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        if key not in self.held_tensors:
            if len(self.held_tensors) >= _MOST_HELD:
                self.held_tensors.clear()
            self.held_tensors[key] = make().to(self.device)
        result: torch.Tensor = self.held_tensors[key]
        return result

    def run_body(self, body: Graph, inputs: Sequence[Any]) -> tuple[Any, ...]:
        program, captured = self.bodies[id(body)]
        results: tuple[Any, ...] = program.execute(inputs, [self.registers[i] for i in captured])
        return results


@dataclass(slots=True, eq=False)
class Instruction:
    """One node, prepared.

    host: for each operand whether it is read on the CPU; None: all are on the right device.
    uploaded: by the place of an operand that is computed on the CPU and read on the device, both as of the run before.
    function: the steps of the ONNX function that the node calls.
    """

    node: Node
    call: StepCall
    run: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    captured: tuple[int, ...] = ()
    host: tuple[bool, ...] | None = None
    uploaded: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    frees: tuple[int, ...] = ()
    one_node: OneNodeModel | None = None
    function: Any = None

    def on_device(self, place: int, value: Any, move: Callable[[Any], Any]) -> Any:
        """An operand on the device. Shapes and the like are the same in every run, and copied once: a copy from the
        host makes the device wait, and cannot be recorded."""
        is_on_host = isinstance(value, late_torch.Tensor) and value.device.type == "cpu"
        if not is_on_host or self.call.device.type == "cpu":
            return move(value)
        kept = self.uploaded.get(place)
        if kept is None or not _has_same_elements(kept[0], value):
            kept = self.uploaded[place] = value, move(value)
        return kept[1]


def _has_same_elements(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one is other or (one.dtype == other.dtype and late_torch.equal(one, other))
