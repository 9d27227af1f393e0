"""What needs a Transpose: the nearest operator or border above it, and below it, whose order of axes is fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from workbench.analysis.metrics.transpose_cost import elements, moved_by_node
from workbench.ir import Graph, Node
from workbench.ops.channels_last import plain_op
from workbench.ops.contract import layout_of
from workbench.planning.layout.infer import TENSOR, is_cnn, values_of_same_axes
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.without_transpose import cost_without
from workbench.support.reachability import reachable

_FOLLOW = ("agnostic", "remapped")  # kinds of operators that run in the order of their operands


def what_needs_transpose(graph: Graph, transpose: Node, layouts: Mapping[str, str], target: Profile) -> str:
    """Clauses on what is above and below, on what removing it would cost, and on what it moves in a run, as a sentence.

    layouts: of the graph's values. target: whose operators demand layouts.
    """
    above = _nearest(transpose.inputs[0], lambda value: _sources(graph, value, layouts, target))
    below = _nearest(transpose.outputs[0], lambda value: _readers(graph, value, layouts, target))
    clauses = [f"{where} it, {fixed}" for where, fixed in (("above", above), ("below", below)) if fixed]
    clauses += filter(None, [cost_without(graph, transpose, layouts, target)])
    text = "; ".join([*clauses, f"it moves {elements(moved_by_node(graph, transpose))}"])
    return f"{text[:1].upper()}{text[1:]}."


_Found = tuple[str | None, Iterable[str]]  # what fixes the order of a value, or else the values to look at next


def _nearest(value: str, look: Callable[[str], _Found]) -> str | None:
    """What fixes the order of the value, by breadth-first search over values of that order; None if nothing does."""
    found = cache(look)
    values = reachable([value], lambda one: filter(None, found(one)[1]))
    return next((fixed for one in values if (fixed := found(one)[0]) is not None), None)


def _sources(graph: Graph, value: str, layouts: Mapping[str, str], target: Profile) -> _Found:
    if graph.is_input(value):
        return f"'{value}' is an input of the model{_in_layout(layouts, value)}", ()
    producer = graph.producer(value)
    if producer is None:  # a constant, which is stored in any order
        return None, ()
    fixed = _fixed_by(producer, layouts, value, target)
    return fixed, () if fixed is not None else _tied(graph, producer, value, producer.inputs)


def _readers(graph: Graph, value: str, layouts: Mapping[str, str], target: Profile) -> _Found:
    if graph.is_output(value):
        return f"'{value}' is an output of the model{_in_layout(layouts, value)}", ()
    users = graph.users(value)
    fixed = next((one for user in users if (one := _fixed_by(user, layouts, value, target)) is not None), None)
    if fixed is not None:
        return fixed, ()
    return None, [output for user in users for output in _tied(graph, user, value, user.outputs)]


def _tied(graph: Graph, node: Node, value: str, ends: Sequence[str]) -> list[str]:
    """Those of the node's operands or results that have the axes of the value, in its order."""
    tied = values_of_same_axes(graph, node)
    return [end for end in ends if end in tied] if value in tied else []


def _fixed_by(node: Node, layouts: Mapping[str, str], value: str, target: Profile) -> str | None:
    """Why the node has the value in its order; None if it follows its operands."""
    demanded = target.required_layouts.get(plain_op(node))
    if demanded is not None and is_cnn(layouts.get(value, TENSOR)):  # not of its weights
        return f"{node} must run in {demanded} on '{target.name}'"
    if node.op == "Transpose":
        return f"{node} permutes again"
    kind = layout_of(node).kind
    if kind in _FOLLOW:
        return None
    if kind == "sensitive":
        return f"{node} runs{_in_layout(layouts, value) or ' as the model has it'}"
    return f"{node} needs the axes in the model's order"


def _in_layout(layouts: Mapping[str, str], value: str) -> str:
    layout = layouts.get(value, TENSOR)
    return "" if layout == TENSOR else f" in {layout}"
