"""Two operators in a row, each with a constant, and the one that does both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, constant
from workbench.rewrite.guards import maker, reads_alone
from workbench.rewrite.rule import Found, NoMatch


@dataclass(frozen=True)
class Chain:
    """`first` joins `value` and constant `a`, `second` joins its result and constant `b`."""

    first: Node
    second: Node
    value: str
    a: np.ndarray
    b: np.ndarray


def constant_place(graph: Graph, node: Node) -> int:
    """Which of the two operands is a constant."""
    places = [index for index, value in enumerate(node.inputs) if value in graph.constants]
    if len(node.inputs) != 2 or len(places) != 1:
        raise NoMatch(f"{node} does not join one constant and one value that is computed")
    return places[0]


def chain_of(graph: Graph, node: Node, operators: Sequence[str]) -> Chain:
    """The chain that ends in `node`. Raises NoMatch unless a node of these operators stands before it, for it alone."""
    place = constant_place(graph, node)
    first = maker(graph, node.inputs[1 - place], operators, node)
    before = constant_place(graph, first)
    reads_alone(graph, node, first)
    a, b = graph.constants[first.inputs[before]].numpy(), graph.constants[node.inputs[place]].numpy()
    return Chain(first, node, first.inputs[1 - before], a, b)


def gathered(graph: Graph, chain: Chain, op: str, joined: np.ndarray, first_operand: bool = False) -> Found:
    """The chain as one node with the constant `joined`."""
    if joined.size > max(chain.a.size, chain.b.size):
        raise NoMatch(f"the constants of {chain.first} and {chain.second} together are larger than each")
    place = constant_place(graph, chain.second)
    name = graph.fresh(f"{chain.second.inputs[place]}_gathered")
    inputs = (name, chain.value) if first_operand else (chain.value, name)
    node = chain.second.replace(op_type=op, inputs=inputs)
    edit = Edit(remove=(chain.first.name, chain.second.name), insert=(node,), constants={name: constant(joined, name)})
    numbers = f"of shape {list(joined.shape)}" if joined.shape else f"{joined}"
    sentence = f"the constants of {chain.first} and {chain.second} become one, {numbers}; 1 node less"
    return Found(edit, sentence, (chain.first.name, chain.second.name))


def demand(chain: Chain, kinds: str, what: str) -> None:
    """Raises NoMatch for numbers of another of NumPy's kinds than those asked for."""
    if chain.a.dtype.kind not in kinds:
        raise NoMatch(f"{chain.second} computes with {chain.a.dtype}, not with {what}")
