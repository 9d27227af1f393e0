"""The graph and its edits: what `apply` does, undoes, and refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.ir import (
    Edit,
    EditError,
    Graph,
    IllFormedError,
    Node,
    TextError,
    check,
    constant,
    from_text,
    graph_text,
    to_text,
    violations,
)

CHAIN = """g (float[2] x) => (float[2] y) {
    a = Relu(x)
    b = Neg(a)
    y = Abs(b)
}"""


def names(graph: Graph) -> list[str]:
    return [node.name for node in graph.nodes]


def test_producers_and_users():
    graph = from_text(CHAIN)
    assert graph.producer("x") is None
    assert graph.producer("b").op == "Neg"
    assert [u.name for u in graph.users("a")] == ["Neg_b"]
    assert graph.is_output("y")
    assert not graph.is_output("b")


def test_replace_reaches_every_reader():
    graph = from_text("g (float[2] x) => (float[2] y) { a = Identity(x)  b = Neg(a)  y = Add(a, b) }")
    graph.apply(Edit(remove=("Identity_a",), replace={"a": "x"}))
    assert graph.node("Neg_b").inputs == ("x",)
    assert graph.node("Add_y").inputs == ("x", "b")
    check(graph)


def test_public_names_stay_when_an_output_is_replaced():
    graph = from_text("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Identity(a) }")
    graph.apply(Edit(remove=("Identity_y",), replace={"y": "a"}))
    assert graph.outputs == ("y",)
    assert graph.producer("y").op == "Relu"
    check(graph)


def test_an_output_replaced_by_an_input_becomes_an_identity():
    graph = from_text("g (float[2] x) => (float[2] y) { y = Identity(x) }")
    graph.apply(Edit(remove=("Identity_y",), replace={"y": "x"}))
    assert [(n.op, n.inputs, n.outputs) for n in graph.nodes] == [("Identity", ("x",), ("y",))]


def test_two_outputs_may_become_one_value():
    graph = from_text("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x)  z = Relu(x) }")
    graph.apply(Edit(remove=("Relu_z",), replace={"z": "y"}))
    assert graph.outputs == ("y", "z")
    assert graph.producer("z").op == "Identity"
    check(graph)


def test_a_changed_node_keeps_its_place():
    graph = from_text(CHAIN)
    node = graph.node("Neg_b")
    graph.apply(Edit(remove=("Neg_b",), insert=(node.replace(op_type="Exp"),)))
    assert names(graph) == ["Relu_a", "Neg_b", "Abs_y"]
    assert graph.node("Neg_b").op == "Exp"


def test_a_new_node_stands_just_before_its_reader():
    graph = from_text(
        "g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(x)  c = Exp(x)  d = Add(a, b)  y = Add(d, c) }"
    )
    reader = graph.node("Add_y")
    graph.apply(
        Edit(
            remove=("Add_y",),
            insert=(Node("Neg", ("a",), ("n",), name="new"), reader.replace(inputs=("d", "n"))),
        )
    )
    assert names(graph) == ["Relu_a", "Neg_b", "Exp_c", "Add_d", "new", "Add_y"]
    check(graph)


def test_nodes_move_where_an_edit_needs_it_and_back():
    graph = from_text("g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(x)  y = Add(a, b) }")
    text = to_text(graph)
    inverse = graph.apply(Edit(remove=("Relu_a",), insert=(Node("Relu", ("b",), ("a",), name="Relu_a"),)))
    check(graph)
    assert names(graph) == ["Neg_b", "Relu_a", "Add_y"]
    graph.apply(inverse)
    assert to_text(graph) == text


def test_constants_without_a_reader_go_and_come_back():
    graph = from_text("g (float[2] x) => (float[2] y) <float[2] c = {1, 2}> { a = Add(x, c)  y = Relu(x) }")
    inverse = graph.apply(Edit(remove=("Add_a",)))
    assert "c" not in graph.constants
    graph.apply(inverse)
    np.testing.assert_array_equal(graph.constants["c"].numpy(), np.float32([1, 2]))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (Edit(remove=("nobody",)), "there is no node 'nobody' to remove"),
        (Edit(insert=(Node("Relu", ("x",), ("a",), name="n"),)), "value 'a' would be defined twice"),
        (Edit(insert=(Node("Relu", ("x",), ("z",), name="Relu_a"),)), "there is a node 'Relu_a' already"),
        (Edit(insert=(Node("Relu", ("nothing",), ("z",), name="n"),)), "would read 'nothing', which is not defined"),
        (Edit(remove=("Relu_a",)), "would be removed, and is still used by node 'Neg_b'"),
        (Edit(remove=("Abs_y",)), "would be removed, and is still used by the graph's outputs"),
        (Edit(insert=(Node("Relu", ("x",), ("z",)),)), "has no name"),
        (Edit(remove=("Relu_a",), insert=(Node("Relu", ("b",), ("a",), name="Relu_a"),)), "would create a cycle"),
        (Edit(replace={"a": "b", "b": "a"}), "is replaced in a cycle"),
        (
            Edit(constants={"a": constant(np.zeros(2))}),
            "value 'a' would be defined twice, the second time as a constant",
        ),
        (
            Edit(constants={"x": constant(np.zeros(2))}),
            "value 'x' would be defined twice, the second time as a constant",
        ),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_and_changes_nothing(edit, words):
    graph = from_text(CHAIN)
    text = to_text(graph)
    with pytest.raises(EditError, match=words):
        graph.apply(edit)
    assert to_text(graph) == text
    check(graph)


def test_a_body_captures_and_follows_a_renamed_value():
    graph = from_text(
        """g (bool c, float[2] x) => (float[2] y) {
            a = Identity(x)
            y = If <then_branch = t () => (float[2] r) { r = Neg(a) }, else_branch = e () => (float[2] r) { r = Abs(a) }> (c)
        }"""
    )
    node = graph.producer("y")
    assert set(node.operands) == {"c", "a"}
    graph.apply(Edit(remove=("Identity_a",), replace={"a": "x"}))
    check(graph)
    assert set(graph.producer("y").operands) == {"c", "x"}


def test_text_round_trip_with_a_function():
    text = """<ir_version: 10, opset_import: ["" : 23, "local" : 1]>
    g (float[2] x) => (float[2] y) { y = local.twice(x) }
    <domain: "local", opset_import: ["" : 23]> twice (a) => (b) { b = Add(a, a) }"""
    graph = from_text(text)
    assert list(graph.functions) == [("local", "twice", "")]
    assert to_text(from_text(to_text(graph))) == to_text(graph)


def test_large_constants_are_left_out_of_the_text():
    graph = Graph(
        inputs=["x"],
        outputs=["y"],
        nodes=[Node("Add", ("x", "w"), ("y",), name="add")],
        constants={"w": constant(np.zeros(1000, np.float32))},
        opset_imports={"": 23},
    )
    assert len(to_text(graph)) < 400


def test_bad_text_is_one_error():
    with pytest.raises(TextError):
        from_text("g (float[2] x) => (float[2] y) { y = Relu(x ")


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([Node("Relu", ("z",), ("y",), name="n")], "reads 'z', which is not defined before it"),
        ([Node("Relu", ("x",), ("x",), name="n")], "value 'x' is defined twice"),
        ([], "output 'y' of graph 'graph' is not defined"),
    ],
)
def test_ill_formed(nodes, words):
    graph = Graph(inputs=["x"], outputs=["y"], nodes=nodes)
    assert any(words in breach for breach in violations(graph))
    with pytest.raises(IllFormedError):
        check(graph)


# ---- any edits, undone in turn, give the first graph back ---------------------------


@st.composite
def random_graphs(draw):
    count = draw(st.integers(1, 12))
    values, nodes = ["x0", "x1"], []
    for index in range(count):
        inputs = tuple(draw(st.sampled_from(values)) for _ in range(draw(st.integers(1, 2))))
        nodes.append(Node("Max", inputs, (f"v{index}",), name=f"n{index}"))
        values.append(f"v{index}")
    return Graph(inputs=["x0", "x1"], outputs=[f"v{count - 1}"], nodes=nodes, opset_imports={"": 23})


def random_edit(graph: Graph, draw, serial: int) -> Edit:
    node = draw(st.sampled_from(graph.nodes))
    kind = draw(st.sampled_from(["insert", "bypass", "change", "drop"]))
    if kind == "insert":
        fresh = f"new{serial}"
        changed = node.with_values_renamed({node.inputs[0]: fresh})
        added = Node("Relu", (node.inputs[0],), (fresh,), name=f"relu{serial}")
        return Edit(remove=(node.name,), insert=(added, changed))
    if kind == "bypass":
        return Edit(remove=(node.name,), replace={node.outputs[0]: node.inputs[0]})
    if kind == "change":
        other = draw(st.sampled_from(["x0", "x1", *(v for n in graph.nodes for v in n.outputs)]))
        return Edit(remove=(node.name,), insert=(node.replace(inputs=(other, node.inputs[0])),))
    return Edit(remove=(node.name,))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_edits_are_invertible(data):
    graph = data.draw(random_graphs())
    texts, inverses = [graph_text(graph)], []
    for serial in range(data.draw(st.integers(1, 8))):
        edit = random_edit(graph, data.draw, serial)
        try:
            inverses.append(graph.apply(edit))
        except EditError:
            assert graph_text(graph) == texts[-1]
            continue
        check(graph)
        texts.append(graph_text(graph))
    while inverses:
        assert graph_text(graph) == texts.pop()
        graph.apply(inverses.pop())
        check(graph)
    assert graph_text(graph) == texts.pop()


def test_two_outputs_that_one_value_replaces_in_one_edit():
    graph = from_text("g (float[2] x) => (float[2] y, float[2] z) { a = Relu(x)  y = Identity(a)  z = Identity(a) }")
    text = to_text(graph)
    inverse = graph.apply(Edit(remove=("Identity_y", "Identity_z"), replace={"y": "a", "z": "a"}))
    check(graph)
    assert [(n.op, n.inputs, n.outputs) for n in graph.nodes] == [
        ("Relu", ("x",), ("y",)),
        ("Identity", ("y",), ("z",)),
    ]
    graph.apply(inverse)
    assert to_text(graph) == text


def test_a_fresh_name_is_none_that_a_body_uses():
    graph = from_text(
        """g (bool c, float[2] x) => (float[2] y) {
            y = If <then_branch = t () => (float[2] n) { n = Neg(x) }, else_branch = e () => (float[2] a) { a = Abs(x) }> (c)
        }"""
    )
    assert [graph.fresh(base) for base in ("n", "a", "y", "b")] == ["n_1", "a_1", "y_1", "b"]


def test_notes_and_tables_of_functions_in_the_text():
    """What is beside the graph stays out of its text, and a function's numbers, which have no place elsewhere, in it."""
    numbers = ", ".join(map(str, range(40)))
    graph = from_text(f"""<ir_version: 10, opset_import: ["": 23, "own": 1]>
        g (float[40] x) => (float[40] y) {{ y = own.F(x) }}
        <domain: "own", opset_import: ["": 23]> F (a) => (b)
            {{ k = Constant<value = float[40] {{{numbers}}}>()  b = Add(a, k) }}""")
    graph.metadata["note"] = 'quo"te >\n x'
    assert graph_text(graph).startswith("g (float[40] x) => (float[40] y)")
    again = from_text(to_text(graph)).functions["own", "F", ""].graph.constants["k"]
    assert again.numpy().tolist() == list(range(40))


