"""Numbers that follow from shapes: a long chain costs no more than its nodes, in time and in memory."""

import pytest

from passes.fold_shapes import FoldShapes
from tests.running import typed
from workbench.layout.profile import load_profile
from workbench.ops.sizes import contents_of
from workbench.rewrite import run_pass


def _chain(op: str) -> str:
    """Sixty nodes, each of which reads the one before twice."""
    return "\n".join(["v0 = Shape(x)", *(f"v{i + 1} = {op}(v{i}, v{i})" for i in range(60))])


@pytest.mark.parametrize("op", ["Concat<axis=0>", "Add", "Mul"])
def test_values_that_are_read_twice_over_and_over_are_followed_once(op):
    """Followed operand by operand this chain is 2 ** 60 walks; multiplied out it is a term of 2 ** 60 symbols."""
    graph = typed(f"g (float[N,3] x) => (int64[M] y) {{ {_chain(op)}\ny = Neg(v60) }}")
    assert contents_of(graph, "v60") is None
    run_pass(FoldShapes(), graph, load_profile("cuda"))


def test_types_of_a_chain_in_a_body_are_inferred_without_its_numbers():
    """ONNX's inference would hold 2 ** 60 of them."""
    graph = typed(f"""g (float[N,3] x, bool c) => (int64[M] y) {{
        y = If (c) <then_branch = t () => (int64[M] z) {{ {_chain("Concat<axis=0>")}\nz = Neg(v60) }},
                    else_branch = e () => (int64[M] w) {{ w = Shape(x) }}> }}""")
    assert graph.tensor_type("y").dtype.name == "INT64"


def test_a_value_read_twice_is_one_number():
    graph = typed("g (float[N,3] x) => (int64[2] y) { s = Shape(x)  t = Add(s, s)  u = Sub(t, s)  y = Neg(u) }")
    assert contents_of(graph, "u") == contents_of(graph, "s")
