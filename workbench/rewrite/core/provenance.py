"""Which pass and rule made each node, and from which nodes it stems: followed through the rewrites of a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from workbench.ir import Graph, Node
from workbench.ir.provenance import MAX_ORIGINS, Provenance, of_metadata
from workbench.rewrite.core.content import attribute_key
from workbench.rewrite.core.rule import AppliedRewrite


def written_provenance(graph: Graph) -> dict[str, Provenance]:
    """For each node, what its file says of it."""
    found = ((node.name, of_metadata(node.metadata)) for node in graph.nodes)
    return {name: provenance for name, provenance in found if provenance is not None}


def update_provenance(provenance: dict[str, Provenance], rewrites: Iterable[AppliedRewrite]) -> None:
    """Bring the provenance of a graph's nodes up to date after these rewrites of it, in place."""
    for rewrite in rewrites:
        made = dict(_made_by(provenance, rewrite))
        for node in rewrite.inverse.insert:
            if node.name not in rewrite.inverse.remove:
                provenance.pop(node.name, None)
        provenance.update(made)


def _made_by(provenance: Mapping[str, Provenance], rewrite: AppliedRewrite) -> Iterator[tuple[str, Provenance]]:
    """Each node that the rewrite made or changed, with its provenance."""
    removed = {node.name: node for node in rewrite.inverse.insert}
    producers = {value: node for node in removed.values() for value in node.outputs if value}
    asked = {node.name for node in rewrite.edit.insert}
    replaced: dict[str, list[str]] = {}
    for old, new in rewrite.edit.followed.items():
        replaced.setdefault(new, []).append(old)
    rule = "" if rewrite.rule is None else rewrite.rule.name
    for node in rewrite.edit.insert:
        before = removed.get(node.name)
        if before is not None and _is_same(before, node):
            continue
        values = [old for value in node.outputs for old in (value, *replaced.get(value, ())) if old in producers]
        found = _cone(node, values, producers, asked)
        sources = ([node.name] if before is not None else []) + found or rewrite.nodes or list(removed)
        names = dict.fromkeys(name for source in sources for name in _origins(provenance, source))
        yield node.name, Provenance(rewrite.pass_name, rule, tuple(names)[:MAX_ORIGINS])


def _cone(node: Node, values: Iterable[str], producers: Mapping[str, Node], asked: set[str]) -> list[str]:
    """The removed nodes that computed these values from the operands of `node`, in the order of the computation.

    A node that the rewrite inserts again under its name stays itself, and is not one of them.
    """
    found: dict[str, None] = {}
    waiting, seen, operands = list(values), set[str](), set(node.operands)
    while waiting:
        value = waiting.pop()
        producer = producers.get(value)
        if value in seen or producer is None or (producer.name in asked and producer.name != node.name):
            continue
        seen.add(value)
        found[producer.name] = None
        waiting += [operand for operand in producer.operands if operand not in operands]
    return list(reversed(found))


def _origins(provenance: Mapping[str, Provenance], name: str) -> tuple[str, ...]:
    known = provenance.get(name)
    return (name,) if known is None else known.origins


def _is_same(before: Node, after: Node) -> bool:
    """Whether both compute the same from the same; their metadata is not compared."""
    return (
        (before.op, before.overload, before.inputs, before.outputs)
        == (after.op, after.overload, after.inputs, after.outputs)
        and not before.bodies
        and not after.bodies
        and before.attributes.keys() == after.attributes.keys()
        and all(
            attribute_key(value) == attribute_key(after.attributes[key]) for key, value in before.attributes.items()
        )
    )
