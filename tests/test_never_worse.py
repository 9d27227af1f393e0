"""Where the target demands nothing, only the naive strategies move more than the graph did before."""

import dataclasses

import pytest

import passes
from sample_models.light import random_light
from sample_models.variants import mixed_layouts, nhwc_dataflow, residual_chain
from tests.conftest import ROOT
from tests.running import outputs, random_inputs, typed
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.formats.io import load_model
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

NAIVE = {"insert-and-cancel", "record-then-insert"}  # they insert whether anything is demanded or not
SAMPLES = sorted((ROOT / "sample_models").glob("*.onnx"))
STRATEGIES = {name: cls for name, cls in passes.compared_strategies().items() if name not in NAIVE}


def undemanding(name):
    """For a profile without demands; no operator is quicker in either layout."""
    target = dataclasses.replace(load_profile(name), required_layouts={})
    return PassContext(target, GivenTimes({"Transpose": 1}))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("light") / "squeezenet.onnx"
    path.write_bytes(random_light("squeezenet", narrow=8, classes=10).SerializeToString())
    return load_model(path)


def check(graph, strategy, target):
    before = count_transposes(graph)
    step = run_pass(STRATEGIES[strategy](), graph, undemanding(target))
    assert step.after["bytes_moved"] <= before.bytes_moved
    assert step.after["transposes"] <= before.transposes


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("target", ["cuda", pytest.param("nchw", marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_on_the_samples(path, strategy, target):
    check(load_model(path), strategy, target)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("target", ["cuda", "nchw"])
@pytest.mark.parametrize("written", [nhwc_dataflow, mixed_layouts], ids=lambda f: f.__name__)
def test_on_networks_full_of_transposes(network, written, strategy, target):
    graph = written(network)
    original = graph.copy()
    check(graph, strategy, target)
    inputs = random_inputs(original)
    expected, found = outputs(original, inputs), outputs(graph, inputs)
    for name, numbers in expected.items():
        assert abs(found[name] - numbers).max() <= 1e-5 * max(1, abs(numbers).max())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_on_a_chain_of_blocks(strategy):
    check(residual_chain(4), strategy, "cuda")


def test_greedy_inserts_nothing_on_a_path_without_a_demanding_operator():
    graph = typed("""g (float[1,2,8,8] x, float[1,2,8,8] z) => (float[1,2,4,4] y, float[1,2,8,8] u)
        <float[2,2,1,1] w = {1, 2, 3, 4}> {
        a = Relu(x)
        b = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)
        y = Sigmoid(b)
        u = Conv(z, w)
    }""")
    run_pass(STRATEGIES["greedy"](), graph, PassContext(load_profile("cuda")))
    path = [graph.producer("y"), graph.producer(graph.producer("y").inputs[0])]
    assert [node.op for node in path] == ["Sigmoid", "MaxPool"]
    assert graph.producer(path[1].inputs[0]).inputs == ("x",)
    assert count_transposes(graph).transposes == 2  # round the convolution alone
