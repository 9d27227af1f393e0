"""The nodes of a graph that compute in each run: those that depend on more than constants."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from workbench.checker.folding import FOLDED
from workbench.checker.inference import Inferred, bodies_of, types_in
from workbench.checker.operators import RANDOM_OPERATORS, operator_name
from workbench.checker.types import PlainType


@dataclass(frozen=True)
class ComputedNode:
    """types: by value that it may read. inside: whether it is in a body."""

    node: NodeProto
    types: Mapping[str, PlainType]
    inside: bool


def computed_nodes(
    inferred: Inferred, fixed: Collection[str], dims: Mapping[str, int], in_each_run: Collection[str] = ()
) -> Iterator[ComputedNode]:
    """The nodes of the main graph and of its bodies.

    fixed: constants of the main graph that no caller can replace. in_each_run: as in `fixed_values`.
    """
    main = inferred.proto.graph
    waiting: list[tuple[GraphProto, Collection[str], ChainMap[str, PlainType]]]
    waiting = [(main, fixed, ChainMap(dict(inferred.types)))]
    while waiting:
        graph, constants, types = waiting.pop()
        known = fixed_values(graph.node, constants, in_each_run)
        for node in graph.node:
            if not known.issuperset(filter(None, node.output)) or not any(node.output):
                yield ComputedNode(node, types, graph is not main)
                for _, body in bodies_of(node):
                    waiting.append((body, [t.name for t in body.initializer], types.new_child(types_in(body, dims))))


def fixed_values(nodes: Iterable[NodeProto], constants: Collection[str], in_each_run: Collection[str] = ()) -> set[str]:
    """The values that a runtime may compute once: constants, and what ONNX's own operators compute of them.

    An input with a default is none, since the caller may give another value, and neither is the result of an operator
    of another domain, which may be random.
    in_each_run: further operators whose results are none.
    """
    fixed = {*constants}
    for node in nodes:
        name = operator_name(node)
        if node.domain not in ("", "ai.onnx") or node.overload or name in RANDOM_OPERATORS or name in in_each_run:
            continue
        reads = {value for value in node.input if value}
        is_constant = name == "Constant" and node.name != FOLDED
        if is_constant or (reads and fixed.issuperset(reads) and not any(bodies_of(node))):
            fixed.update(filter(None, node.output))
    return fixed
