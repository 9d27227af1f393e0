"""Where a pass acts and why not elsewhere: what a step considered, from a pass and from a node, and on the command line."""

from __future__ import annotations

import pytest

import passes
from tests.running import typed
from tests.viewing import sample_history
from workbench.formats.io.samples import FOLDER
from workbench.pipeline import running as pipeline
from workbench.planning.layout.profile import load_profile
from workbench.presentation.explanations.explanation import rule_source
from workbench.presentation.explanations.refusals import Considered, considered, refusal_lines
from workbench.presentation.view.why_not import graphs_after, not_run, reasons_of
from workbench.rewrite import Excluded, PassContext, refused_by

CUDA = load_profile("cuda")
TWO = """g (float[1,2,4,4] x, float[2,2,1,1] v) => (float[1,2,4,4] y, float[1,2,4,4] z)
    <float[2,2,1,1] w = {1, 2, 3, 4}, float[2] s = {4, 9}, float[2] b = {1, 1}, float[2] m = {1, 2}, float[2] d = {4, 9}> {
    c = Conv(x, w)
    y = BatchNormalization(c, s, b, m, d)
    e = Relu(x)
    z = BatchNormalization(e, s, b, m, d)
}"""


def ran(text: str, *names: str, mode: str = "ieee"):
    made = [passes.find_pass(name)() for name in names]
    return made, pipeline.run_pipeline(typed(text), made, PassContext(CUDA, mode=mode))


def of_step(history, made, index: int) -> Considered:
    context = PassContext(CUDA, mode=history.mode)
    return considered(history[index], made[index - 1], history.at(index), context, history[index].excluded)


def test_what_a_step_considered_acted_on_and_refused():
    made, history = ran(TWO, "fold_batchnorm")
    found = of_step(history, made, 1)
    assert found.sentence == "considered 2, acted on 1, refused 1"
    assert {group.nodes for group in found.groups} == {("BatchNormalization_z",)}
    assert all("BatchNormalization_z" in line for line in refusal_lines(found))


def test_nodes_of_which_the_same_was_said_are_one_group_without_their_names():
    history = sample_history("resnet50_narrow", "remove_dropout", "remove_noops")
    found = of_step(history, [passes.find_pass(step.pass_name)() for step in history.steps[1:]], 2)
    group = found.groups[0]
    assert (len(group.nodes), group.sentence) == (16, "Sum '…' has 2 operands")
    assert group.reasons[0][1] == f"Sum '{group.nodes[0]}' has 2 operands"
    assert next(refusal_lines(found)).endswith("and 11 more)")


def test_a_pass_that_changed_nothing_has_run_and_says_at_what_it_looks():
    made, history = ran(TWO, "remove_dropout", "share_constants")
    assert of_step(history, made, 1).sentence == ("changed nothing; no node has an operator that it looks at (Dropout)")
    assert "decides about the whole graph" in of_step(history, made, 2).sentence


def test_a_layout_strategy_says_what_the_contract_of_each_node_left_in_its_layout_says():
    history = sample_history("npu_types", "fold_batchnorm", "layout_greedy")
    made = [passes.find_pass(step.pass_name)() for step in history.steps[1:]]
    found = of_step(history, made, 2)
    assert found.acted == len(history[2].rewrites) and found.refused > 0
    assert all(node in history.graph for group in found.groups for node in group.nodes)


def test_a_grouping_says_why_its_groups_end():
    history = sample_history("ppocr_cls_v2", "fuse_groups")
    found = of_step(history, [passes.find_pass("fuse_groups")()], 1)
    assert found.refused == len(history[1].facts.refusals) > 0


def test_what_mode_or_verification_holds_back_is_said():
    made, history = ran(TWO, "fold_batchnorm", mode="exact")
    assert any("would act here, but not in mode exact" in group.sentence for group in of_step(history, made, 1).groups)
    made, whole = ran(TWO, "fold_batchnorm")
    done = whole[1].rewrites[0]
    excluded = [Excluded("fold_batchnorm", done.id, done.sentence, "it was wrong")]
    left = pipeline.run_pipeline(typed(TWO), made, PassContext(CUDA), excluded=excluded)
    said = [group.sentence for group in of_step(left, made, 1).groups]
    assert f"left out, since results differ with it: {done.sentence}" in said


def test_nodes_in_bodies_are_considered_under_the_node_that_holds_them():
    history = sample_history("silero_vad", "remove_noops")
    pass_ = passes.find_pass("remove_noops")()
    inner = [said for said in refused_by(pass_, history.graph, PassContext(CUDA)) if said.sentence.startswith("in ")]
    assert inner and all(history.graph.node(said.node).bodies for said in inner)


def test_a_node_tells_what_every_pass_said_of_it():
    made, history = ran(TWO, "remove_dropout", "fold_batchnorm")
    said = reasons_of(
        history, graphs_after(history), made, CUDA, ["BatchNormalization_y", "BatchNormalization_z", "Conv_c"]
    )
    (acted,) = said["BatchNormalization_y"]
    assert (acted.step, acted.t, acted.acted, acted.sentence) == (2, 1, True, history[2].rewrites[0].sentence)
    refused = said["BatchNormalization_z"]
    assert refused and not any(each.acted for each in refused) and {each.step for each in refused} == {2}
    assert said["Conv_c"][0].acted
    extra = passes.find_pass("fuse_conv")()
    assert not_run(history, [*made, extra]) == [extra]


def test_asking_changes_no_graph():
    made, history = ran(TWO, "fold_batchnorm", "layout_greedy", "common_subexpressions")
    before = history.graph.copy()
    for index in (1, 2, 3):
        of_step(history, made, index)
    assert tuple(history.graph.nodes) == tuple(before.nodes)


@pytest.mark.parametrize("name", passes.all_passes())
def test_every_rule_has_source_lines(name):
    cls = passes.find_pass(name)
    for rule in cls.rules:
        sources = rule_source(cls, rule)
        assert sources and all(source.file.endswith(f"/{name}.py") for source in sources)
        text = (FOLDER.parent / "passes" / sources[0].file).read_text(encoding="utf-8").splitlines()
        first = sources[0].text.splitlines()[0].strip()
        assert text[sources[0].line - 1].strip().startswith(first[:20]), (name, rule.name)


def test_explain_with_a_model_prints_the_same_words(done, refused):
    said = done("explain", "fold_batchnorm", FOLDER / "resnet50_narrow.onnx").splitlines()
    assert said[0] == "fold_batchnorm: considered 53, acted on 53, refused 0"
    said = done("explain", "remove_noops", FOLDER / "resnet50_narrow.onnx", "--passes", "fold_batchnorm").splitlines()
    assert said[0] == "remove_noops: considered 18, acted on 0, refused 18"
    assert "Sum '…' has 2 operands" in said[1]
    assert "there is no pass 'nosuch'" in refused("explain", "nosuch", FOLDER / "resnet50_narrow.onnx")
