"""Groups of operators by fusion kind: TVM's cases, random graphs, what leaves a group, the report and memory traffic."""

import json

import numpy as np
import pytest

from passes.fuse.fuse_groups import FuseGroups
from tests.commands import OCR, RESNET, SAMPLES
from tests.random_graphs import random_graph
from tests.running import outputs, random_inputs, typed
from workbench.__main__ import main
from workbench.analysis.metrics.flops import count_flops
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io.exporting import to_bytes
from workbench.ir import check
from workbench.ir.text import to_text
from workbench.ops.fusion_kinds import ELEMENTWISE, FusionKind
from workbench.planning.fusion.grouping import Groups, merges
from workbench.planning.fusion.problem import FusionEdge, Operator
from workbench.planning.fusion.traffic import stored_values, traffic
from workbench.planning.layout.infer import infer_layouts, infer_near
from workbench.planning.layout.problem.operator_benchmark import GivenTimes, OperatorTimerError
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass
from workbench.run.measurement.operator_timer import DeviceOperatorTimer

# Cases of TVM's FuseOps, of relay's test_pass_fuse_ops.py and relax' test_transform_fuse_ops.py (Apache-2.0), as data:
# operators with their kind and operands ("=" for an operand of the result's shape), outputs, and the groups.
CASES = {
    "fuse_simple": ("add broadcast; exp elementwise add; squeeze injective exp", "squeeze", "add exp squeeze"),
    "conv2d_fuse": (
        "add0 broadcast; conv1 fusable add0; add1 broadcast =conv1; add2 broadcast =conv1 =add1; conv2 fusable add2;"
        "conv3 fusable add2; add3 broadcast =conv2 =conv3",
        "add3",
        "add0; conv1 add1 add2; conv2 add3; conv3",
    ),
    "concatenate": (
        "pool fusable; up injective pool; concat injective up; add broadcast =concat",
        "add",
        "pool; up concat add",
    ),
    "tuple_root": ("pool fusable; up injective pool", "up", "pool; up"),
    "stop_fusion": ("add broadcast; stop opaque add; exp elementwise stop", "exp", "add; stop; exp"),
    "branches_of_if": ("greater broadcast", "greater", "greater"),
    "tuple_get_root": ("split injective; dense fusable split", "dense", "split; dense"),
    "tuple_intermediate": (
        "sq0 injective; add1 broadcast =sq0; sq1 injective sq0; add2 broadcast =sq1; add3 broadcast =add2;"
        "add4 broadcast =sq0; concat injective add1 add3 add4; sq2 injective concat; add5 broadcast =sq2",
        "add5",
        "sq0 add1 sq1 add2 add3 add4 concat sq2 add5",
    ),
    "fuse_max_256": (
        "; ".join(["e0 elementwise", *(f"e{i} elementwise e{i - 1}" for i in range(1, 300))]),
        "e299",
        f"{' '.join(f'e{i}' for i in range(256))}; {' '.join(f'e{i}' for i in range(256, 300))}",
    ),
    "fuse_take": ("concat injective; take injective concat", "take", "concat take"),
    "fuse_gather_nd": ("concat injective; gather injective concat", "gather", "concat gather"),
    "bcast_reduce_scalar": ("less broadcast; min reduction less", "min", "less min"),
    "edge_with_packed_call": ("a elementwise; b elementwise a; c opaque a", "b c", "a; b; c"),
    "layer_norm_relu": ("ln fusable; relu elementwise ln", "relu", "ln relu"),
    "full_trilu_broadcast": (
        "full broadcast; trilu injective full; expand broadcast trilu",
        "expand",
        "full trilu expand",
    ),
    "match_cast": ("m opaque", "m", "m"),
    "partially_used_tuple": ("add broadcast; div broadcast =add", "div", "add div"),
    "inplace": ("add broadcast; exp elementwise add; squeeze elementwise exp", "squeeze", "add exp squeeze"),
    "packed_params": (
        "cast1 elementwise; mm1 fusable cast1; cast2 elementwise; mm2 fusable mm1 cast2",
        "mm2",
        "cast1; mm1; cast2; mm2",
    ),
}


def operators_of(text, results):
    rows = [row.split() for row in text.split(";")]
    index = {name: i for i, (name, *_) in enumerate(rows)}
    edges = {name: [] for name in index}
    for name, kind, *operands in rows:
        for operand in operands:
            edge = ELEMENTWISE if operand.startswith("=") else FusionKind[kind.upper()]
            edges[operand.removeprefix("=")].append(FusionEdge(index[name], edge))
    return [
        Operator(name, name, FusionKind[kind.upper()], tuple(edges[name]), name in results.split())
        for name, kind, *_ in rows
    ]


