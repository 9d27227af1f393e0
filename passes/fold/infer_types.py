"""Infer the types of values again, since the passes before have made more known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workbench.analysis.inference.shapes import is_generated_symbol
from workbench.errors import counted
from workbench.ir import Edit, Graph, TensorType
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite
from workbench.rewrite.analyses.better_types import better_types, with_better_bodies


@dataclass(frozen=True)
class InferTypes(Pass):
    """Loading infers the types of all values from the file. When passes fold what a shape is computed from, or remove
    what hid a size, more follows than then; the next pass sees it as if the file had been written and opened again.
    No node is changed.

    Does not apply where inference adds nothing to what is known.

    Source: ONNX's shape inference; re-running it inside the pipeline as in onnxsim.
    """

    title = "Infer types again"
    exactness = Exactness.BIT_EXACT

    extra_examples = (
        Example(
            title="As many numbers as the input has elements",
            before="""g (float[N] x) => (int64 y) <int64 first = {0}, int64 one = {1}> {
                s = Shape(x)
                n = Gather(s, first)
                r = Range(first, n, one)
                y = ReduceSum<keepdims=0>(r)
            }""",
            after="""g (float[N] x) => (int64 y) <int64 first = {0}, int64 one = {1}> {
                s = Shape(x)
                n = Gather(s, first)
                r = Range(first, n, one)
                y = ReduceSum<keepdims=0>(r)
            }""",
            sentences=("types that follow now: 'r' is int64[N], where int64[?] was known",),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        types = better_types(graph)
        bodies = [new for old in graph.with_bodies if (new := with_better_bodies(graph, old)) is not old]
        if not types and not bodies:
            return
        producers = dict.fromkeys(node.name for value in types if (node := graph.producer(value)) is not None)
        changes = [_summary(graph, types)] if types else []
        changes += [f"values inside of {node}" for node in bodies]
        edit = Edit(remove=tuple(node.name for node in bodies), insert=tuple(bodies), types=types)
        yield Rewrite(
            edit, f"types that follow now: {'; '.join(changes)}", (*producers, *(node.name for node in bodies))
        )


def _summary(graph: Graph, types: Mapping[str, TensorType]) -> str:
    """The first type that reads differently now, and how many others there are."""
    rows = ((value, _type_text(type_), _type_text(graph.tensor_type(value))) for value, type_ in types.items())
    value, new, old = next((row for row in rows if row[1] != row[2]), ("", "", ""))
    others = len(types) - bool(value)
    if not value:
        return f"{counted(others, 'value')} of which some sizes turn out to be one"
    change = f"'{value}' is {new}, where {old} was known"
    return f"{change}; so {'is' if others == 1 else 'are'} {others:,} more" if others else change


def _type_text(type_: TensorType | None) -> str:
    if type_ is None or type_.shape is None:
        return "nothing" if type_ is None else f"only {type_}"
    return str(type_.with_shape(tuple(None if is_generated_symbol(dim) else dim for dim in type_.shape)))
