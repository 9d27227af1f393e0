"""The samples of algebra: each is a rule's example, and opens at its rewrite."""

from __future__ import annotations

import numpy as np
import pytest

import passes
from sample_models.texts import ALGEBRA
from tests.pages import fine, history, page
from tests.running import outputs, random_inputs
from workbench.formats.io import load_model
from workbench.formats.io.samples import FOLDER, samples
from workbench.interfaces.ui.state.address import address_of
from workbench.interfaces.ui.widgets.steps import STEP
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import DEFAULT_MODE, PassContext

OF_ALGEBRA = [sample for sample in samples() if sample.group == "Algebra"]
DOCUMENTED = 14  # rules of the documents: DNNFusion's table 4, what the course adds, involution, idempotence


def rule_of(sample):
    pass_name, rule_name = ALGEBRA[str(sample.file.relative_to(FOLDER))]
    return pass_name, next(rule for rule in passes.find_pass(pass_name).rules if rule.name == rule_name)


def test_each_rule_of_the_documents_has_a_sample_and_they_stand_together_at_the_end():
    assert {str(sample.file.relative_to(FOLDER)) for sample in OF_ALGEBRA} == set(ALGEBRA)
    assert len(ALGEBRA) == len(set(ALGEBRA.values())) == DOCUMENTED
    assert list(samples())[-DOCUMENTED:] == OF_ALGEBRA


@pytest.mark.parametrize("sample", OF_ALGEBRA, ids=lambda sample: sample.file.stem)
def test_a_sample_of_algebra_shows_its_rule_at_the_moment_that_it_names(sample):
    name, rule = rule_of(sample)
    shows = sample.shows
    assert (shows.mode or DEFAULT_MODE) == rule.example.mode and list(shows.passes) == [name]
    graph = load_model(sample.file, sample.dims)
    made = [passes.find_pass(each)() for each in shows.passes]
    done = run_pipeline(graph, made, PassContext(load_profile("cuda"), mode=shows.mode or DEFAULT_MODE))
    sentences = [rewrite.sentence for rewrite in done[shows.step].rewrites]
    assert sentences[shows.rewrite - 1] == rule.example.sentences[-1]
    given = random_inputs(graph)
    before, after = outputs(graph, given), outputs(done.at(shows.step, shows.rewrite), given)
    np.testing.assert_allclose(after["y"], before["y"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("stem", ["reciprocal_of_a_product", "shifted_to_the_left"])
def test_a_link_to_a_sample_of_algebra_is_at_the_rewrite(stem):
    sample = next(one for one in OF_ALGEBRA if one.file.stem == stem)
    at = page("optimize")
    for key, words in {"model": str(sample.file), **address_of(sample.shows)}.items():
        at.query_params[key] = words
    fine(at.run())
    assert [step.title for step in history(at).steps[1:]] == [passes.find_pass(sample.shows.passes[0]).title]
    assert at.session_state[STEP] == sample.shows.step
    (rewrite,) = history(at)[1].rewrites
    assert rewrite.sentence == rule_of(sample)[1].example.sentences[-1]
