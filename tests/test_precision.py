"""The precision strategies on random graphs in mixed types, by brute force, on files, and what must stay in float32."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

from passes.precision.precision_optimal import PrecisionOptimal
from passes.precision.precision_undo import PrecisionUndo
from tests.conftest import ROOT
from tests.precision_graphs import random_mixed_graph, random_quantized_graph
from tests.running import outputs, random_inputs, typed
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io.exporting import export_onnx
from workbench.interfaces import api
from workbench.ir import DataType, Edit, Graph
from workbench.ir.liveness import unread_nodes
from workbench.ir.types import numpy_name
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.registry.reading import precision_strategy
from workbench.planning.layout.problem.cost_model import BYTES, COUNT
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import Profile, ProfileError, load_profile
from workbench.planning.precision.cast_cost import count_casts
from workbench.planning.precision.conversion import change_type, tidy_casts
from workbench.planning.precision.element_types import NARROW_TYPES, WIDE, FloatCall, NotConvertible, float_call
from workbench.planning.precision.fitting import MAX_TRIALS, Fitted, fit
from workbench.planning.precision.narrow_io import AS_COMPUTED, AS_IN_MODEL, narrow_io
from workbench.planning.precision.problem import type_side
from workbench.planning.precision.recorded import Magnitudes, OutputError, ValueRecorder
from workbench.planning.precision.rounding_everywhere import rounded_everywhere
from workbench.planning.precision.strategies.precision_strategy import type_choices
from workbench.rewrite import PassContext, Step, run_pass, with_options
from workbench.run.input_kinds import USUAL
from workbench.run.tolerances import FLOAT16 as FLOAT16_TOLERANCE
from workbench.run.tolerances import allowed_in
from workbench.run.value_recording import RunRecorder

CPU = load_profile("cpu")
FLOAT16 = DataType.FLOAT16
STRATEGIES = tuple(library.precision_strategies())
SAMPLE = ROOT / "sample_models" / "basic_pitch_nmp.onnx"


def run(graph: Graph, strategy: str, context: PassContext | None = None, **options) -> Step:
    return run_pass(precision_strategy(strategy, options), graph, context or PassContext(CPU))


def close(graph: Graph, original: Graph, seed: int = 0) -> None:
    inputs = random_inputs(original, seed)
    expected, found = outputs(original, inputs), outputs(graph, inputs)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        error = np.abs(found[name].astype(float) - array.astype(float)).max()
        assert error <= 2e-2 * np.abs(array.astype(float)).max() + 1e-2, name


def random_graphs(mixed: int, quantized: int, **how) -> list[pytest.param]:
    """So many in mixed types, and so many with stored integers, each with its name."""
    return [
        pytest.param(make(seed, **how), id=f"{name} {seed}")
        for name, make, seeds in (
            ("mixed", random_mixed_graph, mixed),
            ("quantized", random_quantized_graph, quantized),
        )
        for seed in range(seeds)
    ]


@pytest.mark.parametrize("original", random_graphs(22, 8))
def test_random_graphs_in_two_types(original):
    """No strategy is wrong by more than float16 allows, none needs fewer bytes than the proven minimum."""
    steps = {}
    for strategy in STRATEGIES:
        graph = original.copy()
        steps[strategy] = step = run(graph, strategy)
        close(graph, original)
        counts = count_casts(graph, FLOAT16)
        assert (step.facts.casts, step.facts.bytes_converted) == (counts.casts, counts.bytes)
    facts = steps["optimal"].facts
    assert facts.bytes_converted == min(step.facts.bytes_converted for step in steps.values())
    assert facts.bound is None or facts.bound <= facts.bytes_converted
    assert facts.certified == (facts.bound == facts.bytes_converted)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("original", random_graphs(10, 5))
def test_a_second_run_changes_nothing_and_the_way_back_leaves_no_cast(original, strategy):
    graph = original.copy()
    run(graph, strategy)
    casts = count_casts(graph, FLOAT16).casts
    again = run(graph, strategy)
    assert not again.rewrites and count_casts(graph, FLOAT16).casts == casts
    if any(graph.tensor_type(value).dtype == FLOAT16 for value in graph.outputs):
        return  # an output in float16 keeps its Cast
    run_pass(PrecisionUndo(), graph, PassContext(CPU))
    close(graph, original)
    rounded = [n for n in original.nodes_of(("Cast",)) if original.tensor_type(n.outputs[0]).dtype == WIDE]
    assert rounded or not count_casts(graph, FLOAT16).casts


@pytest.mark.parametrize("weigh", [BYTES, COUNT])
@pytest.mark.parametrize("original", random_graphs(6, 5, nodes=7))
def test_brute_force_finds_nothing_better(original, weigh):
    original = original.copy()
    original.apply(Edit(remove=tuple(unread_nodes(original))))
    costs = {}
    for io in (AS_IN_MODEL, AS_COMPUTED):
        graph = original.copy()
        facts = run(graph, "optimal", weigh=weigh, io=io).facts
        costs[io] = min(_cost(original, chosen, weigh, io) for chosen in _all_choices(original))
        assert (facts.bytes_converted if weigh == BYTES else facts.casts) == costs[io]
        assert facts.bound is None or facts.bound == costs[io]
    assert costs[AS_COMPUTED] <= costs[AS_IN_MODEL]
    assert not run(graph, "optimal", weigh=weigh, io=AS_COMPUTED).rewrites


def _all_choices(graph: Graph):
    """Every choice of types for the operators that may run in either, as sides by node."""
    graph = graph.copy()
    for edit, _, _ in tidy_casts(graph, FLOAT16):
        graph.apply(edit)
    choices = type_choices(graph, FLOAT16, CPU, (), {})
    free = [name for name in choices.calls if name not in choices.fixed]
    assert len(free) <= 10
    for sides in itertools.product((0, 1), repeat=len(free)):
        yield {**choices.fixed, **dict(zip(free, sides, strict=True))}


def _cost(original: Graph, sides, weigh: str, io: str) -> int:
    """The cost of the graph in these types, counted on it."""
    graph = _in_types(original, sides)
    for edit, _, _ in narrow_io(graph) if io == AS_COMPUTED else ():
        graph.apply(edit)
    counts = count_casts(graph, FLOAT16)
    return counts.bytes if weigh == BYTES else counts.casts


def _in_types(original: Graph, sides) -> Graph:
    """The graph in these types, made node by node."""
    graph = original.copy()
    for edit, _, _ in tidy_casts(graph, FLOAT16):
        graph.apply(edit)
    for name in [node.name for node in graph.nodes if node.name in sides]:
        node = graph.node(name)
        if type_side(float_call(graph, node, FLOAT16).dtype) != sides[name]:
            graph.apply(change_type(graph, node, FLOAT16 if sides[name] else WIDE, FLOAT16).edit)
    for edit, _, _ in tidy_casts(graph, FLOAT16):
        graph.apply(edit)
    return graph


def test_a_narrowing_pair_is_no_pair_that_cancels():
    """What was rounded to float16 stays rounded: the Cast back gives other numbers than the value before."""
    graph = typed("g (float[4] x) => (float[4] y) { a = Cast<to=10>(x)  b = Cast<to=1>(a)  y = Exp(b) }")
    original = graph.copy()
    step = run(graph, "optimal")
    assert not step.rewrites
    inputs = random_inputs(original)
    np.testing.assert_array_equal(outputs(graph, inputs)["y"], outputs(original, inputs)["y"])


def test_what_constants_alone_decide_is_cast_before_the_run_and_costs_nothing():
    graph = typed(
        "g (float[2,2] x) => (float[2,2] y) <float[2,2] c = {1, 2, 3, 4}> { e = Exp(c)  f = Neg(e)  y = MatMul(x, f) }"
    )
    facts = run(graph, "optimal").facts
    assert facts.certified and facts.bound == facts.bytes_converted == 2 * 4 * (4 + 2) and facts.casts == 2


def test_a_channels_last_form_takes_the_types_of_its_files_opset(tmp_path):
    """Its body is written at that opset, 17 here, at which a Conv has no bfloat16."""
    sample = ROOT / "sample_models" / "tvm_two_convs_nhwc.onnx"
    for dtype in NARROW_TYPES:
        history = api.optimize(api.load(sample), "", precision="optimal", options={"precision_optimal.type": dtype})
        api.export(history.graph, tmp_path / f"{dtype}.onnx")
        assert bool(history.steps[-1].rewrites) == (dtype == "float16")


# ---- what must stay -------------------------------------------------------------------


class Recorded(ValueRecorder):
    def __init__(self, **largest: float) -> None:
        self.largest = largest

    def record(self, graph, values):
        return {value: Magnitudes(number, number) for value, number in self.largest.items()}


@pytest.mark.parametrize(
    ("text", "node", "sentence"),
    [
        (
            "g (float[4] x) => (float[4] y) <float c = {91204}> { y = Mul(x, c) }",
            "Mul_y",
            "'c' reaches 91,204; float16 ends at 65,504",
        ),
        (
            "g (float[4] x) => (float[4] y) <float c = {1e-12}> { a = Relu(x)  y = Div(a, c) }",
            "Div_y",
            "no element of 'c' is above 1e-12; float16 begins at 5.96e-08, so all become 0",
        ),
        (
            "g (float[4] x) => (float[4] y) <float[2] c = {1e-9, 1}> { a = Concat<axis=0>(c, c)  y = Div(x, a) }",
            "Div_y",
            "",
        ),
        (
            "g (float[1,64,64] x) => (float[1,1,1] y) <int64[2] a = {1, 2}> { y = ReduceMean(x, a) }",
            "ReduceMean_y",
            "ReduceMean 'ReduceMean_y' adds 4,096 numbers; a sum in float16 loses ones from 2,048 on",
        ),
        (
            "g (float[4] x) => (bool[4] y) <float c = {0.1}> { y = Greater(x, c) }",
            "Greater_y",
            "Greater 'Greater_y' compares with 0.1, which float16 rounds to 0.0999756",
        ),
        ("g (float[4] x) => (float[4] y) { y = Exp(x) }", "Exp_y", "torch's autocast runs Exp in float32"),
        (
            "g (float[4] x, float[4] z) => (int64[4] y) { y = Cast<to=7>(x) }",
            "Cast_y",
            "Cast 'Cast_y' states its element types itself",
        ),
        (
            "g (float[4] x) => (int8[4] y) <float s = {1e-5}, int8 z = {0}> { y = QuantizeLinear(x, s, z) }",
            "QuantizeLinear_y",
            "QuantizeLinear 'QuantizeLinear_y' scales by 1e-05, which float16 rounds to 1.00136e-05",
        ),
        (
            "g (int8[4] x) => (float[4] y) <float s = {1e-9}> { y = DequantizeLinear(x, s) }",
            "DequantizeLinear_y",
            "no element of 's' is above 1e-09; float16 begins at 5.96e-08, so all become 0",
        ),
        (
            "g (int8[2] x) => (float[2] y) <float[2] s = {1e-9, 0.02}> { y = DequantizeLinear<axis=0>(x, s) }",
            "DequantizeLinear_y",
            "",
        ),
        (
            "g (int32[2] x) => (float[2] y) <float[2] s = {1e-9, 0.02}> { y = DequantizeLinear<axis=0>(x, s) }",
            "DequantizeLinear_y",
            "DequantizeLinear 'DequantizeLinear_y' scales by 1e-09, which float16 rounds to 0",
        ),
        (
            "g (int8[4] x) => (int8[8] y) <float s = {0.02}, int8 z = {0}> "
            "{ a = DequantizeLinear(x, s)  b = Concat<axis=0>(a, a)  y = QuantizeLinear(b, s, z) }",
            "Concat_b",
            "ONNX Runtime makes a QLinearConcat of Concat 'Concat_b', which has scales in float32 only",
        ),
        (
            "g (int64[1] n) => (float[N] y) { y = ConstantOfShape<value=float[1] {1e5}>(n) }",
            "ConstantOfShape_y",
            "'y' reaches 100,000; float16 ends at 65,504",
        ),
    ],
)
def test_what_stays_in_float32_and_why(text, node, sentence):
    graph = typed(text)
    choices = type_choices(graph, FLOAT16, CPU, (), {})
    assert choices.reasons.get(node, "") == sentence


def test_a_recorded_value_beyond_the_range_keeps_its_producer_and_readers():
    graph = typed("g (float[4] x) => (float[4] y) { a = Neg(x)  b = Abs(a)  c = Relu(b)  y = Sin(c) }")
    step = run(graph, "record-then-insert", PassContext(CPU, Recorded(b=91204.0)))
    kept = {kept.node: kept.why for kept in step.facts.kept}
    assert kept == dict.fromkeys(("Abs_b", "Relu_c"), "'b' reaches 91,204; float16 ends at 65,504")


def test_bfloat16_has_the_range_of_float32():
    graph = typed("g (float[4] x) => (float[4] y) <float c = {91204}> { y = Mul(x, c) }")
    assert not type_choices(graph, DataType.BFLOAT16, CPU, (), {}).reasons


def test_patterns_of_names_stay():
    graph = typed("g (float[4] x) => (float[4] y) { a = Neg(x)  y = Relu(a) }")
    step = run(graph, "record-then-insert", keep="Neg_*")
    assert [(kept.node, kept.why) for kept in step.facts.kept] == [
        ("Neg_a", "Neg 'Neg_a' stays in float32, as 'Neg_*' asks")
    ]
    step = run(typed("g (float[4] x) => (float[4] y) { y = Neg(x) }"), "greedy", keep="Neg_y,Ngg_*,[")
    assert step.facts.sentence.count("; no node here is named 'Ngg_*' or '[', so that keeps none in float32") == 1


def test_a_run_is_recorded_with_its_largest_and_its_smallest_number():
    graph = typed("g (float[4] x) => (float[4] y) <float c = {3}> { a = Mul(x, c)  y = Relu(a) }")
    recorder = RunRecorder(inputs_of=lambda graph: [{"x": np.array([0, -2, 0.5, 0.25], np.float32)}])
    assert recorder.record(graph, ["a", "y"]) == {"a": Magnitudes(6.0, 0.75), "y": Magnitudes(1.5, 0.75)}


def test_a_profile_states_types(tmp_path):
    file = tmp_path / "own.toml"
    head = 'title = "own"\nlayout = "NCHW"\nweights = "OIHW"\ndemands = []\n'
    file.write_text(f'{head}[precision]\nExp = "float16"\nNeg = "float32"\n')
    profile: Profile = load_profile(str(file))
    graph = typed("g (float[4] x) => (float[4] y) { a = Exp(x)  y = Neg(a) }")
    choices = type_choices(graph, FLOAT16, profile, (), {})
    assert choices.fixed == {"Exp_a": 1, "Neg_y": 0}
    assert choices.reasons["Neg_y"] == f"the target '{profile.name}' runs Neg in float32"
    file.write_text(f'{head}[precision]\nExp = "half"\n')
    with pytest.raises(ProfileError, match="the precision of Exp"):
        load_profile(str(file))
    file.write_text(head.replace("demands", "precision = 3\ndemands"))
    with pytest.raises(ProfileError, match="precision"):
        load_profile(str(file))


def test_operators_without_the_type_are_refused():
    graph = typed("g (float[4] x) => (float[4] y) { y = com.example.Own(x) }")
    with pytest.raises(NotConvertible, match="is not an ONNX operator"):
        float_call(graph, graph.nodes[0], FLOAT16)


def test_a_constant_in_another_type_of_its_own_stays():
    text = "g (float16[1,1,2,2] x) => (float16[1,1,4,4] y) <float[8] roi = {0, 0, 0, 0, 1, 1, 1, 1}, float[4] s = {1, 1, 2, 2}>"
    graph = typed(f"{text} {{ y = Resize(x, roi, s) }}")
    assert float_call(graph, graph.nodes[0], FLOAT16) == FloatCall(FLOAT16, (0,), (0,))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_goes_into_a_sequence_or_optional_stays_in_its_type(strategy):
    graph = typed("""g (float[2,2] x) => (float[2,2] y, seq(float[2,2]) s) <float[2,2] w = {1, 2, 3, 4}, int64 i = {0}> {
        a = MatMul(x, w)
        o = Optional(a)
        b = OptionalGetElement(o)
        s = SequenceConstruct(b, x)
        c = SequenceAt(s, i)
        y = MatMul(c, w)
    }""")
    with Verifier(graph.copy()) as verifier:
        assert run(graph, strategy, io=AS_COMPUTED).changed
        verdict = verifier.check(graph, narrowed=True)
    assert verdict.ok and "relative error" in verdict.sentence, verdict.sentence


# ---- files ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_real_model_is_written_runs_and_reaches_the_bound_that_the_checker_confirms(tmp_path, run):
    output, report, certificate = (tmp_path / name for name in ("half.onnx", "report.json", "certificate.json"))
    code, said, _ = run(
        "optimize", SAMPLE, "-o", output, "--precision", "optimal", "--report", report, "--certificate", certificate
    )
    assert code == 0 and "for float16" in said
    onnx.checker.check_model(str(output), full_check=True)
    [facts] = [step["precision"] for step in json.loads(report.read_text())["steps"] if "precision" in step]
    assert facts["strategy"] == "optimal" and facts["type"] == "float16" and facts["certified"] and facts["recorded"]
    model = onnx.load(output)
    types = {init.name: init.data_type for init in model.graph.initializer}
    assert DataType.FLOAT16.value in types.values()
    casts = [node for node in model.graph.node if node.op_type == "Cast"]
    assert len(casts) == facts["casts"] and facts["bytes_converted"] == facts["bound_bytes"] > 0
    assert all(set(kept) == {"node", "why"} for kept in facts["kept"])
    assert all(value.type.tensor_type.elem_type == 1 for value in (*model.graph.input, *model.graph.output))

    code, said, _ = run("check", SAMPLE, output, certificate, "--run", 1)
    assert code == 0
    bytes_ = f"{facts['bound_bytes']:,} bytes"
    assert f"runs {facts['casts']} Casts, which read and write {bytes_}" in said
    assert f"proven: no alternative reads and writes less than {bytes_}" in said

    code, said, _ = run("optimize", output, "-o", tmp_path / "again.onnx", "--passes", "precision_undo")
    assert code == 0
    assert not [node for node in onnx.load(tmp_path / "again.onnx").graph.node if node.op_type == "Cast"]


@pytest.mark.slow
def test_types_and_patterns_on_the_command_line(tmp_path, run):
    output, report = tmp_path / "half.onnx", tmp_path / "report.json"
    arguments = ("optimize", SAMPLE, "-o", output, "--no-verify", "--report", report)
    code, *_ = run(*arguments, "--precision", "greedy", "--precision-type", "bfloat16", "--keep-float32", "*Conv*")
    assert code == 0
    [facts] = [step["precision"] for step in json.loads(report.read_text())["steps"] if "precision" in step]
    assert facts["type"] == "bfloat16" and any("as '*Conv*' asks" in kept["why"] for kept in facts["kept"])
    code, _, error = run(*arguments, "--keep-float32", "x")
    assert code != 0 and "need --precision" in error
    code, _, error = run(*arguments, "--precision", "optimum")
    assert code != 0 and "there is no precision strategy 'optimum'" in error and "optimal" in error


@pytest.mark.slow
def test_verification_takes_the_types_of_the_result_but_not_of_a_wrong_rewrite():
    """An output that changes by 1 % is equal after a precision strategy, and not after another pass."""
    graph = api.load(SAMPLE)
    with Verifier(graph) as verifier:
        history = api.optimize(graph, "", precision="optimal", verifier=verifier)
        assert history[-1].verdict.ok and history[-1].verdict.tolerance.relative == 2e-2
        assert verifier.check(history.graph).ok is False
    assert with_options(PrecisionOptimal, {"weigh": COUNT}).exactness.runs_in("ieee")
    assert not PrecisionOptimal.exactness.runs_in("exact")


# ---- within an error ------------------------------------------------------------------


def fitted(losses, max_error, alone=None, listed=None, traffic=None):
    """`fit` for operators whose losses add up. losses, alone: by name. listed: names by operator. traffic: by kept."""
    return fit(
        lambda kept: tuple(kept),
        OutputError(lambda kept, _: sum(loss for name, loss in losses.items() if name not in kept), 1),
        lambda: alone or losses,
        list(losses),
        max_error,
        listed,
        traffic,
    )


def test_nothing_is_kept_if_the_outputs_hold():
    found = fitted({"a": 0.1, "b": 0.2}, 0.5)
    assert not found.kept and found.runs == 1 and found.error == found.error_before == pytest.approx(0.3)


@pytest.mark.parametrize("seed", range(20))
def test_none_of_the_kept_operators_can_be_left_out(seed):
    """Also where an operator that loses much by itself does not matter to the outputs."""
    random = np.random.default_rng(seed)
    losses = {f"n{i}": float(loss) for i, loss in enumerate(random.exponential(size=30))}
    alone = {name: float(loss) for name, loss in zip(losses, random.permutation([*losses.values()]), strict=True)}
    limit = sum(losses.values()) * 0.4
    found = fitted(losses, limit, alone)
    assert found.error <= limit < found.error_before
    assert found.runs <= MAX_TRIALS + 2
    if found.needed:
        assert all(found.error + losses[name] > limit for name in found.kept)


def test_an_operator_that_gives_nan_is_kept_first():
    found = fitted({"a": 0.1, "b": 9.0, "c": 0.1}, 0.5, {"a": 0.1, "b": float("nan"), "c": 0.2})
    assert [*found.kept] == ["b"] and found.needed


def test_listed_operators_stay_by_kind_and_only_where_they_must():
    losses = {"soft1": 0.2, "soft2": 0.2, "norm": 3.0, "mul": 0.1}
    listed = {"Softmax": ["soft1", "soft2"], "Norm": ["norm"]}
    without = fitted(losses, 4, listed=listed, traffic=len)
    assert (without.listed, without.kept, without.runs) == ((), {}, 1)
    norm = fitted(losses, 0.5, listed=listed, traffic=lambda kept: 2 * len(kept) - (kept == ("norm",)))
    assert (norm.listed, norm.kept, norm.needed, norm.error) == (("norm",), {}, True, pytest.approx(0.5))
    both = fitted(losses, 0.15, listed=listed, traffic=len)
    assert sorted(both.listed) == ["norm", "soft1", "soft2"] and both.error == pytest.approx(0.1)
    more = fitted(losses, 0.05, listed=listed, traffic=len)
    assert not more.listed and sorted(more.kept) == ["mul", "norm", "soft1", "soft2"]


def borders(order):
    """Traffic of a chain: 2 for each operator in float32, and 5 where the type changes."""
    return lambda kept: (
        2 * len(kept)
        + 5 * sum((one in kept) != (other in kept) for one, other in zip(("", *order), (*order, ""), strict=True))
    )


@pytest.mark.parametrize("first", [0, 4, 14])
def test_a_part_of_the_graph_with_few_casts_around_it_stays(first):
    """Neither the ones before nor those behind matter, and those that lose by themselves are strewn in it."""
    order = [f"n{i}" for i in range(20)]
    losses = {name: 0.1 if first <= i < first + 6 and i % 2 == first % 2 else 0.0 for i, name in enumerate(order)}
    found = fitted(losses, 0.05, traffic=borders(order))
    lossy = {name for name, loss in losses.items() if loss}
    assert lossy <= {*found.kept} <= {*order[first : first + 5]} and found.error == 0 and found.runs < 40


def test_operators_far_apart_stay_alone_where_the_part_between_them_is_larger():
    order = [f"n{i}" for i in range(40)]
    losses = {name: 0.3 if i in (0, 39) else 0.0 for i, name in enumerate(order)}
    found = fitted(losses, 0.05, traffic=borders(order))
    assert sorted(found.kept) == ["n0", "n39"] and found.needed


@pytest.mark.parametrize("seed", range(10))
def test_what_is_kept_holds_and_takes_a_bounded_number_of_runs(seed):
    random = np.random.default_rng(seed)
    order = [f"n{i}" for i in range(60)]
    losses = dict(zip(order, map(float, random.exponential(size=60) ** 3), strict=True))
    limit = sum(losses.values()) * 0.2
    found = fitted(losses, limit, listed={"A": order[10:13], "B": order[50:52]}, traffic=borders(order))
    assert found.error <= limit < found.error_before and found.runs <= MAX_TRIALS + 2
    assert {*found.kept, *found.listed} < {*order}


BETWEEN = """g (float[4,8] x, float[8,8] w, float[8,8] v) => (float[4,8] y) {
    a = MatMul(x, w)  s = Softmax(a)  y = MatMul(s, v) }"""


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("strategy", ["optimal", "greedy"])
def test_an_error_that_is_allowed_decides_in_place_of_the_list(strategy):
    """torch's autocast runs Softmax in float32, which takes two Casts more than the border needs."""
    graph = typed(BETWEEN)
    casts, sentences = {}, {}
    for allowed in (0.0, 0.1, 1e-9):
        chosen = precision_strategy(strategy, {"type": "float16", "max_error": allowed})
        context = PassContext(CPU, RunRecorder(inputs_of=lambda graph: [random_inputs(graph)]))
        step = run_pass(chosen, graph.copy(), context)
        casts[allowed], sentences[allowed] = step.facts.casts, step.facts.sentence
        assert not allowed or step.facts.fitted.error <= allowed
    assert casts[0.0] == 6 and casts[0.1] == 4
    assert "more in float32" not in sentences[0.1] and "more in float32 for that" in sentences[1e-9]


