"""What the checker knows of memory: lifetimes, what lies in what, what may be overwritten, arenas, and their bounds."""

import itertools
from pathlib import Path

import pytest
from onnx import parser

from workbench.checker import arena
from workbench.checker.arena import PlacedValue, checked_plan
from workbench.checker.files import plain_model
from workbench.checker.lifetimes import FileLifetimes
from workbench.checker.order import order_peak
from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.output import Output
from workbench.checker.records import Fields
from workbench.checker.shared_elements import SharedElements
from workbench.checker.sharing import MemorySharing

CHAIN = "(float[4] x) => (float[4] y) { a = Relu(x) b = Softmax(a) y = Add(a, b) }"


def read(text, opset=17, functions=""):
    header = f'<ir_version: 8, opset_import: ["": {opset}, "f": 1]> main '
    return Output(plain_model(parser.parse_model(header + text + functions), Path(), "m.onnx"), {}, "'m.onnx'")


def sharing_of(text, value="y", **words):
    output = read(text, **words)
    return MemorySharing(output), output.model.graph.producers[value]


def plan(output, **offsets):
    return checked_plan(Fields({"kind": "plan", "offsets": offsets}, "bound 1"), output)


def least(output, needless=()):
    return SharedElements(output, FileLifetimes(output), MemorySharing(output), needless).least()


# ---- lifetimes ---------------------------------------------------------------------------------


def test_a_value_is_in_use_from_its_node_to_its_last_reader():
    lifetimes = FileLifetimes(read(CHAIN))
    assert {value: lifetimes.of(value) for value in "aby"} == {"a": (0, 3), "b": (1, 3), "y": (2, 3)}
    assert [lifetimes.is_last_read("a", step) for step in range(3)] == [False, False, True]


def test_an_output_is_in_use_to_the_end_and_an_unread_value_for_one_step():
    text = "(float[4] x) => (float[4] y, float[4] z) { y = Relu(x) unread = Neg(y) z = Neg(x) }"
    lifetimes = FileLifetimes(read(text))
    assert lifetimes.of("y") == (0, 3) and lifetimes.of("unread") == (1, 2) and lifetimes.of("z") == (2, 3)


def test_inputs_and_outputs_are_never_read_for_the_last_time():
    lifetimes = FileLifetimes(read("(float[4] x) => (float[4] y, float[4] z) { y = Relu(x) z = Neg(y) }"))
    assert not lifetimes.is_last_read("x", 0) and not lifetimes.is_last_read("y", 1)


def test_what_a_body_reads_is_read_by_its_node():
    text = """(float[4] x, bool c) => (float[4] y) {
        a = Relu(x) b = Neg(x)
        y = If (c) <then_branch = t () => (float[4] p) { p = Neg(a) }, else_branch = e () => (float[4] q) { q = Exp(b) }>
    }"""
    lifetimes = FileLifetimes(read(text))
    assert lifetimes.of("a") == (0, 3) and lifetimes.of("b") == (1, 3)


# ---- what lies in what ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "words", "begin"),
    [
        ("4, 6", "starts=[1] ends=[3] axes=[0]", 24),
        ("4, 6", "starts=[-1] ends=[9] axes=[0]", 72),
        ("4, 6", "starts=[-9] ends=[2] axes=[0]", 0),
        ("4, 6", "starts=[1] ends=[3]", 24),
        ("4, 6", "starts=[1, 2] ends=[2, 5]", 32),
        ("4, 6", "starts=[2, 1] ends=[5, 2] axes=[1, 0]", 32),
        ("1, 6", "starts=[2] ends=[4] axes=[1]", 8),
        ("1, 6", "starts=[2] ends=[4] axes=[-1]", 8),
        ("2, 4, 6", "starts=[1] ends=[2] axes=[0]", 96),
        ("2, 4, 6", "starts=[1] ends=[2] axes=[-3]", 96),
        ("4, 6", "starts=[1] ends=[3] axes=[0] steps=[1]", 24),
        ("4, 6", "starts=[1] ends=[3] axes=[0] steps=[2]", None),
        ("4, 6", "starts=[3] ends=[1] axes=[0] steps=[-1]", None),
        ("4, 6", "starts=[2] ends=[4] axes=[1]", None),
        ("2, 4, 6", "starts=[1] ends=[2] axes=[1]", None),
        ("4, 6", "starts=[9] ends=[10] axes=[0]", None),
    ],
)
def test_a_slice_of_neighbouring_elements_lies_in_its_operand(shape, words, begin):
    names = [word.partition("=")[0] for word in words.replace(", ", ",").split()]
    nodes = " ".join(
        f"{name} = Constant <value_ints = [{word.partition('[')[2]}> ()"
        for name, word in zip(names, words.replace(", ", ",").split(), strict=True)
    )
    rank = ", ".join("abcd"[: shape.count(",") + 1])
    text = f"(float[{shape}] x) => (float[{rank}] y) {{ {nodes} y = Slice(x, {', '.join(names)}) }}"
    sharing, node = sharing_of(text)
    assert list(sharing.pieces(node)) == ([] if begin is None else [("y", begin)])
    assert not sharing.is_view(node)


