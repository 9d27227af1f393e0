"""Another rounding is not made where what reads it makes it visible: periods of large angles, steps of large numbers."""

from __future__ import annotations

import onnx
import pytest

import workbench as wb
from benchmarks.sound import sound_model
from tests.loading import saved
from tests.running import typed
from workbench.evidence.verification.verifier import Verifier
from workbench.ir.text import from_text
from workbench.rewrite.core.amplified_rounding import amplifier_of, magnitude_of

# Pairs of products by constants, joined to one, and what reads them; {up} is the larger factor.
READERS = {
    "a sine": "y = Sin(q)",
    "a sine behind a resize": 'u = Resize<mode="nearest">(q, , scales)  y = Sin(u)',
    "a cosine behind a padding and a sum": "u = Pad(q, pads)  v = Add(u, one)  y = Cos(v)",
    "a tangent behind a choice": "c = Less(f, one)  u = Where(c, q, f)  y = Tan(u)",
    "a sine behind a sum over an axis": "u = ReduceSum<keepdims=1>(q, axes)  y = Sin(u)",
    "a sine behind a cumulative sum": "u = CumSum(q, axis)  y = Sin(u)",
    "a sine of what a sine makes larger": "u = Tanh(q)  v = Mul(u, up)  y = Sin(v)",
    "a floor behind a transpose": "u = Transpose(q)  y = Floor(u)",
    "a ceiling behind a mean": "u = ReduceMean<keepdims=1>(q, axes)  y = Ceil(u)",
    "a round": "u = Relu(q)  y = Round(u)",
    "a remainder": "u = Neg(q)  y = Mod<fmod=1>(u, one)",
    "a cast to integers": "u = Abs(q)  y = Cast<to=7>(u)",
    "a sine in a branch": "b = ReduceMax<keepdims=0>(f)  d = Greater(b, one)  y = If(d)<then_branch = t() => (float[1,16,9] s) { s = Sin(q) }, else_branch = e() => (float[1,16,9] n) { n = Neg(q) }>",
    "a sine in a loop": "y = Loop(n2, yes, q)<body = b(int64 i, bool c, float[1,16,9] s) => (bool d, float[1,16,9] t) { d = Identity(c)  t = Sin(s) }>",
    "a sine in the next turn": "y = Loop(n2, yes, q)<body = b(int64 i, bool c, float[1,16,9] s) => (bool d, float[1,16,9] t) { d = Identity(c)  u = Sin(s)  t = Neg(u) }>",
    "a sine behind a loop": "u = Loop(n2, yes, q)<body = b(int64 i, bool c, float[1,16,9] s) => (bool d, float[1,16,9] t) { d = Identity(c)  t = Neg(s) }>  y = Sin(u)",
    "a sine behind a scan": "u = Scan(q)<num_scan_inputs = 1, body = b(float[16,9] s) => (float[16,9] t) { t = Neg(s) }>  y = Sin(u)",
    "a sine behind a branch": "b = ReduceMax<keepdims=0>(f)  d = Greater(b, one)  u = If(d)<then_branch = t() => (float[1,16,9] s) { s = Abs(q) }, else_branch = e() => (float[1,16,9] n) { n = Neg(q) }>  y = Sin(u)",
    "an equality": "u = Max(q, one)  y = Equal(u, one)",
    "a comparison": "u = LeakyRelu(q)  y = Greater(u, one)",
}
BEHIND = """g (float[1,16,9] f) => (T y) <float k = {0.0123}, float one = {1}, int64 n2 = {2}, bool yes = {1}, int64 axis = {1}, int64[1] axes = {1},
    float turn = {6.2831855}, float up = {UP}, float[3] scales = {1,3,1}, int64[6] pads = {0,1,0,0,1,0}> {
    r = Mul(f, k)  m = Mod<fmod=1>(r, one)  c = CumSum(m, axis)  p = Mul(c, turn)  q = Mul(p, up)
    READER }"""