@pytest.mark.slow_after(1)
def test_what_the_target_itself_demands_stays_whatever_the_error():
    target = replace(CPU, precision={"Softmax": "float32"})
    chosen = precision_strategy("optimal", {"type": "float16", "max_error": 0.5})
    context = PassContext(target, RunRecorder(inputs_of=lambda graph: [random_inputs(graph)]))
    step = run_pass(chosen, typed(BETWEEN), context)
    assert step.facts.casts == 6 and any("the target 'cpu' runs Softmax in float32" in k.why for k in step.facts.kept)


@pytest.mark.slow
def test_a_real_model_within_an_error_on_the_command_line(tmp_path, run):
    """Float16 alone is off by 9e-3 here."""
    output, report = tmp_path / "half.onnx", tmp_path / "report.json"
    arguments = ("optimize", SAMPLE, "-o", output, "--precision", "optimal", "--max-error", "6e-3")
    code, said, _ = run(*arguments, "--passes", "", "--report", report)
    assert code == 0 and "outputs are off by" in said
    [step] = [step for step in json.loads(report.read_text())["steps"] if "precision" in step]
    assert step["precision"]["error"] <= 6e-3 and step["max_rel_error"] <= 6e-3
    assert any("outputs may be off by 0.006" in kept["why"] for kept in step["precision"]["kept"])
    assert step["precision"]["casts"] > 0