def test_a_slice_at_a_place_that_a_caller_chooses_lies_nowhere():
    text = "(float[4] x, int64[1] s) => (float[2] y) { e = Constant <value_ints = [2]> () y = Slice(x, s, e) }"
    sharing, node = sharing_of(text)
    assert not list(sharing.pieces(node))


def test_a_slice_of_the_oldest_versions_has_its_numbers_in_attributes():
    sharing, node = sharing_of("(float[4] x) => (float[2] y) { y = Slice <starts = [1], ends = [3]> (x) }", opset=9)
    assert list(sharing.pieces(node)) == [("y", 4)]


def test_the_parts_of_a_split_lie_one_after_the_other():
    text = "(float16[6, 2] x) => (float16[a, 2] p, float16[b, 2] q, float16[c, 2] r)"
    sharing, node = sharing_of(
        text + " { s = Constant <value_ints = [1, 3, 2]> () p, q, r = Split <axis = 0> (x, s) }", "p"
    )
    assert list(sharing.pieces(node)) == [("p", 0), ("q", 4), ("r", 16)]
    assert not list(sharing.parts(node))
    text = "(float[4, 2] x) => (float[2, 2] p, float[2, 2] q) { p, q = Split <num_outputs = 2> (x) }"
    sharing, node = sharing_of(text, "p", opset=18)
    assert list(sharing.pieces(node)) == [("p", 0), ("q", 16)], "along the first axis where none is given"


@pytest.mark.parametrize(("shape", "axis", "lie"), [("1, 6", 1, True), ("1, 6", -1, True), ("2, 6", 1, False)])
def test_operands_of_a_concat_lie_in_it_if_only_sizes_of_1_are_before_the_axis(shape, axis, lie):
    text = f"(float[{shape}] x, float[{shape}] z) => (float[a, b] y) {{ y = Concat <axis = {axis}> (x, z) }}"
    sharing, node = sharing_of(text)
    assert list(sharing.parts(node)) == ([("x", 0), ("z", 24)] if lie else [])
    assert not list(sharing.pieces(node))


def test_views_have_all_elements_in_order():
    for call, is_view in (
        ("Reshape(x, s)", True),
        ("Identity(x)", True),
        ("Flatten(x)", True),
        ("Relu(x)", False),
        ("Transpose <perm = [1, 0, 2]> (x)", True),
        ("Transpose <perm = [1, 2, 0]> (x)", True),
        ("Transpose <perm = [0, 2, 1]> (x)", False),
        ("Transpose(x)", False),
    ):
        rank = "a, b" if "Reshape" in call or "Flatten" in call else "a, b, c"
        text = f"(float[1, 2, 3] x) => (float[{rank}] y) {{ s = Constant <value_ints = [3, 2]> () y = {call} }}"
        sharing, node = sharing_of(text)
        assert sharing.is_view(node) == is_view, call
        assert list(sharing.pieces(node)) == ([("y", 0)] if is_view else []), call


