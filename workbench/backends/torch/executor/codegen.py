"""A program as Python source that torch.fx writes: a run is then little more than torch's own calls.

Reed, DeVito, He, Ussery, Ansel, "torch.fx" (MLSys 2022). fx also writes where each value is freed. The loop over steps
remains for what is watched, for bodies, and for devices between which operands move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice, repeat
from operator import getitem
from typing import Any, Protocol

import torch
from torch import fx

from workbench.backends.torch.executor.recording import Operand, Recorder, record
from workbench.ir import DataType, Graph, Node, TensorType
from workbench.ops.contract import contract_of

Generated = Callable[..., tuple[Any, ...]]
_MAX_NUMBERS = 64  # functions that are recorded may read a constant operand of up to so many numbers


class NodeToWrite(Protocol):
    """What is asked of an `Instruction`."""

    @property
    def node(self) -> Node: ...
    @property
    def call(self) -> Any: ...
    @property
    def run(self) -> Callable[..., Any]: ...
    @property
    def inputs(self) -> tuple[int, ...]: ...
    @property
    def outputs(self) -> tuple[int, ...]: ...
    @property
    def one_node(self) -> Callable[..., tuple[Any, ...]] | None: ...


class ProgramToWrite(Protocol):
    """What is asked of a `Program`."""

    @property
    def graph(self) -> Graph: ...
    @property
    def steps(self) -> Sequence[NodeToWrite]: ...
    @property
    def entering(self) -> list[int]: ...
    @property
    def constant_registers(self) -> Mapping[int, Any]: ...
    @property
    def outputs(self) -> list[int]: ...


def generated(program: ProgramToWrite) -> Generated:
    """A function of the values of `entering` that gives the outputs and raises what torch raises."""
    writer = _Writer(program)
    code = writer.write().python_code("self")
    names = dict(code.globals)
    exec(compile(code.src, f"<{program.graph.name}>", "exec"), names)
    return partial(names.pop("forward"), writer.shared)  # no cycle, in which the constants would outlive the program


def source(program: ProgramToWrite) -> str:
    """The text of the function."""
    text: str = _Writer(program).write().python_code("self").src
    return text


class _Shared:
    """What all runs share, tensors and arrays of strings, as attributes that the code reads."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}  # by identity

    def add(self, value: Any) -> str:
        """The attribute's name."""
        name = self._names.setdefault(id(value), f"c{len(self._names)}")
        setattr(self, name, value)
        return name


class _Writer:
    """Builds the fx graph of a program. shared: `self` of its code."""

    def __init__(self, program: ProgramToWrite) -> None:
        self.shared = _Shared()
        self._program = program
        self._graph = fx.Graph()
        self._recorder = Recorder(self._graph, self.shared.add)
        self._values = program.constant_registers
        self._nodes: dict[int, fx.Node | None] = {0: None}  # the nodes of registers that inputs and steps fill

    def write(self) -> fx.Graph:
        program = self._program
        self._nodes |= {register: self._graph.placeholder(f"v{register}") for register in program.entering}
        for step in program.steps:
            self._nodes |= zip(step.outputs, self._results(step), strict=True)
            self._nodes[0] = None
        self._graph.output(tuple(self._node(register) for register in program.outputs))
        return self._graph

    def _node(self, register: int) -> fx.Node | None:
        value = self._values.get(register)
        return self._nodes[register] if value is None else self._recorder.constant(value)

    def _results(self, step: NodeToWrite) -> list[fx.Node]:
        count, recorded = len(step.outputs), self._recorded(step)
        if recorded is not None and len(recorded) >= count:
            return recorded[:count]
        operands = tuple(self._node(register) for register in step.inputs)
        result = self._graph.call_function(_as_a_whole(step), operands)
        return [result] if count == 1 else [self._graph.call_function(getitem, (result, i)) for i in range(count)]

    def _recorded(self, step: NodeToWrite) -> list[fx.Node] | None:
        contract, graph = contract_of(step.node), self._program.graph
        if contract is None or step.run is not contract.run or step.one_node is not None:
            return None
        types = {value: graph.tensor_type(value) for value in step.node.inputs if value}
        if any(type_ is None or type_.dtype == DataType.STRING for type_ in types.values()):
            return None  # a sequence, an optional, an array of strings
        pairs = zip(step.inputs, step.node.inputs, strict=True)
        operands = [self._operand(register, types.get(value)) for register, value in pairs]
        return record(self._recorder, step.run, step.call, operands)

    def _operand(self, register: int, type_: TensorType | None) -> Operand | torch.Tensor | None:
        """What a contract's function is given when it is recorded; a short list of integers is given as such."""
        if type_ is None:
            return None
        constant: torch.Tensor | None = self._values.get(register)
        if constant is not None and type_.dtype.is_integer() and constant.numel() <= _MAX_NUMBERS:
            return constant
        node = self._node(register)
        return None if node is None else Operand(node, self._recorder, type_)


def _as_a_whole(step: NodeToWrite) -> Callable[..., Any]:
    """A function of the step's operands, with the operator's name. It gives the result, or as many as the step has
    outputs, None for those that it does not compute."""
    one_node, device, count = step.one_node, step.call.device, len(step.outputs)
    compute = partial(step.run, step.call) if one_node is None else lambda *operands: one_node(operands, (), device)

    def first(*operands: Any) -> Any:
        result = compute(*operands)
        return result[0] if type(result) is tuple else result

    def each(*operands: Any) -> tuple[Any, ...]:
        result = compute(*operands)
        results = result if isinstance(result, tuple) else (result,)
        return tuple(islice((*results, *repeat(None, count)), count))

    function = first if count == 1 else each
    function.__name__, function.__module__ = step.node.op_type, "contract"
    return function
