"""Pipelines as values and as text: what is written is read back, and a pass stands as often as one likes."""

import random

import pytest

import passes
from tests.running import typed
from workbench.interfaces import api
from workbench.interfaces.ui.state.rows import pipeline_of, to_rows
from workbench.pipeline.pipeline import Fixpoint, LayoutSlot, Pipeline
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.registry.reading import PipelineError, layout_strategy, preset, read_pipeline, shortest_text
from workbench.pipeline.repeat import Repeat
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import Excluded, OptionError, PassContext, with_options
from workbench.rewrite.core.identity import RENAMED_RULES, RewriteId, read_rewrite_id
from workbench.rewrite.core.refusing import refused_by

PASSES = passes.all_passes()
STRATEGIES = passes.strategies()


def any_pipeline(seed: int) -> Pipeline:
    """Random parts: passes, some with other options, fixpoints in fixpoints, strategies, the place of one."""
    draw = random.Random(seed)

    def part(depth: int):
        kind = draw.random()
        if kind < 0.15 and depth < 3:
            return Fixpoint([part(depth + 1) for _ in range(draw.randint(1, 3))], draw.choice((1, 3, 10)))
        if kind < 0.2:
            return LayoutSlot()
        if kind < 0.3:
            return layout_strategy(draw.choice(list(STRATEGIES)))
        cls = PASSES[draw.choice(list(PASSES))]
        return with_options(cls, {name: other_value(draw, cls, field) for name, field in cls.option_fields().items()})

    return Pipeline(part(0) for _ in range(draw.randint(0, 6)))


def other_value(draw, cls, field):
    """A value that the option takes: its default, or another one."""
    choices = field.metadata.get("choices")
    if choices:
        return draw.choice(list(choices))
    if isinstance(field.default, bool):
        return draw.choice((True, False))
    if isinstance(field.default, int | float):
        return field.default + draw.choice((0, 1))
    return draw.choice((field.default, 'images:0=N, "x" {y}', "a b", ""))


@pytest.mark.parametrize("seed", range(200))
def test_the_text_of_a_pipeline_reads_back(seed):
    pipeline = any_pipeline(seed)
    assert read_pipeline(str(pipeline)) == pipeline
    assert read_pipeline(shortest_text(pipeline)) == pipeline
    if '"' not in str(pipeline):
        assert read_pipeline(str(pipeline).replace(",", " ,\n ").replace("(", " ( ")) == pipeline


@pytest.mark.parametrize("seed", range(100))
def test_the_rows_of_a_pipeline_make_it_again(seed):
    """But for places of a strategy beside the first strategy: there is one."""
    pipeline = any_pipeline(seed)
    rows = to_rows(pipeline)
    again = pipeline_of(rows.keys, lambda key: True, rows.options, rows.rounds, rows.strategy)
    assert len(set(rows.keys)) == len(rows.keys)
    wanted = [one for one in pipeline.passes if not isinstance(one, Repeat)]
    assert [one for one in again.passes if not isinstance(one, Repeat)] == wanted


def test_one_place_for_the_strategy_and_rows_of_their_own_for_others():
    rows = to_rows(read_pipeline("layout,layout_greedy,dead_nodes,layout_optimal,layout_greedy"))
    assert rows.keys == ["layout", "dead_nodes", "layout_optimal#2", "layout_greedy#2"]
    assert rows.strategy == layout_strategy("greedy")


@pytest.mark.parametrize("name", passes.presets())
def test_every_preset_has_its_name_as_its_shortest_text(name):
    entry = passes.presets()[name]
    assert shortest_text(preset(name)) == entry.get("alias", name)
    assert read_pipeline(name) == preset(name)


def test_a_preset_stands_among_parts():
    pipeline = read_pipeline("simplify,layout{strategy=optimal weigh=time}")
    assert pipeline.parts[:-1] == preset("simplify").parts
    assert shortest_text(pipeline) == "simplify,layout{strategy=optimal weigh=time}"


def test_a_pass_stands_twice_with_two_options():
    """The first place may make 8 bytes of constants and the second more."""
    constants = "<float[4] a = {1, 2, 3, 4}, float[4] b = {5, 6, 7, 8}>"
    graph = typed(f"g (float[4] x) => (float[4] y) {constants} {{ c = Add(a, b)  y = Mul(x, c) }}")
    history = api.optimize(graph, "fold_constants{max_bytes=8},dead_nodes,fold_constants{max_bytes=16}")
    assert [step.label for step in history.steps[1:]] == ["fold_constants", "dead_nodes", "fold_constants#2"]
    assert [step.options for step in history.steps if step.options] == [{"max_bytes": 8}, {"max_bytes": 16}]
    assert [len(step.rewrites) for step in history.steps[1:]] == [0, 0, 1]


