"""`optimal` never moves more than another strategy, on the file that is written, whatever the preset."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import passes
from passes.layout.layout_optimal import LayoutOptimal
from tests.loading import saved
from tests.running import typed
from tests.test_layout_strategies import networks
from workbench import api
from workbench.io import load_model
from workbench.io.exporting import export_onnx
from workbench.layout.infer import infer_layouts
from workbench.layout.problem.operator_benchmark import GivenTimes
from workbench.layout.problem.two_layouts import layout_problem
from workbench.layout.profile import load_profile
from workbench.layout.strategies.strategy_facts import layout_facts, layout_step
from workbench.metrics.transpose_cost import count_transposes
from workbench.rewrite import PassContext, run_pass, with_options

HEADER = '<ir_version: 11, opset_import: ["": 23]>\n'
PRESETS = ("none", "normalize", "simplify")
SMALLER_CLASS = [
    name for name in passes.compared_strategies() if name not in ("optimal-any-order", "blocked", "measured")
]

# What TorchScript writes for conv, relu, pool, view(x.size(0), -1), linear. Folding leaves the chain of shapes unread.
VIEW = """g (float[N,3,32,32] x) => (float[N,10] y)
    <float[8,3,3,3] w, float[2048,10] m, float[10] b, int64 zero = {0}, int64[1] rest = {-1}, int64[1] first = {0}> {
    c = Conv<pads=[1,1,1,1]>(x, w)
    r = Relu(c)
    p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r)
    s = Shape(p)
    n = Gather(s, zero)
    u = Unsqueeze(n, first)
    t = Concat<axis=0>(u, rest)
    v = Reshape(p, t)
    y = Gemm(v, m, b)
}"""


def with_weights(text: str, **shapes: tuple[int, ...]) -> str:
    """ONNX's syntax wants the elements of a constant: here all ones."""
    for name, shape in shapes.items():
        size = 1
        for dim in shape:
            size *= dim
        declared = f"float[{','.join(map(str, shape))}] {name}"
        text = text.replace(declared, f"{declared} = {{{', '.join(['1'] * size)}}}")
    return text


def moved(graph, preset, strategy, target, folder):
    """Bytes that transposes of the written file move, and what the strategy says of its own graph."""
    last = "normalize" if preset == "simplify" else preset
    history = api.optimize(graph, preset=last, layout=strategy, target=target)
    export_onnx(history.graph, folder / "out.onnx")
    facts = layout_facts(layout_step(history))
    return count_transposes(load_model(folder / "out.onnx", graph.dims)).bytes_moved, facts


def check(graph, preset, target, folder):
    if preset == "simplify":
        graph = api.optimize(graph, preset="simplify").graph
    least, facts = moved(graph, preset, "optimal", target, folder)
    for strategy in SMALLER_CLASS:
        assert least <= moved(graph, preset, strategy, target, folder)[0], strategy
    if facts.certified:
        assert least == facts.lower_bound
    assert facts.sentence


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("target", ["cuda", "npu"])
def test_a_chain_of_shapes_does_not_pull_an_image_back(tmp_path, preset, target):
    graph = load_model(saved(tmp_path, with_weights(VIEW, w=(8, 3, 3, 3), m=(2048, 10), b=(10,))), {"N": 1})
    check(graph, preset, target, tmp_path)
    least, facts = moved(graph, preset, "optimal", target, tmp_path)
    assert (least, facts.lower_bound, facts.certified) == (12288 + 8192, 12288 + 8192, True)  # x there, p back


@settings(max_examples=40, deadline=None)
@given(networks(), st.sampled_from(PRESETS), st.sampled_from(["cuda", "npu", "nchw"]))
def test_optimal_is_the_least_of_a_random_network(tmp_path_factory, text, preset, target):
    folder = tmp_path_factory.mktemp("least")
    check(load_model(saved(folder, text, header=HEADER)), preset, target, folder)


@pytest.mark.parametrize("target", ["cuda", "npu"])
def test_what_no_cut_can_state_is_proven_by_a_program(target):
    """A Transpose to a third order between two images, each of which may be in either layout."""
    graph = typed("""g (float[1,4,4,4] x, float[4,4,1,1] w) => (float[1,4,4,4] y) {
        a = Conv(x, w)
        b = Relu(a)
        t = Transpose<perm=[0,3,2,1]>(b)
        r = Relu(t)
        d = MaxPool<kernel_shape=[1,1]>(r)
        y = Conv(d, w)
    }""")
    before = layout_problem(graph, infer_layouts(graph, through_reshapes=True), load_profile(target))
    assert before.inexact
    facts = layout_facts(run_pass(with_options(LayoutOptimal, {}), graph, PassContext(load_profile(target))))
    assert facts.certified and facts.lower_bound == count_transposes(graph).bytes_moved


@pytest.mark.parametrize("strategy", passes.compared_strategies())
def test_every_strategy_says_what_is_proven_or_why_not(strategy):
    graph = typed("g (float[1,4,4,4] x, float[4,4,1,1] w) => (float[1,4,4,4] y) { a = Conv(x, w)  y = Relu(a) }")
    times = GivenTimes({"Transpose": 1, "Conv": 100, "workbench.Conv_NHWC": 10})
    context = PassContext(load_profile("cuda"), times)
    sentence = run_pass(with_options(passes.compared_strategies()[strategy], {}), graph, context).conclusion
    assert sentence.startswith(("no choice", "not proven minimal: "))
