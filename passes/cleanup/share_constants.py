"""Merge constants that hold the same elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from workbench.ir import Constant, Edit, Graph, constant_shape
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite
from workbench.rewrite.core.content import elements_key


@dataclass(frozen=True)
class ShareConstants(Pass):
    """Constants of the same element type, shape and content are replaced by the first of them, all in one rewrite.

    A constant that is an output of the graph keeps its name.

    Source: onnxslim and ONNX Runtime's constant sharing do the same.
    """

    title = "Share equal constants"
    exactness = Exactness.BIT_EXACT

    extra_examples = (
        Example(
            title="Two equal constants",
            before="""g (float[N] x) => (float[N] y) <float a = {2}, float b = {2}, float c = {3}> {
                p = Add(x, a)
                q = Mul(p, b)
                y = Sub(q, c)
            }""",
            after="""g (float[N] x) => (float[N] y) <float a = {2}, float c = {3}> {
                p = Add(x, a)
                q = Mul(p, a)
                y = Sub(q, c)
            }""",
            sentences=("constant 'b' holds the same as 'a'; 4 bytes less",),
        ),
        Example(
            title="Three equal constants, merged in one rewrite",
            before="""g (float[N] x) => (float[N] y) <float a = {2}, float b = {2}, float c = {2}> {
                p = Add(x, a)
                q = Mul(p, b)
                y = Sub(q, c)
            }""",
            after="""g (float[N] x) => (float[N] y) <float a = {2}> {
                p = Add(x, a)
                q = Mul(p, a)
                y = Sub(q, a)
            }""",
            sentences=("constant 'b' and 1 other hold the same as 'a'; 8 bytes less",),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        type_keys = {value: _type_key(tensor) for value, tensor in graph.constants.items()}
        counts = Counter(type_keys.values())
        groups: dict[Hashable, list[str]] = {}
        for value, tensor in graph.constants.items():
            if counts[type_keys[value]] > 1:
                groups.setdefault(elements_key(tensor), []).append(value)
        for first, *others in groups.values():
            removed = [value for value in others if not graph.is_output(value)]
            if removed:
                yield _shared(graph, first, removed)


def _shared(graph: Graph, first: str, removed: list[str]) -> Rewrite:
    subject = f"constant '{removed[0]}' holds"
    if len(removed) > 1:
        subject = f"constant '{removed[0]}' and {len(removed) - 1:,} other{'s' if len(removed) > 2 else ''} hold"
    saved = graph.constants[first].nbytes * len(removed)
    readers = dict.fromkeys(node.name for value in removed for node in graph.users(value))
    sentence = f"{subject} the same as '{first}'; {saved:,} bytes less"
    return Rewrite(Edit(replace=dict.fromkeys(removed, first)), sentence, tuple(readers))


def _type_key(tensor: Constant) -> tuple[Hashable, ...]:
    return tensor.dtype, constant_shape(tensor)
