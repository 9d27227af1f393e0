"""Replace a Transpose before a matrix product by a flag of Gemm."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import elements_saved
from workbench.ir import DataType, Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import require_single_use

_FLAGS = ("transA", "transB")
_SWAP = (1, 0)


def _transposed(graph: Graph, node: Node) -> dict[str, Node]:
    """The flags that change, each with the Transpose that it replaces."""
    result, rest = {}, node.inputs[2:]
    for flag, value in zip(_FLAGS, node.inputs[:2], strict=True):
        transpose = graph.producer(value)
        if transpose is None or transpose.op != "Transpose" or transpose.attr("perm", _SWAP) != _SWAP or value in rest:
            continue
        require_single_use(graph, node, transpose)
        result[flag] = transpose
    if not result:
        raise NoMatch(f"no operand of {node} is the result of a Transpose of two axes")
    return result


def _absorbed(graph: Graph, node: Node, results: dict[str, Node]) -> Rewrite:
    removed = tuple({transpose.name: transpose for transpose in results.values()}.values())
    operands = (
        results[flag].inputs[0] if flag in results else value for flag, value in zip(_FLAGS, node.inputs, strict=False)
    )
    flags = {flag: int(not node.attr(flag)) for flag in results}
    gemm = node.replace(op_type="Gemm", inputs=(*operands, *node.inputs[2:]), attributes={**node.attributes, **flags})
    edit = Edit(remove=(*(transpose.name for transpose in removed), node.name), insert=(gemm,))
    flag_text = " and ".join(f"{flag}={value}" for flag, value in flags.items())
    sentence = f"{node} needs no Transpose with {flag_text}; {elements_saved(graph, *removed)}"
    return Rewrite(edit, sentence, (*(transpose.name for transpose in removed), node.name))


def match_gemm(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _absorbed(graph, node, _transposed(graph, node))


def match_matmul(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    result = _transposed(graph, node)
    for value in node.inputs:
        type_ = graph.tensor_type(value)
        if type_ is None or type_.rank != 2:
            raise NoMatch(f"'{value}', an operand of {node}, is not known to be a matrix")
        if type_.dtype not in (DataType.FLOAT, DataType.DOUBLE):
            raise NoMatch(f"{node} multiplies {type_.dtype.name.lower()}, for which runtimes have no Gemm")
    return _absorbed(graph, node, result)


@dataclass(frozen=True)
class TransposeIntoGemm(Pass):
    """Two cases, for an operand that is the result of a Transpose of two axes and that nothing else reads:

    - a Gemm reads the operand of the Transpose, and its flag transA or transB is inverted;
    - a MatMul of two matrices becomes a Gemm with that flag.

    Does not apply to products of more than two axes, which Gemm does not support, nor to a Transpose with other
    readers, which would stay.

    Source: ONNX's definitions of Gemm and MatMul; (A^T)^T = A; ONNX Runtime's MatmulTransposeFusion.
    """

    title = "Fold transposes into matrix products"

    rules = (
        Rule(
            "gemm",
            ("Gemm",),
            match_gemm,
            Example(
                before="""g (float[N,3] x, float[N,2] w, float[2] c) => (float[3,2] y) {
                    t = Transpose<perm=[1,0]>(x)
                    y = Gemm(t, w, c)
                }""",
                after="g (float[N,3] x, float[N,2] w, float[2] c) => (float[3,2] y) { y = Gemm<transA=1>(x, w, c) }",
                sentences=(
                    "Gemm 'Gemm_y' needs no Transpose with transA=1; an unknown number of elements no longer moved",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[4,3] x, float[4,2] w) => (float[3,2] y, float[3,4] t)"
                    " { t = Transpose<perm=[1,0]>(x)  y = Gemm(t, w) }",
                    "'t' of Transpose 'Transpose_t' is an output of the graph",
                ),
                Refusal(
                    "g (float[4,3] x, float[3,2] w) => (float[4,2] y) { y = Gemm(x, w) }",
                    "no operand of Gemm 'Gemm_y' is the result of a Transpose of two axes",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="(x * a + y * b) + z * c == x * a + (y * b + z * c)",
        ),
        Rule(
            "matmul",
            ("MatMul",),
            match_matmul,
            Example(
                before="""g (float[N,3] x, float[2,3] w) => (float[N,2] y) {
                    t = Transpose(w)
                    y = MatMul(x, t)
                }""",
                after="g (float[N,3] x, float[2,3] w) => (float[N,2] y) { y = Gemm<transB=1>(x, w) }",
                sentences=("MatMul 'MatMul_y' needs no Transpose with transB=1; 6 elements no longer moved",),
            ),
            refusals=(
                Refusal(
                    "g (float[5,4,3] x, float[2,3] w) => (float[5,4,2] y) { t = Transpose(w)  y = MatMul(x, t) }",
                    "'x', an operand of MatMul 'MatMul_y', is not known to be a matrix",
                ),
                Refusal(
                    "g (int32[4,3] x, int32[2,3] w) => (int32[4,2] y) { t = Transpose(w)  y = MatMul(x, t) }",
                    "MatMul 'MatMul_y' multiplies int32, for which runtimes have no Gemm",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="(x * a + y * b) + z * c == x * a + (y * b + z * c)",
        ),
    )
