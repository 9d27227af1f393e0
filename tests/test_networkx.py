"""graph.to_networkx(): what networkx finds in it holds of the graph."""

from __future__ import annotations

import networkx
import pytest

from tests.viewing import sample_history
from workbench.ir import Graph, Node, from_text

BRANCHES = """
    g (bool c, float[4] x) => (float[4] y) {
        a = Relu(x)
        y = If (c) <then_branch = t () => (float[4] p) { p = Neg(a) },
                    else_branch = e () => (float[4] q) { q = Abs(x) }>
    }"""


def test_the_order_is_topological_and_ancestors_are_those_of_the_graph():
    graph = sample_history("resnet50_narrow").initial
    found = graph.to_networkx()
    place = {name: number for number, name in enumerate(networkx.topological_sort(found))}
    assert set(place) == {n.name for n in graph.nodes} | {f"in:{v}" for v in graph.inputs} | {
        f"out:{v}" for v in graph.outputs
    }
    assert all(place[a] < place[b] for a, b in found.edges())
    last = graph.nodes[-1]
    waiting, above = [last], set()
    while waiting:
        for value in waiting.pop().inputs:
            producer = graph.producer(value)
            if producer is not None and producer.name not in above:
                above.add(producer.name)
                waiting.append(producer)
    assert networkx.ancestors(found, last.name) == above | {f"in:{v}" for v in graph.inputs}


def test_operators_and_values_are_told():
    graph = from_text("""
        g (float[N, 4] x) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> {
            a = Mul(x, w)  s = Add(a, a)  y = Softmax<axis = 1>(s)
        }""")
    found = graph.to_networkx()
    assert found.nodes["Softmax_y"]["attributes"] == {"axis": 1}
    assert found.nodes["Mul_a"]["op"] == "Mul" and found.nodes["Mul_a"]["constants"] == ("w",)
    assert found.nodes["in:x"] == {"kind": "input", "value": "x"}
    assert found.edges["in:x", "Mul_a", 0] == {"value": "x", "dtype": "FLOAT", "shape": ("N", 4)}
    assert list(found["Mul_a"]["Add_s"]) == [0, 1], "it reads the value twice"
    assert found.edges["Softmax_y", "out:y", 0]["shape"] == ("N", 4)
    assert "w" not in "".join(found.nodes)


def test_bodies_are_graphs_of_their_own_and_captures_are_edges():
    found = from_text(BRANCHES).to_networkx()
    assert networkx.ancestors(found, "If_y") == {"in:c", "in:x", "Relu_a"}
    assert {(a, key) for a, _, key in found.in_edges("If_y", keys=True)} == {("in:c", 0), ("Relu_a", 1), ("in:x", 2)}
    then = found.nodes["If_y"]["bodies"]["then_branch"]
    assert list(networkx.topological_sort(then)) == ["in:a", "Neg_p", "out:p"]
    assert then.nodes["in:a"]["kind"] == "captured"
    assert found.nodes["If_y"]["attributes"] == {}


def test_it_is_a_copy_and_two_names_that_are_one_are_refused():
    graph = from_text(BRANCHES)
    found = graph.to_networkx()
    found.remove_node("Relu_a")
    assert "Relu_a" in graph
    clashing = Graph(inputs=("x",), outputs=("y",), nodes=[Node("Relu", ("x",), ("y",), name="in:x")])
    with pytest.raises(ValueError, match="node 'in:x' has the name that an input or output gets in networkx"):
        clashing.to_networkx()