def graph_of(reader: str, up: float):
    types = {"Cast": "int64[A,B,C]", "Equal": "bool[A,B,C]", "Greater": "bool[A,B,C]"}
    last = reader.rpartition("y = ")[2].partition("(")[0].partition("<")[0]
    text = BEHIND.replace("READER", reader).replace("UP", f"{up:g}")
    return typed(text.replace("(T y)", f"({types.get(last, 'float[A,B,C]')} y)"))


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_constants_are_not_joined_in_front_of_what_shows_the_last_bit(reader):
    graph = graph_of(reader, 30_000)
    history = wb.optimize(graph, ["algebra_constants"])
    assert [node.op for node in history.graph.nodes].count("Mul") == [node.op for node in graph.nodes].count("Mul")


IN_A_LOOP = {
    "read behind the loop": ("p = Mul(s, turn)  t = Mul(p, up)", "y = Sin(u)"),
    "read in the next turn": ("w = Sin(s)  p = Mul(w, turn)  t = Mul(p, up)", "y = Relu(u)"),
}


@pytest.mark.parametrize(("inside", "behind"), IN_A_LOOP.values(), ids=IN_A_LOOP)
@pytest.mark.parametrize(("up", "products"), [(30_000, 2), (0.03, 1)])
def test_nor_in_a_body_that_hands_the_value_on(inside, behind, up, products):
    graph = typed(f"""g (float[4] f) => (float[4] y) <int64 n2 = {{2}}, bool yes = {{1}}, float turn = {{6.2831855}}, float up = {{{up}}}> {{
        u = Loop(n2, yes, f)<body = b(int64 i, bool c, float[4] s) => (bool d, float[4] t) {{ d = Identity(c)  {inside} }}>
        {behind} }}""")
    (loop,) = wb.optimize(graph, ["algebra_constants"]).graph.nodes_of(("Loop",))
    assert [node.op for node in loop.bodies["body"].nodes].count("Mul") == products


@pytest.mark.parametrize(
    "reader", [reader for reader in READERS.values() if "Sin" not in reader and "Cos" not in reader]
)
def test_ordinary_numbers_are_joined_unless_the_step_reads_them_itself(reader):
    """In front of a step of ordinary size, another rounding shows once in millions of elements."""
    graph = graph_of(reader, 0.03)
    before = [node.op for node in graph.nodes].count("Mul")
    after = [node.op for node in wb.optimize(graph, ["algebra_constants"]).graph.nodes].count("Mul")
    assert after == before - ("Tan" not in reader)  # of an angle nothing is known


ANY_RULE = {
    "fold_batchnorm": """g (float[1,1,4,4] x) => (float[1,1,4,4] y) <float[1,1,1,1] w = {1}, float[1] s = {2}, float[1] b = {BIG},
        float[1] m = {0.1}, float[1] v = {0.7}, float[1,1,1,1] t = {BIG}> {
        c = Conv(x, w)  n = BatchNormalization(c, s, b, m, v)  p = Mul(n, t)  r = Relu(p)  y = READER(r) }""",
    "recompose_softmax": """g (float[4] x) => (float[4] y) <float t = {BIG}, int64[1] axes = {0}> {
        m = ReduceMax(x, axes)  d = Sub(x, m)  e = Exp(d)  s = ReduceSum(e, axes)  n = Div(e, s)  p = Mul(n, t)  y = READER(p) }""",
    "algebra_powers": """g (float[4] x) => (float[4] y) <float d = {3}, float t = {BIG}> {
        n = Div(x, d)  p = Mul(n, t)  y = READER(p) }""",
}  # fmt: skip


@pytest.mark.parametrize("name", ANY_RULE)
@pytest.mark.parametrize("reader", ["Floor", "Sin"])
def test_no_rule_of_any_pass_rounds_anew_there_and_each_does_elsewhere(name, reader):
    for big, acts in ((1e6, False), (0.5, name != "algebra_powers" or reader == "Floor")):
        graph = typed(ANY_RULE[name].replace("BIG", f"{big:g}").replace("READER", reader))
        history = wb.optimize(graph, [name])
        assert history[1].changed is acts, (name, reader, big)


def test_explain_says_why(run, tmp_path):
    path = saved(tmp_path, ANY_RULE["fold_batchnorm"].replace("BIG", "1e6").replace("READER", "Floor"))
    assert "would act here, but Floor 'Floor_y' has numbers of some" in run("explain", "fold_batchnorm", path)[1]