@pytest.mark.parametrize(
    ("call", "over"),
    [
        ("Relu(x)", ["x"]),
        ("Add(x, z)", ["x", "z"]),
        ("Add(x, row)", ["x"]),
        ("Where(c, x, z)", ["x", "z"]),
        ("PRelu(x, x)", ["x"]),
        ("Softmax(x)", []),
        ("MatMul(x, x)", []),
        ("Dropout(x)", ["x"]),
        ("Dropout(x, , c1)", []),
        ("BatchNormalization(x, v, v, v, v)", ["x"]),
        ("BatchNormalization <training_mode = 1> (x, v, v, v, v)", []),
        ("Cast <to = 10> (x)", []),
        ("Cast <to = 6> (x)", ["x"]),
    ],
)
def test_an_elementwise_operator_may_write_over_an_operand_of_its_form(call, over):
    inputs = "float[2, 2] x, float[2, 2] z, float[1, 2] row, bool[2, 2] c, bool c1, float[2] v"
    kind = {"Cast <to = 10> (x)": "float16", "Cast <to = 6> (x)": "int32"}.get(call, "float")
    sharing, node = sharing_of(f"({inputs}) => ({kind}[2, 2] y) {{ y = {call} }}")
    assert sharing.overwritable(node) == over


@pytest.mark.parametrize(
    ("body", "over"),
    [
        ("t = Relu(a) r = Mul(t, b)", ["x", "z"]),
        ("t = Softmax(a) r = Mul(t, b)", ["z"]),
        ("t = Identity(a) r = Mul(t, b)", ["x", "z"]),
        ("s = Shape(a) t = Expand(b, s) r = Neg(t)", ["z"]),
        ("t = Relu(a) u = Softmax(t) r = Mul(t, u)", []),
        ("r = Relu(b)", ["z"]),
    ],
)
def test_a_function_may_write_over_what_it_reads_element_by_element(body, over):
    functions = f'\n<domain: "f", opset_import: ["": 17]> F (a, b) => (r) {{ {body} }}'
    text = "(float[2, 2] x, float[2, 2] z) => (float[2, 2] y) { y = f.F(x, z) }"
    sharing, node = sharing_of(text, functions=functions)
    assert sharing.overwritable(node) == over


def test_a_function_of_two_results_writes_over_nothing():
    functions = '\n<domain: "f", opset_import: ["": 17]> F (a) => (r, s) { r = Relu(a) s = Neg(a) }'
    text = "(float[2] x) => (float[2] y, float[2] z) { y, z = f.F(x) }"
    sharing, node = sharing_of(text, functions=functions)
    assert sharing.overwritable(node) == []


# ---- arenas ------------------------------------------------------------------------------------


def test_values_meet_if_they_share_a_byte_at_one_moment():
    value = PlacedValue("a", 8, 16, 2, 4)
    assert value.meets(PlacedValue("b", 15, 20, 3, 5)) and value.meets(PlacedValue("b", 0, 9, 0, 3))
    for offset, end, born, dies in ((16, 20, 2, 4), (0, 8, 2, 4), (8, 16, 4, 6), (8, 16, 0, 2)):
        other = PlacedValue("b", offset, end, born, dies)
        assert not value.meets(other) and not other.meets(value)


def test_a_plan_without_common_bytes():
    found = plan(read(CHAIN), a=0, b=16, y=32)
    assert (found.total, found.values, found.computed, found.shared) == (48, 3, 3, 0)
    assert (found.unplaced, found.unknown, found.inside) == (0, 0, 0)
    assert found.least == 32  # the sum is written over one of its operands


def test_a_result_over_an_operand_that_is_read_for_the_last_time():
    found = plan(read(CHAIN), a=0, b=16, y=0)
    assert (found.total, found.shared, found.least) == (32, 1, 32)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        (CHAIN, {"a": 0, "b": 0, "y": 32}),  # a Softmax reads its row before it writes
        (CHAIN, {"a": 0, "b": 16, "y": 8}),  # half over one operand, half over the other
        ("(float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) y = Add(a, b) }", {"a": 0, "b": 0, "y": 32}),
        ("(float[4] x) => (float[4] a, float[4] y) { a = Relu(x) y = Neg(a) }", {"a": 0, "y": 0}),
    ],
)
def test_values_in_use_at_one_step_share_no_bytes_otherwise(text, offsets):
    with pytest.raises(DoesNotHold, match="are in use at the same step"):
        plan(read(text), **offsets)


