"""What verification finds that no output shows, and what it does not take for a fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import workbench as wb
from benchmarks.planted import Planter, changes_its_node, forms_of, planted
from tests.commands import SAMPLES
from tests.running import typed
from workbench.evidence.verification import inner_values
from workbench.evidence.verification.inner_values import MOST_BYTES
from workbench.evidence.verification.verifier import Verifier
from workbench.ir import Edit, Graph, constant
from workbench.run.inner_values.matching import ValueMatcher, is_partly_equal
from workbench.run.inner_values.rounding import unexplained
from workbench.run.input_kinds import INPUT_KINDS
from workbench.run.tasks.value_tasks import Channels
from workbench.run.tolerances import Tolerance


@pytest.fixture
def worker(shared_worker):
    return shared_worker


def with_constant(graph: Graph, value: str, change) -> Graph:
    """A copy in which that constant has other numbers."""
    other = graph.copy()
    array = graph.constant(value).numpy().copy()
    change(array)
    other.apply(Edit(constants={value: constant(array, value)}))
    return other


def verdict(worker, original, other, **words):
    return Verifier(original, worker=worker, **words).check(other, narrowed=True)


# ---- faults --------------------------------------------------------------------------------


def numbers(count: int) -> str:
    """So many numbers of both signs, none of them 0."""
    return ", ".join(f"{(number * 7 % 11 - 5.5) / 3:.3f}" for number in range(count))


DEAD = f"""g (float[1,3,8,8] x) => (float[1,2,8,8] y)
    <float[4,3,1,1] w = {{{numbers(12)}}}, float[4] b = {{0, 0, 0, -1e9}}, float[2,4,1,1] v = {{{numbers(8)}}}> {{
    c = Conv(x, w, b)
    r = Relu(c)
    y = Conv(r, v)
}}"""


def test_a_filter_whose_channel_is_always_zero_is_found_by_the_value_behind_it(worker):
    graph = typed(DEAD)
    found = verdict(worker, graph, with_constant(graph, "w", lambda w: w.__setitem__(3, 0)))
    assert found.ok is False
    assert found.sentence.startswith("Differs inside: 'c' of Conv 'Conv_c' is not the same: ")
    assert "The outputs do not show it on 3 inputs" in found.sentence


def test_a_weight_that_multiplies_a_dead_channel_is_found_by_its_constant(worker):
    """No value can show it: the verdict says which constant differs."""
    graph = typed(DEAD)
    found = verdict(worker, graph, with_constant(graph, "v", lambda v: v.__setitem__((0, 3), 9)))
    assert found.ok is False
    assert (
        "its constant 'v' differs in 1 of 8 elements, such as 9 in place of " in found.sentence
        and "at [0, 3, 0, 0]" in found.sentence
    )


def test_dead_channels_are_counted(worker):
    graph = typed(DEAD)
    assert " 75% of 4 channels were alive." in verdict(worker, graph, graph.copy()).sentence


def test_an_attribute_that_no_input_shows_is_found(worker):
    text = "g (float[2,8] x) => (float[2,8] y) <float[8] s = {1, 1, 1, 1, 1, 1, 1, 1}> { y = LayerNormalization<epsilon = %s>(x, s) }"
    found = verdict(worker, typed(text % "1e-12"), typed(text % "1e-10"))
    assert found.ok is False and "its epsilon is 1e-10, and 1e-12 in the original" in found.sentence


def test_small_elements_beside_large_ones_count(worker):
    """Boxes of hundreds and scores of thousandths in one output."""
    text = "g (float[50,2] x) => (float[50,2] y) <float[2] s = {1000, 0.001}> { y = Mul(x, s) }"
    graph = typed(text)
    wrong = with_constant(graph, "s", lambda s: s.__setitem__(1, 0.00102))
    assert verdict(worker, graph, wrong).ok is False
    assert verdict(worker, graph, with_constant(graph, "s", lambda s: s.__setitem__(1, 0.00100001))).ok


CAST = f"""g (float[1,3,9,9] x) => (float[1,4,9,9] y) <float[4,3,1,1] w = {{{numbers(12)}}}, float[4,4,1,1] v = {{{numbers(16)}}}> {{
    r = Relu(x)
    h = Cast<to = 10>(r)
    f = Cast<to = 1>(h)
    c = Conv(f, w)
    y = Conv(c, v)
}}"""
QUANTIZED = (
    CAST.replace("h = Cast<to = 10>(r)", "h = QuantizeLinear(r, s, z)")
    .replace("f = Cast<to = 1>(h)", "f = DequantizeLinear(h, s, z)")
    .replace("> {\n    r", ", float s = {0.05}, uint8 z = {0}> {\n    r")
)


@pytest.mark.parametrize(("text", "factor"), [(CAST, 1.019), (QUANTIZED, 1.04)], ids=["Cast", "QuantizeLinear"])
def test_behind_a_narrower_type_nothing_is_looser_than_it_must(text, factor, worker):
    graph = typed(text)
    assert verdict(worker, graph, graph.copy()).ok
    for value in ("w", "v"):
        wrong = with_constant(graph, value, lambda array: array.__setitem__(0, array[0] * factor))
        assert verdict(worker, graph, wrong).ok is False, value


@pytest.mark.slow
def test_the_sentence_says_how_much_was_compared(worker):
    graph = wb.load(SAMPLES / "ppocr_cls_v2.onnx")
    found = verdict(worker, graph, wb.optimize(graph).graph, runs=3)
    assert found.ok
    assert "Compared on 3 inputs with x_0 = 1, x_2 = 224, x_3 = 224; " in found.sentence
    assert "values inside are equal too. " in found.sentence and "channels were alive." in found.sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", ["as it is", *(pytest.param(f, marks=pytest.mark.slow) for f in ("simplified", "channels last"))]
)
def test_faults_planted_into_a_real_model_are_found(form, tmp_path):
    graph = wb.load(SAMPLES / "resnet50_narrow.onnx")
    with Verifier(graph, runs=3) as verifier:
        file = next(path for how, path in forms_of(graph, tmp_path) if how == form)
        assert verifier.check_file(wb.load(file), file).ok
        outcomes = list(planted(verifier, file, 24, np.random.default_rng(5), tmp_path / "planted.onnx"))
    assert len(outcomes) == 24
    assert [outcome.fault.words for outcome in outcomes if not outcome.found] == []


# ---- no faults --------------------------------------------------------------------------------


def test_a_name_that_stands_for_a_later_value_is_no_fault(worker):
    """A bias that is folded into a Conv leaves the sum under the name of the product."""
    text = """g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}, float[2,1,1] b = {5, 6}> {
        c = Conv(x, w)  s = Add(c, b)  y = Relu(s)
    }"""
    graph = typed(text)
    folded = typed(
        text.replace("float[2,1,1] b", "float[2] b")
        .replace("Conv(x, w)  s = Add(c, b)", "Conv(x, w, b)")
        .replace("Relu(s)", "Relu(c)")
    )
    found = verdict(worker, graph, folded)
    assert found.ok and "1 value inside is equal too" in found.sentence, found.sentence


def test_a_scale_that_moved_through_the_graph_is_no_fault(worker):
    """Under the name of the product is a multiple of it, in one of two columns."""
    before = "g (float[4,2] x) => (float[4,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2] s = {1, -2}> { m = MatMul(x, w)  r = Transpose<perm=[1,0]>(m)  q = Transpose<perm=[1,0]>(r)  y = Mul(q, s) }"
    after = "g (float[4,2] x) => (float[4,2] y) <float[2,2] v = {1, -4, 3, -8}> { m = MatMul(x, v)  r = Transpose<perm=[1,0]>(m)  y = Transpose<perm=[1,0]>(r) }"
    assert verdict(worker, typed(before), typed(after)).ok


def test_values_in_another_layout_are_found_by_their_numbers(worker):
    graph = wb.load(SAMPLES / "conv_relu_conv_relu.onnx")
    found = verdict(worker, graph, wb.optimize(graph, layout="greedy", target="cuda").graph)
    assert found.ok and "4 values inside are equal too" in found.sentence, found.sentence


def test_what_rounding_moves_far_is_explained_by_it(worker):
    """A sum that cancels, and a logarithm of what is left: no two orders of summation agree in more than a few digits."""
    text = "g (float[64,64] x) => (float[64,1] y) <int64[1] a = {1}, float c = {1e4}, float d = {-1e4}, float one = {3}> { %s  q = Add(s, one)  y = Softplus(q) }"
    before = typed(text % "p = Add(x, c)  r = Add(p, d)  s = ReduceMean(r, a)")
    after = typed(text % "m = ReduceMean(x, a)  p = Add(m, c)  s = Add(p, d)")
    found = verdict(worker, before, after)
    assert found.ok and not found.bit_equal, found.sentence


BRANCHES = """g (float[1,64] x) => (float[1,64] y) <float a = {1234.567}, float b = {98.7}> {
    m = Mul(x, a)  n = Mul(m, b)  s = ReduceSum<keepdims=0>(n)  z = Constant<value = float {0}>()  c = Greater(s, z)
    y = If(c)<then_branch = t() => (float[1,64] p) { p = OPERATOR(n) }, else_branch = e() => (float[1,64] q) { q = Cos(n) }>
}"""


def test_what_rounding_moves_far_does_not_excuse_what_is_farther_off(worker):
    """Rounding moves a Sin of large angles by up to 2; Neg of these is off by 100,000."""
    before, after = (typed(BRANCHES.replace("OPERATOR", name)) for name in ("Sin", "Neg"))
    assert verdict(worker, before, before.copy()).ok
    found = verdict(worker, before, after)
    assert found.ok is False, found.sentence


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (
            f"g (int64[4] i) => (int64[4] y) <int64[512] t = {{{', '.join(map(str, range(512)))}}}> {{ y = Gather(t, i) }}",
            ("t", 471, 7),
        ),
        (
            "g (float[64] x) => (uint8[64] y) <float s = {0.1}, uint8 z = {128}> { y = QuantizeLinear(x, s, z) }",
            ("z", (), 127),
        ),
    ],
    ids=["a table", "a zero point"],
)
def test_an_integer_that_becomes_an_element_is_compared(worker, text, change):
    graph, (name, place, number) = typed(text), change
    found = verdict(worker, graph, with_constant(graph, name, lambda array: array.__setitem__(place, number)))
    assert found.ok is False and f"its constant '{name}' differs in 1 of " in found.sentence, found.sentence


SELDOM = """g (float[1,64] x) => (float[1,64] y) <float t = {5000}> {
    m = ReduceMax<keepdims=0>(x)  c = Greater(m, t)
    y = If(c)<then_branch = t() => (float[1,64] p) { k = Constant<value = float {FACTOR}>()  p = Mul(x, k) },
              else_branch = e() => (float[1,64] q) { q = Neg(x) }>
}"""


@pytest.mark.parametrize(("factor", "said"), [("2", False), ("3", True)])
def test_a_branch_to_which_no_input_leads_is_said_not_to_be_compared(worker, factor, said):
    """An If whose condition no input meets: what it would compute is not known, and no verdict says that it is equal."""
    before, after = (typed(SELDOM.replace("FACTOR", one)) for one in ("2", factor))
    found = verdict(worker, before, after)
    assert found.ok
    assert ("Not compared, since no input leads there: then_branch of If" in found.sentence) == said, found.sentence


def test_a_size_may_be_written_in_another_way(worker):
    graph = typed("g (float[2,3,4] x) => (float[2,12] y) <int64[2] s = {0, -1}> { y = Reshape(x, s) }")
    found = verdict(worker, graph, with_constant(graph, "s", lambda array: array.__setitem__(..., (2, 12))))
    assert found.ok, found.sentence


@pytest.mark.parametrize("opset", [7, 10, 12])
@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_the_value_of_a_pad_that_fills_with_its_own_elements_is_none(worker, tmp_path, opset, mode):
    pads = "[0, 0, 1, 1, 0, 0, 2, 2]"
    text = f'y = Pad <mode = "{mode}", pads = {pads}, value = 3.0> (x)'
    head = ""
    if opset > 10:
        head, text = "<int64[8] p = {0,0,1,1,0,0,2,2}, float v = {3}>", f'y = Pad <mode = "{mode}"> (x, p, v)'
    model = onnx.parser.parse_model(
        f'<ir_version: 7, opset_import: ["": {opset}]> g (float[1,2,5,5] x) => (float[1,2,8,8] y) {head} {{ {text} }}'
    )
    onnx.save(model, tmp_path / "pad.onnx")
    graph = wb.load(tmp_path / "pad.onnx")
    assert verdict(worker, graph, graph.copy()).ok
    other = with_constant(graph, "v", lambda array: array.__setitem__((), 5)) if opset > 10 else graph.copy()
    assert verdict(worker, graph, other).ok


@pytest.mark.parametrize("recorded", range(1, 9))
def test_what_stands_before_a_relu_is_not_taken_for_what_is_behind_it(worker, monkeypatch, recorded):
    """Of the original fewer values are recorded than of the result, which has fewer nodes and so room for more of them."""
    layers = 3
    text = "".join(
        f"c{i} = Conv({f'r{i - 1}' if i else 'x'}, w)  n{i} = BatchNormalization(c{i}, g, o, o, g)  r{i} = Relu(n{i})  "
        for i in range(layers)
    )
    graph = typed(
        f"""g (float[1,8,16,16] x) => (float[1,8,16,16] y) <float[8,8,1,1] w = {{{numbers(64)}}},
        float[8] g = {{1, 2, 3, 4, 5, 6, 7, 8}}, float[8] o = {{{numbers(8)}}}> {{ {text} y = Conv(r{layers - 1}, w) }}"""
    )
    monkeypatch.setattr(inner_values, "MOST_BYTES", recorded * 8 * 16 * 16 * 4)
    found = verdict(worker, graph, wb.optimize(graph, ["fold_batchnorm"]).graph)
    assert found.ok, found.sentence


# ---- the parts --------------------------------------------------------------------------------


def test_nan_and_infinity_are_equal_to_themselves_alone():
    a = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert unexplained(a, a.copy()) is None
    for place, number in ((0, 1.0), (1, np.nan), (1, -np.inf), (3, np.inf)):
        b = a.copy()
        b[place] = number
        assert list(np.flatnonzero(unexplained(a, b))) == [place]
    b = np.array([7, 8, 9, 1], np.float32)
    assert unexplained(a, b, numbers_only=True) is None


def test_huge_numbers_whose_squares_overflow_are_compared_all_the_same():
    a = np.full(64, 1e30, np.float32)
    b = a.copy()
    b[5] *= 1.01
    assert list(np.flatnonzero(unexplained(a, b))) == [5]


def test_a_channel_is_alive_if_it_is_not_one_number_over_all_runs():
    channels = Channels({"v": 1})
    first = np.zeros((1, 3, 4), np.float32)
    first[0, 1, 2] = 1
    assert channels.update({"v": first}) and (channels.alive, channels.count) == (1, 3)
    assert not channels.update({"v": np.zeros((1, 3, 4), np.float32)})
    assert channels.update({"v": np.full((1, 3, 4), 2, np.float32)}) and channels.dead == 0


def test_one_wrong_channel_of_a_permuted_value_names_the_value(worker):
    random = np.random.default_rng(0)
    right = random.standard_normal((1, 8, 5, 6)).astype(np.float32)
    found = np.ascontiguousarray(right.transpose(0, 2, 3, 1))
    found[..., 3] = 0
    matcher = ValueMatcher([{"v": right}], lambda run, name: None, {})
    match = matcher.mostly_equal([{"w": found}], "w")
    assert match.name == "v" and is_partly_equal(match) and match.wrong == 30


@pytest.mark.parametrize("kind", INPUT_KINDS)
@pytest.mark.parametrize("shape", [(2, 3, 33, 40), (7,), (2, 9), (1, 1, 2), (2, 3, 4, 5, 6)], ids=str)
def test_each_kind_of_input_fills_every_shape_the_same_for_a_seed(kind, shape):
    first, second = (INPUT_KINDS[kind](shape, np.random.default_rng(3)) for _ in range(2))
    assert first.shape == shape and np.isfinite(first).all() and np.array_equal(first, second)


def test_a_fault_counts_only_if_its_node_computes_something_else():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1,2,1,3] x) => (float[1,1,2,3] y) { y = Transpose<perm = [0,2,1,3]>(x) }'
    )
    values = {"x": np.ones((1, 2, 1, 3), np.float32)}
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.node[0].attribute[0].ints[:] = [2, 0, 1, 3]
    assert not changes_its_node(model, other, "y", values)
    square = {"x": np.ones((1, 2, 2, 3), np.float32)}
    other.graph.node[0].attribute[0].ints[:] = [0, 1, 2, 3]
    assert changes_its_node(model, other, "y", square) and not changes_its_node(model, other, "y", values)
    assert Planter(model, np.random.default_rng(0)).model is model


def test_a_file_that_only_says_less_is_equal(worker, tmp_path):
    """The same nodes under other names of values: everything is found by its numbers."""
    source = SAMPLES / "conv_relu_conv_relu.onnx"
    model = onnx.load(source)
    names = {value: f"n{number}" for number, value in enumerate(v for node in model.graph.node for v in node.output)}
    names |= {output.name: output.name for output in model.graph.output}
    for node in model.graph.node:
        node.input[:] = [names.get(v, v) for v in node.input]
        node.output[:] = [names.get(v, v) for v in node.output]
    file = Path(tmp_path / "renamed.onnx")
    onnx.save(model, file)
    found = Verifier(wb.load(source), worker=worker).check_file(wb.load(file), file)
    assert found.bit_equal and "3 values inside are equal too" in found.sentence, found.sentence


# ---- rounding that is amplified -----------------------------------------------------------------


def attention(body: str, scale: float) -> Graph:
    """A Softmax of large numbers, of which always two are about equal: rounding decides which one is the larger."""
    random = np.random.default_rng(0)
    half = random.standard_normal((32, 24))
    w = np.concatenate([half, half * (1 + 2e-6 * random.standard_normal((32, 24)))], 1)
    graph = typed(f"""g (float[64,32] x) => (float[64,16] y)
        <float scale = {{{scale}}}, float[32,48] w = {{{", ".join("0" for _ in range(32 * 48))}}},
         float[48,16] v = {{{numbers(48 * 16)}}}> {{ {body}  p = Softmax(l)  y = MatMul(p, v) }}""")
    return with_constant(graph, "w", lambda array: array.__setitem__(..., w))


SCALED_AFTER, SCALED_BEFORE = "m = MatMul(x, w)  l = Mul(m, scale)", "k = Mul(x, scale)  l = MatMul(k, w)"


@pytest.mark.parametrize(
    ("most_bytes", "wrong_scale"),
    [(MOST_BYTES, 202), (2 * 64 * 48 * 4 - 1, 400)],
    ids=["recorded", "too large to be recorded"],
)
def test_what_rounding_moves_far_is_no_fault_and_one_is_found(worker, monkeypatch, most_bytes, wrong_scale):
    monkeypatch.setattr("workbench.evidence.verification.inner_values.MOST_BYTES", most_bytes)
    original = attention(SCALED_AFTER, 200)
    with Verifier(original, worker=worker, runs=6) as verifier:
        rounded = verifier.check(attention(SCALED_BEFORE, 200))
        assert rounded.ok and rounded.max_rel_error > 1e-3 and "what rounding explains" in rounded.sentence
        for body in (SCALED_AFTER, SCALED_BEFORE):
            assert verifier.check(attention(body, wrong_scale)).ok is False


def test_a_few_quantized_elements_may_be_some_steps_off():
    right = np.zeros((100, 1000), np.int8)

    def off(steps: int, count: int) -> np.ndarray:
        found = right.copy()
        found.flat[:count] = steps
        return found

    assert unexplained(right, off(1, 100_000)) is None and unexplained(right, off(4, 100)) is None
    assert unexplained(right, off(2, 101)).sum() == 101 and unexplained(right, off(5, 1)).sum() == 1
    small = np.zeros(100, np.int8)
    assert unexplained(small, small + np.int8(2) * (np.arange(100) == 7)) is not None


def test_a_narrowed_value_to_which_a_bias_was_added_is_not_that_of_its_name():
    """What a narrowed value may be off is more than most biases: most elements are within it, a few are not."""
    random = np.random.default_rng(0)
    product = random.standard_normal((1, 32, 1, 1)).astype(np.float32)
    bias = random.uniform(0.05, 0.15, product.shape).astype(np.float32)
    bias[0, :2] = 1.5
    total = product + bias
    matcher = ValueMatcher(
        [{"product": product, "total": total}], lambda *_, **__: None, {"product": Tolerance(0.2, 0.0, "float16")}
    )
    halves = total.astype(np.float16).astype(np.float32)
    own = matcher.by_name([{"product": halves}], "product")
    assert own.wrong == 2 and not is_partly_equal(own)
    found = matcher.match([{"product": halves}], "product")
    assert (found.name, found.wrong) == ("total", 0)

    planted = product.astype(np.float16).astype(np.float32)
    planted[0, 3] += 3
    fault = matcher.match([{"product": planted}], "product")
    assert (fault.name, fault.wrong) == ("product", 1) and is_partly_equal(fault)
