"""`optimal` never moves more than another strategy, on the file that is written, whatever the preset."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import passes
from passes.layout.layout_optimal import LayoutOptimal
from tests.loading import saved
from tests.running import outputs, random_inputs, typed
from tests.test_layout_strategies import networks
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.interfaces import api
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.conversion.convert import convert
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.problem.image_layouts import layout_of_images, other_layout
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.problem.orders import order_problem
from workbench.planning.layout.profile import load_profile
from workbench.planning.layout.strategies.strategy_facts import layout_facts, layout_step
from workbench.planning.solvers.regions import regions
from workbench.planning.solvers.two_orders import NotACut, minimum_by_cut
from workbench.rewrite import PassContext, run_pass, with_options

HEADER = '<ir_version: 11, opset_import: ["": 23]>\n'
PRESETS = ("none", "normalize", "simplify")
SMALLER_CLASS = [name for name in passes.compared_strategies() if name not in ("blocked", "measured")]

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


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(networks(), st.sampled_from(PRESETS), st.sampled_from(["cuda", "npu", "nchw"]))
def test_optimal_is_the_least_of_a_random_network(tmp_path_factory, text, preset, target):
    folder = tmp_path_factory.mktemp("least")
    check(load_model(saved(folder, text, header=HEADER)), preset, target, folder)


@pytest.mark.parametrize("target", ["cuda", "npu"])
def test_what_no_cut_can_state_is_proven_by_search(target):
    """A Transpose to a third order between two images, each of which may be in either layout."""
    graph = typed("""g (float[1,4,4,4] x, float[4,4,1,1] w) => (float[1,4,4,4] y) {
        a = Conv(x, w)
        b = Relu(a)
        t = Transpose<perm=[0,3,2,1]>(b)
        r = Relu(t)
        d = MaxPool<kernel_shape=[1,1]>(r)
        y = Conv(d, w)
    }""")
    stated = order_problem(graph, infer_layouts(graph, through_reshapes=True), load_profile(target))
    with pytest.raises(NotACut):
        for region in regions(stated.problem):
            minimum_by_cut(region.problem)
    facts = layout_facts(run_pass(with_options(LayoutOptimal, {}), graph, PassContext(load_profile(target))))
    assert facts.certified and facts.lower_bound == count_transposes(graph).bytes_moved


@pytest.mark.parametrize("strategy", passes.compared_strategies())
def test_every_strategy_says_what_is_proven_or_why_not(strategy):
    graph = typed("g (float[1,4,4,4] x, float[4,4,1,1] w) => (float[1,4,4,4] y) { a = Conv(x, w)  y = Relu(a) }")
    times = GivenTimes({"Transpose": 1, "Conv": 100, "workbench.Conv_NHWC": 10})
    context = PassContext(load_profile("cuda"), times)
    sentence = run_pass(with_options(passes.compared_strategies()[strategy], {}), graph, context).conclusion
    assert sentence.startswith(("no choice", "not proven minimal: "))


SQUEEZED = with_weights(
    """g (float[1,8,6,6] x) => (float[1,8] out) <float[8,8,3,3] w, float[2,8,1,1] d, float[8,2,1,1] u, int64[2] flat = {1, 8}> {
        a = Conv<pads=[1,1,1,1]>(x, w)
        p = GlobalAveragePool(a)
        b = Conv(p, d)  r = Relu(b)  c = Conv(r, u)  s = Sigmoid(c)  m = Mul(a, s)
        e = Conv<pads=[1,1,1,1]>(m, w)
        q = GlobalAveragePool(e)
        f = Conv(q, d)  t = Relu(f)  h = Conv(t, u)  v = HardSigmoid(h)  n = Mul(e, v)
        z = GlobalAveragePool(n)
        out = Reshape(z, flat)
    }""",
    w=(8, 8, 3, 3),
    d=(2, 8, 1, 1),
    u=(8, 2, 1, 1),
)
CERTIFIED = ("layout_optimal", "layout_blocked", "precision_optimal_with_layout")


@pytest.mark.parametrize("name", CERTIFIED)
def test_operators_on_one_pixel_follow_the_convolutions_around_them(name):
    """Squeeze and excitation: each order of [1, 8, 1, 1] moves nothing, but a Reshape is a node."""
    graph = typed(SQUEEZED)
    result = api.optimize(graph, [name], target="npu").graph
    assert len(result.nodes_of(("Transpose",))) == 1
    assert [node.outputs for node in result.nodes_of(("Reshape",))] == [("out",)]  # the graph's own
    again = api.optimize(result, ["fold_constants", "merge_repeated", "push_reshapes", name], target="npu")
    assert not any(step.rewrites for step in again.steps)


def on_one_pixel(seed):
    """A random graph of six operators on images of one pixel, or of 2 x 2 and one."""
    draw, lines, values = random.Random(seed), [], ["x"]
    side = draw.choice((1, 2))
    for number in range(6):
        op = draw.choice(("Conv", "Conv", "Relu", "Mul", "GlobalAveragePool"))
        value = draw.choice(values[-2:])
        other = {"Conv": ", w", "Mul": f", {draw.choice(values)}"}.get(op, "")
        lines.append(f"v{number} = {op}({value}{other})")
        values.append(f"v{number}")
    read = {value for value in values if any(f"({value}" in line or f", {value})" in line for line in lines)}
    outputs = ", ".join(
        f"float[a{i},b{i},c{i},d{i}] {value}" for i, value in enumerate(values[1:]) if value not in read
    )
    head = f"g (float[1,2,{side},{side}] x) => ({outputs}) <float[2,2,1,1] w = {{1, 2, 3, 4}}>"
    return typed(f"{head} {{ {'  '.join(lines)} }}")


def cost(graph):
    """What is minimized: bytes moved, then Transposes, then Reshapes."""
    counts = count_transposes(graph)
    return counts.bytes_moved, counts.transposes, len(graph.nodes_of(("Reshape",)))


@pytest.mark.parametrize("seed", range(8))
def test_no_choice_of_two_layouts_leaves_less_to_move_nor_then_fewer_reshapes(seed):
    graph, target = on_one_pixel(seed), load_profile("cuda")
    layouts, found = infer_layouts(graph), []
    images = [node for node in graph.nodes if layout_of_images(node, layouts)]
    free = [node.name for node in images if plain_op(node) not in target.required_layouts]
    for chosen in itertools.product((False, True), repeat=len(free)):
        left = {name for name, converts in zip(free, chosen, strict=True) if not converts}
        other = graph.copy()
        for node in [node for node in images if node.name not in left]:
            layout, perm = other_layout(layout_of_images(node, layouts))
            other.apply(convert(other, other.node(node.name), perm, layout, target).edit)
        for edit, _, _ in tidy_transposes(other):
            other.apply(edit)
        found.append(cost(other))
    assert cost(api.optimize(graph, ["layout_optimal"], target="cuda").graph) == min(found)


VIEWS = {
    "a transposed vector is the shape of a Reshape": """g (float[2,3] x) => (float[2,3] y) {
        s = Shape(x)
        t = Transpose<perm=[0]>(s)
        y = Reshape(x, t)
    }""",
    "the name of a removed shape is taken by another": """g (float[1,6] x, float[1,2,3,1] p, float[1,2,3,1] q)
        => (float[1,2,3,1] y, float[1,1,2,3] z, float[1,2,1,3] w) <int64[4] z_shape = {1, 2, 1, 3}> {
        a = Reshape(x, z_shape)
        y = Transpose<perm=[0,1,3,2]>(a)
        z = Transpose<perm=[0,3,1,2]>(p)
        w = Transpose<perm=[0,1,3,2]>(q)
    }""",
}


@pytest.mark.parametrize("text", VIEWS.values(), ids=VIEWS)
def test_a_transpose_that_moves_nothing_is_one_reshape_with_the_views_around_it(text):
    graph = typed(text)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    for edit, _, _ in tidy_transposes(graph):
        graph.apply(edit)
    assert not graph.nodes_of(("Transpose",))
    found = outputs(graph, inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
