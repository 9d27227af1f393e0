"""Numbers that follow from shapes: a long chain costs no more than its nodes."""

import pytest

from passes.fold_shapes import FoldShapes
from tests.running import typed
from workbench.layout.profile import load_profile
from workbench.ops.sizes import contents_of
from workbench.rewrite import run_pass


@pytest.mark.parametrize("op", ["Concat<axis=0>", "Add", "Mul"])
def test_values_that_are_read_twice_over_and_over_are_followed_once(op):
    """Followed operand by operand this chain is 2 ** 60 walks."""
    lines = [f"v{i + 1} = {op}(v{i}, v{i})" for i in range(60)]
    graph = typed(f"g (float[N,3] x) => (int64[M] y) {{ v0 = Shape(x)\n{chr(10).join(lines)}\ny = Neg(v60) }}")
    assert contents_of(graph, "v60") is None
    run_pass(FoldShapes(), graph, load_profile("cuda"))


def test_a_value_read_twice_is_one_number():
    graph = typed("g (float[N,3] x) => (int64[2] y) { s = Shape(x)  t = Add(s, s)  u = Sub(t, s)  y = Neg(u) }")
    assert contents_of(graph, "u") == contents_of(graph, "s")
