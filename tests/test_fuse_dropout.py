"""A bias and a Dropout in training as one operator: masks, scales and seeds, by ONNX Runtime and by torch."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import passes
from tests.pages import fine, history, page
from tests.running import outputs, typed
from workbench.analysis.inference.shapes import infer_types
from workbench.backends.randomness import is_random, uses_random_numbers
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.formats.io.exporting import to_bytes
from workbench.formats.io.samples import samples
from workbench.interfaces.ui.state.address import address_of
from workbench.interfaces.ui.widgets.steps import STEP
from workbench.ir import DataType, Graph, graph_text
from workbench.ops.dropout import scale_of
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.variants import Variant

RATES = [0.0, 0.1, 0.5, 0.9, 1.0]
SEEDS = [0, 7, -3, 2**31 - 1, 4920936260932536]
MASK, FUSED = "workbench.random_mask_like", "workbench.fused_bias_add_mask_scale"
CONTEXT = PassContext(load_profile("cuda"))
SAMPLE = next(sample for sample in samples() if sample.file.stem == "bias_add_dropout")


def summed(
    rate: float, seed: int | None = None, mask: bool = False, shape: str = "16,12,20", bias: str = "20"
) -> Graph:
    """Dropout in training of `a` plus a bias."""
    more, second = (f", bool[{shape}] m", ", m") if mask else ("", "")
    return typed(f"""g (float[{shape}] a, float[{bias}] bias) => (float[{shape}] y{more})
        <float rate = {{{rate}}}, bool training = {{1}}> {{
        sum = Add(a, bias)
        y{second} = Dropout{"" if seed is None else f"<seed = {seed}>"}(sum, rate, training)
    }}""")


def fused(graph: Graph) -> Graph:
    """A copy behind the pass, which must have acted once."""
    graph = graph.copy()
    step = run_pass(passes.find_pass("fuse_bias_dropout")(), graph, CONTEXT, check_each=True)
    assert len(step.rewrites) == 1
    assert [node.op for node in graph.nodes if node.op in (MASK, FUSED, "Dropout")] == [MASK, FUSED]
    return graph


def given(*shape: int, bias: int = -1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "a": random.standard_normal(shape).astype(np.float32),
        "bias": random.standard_normal(shape[bias]).astype(np.float32),
    }


def by_torch(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    executor = TorchExecutor(graph)
    found = executor.run(inputs)
    assert executor.fallbacks == {}
    return found


# ---- by ONNX Runtime: the same mask, the right scale ----------------------------------------


@pytest.mark.parametrize("mask", [False, True], ids=["mask unread", "mask read"])
@pytest.mark.parametrize("rate", [rate for rate in RATES if rate < 1])
def test_with_a_seed_onnx_runtime_gives_the_same_before_and_after(rate, mask):
    before, inputs = summed(rate, 7, mask), given(16, 12, 20)
    after = fused(before)
    expected, found = outputs(before, inputs), outputs(after, inputs)
    if mask:
        np.testing.assert_array_equal(found["m"], expected["m"])
    np.testing.assert_array_equal(found["y"] == 0, expected["y"] == 0)
    if rate in (0.0, 0.5):  # 1 - rate is a power of two
        np.testing.assert_array_equal(found["y"], expected["y"])
    else:
        np.testing.assert_array_max_ulp(found["y"], expected["y"], 2)


@pytest.mark.parametrize("rate", RATES)
def test_what_stays_is_divided_by_the_share_that_stays(rate):
    """And not multiplied by the rate, as in the document, whose test at rate 1 cannot tell."""
    after, inputs = fused(summed(rate, 7, mask=True)), given(16, 12, 20)
    for run in (outputs, by_torch):
        found = run(after, inputs)
        kept, size = found["m"], found["m"].size
        expected = np.where(kept, inputs["a"] + inputs["bias"], 0) / (1 - rate or 1)
        np.testing.assert_allclose(found["y"], expected, rtol=1e-6)
        assert abs(kept.mean() - (1 - rate)) <= 5 * np.sqrt(rate * (1 - rate) / size)
    assert after.producer("y").attributes["scale"] == scale_of(rate)


def test_rates_and_their_scales():
    assert [scale_of(rate) for rate in (0, 0.5, 0.75, 1)] == [1, 2, 4, 0]
    assert [round(scale_of(rate), 4) for rate in (0.1, 0.9)] == [1.1111, 10]


def test_at_rate_1_nothing_is_left_where_onnx_runtime_refuses_the_dropout():
    before, inputs = summed(1.0, 7, mask=True), given(16, 12, 20)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="ratio must be in the range"):
        outputs(before, inputs)
    after = fused(before)
    for run in (outputs, by_torch):
        found = run(after, inputs)
        assert not found["m"].any() and not found["y"].any() and np.isfinite(found["y"]).all()
    assert not by_torch(before, inputs)["y"].any()
    with Verifier(before) as verifier:
        verdict = verifier.check(after)
    assert verdict.ok is None and "the original does not run" in verdict.sentence


def test_the_scale_of_the_document_is_found_wrong():
    before = summed(0.5)
    wrong = fused(before)
    node = wrong.producer("y")
    text = graph_text(wrong).replace("scale: float = 2", "scale: float = 0.5")
    assert node.attributes["scale"] == 2.0 and "scale: float = 0.5" in text
    header = '<ir_version: 10, opset_import: ["": 23, "workbench": 1]>\n'
    with Verifier(before) as verifier:
        assert verifier.check(wrong).ok is True
        assert verifier.check(typed(header + text)).ok is False


@pytest.mark.parametrize("dtype", ["float", "float16", "double"])
def test_onnx_runtimes_mask_depends_on_shape_and_seed_alone(dtype):
    text = (
        f"g ({dtype}[9,8] x) => (bool[9,8] m) <float r = {{0.5}}, bool t = {{1}}> {{ y, m = Dropout<seed=7>(x, r, t) }}"
    )
    numbers = given(9, 8)["a"].astype({"float": np.float32, "float16": np.float16, "double": np.float64}[dtype])
    masks = [outputs(typed(text), {"x": x})["m"] for x in (numbers, numbers * 0, -numbers)]
    ours = typed(
        f'<ir_version: 10, opset_import: ["": 23, "workbench": 1]> g ({dtype}[9,8] x) => (bool[9,8] m)'
        f" {{ m = {MASK}<rate = 0.5, seed = 7>(x) }}"
    )
    for found in (*masks, outputs(ours, {"x": numbers})["m"], by_torch(ours, {"x": numbers})["m"]):
        np.testing.assert_array_equal(found, masks[0])


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_a_bias_along_any_axis(axis):
    shape = (2, 3, 4, 5)
    ones = [shape[axis], *(1,) * (3 - axis)]
    values = ",".join(map(str, range(1, shape[axis] + 1)))
    before = typed(f"""g (float[2,3,4,5] a) => (float[2,3,4,5] y)
        <float{ones} bias = {{{values}}}, float rate = {{0.5}}, bool training = {{1}}> {{
        sum = Add(bias, a)
        y = Dropout<seed = 3>(sum, rate, training)
    }}""")
    after, inputs = fused(before), {"a": given(*shape)["a"]}
    assert after.producer("y").attributes["axis"] == axis
    expected = outputs(before, inputs)["y"]
    np.testing.assert_array_equal(outputs(after, inputs)["y"], expected)
    np.testing.assert_array_equal(by_torch(after, inputs)["y"], expected)


# ---- seeds -----------------------------------------------------------------------------


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_bits_in_torch_and_in_onnx_runtime(seed, rate):
    after, inputs = fused(summed(rate, seed, mask=True)), given(16, 12, 20)
    expected = outputs(after, inputs)
    for found in (outputs(after, inputs), by_torch(after, inputs), by_torch(after, inputs)):
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("rate", [rate for rate in RATES if rate < 1])
def test_torch_runs_the_dropout_with_onnx_runtimes_mask(rate):
    before, inputs = summed(rate, 7, mask=True), given(16, 12, 20)
    expected, found = outputs(before, inputs), by_torch(before, inputs)
    np.testing.assert_array_equal(found["m"], expected["m"])
    np.testing.assert_array_max_ulp(found["y"], expected["y"], 1)


def test_torch_divides_doubles_by_the_share_in_float32_as_onnx_runtime_does():
    text = "g (double[9,8] x) => (double[9,8] y) <double r = {0.1}, bool t = {1}> { y = Dropout<seed=7>(x, r, t) }"
    graph, inputs = typed(text), {"x": given(9, 8)["a"].astype(np.float64)}
    np.testing.assert_array_max_ulp(by_torch(graph, inputs)["y"], outputs(graph, inputs)["y"], 1)


def test_without_a_seed_each_run_draws_another_mask():
    after, inputs = fused(summed(0.5, None, mask=True)), given(16, 12, 20)
    assert "seed" not in after.producer("m").attributes and is_random(after)
    for run in (outputs, by_torch):
        first, second = run(after, inputs), run(after, inputs)
        assert (first["m"] != second["m"]).any()
        np.testing.assert_array_equal(first["y"], (inputs["a"] + inputs["bias"]) * first["m"] * 2)


@pytest.mark.parametrize("mask", [False, True], ids=["mask unread", "mask read"])
@pytest.mark.parametrize("rate", [rate for rate in RATES if rate < 1])
def test_without_a_seed_both_sides_are_given_the_same_mask(rate, mask):
    before = summed(rate, None, mask)
    with Verifier(before) as verifier:
        unchanged, changed = verifier.check(before), verifier.check(fused(before))
    assert unchanged.ok is True and unchanged.bit_equal
    assert changed.ok is True and changed.bit_equal == (rate in (0.0, 0.5))
    assert "Random operators had the same seed on both sides." in changed.sentence


@pytest.mark.slow
def test_run_compares_with_the_same_mask_and_times_the_models_own():
    """ONNX Runtime draws another mask in its second run, even with a seed; the comparison is of a first one."""
    for seed in (None, 7):
        before = summed(0.1, seed)
        with Verifier(before) as verifier:
            found = measure_models(
                {f"{name} {backend}": Variant(graph, backend) for name, graph in (("before", before), ("after", fused(before))) for backend in ("torch", "onnxruntime")},
                inputs=verifier.inputs,
                reference=verifier.reference,
                repeat=1,
                worker=verifier.worker,
            )  # fmt: skip
        assert len(found.ran) == 4 and all(variant.error.ok for variant in found.ran.values())
        assert any("compared with the same seed" in note for note in found.notes)


def test_what_is_fused_outlives_onnx_runtimes_optimizations():
    """Which remove a Dropout though it is in training: then nothing is dropped."""
    before = typed("""g (float[64,5] a, float[5] bias) => (float[64,5] y) <float rate = {0.5}, bool training = {1}> {
        sum = Add(a, bias)
        dropped = Dropout<seed = 7>(sum, rate, training)
        y = Neg(dropped)
    }""")
    inputs = given(64, 5)
    expected = outputs(before, inputs)["y"]
    optimized = {
        name: onnxruntime.InferenceSession(to_bytes(graph), providers=["CPUExecutionProvider"]).run(None, inputs)[0]
        for name, graph in (("before", before), ("after", fused(before)))
    }
    np.testing.assert_array_equal(optimized["after"], expected)
    np.testing.assert_array_equal(optimized["before"], -(inputs["a"] + inputs["bias"]))


def test_masks_are_neither_merged_nor_folded():
    text = f"""<ir_version: 10, opset_import: ["": 23, "workbench": 1]> g (float[64] x) => (bool[64] y) <float[64] c> {{
        p = {MASK}<rate = 0.5>(x)
        q = {MASK}<rate = 0.5>(x)
        y = Xor(p, q)
    }}"""
    graph = typed(text.replace(" <float[64] c>", ""))
    folded = typed(
        f'<ir_version: 10, opset_import: ["": 23, "workbench": 1]> g (bool[2] x) => (bool[2] y)'
        f" <float[2] c = {{1, 2}}> {{ p = {MASK}<rate = 0.5>(c)  y = Xor(p, x) }}"
    )
    for name, one in (("common_subexpressions", graph), ("fold_constants", folded)):
        step = run_pass(passes.find_pass(name)(), one, CONTEXT)
        assert not step.rewrites and uses_random_numbers(one)


# ---- the graph -------------------------------------------------------------------------


def nodes_of(graph: Graph) -> list[str]:
    return [line.strip() for line in graph_text(graph).splitlines() if line.strip().startswith("[")]


def test_the_text_before_and_after_as_in_the_document():
    """random_mask_like stands where the sum stood, and reads `a`; what reads the result is unchanged."""
    before = load_model(SAMPLE.file)
    assert nodes_of(before) == [
        "[bias_add] bias_add = Add (x, bias)",
        "[y] y = Dropout <seed: int = 7> (bias_add, rate, training)",
    ]
    assert nodes_of(fused(before)) == [
        f"[bias_add] y_random_mask_like = {MASK} <seed: int = 7, rate: float = 0.5> (x)",
        f"[y] y = {FUSED} <axis: int = 3, scale: float = 2> (x, bias, y_random_mask_like)",
    ]


@pytest.mark.parametrize("mask", [False, True], ids=["mask unread", "mask read"])
def test_a_mask_is_bool_of_the_shape_of_its_operand(mask):
    after = fused(summed(0.5, None, mask, shape="N,3,K,5", bias="5"))
    (drawn,) = (node for node in after.nodes if node.op == MASK)
    for types in (infer_types(after, {}), after.types):
        type_ = types[drawn.outputs[0]]
        assert type_.dtype == DataType.BOOL and type_.shape == ("N", 3, "K", 5)
    assert infer_types(after, {"N": 2})["y"].shape == (2, 3, "K", 5)
    assert after.node("Add_sum").op == MASK and after.node("Dropout_y").op == FUSED


def test_the_mask_output_has_its_readers_as_before():
    before = typed("""g (float[4,5] a, float[5] bias) => (float[4,5] y, float[4,5] gradient)
        <float rate = {0.5}, bool training = {1}> {
        sum = Add(a, bias)
        y, m = Dropout<seed = 7>(sum, rate, training)
        kept = Cast<to = 1>(m)
        gradient = Mul(a, kept)
    }""")
    after, inputs = fused(before), given(4, 5)
    assert after.producer("m").op == MASK and [node.op for node in after.users("m")] == [FUSED, "Cast"]
    for name, array in outputs(before, inputs).items():
        np.testing.assert_array_equal(outputs(after, inputs)[name], array)


def test_the_exported_file_needs_standard_operators_only():
    model = onnx.load_from_string(to_bytes(fused(summed(0.1, 7))))
    onnx.checker.check_model(model, full_check=True)
    assert {function.name for function in model.functions} == {"random_mask_like", "fused_bias_add_mask_scale"}
    assert {node.domain for function in model.functions for node in function.node} == {""}


@pytest.mark.parametrize("opset", [15, 17, 21])
def test_older_opsets(opset):
    text = """g (float[4,5] a, float[5] bias) => (float[4,5] y) <float rate = {0.5}, bool training = {1}> {
        sum = Add(a, bias)  y = Dropout<seed = 7>(sum, rate, training) }"""
    before, inputs = typed(f'<ir_version: 8, opset_import: ["": {opset}]> {text}'), given(4, 5)
    np.testing.assert_array_equal(outputs(fused(before), inputs)["y"], outputs(before, inputs)["y"])


# ---- the sample ------------------------------------------------------------------------


def test_the_sample_is_in_training():
    (dropout,) = (node for node in load_model(SAMPLE.file).nodes if node.op == "Dropout")
    training = load_model(SAMPLE.file).constant(dropout.inputs[2])
    assert training is not None and training.numpy().all()
    assert list(SAMPLE.shows.passes) == ["fuse_bias_dropout"]


def test_a_link_to_the_sample_is_at_the_rewrite():
    at = page("optimize")
    for key, words in {"model": str(SAMPLE.file), **address_of(SAMPLE.shows)}.items():
        at.query_params[key] = words
    fine(at.run())
    assert at.session_state[STEP] == SAMPLE.shows.step
    (rewrite,) = history(at)[1].rewrites
    assert rewrite.sentence == (
        "Add 'bias_add' and Dropout 'y' in training become one pass over 'x', along axis 3 and with scale 2; its mask "
        "is drawn at rate 0.5 from the shape of 'x', and the sum is not stored"
    )
