"""Orders of axes and element types chosen together: against both one after the other, by brute force, on a file."""

from __future__ import annotations

import itertools
import json

import networkx
import numpy as np
import onnx
import pytest

from passes.layout.layout_optimal import LayoutOptimal
from passes.precision.precision_optimal_with_layout import PrecisionOptimalWithLayout
from tests.conftest import ROOT
from tests.precision_graphs import random_image_graph, random_mixed_graph, random_quantized_graph
from tests.running import outputs, random_inputs, typed
from workbench.analysis.inference.bound_shapes import infer_sizes
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.formats.io import load_model
from workbench.ir import DataType, Graph
from workbench.pipeline.registry.reading import precision_strategy
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.profile import load_profile
from workbench.planning.precision.cast_cost import count_casts
from workbench.planning.precision.element_types import WIDE
from workbench.planning.precision.joint.conversion_plan import cast_bytes, cheapest_plan, transpose_bytes
from workbench.planning.precision.joint.orders_and_types import order_and_type_problem
from workbench.planning.precision.narrow_io import AS_COMPUTED
from workbench.planning.precision.strategies.precision_strategy import ChosenTypes, type_choices
from workbench.rewrite import PassContext, Step, run_pass

FLOAT16 = DataType.FLOAT16
RESIZED = ROOT / "sample_models" / "precision" / "resize_conv_resize.onnx"


def traffic(graph: Graph) -> int:
    """The bytes that Casts and Transposes read and write."""
    sized = graph.copy()
    infer_sizes(sized)
    return count_casts(sized, FLOAT16).bytes + 2 * count_transposes(sized).bytes_moved


def solve(graph: Graph, target: str, *strategies: str) -> Step:
    """The last step. strategies: of precision, or "layout"."""
    for name in strategies:
        pass_ = LayoutOptimal() if name == "layout" else precision_strategy(name, {})
        step = run_pass(pass_, graph, PassContext(load_profile(target)), check_each=True)
    return step


def close(graph: Graph, original: Graph) -> None:
    inputs = random_inputs(original)
    expected, found = outputs(original, inputs), outputs(graph, inputs)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        error = np.abs(found[name].astype(float) - array.astype(float)).max()
        assert error <= 2e-2 * np.abs(array.astype(float)).max() + 1e-2, name


def graphs() -> list[pytest.param]:
    matrices = [pytest.param(random_mixed_graph(seed), id=f"matrices {seed}") for seed in range(8)]
    matrices += [pytest.param(random_quantized_graph(seed), id=f"quantized {seed}") for seed in range(4)]
    return matrices + [pytest.param(random_image_graph(seed), id=f"images {seed}") for seed in range(24)]


def test_a_constant_is_an_output():
    graph = typed("g (float[2,2] x) => (float[2,2] y, float[2,2] w) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }")
    step = run_pass(PrecisionOptimalWithLayout(io=AS_COMPUTED), graph, PassContext(load_profile("cpu")))
    types = [graph.tensor_type(value).dtype for value in (*graph.inputs, *graph.outputs)]
    assert (step.facts.casts, types) == (0, [FLOAT16, FLOAT16, WIDE])


@pytest.mark.parametrize("original", graphs())
def test_never_more_than_one_after_the_other_and_exactly_the_bound(original):
    together, types_first, layouts_first = original.copy(), original.copy(), original.copy()
    facts = solve(together, "cuda", "optimal-with-layout").facts
    solve(types_first, "cuda", "optimal", "layout")
    solve(layouts_first, "cuda", "layout", "optimal")
    close(together, original)
    cost = traffic(together)
    assert cost == facts.bytes_converted + 2 * facts.transposes.bytes_moved
    assert cost <= min(traffic(types_first), traffic(layouts_first))
    assert facts.certified == (facts.bound == cost) and (facts.certified or facts.inexact)
    again = solve(together, "cuda", "optimal-with-layout")
    assert not again.rewrites and traffic(together) == cost
    as_computed = original.copy()
    pass_ = precision_strategy("optimal-with-layout", {"io": AS_COMPUTED})
    facts = run_pass(pass_, as_computed, PassContext(load_profile("cuda")), check_each=True).facts
    assert facts.certified and facts.bound == traffic(as_computed) <= cost
    assert not run_pass(pass_, as_computed, PassContext(load_profile("cuda"))).rewrites


ORDERS = [(0, 1, 2), (0, 2, 1), (1, 0, 2)]


@pytest.mark.parametrize(("own", "other"), [(WIDE, FLOAT16), (FLOAT16, WIDE)])
def test_the_plan_of_a_value_is_the_cheapest_of_all(own, other):
    """Against a minimum arborescence over every set of labels (order, type) that has those that are read."""
    given = (own, ORDERS[0])
    labels = [label for label in itertools.product((own, other), ORDERS) if label != given]
    costs = {frozenset(chosen): arborescence_cost(given, chosen) for chosen in subsets(labels)}
    for read in subsets(labels):
        same, others = ([order for of, order in read if of == dtype] for dtype in (own, other))
        plan = cheapest_plan(ORDERS[0], same, others, FLOAT16, own)
        assert plan.bytes(own, other) == min(cost for chosen, cost in costs.items() if chosen.issuperset(read)), read


def subsets(items: list) -> list[tuple]:
    return [chosen for size in range(len(items) + 1) for chosen in itertools.combinations(items, size)]


