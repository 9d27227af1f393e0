"""The proven minimum on networks written in several ways: counts, certificates, and equal outputs.

The counts are those of a minimum cut with another operator table, published
tools leave more; see docs/results.md.
"""

from functools import cache

import numpy as np
import pytest

from passes.layout.layout_optimal import LayoutOptimal
from sample_models.light import random_light
from sample_models.variants import mixed_layouts, nhwc_dataflow, residual_chain
from tests.conftest import CORPUS
from tests.running import outputs, random_inputs, typed
from workbench.formats.io import load_model
from workbench.formats.io.exporting import to_bytes
from workbench.interfaces.api import optimize
from workbench.ir import Graph, from_text
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import load_profile
from workbench.planning.layout.strategies.strategy_facts import layout_step
from workbench.presentation.explanations.reporting import history_report
from workbench.rewrite import PassContext, Step, run_pass, with_options

WRITTEN = {"plain": Graph.copy, "nhwc": nhwc_dataflow, "mixed": mixed_layouts}
slow = pytest.mark.slow

# network, how it is written, target -> transposes left, millions of elements moved, at most
LEFT = {
    ("resnet50", "plain", "cuda"): (1, 0.16),
    ("resnet50", "nhwc", "cpu"): (1, 0.16),
    ("resnet50", "nhwc", "cuda"): (0, 0),
    ("resnet50", "mixed", "cpu"): (40, 5.7),
    ("squeezenet", "plain", "cuda"): (1, 0.16),
    ("squeezenet", "nhwc", "cpu"): (1, 0.16),
    ("squeezenet", "nhwc", "cuda"): (0, 0),
    ("squeezenet", "mixed", "cpu"): (20, 1.42),
    ("inception_v1", "plain", "cuda"): (1, 0.16),
    ("inception_v1", "nhwc", "cpu"): (1, 0.16),
    ("inception_v1", "nhwc", "cuda"): (0, 0),
    ("inception_v1", "mixed", "cpu"): (56, 2.82),
    ("inception_v2", "plain", "cuda"): (1, 0.16),
    ("inception_v2", "mixed", "cpu"): (56, 3.61),
    ("densenet121", "plain", "cuda"): (1, 0.16),
    ("densenet121", "nhwc", "cpu"): (1, 0.16),
    ("densenet121", "nhwc", "cuda"): (0, 0),
    ("densenet121", "mixed", "cpu"): (122, 15.53),
    ("shufflenet", "plain", "cuda"): (17, 1.44),
    ("shufflenet", "nhwc", "cpu"): (17, 1.44),
    ("shufflenet", "nhwc", "cuda"): (16, 1.29),
}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A light model with random weights, batch norms folded, by name; made when first asked for."""
    folder = tmp_path_factory.mktemp("light")

    @cache
    def made(name: str) -> Graph:
        path = folder / f"{name}.onnx"
        path.write_bytes(random_light(name).SerializeToString())
        return optimize(load_model(path), ["fold_constants", "fold_batchnorm"]).graph

    return made


def least(graph: Graph, target: str, weigh: str = "bytes") -> Step:
    """The graph becomes the one that moves least."""
    return run_pass(
        with_options(LayoutOptimal, {"weigh": weigh}),
        graph,
        PassContext(load_profile(target)),
        check_each=len(graph) < 200,
    )


def same(first: Graph, second: Graph) -> None:
    inputs = random_inputs(first)
    expected, found = outputs(first, inputs), outputs(second, inputs)
    for name, numbers in expected.items():
        np.testing.assert_allclose(found[name], numbers, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("case", "weigh"),
    [
        pytest.param(c, weigh, marks=[slow] if c[0] != "squeezenet" else [], id="-".join((weigh, *c)))
        for c in LEFT
        for weigh in ("bytes", "count")
        if weigh == "bytes" or c[0] in ("squeezenet", "shufflenet", "inception_v1")
    ],
)
def test_transposes_left(network, case, weigh):
    name, written, target = case
    graph = WRITTEN[written](network(name))
    before = graph.copy()
    step = least(graph, target, weigh)
    transposes, millions = LEFT[case]
    assert step.facts.certified
    assert step.after["transposes"] <= transposes
    assert step.after["elements_moved"] <= millions * 1e6
    same(before, graph)


@pytest.mark.parametrize(
    "name", ["squeezenet", pytest.param("resnet50", marks=slow), pytest.param("shufflenet", marks=slow)]
)
def test_the_variants_compute_what_the_network_computes(network, name):
    graph = network(name)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    for written, given in (
        (nhwc_dataflow(graph), {k: np.ascontiguousarray(v.transpose(0, 2, 3, 1)) for k, v in inputs.items()}),
        (mixed_layouts(graph), inputs),
    ):
        found = outputs(written, given)
        for output, numbers in expected.items():
            np.testing.assert_allclose(found[output], numbers, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the real models are not here")
def test_a_tensorflow_export_comes_back_to_channels_first():
    graph = load_model(CORPUS / "open_nsfw_resnet.onnx")
    history = optimize(graph, layout="optimal", target="nchw")
    found = history_report(history)["layout"]
    assert found["strategy"] == "optimal" and found["certified"] is True
    assert found["transposes"] == 1
    assert found["bytes_moved"] == found["lower_bound"]
    assert sum(found["by_case"].values()) == len(layout_step(history).rewrites)
    same(graph, history.graph)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the real models are not here")
@pytest.mark.parametrize(
    "name",
    ["ppocrv4_rec", pytest.param("unet_sd15_raw", marks=slow), "magika_v3_3", "basic_pitch_nmp", "ddddocr_det_yolox"],
)
def test_real_models_are_certified(name):
    step = layout_step(optimize(load_model(CORPUS / f"{name}.onnx"), layout="optimal", target="cuda"))
    assert step.facts.certified and step.after["bytes_moved"] == step.facts.lower_bound


def test_a_transpose_to_a_third_order_gives_the_layout_that_is_read():
    """It would be counted as one that stays, and one more behind it; it becomes the one."""
    graph = typed(
        """g (float[1,4,5,2] x) => (float[1,2,4,5] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
            t = Transpose<perm=[0,3,2,1]>(x)
            c = Conv(t, w)
            y = Transpose<perm=[0,1,3,2]>(c)
        }"""
    )
    before = graph.copy()
    step = least(graph, "cuda")
    assert step.facts.certified and step.after["transposes"] == 2
    same(before, graph)


def test_two_matmuls_in_a_row_share_their_layout():
    graph = residual_chain(30)
    before = graph.copy()
    step = least(graph, "cpu")
    assert step.facts.certified
    assert (step.before["transposes"], step.after["transposes"]) == (40, 20)
    same(before, graph)


@pytest.mark.parametrize("weigh", ["bytes", "count", "time"])
def test_transposes_of_bodies_are_in_the_bound(weigh, tmp_path):
    written = from_text("""g (float[1,2,4,4] x, bool c) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
        a = Conv(x, w)
        y = If(c)<then_branch = t () => (t1) {
            q = Transpose<perm=[0,2,3,1]>(a)
            t1 = Transpose<perm=[0,3,1,2]>(q)
        }, else_branch = e () => (e1) { e1 = Neg(a) }>
    }""")
    (tmp_path / "if.onnx").write_bytes(to_bytes(written))
    graph = load_model(tmp_path / "if.onnx")  # which finds the types of the body's values too
    times = GivenTimes({"Conv": 9, "workbench.Conv_NHWC": 1, "Transpose": 1})
    context = PassContext(load_profile("cuda"), times)
    step = run_pass(with_options(LayoutOptimal, {"weigh": weigh}), graph, context)
    assert step.facts.certified
    assert step.facts.lower_bound == {"bytes": 4 * 128, "count": 4, "time": 3000}[weigh]
