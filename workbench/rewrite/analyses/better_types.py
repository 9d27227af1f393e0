"""Types inferred from a graph as it is now that say more than its present types, since passes make more known."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.analysis.inference.open_sizes import types_with_open_sizes
from workbench.analysis.inference.shapes import infer_types, is_generated_symbol
from workbench.ir import Edit, Graph, Node, TensorType
from workbench.ir.types import Dim
from workbench.rewrite.core.bodies import closed_body, opened_body, with_body


def better_types(graph: Graph) -> dict[str, TensorType]:
    """The types that say more than those of the graph, by value; of the main graph only.

    They say more with a number, with a symbol of the inputs, or where two sizes turn out to be one.
    """
    results = {
        value: type_ for value, type_ in infer_types(graph, {}, again=True).items() if _is_computed(graph, value)
    }
    names = _common_names(graph, results)
    merged = {value: _merged(type_, graph.tensor_type(value), names) for value, type_ in results.items()}
    better = {value: type_ for value, type_ in merged.items() if type_ != graph.type(value)}
    after = graph.copy()
    after.apply(Edit(types=better))
    return {**better, **types_with_open_sizes(after)}


def with_better_bodies(graph: Graph, node: Node) -> Node:
    """The node with better types in its bodies; itself if they have none."""
    changed = node
    for key, body in node.bodies.items():
        inside = opened_body(graph, body)
        types = {value: type_ for value, type_ in better_types(inside).items() if not graph.has_value(value)}
        nodes = [new for old in inside.with_bodies if (new := with_better_bodies(inside, old)) is not old]
        if types or nodes:
            inside.apply(Edit(remove=tuple(n.name for n in nodes), insert=tuple(nodes), types=types))
            changed = with_body(changed, key, closed_body(inside, body, graph))
    return changed


def _is_computed(graph: Graph, value: str) -> bool:
    return value not in graph.constants and not graph.is_input(value)


def _common_names(graph: Graph, results: Mapping[str, TensorType]) -> dict[str, str]:
    """The name of each size that has symbols that an inference generated, by all such symbols, present and new.

    It is a symbol of the inputs if some value says that the size is that one, and otherwise a generated symbol.
    """
    names: dict[str, str] = {}
    for value, type_ in results.items():
        known = graph.tensor_type(value)
        for dim, present in _pairs(type_, known):
            if not (isinstance(dim, str) and isinstance(present, str)):
                continue
            first, second = _root(names, present), _root(names, dim)
            if not is_generated_symbol(second):
                first, second = second, first
            if first != second and is_generated_symbol(second):
                names[second] = first
    return {symbol: _root(names, symbol) for symbol in names}


def _root(names: Mapping[str, str], symbol: str) -> str:
    while symbol in names:
        symbol = names[symbol]
    return symbol


def _pairs(tensor_type: TensorType, known: TensorType | None) -> list[tuple[Dim, Dim]]:
    if known is None or known.shape is None or tensor_type.shape is None or len(known.shape) != len(tensor_type.shape):
        return []
    return list(zip(tensor_type.shape, known.shape, strict=True))


def _merged(tensor_type: TensorType, known: TensorType | None, names: Mapping[str, str]) -> TensorType:
    if tensor_type.shape is None:
        return tensor_type if known is None else known
    pairs = _pairs(tensor_type, known) or [(dim, None) for dim in tensor_type.shape]
    return tensor_type.with_shape(tuple(_better(dim, present, names) for dim, present in pairs))


def _better(result: Dim, present: Dim, names: Mapping[str, str]) -> Dim:
    """The dim that says more: a number, then a symbol of the inputs, then a symbol of inference."""
    if isinstance(result, int) or isinstance(present, int):
        return result if isinstance(result, int) else present
    dims = [dim for dim in (present, result) if dim is not None]
    symbol_of_inputs = next((dim for dim in dims if not is_generated_symbol(dim)), None)
    symbol = symbol_of_inputs or present or result
    return None if symbol is None else names.get(symbol, symbol)