def arborescence_cost(given: tuple, chosen: tuple) -> int:
    """Bytes for each element of the conversions from `given` to all chosen labels. What is float32 stays so: a Cast back
    to it would give rounded numbers."""
    graph = networkx.DiGraph()
    graph.add_nodes_from((given, *chosen))
    for source, label in itertools.permutations((given, *chosen), 2):
        if label == given or (source[0] != label[0] and source[1] != label[1]):
            continue
        if source[0] == label[0]:
            graph.add_edge(source, label, weight=transpose_bytes(label[0]))
        elif given[0] == FLOAT16 or source[0] == WIDE:
            graph.add_edge(source, label, weight=cast_bytes(source[0], label[0]))
    try:
        tree = networkx.minimum_spanning_arborescence(graph)
    except networkx.NetworkXException:  # a Cast that nothing leads to
        return 10**9
    return sum(weight for _, _, weight in tree.edges(data="weight"))


SMALL = {
    "a pool between, so that the Cast and the Transpose have one place": """g (float[1,2,4,6] x) => (float[1,2,4,3] y)
        <float[2,2,1,1] w = {1, 2, 3, 4}> {
            a = MaxPool<kernel_shape=[1,2], strides=[1,2]>(x)
            b = Conv(a, w)
            y = Exp(b)
        }""",
    "two readers": """g (float[1,2,4,4] x) => (float[1,2,4,4] y, float[1,2,4,4] z) <float[2,2,1,1] w = {1, 2, 3, 4}> {
            a = Exp(x)
            b = Conv(a, w)
            c = Relu(b)
            y = Exp(a)
            z = Neg(c)
        }""",
    "a stored weight, read in two orders": """g (float[4,4] x) => (float[4,4] y, float[4,4] z)
        <int8[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}, float s = {0.02}> {
            a = DequantizeLinear(w, s)
            b = Transpose(a)
            c = MatMul(x, a)
            y = MatMul(c, b)
            d = Exp(a)
            e = Exp(b)
            z = Add(d, e)
        }""",
    "both types at the border": """g (float16[1,2,4,4] x) => (float16[1,4,4,2] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
            a = Cast<to=1>(x)
            b = Conv(a, w)
            c = Transpose<perm=[0,2,3,1]>(b)
            d = Relu(c)
            y = Cast<to=10>(d)
        }""",
}


@pytest.mark.parametrize("text", SMALL.values(), ids=SMALL)
def test_brute_force_over_all_forms_finds_nothing_cheaper(text):
    graph = typed(text)
    target = load_profile("cuda")
    choices = type_choices(graph, FLOAT16, target, (), {})
    problem = order_and_type_problem(choices, infer_layouts(graph, through_reshapes=True), target)
    nodes = [index for index, name in enumerate(problem.nodes) if name is not None]
    least = None
    for assignment in itertools.product(*(range(len(problem.forms[index])) for index in nodes)):
        forms = {problem.nodes[i]: problem.forms[i][form] for i, form in zip(nodes, assignment, strict=True)}
        sides = {name: form.side for name, form in forms.items() if form.side is not None}
        perms = {name: form.perm for name, form in forms.items() if form.perm is not None}
        trial = graph.copy()
        for rewrite in PrecisionOptimalWithLayout().conversions(trial, choices, ChosenTypes(sides, perms=perms)):
            trial.apply(rewrite.edit)
        close(trial, graph)
        least = traffic(trial) if least is None else min(least, traffic(trial))
    solved = graph.copy()
    facts = solve(solved, "cuda", "optimal-with-layout").facts
    assert facts.certified and facts.bound == traffic(solved) == least


def test_rounded_numbers_stay_rounded():
    """float32 to float16, transposed, and back to float32: the last Cast does not give the first value again."""
    graph = typed("""g (float[2,4] x) => (float[4,2] y, float[2,4] z) {
        a = Cast<to=10>(x)
        b = Transpose<perm=[1,0]>(a)
        c = Cast<to=1>(b)
        y = Exp(c)
        z = Exp(x)
    }""")
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    solve(graph, "cpu", "optimal-with-layout")
    found = outputs(graph, inputs)
    assert all((found[name] == array).all() for name, array in expected.items())


# ---- a file ----------------------------------------------------------------------------


def test_a_model_of_which_the_minimum_is_below_both_ways_one_after_the_other(tmp_path, run):
    original = load_model(RESIZED)
    for strategies in (("optimal", "layout"), ("layout", "optimal")):
        graph = original.copy()
        solve(graph, "npu", *strategies)
        assert traffic(graph) == 127_776
    output, report, certificate = (tmp_path / name for name in ("out.onnx", "report.json", "certificate.json"))
    arguments = ("--precision", "optimal-with-layout", "--target", "npu", "--report", report)
    code, said, _ = run("optimize", RESIZED, "-o", output, *arguments, "--certificate", certificate)
    assert code == 0 and "reads and writes less than 118,560 bytes" in said
    [facts] = [step["precision"] for step in json.loads(report.read_text())["steps"] if "precision" in step]
    assert facts["certified"] and facts["bound_bytes"] is None
    assert facts["bytes_converted"] + facts["bytes_transposed"] == facts["bound_bytes_with_transposes"] == 118_560
    onnx.checker.check_model(str(output), full_check=True)
    code, said, _ = run("check", RESIZED, output, certificate, "--run", 1)
    assert code == 0 and "the Casts and Transposes of 'out.onnx' read and write 118,560 bytes" in said
    code, said, _ = run(
        "optimize", output, "-o", tmp_path / "again.onnx", "--precision", "optimal-with-layout", "--target", "npu"
    )
    assert code == 0
    assert [n.op_type for n in onnx.load(tmp_path / "again.onnx").graph.node] == [
        n.op_type for n in onnx.load(output).graph.node
    ]