def test_nodes_that_change_places_move_alone():
    graph = from_text("g (float[4] x) => (float[4] y) { a = Abs(x)  b = Neg(a)  c = Exp(b)  d = Tanh(c)  y = Relu(d) }")
    before = {node.name: graph.position(node.name) for node in graph.nodes}
    swap = Edit(
        remove=("Neg_b", "Exp_c"),
        insert=(graph.node("Neg_b").replace(inputs=("n",), outputs=("c",)), Node("Exp", ("a",), ("n",), {}, "Exp_c")),
    )
    inverse = graph.apply(swap)
    assert [node.name for node in graph.nodes] == ["Abs_a", "Exp_c", "Neg_b", "Tanh_d", "Relu_y"]
    assert all(graph.position(name) == before[name] for name in ("Abs_a", "Tanh_d", "Relu_y"))
    graph.apply(inverse)
    assert {node.name: graph.position(node.name) for node in graph.nodes} == before
    with pytest.raises(EditError, match="cycle"):
        graph.apply(Edit(remove=("Neg_b",), insert=(graph.node("Neg_b").replace(inputs=("d",)),)))
    assert {node.name: graph.position(node.name) for node in graph.nodes} == before


def test_a_constant_that_nothing_used_stays_when_its_first_reader_is_undone():
    """As in a file; else the same edit could not be made again."""
    graph = from_text("g (float[2] x) => (float[2] y) <float[2] c = {1, 2}, float[2] d = {1, 2}> { y = Add(x, d) }")
    text, edit = to_text(graph), Edit(replace={"d": "c"})
    for _ in range(2):
        inverse = graph.apply(edit)
        assert set(graph.constants) == {"c"}
        graph.apply(inverse)
        assert to_text(graph) == text
