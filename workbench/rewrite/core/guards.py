"""Common preconditions of rules, each with the sentence of its refusal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from workbench.ir import DataType, Edit, Graph, Node
from workbench.ir.permutation import Permutation, perm_of
from workbench.ir.types import Shape
from workbench.rewrite.core.rule import NoMatch, Rewrite


def require_constant(graph: Graph, value: str, node: Node) -> np.ndarray:
    """The elements of a constant operand. Raises NoMatch for a computed value."""
    tensor = graph.constant(value)
    if tensor is None:
        raise NoMatch(f"'{value}', an operand of {node}, is not a constant")
    return tensor.numpy()


def require_producer(graph: Graph, value: str, operators: Sequence[str], node: Node) -> Node:
    """The producer of `value`. Raises NoMatch if it is none of these operators."""
    result = graph.producer(value)
    if result is None or result.op not in operators:
        raise NoMatch(f"{node} does not follow {one_of(operators)}")
    return result


def require_single_use(graph: Graph, node: Node, made: Node) -> None:
    """Raises NoMatch unless one operand of `node` is the only use of the results of `made`."""
    twice = next((value for value in filter(None, made.outputs) if node.inputs.count(value) > 1), None)
    if twice is not None:
        raise NoMatch(f"{node} reads '{twice}' of {made} twice")
    refuse_other_readers(graph, made, (node,))


def refuse_other_readers(graph: Graph, made: Node, readers: Sequence[Node], kept: Collection[str] = ()) -> None:
    """Raises NoMatch if anything but these nodes uses a result of `made`. kept: results that anything may use."""
    known = {node.name for node in readers}
    for value in (value for value in made.outputs if value and value not in kept):
        other = next((user for user in graph.users(value) if user.name not in known), None)
        if other is not None:
            raise NoMatch(f"{other} reads '{value}' of {made} too")
        if graph.is_output(value):
            raise NoMatch(f"'{value}' of {made} is an output of the graph")


def forward_operand(graph: Graph, node: Node, source: str, sentence: str, matched: Sequence[Node] = ()) -> Rewrite:
    """The rewrite that removes `node` and gives its users `source`. Raises NoMatch if public names prevent it.

    matched: other nodes of the match.
    """
    result = node.outputs[0]
    if graph.is_output(result) and graph.producer(source) is None:
        raise NoMatch(f"{node} is all that is between '{source}' and the output '{result}'")
    if graph.is_output(result) and graph.is_output(source):
        raise NoMatch(f"'{source}' and '{result}' of {node} are both outputs of the graph")
    edit = Edit(remove=(node.name,), replace={result: source})
    return Rewrite(edit, sentence, (*(other.name for other in matched), node.name))


def is_same_shape(a: Shape, b: Shape) -> bool:
    """Whether they are known to be equal; symbolic dims are compared by name."""
    return a is not None and a == b and None not in a


def is_same_axis(a: int, b: int, rank: int | None) -> bool:
    """Whether they are known to be one axis; either may be negative."""
    return a == b or (rank is not None and rank > 0 and (a - b) % rank == 0)


def broadcasts_into(small: Shape, large: Shape) -> bool:
    """Whether broadcasting both operands gives the shape `large`, for all sizes of symbolic dims."""
    if small is None or large is None or len(small) > len(large):
        return False
    pairs = zip(reversed(small), reversed(large), strict=False)
    return all(a == 1 or (a is not None and a == b) for a, b in pairs)


def require_integers(graph: Graph, value: str, node: Node) -> None:
    """Raises NoMatch for an operand of the node that is not known to hold integers."""
    type_ = graph.tensor_type(value)
    if type_ is None or not type_.dtype.is_integer():
        raise NoMatch(f"'{value}', an operand of {node}, is not known to hold integers")


def require_signed_integers(graph: Graph, value: str, node: Node) -> None:
    """Raises NoMatch for an operand of the node that is not known to hold integers with a sign."""
    type_ = graph.tensor_type(value)
    if type_ is None or not type_.dtype.is_integer() or not type_.dtype.is_signed():
        known = "not known" if type_ is None else type_.dtype.name.lower()
        raise NoMatch(f"'{value}', an operand of {node}, is {known}, not a signed integer")


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
    """The permutation of a Transpose. Raises NoMatch if it is unknown."""
    perm = perm_of(graph, transpose)
    if perm is None:
        raise NoMatch(f"{transpose} reverses the axes of a value whose rank is not known")
    return perm


def one_of(operators: Sequence[str]) -> str:
    """Operators in a sentence: "an Add or Sub"."""
    *most, last = operators
    words = f"{', '.join(most)} or {last}" if most else last
    return f"{'an' if words[0] in 'AEIOU' else 'a'} {words}"
