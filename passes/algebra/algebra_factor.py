"""Factor common operands out of sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, constant
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.discontinuous import require_no_discontinuous_users
from workbench.rewrite.core.guards import is_same_shape, require_producer, require_single_use
from workbench.rewrite.patterns.algebra import algebraic_rule, same_shape

_SHARED = "{nodes[0]} and {nodes[1]} share '{a}', which is factored out of {root}; 1 node fewer"


def _split_constant_factor(graph: Graph, value: str) -> tuple[str, np.ndarray | None, Node | None]:
    """`value` as (multiplied value, constant factor, Mul); the last two are None unless it is a Mul by a constant."""
    node = graph.producer(value)
    if node is None or node.op != "Mul":
        return value, None, None
    for factor, other in (node.inputs, node.inputs[::-1]):
        tensor = graph.constant(factor)
        if tensor is not None:
            return other, tensor.numpy(), node
    return value, None, None


def match_constant_multiples(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    (multiplied, a, first_mul), (other_multiplied, b, second_mul) = (
        _split_constant_factor(graph, value) for value in node.inputs
    )
    products = [product for product in (first_mul, second_mul) if product is not None]
    factors = [numbers for numbers in (a, b) if numbers is not None]
    if multiplied != other_multiplied or not factors or len({product.name for product in products}) < len(products):
        raise NoMatch(f"the operands of {node} are not two constant multiples of one value")
    dtype = factors[0].dtype
    if dtype.kind != "f":
        raise NoMatch(f"{node} computes with {dtype}, not with floating-point numbers")
    require_no_discontinuous_users(graph, node)
    for product in products:
        require_single_use(graph, node, product)
    one = np.ones((), dtype)
    first_factor, second_factor = (one if numbers is None else numbers for numbers in (a, b))
    with np.errstate(all="ignore"):
        second_factor = second_factor if node.op == "Add" else np.negative(second_factor)
        total = np.add(first_factor, second_factor)
        have_same_sign = (np.sign(first_factor) * np.sign(second_factor) > 0).all()
    if not have_same_sign or not np.isfinite(total).all():
        raise NoMatch(f"the factors of {node} cancel, are zero, or overflow {dtype}")
    if total.size > max(first_factor.size, second_factor.size):
        raise NoMatch(f"the factors of {node} broadcast to more elements than either has")
    name = graph.fresh(f"{node.outputs[0]}_times")
    merged = node.replace(op_type="Mul", inputs=(multiplied, name))
    removed = (*(product.name for product in products), node.name)
    edit = Edit(remove=removed, insert=(merged,), constants={name: constant(total, name)})
    saved = f"{len(products)} node{'s' if len(products) > 1 else ''} fewer"
    return Rewrite(edit, f"{node} of two constant multiples of '{multiplied}' becomes one; {saved}", removed)


def match_sum_of_products(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """All operands of the Sum are products with one common factor, of values of one shape."""
    products = [require_producer(graph, value, ("Mul",), node) for value in node.inputs]
    if len(products) < 2 or len({product.name for product in products}) < len(products):
        raise NoMatch(f"the operands of {node} are not several different products")
    common = [value for value in products[0].inputs if all(value in product.inputs for product in products)]
    if not common:
        raise NoMatch(f"{' and '.join(map(str, products[:2]))} share no factor with all others of {node}")
    factor = common[0]
    others = tuple(product.inputs[product.inputs[0] == factor] for product in products)
    if not all(is_same_shape(graph.shape(others[0]), graph.shape(other)) for other in others):
        raise NoMatch(f"the other factors of {node}, such as '{others[0]}', are not known to have the same shape")
    for product in products:
        require_single_use(graph, node, product)
    total = graph.fresh(f"{node.outputs[0]}_sum")
    removed = (*(product.name for product in products), node.name)
    type_ = graph.tensor_type(others[0])
    edit = Edit(
        remove=removed,
        insert=(
            node.replace(inputs=others, outputs=(total,)),
            products[0].replace(inputs=(total, factor), outputs=node.outputs),
        ),
        types={} if type_ is None else {total: type_},
    )
    fewer = len(products) - 1
    saved = f"{fewer} node{'s' if fewer > 1 else ''} fewer"
    return Rewrite(
        edit, f"{len(products)} products share '{factor}', which is factored out of {node}; {saved}", removed
    )


@dataclass(frozen=True)
class AlgebraFactor(Pass):
    """Eight rules, of six kinds:

    - x * a + y * a becomes (x + y) * a, also with Sub. Bit-exact for integers. For floats, equal up to rounding, but
      overflow and signs of zero may differ;
    - Sum of products that share one factor becomes the product of the Sum with it;
    - x / a + y / a of floats becomes (x + y) / a, also with Sub;
    - x * x - x * a of floats becomes x * (x - a), also with Pow for the square, and with Add;
    - (p and r) or (q and r) becomes (p or q) and r, and the same with "and" and "or" exchanged, also bitwise;
    - x * a + x * b of floats, with constants a and b of the same sign, becomes x * (a + b); a missing factor is 1.

    Does not apply:

    - if anything else reads one of the two products;
    - if x and y may have different shapes: their broadcast sum could be larger than either;
    - if a and b cancel.

    Source: distributive laws; Niu et al., "DNNFusion: Accelerating Deep Neural Networks Execution with Advanced
    Operator Fusion", PLDI 2021, table 4.
    """

    title = "Factor out common operands"

    rules = (
        algebraic_rule(
            "square and product",
            "x ** 2 - x * a == x * (x - a); x * a - x ** 2 == x * (a - x); x ** 2 + x * a == x * (x + a)",
            "'{x}' is factored out of its square and its product in {root}; 1 node fewer",
            Example(
                before="""g (float[N,3] a, float[N,3] b, float[N,3] c) => (float[N,3] y) <float two = {2}> {
                    s = Add(a, b)
                    p = Pow(s, two)
                    q = Mul(s, c)
                    y = Sub(p, q)
                }""",
                after="""g (float[N,3] a, float[N,3] b, float[N,3] c) => (float[N,3] y) {
                    s = Add(a, b)
                    y_sub = Sub(s, c)
                    y = Mul(s, y_sub)
                }""",
                sentences=("'s' is factored out of its square and its product in Sub 'Sub_y'; 1 node fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[3] x, float[3] z, float[3] a) => (float[3] y) <float two = {2}>"
                    " { p = Pow(x, two)  q = Mul(z, a)  y = Sub(p, q) }",
                    "x ** 2 - x * a needs 'x' where Mul 'Mul_q' reads 'z'",
                ),
                Refusal(
                    "g (float[3] x, float[3] a) => (float[3] y) <float three = {3}>"
                    " { p = Pow(x, three)  q = Mul(x, a)  y = Sub(p, q) }",
                    "'three' of Pow 'Pow_p' is 3, not 2",
                ),
                Refusal(
                    "g (int64[3] x, int64[3] a) => (int64[3] y) { p = Mul(x, x)  q = Mul(x, a)  y = Sub(p, q) }",
                    "'p', an operand of Sub 'Sub_y', is not known to hold floating-point numbers",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"a": 1e20, "b": 0, "c": 1e20}, np.nan, 0, "both products overflow"),
        ),
        algebraic_rule(
            "common factor of integers",
            "for integers: x * a + z * a == (x + z) * a; x * a - z * a == (x - z) * a",
            _SHARED,
            Example(
                before="""g (int64[N,3] x, int64[N,3] z, int64[3] a) => (int64[N,3] y) {
                    p = Mul(x, a)
                    q = Mul(a, z)
                    y = Sub(p, q)
                }""",
                after="""g (int64[N,3] x, int64[N,3] z, int64[3] a) => (int64[N,3] y) {
                    y_sub = Sub(x, z)
                    y = Mul(y_sub, a)
                }""",
                sentences=(
                    "Mul 'Mul_p' and Mul 'Mul_q' share 'a', which is factored out of Sub 'Sub_y'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x, float[3] z, float[3] a) => (float[3] y)"
                    " { p = Mul(x, a)  q = Mul(a, z)  y = Sub(p, q) }",
                    "'p', an operand of Sub 'Sub_y', is not known to hold integers",
                ),
                Refusal(
                    "g (int64[3] x, int64[3] z, int64[3] a) => (int64[3] y)"
                    " { p = Mul(x, a)  q = Mul(z, z)  y = Add(p, q) }",
                    "x * a + z * a needs 'a' where Mul 'Mul_q' reads 'z'",
                ),
                Refusal(
                    "g (int64[3] x, int64[3] a) => (int64[3] y) { p = Mul(x, a)  y = Add(p, p) }",
                    "Add 'Add_y' reads 'p' twice",
                ),
                Refusal(
                    "g (int64[3] x, int64[2,3] z, int64[2,3] a) => (int64[2,3] y)"
                    " { p = Mul(x, a)  q = Mul(a, z)  y = Add(p, q) }",
                    "'x' and 'z' are not known to have the same shape",
                ),
                Refusal(
                    "g (int64[3] x, int64[3] z, int64[3] a) => (int64[3] y, int64[3] q)"
                    " { p = Mul(x, a)  q = Mul(a, z)  y = Add(p, q) }",
                    "'q' of Mul 'Mul_q' is an output of the graph",
                ),
                Refusal(
                    "g (int64[3] x, int64[3] a) => (int64[3] y) { p = Mul(x, a)  y = Add(p, x) }",
                    "Add 'Add_y' does not follow a Mul",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            where=(same_shape("x", "z"),),
        ),
        algebraic_rule(
            "common factor",
            "x * a + z * a == (x + z) * a; x * a - z * a == (x - z) * a",
            _SHARED,
            Example(
                before="""g (float[N,3] x, float[N,3] z, float[3] a) => (float[N,3] y) {
                    p = Mul(x, a)
                    q = Mul(z, a)
                    y = Add(p, q)
                }""",
                after="""g (float[N,3] x, float[N,3] z, float[3] a) => (float[N,3] y) {
                    y_add = Add(x, z)
                    y = Mul(y_add, a)
                }""",
                sentences=(
                    "Mul 'Mul_p' and Mul 'Mul_q' share 'a', which is factored out of Add 'Add_y'; 1 node fewer",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[3] x, float[2,3] z, float[2,3] a) => (float[2,3] y)"
                    " { p = Mul(x, a)  q = Mul(z, a)  y = Add(p, q) }",
                    "'x' and 'z' are not known to have the same shape",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 3e38, "z": -3e38, "a": 2}, np.nan, 0, "both products overflow"),
            where=(same_shape("x", "z"),),
        ),
        Rule(
            "common factor of a sum",
            ("Sum",),
            match_sum_of_products,
            Example(
                before="""g (float[N,3] x, float[N,3] z, float[N,3] w, float[3] a) => (float[N,3] y) {
                    p = Mul(x, a)
                    q = Mul(a, z)
                    r = Mul(w, a)
                    y = Sum(p, q, r)
                }""",
                after="""g (float[N,3] x, float[N,3] z, float[N,3] w, float[3] a) => (float[N,3] y) {
                    y_sum = Sum(x, z, w)
                    y = Mul(y_sum, a)
                }""",
                sentences=("3 products share 'a', which is factored out of Sum 'Sum_y'; 2 nodes fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[3] x, float[3] z, float[3] a) => (float[3] y) { p = Mul(x, a)  y = Sum(p, z, p) }",
                    "Sum 'Sum_y' does not follow a Mul",
                ),
                Refusal(
                    "g (float[3] x, float[3] a) => (float[3] y) { p = Mul(x, a)  y = Sum(p, p) }",
                    "the operands of Sum 'Sum_y' are not several different products",
                ),
                Refusal(
                    "g (float[3] x, float[3] z, float[3] a, float[3] b) => (float[3] y)"
                    " { p = Mul(x, a)  q = Mul(z, b)  y = Sum(p, q) }",
                    "Mul 'Mul_p' and Mul 'Mul_q' share no factor with all others of Sum 'Sum_y'",
                ),
                Refusal(
                    "g (float[3] x, float[2,3] z, float[2,3] a) => (float[2,3] y)"
                    " { p = Mul(x, a)  q = Mul(z, a)  y = Sum(p, q) }",
                    "the other factors of Sum 'Sum_y', such as 'x', are not known to have the same shape",
                ),
                Refusal(
                    "g (float[3] x, float[3] z, float[3] a) => (float[3] y, float[3] q)"
                    " { p = Mul(x, a)  q = Mul(z, a)  y = Sum(p, q) }",
                    "'q' of Mul 'Mul_q' is an output of the graph",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": 3e38, "z": -3e38, "w": 0, "a": 2}, np.nan, 0, "the first two products overflow"
            ),
            law="x * a + z * a + w * a == (x + z + w) * a",
        ),
        algebraic_rule(
            "common divisor",
            "x / a + z / a == (x + z) / a if a != 0; x / a - z / a == (x - z) / a if a != 0",
            "{nodes[0]} and {nodes[1]} divide by '{a}'; the division moves after {root}; 1 node fewer",
            Example(
                before="""g (float[N,3] x, float[N,3] z, float[3] a) => (float[N,3] y) {
                    b = Exp(a)
                    p = Div(x, b)
                    q = Div(z, b)
                    y = Add(p, q)
                }""",
                after="""g (float[N,3] x, float[N,3] z, float[3] a) => (float[N,3] y) {
                    b = Exp(a)
                    y_add = Add(x, z)
                    y = Div(y_add, b)
                }""",
                sentences=(
                    "Div 'Div_p' and Div 'Div_q' divide by 'b'; the division moves after Add 'Add_y'; 1 node fewer",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[3] x, float[2,3] z, float[2,3] a) => (float[2,3] y)"
                    " { p = Div(x, a)  q = Div(z, a)  y = Sub(p, q) }",
                    "'x' and 'z' are not known to have the same shape",
                ),
                Refusal(
                    "g (int64[3] x, int64[3] z, int64[3] a) => (int64[3] y)"
                    " { p = Div(x, a)  q = Div(z, a)  y = Add(p, q) }",
                    "'p', an operand of Add 'Add_y', is not known to hold floating-point numbers",
                ),
                Refusal(
                    "g (float[3] x, float[3] z, float[3] a) => (float[3] y)"
                    " { p = Div(x, a)  q = Div(a, z)  y = Add(p, q) }",
                    "x / a + z / a needs 'a' where Div 'Div_q' reads 'z'",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 3e38, "z": 3e38, "a": 1.5}, 1.338781e38, np.inf, "x + z overflows"),
            where=(same_shape("x", "z"),),
        ),
        algebraic_rule(
            "common operand of logic",
            "(p and r) or (q and r) == (p or q) and r; (p or r) and (q or r) == (p and q) or r",
            _SHARED.replace("{a}", "{r}"),
            Example(
                before="""g (bool[N,3] x, bool[N,3] z, bool[3] a) => (bool[N,3] y) {
                    p = And(x, a)
                    q = And(z, a)
                    y = Or(p, q)
                }""",
                after="""g (bool[N,3] x, bool[N,3] z, bool[3] a) => (bool[N,3] y) {
                    y_or = Or(x, z)
                    y = And(y_or, a)
                }""",
                sentences=("And 'And_p' and And 'And_q' share 'a', which is factored out of Or 'Or_y'; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (bool[3] x, bool[2,3] z, bool[3] a) => (bool[2,3] y)"
                    " { p = And(x, a)  q = And(z, a)  y = Or(p, q) }",
                    "'x' and 'z' are not known to have the same shape",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            where=(same_shape("p", "q"),),
        ),
        algebraic_rule(
            "common bits",
            "(x & a) | (z & a) == (x | z) & a; (x | a) & (z | a) == (x & z) | a",
            _SHARED,
            Example(
                before="""g (int32[N,3] x, int32[N,3] z, int32[3] a) => (int32[N,3] y) {
                    p = BitwiseOr(x, a)
                    q = BitwiseOr(a, z)
                    y = BitwiseAnd(p, q)
                }""",
                after="""g (int32[N,3] x, int32[N,3] z, int32[3] a) => (int32[N,3] y) {
                    y_bitwiseand = BitwiseAnd(x, z)
                    y = BitwiseOr(y_bitwiseand, a)
                }""",
                sentences=(
                    "BitwiseOr 'BitwiseOr_p' and BitwiseOr 'BitwiseOr_q' share 'a', which is factored out of "
                    "BitwiseAnd 'BitwiseAnd_y'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int32[3] x, int32[2,3] z, int32[3] a) => (int32[2,3] y)"
                    " { p = BitwiseOr(x, a)  q = BitwiseOr(a, z)  y = BitwiseAnd(p, q) }",
                    "'x' and 'z' are not known to have the same shape",
                ),
                Refusal(
                    "g (int32[3] x, int32[3] z, int32[3] a) => (int32[3] y)"
                    " { p = BitwiseXor(x, a)  q = BitwiseXor(a, z)  y = BitwiseAnd(p, q) }",
                    "BitwiseAnd 'BitwiseAnd_y' does not follow a BitwiseOr",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            where=(same_shape("x", "z"),),
        ),
        Rule(
            "constant multiples",
            ("Add", "Sub"),
            match_constant_multiples,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <float[3] a = {2, 3, 4}> {
                    p = Mul(x, a)
                    y = Add(p, x)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) <float[3] y_times = {3, 4, 5}> { y = Mul(x, y_times) }",
                sentences=("Add 'Add_y' of two constant multiples of 'x' becomes one; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {2}> { p = Mul(x, a)  y = Sub(p, x) }",
                    "the factors of Sub 'Sub_y' cancel, are zero, or overflow float32",
                ),
                Refusal(
                    "g (float[3] x, float[3] z) => (float[3] y) <float a = {2}> { p = Mul(x, a)  y = Add(p, z) }",
                    "the operands of Add 'Add_y' are not two constant multiples of one value",
                ),
                Refusal(
                    "g (int64[3] x) => (int64[3] y) <int64 a = {2}> { p = Mul(x, a)  y = Add(p, x) }",
                    "Add 'Add_y' computes with int64, not with floating-point numbers",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {0.1}> { p = Mul(x, a)  s = Add(p, x)  y = Ceil(s) }",
                    "Ceil 'Ceil_y' is discontinuous; a difference in the last bit of 's' could change its result",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y, float[2,3] p) <float a = {2}> { p = Mul(x, a)  y = Add(p, x) }",
                    "'p' of Mul 'Mul_p' is an output of the graph",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <float[3] a = {1, 2, 3}, float[2,1] b = {1, 2}>"
                    " { p = Mul(x, a)  q = Mul(x, b)  y = Add(p, q) }",
                    "the factors of Add 'Add_y' broadcast to more elements than either has",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="x * a + x * b == x * (a + b); x * a - x * b == x * (a + -b); x * a + x == x * (a + 1)",
        ),
    )
