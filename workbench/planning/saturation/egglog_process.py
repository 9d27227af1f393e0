"""Runs egglog round by round in a separate process (`saturating.py`).

It reads a request as JSON from the standard input and writes a line of JSON to the standard output after each round.
Within a round egglog can only be stopped by ending its process; the lines of earlier rounds stay valid.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from workbench.planning.saturation.exact_numbers import ExactNumbers

_MEMORY = 4 * 2**30  # bytes of address space; one round can multiply an e-graph
_SORT = "E-"  # the prefix of e-classes of values in egglog's serialization


def main() -> None:
    _limit_memory()
    request = json.load(sys.stdin)
    for line in _rounds(request):
        print(json.dumps(line), flush=True)


def _rounds(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The e-graph before the first round and after each round, until it has more e-nodes than the request allows."""
    from egglog.bindings import EGraph

    numbers = ExactNumbers(**{**request["numbers"], "factors": tuple(request["numbers"]["factors"])})
    egraph = EGraph()
    _run(egraph, request["program"])
    entries: set[str] = set()
    _run(egraph, "\n".join(_commands(_nodes(egraph), numbers, entries)))
    yield {"rounds": 0, "saturated": False, "nodes": _nodes(egraph)}
    for rounds in range(1, request["rounds"] + 1):
        (result,) = _run(egraph, "(run laws 1)")
        nodes = _nodes(egraph)
        commands = _commands(nodes, numbers, entries)
        if commands:
            _run(egraph, "\n".join(commands))
            nodes = _nodes(egraph)
        if sum(operator != "Value" for operator, _, _ in nodes) > request["enodes"]:
            return
        saturated = not result.report.updated and not commands
        yield {"rounds": rounds, "saturated": saturated, "nodes": nodes}
        if saturated:
            return


def _run(egraph: Any, program: str) -> Any:
    return egraph.run_program(*egraph.parse_program(program))


def _nodes(egraph: Any) -> list[list[Any]]:
    """Each e-node as [operator, e-class, operands]. Operands are e-classes; for Num the number, for Value the index, as
    text."""
    serialized = json.loads(egraph.serialize([]).to_json())["nodes"]
    nodes = []
    for node in serialized.values():
        if not node["eclass"].startswith(_SORT):
            continue
        operands = [serialized[child] for child in node["children"]]
        is_literal = node["op"] in ("Num", "Value")
        operand_data = [operand["op"].strip('"') if is_literal else _number(operand["eclass"]) for operand in operands]
        nodes.append([node["op"], _number(node["eclass"]), operand_data])
    return nodes


def _number(eclass: str) -> int:
    return int(eclass.removeprefix(_SORT))


def _commands(nodes: list[list[Any]], numbers: ExactNumbers, entries: set[str]) -> list[str]:
    """Commands that add results of operators on numbers that the e-graph lacks.

    They also add the known relations of numbers that are not in `entries`.
    """
    known: dict[int, str] = {}
    for operator, eclass, operands in nodes:
        if operator == "Num" and known.setdefault(eclass, operands[0]) != operands[0]:
            raise AssertionError(f"the equations contradict each other: {known[eclass]} is {operands[0]}")
    commands = []
    for operator, eclass, operands in nodes:
        if operator in ("Num", "Value") or eclass in known or not all(operand in known for operand in operands):
            continue
        arguments = [known[operand] for operand in operands]
        result = numbers.computed(operator, arguments)
        if result is not None:
            known[eclass] = result
            arguments_text = " ".join(f'(Num "{number}")' for number in arguments)
            commands.append(f'(union ({operator} {arguments_text}) (Num "{result}"))')
            commands.append(f"(subsume ({operator} {arguments_text}))")  # no equation applies to it again
    new_numbers = [number for number in known.values() if number not in entries]
    entries.update(new_numbers)
    return commands + [f'({relation} (Num "{number}"))' for number in new_numbers for relation in numbers.known(number)]


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # on Windows only the limits of time and e-nodes apply
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    main()
