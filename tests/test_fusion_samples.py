"""The samples of fusion: each opens at the rewrite that it is for, and computes what it computed."""

from __future__ import annotations

import numpy as np
import pytest

import passes
from tests.pages import fine, history, page
from tests.running import outputs, random_inputs
from workbench.formats.io import load_model
from workbench.formats.io.samples import samples
from workbench.interfaces.ui.state.address import address_of
from workbench.interfaces.ui.widgets.steps import STEP
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import DEFAULT_MODE, PassContext

OF_FUSION = {sample.file.stem: sample for sample in samples() if sample.group == "Fusion"}
SHOWN = {
    "conv_and_maximum": ("Conv 'conv2' (out-elementwise-fusable) joins its post-dominator Max 'y'", 2),
    "resnet_module": ("2 nodes, from Conv 'conv2' to Relu 'y', become workbench.ConvRelu of", 2),
    "fixed_combinations": ("2 nodes, from Conv 'conv1' to Relu 'relu1', become workbench.ConvRelu of 'x'", 6),
    "kernel_of_one_element": (
        "2 kernels, Conv 'one' (enlarged from [1, 1] to [3, 3]) and Conv 'nine', become one kernel with 8",
        3,
    ),
}


def run(sample):
    graph = load_model(sample.file, sample.dims)
    made = [passes.find_pass(each)() for each in sample.shows.passes]
    return run_pipeline(graph, made, PassContext(load_profile("cuda"), mode=sample.shows.mode or DEFAULT_MODE))


def test_every_sample_of_fusion_is_tested():
    assert set(OF_FUSION) == set(SHOWN)


@pytest.mark.parametrize("stem", SHOWN)
def test_a_sample_of_fusion_shows_what_it_is_for(stem):
    sentence, _ = SHOWN[stem]
    done, shows = run(OF_FUSION[stem]), OF_FUSION[stem].shows
    assert done[shows.step].rewrites[shows.rewrite - 1].sentence.startswith(sentence)
    given = random_inputs(done.at(0))
    before = outputs(done.at(0), given)
    for graph in (done.at(shows.step, shows.rewrite), done.graph):
        np.testing.assert_allclose(outputs(graph, given)["y"], before["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stem", SHOWN)
def test_what_is_left_of_a_sample_of_fusion(stem):
    assert len(run(OF_FUSION[stem]).graph.nodes) == SHOWN[stem][1]


def test_groups_of_one_form():
    """Conv and Relu, Conv and Max with 0: both are groups by the kinds of their operators alone."""
    kinds = [
        sorted({node.op_type for node in done_group}) for done_group in groups_of(run(OF_FUSION["conv_and_maximum"]))
    ]
    assert kinds == [["Conv", "Relu"], ["Conv", "Max"]]


def groups_of(done):
    functions = done.graph.functions
    return [functions[node.domain, node.op_type, node.overload].graph.nodes for node in done.graph.nodes if node.domain]


@pytest.mark.parametrize("stem", SHOWN)
def test_a_link_to_a_sample_of_fusion_is_at_the_rewrite(stem):
    sample, at = OF_FUSION[stem], page("optimize")
    for key, words in {"model": str(sample.file), **address_of(sample.shows)}.items():
        at.query_params[key] = words
    fine(at.run())
    assert at.session_state[STEP] == sample.shows.step
    found = history(at)[sample.shows.step].rewrites[sample.shows.rewrite - 1]
    assert found.sentence.startswith(SHOWN[stem][0])