def test_what_nothing_computes_has_no_place_and_no_place_is_below_0():
    with pytest.raises(DoesNotHold, match="places 'x', which nothing computes"):
        plan(read(CHAIN), x=0)
    with pytest.raises(DoesNotHold, match="places 'a' at byte -1"):
        plan(read(CHAIN), a=-1)
    assert plan(read(CHAIN), a=0).total == 16


def test_what_has_no_place_is_counted():
    found = plan(read(CHAIN), a=0, b=16)
    assert (found.unplaced, found.least, found.total) == (1, None, 32)


def test_parts_of_a_concat_lie_in_its_bytes_at_their_own_place_alone():
    text = "(float[2] x) => (float[4] y) { a = Relu(x) b = Exp(x) y = Concat <axis = 0> (a, b) }"
    found = plan(read(text), a=0, b=8, y=0)
    assert (found.total, found.shared, found.least) == (16, 2, 16)
    for offsets in ({"a": 8, "b": 0, "y": 0}, {"a": 4, "b": 16, "y": 0}):
        with pytest.raises(DoesNotHold, match="are in use at the same step"):
            plan(read(text), **offsets)


def test_pieces_and_views_lie_in_their_operand():
    text = """(float[4] x) => (float[2] y) {
        a = Exp(x) s = Constant <value_ints = [2]> () e = Constant <value_ints = [4]> ()
        p = Slice(a, s, e) v = Identity(p) y = Mul(v, v)
    }"""
    found = plan(read(text), a=0, p=8, v=8, y=16)
    assert (found.total, found.shared, found.unplaced) == (24, 2, 0)  # a with p, p with v
    assert found.least == 16  # all of a; p and v are in it
    with pytest.raises(DoesNotHold, match="are in use at the same step"):
        plan(read(text), a=0, p=4, v=4, y=16)


def test_pieces_of_inputs_need_no_place():
    text = """(float[4] x) => (float[2] y) {
        s = Constant <value_ints = [2]> () e = Constant <value_ints = [4]> ()
        p = Slice(x, s, e) v = Identity(p) y = Exp(v)
    }"""
    found = plan(read(text), y=0)
    assert (found.unplaced, found.total, found.least) == (0, 8, 8)


def test_of_two_concats_that_hold_one_value_at_two_places_the_larger_alone_is_certain():
    text = """(float[2] x) => (float[4] y, float[4] z) {
        a = Relu(x) b = Exp(x) y = Concat <axis = 0> (a, b) z = Concat <axis = 0> (b, a)
    }"""
    assert least(read(text)) == 16 and plan(read(text), a=0, b=8, y=0, z=16).total == 32


def test_the_number_of_pairs_and_of_visits_is_bounded(monkeypatch):
    monkeypatch.setattr(arena, "MAX_PAIRS", 1)
    with pytest.raises(Unreadable, match="more than 1 pairs"):
        plan(read(CHAIN), a=0, b=16, y=32)
    monkeypatch.setattr(arena, "MAX_PAIRS", 3)
    assert plan(read(CHAIN), a=0, b=16, y=32).total == 48


def test_a_value_outside_of_needs_is_left_out_of_the_bound():
    assert least(read(CHAIN)) == 32 and least(read(CHAIN), ("a",)) == 16


# ---- the order of a file ---------------------------------------------------------------------------


def test_the_peak_of_an_order_and_what_one_operator_needs():
    peak = order_peak(read(CHAIN))
    assert (peak.bytes, peak.lower_bound, peak.values, peak.unknown) == (32, 32, 3, 0)


def test_of_a_value_of_unknown_size_nothing_is_counted():
    peak = order_peak(read("(float[4] x) => (int64[a, b] y) { i = NonZero(x) y = Neg(i) }"))
    assert (peak.bytes, peak.values, peak.unknown) == (0, 2, 2)


