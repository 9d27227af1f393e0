"""Casts moved across one operator: behind a Concat or Where, before a Split, and before what repeats elements."""

from __future__ import annotations

from workbench.ir import DataType, Edit, Graph, Node, TensorType
from workbench.rewrite.analyses.casts import (
    common_source,
    keeps_numbers,
    require_change,
    require_plain,
    target_of,
    type_name,
)
from workbench.rewrite.analyses.element_types import (
    parameters,
    repetition,
    require_no_larger,
    require_runs_in,
    require_same_rounding,
    with_operands,
)
from workbench.rewrite.core.guards import (
    is_same_shape,
    require_no_other_users,
    require_producer,
    require_single_use,
)
from workbench.rewrite.core.rule import NoMatch, Rewrite

REPEATING = ("Expand", "Tile", "Gather")


def _require_no_cast_above(graph: Graph, cast: Node, value: str) -> None:
    """Raises NoMatch if the Cast would read the result of one that rounds to float16, which may then be left out."""
    if require_plain(graph, value) == DataType.FLOAT16 and graph.producer(value) is not None:
        raise NoMatch(f"ONNX Runtime may not round '{value}' to float16 before {cast}")


def _without_cast(graph: Graph, value: str) -> str:
    """What is cast to this value, to a type that represents all its numbers; else the value itself."""
    cast = graph.producer(value)
    if cast is None or cast.op != "Cast" or not keeps_numbers(require_plain(graph, cast.inputs[0]), target_of(cast)):
        return value
    return cast.inputs[0]


def after_siblings(graph: Graph, node: Node, rounds_float16: bool) -> Rewrite:
    """One Cast after a Concat or Where in place of those before it. Raises NoMatch.

    rounds_float16: whether float16 may be rounded where ONNX Runtime does not round it now, or not rounded.
    """
    not_moved = {*parameters(node)}
    operands = tuple(value for value in node.inputs if value and value not in not_moved)
    producers = {value: graph.producer(value) for value in operands}
    casts = [producer for producer in producers.values() if producer is not None and producer.op == "Cast"]
    if len(casts) < 2 or len(casts) < len(producers):
        raise NoMatch(f"{node} does not combine the results of two or more Casts alone")
    source, wide = common_source(graph, node, casts), target_of(casts[0])
    require_change(casts[0], source)
    for cast in casts:
        require_no_other_users(graph, cast, (node,))
    require_no_larger(node, source, wide)
    result = graph.shape(node.outputs[0])
    if node.op != "Concat" and not any(is_same_shape(graph.shape(value), result) for value in operands):
        raise NoMatch(f"{node} is not known to give as few elements as the Casts before it")
    require_runs_in(graph, node, source, rounds_float16)
    for cast in () if rounds_float16 else casts:
        require_same_rounding(graph, cast, cast.inputs[0])
    value = graph.fresh(f"{node.outputs[0]}_{type_name(source)}")
    narrow = with_operands(node, {cast.outputs[0]: cast.inputs[0] for cast in casts}.__getitem__, (value,))
    cast_after = casts[0].replace(inputs=(value,), outputs=node.outputs)
    removed = (*(cast.name for cast in casts), node.name)
    types = {value: TensorType(source, result)}
    sentence = f"{len(casts)} Casts from {type_name(source)} to {type_name(wide)} before {node} become one after it"
    return Rewrite(Edit(remove=removed, insert=(narrow, cast_after), types=types), sentence, removed)


def before_pieces(graph: Graph, node: Node, rounds_float16: bool) -> Rewrite:
    """One Cast before a Split in place of those of its pieces. Raises NoMatch. rounds_float16: see `after_siblings`."""
    casts = {piece: _only_cast(graph, node, piece) for piece in node.outputs if piece and graph.users(piece)}
    targets = list(dict.fromkeys(map(target_of, casts.values())))
    if len(casts) < 2 or len(targets) > 1:
        raise NoMatch(f"no two pieces of {node} are cast, or to different types")
    source, target = require_plain(graph, node.inputs[0]), targets[0]
    require_no_larger(node, target, source)
    require_runs_in(graph, node, target, rounds_float16)
    first = next(iter(casts.values()))
    require_plain(graph, first.outputs[0])
    require_change(first, source)
    if not rounds_float16 or not target.is_floating_point():
        _require_no_cast_above(graph, first, node.inputs[0])
    if not rounds_float16:
        require_same_rounding(graph, first, _without_cast(graph, node.inputs[0]))
    before = graph.fresh(f"{node.inputs[0]}_{type_name(target)}")
    outputs: list[str] = []
    for piece in node.outputs:
        unread = graph.fresh(f"{piece}_{type_name(target)}", (before, *outputs)) if piece else ""
        outputs.append(casts[piece].outputs[0] if piece in casts else unread)
    cast = first.replace(inputs=node.inputs[:1], outputs=(before,))
    split = with_operands(node, lambda _: before, tuple(outputs))
    removed = (node.name, *(cast.name for cast in casts.values()))
    types = {before: TensorType(target, graph.shape(node.inputs[0]))}
    sentence = f"{len(casts)} Casts to {type_name(target)} of the pieces of {node} become one before it"
    return Rewrite(Edit(remove=removed, insert=(cast, split), types=types), sentence, removed)


def _only_cast(graph: Graph, node: Node, piece: str) -> Node:
    """The Cast that alone reads the piece."""
    first, *others = graph.users(piece)
    if others or first.op != "Cast" or graph.is_output(piece):
        raise NoMatch(f"'{piece}' of {node} is not read by one Cast alone")
    return first


def before_repeating(graph: Graph, node: Node, rounds_float16: bool) -> Rewrite:
    """The Cast before an operator that repeats elements. Raises NoMatch. rounds_float16: see `after_siblings`."""
    repeating = require_producer(graph, node.inputs[0], REPEATING, node)
    require_single_use(graph, node, repeating)
    once = repeating.inputs[0]
    source, target = require_plain(graph, once), target_of(node)
    require_plain(graph, node.outputs[0])
    require_change(node, source)
    times = repetition(graph, repeating)
    if times <= 1:
        raise NoMatch(f"{repeating} is not known to give more elements than it reads")
    if times * source.bitwidth <= target.bitwidth:
        raise NoMatch(f"{repeating} would move more bytes of {type_name(target)} than {node} would save")
    require_runs_in(graph, repeating, target, rounds_float16)
    if not rounds_float16 or not target.is_floating_point():
        _require_no_cast_above(graph, node, once)
    if not rounds_float16:
        require_same_rounding(graph, node, once)
    value = graph.fresh(f"{once}_{type_name(target)}")
    edit = Edit(
        remove=(repeating.name, node.name),
        insert=(
            node.replace(inputs=(once,), outputs=(value,)),
            with_operands(repeating, lambda _: value, node.outputs),
        ),
        types={value: TensorType(target, graph.shape(once))},
    )
    sizes = [None if (t := graph.tensor_type(v)) is None else t.elements for v in (once, node.outputs[0])]
    are_cast = "element is cast" if sizes[0] == 1 else "elements are cast"
    count = "" if None in sizes else f": {sizes[0]:,} {are_cast}, not {sizes[1]:,}"
    sentence = f"{node} is moved before {repeating}, which repeats elements{count}"
    return Rewrite(edit, sentence, (repeating.name, node.name))
