"""Equality saturation of one region by egglog, within a budget.

Source: Tate et al., "Equality Saturation: A New Approach to Optimization", POPL 2009; Willsey et al., "egg: Fast and
Extensible Equality Saturation", POPL 2021.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from workbench.planning.saturation.exact_numbers import ExactNumbers
from workbench.support.child_process import last_line, module_command, package_environment


class ENode(NamedTuple):
    """An operator on e-classes. datum: the number of a Num, or the index of a Value in the region; they have no
    operands."""

    operator: str
    eclass: int
    operands: tuple[int, ...]
    datum: str = ""


@dataclass(frozen=True)
class EGraph:
    """E-nodes by e-class, after `rounds` rounds. saturated: another round adds nothing."""

    nodes: tuple[ENode, ...]
    rounds: int
    saturated: bool

    @cached_property
    def eclass_of(self) -> Mapping[int, int]:
        """For each index of a value in the region, its e-class."""
        return {int(node.datum): node.eclass for node in self.nodes if node.operator == "Value"}

    @cached_property
    def numbers(self) -> Mapping[int, str]:
        """For each e-class, its number if it has one."""
        return {node.eclass: node.datum for node in self.nodes if node.operator == "Num"}

    @cached_property
    def size(self) -> int:
        """The number of its e-nodes: operators and numbers."""
        return sum(node.operator != "Value" for node in self.nodes)


@dataclass(frozen=True)
class SaturationBudget:
    """Limits: of rounds, of e-nodes after a round, and of seconds."""

    rounds: int
    enodes: int
    seconds: float


class EgglogError(Exception):
    """egglog returned no e-graph; the message says why."""


def saturate(program: str, numbers: ExactNumbers, budget: SaturationBudget) -> EGraph:
    """The e-graph of the last round that ended within the budget.

    egglog runs in a separate process, which is ended when the time is over. Raises EgglogError if it crashed, or the
    time was over, before it had read the program.
    """
    request = {"program": program, "rounds": budget.rounds, "enodes": budget.enodes, "numbers": asdict(numbers)}
    command = module_command("workbench.planning.saturation.egglog_process")
    why = ""
    try:
        process = subprocess.run(
            command,
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=budget.seconds,
            env=package_environment(),
        )
        output = process.stdout
        if process.returncode:
            why = last_line(process.stderr.decode(errors="replace")) or "it crashed"
    except subprocess.TimeoutExpired as timeout:
        output, why = timeout.stdout or b"", f"it took more than {budget.seconds:g} s to begin"
    *lines, _ = output.split(b"\n")  # the last line is empty, or was cut off
    if not lines or "contradict" in why:
        raise EgglogError(why or "it wrote nothing")
    return _read(json.loads(lines[-1]))


def _read(line: Mapping[str, Any]) -> EGraph:
    def node(operator: str, eclass: int, operands: list[Any]) -> ENode:
        if operator in ("Num", "Value"):
            return ENode(operator, eclass, (), operands[0])
        return ENode(operator, eclass, tuple(operands))

    return EGraph(tuple(node(*fields) for fields in line["nodes"]), line["rounds"], line["saturated"])
