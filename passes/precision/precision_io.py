"""Declare inputs and outputs in the type that is computed: the Casts at the border of the model are removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.planning.precision.narrow_io import narrow_io
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite, rewrite_each


@dataclass(frozen=True)
class PrecisionIo(Pass):
    """A float32 input that every reader casts to float16 or bfloat16 is declared in that type, and the Casts are
    removed. So is an output that is the result of a Cast from that type to float32.

    The model then takes and returns other types than before; names and shapes stay. The notes "workbench.fed_type.x"
    and "workbench.given_type.y" in the file's metadata hold the type of the loaded model; comparing and measuring cast.
    The pass is in no preset, since the caller must cast. Precision strategies do the same with
    `io=as-computed`. `precision_undo` declares float32 again.

    Does not apply to an input:

    - if something reads it in float32, or a body does;
    - if readers cast it to different types;
    - if a cast value is cast back to float32, which rounds it on purpose;
    - if it has a default value, or is an output too.

    Does not apply to an output:

    - if something else reads it in float32;
    - if the operand of its Cast is an input or an output.

    Source: `keep_io_types=False` of onnxconverter-common.
    """

    title = "Precision: inputs and outputs in the types that are computed"
    cleans_up = True
    exactness = Exactness.NARROWED  # ONNX Runtime on a CPU does not round what a Cast to the type gives its kernels

    extra_examples = (
        Example(
            title="What a precision strategy leaves of a convolution",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float16[2,2,1,1] w = {15360, 16384, 16896, 17408}> {
                a = Cast<to=10>(x)
                b = Conv(a, w)
                y = Cast<to=1>(b)
            }""",
            after="""g (float16[1,2,4,4] x) => (float16[1,2,4,4] y)
                <float16[2,2,1,1] w = {15360, 16384, 16896, 17408}> {
                y = Conv(x, w)
            }""",
            sentences=(
                "output 'y' is returned in float16, as it is computed; 32 elements no longer cast",
                "input 'x' is taken in float16, as its reader casts it; 32 elements no longer cast",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        yield from rewrite_each(narrow_io(graph), "at the border")
