"""What a certificate holds over: broadcast operands of lower rank, and sizes that are not known."""

from pathlib import Path

import numpy as np
import pytest

from passes import compared_strategies
from passes.layout.layout_blocked import LayoutBlocked
from passes.layout.layout_optimal import LayoutOptimal
from tests.running import outputs, random_inputs, typed
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.interfaces.api import load, optimize
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import load_profile
from workbench.planning.layout.strategies.strategy_facts import layout_step
from workbench.rewrite import PassContext, run_pass, with_options

TIMES = GivenTimes({"Transpose": 1, "Conv": 100, "workbench.Conv_NHWC": 10, "Mul": 1})
CUDA = PassContext(load_profile("cuda"), TIMES)
LEAST = (LayoutOptimal, LayoutBlocked)
# a broadcast operand of lower rank -> elements that it costs to bring it to channels last
LOWER = {"[3,1,1]": 0, "[5]": 0, "[4,1]": 0, "[4,5]": 0, "[1,4,5]": 0, "[3,4,5]": 60}


def between_convolutions(operand: str) -> str:
    return f"""g (float[1,2,4,5] x, float{operand} s) => (float[1,2,4,5] y)
        <float[3,2,1,1] w = {{1, 2, 3, 4, 5, 6}}, float[2,3,1,1] v = {{6, 5, 4, 3, 2, 1}}> {{
        a = Conv(x, w)  b = Mul(a, s)  y = Conv(b, v)
    }}"""


@pytest.mark.parametrize("strategy", compared_strategies())
@pytest.mark.parametrize("operand", [operand for operand, moved in LOWER.items() if not moved])
def test_a_broadcast_operand_of_lower_rank_is_carried_by_a_reshape(operand, strategy):
    """The convolutions' image goes there once and back once, whatever the operand beside it."""
    graph = typed(between_convolutions(operand))
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)["y"]
    step = run_pass(with_options(compared_strategies()[strategy], {}), graph, CUDA, check_each=True)
    assert step.after["elements_moved"] == 2 * 40
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected, rtol=1e-5)


@pytest.mark.parametrize("strategy", LEAST)
@pytest.mark.parametrize("operand", LOWER)
def test_the_bound_counts_operands_of_lower_rank(operand, strategy):
    step = run_pass(strategy(), typed(between_convolutions(operand)), CUDA)
    assert step.facts.certified and step.facts.lower_bound == 4 * (2 * 40 + LOWER[operand])


def test_one_transpose_serves_all_who_read_an_operand_of_lower_rank():
    text = """g (float[1,2,4,5] x, float[3,4,5] s) => (float[1,2,4,5] y)
        <float[3,2,1,1] w = {1, 2, 3, 4, 5, 6}, float[2,3,1,1] v = {6, 5, 4, 3, 2, 1}> {
        a = Conv(x, w)  b = Mul(a, s)  c = Add(b, s)  y = Conv(c, v)
    }"""
    step = run_pass(LayoutOptimal(), typed(text), CUDA)
    assert step.facts.certified and step.facts.lower_bound == 4 * (2 * 40 + 60)


@pytest.mark.parametrize("own", ["NCHW", "NHWC"])
@pytest.mark.parametrize("operand", ["[16,1,1]", "[4]", "[4,4]", "[1,1,4,4]", "[2,1,4,4]", "[1,16,1,1]"])
def test_a_broadcast_operand_is_lined_up_with_blocks(operand, own):
    order = {"NCHW": [0, 1, 2, 3], "NHWC": [0, 2, 3, 1]}[own]
    dims = [int(dim) for dim in operand.strip("[]").split(",")]
    there = ", ".join(map(str, np.array([*[1] * (4 - len(dims)), *dims])[order])) if own == "NHWC" else operand[1:-1]
    back = [order.index(axis) for axis in range(4)]
    graph = typed(f"""g (float[2,16,4,4] x, float[16,16,1,1] w, float[{there}] s) => (float[2,16,4,4] y) {{
        a = Conv(x, w)  t = Transpose<perm={order}>(a)  b = Mul(t, s)  u = Transpose<perm={back}>(b)  y = Conv(u, w)
    }}""")
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)["y"]
    step = run_pass(LayoutBlocked(), graph, PassContext(load_profile("blocked")), check_each=True)
    assert step.facts.certified and step.after["elements_moved"] == 2 * 512
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("strategy", "over"),
    [
        (LayoutOptimal, "the orders of axes that the graph's Transposes and the target name"),
        (LayoutBlocked, "NCHW, NHWC and NCHW8c for the operators that have those forms"),
    ],
)
def test_a_certificate_names_the_class_of_choices(strategy, over):
    step = run_pass(strategy(), typed(between_convolutions("[5]")), CUDA)
    assert over in step.conclusion and step.conclusion.endswith(
        "moves less than 320 bytes, and this moves exactly that"
    )


RESIZED = """g (float[1,3,8,8] x) => (float[?,?,?,?] y) <float[3,3,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9},
    float half = {1.5}, int64[1] z = {0}, int64[1] two = {2}, int64[1] four = {4}> {
    a = Conv(x, w)
    s = Shape(a)
    nc = Slice(s, z, two)
    hw = Slice(s, two, four)
    larger = Cast<to=1>(hw)
    scaled = Mul(larger, half)
    whole = Floor(scaled)
    i = Cast<to=7>(whole)
    sizes = Concat<axis=0>(nc, i)
    up = Resize<mode="nearest">(a, , , sizes)
    y = Conv(up, w)
}"""


def opened(tmp_path: Path, text: str):
    path = tmp_path / "model.onnxtxt"
    path.write_text(f'<ir_version: 8, opset_import: ["": 17]> {text}', encoding="utf-8")
    return load(path)


def test_sizes_computed_with_floats_are_inferred(tmp_path):
    """As exporters write the enlarging half of a UNet: a size times 1.5, rounded down."""
    graph = opened(tmp_path, RESIZED)
    for strategy in ("optimal", "convert-layout"):
        history = optimize(graph, layout=strategy, target="cuda")
        assert count_transposes(history.graph).unknown == 0
        assert layout_step(history).after["elements_moved"] == 3 * 8 * 8 + 3 * 12 * 12


@pytest.mark.parametrize("strategy", LEAST)
def test_where_a_size_stays_unknown_nothing_is_called_the_least(tmp_path, strategy):
    graph = opened(
        tmp_path,
        """g (float[1,3,8,8] x, int64[4] sizes) => (float[?,?,?,?] y) <float[3,3,1,1] w = {1,2,3,4,5,6,7,8,9}> {
            up = Resize<mode="nearest">(x, , , sizes)  y = Conv(up, w)
        }""",
    )
    step = run_pass(strategy(), graph, PassContext(load_profile("cuda")))
    unknown = count_transposes(graph).unknown
    assert step.facts.unknown == unknown > 0
    assert step.facts.lower_bound is None and not step.facts.certified
    transposes = "1 transpose moves" if unknown == 1 else f"{unknown} transposes move"
    assert step.conclusion == (
        f"not proven minimal: what {transposes} is unknown, since sizes do not follow from the inputs"
    )
