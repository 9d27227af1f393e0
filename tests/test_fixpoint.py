"""A preset leaves nothing that its second run would rewrite."""

from dataclasses import dataclass

import pytest

import passes
from sample_models.light import LIGHT_MODELS
from tests.conftest import CORPUS, ROOT
from tests.light_networks import light_file
from tests.running import typed
from workbench.formats.io import load_model
from workbench.interfaces import api
from workbench.ir import Edit, graph_text, to_text
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.repeat import ROUNDS, Repeat
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import Pass, PassContext, Rewrite, option, run_pass

SAMPLES = sorted((ROOT / "sample_models").glob("*.onnx"))
CORPUS_MODELS = sorted(CORPUS.glob("*.onnx"))
PRESETS = [name for name, preset in passes.presets().items() if "fixpoint" in preset["pipeline"]]


@dataclass(frozen=True)
class Swap(Pass):
    """Writes one operator for another, which is wrong, and undone by the other way round."""

    old: str = option("", "The operator that goes.")
    new: str = option("", "The operator that comes.")

    def rewrites(self, graph, context):
        for node in graph.nodes:
            if node.op == self.old:
                yield Rewrite(
                    Edit(remove=(node.name,), insert=(node.replace(op_type=self.new),)), "swapped", (node.name,)
                )


TWICE = """g (float[N] x) => (float[N] y) <float a = {2}, float b = {0.5}> { p = Mul(x, a)  y = Mul(p, b) }"""


def assert_second_run_rewrites_nothing(graph, preset):
    history = api.optimize(graph, preset=preset)
    again = api.optimize(history.graph, preset=preset)
    assert [(s.pass_name, [r.sentence for r in s.rewrites]) for s in again.steps if s.rewrites] == []


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_second_run_rewrites_nothing_on_samples(path, preset):
    assert_second_run_rewrites_nothing(load_model(path), preset)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_second_run_rewrites_nothing_on_light_models(name, preset, tmp_path):
    assert_second_run_rewrites_nothing(load_model(light_file(name, tmp_path)), preset)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("path", CORPUS_MODELS, ids=lambda path: path.stem)
def test_second_run_rewrites_nothing_on_real_models(path, preset):
    assert_second_run_rewrites_nothing(load_model(path), preset)


@pytest.mark.parametrize("name", passes.all_passes())
def test_second_run_rewrites_nothing_on_the_examples_of_every_pass(name):
    for example in passes.all_passes()[name].examples():
        assert_second_run_rewrites_nothing(typed(example.before), "simplify")


def test_every_preset_with_passes_of_its_own_repeats_them():
    """Those that write a runtime's operators run behind all others, once: nothing follows from what they write."""
    others = [name for name in passes.presets() if name not in passes.RUNTIMES]
    assert [name for name in others if passes.presets()[name]["pipeline"] != "layout"] == PRESETS
    assert all(preset["pipeline"].count("fixpoint") <= 1 for preset in passes.presets().values())


def test_times_two_times_half_leaves_nothing():
    graph = typed(TWICE.replace("y = Mul(p, b)", "q = Mul(p, b)  y = Neg(q)"))
    assert [node.op for node in api.optimize(graph, preset="simplify").graph.nodes] == ["Neg"]


def test_there_is_one_step_a_pass_in_order_and_any_moment_of_the_repetition_can_be_had():
    graph = load_model(ROOT / "sample_models" / "silero_vad.onnx")
    history = api.optimize(graph, preset="simplify")
    assert [step.pass_name for step in history.steps[1:]] == list(choose(preset="simplify").names)
    last, count = len(history) - 1, len(history.steps[-1].rewrites)
    assert count > 1 and all(", round " in rewrite.sentence for rewrite in history.steps[-1].rewrites)
    assert graph_text(history.at(last)) == graph_text(history.graph)
    undone = history.graph.copy()
    for rewrite in reversed(history.steps[-1].rewrites):
        undone.apply(rewrite.inverse)
    assert to_text(undone) == to_text(history.at(last, 0)) == to_text(history.at(last - 1))


def test_a_rewrite_of_the_repetition_can_be_left_out():
    passes_ = ["remove_neutral", "algebra_constants", "repeat"]
    text = TWICE.replace("y = Mul(p, b)", "q = Mul(p, b)  y = Neg(q)")
    first = api.optimize(typed(text), passes_).steps[-1].rewrites[0]
    graph = api.optimize(typed(text), passes_[:2]).graph
    repeat, context = choose(passes_).passes[-1], PassContext(load_profile("cuda"))
    assert run_pass(repeat, graph.copy(), context, exclude=[first.id]).rewrites == ()
    assert first.sentence.startswith("remove_neutral, round 1: ") and first.id.rule.startswith("remove_neutral.")


@pytest.mark.parametrize(
    "strategy", [{"layout": "greedy"}, {"precision": "optimal"}, {"layout": "greedy", "precision": "optimal"}]
)
def test_the_passes_of_a_preset_run_again_behind_a_strategy_whose_result_they_clean(strategy):
    *_, strategy_pass, rounds = choose(preset="simplify", **strategy).passes
    assert not strategy_pass.rules and isinstance(rounds, Repeat)
    assert rounds.passes == choose(preset="simplify").passes[:-1]


def test_the_rounds_behind_a_strategy_are_of_the_whole_preset_and_have_no_text():
    pipeline = choose(preset="normalize", layout="greedy")
    *before, inner, rounds = pipeline.passes
    assert [pass_.name for pass_ in inner.passes] == ["dead_nodes", "infer_types"]
    assert rounds.passes == tuple(pass_ for pass_ in before if pass_.name != "layout_greedy")
    assert str(pipeline) == str(choose(str(pipeline))) and choose(str(pipeline)).names == pipeline.names
    assert "repeat" not in choose(preset="none", layout="greedy").names


def test_passes_that_undo_each_other_are_repeated_no_more_than_the_bound_says():
    graph = typed("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    repeat = Repeat((Swap("Neg", "Abs"), Swap("Abs", "Neg")))
    assert len(run_pass(repeat, graph, PassContext(load_profile("cuda"))).rewrites) == 2 * ROUNDS


def test_the_example_of_the_rounds():
    (example,) = Repeat.extra_examples
    graph = typed(example.before)
    step = run_pass(
        Repeat((passes.find_pass("remove_neutral")(), passes.find_pass("algebra_constants")())),
        graph,
        PassContext(load_profile(example.target)),
        check_each=True,
    )
    assert tuple(rewrite.sentence for rewrite in step.rewrites) == example.sentences
    assert graph_text(graph) == graph_text(typed(example.after))
