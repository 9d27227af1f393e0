"""Make a summand after a matrix product the third operand of Gemm."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import broadcasts_into, require_float_or_double, require_single_use


def match_sum(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    product, summand = _product(graph, node)
    require_single_use(graph, node, product)
    require_float_or_double(graph, product.inputs[0], product)
    shapes = [graph.shape(value) or () for value in product.inputs[:2]]
    if any(len(shape) != 2 for shape in shapes):
        raise NoMatch(f"{product} does not multiply two matrices, as Gemm does")
    inner = shapes[0][0 if product.attr("transA") else 1]
    if not isinstance(inner, int) or inner == 0:
        raise NoMatch(f"the inner dimension of {product} may be 0")
    if len(product.inputs) > 2 and product.inputs[2]:
        raise NoMatch(f"{product} already has a third operand")
    if not broadcasts_into(graph.shape(summand), graph.shape(product.outputs[0])):
        raise NoMatch(f"'{summand}' may enlarge the result of {product}")
    attributes = {**product.attributes, "beta": 1.0} if product.op == "Gemm" else {}
    inputs = (*product.inputs[:2], summand)
    gemm = node.replace(op_type="Gemm", inputs=inputs, attributes=attributes)
    edit = Edit(remove=(product.name, node.name), insert=(gemm,))
    return Rewrite(edit, f"{product} and {node} become one Gemm; 1 node fewer", (product.name, node.name))


def _product(graph: Graph, node: Node) -> tuple[Node, str]:
    """The matrix product, and the value that is added to it."""
    for value, summand in (node.inputs, node.inputs[::-1]):
        product = graph.producer(value)
        if product is not None and product.op in ("MatMul", "Gemm") and value != summand:
            return product, summand
    raise NoMatch(f"{node} does not add to a matrix product")


@dataclass(frozen=True)
class SumIntoGemm(Pass):
    """A MatMul of two matrices, or a Gemm without a third operand, and an Add after it become one Gemm. The summand may
    be computed; a constant one is also folded by `fold_scale`.

    Does not apply:

    - to products of more than two axes, which Gemm does not support;
    - if the summand may enlarge the result;
    - if anything else reads the product;
    - if the inner dimension may be 0.

    Source: ONNX's definition of Gemm; ONNX Runtime's MatMulAddFusion.
    """

    title = "Fold sums into matrix products"

    rules = (
        Rule(
            "sum",
            ("Add",),
            match_sum,
            Example(
                before="""g (float[N,3] x, float[3,2] w, float[2] b) => (float[N,2] y) {
                    p = MatMul(x, w)
                    y = Add(b, p)
                }""",
                after="g (float[N,3] x, float[3,2] w, float[2] b) => (float[N,2] y) { y = Gemm(x, w, b) }",
                sentences=("MatMul 'MatMul_p' and Add 'Add_y' become one Gemm; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[2,4,3] x, float[3,2] w, float[2] b) => (float[2,4,2] y)"
                    " { p = MatMul(x, w)  y = Add(p, b) }",
                    "MatMul 'MatMul_p' does not multiply two matrices, as Gemm does",
                ),
                Refusal(
                    "g (float[1,3] x, float[3,2] w, float[4,2] b) => (float[4,2] y)"
                    " { p = MatMul(x, w)  y = Add(p, b) }",
                    "'b' may enlarge the result of MatMul 'MatMul_p'",
                ),
                Refusal(
                    "g (float[4,K] x, float[K,2] w, float[2] b) => (float[4,2] y) { p = MatMul(x, w)  y = Add(p, b) }",
                    "the inner dimension of MatMul 'MatMul_p' may be 0",
                ),
                Refusal(
                    "g (float[4,3] x, float[3,2] w, float[2] b, float[2] c) => (float[4,2] y)"
                    " { p = Gemm(x, w, c)  y = Add(p, b) }",
                    "Gemm 'Gemm_p' already has a third operand",
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
                    "Add 'Add_y' does not add to a matrix product",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
    )
