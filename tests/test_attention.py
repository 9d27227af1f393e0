"""Attention of a symbolic batch, with a scale that hangs on the ends of shapes which are constant."""

import numpy as np
import pytest

from tests.running import normal, outputs, typed
from workbench.interfaces import api

SCALES = {
    "slice": "s = Shape(q)  l = Slice(s, last, end)  c = Cast<to=1>(l)  r = Sqrt(c)  d = Div(a, r)",
    "cast first": "s = Shape(q)  c = Cast<to=1>(s)  l = Slice(c, last, end)  r = Sqrt(l)  d = Div(a, r)",
    "a product": "s = Shape<start=-1>(q)  c = Cast<to=1>(s)  r = Sqrt(c)  o = Div(one, r)  d = Mul(a, o)",
}


@pytest.mark.parametrize("scale", SCALES)
def test_attention_is_recomposed_with_a_symbolic_batch_and_a_scale_from_the_end_of_a_shape(scale):
    text = f"""g (float[N,2,3,16] q, float[N,2,5,16] k, float[N,2,5,4] v) => (float[N,2,3,4] y)
        <int64[1] last = {{-1}}, int64[1] end = {{9223372036854775807}}, float one = {{1}}> {{
        t = Transpose<perm=[0,1,3,2]>(k)  a = MatMul(q, t)  {SCALES[scale]}  p = Softmax<axis=-1>(d)  y = MatMul(p, v)
    }}"""
    graph = typed(text)
    (node,) = api.optimize(graph, preset="simplify").graph.nodes
    assert node.op == "Attention" and node.attr("scale") == 0.25
    optimized = api.optimize(graph, preset="simplify").graph
    for batch in (1, 3):
        inputs = {"q": normal(batch, 2, 3, 16), "k": normal(batch, 2, 5, 16), "v": normal(batch, 2, 5, 4)}
        expected = outputs(graph, inputs)["y"]
        np.testing.assert_allclose(outputs(optimized, inputs)["y"], expected, rtol=1e-5, atol=1e-6)
