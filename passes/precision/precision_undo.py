"""Back to float32: every operator that runs in a narrower type and may run in float32 does, without a Cast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.planning.precision.conversion import change_type, operands_text, tidy_casts
from workbench.planning.precision.element_types import NARROW_TYPES, WIDE, NotConvertible, float_call
from workbench.planning.precision.wide_io import wide_io
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite, rewrite_each


@dataclass(frozen=True)
class PrecisionUndo(Pass):
    """Each operator in float16 or bfloat16 runs in float32: its constants are cast, and Casts that nothing reads any
    more are removed. What a precision strategy inserted goes; weights keep the numbers to which they were rounded.
    Inputs and outputs that were declared in the narrower type for it (`io=as-computed`) are in float32 again.

    Does not apply to operators whose types their attributes state, to those of which no schema is known, and to other
    inputs and outputs in the narrower type.
    """

    title = "Precision: back to float32"
    cleans_up = True
    exactness = Exactness.NARROWED

    extra_examples = (
        Example(
            title="Two Casts around a convolution; the text form writes float16 as its bits, and 15360 is 1",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y)
                <float16[2,2,1,1] w = {15360, 16384, 16896, 17408}> {
                a = Cast<to=10>(x)
                b = Conv(a, w)
                y = Cast<to=1>(b)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w_float32 = {1, 2, 3, 4}> {
                y = Conv(x, w_float32)
            }""",
            sentences=("Conv 'Conv_b' runs in float32 again; 'a' exists in float32 already; 1 constant is cast now",),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        yield from rewrite_each(wide_io(graph), "inputs and outputs")
        for narrow in NARROW_TYPES.values():
            yield from rewrite_each(tidy_casts(graph, narrow), "tidied")
            for name in [node.name for node in graph.nodes]:
                node = graph.find(name)
                if node is None:  # a Cast that nothing read any more
                    continue
                try:
                    if float_call(graph, node, narrow).dtype == WIDE:
                        continue
                except NotConvertible:
                    continue
                conversion = change_type(graph, node, WIDE, narrow)
                sentence = f"{node} runs in float32 again; {operands_text(graph, conversion, WIDE)}"
                yield Rewrite(conversion.edit, sentence, (name,))
            yield from rewrite_each(tidy_casts(graph, narrow), "tidied")
