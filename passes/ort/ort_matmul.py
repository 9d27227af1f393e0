"""A Transpose of a MatMul's operand, and a factor, become attributes of ONNX Runtime's FusedMatMul."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32

_SENTENCE = "{nodes[0]} and {root} become one kernel of ONNX Runtime, {new} of '{a}' and '{b}'; {fewer} fewer"

_PRODUCT = "p = MatMul(a, b) | com.microsoft.FusedMatMul(a, b, **others)"


def swaps_the_last_two(match: Match) -> None:
    perm = tuple(match.data["perm"] or ())
    rank = len(perm)
    if rank < 2 or perm != (*range(rank - 2), rank - 1, rank - 2):
        raise NoMatch(f"{match.node('t')} does not exchange only the last two axes")


def are_matrices(match: Match) -> None:
    for value in (match["a"], match["b"]):
        shape = match.graph.shape(value)
        if shape is None or len(shape) < 2:
            raise NoMatch(f"'{value}' is not known to have two axes")
        if 0 in shape:
            raise NoMatch(f"'{value}' is empty")


def is_unscaled(match: Match) -> None:
    if "alpha" in match.data.get("others", {}):
        raise NoMatch(f"the product before {match.root} has a factor")


@dataclass(frozen=True)
class OrtMatmul(Pass):
    """Three cases, for float32:

    - a MatMul of which the second, or the first, operand is a Transpose of the last two axes becomes
      com.microsoft.FusedMatMul of the Transpose's operand;
    - a product of matrices times a number, or divided by one, becomes com.microsoft.FusedMatMul with that factor.

    Does not apply if anything else reads the transposed value or the product, nor if other axes move. The file then
    runs in ONNX Runtime only.

    Source: ONNX Runtime's FusedMatMul, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md; its
    MatmulTransposeFusion and MatMulScaleFusion.
    """

    title = "ONNX Runtime: a transposed operand and a factor in the kernel of the product"

    rules = (
        graph_rule(
            "second",
            "t = Transpose(b, perm=perm)\ny = MatMul(a, t)",
            "y = com.microsoft.FusedMatMul(a, b, transB=1)",
            _SENTENCE,
            Example(
                before="""g (float[2,3,4] a, float[2,5,4] b) => (float[2,3,5] y) {
                    t = Transpose<perm=[0,2,1]>(b)
                    y = MatMul(a, t)
                }""",
                after="""g (float[2,3,4] a, float[2,5,4] b) => (float[2,3,5] y) {
                    y = com.microsoft.FusedMatMul<transB=1>(a, b)
                }""",
                sentences=(
                    "Transpose 'Transpose_t' and MatMul 'MatMul_y' become one kernel of ONNX Runtime,"
                    " com.microsoft.FusedMatMul of 'a' and 'b'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] a, float[4,5,2] b) => (float[2,3,5] y) {
                        t = Transpose<perm=[2,0,1]>(b)  y = MatMul(a, t)
                    }""",
                    "Transpose 'Transpose_t' does not exchange only the last two axes",
                ),
                Refusal(
                    """g (float[4] a, float[5,4] b) => (float[5] y) {
                        t = Transpose<perm=[1,0]>(b)  y = MatMul(a, t)
                    }""",
                    "'a' is not known to have two axes",
                ),
                Refusal(
                    """g (float[3,4] a, float[5,4] b) => (float[3,5] y, float[4,5] t) {
                        t = Transpose<perm=[1,0]>(b)  y = MatMul(a, t)
                    }""",
                    "'t' of Transpose 'Transpose_t' is an output of the graph",
                ),
            ),
            where=(swaps_the_last_two, are_matrices, is_float32("a")),
            exactness=Exactness.ROUNDING,
        ),
        graph_rule(
            "first",
            "t = Transpose(a, perm=perm)\ny = MatMul(t, b)",
            "y = com.microsoft.FusedMatMul(a, b, transA=1)",
            _SENTENCE,
            Example(
                before="""g (float[2,4,3] a, float[2,4,5] b) => (float[2,3,5] y) {
                    t = Transpose<perm=[0,2,1]>(a)
                    y = MatMul(t, b)
                }""",
                after="""g (float[2,4,3] a, float[2,4,5] b) => (float[2,3,5] y) {
                    y = com.microsoft.FusedMatMul<transA=1>(a, b)
                }""",
                sentences=(
                    "Transpose 'Transpose_t' and MatMul 'MatMul_y' become one kernel of ONNX Runtime,"
                    " com.microsoft.FusedMatMul of 'a' and 'b'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[4,2,3] a, float[2,4,5] b) => (float[2,3,5] y) {
                        t = Transpose<perm=[1,2,0]>(a)  y = MatMul(t, b)
                    }""",
                    "Transpose 'Transpose_t' does not exchange only the last two axes",
                ),
            ),
            where=(swaps_the_last_two, are_matrices, is_float32("a")),
            exactness=Exactness.ROUNDING,
        ),
        graph_rule(
            "scaled",
            f"{_PRODUCT}\ny = Mul(p, k)",
            "y = com.microsoft.FusedMatMul(a, b, alpha=k, **others)",
            _SENTENCE,
            Example(
                before="""g (float[2,3,4] a, float[2,4,5] b) => (float[2,3,5] y) <float k = {0.125}> {
                    p = MatMul(a, b)
                    y = Mul(p, k)
                }""",
                after="""g (float[2,3,4] a, float[2,4,5] b) => (float[2,3,5] y) {
                    y = com.microsoft.FusedMatMul<alpha=0.125>(a, b)
                }""",
                sentences=(
                    "MatMul 'MatMul_p' and Mul 'Mul_y' become one kernel of ONNX Runtime, com.microsoft.FusedMatMul "
                    "of 'a'"
                    " and 'b'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[3,4] a, float[4,5] b) => (float[3,5] y, float[3,5] p) <float k = {0.125}> {
                        p = MatMul(a, b)  y = Mul(p, k)
                    }""",
                    "'p' of MatMul 'MatMul_p' is an output of the graph",
                ),
                Refusal(
                    """g (float[3,4] a, float[4,5] b) => (float[3,5] y) <float[5] k = {1, 2, 3, 4, 5}> {
                        p = MatMul(a, b)  y = Mul(p, k)
                    }""",
                    "'k' of Mul 'Mul_y' is not the one number k",
                ),
                Refusal(
                    """g (float[3,4] a, float[4,5] b) => (float[3,5] y) <float k = {0.125}> {
                        p = com.microsoft.FusedMatMul<alpha=0.5>(a, b)  y = Mul(p, k)
                    }""",
                    "the product before Mul 'Mul_y' has a factor",
                ),
            ),
            further=((f"{_PRODUCT}\ny = Div(p, k)", "y = com.microsoft.FusedMatMul(a, b, alpha=1 / k, **others)"),),
            numbers=("k",),
            where=(is_unscaled, are_matrices, is_float32("a")),
            exactness=Exactness.ROUNDING,
        ),
    )
