"""What nearly every rule asks first, each with the sentence of its refusal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.ir import DataType, Edit, Graph, Node
from workbench.ir.permutation import Permutation
from workbench.ir.types import Shape
from workbench.layout.cost import perm_of
from workbench.rewrite.rule import NoMatch, Rewrite


def require_constant(graph: Graph, value: str, node: Node) -> np.ndarray:
    """The numbers of a constant operand. Raises NoMatch for a value that is computed."""
    tensor = graph.constant(value)
    if tensor is None:
        raise NoMatch(f"'{value}', an operand of {node}, is not a constant")
    return tensor.numpy()


def require_producer(graph: Graph, value: str, operators: Sequence[str], node: Node) -> Node:
    """The node that makes `value`. Raises NoMatch where it is none of these operators."""
    found = graph.producer(value)
    if found is None or found.op not in operators:
        raise NoMatch(f"{node} does not follow {one_of(operators)}")
    return found


def require_single_use(graph: Graph, node: Node, made: Node) -> None:
    """Raises NoMatch where anything but one operand of `node` needs a result of `made`."""
    twice = next((value for value in filter(None, made.outputs) if node.inputs.count(value) > 1), None)
    if twice is not None:
        raise NoMatch(f"{node} reads '{twice}' of {made} twice")
    refuse_other_readers(graph, made, (node,))


def refuse_other_readers(graph: Graph, made: Node, readers: Sequence[Node]) -> None:
    """Raises NoMatch where anything but these nodes needs a result of `made`."""
    known = {node.name for node in readers}
    for value in filter(None, made.outputs):
        other = next((user for user in graph.users(value) if user.name not in known), None)
        if other is not None:
            raise NoMatch(f"{other} reads '{value}' of {made} too")
        if graph.is_output(value):
            raise NoMatch(f"'{value}' of {made} is an output of the graph")


def forward_operand(graph: Graph, node: Node, source: str, sentence: str, matched: Sequence[Node] = ()) -> Rewrite:
    """The rewrite in which `node` goes and its readers get `source`. Raises NoMatch where public names forbid it.

    matched: other nodes that the rewrite is about.
    """
    result = node.outputs[0]
    if graph.is_output(result) and graph.producer(source) is None:
        raise NoMatch(f"{node} is all that is between '{source}' and the output '{result}'")
    if graph.is_output(result) and graph.is_output(source):
        raise NoMatch(f"'{source}' and '{result}' of {node} are both outputs of the graph")
    edit = Edit(remove=(node.name,), replace={result: source})
    return Rewrite(edit, sentence, (*(other.name for other in matched), node.name))


def is_same_shape(a: Shape, b: Shape) -> bool:
    """Are they known to be equal, symbolic dims by their names?"""
    return a is not None and a == b and None not in a


def is_same_axis(a: int, b: int, rank: int | None) -> bool:
    """Are they known to be one axis, either perhaps counted from the end?"""
    return a == b or (rank is not None and rank > 0 and (a - b) % rank == 0)


def broadcasts_into(small: Shape, large: Shape) -> bool:
    """Has a result of both operands the shape `large`, whatever its symbolic dims are?"""
    if small is None or large is None or len(small) > len(large):
        return False
    pairs = zip(reversed(small), reversed(large), strict=False)
    return all(a == 1 or (a is not None and a == b) for a, b in pairs)


def require_integers(graph: Graph, value: str, node: Node) -> None:
    """Raises NoMatch for an operand of the node that is not known to hold integers."""
    type_ = graph.tensor_type(value)
    if type_ is None or not type_.dtype.is_integer():
        raise NoMatch(f"'{value}', an operand of {node}, is not known to hold integers")


def require_floating(graph: Graph, value: str, node: Node) -> None:
    """Raises NoMatch for an operand of the node that is not known to hold floating-point numbers."""
    type_ = graph.tensor_type(value)
    if type_ is None or not type_.dtype.is_floating_point():
        raise NoMatch(f"'{value}', an operand of {node}, is not known to hold floating-point numbers")


def require_float_or_double(graph: Graph, value: str, node: Node) -> None:
    """Raises NoMatch for an operand that is not known to hold floating-point numbers of 32 or 64 bits."""
    type_ = graph.tensor_type(value)
    if type_ is None or type_.dtype not in (DataType.FLOAT, DataType.DOUBLE):
        raise NoMatch(f"'{value}', an operand of {node}, is not known to be float or double")


def permutation(graph: Graph, transpose: Node) -> Permutation:
    """The permutation of a Transpose. Raises NoMatch where it is not known."""
    perm = perm_of(graph, transpose)
    if perm is None:
        raise NoMatch(f"{transpose} reverses the axes of a value whose rank is not known")
    return perm


def one_of(operators: Sequence[str]) -> str:
    """Operators in a sentence: "an Add or Sub"."""
    *most, last = operators
    words = f"{', '.join(most)} or {last}" if most else last
    return f"{'an' if words[0] in 'AEIOU' else 'a'} {words}"
