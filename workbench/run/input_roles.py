"""The role of an input, inferred from the operators that it reaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workbench.ir import Function, Graph, Node
from workbench.ir.function_calls import Key, function_key
from workbench.ir.types import Shape

# Operators that forward the elements of their first operand unchanged.
_FORWARDING = frozenset({
    "Cast", "CastLike", "Clip", "Concat", "Expand", "Flatten", "Identity", "Pad",
    "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
})  # fmt: skip
_MAKES_BOOL = frozenset({
    "And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Where", "Xor",
})  # fmt: skip
_SIZES = {"ConstantOfShape": 0, "Expand": 1, "Tile": 1, "TopK": 1, "Resize": 3}
_SPLITS = ("Split", "SplitToSequence")
_GATHERS = frozenset(("Gather", "GatherElements", "ScatterElements"))
_GATHERS_ND = frozenset(("GatherND", "ScatterND"))
# com.microsoft.EmbedLayerNormalization: which operand indexes which table.
_EMBED_TABLES = {0: 2, 1: 4, 8: 3}


@dataclass(frozen=True)
class Use:
    """How an operator uses an input.

    kind: "index" (into a table of `size` rows), "mask", "size" (of another value), "target" (of a Reshape), "parts"
          (sizes whose sum is `size`) or "value".
    """

    kind: str
    size: int = 0


@dataclass(frozen=True)
class _Scope:
    """A graph with its enclosing scope: the caller of a function or body."""

    graph: Graph
    outer: _Scope | None = None
    actuals: Mapping[str, str] = field(default_factory=dict)

    def shape(self, value: str) -> Shape:
        shape = self.graph.shape(value)
        if shape is not None or self.outer is None:
            return shape
        return self.outer.shape(self.actuals.get(value, value))


def use_of(graph: Graph, value: str) -> Use:
    """The role of input `value`; for an index into several tables, with the smallest size."""
    result = list(_uses(_Scope(graph), value))
    tables = [use.size for use in result if use.kind == "index"]
    if tables:
        return Use("index", min(tables))
    if "mask" in value.lower() or any(use.kind == "mask" for use in result):
        return Use("mask")
    return next((use for use in result if use.kind in ("size", "target", "parts")), Use("value"))


def _uses(scope: _Scope, value: str) -> Iterator[Use]:
    waiting, seen = [(scope, value)], set()
    while waiting:
        scope, value = waiting.pop()
        if (id(scope.graph), value) in seen:
            continue
        seen.add((id(scope.graph), value))
        for node in scope.graph.users(value):
            for index in (i for i, v in enumerate(node.inputs) if v == value):
                yield from _use_at(scope, node, index)
            waiting += _reached(scope, node, value)


def _use_at(scope: _Scope, node: Node, index: int) -> Iterator[Use]:
    size = _table_size(scope, node, index)
    if size is not None:
        yield Use("index", size)
    elif node.op in _MAKES_BOOL and not (node.op == "Where" and index > 0):
        yield Use("mask")
    elif _SIZES.get(node.op) == index:
        yield Use("size")
    elif node.op == "Reshape" and index == 1:
        yield Use("target")
    elif node.op in _SPLITS and index == 1 and (total := _dim(scope.shape(node.inputs[0]), node.attr("axis"))):
        yield Use("parts", total)


def _table_size(scope: _Scope, node: Node, index: int) -> int | None:
    """The number of rows of the table that operand `index` indexes; None if it is not an index."""
    if node.op in _GATHERS and index == 1:
        return _dim(scope.shape(node.inputs[0]), node.attr("axis"))
    if node.op in _GATHERS_ND and index == 1:
        dims = [dim for dim in scope.shape(node.inputs[0]) or () if isinstance(dim, int)]
        return min(dims, default=None)
    if node.op == "OneHot" and index == 0:
        depth = scope.graph.constant(node.inputs[1])
        return None if depth is None else int(depth.numpy().reshape(-1)[0])
    if node.op == "Equal":  # compared with all row numbers: an explicit one-hot encoding
        index_shape, rows = scope.shape(node.inputs[index]), scope.shape(node.inputs[1 - index])
        return _dim(rows, -1) if index_shape and index_shape[-1] == 1 and _dim(rows, -1) != 1 else None
    if node.op == "SequenceAt" and index == 1:
        return _elements_of(scope, node.inputs[0])
    if node.op == "com.microsoft.EmbedLayerNormalization" and index in _EMBED_TABLES:
        return _dim(scope.shape(node.inputs[_EMBED_TABLES[index]]), 0)
    return None


def _elements_of(scope: _Scope, sequence: str) -> int:
    """A lower bound on the number of tensors in the sequence, from its producer."""
    producer = scope.graph.producer(sequence)
    if producer is not None and producer.op == "SequenceConstruct":
        return len(producer.inputs)
    if producer is not None and producer.op == "SplitToSequence" and len(producer.inputs) > 1:
        return _dim(scope.shape(producer.inputs[1]), 0) or 1
    return 1


def _dim(shape: Shape, axis: int) -> int | None:
    if not shape or not -len(shape) <= axis < len(shape):
        return None
    size = shape[axis]
    return size if isinstance(size, int) and size > 0 else None


def _reached(scope: _Scope, node: Node, value: str) -> Iterator[tuple[_Scope, str]]:
    """The values to which `node` forwards the elements of `value`."""
    if node.op in _FORWARDING and (value == node.inputs[0] or node.op == "Concat"):
        yield from ((scope, out) for out in node.outputs if out)
    function = _functions(scope).get(function_key(node))
    if function is not None:
        inside = _Scope(function.graph, scope, dict(zip(function.graph.inputs, node.inputs, strict=False)))
        yield from ((inside, formal) for formal, actual in inside.actuals.items() if actual == value)
    for body in node.bodies.values():
        if value in body.captured:
            yield _Scope(body, scope), value
        if node.op in ("Loop", "Scan"):
            inside = _Scope(body, scope, dict(zip(body.inputs, node.inputs, strict=False)))
            yield from ((inside, formal) for formal, actual in inside.actuals.items() if actual == value)


def _functions(scope: _Scope) -> Mapping[Key, Function]:
    while scope.outer is not None:
        scope = scope.outer
    return scope.graph.functions
