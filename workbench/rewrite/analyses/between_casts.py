"""The operators between a Cast and the Casts and constants before it, and the same in another element type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from workbench.ir import DataType, Edit, Graph, Node, TensorType, constant
from workbench.rewrite.analyses.casts import (
    common_source,
    is_one_cast,
    keeps_numbers,
    require_change,
    require_plain,
    target_of,
    type_name,
)
from workbench.rewrite.analyses.element_types import (
    MOVERS,
    moved_operands,
    parameters,
    represented,
    require_same_in,
    require_same_rounding,
    with_operands,
)
from workbench.rewrite.core.guards import require_constant, require_no_other_users
from workbench.rewrite.core.rule import NoMatch, Rewrite

_MAX_OPERATORS = 16


@dataclass
class _Region:
    """What a Cast reads, back to other Casts and to constants.

    operators: by name, in topological order; none has a reader outside.
    casts:     by their result.
    constants: each with an operator that reads it.
    """

    graph: Graph
    operators: dict[str, Node] = field(default_factory=dict)
    casts: dict[str, Node] = field(default_factory=dict)
    constants: dict[str, Node] = field(default_factory=dict)

    @property
    def parameters(self) -> set[str]:
        """Operands that no operator moves: indices, shapes, conditions."""
        return {value for operator in self.operators.values() for value in parameters(operator)}

    @property
    def unread_casts(self) -> tuple[Node, ...]:
        """The Casts that only moved operands of the operators read."""
        return tuple(
            cast
            for value, cast in self.casts.items()
            if not self.graph.is_output(value)
            and value not in self.parameters
            and all(user.name in self.operators for user in self.graph.users(value))
        )


def across_operators(graph: Graph, node: Node, rounds_float16: bool) -> Rewrite:
    """The rewrite that removes the Cast `node` and those before it that it undoes, or leaves one. Raises NoMatch.

    rounds_float16: whether float16 may be rounded where ONNX Runtime does not round it now, or not rounded.
    """
    region = _region_before(graph, node)
    wide, target = require_plain(graph, node.inputs[0]), target_of(node)
    casts, unread = list(region.casts.values()), region.unread_casts
    source = common_source(graph, node, casts) if casts else target
    for cast in casts:
        require_change(cast, source)
    if casts and not keeps_numbers(source, wide):
        raise NoMatch(f"{type_name(wide)}, to which {casts[0]} casts, does not represent every {type_name(source)}")
    if source != target and not (unread and is_one_cast(source, wide, target)):
        raise NoMatch(f"{casts[0]} and {node} do not cancel, and are not known to become one Cast")
    last = node.inputs[0]
    value = node.outputs[0] if source == target else graph.fresh(f"{last}_{type_name(source)}")
    for operator in region.operators.values():
        require_same_in(graph, operator, source, wide, rounds_float16)
    if not rounds_float16:
        _require_same_rounding(region, node)
    edit = _in_type(region, source, {last: value})
    final_cast = () if source == target else (node.replace(inputs=(value,)),)
    removed = (*(cast.name for cast in unread), *region.operators, node.name)
    across = f"{len(region.operators)} operators" if len(region.operators) > 1 else str(graph.producer(last))
    if casts:
        subject = str(casts[0]) if len(casts) == 1 else f"{len(casts)} Casts to {type_name(wide)}"
        verb = "cancel" if source == target else f"become one Cast to {type_name(target)}"
        reason = f"{type_name(wide)} represents every {type_name(source)}"
        sentence = f"{subject} and {node} {verb} across {across}: {reason}"
    else:
        constants = " and ".join(f"'{value}'" for value in region.constants)
        sentence = f"{node} is not needed across {across}: {type_name(target)} represents all numbers of {constants}"
    kept = next((cast for cast in casts if cast not in unread), None)
    sentence += f"; {kept} stays for other readers" if kept is not None else ""
    return Rewrite(replace(edit, remove=removed, insert=(*edit.insert, *final_cast)), sentence, removed)


def _require_same_rounding(region: _Region, node: Node) -> None:
    graph, unread = region.graph, region.unread_casts
    for cast in region.casts.values():
        require_same_rounding(graph, node, cast.inputs[0])
        is_input = graph.producer(cast.inputs[0]) is None
        if not is_input and cast not in unread and require_plain(graph, cast.inputs[0]) == DataType.FLOAT16:
            raise NoMatch(f"ONNX Runtime may round '{cast.inputs[0]}' to float16 for other readers alone")


def _region_before(graph: Graph, cast: Node) -> _Region:
    """Raises NoMatch unless operators that only move elements are between the Cast and what it goes back to."""
    region, entered = _Region(graph), set[str]()

    def visit(value: str, reader: Node) -> None:
        producer = graph.producer(value)
        if graph.constant(value) is not None:
            region.constants[value] = reader
        elif producer is not None and producer.op == "Cast":
            region.casts[value] = producer
        elif producer is None or producer.op not in MOVERS or len(entered) == _MAX_OPERATORS:
            raise NoMatch(f"'{value}', which {reader} reads, is neither a constant nor cast or moved")
        elif producer.name not in entered:
            entered.add(producer.name)
            for operand in moved_operands(producer):
                visit(operand, producer)
            region.operators[producer.name] = producer

    visit(cast.inputs[0], cast)
    if not region.operators:
        raise NoMatch(f"no operator is between {cast} and what it casts")
    for operator in region.operators.values():
        require_no_other_users(graph, operator, [cast, *region.operators.values()])
        parameter = next((value for value in operator.outputs if value in region.parameters), None)
        if parameter is not None:
            raise NoMatch(f"'{parameter}' of {operator} is a shape, an index or a condition too")
    return region


def _in_type(region: _Region, dtype: DataType, names: Mapping[str, str]) -> Edit:
    """The edit that inserts the operators on elements of this type, and removes none.

    names: of results in that type, by their present names; the others get new names.
    Raises NoMatch if a constant is not the same in that type.
    """
    graph, suffix = region.graph, type_name(dtype)
    results = [value for operator in region.operators.values() for value in operator.outputs if value]
    new = {value: cast.inputs[0] for value, cast in region.casts.items()}
    for value in (*region.constants, *results):
        new[value] = names.get(value) or graph.fresh(f"{value}_{suffix}", (*new.values(), *names.values()))
    inserted = []
    for operator in region.operators.values():
        outputs = tuple(value and new[value] for value in operator.outputs)
        inserted.append(with_operands(operator, new.__getitem__, outputs))
    constants = {
        new[value]: constant(_numbers(graph, value, reader, dtype), new[value])
        for value, reader in region.constants.items()
    }
    untyped = [value for value in results if not graph.has_value(new[value])]
    types = {new[value]: TensorType(dtype, graph.shape(value)) for value in untyped}
    return Edit(insert=tuple(inserted), constants=constants, types=types)


def _numbers(graph: Graph, value: str, reader: Node, dtype: DataType) -> np.ndarray:
    array, name = require_constant(graph, value, reader), type_name(dtype)
    result = represented(array, dtype)
    if result is None:
        raise NoMatch(f"{name} does not represent every number of '{value}', an operand of {reader}")
    if result.nbytes > array.nbytes and result.size > 1:
        raise NoMatch(f"'{value}', an operand of {reader}, takes more bytes in {name}")
    return result