@pytest.mark.slow
def test_what_is_in_float16_already_cannot_be_fitted(tmp_path, refused, done):
    half = tmp_path / "half.onnx"
    model = ROOT / "sample_models" / "conv_relu_conv_relu.onnx"
    done("optimize", model, "-o", half, "--precision", "optimal", "--io", "as-computed", "--passes", "")
    again = ("optimize", half, "-o", tmp_path / "out.onnx", "--precision", "optimal", "--max-error")
    done(*again, "1e-2")
    assert "off by 7" in refused(*again, "1e-9") and "precision_undo" in refused(*again, "1e-9")


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("narrow", [FLOAT16, DataType.BFLOAT16])
def test_errors_are_those_of_a_device_that_rounds_each_result(narrow):
    """ONNX Runtime on a CPU leaves out the Casts between two operators in float16, whose results are then not rounded."""
    original = typed(
        "g (float[64] x, float[64] z) => (float[64] y) { a = Mul(x, z)  b = Add(a, z)  c = Mul(b, b)  y = Sub(c, a) }"
    )
    graph = original.copy()
    run_pass(precision_strategy("record-then-insert", {"type": numpy_name(narrow)}), graph, PassContext(CPU))
    inputs = random_inputs(original)
    x, z = (inputs[name].astype(narrow.numpy()) for name in ("x", "z"))
    a = x * z
    b = a + z
    expected = (b * b - a).astype(np.float32)
    np.testing.assert_array_equal(outputs(rounded_everywhere(graph, narrow), inputs)["y"], expected)
    if narrow == FLOAT16:
        assert (outputs(graph, inputs)["y"] != expected).any()
    recorder = RunRecorder(inputs_of=lambda graph: [inputs])
    exact = outputs(original, inputs)["y"]
    error = recorder.output_error(original, numpy_name(narrow)).of(graph, math.inf)
    assert error == pytest.approx(np.abs(exact - expected).max() / np.abs(exact).max(), rel=1e-6)


