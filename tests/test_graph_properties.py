"""Any edit of any graph, whatever the names: what `Graph.apply` takes, what it leaves, and what its inverse restores.

Edits are compared with what they mean on plain lists of nodes, without an index and without ranks.
"""

from collections import Counter
from dataclasses import replace as with_changes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.ir import Edit, EditError, Graph, Node, TensorType, check, constant
from workbench.ir.node import Function
from workbench.ir.types import DataType

# Of values and of nodes alike: each other's suffixes, what `apply` itself makes, and what no language would allow.
NAMES = ("a", "b", "c", "d", "a_1", "a_1_1", "a_is", "b_is", "a_is_1", "ä", "x y", "0", "/a/b.c", "If", "'")
INPUTS = ("x", "y")
CONSTANTS = {name: constant(np.float32([index])) for index, name in enumerate(("k", "l", "a k"))}
TENSORS = [*CONSTANTS.values(), None]
FUNCTION = Function("F", "own", Graph(inputs=["p"], outputs=["q"], nodes=[Node("Abs", ("p",), ("q",), name="n")]))
TYPES = [TensorType(DataType.FLOAT, (1,)), TensorType(DataType.INT64, ("N", 2)), None]
ABSENT = "nowhere"

names, some_of = st.sampled_from(NAMES), st.sampled_from


def body(captured: str, inner: str) -> Graph:
    return Graph(name="body", outputs=[inner], nodes=[Node("Neg", (captured,), (inner,), name=f"n {inner}")])


@st.composite
def nodes(draw, readable, defined=NAMES, name=names):
    """A node that reads some of these values, in a body perhaps, and leaves optional operands and results out."""
    attributes = {}
    if draw(st.integers(0, 4)) == 0:
        attributes["then_branch"] = body(draw(some_of(readable)), f"inner {draw(names)}")
    inputs = draw(st.lists(some_of([*readable, ""]), max_size=3))
    outputs = draw(st.lists(some_of([*defined, ""]), min_size=1, max_size=2))
    return Node(draw(some_of(("Max", "If", "Identity"))), inputs, outputs, attributes, draw(name))


@st.composite
def graphs(draw):
    """Well-formed ones: outputs are inputs, constants or computed, and some names are reserved."""
    inserted: dict[str, Node] = {}
    values = [*INPUTS, *CONSTANTS]
    for node in draw(st.lists(nodes(values), max_size=8)):
        reading = {old: draw(some_of(values)) for old in node.operands}  # of nodes before it, too
        outputs = [value if value not in values else "" for value in dict.fromkeys(node.outputs)]
        if any(outputs) and node.name not in inserted:
            inserted[node.name] = node.with_values_renamed(reading).replace(outputs=outputs)
            values += filter(None, outputs)
    outputs = draw(st.lists(some_of(values), min_size=1, max_size=3, unique=True))
    graph = Graph(
        inputs=INPUTS,
        outputs=outputs,
        nodes=inserted.values(),
        constants=CONSTANTS,
        types={value: draw(some_of(TYPES[:2])) for value in values if value not in CONSTANTS},
        metadata={"note": "kept"},
        functions={FUNCTION.key: FUNCTION},
        opset_imports={"": 23},
        reserved=frozenset(draw(st.sets(names, min_size=1, max_size=4))),
    )
    check(graph)
    return graph


@st.composite
def edits(draw, graph):
    """Any at all, most of which do not fit; in half of them the removed nodes come back, changed or not."""
    removed = (
        draw(st.lists(some_of([node.name for node in graph.nodes]), max_size=2, unique=True)) if len(graph) else []
    )
    gone = [graph.node(name) for name in removed if name in graph]
    free = [value for node in gone for value in node.outputs if value]
    values = [*graph.values()]
    inserted = draw(
        st.lists(nodes([*values, *free], [*free, "new", *NAMES], some_of([*removed, "new", *NAMES, ""])), max_size=2)
    )
    if draw(st.booleans()):
        inserted += [node.with_values_renamed({v: draw(some_of(values)) for v in node.operands}) for node in gone]
    value = some_of([*values, *NAMES[:2], ABSENT])
    return Edit(
        remove=(*removed, *draw(some_of([*[()] * 9, (ABSENT,)]))),
        insert=tuple(draw(st.permutations(inserted))),
        replace=draw(st.dictionaries(some_of([*free, *values]), value, max_size=draw(st.integers(0, 2)))),
        constants=draw(st.dictionaries(some_of([*CONSTANTS, "new", *values]), some_of(TENSORS), max_size=1)),
        types=draw(st.dictionaries(value, some_of(TYPES), max_size=1)),
        metadata=draw(some_of([{}, {"note": "new"}, {"note": None, "more": "new"}])),
        functions=draw(some_of([{}, {FUNCTION.key: None}])),
    )


def state(graph):
    """All that can be read of the graph, by whatever way; nodes and constants as objects."""
    values = [*graph.values()]
    return (
        (graph.inputs, graph.outputs, graph.nodes, graph.reserved, len(graph)),
        (dict(graph.constants), dict(graph.types), dict(graph.metadata), dict(graph.functions)),
        {node.name: graph.node(node.name) for node in graph.nodes},
        {value: (graph.producer(value), graph.users(value), graph.count_users(value)) for value in values},
        {value: (graph.is_input(value), graph.is_output(value), graph.has_value(value)) for value in values},
        {node.op: graph.nodes_of([node.op]) for node in graph.nodes},
        (graph.with_bodies, graph.captured, Counter(values)),
    )


