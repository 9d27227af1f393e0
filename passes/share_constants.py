"""Constants that hold the same numbers become one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import Constant, Edit, Graph, constant_shape
from workbench.layout.profile import Profile
from workbench.rewrite import Exactness, Example, Found, Pass


@dataclass(frozen=True)
class ShareConstants(Pass):
    """Constants of one element type, shape and content become the first of them.

    A constant that is an output of the graph keeps its name.

    Source: onnxslim and ONNX Runtime's constant sharing do the same.
    """

    title = "Share equal constants"
    exactness = Exactness.BITS

    own_examples = (
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
    )

    def rewrites(self, graph: Graph, target: Profile) -> Iterator[Found]:
        kept: dict[tuple, str] = {}
        alike = Counter(map(_kind, graph.constants.values()))
        candidates = [(v, tensor) for v, tensor in graph.constants.items() if alike[_kind(tensor)] > 1]
        for value, tensor in candidates:
            first = kept.setdefault((*_kind(tensor), hashlib.sha256(tensor.tobytes()).digest()), value)
            if first == value or graph.is_output(value) or value not in graph.constants:
                continue
            sentence = f"constant '{value}' holds the same as '{first}'; {tensor.nbytes:,} bytes less"
            readers = tuple(node.name for node in graph.users(value))
            yield Found(Edit(replace={value: first}), sentence, readers)


def _kind(tensor: Constant) -> tuple:
    return tensor.dtype, constant_shape(tensor)