@pytest.mark.parametrize(("scale", "stays"), [(310, True), (0.5, False)])
@pytest.mark.parametrize("between", ["", "n = Relu(n0)"])
def test_a_scale_is_not_folded_into_a_convolution_in_front_of_a_sine_of_large_angles(scale, stays, between):
    weights = ", ".join(f"{(number * 5 % 11 - 5) * 37.3:.1f}" for number in range(16))
    graph = typed(
        f"""g (float[1,4,8,8] x) => (float[1,4,8,8] y) <float[4,4,1,1] w = {{{weights}}},
        float[4] s = {{{scale}, {scale}, {scale}, {scale}}}, float[4] v = {{31.1, 22.7, 13.9, 44.1}}> {{
        c = Conv(x, w)  {"n0" if between else "n"} = BatchNormalization(c, s, s, s, v)  {between}  y = Sin(n) }}"""
    )
    operators = {node.op for node in wb.optimize(graph, ["fold_batchnorm"]).graph.nodes}
    assert ("BatchNormalization" in operators) == stays


def test_sizes_follow_from_constants():
    graph = graph_of("u = Tanh(q)  y = Mul(u, up)", 300)
    sizes = {value: round(magnitude_of(graph, value), 4) for value in "frmcpquy"}
    assert sizes == {"f": 1, "r": 0.0123, "m": 0.0123, "c": 0.1968, "p": 1.2365, "q": 370.9593, "u": 1, "y": 300}
    assert amplifier_of(graph, "q") is None  # nothing steps behind it


MOVED = [
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "Pad",
    "Reshape",
    "Resize",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
]
BOUNDED = "Atan Cos Erf HardSigmoid Sigmoid Sign Sin Softmax Softsign Tanh".split()  # noqa: SIM905


@pytest.mark.parametrize("op", [*MOVED, *BOUNDED])
def test_what_moves_elements_keeps_their_size_and_what_is_bounded_by_one_has_it(op):
    graph = from_text(f"g (float[4] x) => (y) <float k = {{300}}> {{ a = Mul(x, k) y = {op}(a) }}")
    assert magnitude_of(graph, "y") == (300 if op in MOVED else 1)


KEEPS_A_DIFFERENCE = {
    **{op: f"{op}(a)" for op in ("Abs", "Dropout", "GlobalAveragePool", "GlobalMaxPool", "LeakyRelu", "Mean", "Neg", "ReduceMax", "ReduceMean", "ReduceMin", "Relu")},
    **{op: f"{op}(a, x)" for op in ("Add", "Max", "Min", "Mod", "Sub")},
    "AveragePool": "AveragePool<kernel_shape = [2]>(a)",
    "Cast": "Cast<to = 1>(a)",
    "MaxPool": "MaxPool<kernel_shape = [2]>(a)",
    "Where": "Where(c, a, x)",
}  # fmt: skip


@pytest.mark.parametrize("op", KEEPS_A_DIFFERENCE)
def test_what_has_a_slope_of_one_passes_a_difference_on(op):
    graph = from_text(
        f"g (float[1,2,8] x, bool c) => (y) <float k = {{300}}> {{ a = Mul(x, k)  b = {KEEPS_A_DIFFERENCE[op]}  y = Sin(b) }}"
    )
    assert amplifier_of(graph, "a").size == 300


def test_the_larger_of_two_paths_counts():
    graph = typed("""g (float[4] x) => (float[4] y) <float t = {1e6}> {
        n = Neg(x)  a = Abs(n)  b = Mul(n, t)  s = Add(a, b)  y = Floor(s) }""")
    assert amplifier_of(graph, "n").node.op == "Floor"


def test_a_sound_model_is_written_by_plain_optimize(run, tmp_path):
    model = sound_model(1, tmp_path)
    onnx.save(model, tmp_path / "sound.onnx")
    code, said, _ = run("optimize", tmp_path / "sound.onnx", "-o", tmp_path / "out.onnx")
    assert code == 0 and "the end: Equal" in said and "left out" not in said
    assert len(onnx.load(tmp_path / "out.onnx").graph.node) < len(model.graph.node)


def test_with_large_angles_the_result_equals_the_original():
    graph = graph_of(READERS["a sine behind a resize"], 30_000)
    with Verifier(graph) as verifier:
        history = wb.optimize(graph, verifier=verifier, verify="end", on_failure="stop")
    assert history[-1].verdict.ok
