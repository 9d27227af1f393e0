"""A sum behind a product of matrices is the third operand of Gemm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.graph_rules import graph_rule
from workbench.rewrite.guards import broadcasts_into, require_float_or_double
from workbench.rewrite.matching import Match


def refuse_other_products(match: Match) -> None:
    graph, product = match.graph, match.node("product")
    require_float_or_double(graph, match["a"], product)
    shapes = [graph.shape(match[name]) or () for name in ("a", "b")]
    if any(len(shape) != 2 for shape in shapes):
        raise NoMatch(f"{product} does not multiply two matrices, and Gemm does")
    inner = shapes[0][0 if product.attr("transA", 0) else 1]
    if not isinstance(inner, int) or inner == 0:
        raise NoMatch(f"{product} may sum over no products at all")
    if not broadcasts_into(graph.shape(match["summand"]), graph.shape(match["product"])):
        raise NoMatch(f"'{match['summand']}' may enlarge what {product} makes")


def attributes(match: Match) -> dict[str, Any]:
    """Those of a Gemm stay, but for the factor of a summand that was not there."""
    flags = match.data.get("flags")
    return {} if flags is None else {**flags, "beta": 1.0}


@dataclass(frozen=True)
class SumIntoGemm(Pass):
    """A MatMul of two matrices, or a Gemm without a third operand, and an Add behind it are one Gemm. What is added may
    be computed; a constant is folded by `fold_scale` too.

    Must not act on products of more than two axes, which Gemm has not; where what is added may enlarge the result, or
    anything else reads the product; nor where the sum of products may be empty.

    Source: ONNX's definition of Gemm; ONNX Runtime's MatMulAddFusion.
    """

    title = "Sums into matrix products"

    rules = (
        graph_rule(
            "sum",
            """
            product = MatMul(a, b) | Gemm(a, b, **flags)
            y = Add(product, summand)
            """,
            "y = Gemm(a, b, summand, **attributes)",
            "{nodes[0]} and {root} are one Gemm; 1 node less",
            Example(
                before="""g (float[N,3] x, float[3,2] w, float[2] b) => (float[N,2] y) {
                    p = MatMul(x, w)
                    y = Add(b, p)
                }""",
                after="g (float[N,3] x, float[3,2] w, float[2] b) => (float[N,2] y) { y = Gemm(x, w, b) }",
                sentences=("MatMul 'MatMul_p' and Add 'Add_y' are one Gemm; 1 node less",),
            ),
            refusals=(
                Refusal(
                    "g (float[2,4,3] x, float[3,2] w, float[2] b) => (float[2,4,2] y)"
                    " { p = MatMul(x, w)  y = Add(p, b) }",
                    "MatMul 'MatMul_p' does not multiply two matrices, and Gemm does",
                ),
                Refusal(
                    "g (float[1,3] x, float[3,2] w, float[4,2] b) => (float[4,2] y)"
                    " { p = MatMul(x, w)  y = Add(p, b) }",
                    "'b' may enlarge what MatMul 'MatMul_p' makes",
                ),
                Refusal(
                    "g (float[4,K] x, float[K,2] w, float[2] b) => (float[4,2] y) { p = MatMul(x, w)  y = Add(p, b) }",
                    "MatMul 'MatMul_p' may sum over no products at all",
                ),
                Refusal(
                    "g (float[4,3] x, float[3,2] w, float[2] b, float[2] c) => (float[4,2] y)"
                    " { p = Gemm(x, w, c)  y = Add(p, b) }",
                    "Gemm 'Gemm_p' has 3 operands, not 2",
                ),
                Refusal(
                    "g (float[4,3] x, float[3,2] w, float[2] b) => (float[4,2] y, float[4,2] z)"
                    " { p = MatMul(x, w)  y = Add(p, b)  z = Neg(p) }",
                    "Neg 'Neg_z' reads 'p' of MatMul 'MatMul_p' too",
                ),
                Refusal(
                    "g (int32[4,3] x, int32[3,2] w, int32[2] b) => (int32[4,2] y) { p = MatMul(x, w)  y = Add(p, b) }",
                    "'x', an operand of MatMul 'MatMul_p', is not known to be float or double",
                ),
                Refusal(
                    "g (float[4,3] x, float[3] b) => (float[4,3] y) { y = Add(x, b) }",
                    "Add 'Add_y' does not follow a MatMul or Gemm",
                ),
            ),
            where=(refuse_other_products,),
            computed={"attributes": attributes},
            exactness=Exactness.ROUNDING,
        ),
    )