def meaning(graph):
    """What the outputs are, as expressions of inputs and constants; an Identity is its operand."""
    known = {**{value: value for value in graph.inputs}, **{v: id(t) for v, t in graph.constants.items()}}
    for node in graph.nodes:
        read = (
            node.op,
            tuple(known.get(v) for v in node.inputs),
            *(known[v] for b in node.bodies.values() for v in b.captured),
        )
        for index, value in enumerate(node.outputs):
            if value:
                known[value] = known[node.inputs[0]] if is_copy(node) else (*read, index)
    return [known[value] for value in graph.outputs]


def is_copy(node):
    return node.op == "Identity" and len(node.inputs) == len(node.outputs) == 1 and node.inputs[0] and not node.bodies


def naive(graph, edit):
    """The graph as the edit says, all of it built anew; None if that is not well formed."""
    if not {*edit.remove} <= {node.name for node in graph.nodes}:
        return None
    kept = [node for node in graph.nodes if node.name not in edit.remove]
    together = [node.with_values_renamed(edit.followed) for node in (*kept, *edit.insert)]
    constants = {v: tensor for v, tensor in {**graph.constants, **edit.constants}.items() if tensor is not None}
    defined = [*graph.inputs, *constants, *(value for node in together for value in node.outputs if value)]
    named = [node.name for node in together]
    outputs = [edit.followed.get(value, value) for value in graph.outputs]
    if "" in named or len({*named}) < len(named) or len({*defined}) < len(defined):
        return None
    ordered, known = [], {*graph.inputs, *constants}
    while ready := [node for node in together if node not in ordered and known.issuperset(node.operands)]:
        ordered += ready
        known.update(value for node in ready for value in node.outputs)
    if len(ordered) < len(together) or not known.issuperset(outputs):
        return None
    return Graph(inputs=graph.inputs, outputs=outputs, nodes=ordered, constants=constants)


def applied(graph, edit):
    """The inverse; None if the edit is refused, with the graph as it was."""
    before = state(graph)
    try:
        return graph.apply(edit)
    except EditError:
        assert state(graph) == before
        return None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_an_edit_is_taken_if_and_only_if_what_it_says_is_a_graph(data):
    graph = data.draw(graphs())
    edit = with_changes(data.draw(edits(graph)), replace={})
    expected = naive(graph, edit)
    assert (applied(graph, edit) is None) == (expected is None)
    if expected is not None:
        assert {*graph.nodes} == {*expected.nodes} and meaning(graph) == meaning(expected)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_use_of_a_replaced_value_reads_the_other_and_public_names_stay(data):
    graph = data.draw(graphs())
    before, edit = graph.copy(), data.draw(edits(graph))
    if applied(graph, edit) is None:
        return
    expected = naive(before, edit)
    assert expected is not None and meaning(graph) == meaning(expected)
    assert (graph.inputs, graph.outputs) == (before.inputs, before.outputs)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_inverse_restores_all_that_can_be_read_and_its_inverse_the_result(data):
    graph = data.draw(graphs())
    before, undo = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        now = state(graph)
        if (inverse := applied(graph, data.draw(edits(graph)))) is not None:
            before.append(now)
            undo.append(inverse)
        check(graph)
        assert state(graph) == state(graph.copy())  # whose indices are made anew
    after = [*before[1:], state(graph)]
    redo = []
    for inverse, expected in zip(reversed(undo), reversed(before), strict=True):
        redo.append(graph.apply(inverse))
        assert state(graph) == expected
    for again, expected in zip(reversed(redo), after, strict=bool(before)):
        graph.apply(again)
        assert state(graph) == expected


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_an_edit_leaves_unused_goes_and_outputs_stay(data):
    """Of the values that the edit concerns; others were unused before, as in a file."""
    graph = data.draw(graphs())
    unused = {v for v in graph.constants if not graph.count_users(v) and not graph.is_output(v)}
    edit = data.draw(edits(graph))
    if applied(graph, edit) is None:
        return
    for value in graph.constants:
        assert graph.count_users(value) or graph.is_output(value) or value in unused - {*edit.constants}
    assert all(graph.has_value(value) for value in graph.outputs)
    assert all(graph.has_value(value) for value in graph.types if value not in edit.types)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_fresh_name_is_free_and_the_first_that_is(data):
    graph, taken = data.draw(graphs()), data.draw(st.sets(names, min_size=1, max_size=4))
    inner = {v for node in graph.with_bodies for b in node.bodies.values() for v in b.values()}
    known = {*graph.values(), *(node.name for node in graph.nodes), *graph.reserved, *taken, *inner}
    base = data.draw(st.one_of(names, some_of([*sorted(known)])))
    expected = next(name for name in (base, *(f"{base}_{n}" for n in range(1, 99))) if name not in known)
    assert [graph.fresh(base, taken), graph.fresh(base, taken)] == [expected] * 2


@pytest.mark.parametrize("value", ["k", "x"])
def test_an_output_that_is_a_constant_or_an_input_stays_when_its_last_reader_goes(value):
    graph = Graph(
        inputs=["x"],
        outputs=[value],
        nodes=[Node("Add", ("x", "k"), ("a",), name="n")],
        constants={"k": CONSTANTS["k"]},
    )
    graph.apply(Edit(remove=("n",)))
    check(graph)
    assert graph.outputs == (value,) and not graph.nodes


def test_a_fresh_name_is_none_that_is_reserved():
    assert Graph(reserved=frozenset({"a", "a_1"})).fresh("a") == "a_2"


def test_an_edit_reads_no_value_that_it_removes():
    graph = Graph(
        inputs=["x"],
        outputs=["y"],
        nodes=[Node("Abs", ("x",), ("a",), name="n"), Node("Neg", ("x",), ("y",), name="m")],
    )
    with pytest.raises(EditError, match=r"Exp 'new' would read 'a', which is not defined"):
        graph.apply(Edit(remove=("n",), insert=(Node("Exp", ("a",), ("b",), name="new"),)))
