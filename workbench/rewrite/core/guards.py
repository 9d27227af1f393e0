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
    """The producer of `value`. Raises NoMatch unless it is one of these operators."""
    result = graph.producer(value)
    if result is None or result.op not in operators:
        raise NoMatch(f"{node} does not follow {one_of(operators)}")
    return result


def layout_strategy_of(graph: Graph, node: Node) -> str:
    """The layout strategy that chose the layout in which the node runs, by the name of its pass; "" if none did."""
    made = graph.provenance.get(node.name)
    return made.pass_name if made is not None and made.pass_name.startswith("layout_") else ""


def require_single_use(graph: Graph, node: Node, producer: Node) -> None:
    """Raises NoMatch unless one operand of `node` is the only use of the results of `producer`."""
    twice = next((value for value in filter(None, producer.outputs) if node.inputs.count(value) > 1), None)
    if twice is not None:
        raise NoMatch(f"{node} reads '{twice}' of {producer} twice")
    require_no_other_users(graph, producer, (node,))


def require_no_other_users(graph: Graph, producer: Node, readers: Sequence[Node], shared: Collection[str] = ()) -> None:
    """Raises NoMatch if any other node uses a result of `producer`, or if one is an output.

    shared: results that may have any users.
    """
    allowed = {node.name for node in readers}
    for value in (value for value in producer.outputs if value and value not in shared):
        other = next((user for user in graph.users(value) if user.name not in allowed), None)
        if other is not None:
            raise NoMatch(f"{other} reads '{value}' of {producer} too")
        if graph.is_output(value):
            raise NoMatch(f"'{value}' of {producer} is an output of the graph")


def replace_with_operand(graph: Graph, node: Node, source: str, sentence: str, matched: Sequence[Node] = ()) -> Rewrite:
    """The rewrite that removes `node` and gives its users `source`. Raises NoMatch if public names prevent it.

    matched: other nodes of the match.
    """
    result = node.outputs[0]
    if graph.is_output(result) and graph.producer(source) is None:
        raise NoMatch(f"{node} cannot be removed: input or constant '{source}' would become the output '{result}'")
    if graph.is_output(result) and graph.is_output(source):
        raise NoMatch(f"'{source}' and '{result}' of {node} are both outputs of the graph")
    edit = Edit(remove=(node.name,), replace={result: source})
    return Rewrite(edit, sentence, (*(other.name for other in matched), node.name))


def is_same_shape(a: Shape, b: Shape) -> bool:
    """Whether both shapes are known and equal; symbolic dims are compared by name."""
    return a is not None and a == b and None not in a


def is_same_axis(a: int, b: int, rank: int | None) -> bool:
    """Whether both are known to be the same axis; either may be negative."""
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
    *others, last = operators
    names = f"{', '.join(others)} or {last}" if others else last
    return f"{'an' if names[0] in 'AEIOU' else 'a'} {names}"