def test_a_fixpoint_runs_its_parts_and_then_what_is_behind_its_layout_strategy_again():
    pipeline = read_pipeline(
        "fixpoint{rounds=3}(dead_nodes,layout{strategy=greedy},fixpoint(cancel_pairs),infer_types)"
    )
    names = [pass_.name for pass_ in pipeline.passes]
    assert names == ["dead_nodes", "layout_greedy", "cancel_pairs", "repeat", "infer_types", "repeat"]
    inner, outer = (pass_ for pass_ in pipeline.passes if isinstance(pass_, Repeat))
    assert [p.name for p in inner.passes] == ["cancel_pairs"] and inner.rounds == 10
    assert [p.name for p in outer.passes] == ["cancel_pairs", "infer_types"] and outer.rounds == 3


def test_repeat_as_older_versions_wrote_it():
    assert read_pipeline("dead_nodes,cancel_pairs,repeat,infer_types") == read_pipeline(
        "fixpoint(dead_nodes,cancel_pairs),infer_types"
    )


def test_the_strategy_comes_to_its_place_or_to_the_end():
    greedy = layout_strategy("greedy")
    assert choose("dead_nodes,layout,infer_types", layout="greedy").passes[1] == greedy
    assert choose("dead_nodes", layout="greedy").passes[-1] == greedy
    assert choose("layout_greedy,dead_nodes", layout="greedy").passes[0] == greedy
    assert [p.name for p in choose("dead_nodes,layout,infer_types").passes] == ["dead_nodes", "infer_types"]


def test_options_by_name_go_to_every_place_of_the_pass():
    chosen = choose("fuse_groups{max_operators=3},fuse_groups", options={"fuse_groups.past_products": "on"})
    assert [(p.max_operators, p.past_products) for p in chosen.passes] == [(3, True), (256, True)]
    with pytest.raises(OptionError, match=r"option 'dead\.x' is not of a pass that runs"):
        choose("dead_nodes", options={"dead.x": 1})