@pytest.mark.slow
def test_an_error_that_is_asked_for_holds_on_each_input():
    """On the first one alone nothing is lost: its numbers are small ones of float16."""
    graph = typed("g (float[64] x, float[64] z) => (float[64] y) { a = Mul(x, z)  b = Add(a, z)  y = Sub(b, a) }")
    exact = {"x": np.ones(64, np.float32), "z": np.ones(64, np.float32)}
    rounded = random_inputs(graph)

    def fitted_on(*inputs: dict[str, np.ndarray]) -> Fitted:
        recorder = RunRecorder(inputs_of=lambda _: inputs)
        context = PassContext(CPU, recorder)
        strategy = precision_strategy("record-then-insert", {"type": "float16", "max_error": 1e-4})
        return run_pass(strategy, graph.copy(), context).facts.fitted

    assert (fitted_on(exact).kept, fitted_on(exact).error) == ({}, 0.0)
    for inputs in ((rounded,), (exact, rounded), (rounded, exact)):
        found = fitted_on(*inputs)
        assert found.kept and found.error <= 1e-4 < found.error_before and found.inputs == len(inputs)


@pytest.mark.slow
def test_without_inputs_errors_are_those_on_the_kinds_on_which_results_are_always_verified():
    graph = typed("g (float[64] x) => (float[64] y) { a = Exp(x)  y = Sub(a, x) }")
    with Verifier(graph) as verifier:
        several = verifier.run_inputs.several(graph)
    assert RunRecorder().output_error(graph, "float16").inputs == len(several) == USUAL
    assert len({inputs["x"].tobytes() for inputs in several}) == USUAL
    with Verifier(graph, several[0]) as verifier:
        assert len(verifier.run_inputs.several(graph)) == 1, "the user's, and no others"


