"""A program as Python source, one line a node, so that a run is little more than torch's own calls.

As torch.fx writes a GraphModule (Reed, DeVito, He, Ussery, Ansel, "torch.fx", MLSys 2022). The loop over steps remains
for what is watched, for bodies, and for devices between which operands move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any, Protocol

from workbench.ir import Graph, Node
from workbench.ops.contract import contract_of
from workbench.run.torch.executor.expressions import expression_of

Generated = Callable[[list[Any]], tuple[Any, ...]]


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
    def captured(self) -> tuple[int, ...]: ...
    @property
    def frees(self) -> tuple[int, ...]: ...
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
    """A function of the registers, filled, that gives the outputs and raises what torch raises."""
    import torch

    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(compile(source(program, names), f"<{program.graph.name}>", "exec"), names)
    run: Generated = names.pop("run")  # no cycle, in which the constants would outlive the program
    return run


def source(program: ProgramToWrite, names: dict[str, Any]) -> str:
    """The text. What it refers to by name, constants and functions of operators, is added to `names`."""
    constants = program.constant_registers
    names |= {f"c{register}": value for register, value in constants.items()}

    def name(register: int) -> str:
        if register == 0:
            return "None"
        return f"c{register}" if register in constants else f"v{register}"

    lines = [f"{name(register)} = registers[{register}]" for register in program.entering]
    lines.append("del registers")
    for number, step in enumerate(program.steps):
        lines += _lines(program, step, number, [name(register) for register in (*step.inputs, *step.captured)], names)
        freed = [f"{name(register)} = " for register in step.frees]
        lines += [f"{''.join(freed)}None"] if freed else []
    lines.append(f"return ({''.join(f'{name(register)}, ' for register in program.outputs)})")
    return "def run(registers):\n" + "".join(f"    {line}\n" for line in lines)


def _lines(
    program: ProgramToWrite, step: NodeToWrite, number: int, given: list[str], names: dict[str, Any]
) -> list[str]:
    """What computes the results of a step. given: operands, and captured values."""
    contract, operands = contract_of(step.node), given[: len(step.inputs)]
    targets = [f"v{register}" if register else "_" for register in step.outputs]
    if contract is not None and step.run is contract.run and step.one_node is None:
        text = expression_of(program.graph, step.call, operands)
        if text is not None:
            return [f"{targets[0]} = {text}"]
    if step.one_node is not None or len(targets) != 1:
        names[f"step{number}"] = partial(_results, step)
        results = "".join(f"{target}, " for target in targets)
        return [f"{results}{'= ' if targets else ''}step{number}({', '.join(given)})"]
    names[f"run{number}"], names[f"call{number}"] = step.run, step.call
    (target,) = targets
    return [
        f"{target} = run{number}({', '.join([f'call{number}', *operands])})",
        f"if type({target}) is tuple: {target} = {target}[0]",
    ]


def _results(step: NodeToWrite, *given: Any) -> tuple[Any, ...]:
    """As many as the step has outputs, None for those that it does not give."""
    operands, captured = given[: len(step.inputs)], given[len(step.inputs) :]
    if step.one_node is None:
        result = step.run(step.call, *operands)
    else:
        result = step.one_node(operands, captured, step.call.device)
    results = result if isinstance(result, tuple) else (result,)
    return tuple(islice((*results, *repeat(None, len(step.outputs))), len(step.outputs)))