@pytest.mark.parametrize(("text", "results", "expected"), CASES.values(), ids=CASES)
def test_a_case_of_tvm(text, results, expected):
    operators = operators_of(text, results)
    groups = Groups(operators)
    list(merges(groups))
    found = [[operators[i].name for i in members] for members in groups.members.values()]
    assert sorted(found) == sorted(group.split() for group in expected.split(";"))


BEHIND_A_PRODUCT = "c0 fusable; r0 elementwise =c0; c1 fusable; r1 elementwise =c1; cat0 injective r0 r1"


def test_a_group_with_a_product_ends_before_what_selects_elements():
    """As published: the group of a convolution is out-elementwise-fusable, and its Relu joins no Concat."""
    operators = operators_of(BEHIND_A_PRODUCT, "cat0")
    list(merges(groups := Groups(operators)))
    found = sorted([operators[i].name for i in members] for members in groups.members.values())
    assert found == [["c0", "r0"], ["c1", "r1"], ["cat0"]]
    assert "since its group is out-elementwise-fusable" in groups.refusals[1]


def test_past_products_a_concat_takes_one_of_the_groups_before_it():
    operators = operators_of(BEHIND_A_PRODUCT, "cat0")
    list(merges(groups := Groups(operators), past_products=True))
    found = sorted([operators[i].name for i in members] for members in groups.members.values())
    assert found == [["c0", "r0", "cat0"], ["c1", "r1"]]


def fused(graph, check_each=True, **options):
    found = graph.copy()
    step = run_pass(FuseGroups(**options), found, PassContext(load_profile("cuda")), check_each=check_each)
    return found, step


def groups_of(text, **options):
    """The members of each group of more than one operator."""
    _, step = fused(typed(text), **options)
    return [group.members for group in step.facts.groups if len(group.members) > 1]


SEED_GRAPH = "g (float[N,4,6] x) => (float[N,4,6] y) { a = Relu(x)  y = Exp(a) }"


# ---- random graphs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(i, marks=pytest.mark.slow) for i in range(6, 220))])
def test_a_random_graph_fused_gives_the_same(seed):
    """In ONNX Runtime and in our executor; with few and many operators in a group; and the way back."""
    graph = random_graph(seed, [SEED_GRAPH, SEED_GRAPH], operators=16)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    for most in (2, 3, 256):
        after, step = fused(graph, max_operators=most)
        members = [name for group in step.facts.groups for name in group.members]
        assert sorted(members) == sorted(node.name for node in graph.nodes)
        assert 1 < max(len(group.members) for group in step.facts.groups) <= most
        for name, array in outputs(after, inputs).items():
            np.testing.assert_array_equal(array, expected[name])
        ours, alone = TorchExecutor(after).run(inputs), TorchExecutor(graph).run(inputs)
        for name, array in ours.items():
            np.testing.assert_array_equal(array, alone[name])
        assert fused(after, max_operators=most)[1].rewrites == ()
        for rewrite in reversed(step.rewrites):
            after.apply(rewrite.inverse)
            check(after)
        assert to_text(after) == to_text(graph)
        assert after.functions == graph.functions


# ---- what is in a group ----------------------------------------------------------------------------


def test_relu_and_max_with_zero_fuse_alike_behind_a_convolution():
    text = "g (float[1,2,5,5] x, float[3,2,3,3] w) => (float[1,3,3,3] y) <float z = {{0}}> {{ c = Conv(x, w)  y = {} }}"
    assert groups_of(text.format("Relu(c)")) == [("Conv_c", "Relu_y")]
    assert groups_of(text.format("Max(c, z)")) == [("Conv_c", "Max_y")]


def test_a_value_that_is_an_output_ends_its_group():
    text = "g (float[2] x) => (float[2] y, float[2] a) { a = Neg(x)  b = Exp(a)  y = Abs(b) }"
    assert groups_of(text) == [("Exp_b", "Abs_y")]


def test_a_value_that_the_host_reads_is_not_computed_in_the_group_of_its_reader():
    """The shape of a Reshape at runtime; a constant one is part of the body."""
    text = "g (float[2,3] x, int64[2] s) => (float[A,B] y) { a = Neg(x)  t = Abs(s)  y = Reshape(a, t) }"
    assert groups_of(text) == [("Neg_a", "Reshape_y")]
    after, _ = fused(typed("g (float[2,3] x) => (float[6] y) <int64[1] s = {6}> { a = Neg(x)  y = Reshape(a, s) }"))
    (function,) = after.functions.values()
    assert tuple(function.graph.constants) == ("s",) and function.graph.inputs == ("x",)


