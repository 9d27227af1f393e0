"""Runs egglog round by round: a request as JSON on the standard input, a line of JSON on the standard output for each
round. It is a process of its own (`saturating.py`), which ends egglog when its time is over: within a round nothing
else can. The lines before stay good.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from workbench.saturation.exact_numbers import ExactNumbers

_MEMORY = 4 * 2**30  # bytes of address space; one round can multiply an e-graph
_SORT = "E-"  # of e-classes of values, in egglog's serialization


def main() -> None:
    _limit_memory()
    request = json.load(sys.stdin)
    for line in _rounds(request):
        print(json.dumps(line), flush=True)


def _rounds(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The e-graph as given, then after each round, as long as it has no more e-nodes than the request allows."""
    from egglog.bindings import EGraph

    numbers = ExactNumbers(**{**request["numbers"], "factors": tuple(request["numbers"]["factors"])})
    egraph = EGraph()
    _run(egraph, request["program"])
    entries: set[str] = set()
    _run(egraph, "\n".join(_commands(_nodes(egraph), numbers, entries)))
    yield {"rounds": 0, "saturated": False, "nodes": _nodes(egraph)}
    for rounds in range(1, request["rounds"] + 1):
        (ran,) = _run(egraph, "(run laws 1)")
        nodes = _nodes(egraph)
        commands = _commands(nodes, numbers, entries)
        if commands:
            _run(egraph, "\n".join(commands))
            nodes = _nodes(egraph)
        if sum(operator != "Value" for operator, _, _ in nodes) > request["enodes"]:
            return
        saturated = not ran.report.updated and not commands
        yield {"rounds": rounds, "saturated": saturated, "nodes": nodes}
        if saturated:
            return


def _run(egraph: Any, program: str) -> Any:
    return egraph.run_program(*egraph.parse_program(program))


def _nodes(egraph: Any) -> list[list[Any]]:
    """Each e-node as [operator, e-class, operands]: e-classes; of Num and Value the number or the place, as text."""
    result = json.loads(egraph.serialize([]).to_json())["nodes"]
    nodes = []
    for node in result.values():
        if not node["eclass"].startswith(_SORT):
            continue
        operands = [result[child] for child in node["children"]]
        literal = node["op"] in ("Num", "Value")
        read = [one["op"].strip('"') if literal else _number(one["eclass"]) for one in operands]
        nodes.append([node["op"], _number(node["eclass"]), read])
    return nodes


def _number(eclass: str) -> int:
    return int(eclass.removeprefix(_SORT))


def _commands(nodes: list[list[Any]], numbers: ExactNumbers, entries: set[str]) -> list[str]:
    """Commands that add what operators on numbers give, where it is not in the e-graph yet, and what is known of
    numbers that are not in `entries`."""
    known: dict[int, str] = {}
    for operator, eclass, operands in nodes:
        if operator == "Num" and known.setdefault(eclass, operands[0]) != operands[0]:
            raise AssertionError(f"the equations contradict each other: {known[eclass]} is {operands[0]}")
    commands = []
    for operator, eclass, operands in nodes:
        if operator in ("Num", "Value") or eclass in known or not all(operand in known for operand in operands):
            continue
        given = [known[operand] for operand in operands]
        result = numbers.computed(operator, given)
        if result is not None:
            known[eclass] = result
            written = " ".join(f'(Num "{number}")' for number in given)
            commands.append(f'(union ({operator} {written}) (Num "{result}"))')
            commands.append(f"(subsume ({operator} {written}))")  # it is not taken apart again
    new = [number for number in known.values() if number not in entries]
    entries.update(new)
    return commands + [f'({relation} (Num "{number}"))' for number in new for relation in numbers.known(number)]


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows, where the limits of time and e-nodes are left
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    main()
