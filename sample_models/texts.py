"""Samples in ONNX's textual syntax: examples of rules, and graphs of lessons."""

from __future__ import annotations

import passes
from workbench.ir import from_text, to_text

# by file: the pass and the rule of the example
ALGEBRA = {
    "algebra/reciprocal_of_a_product.onnxtxt": ("algebra_products", "reciprocal of a product"),
    "algebra/root_twice.onnxtxt": ("algebra_products", "root twice"),
    "algebra/absolute_factors.onnxtxt": ("algebra_products", "absolute factors"),
    "algebra/small_factor_twice.onnxtxt": ("algebra_products", "small factor twice"),
    "algebra/common_factor.onnxtxt": ("algebra_factor", "common factor"),
    "algebra/value_and_its_product.onnxtxt": ("algebra_products", "value and its product"),
    "algebra/square_and_product.onnxtxt": ("algebra_factor", "square and product"),
    "algebra/weights_of_one_operand.onnxtxt": ("algebra_products", "weights of one operand"),
    "algebra/convolutions_of_one_operand.onnxtxt": ("algebra_products", "convolutions of one operand"),
    "algebra/small_summands_first.onnxtxt": ("algebra_products", "small summands first"),
    "algebra/shifted_to_the_left.onnxtxt": ("algebra_reduce", "shifted to the left"),
    "algebra/undone.onnxtxt": ("algebra_inverse", "twice"),
    "algebra/same_again.onnxtxt": ("algebra_inverse", "same again"),
    "algebra/product_of_exponentials.onnxtxt": ("algebra_reduce", "product of exponentials"),
}
# by file: the graphs of the lesson on equality saturation (passes/algebra/saturate_algebra.py)
SATURATION = {
    "saturation/wrong_factor_first.onnxtxt": """
        g (float[N,3] x, float[N,3] z, float[N,3] w, float[N,3] a, float[N,3] b) => (float[N,3] y) {
            p = Mul(x, a)
            q = Mul(x, b)
            s = Add(p, q)
            r = Mul(z, b)
            t = Add(s, r)
            v = Mul(w, b)
            y = Add(t, v)
        }""",
    "saturation/numbers_cancel.onnxtxt": """
        g (float[N,3] x, float[N,3] z) => (float[N,3] y) <float two = {2}> {
            a = Mul(x, two)
            b = Mul(a, z)
            y = Div(b, two)
        }""",
    "saturation/shared_products.onnxtxt": """
        g (float[N,3] x, float[N,3] z, float[N,3] w) => (float[N,3] y, float[N,3] p, float[N,3] q) {
            p = Mul(x, z)
            q = Mul(x, w)
            y = Add(p, q)
        }""",
    "saturation/beyond_the_budget.onnxtxt": """
        g (float[N,3] x, float[N,3] z, float[N,3] w) => (float[N,3] y) {
            a = Add(x, z)
            b = Mul(a, a)
            c = Sub(b, w)
            e = Mul(c, c)
            p = Mul(e, x)
            q = Mul(e, z)
            y = Add(p, q)
        }""",
}

# by file: the graphs of the lessons on Casts
PRECISION = {
    "precision/casts.onnxtxt": """
        g (float[1,2,8,8] x) => (float[1,2,8,8] y) <int64[4] shape = {1, 2, 8, 8},
            float[2,2,1,1] w = {0.5, -0.25, 0.125, 0.75}, float[2,2,1,1] v = {0.25, 0.5, -0.5, 0.125}> {
            left = Conv(x, w)
            right = Conv(x, v)
            sum = Add(left, right)
            peak = GlobalMaxPool(sum)
            spread = Expand(peak, shape)
            y = Exp(spread)
        }""",
    "precision/out_of_range.onnxtxt": """
        g (float[1,2] x) => (float[1,2] y)
            <float[2,2] w = {0.5, -0.25, 0.125, 0.75}, float large = {91204}, float small = {0.00001}> {
            product = MatMul(x, w)
            scaled = Mul(product, large)
            y = Mul(scaled, small)
        }""",
    "precision/there_and_back.onnxtxt": """
        g (float16[4] a, float[4] b, float[4] c) => (float16[4] x, float[4] y, float[4] z) {
            a_wide = Cast<to=1>(a)
            a_back = Cast<to=10>(a_wide)
            x = Neg(a_back)
            b_wide = Cast<to=11>(b)
            b_back = Cast<to=1>(b_wide)
            y = Neg(b_back)
            c_narrow = Cast<to=10>(c)
            c_back = Cast<to=1>(c_narrow)
            z = Neg(c_back)
        }""",
    "precision/rounded_constant.onnxtxt": """
        g (float[4] x) => (float[4] y) <float tenth = {0.1}> {
            half = Cast<to=10>(tenth)
            back = Cast<to=1>(half)
            y = Mul(x, back)
        }""",
}


def texts() -> dict[str, str]:
    """Every model in textual syntax, by file name."""
    results = {file: to_text(from_text(text)) for file, text in {**SATURATION, **PRECISION}.items()}
    for file, (pass_name, rule_name) in ALGEBRA.items():
        rule = next(rule for rule in passes.find_pass(pass_name).rules if rule.name == rule_name)
        results[file] = to_text(from_text(rule.example.before))
    return results
