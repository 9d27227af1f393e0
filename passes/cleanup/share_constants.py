"""Merge constants that hold the same elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite
from workbench.rewrite.core.equal_constants import shared_constants


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
        yield from shared_constants(graph, graph.constants)