def test_an_operand_that_is_read_later_is_not_overwritten():
    text = "(float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) c = Abs(b) y = Add(a, c) }"
    assert order_peak(read(text)).bytes == 32
    kept = "(float[4] x) => (float[4] a, float[4] y) { a = Relu(x) y = Neg(a) }"
    assert (order_peak(read(kept)).bytes, order_peak(read(kept)).lower_bound) == (32, 16)


def test_a_view_is_in_the_memory_of_its_operand():
    text = "(float[4] x) => (float[2, 2] y) { a = Softmax(x) s = Constant <value_ints = [2, 2]> () v = Reshape(a, s) y = Exp(v) }"
    peak = order_peak(read(text))
    assert (peak.bytes, peak.values) == (16, 2)


def test_an_order_that_is_not_the_best_takes_more_than_one_operator():
    text = """(float[4] x) => (float y) {
        a = Softmax(x) b = LogSoftmax(x) c = Hardmax(x)
        p = ReduceSum <keepdims = 0> (a) q = ReduceSum <keepdims = 0> (b) r = ReduceSum <keepdims = 0> (c)
        y = Sum(p, q, r)
    }"""
    peak = order_peak(read(text))
    assert (peak.bytes, peak.lower_bound, peak.values) == (52, 20, 7)


# ---- plans that would go wrong -------------------------------------------------------------------


def test_a_value_of_which_a_piece_lies_in_a_concat_does_not_lie_in_it():
    text = """(float[4] x, float[2] u) => (float[4] y, float[4] z) {
        a = Exp(x) s = Constant <value_ints = [0]> () e = Constant <value_ints = [2]> ()
        p = Slice(a, s, e) b = Exp(u) z = Concat <axis = 0> (p, b) y = Softmax(a)
    }"""
    with pytest.raises(DoesNotHold, match="are in use at the same step"):
        plan(read(text), a=0, p=0, b=8, z=0, y=16)
    assert plan(read(text), a=0, p=0, b=24, z=16, y=32).total == 48


def test_the_order_of_the_values_in_a_plan_says_nothing():
    text = "(float[4] x) => (float[4] y) { a = Relu(x) b = Softmax(a) c = Softmax(b) y = Softmax(c) }"
    places = {"a": 0, "b": 0, "c": 32, "y": 64}
    for names in itertools.permutations(places):
        with pytest.raises(DoesNotHold, match="are in use at the same step"):
            plan(read(text), **{name: places[name] for name in names})


def test_a_piece_is_not_written_over_while_its_operand_is_read():
    text = """(float[4] x) => (float[4] y, float[2] z) {
        a = Exp(x) s = Constant <value_ints = [0]> () e = Constant <value_ints = [2]> ()
        p = Slice(a, s, e) z = Neg(p) y = Softmax(a)
    }"""
    with pytest.raises(DoesNotHold, match="are in use at the same step"):
        plan(read(text), a=0, p=0, z=0, y=16)
    assert plan(read(text), a=0, p=0, z=32, y=16).shared == 1


def test_views_of_one_value_share_its_bytes_and_no_others():
    text = """(float[4] x) => (float[4] y) {
        a = Exp(x) v = Identity(a) w = Identity(v) b = Softmax(a) y = Sum(v, w, b)
    }"""
    assert plan(read(text), a=0, v=0, w=0, b=16, y=32).shared == 3
    for offsets in ({"w": 4}, {"b": 0}, {"b": 8}):
        with pytest.raises(DoesNotHold, match="are in use at the same step"):
            plan(read(text), **{"a": 0, "v": 0, "w": 0, "b": 16, "y": 32} | offsets)


def test_values_of_unknown_size_and_nodes_with_bodies_are_counted():
    text = """(float[4] x, bool c) => (float[n] z, float[4] y) {
        i = NonZero(x) z = Cast <to = 1> (i)
        y = If (c) <then_branch = t () => (float[4] p) { p = Neg(x) }, else_branch = e () => (float[4] q) { q = Exp(x) }>
    }"""
    found = plan(read(text), y=0, i=16, z=16)
    assert (found.unknown, found.values, found.computed, found.inside, found.total) == (2, 1, 3, 1, 16)
