"""One node of a program, prepared: its call, its operands' registers, and what is kept of it from run to run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.backends.torch.executor.fallback import OneNodeModel
from workbench.ir import DataType, Graph, Node, TensorType
from workbench.ir.attribute_defaults import default_of
from workbench.ops.dtypes import torch_dtype
from workbench.ops.lazy import torch as lazy_torch

if TYPE_CHECKING:
    import torch

_MAX_HELD = 16  # cached tensors per call whose values depend only on the operands' shapes


@dataclass(slots=True, eq=False)
class NodeCall:
    """The call that an operator's function receives; see `workbench.ops.Call`."""

    node: Node
    device: torch.device
    attributes: dict[str, Any]
    numbers: Mapping[int, int]  # operands that are constant integers of rank 0, by index
    is_narrowed: bool = False  # the run computes in a narrower type than the model's
    bodies: dict[int, tuple[Any, tuple[int, ...]]] = field(default_factory=dict)
    registers: list[Any] = field(default_factory=list)  # the values of the present run, for bodies
    held_tensors: dict[Hashable, Any] = field(default_factory=dict)

    def attr(self, name: str, default: Any = None) -> Any:
        value = self.attributes.get(name, default)
        return default_of(self.node.op, name) if value is None else value

    def number(self, place: int) -> int | None:
        return self.numbers.get(place)

    def cached_tensor(self, key: Hashable, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        if key not in self.held_tensors:
            if len(self.held_tensors) >= _MAX_HELD:
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

    run: the operator's function; it takes the call and the operands.
    inputs, outputs: registers of the operands and results, by number. captured: of the values that bodies capture.
    frees: registers whose values nothing reads after this node.
    host: for each operand whether it is read on the CPU; None if no operand needs a copy.
    uploaded: for operands computed on the CPU and read on the device, by index: the CPU tensor of the previous run and
              its copy on the device.
    function: the steps of the ONNX function that the node calls.
    """

    node: Node
    call: NodeCall
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
        host makes the device wait, and cannot be captured in a CUDA graph."""
        is_on_host = isinstance(value, lazy_torch.Tensor) and value.device.type == "cpu"
        if not is_on_host or self.call.device.type == "cpu":
            return move(value)
        kept = self.uploaded.get(place)
        if kept is None or not _has_same_elements(kept[0], value):
            kept = self.uploaded[place] = value, move(value)
        return kept[1]


def _has_same_elements(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one is other or (one.dtype == other.dtype and lazy_torch.equal(one, other))


def conforms(value: Any, type_: TensorType | None) -> bool:
    """Whether a runtime value has the declared type and shape; a type of None accepts every value."""
    if type_ is None:
        return True
    if not isinstance(value, lazy_torch.Tensor):
        return type_.dtype == DataType.STRING
    if type_.shape is None:
        return value.dtype == torch_dtype(type_.dtype)
    sizes = zip(type_.shape, value.shape, strict=False)
    return (
        value.dtype == torch_dtype(type_.dtype)
        and len(type_.shape) == value.ndim
        and all(known == size or not isinstance(known, int) for known, size in sizes)
    )