# ---- kernels of a runtime --------------------------------------------------------------


def test_what_the_runtime_has_no_kernel_for_stays_in_float32(tmp_path, run):
    """By the list of the installed ONNX Runtime; and the runtime inserts no Cast of its own into the result."""
    file, output, inside = (tmp_path / name for name in ("model.onnx", "out.onnx", "inside.onnx"))
    graph = typed("""g (float[2,4] x) => (float[4,2] y) <float[4,4] w = {1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4}> {
        a = MatMul(x, w)
        b = Transpose<perm=[1,0]>(a)
        c = Relu(b)
        y = Neg(c)
    }""")
    export_onnx(graph, file)
    arguments = ("--preset", "none", "--precision", "record-then-insert", "--report", tmp_path / "report.json")
    code, *_ = run("optimize", file, "-o", output, *arguments, "--precision-runtime", "onnxruntime-cpu")
    assert code == 0
    [step] = [step for step in json.loads((tmp_path / "report.json").read_text())["steps"] if "precision" in step]
    kept = {one["node"]: one["why"] for one in step["precision"]["kept"]}
    assert set(kept) == {"MatMul_a", "Relu_c", "Neg_y"}
    assert re.match(r"ONNX Runtime [\d.]+, CPUExecutionProvider, has no kernel for Relu in float16", kept["Relu_c"])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(inside)
    onnxruntime.InferenceSession(str(output), options, providers=["CPUExecutionProvider"])
    assert len(onnx.load(inside).graph.node) == len(onnx.load(output).graph.node)