REFUSED = {
    "an output": (
        "g (float[2] x) => (float[2] y, float[2] a) { a = Neg(x)  y = Exp(a) }",
        "a result of Neg 'Neg_a' is an output of the graph",
    ),
    "users that do not meet": (
        "g (float[2] x) => (float[2] y, float[2] z) { a = Neg(x)  y = Exp(a)  z = Abs(a) }",
        "the users of Neg 'Neg_a' do not meet in one operator",
    ),
    "a matrix product": (
        "g (float[2,2] x, float[2,2] w) => (float[2,2] y) { a = Neg(x)  y = MatMul(a, w) }",
        "Neg 'Neg_a' (elementwise) does not join its post-dominator MatMul 'MatMul_y': an edge on the way is "
        "out-elementwise-fusable",
    ),
    "two products": (
        "g (float[2,2] x, float[2,2] w) => (float[2,2] y) { a = MatMul(x, w)  b = MatMul(w, x)  y = Add(a, b) }",
        "MatMul 'MatMul_b' (out-elementwise-fusable) does not join its post-dominator Add 'Add_y': the group of "
        "Add 'Add_y' is out-elementwise-fusable",
    ),
    "behind a reduction": (
        "g (float[2,2] x) => (float[2,1] y) <int64[1] s = {1}> { a = ReduceSum(x, s)  y = Neg(a) }",
        "ReduceSum 'ReduceSum_a' (reduction) does not join its post-dominator Neg 'Neg_y': a reduction ends its group",
    ),
    "opaque": (
        "g (float[4] x) => (float[4] y) { a = com.example.Own(x)  y = Neg(a) }",
        "com.example.Own 'Own_a' is opaque",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_names_kind_and_post_dominator(text, sentence):
    assert sentence in fused(typed(text))[1].facts.refusals.values()


def test_the_limit_is_named():
    text = "g (float[2] x) => (float[2] y) { a = Neg(x)  b = Abs(a)  y = Exp(b) }"
    assert groups_of(text, max_operators=2) == [("Neg_a", "Abs_b")]
    assert fused(typed(text), max_operators=2)[1].facts.refusals["Abs_b"] == (
        "Abs 'Abs_b' (elementwise) does not join its post-dominator Exp 'Exp_y': the group would have 3 operators, and "
        "max_operators is 2"
    )


# ---- what else is known of a group -----------------------------------------------------------------


def test_layouts_flops_and_transposes_are_those_of_the_operators_in_groups():
    graph = typed("""g (float[1,2,6,6] x, float[4,2,3,3] w) => (float[1,4,4,4] y) {
        c = Conv(x, w)  r = Relu(c)  t = Transpose<perm=[0,2,3,1]>(r)  e = Exp(t)  n = Neg(e)
        y = Transpose<perm=[0,3,1,2]>(n)
    }""")
    after, step = fused(graph, past_products=True)
    assert len(after) == 1 and step.before["transposes"] == step.after["transposes"] == 2
    assert step.before["elements_moved"] == step.after["elements_moved"] == 128
    assert count_flops(after) == count_flops(graph)
    layouts, before = infer_layouts(after), infer_layouts(graph)
    assert {value: before[value] for value in after.values()} == layouts
    assert layouts["y"] == "NCHW" and layouts["w"] == "OIHW"
    assert infer_near(graph, graph.nodes, layouts)["y"] == infer_near(after, after.nodes, {})["y"] == "NCHW"


# ---- traffic -----------------------------------------------------------------------------------------


def test_traffic_by_hand():
    """x is 24 floats: 96 bytes. Alone: Neg and Exp read and write 96 each, Add reads a and b; the Reshape is a view."""
    text = """g (float[2,3,4] x) => (float[24] y) <int64[1] s = {24}> {
        a = Neg(x)  b = Exp(a)  c = Add(a, b)  y = Reshape(c, s)
    }"""
    graph = typed(text)
    values = stored_values(graph)
    assert traffic(values, [0, 1, 2, 3]) == 96 * (2 + 2 + 3)
    assert traffic(values, [0, 0, 0, 1]) == 96 * 2
    assert traffic(values, [0, 1, 1, 1]) == 96 * 4


def test_traffic_of_unknown_sizes_is_unknown():
    graph = typed("g (float[N] x) => (float[N] y) { a = Neg(x)  y = Exp(a) }")
    assert traffic(stored_values(graph), [0, 0]) is None
    graph.dims["N"] = 3
    assert traffic(stored_values(graph), [0, 0]) == 24


# ---- the words that later tools depend on --------------------------------------------------------------


def test_the_report_has_groups_and_traffic(tmp_path, capsys):
    model, report = tmp_path / "m.onnx", tmp_path / "r.json"
    graph = typed(FuseGroups.extra_examples[0].before)
    model.write_bytes(to_bytes(graph))
    fused_file = tmp_path / "fused.onnx"
    words = ["optimize", str(model), "--passes", "fuse_groups", "--report", str(report), "-o", str(fused_file)]
    assert main(words) == 0
    assert "5 operators in 2 groups; they read and write" in capsys.readouterr().out
    (step,) = json.loads(report.read_text())["steps"]
    assert step["groups"] == [
        {
            "name": "group_1",
            "members": ["Conv_c", "Add_a", "Sigmoid_s", "Mul_m"],
            "kind": "out-elementwise-fusable",
        },
        {"name": "GlobalAveragePool_y", "members": ["GlobalAveragePool_y"], "kind": "out-elementwise-fusable"},
    ]
    assert step["traffic"] == {"unfused_bytes": 10848, "bytes": 3680, "bound_bytes": None, "certified": None}
    assert step["verified"] is True
    assert main(["verify", str(model), str(fused_file)]) == 0
    assert main([*words, "--option", "fuse_groups.max_operators=2"]) == 0
    assert max(len(group["members"]) for group in json.loads(report.read_text())["steps"][0]["groups"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("model", [OCR, RESNET, SAMPLES / "basic_pitch_nmp.onnx"], ids=lambda path: path.stem)
def test_a_real_model_fused_is_bit_equal(model, tmp_path):
    report = tmp_path / "r.json"
    words = ["optimize", str(model), "--passes", "fuse_groups", "--report", str(report), "-o", str(tmp_path / "f.onnx")]
    assert main(words) == 0
    (step,) = json.loads(report.read_text())["steps"]
    assert step["verified"] is True and step["max_abs_error"] == 0
    assert step["traffic"]["bytes"] < step["traffic"]["unfused_bytes"] / 2


# ---- what pays -------------------------------------------------------------------------------------


def test_a_group_that_does_not_pay_is_not_kept_and_it_is_said():
    text = "g (float[8] x) => (float[8] y, float[8] z) { a = Exp(x)  y = Neg(a)  b = Abs(x)  z = Sqrt(b) }"
    times = {"Exp": 20.0, "Neg": 20.0, "Exp + Neg": 40.0, "Abs": 5.0, "Sqrt": 5.0}
    graph = typed(text)
    step = run_pass(FuseGroups(measured=True), graph, PassContext(load_profile("cuda"), GivenTimes(times)))
    assert [group.members for group in step.facts.groups] == [("Exp_a",), ("Neg_y",), ("Abs_b",), ("Sqrt_z",)]
    kept = "its group of 2 operators is not kept: it "
    assert step.facts.refusals["Exp_a"] == f"{kept}takes 40.0 us as one, and 40.0 us operator by operator"
    assert step.facts.refusals["Abs_b"] == f"{kept}cannot be timed"
    assert step.facts.traffic.bytes == step.facts.traffic.unfused_bytes
    with pytest.raises(OperatorTimerError, match="no device to time operators on"):
        run_pass(FuseGroups(measured=True), typed(text), PassContext(load_profile("cuda")))


@pytest.mark.slow
def test_groups_are_timed_on_this_machine(shared_worker, tmp_path, monkeypatch):
    """Each group as one kernel and each of its operators, once; another run reads the times."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    graph = typed("g (float[64,512] x) => (float[64,512] y) { a = Exp(x)  b = Neg(a)  c = Tanh(b)  y = Erf(c) }")
    said = []
    found = []
    for _ in range(2):
        context = PassContext(load_profile("cuda"), DeviceOperatorTimer(shared_worker, said_to(said)))
        found.append(run_pass(FuseGroups(measured=True), graph.copy(), context).facts.refusals)
    assert found[0] == found[1]
    assert said == ["timing operators on cpu, 0 of 5 done"]


def said_to(said):
    return lambda words, share: said.append(words) if "timing" in words else None
