"""Rotary embeddings whose cosines and sines come from a table, and those that are refused."""

from __future__ import annotations

import numpy as np
import pytest

import passes
import workbench as wb
from tests.running import normal, outputs, typed
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.ir import Graph
from workbench.rewrite import NoMatch

TURNED = """cos = Unsqueeze(c, one)  sin = Unsqueeze(s, one)
    first, second = Split<axis=-1, num_outputs=2>(x)  n = Neg(second)  t = Concat<axis=-1>(n, first)
    a = Mul(x, cos)  b = Mul(t, sin)  y = Add(a, b)"""
TABLE = (
    "float[3,4] cosines = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}, float[3,4] sines = {0, 2, 0, 2, 1, 1, 1, 1, 3, 2, 3, 2}"
)


def by_table(table: str = TABLE, inputs: str = "float[N,5,6,4] x, int64[N,6] p") -> Graph:
    return typed(f"""g ({inputs}) => (float[N,5,6,4] y) <int64[1] one = {{1}}, float half = {{0.5}}, {table}> {{
        g = Gather(cosines, p)  c = Mul(g, half)  s = Gather(sines, p)  {TURNED} }}""")


def refusal(graph: Graph) -> str:
    rule = passes.find_pass("recompose_rotary").rules[0]
    with pytest.raises(NoMatch) as no:
        rule.match(graph, graph.producer("y"), None)
    return str(no.value)


def test_a_table_of_which_positions_pick_rows():
    graph = by_table()
    after = wb.optimize(graph, preset="simplify").graph
    assert [node.op for node in after.nodes].count("RotaryEmbedding") == 1
    inputs = {"x": normal(2, 5, 6, 4), "p": np.arange(12).reshape(2, 6) % 3}
    expected = outputs(graph, inputs)["y"]
    np.testing.assert_allclose(outputs(after, inputs)["y"], expected, rtol=1e-5, atol=1e-5)
    executor = TorchExecutor(after)
    np.testing.assert_allclose(executor.run(inputs)["y"], expected, rtol=1e-5, atol=1e-5)
    assert executor.fallbacks == {}


def test_a_table_whose_halves_differ():
    said = "the second half of 'sin' is not known to repeat the first, as in RotaryEmbedding"
    assert refusal(by_table(TABLE.replace("0, 2, 0, 2", "0, 2, 0, 1"))) == said


def test_positions_that_all_texts_share():
    """ONNX's operator has angles for each text."""
    said = "'cos' is not known to have the axes of 'x', with one number for all heads"
    assert refusal(by_table(inputs="float[N,5,6,4] x, int64[1,6] p")) == said


def test_angles_that_are_computed_of_both_halves():
    """A sum with a number for each place does not repeat what it adds to."""
    graph = typed(f"""g (float[2,5,3,4] x, float[2,3,2] f, float[4] v) => (float[2,5,3,4] y) <int64[1] one = {{1}}> {{
        e = Concat<axis=-1>(f, f)  c = Cos(e)  m = Sin(e)  s = Mul(m, v)  {TURNED} }}""")
    assert refusal(graph) == "the second half of 'sin' is not known to repeat the first, as in RotaryEmbedding"