@pytest.mark.slow
def test_kernels_that_are_not_installed_are_an_error(tmp_path, run):
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    arguments = ("--precision", "greedy", "--precision-runtime", "onnxruntime-cuda")
    code, _, error = run("optimize", SAMPLE, "-o", tmp_path / "out.onnx", *arguments)
    assert code != 0 and "has no kernels of CUDAExecutionProvider" in error and "another runtime" in error


# ---- least time ------------------------------------------------------------------------

PRODUCTS = """g (float[4,2] x) => (float[4,2] y) <float[2,2] w = {1, 2, 3, 4}> {
    a = MatMul(x, w)
    b = Relu(a)
    c = MatMul(b, w)
    d = Softmax(c)
    y = MatMul(d, w)
}"""
TYPED_TIMES = {"MatMul": 900, "MatMul float16": 300, "Relu": 50, "Relu float16": 30, "Softmax": 70, "Cast": 200}


@pytest.mark.parametrize(
    ("times", "casts"),
    [(TYPED_TIMES, 4), (TYPED_TIMES | {"Cast": 500}, 2), (TYPED_TIMES | {"MatMul float16": 900}, 0)],
)
def test_the_least_time_is_that_of_the_cheapest_of_all_choices(times, casts):
    """Every choice of types is made and its operators and Casts are summed; wishes for float16 do not count."""
    original, context = typed(PRODUCTS), PassContext(CPU, GivenTimes(times))
    graph = original.copy()
    facts = run(graph, "optimal", context, weigh="time").facts
    free = ("MatMul_a", "Relu_b", "MatMul_c", "MatMul_y")  # Softmax is listed for float32
    every = (dict(zip(free, sides, strict=True)) for sides in itertools.product((0, 1), repeat=len(free)))
    least = min(_given_time(_in_types(original, sides), times) for sides in every)
    assert facts.certified and facts.bound == _given_time(graph, times) * 1000 == least * 1000
    assert facts.casts == casts and not run(graph, "optimal", context, weigh="time").rewrites
    assert {row.operator for row in facts.times} == {"MatMul", "Relu", "Softmax"}


