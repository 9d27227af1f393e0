"""Which values can hold no NaN unless something overflows."""

import numpy as np
import pytest

from tests.running import typed
from workbench.ir import Edit, constant
from workbench.rewrite.analyses.finite import why_not_finite

FINITE = {
    "weights by integers": "w = Gather(table, i)  y = Softmax(w)",
    "integers from anywhere": "k = IsNaN(x)  m = Cast<to=7>(k)  y = Cast<to=1>(m)",
    "a mask of the lowest number": "k = Equal(i, i)  m = Where(k, zero, low)  w = Gather(table, i)  s = Add(w, m)  y = Softmax(s)",
    "a normalization": "w = Gather(table, i)  y = LayerNormalization(w, table)",
}
NOT = {
    "an input": ("y = Relu(x)", "'x' is an input, and may hold NaN or an infinity"),
    "a division": ("w = Gather(table, i)  y = Div(w, w)", "Div 'Div_y' may make NaN or an infinity of finite numbers"),
    "an infinite constant": ("w = Gather(table, i)  y = Mul(w, inf)", "constant 'inf' holds NaN or an infinity"),
    "no epsilon": (
        "w = Gather(table, i)  y = LayerNormalization<epsilon=0.0>(w, table)",
        "LayerNormalization 'LayerNormalization_y' may make NaN or an infinity of finite numbers",
    ),
}


def graph_of(nodes):
    """A graph of those nodes; the notation of ONNX's text has no infinity, so `inf` becomes one here."""
    graph = typed(
        f"""g (float[2] x, int64[2] i) => (float[2] y)
            <float[2] table = {{1, 2}}, float zero = {{0}}, float low = {{-3.4e38}}, float inf = {{1}}> {{ {nodes} }}"""
    )
    if "inf" in graph.constants:
        graph.apply(Edit(constants={"inf": constant(np.array(np.inf, np.float32))}))
    return graph


@pytest.mark.parametrize("nodes", FINITE.values(), ids=FINITE)
def test_finite_sources_give_finite_numbers(nodes):
    assert why_not_finite(graph_of(nodes), "y") is None


@pytest.mark.parametrize(("nodes", "reason"), NOT.values(), ids=NOT)
def test_what_may_be_none_is_named(nodes, reason):
    assert why_not_finite(graph_of(nodes), "y") == reason