REFUSED = {
    "simplfy": "there is no pass 'simplfy'; did you mean the preset 'simplify'?",
    "dead_nodes{x=1}": "pass dead_nodes has no option 'x'",
    "layout{strategy=optimsl}": "there is no layout strategy 'optimsl'; did you mean 'optimal'?",
    "layout{weigh=time}": "layout needs strategy=NAME",
    "fixpoint(dead_nodes": "')' is missing at the end",
    "fixpoint{rounds=0}(dead_nodes)": "rounds is a number of at least 1, not '0'",
    "fixpoint{turns=2}(dead_nodes)": "a fixpoint has no option 'turns', only rounds",
    "dead_nodes dead_nodes": "'dead_nodes' stands where a comma or the end is expected",
    "dead_nodes)": "')' stands where a comma or the end is expected",
    'fuse_groups{device="\\x"}': "is not a JSON string",
    'free_dims{axes="images': "is not a part of a pipeline",
    "simplify{rounds=2}": "'simplify' is a preset, which has no options",
    "{": "'{' stands where a pass is expected",
    "fixpoint(" * 30 + "dead_nodes" + ")" * 30: "more than 20 nested fixpoints",
    "dead_nodes" + ",repeat" * 400: "more than 20 nested fixpoints",
    f"fixpoint{{rounds={'9' * 5000}}}(dead_nodes)": "rounds is a number of at least 1",
    "fuse_groups{max_operators=1 max_operators=2}": "the option 'max_operators' is given twice",
    'fuse_groups{device="a\nb': "is not a part of a pipeline",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_what_cannot_be_read_is_one_sentence(text):
    with pytest.raises((PipelineError, OptionError, passes.PassError)) as caught:
        choose(text)
    assert REFUSED[text] in str(caught.value) and len(str(caught.value)) < 500 and "\n" not in str(caught.value)


def test_the_identity_of_a_rewrite_is_not_its_sentence():
    graph = typed("g (float[N] x) => (float[N] y) { a = Neg(x)  b = Neg(a)  c = Exp(b)  d = Neg(c)  y = Neg(d) }")
    history = api.optimize(graph, "algebra_inverse")
    ids = [rewrite.id for rewrite in history.steps[1].rewrites]
    assert len(set(ids)) == len(ids) > 0 and all(read_rewrite_id(str(one)) == one for one in ids)
    assert ids[0].rule in {rule.name for rule in PASSES["algebra_inverse"].rules} and ids[0].node in graph
    assert all(
        rewrite.rule is not None and rewrite.pass_name == "algebra_inverse" for rewrite in history.steps[1].rewrites
    )


@pytest.mark.parametrize("one", [RewriteId("a.b", "loop/body/x#y@z", 3), RewriteId("", "", 0)], ids=str)
def test_an_identity_reads_back(one):
    assert read_rewrite_id(str(one)) == one


def test_links_with_former_names_of_rules_are_read():
    for former, name in RENAMED_RULES.items():
        pass_name, _, old = former.partition(".")
        rules = {rule.name for rule in PASSES[pass_name].rules}
        assert name in rules and old not in rules
        assert read_rewrite_id(f"{old}@Conv_3#0", f"{pass_name}#2") == RewriteId(name, "Conv_3", 0)
        assert read_rewrite_id(f"{former}@Conv_3#0", "repeat") == RewriteId(f"{pass_name}.{name}", "Conv_3", 0)
    assert read_rewrite_id("twice@Neg_b#0", "algebra_inverse") == RewriteId("twice", "Neg_b", 0)


@pytest.mark.parametrize(
    "text", ["", "a@b#" + "9" * 5000, "a@b#٣", "fold_pad", "a@b", "a@b#", "a@b#-1", "a: a sentence of an older version"]
)
def test_other_texts_are_no_identity(text):
    assert read_rewrite_id(text) is None


LEFT = (
    """g (float[N] x) => (float[N] y) <float a = {2}, float b = {0.5}> { p = Mul(x, a)  q = Mul(p, b)  y = Neg(q) }"""
)


def rewrites_without(text: str, *excluded: Excluded) -> dict[str, int]:
    """How many rewrites each step does without those."""
    context = PassContext(load_profile("cuda"))
    history = run_pipeline(typed(LEFT), read_pipeline(text), context, excluded=excluded)
    return {step.label: len(step.rewrites) for step in history.steps[1:]}


def first_rewrite(text: str) -> Excluded:
    step = run_pipeline(typed(LEFT), read_pipeline(text), PassContext(load_profile("cuda"))).steps[1]
    return Excluded(step.label, step.rewrites[0].id)


def test_what_one_place_leaves_out_is_done_by_no_other_and_in_no_round():
    out = first_rewrite("algebra_constants")
    alike = "fixpoint(algebra_constants,remove_neutral)"
    assert rewrites_without(alike) != rewrites_without(alike, out)
    assert set(rewrites_without(alike, out).values()) == {0}
    assert set(rewrites_without("algebra_constants,dead_nodes,algebra_constants", out).values()) == {0}
    second = Excluded("algebra_constants#2", out.rewrite)
    assert rewrites_without("algebra_constants,dead_nodes,algebra_constants", second)["algebra_constants"] == 0


def test_a_pass_that_is_left_out_as_a_whole_runs_nowhere():
    whole = Excluded("algebra_constants", None)
    assert rewrites_without("fixpoint(algebra_constants,remove_neutral),algebra_constants", whole) == {
        "remove_neutral": 0,
        "repeat": 0,
    }


def test_what_is_left_out_in_a_body_is_said_of_it_there():
    graph = typed(
        """g (bool c, float[N] x) => (float[N] y) <float a = {2}, float b = {0.5}> {
            y = If (c) <
                then_branch = t () => (float[N] r) { p = Mul(x, a)  q = Mul(p, b)  r = Neg(q) },
                else_branch = e () => (float[N] s) { s = Identity(x) }
            >
        }"""
    )
    pass_, context = PASSES["algebra_constants"](), PassContext(load_profile("cuda"))
    (done,) = run_pipeline(graph, [pass_], context).steps[1].rewrites
    assert done.id.node.startswith("If_y/then_branch/")
    refused = [one.sentence for one in refused_by(pass_, graph, context, excluded=[done.id])]
    assert any("left out, since results differ with it" in sentence for sentence in refused)
    other = RewriteId(done.id.rule, done.id.node.rpartition("/")[2], 0)  # of the main graph
    assert not any("left out" in one.sentence for one in refused_by(pass_, graph, context, excluded=[other]))


@pytest.mark.parametrize("parts", [["dead_nodes"], [PASSES["dead_nodes"]], [None]], ids=str)
def test_what_is_no_part_is_refused(parts):
    with pytest.raises(TypeError, match="is not a part of a pipeline"):
        Pipeline(parts)
    if not isinstance(parts[0], str):
        with pytest.raises(TypeError, match="is not a part of a pipeline"):
            choose(parts)


def test_texts_and_parts_in_one_list():
    dead = PASSES["dead_nodes"]()
    assert choose(iter(["dead_nodes", dead, "repeat"])) == Pipeline([Fixpoint([dead, dead])])
    assert choose([" dead_nodes ", "", "cancel_pairs,"]) == choose("dead_nodes,,cancel_pairs")
    with pytest.raises(ValueError, match="at least one round"):
        Fixpoint([dead], rounds=0)
    assert str(Pipeline([Pipeline(), dead])) == "dead_nodes"


def test_the_rounds_have_no_options_by_name():
    with pytest.raises(OptionError, match=r"is not of a pass that runs|is for no pass that runs"):
        choose(["dead_nodes", "repeat"], options={"repeat.rounds": 3})


def test_the_rounds_can_be_explained():
    assert "Repeat until nothing changes" in api.explain("repeat")