def _given_time(graph: Graph, times) -> int:
    """The sum over its operators, in microseconds."""
    keys = [(node.op, numpy_name(graph.tensor_type(node.inputs[0]).dtype)) for node in graph.nodes]
    return sum(times.get(f"{op} {dtype}", times[op]) for op, dtype in keys)


def test_what_could_not_be_timed_leaves_no_bound():
    graph = typed(PRODUCTS)
    without_relu = {name: us for name, us in TYPED_TIMES.items() if not name.startswith("Relu")}
    facts = run(graph, "optimal", PassContext(CPU, GivenTimes(without_relu)), weigh="time").facts
    assert facts.bound is None and "not proven minimal: not every operator could be timed" in facts.sentence


@pytest.mark.slow
def test_operators_are_timed_on_this_machine_in_both_types(tmp_path, run):
    output, report, certificate = (tmp_path / name for name in ("out.onnx", "report.json", "certificate.json"))
    arguments = ("--precision", "optimal", "--option", "precision_optimal.weigh=time", "--report", report)
    code, said, _ = run(
        *("optimize", ROOT / "sample_models" / "ppocr_cls_v2.onnx", "-o", output, *arguments),
        *("--option", "precision_optimal.device=cpu", "--certificate", certificate),
    )
    assert code == 0 and "as operators and Casts were timed on" in said, said
    [facts] = [step["precision"] for step in json.loads(report.read_text())["steps"] if "precision" in step]
    assert facts["times"] and facts["bound_ns"] > 0 and facts["certified"]
    assert all(row["us"] > 0 and row["other_us"] > 0 for row in facts["times"])
    code, said, _ = run("check", ROOT / "sample_models" / "ppocr_cls_v2.onnx", output, certificate)
    assert code == 0 and "the log leads from the model to 'out.onnx'" in said  # a time is no evidence, and not in it


