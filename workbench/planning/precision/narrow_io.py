"""Inputs and outputs in the narrower type that is computed: the Casts at the border of the model are removed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.analysis.metrics.transpose_cost import elements, known_sum
from workbench.ir import DataType, Edit, Graph, Node
from workbench.ir.narrowed_io import IN_FLOAT32, INPUT_TYPE, OUTPUT_TYPE
from workbench.ir.types import TensorType, numpy_name
from workbench.planning.precision.cast_cost import start_of_chain
from workbench.planning.precision.element_types import NARROW_TYPES, WIDE, dtype_of

AS_IN_MODEL, AS_COMPUTED = "float32", "as-computed"  # element types of inputs and outputs, as --io names them


def narrow_io(graph: Graph) -> Iterator[tuple[Edit, str, tuple[str, ...]]]:
    """Declare float32 inputs and outputs narrower where nothing needs float32. Yields (edit, sentence, nodes).

    Each edit must be applied before the next is asked for.
    """
    for value in graph.outputs:
        cast = graph.producer(value)
        if cast is None or not _is_removable(graph, cast):
            continue
        computed = graph.tensor_type(cast.inputs[0])
        assert computed is not None  # otherwise it is no Cast from a known type
        edit = Edit(
            remove=(cast.name,),
            replace={value: cast.inputs[0]},
            types={value: computed},
            metadata={OUTPUT_TYPE + value: IN_FLOAT32},
        )
        sentence = f"output '{value}' is returned in {numpy_name(computed.dtype)}, as it is computed"
        yield edit, f"{sentence}; {_saved(graph, (cast,))}", (cast.name,)
    for value in graph.inputs:
        casts, narrow = graph.users(value), _type_that_is_read(graph, value)
        type_ = graph.tensor_type(value)
        if narrow is None or type_ is None or value in graph.kept.defaults or graph.is_output(value):
            continue
        edit = Edit(
            remove=tuple(cast.name for cast in casts),
            replace={cast.outputs[0]: value for cast in casts},
            types={value: TensorType(narrow, type_.shape)},
            metadata={INPUT_TYPE + value: IN_FLOAT32},
        )
        readers = "its reader casts" if len(casts) == 1 else f"its {len(casts):,} readers cast"
        sentence = f"input '{value}' is taken in {numpy_name(narrow)}, as {readers} it; {_saved(graph, casts)}"
        yield edit, sentence, tuple(cast.name for cast in casts)


def _type_that_is_read(graph: Graph, value: str) -> DataType | None:
    """The narrower type to which every reader casts a float32 value, for good; None if one does not."""
    if dtype_of(graph, value) != WIDE:
        return None
    read = {node.attr("to") if node.op == "Cast" else None for node in graph.users(value)}
    results = [result for node in graph.users(value) for result in node.outputs]
    if any(user.op == "Cast" and user.attr("to") == WIDE.value for result in results for user in graph.users(result)):
        return None
    return next((narrow for narrow in NARROW_TYPES.values() if read == {narrow.value}), None)


def _is_removable(graph: Graph, node: Node) -> bool:
    """Whether `node` casts another node's result to float32, from a narrower type, for the caller only."""
    if node.op != "Cast" or graph.users(node.outputs[0]) or graph.outputs.count(node.outputs[0]) > 1:
        return False
    source, result = (dtype_of(graph, value) for value in (node.inputs[0], node.outputs[0]))
    if source not in NARROW_TYPES.values() or result != WIDE:
        return False
    return graph.producer(node.inputs[0]) is not None and not graph.is_output(node.inputs[0])


def _saved(graph: Graph, casts: tuple[Node, ...]) -> str:
    shapes = (bound_shape(graph, cast.inputs[0]) for cast in casts)
    return f"{elements(known_sum(None if shape is None else math.prod(shape) for shape in shapes))} no longer cast"


def free_border(graph: Graph, narrow: DataType) -> frozenset[str]:
    """The float32 inputs and outputs that `narrow_io` can declare in `narrow`, if operators then allow it.

    Of values that differ by Casts between the two types, only one can be such, and no other an input or output.
    """
    border = (*graph.inputs, *graph.outputs)
    counts = Counter(before_casts(graph, value, narrow) for value in border)
    alone = (value for value in border if counts[before_casts(graph, value, narrow)] == 1)
    return frozenset(v for v in alone if dtype_of(graph, v) == WIDE and v not in graph.kept.defaults)


def before_casts(graph: Graph, value: str, narrow: DataType) -> str:
    """The value from which Casts between the two types lead to this one, those that round on purpose too."""

    def is_cast(node: Node) -> bool:
        return node.op == "Cast" and {dtype_of(graph, v) for v in (node.inputs[0], node.outputs[0])} == {WIDE, narrow}

    return start_of_chain(graph, value, is_cast)