def test_values_with_new_names_behind_narrowed_ones_were_narrowed_on_purpose():
    """A value that another pass renamed is float32 and depends on float16."""
    original = typed("g (float[2,3] x) => (float[2,3] y) { a = Mul(x, x)  b = Exp(a)  y = Neg(b) }")
    narrowed = typed("""g (float[2,3] x) => (float[2,3] y) {
        x16 = Cast<to=10>(x)  a16 = Mul(x16, x16)  a32 = Cast<to=1>(a16)  other = Exp(a32)  y = Neg(other)
        k = Identity(x)  unused = Neg(k) }""")
    for was_asked in (True, False):
        purpose = allowed_in(original, narrowed, was_asked).on_purpose
        assert {"x16", "a16", "a32", "other"} <= purpose.keys() and not {"k", "unused"} & purpose.keys()
        assert all(purpose[value].relative == FLOAT16_TOLERANCE.relative for value in ("a16", "other", "y"))
    assert not allowed_in(narrowed, narrowed).on_purpose
    turned = typed("""g (float[2,3] x) => (float[2,3] y) {
        x16 = Cast<to=10>(x)  t = Transpose(x16)  m = Mul(t, t)  a32 = Cast<to=1>(m)  e = Exp(a32)  n = Neg(e)
        y = Transpose(n) }""")
    assert "n" not in allowed_in(narrowed, turned).on_purpose  # float16 is in both: nothing says that more was narrowed


@pytest.mark.slow
def test_a_model_whose_values_were_renamed_before_is_equal_within_an_error(tmp_path, done):
    """`simplify` runs operators of Basic Pitch in other orders, behind convolutions that are then narrowed."""
    out = tmp_path / "out.onnx"
    model = ROOT / "sample_models" / "basic_pitch_nmp.onnx"
    said = done("optimize", model, "-o", out, "--precision", "optimal", "--max-error", "6e-3")
    assert "the end: Equal" in said and "left out" not in said
    assert "equal: Equal" in done("verify", model, out)
