"""Histories: any moment of them, reports, a pass that is wrong, a pass that does not end."""

import dataclasses
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.running import outputs, random_inputs, typed
from workbench.evidence.verification.steps import verify_step
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.interfaces import api
from workbench.ir import Edit, Graph, Node, constant, graph_text
from workbench.pipeline import running as pipeline
from workbench.pipeline.registry.pass_choice import choose
from workbench.planning.layout.profile import load_profile
from workbench.presentation.explanations.reporting import history_report, step_report
from workbench.rewrite import (
    Exactness,
    NoMatch,
    OptionError,
    Pass,
    PassContext,
    Rewrite,
    Rule,
    option,
    run_pass,
    with_options,
)
from workbench.rewrite.core.greedy_driver import RunawayError

SAMPLE = ROOT / "sample_models" / "resnet50_narrow.onnx"


@pytest.fixture(scope="module")
def history():
    return api.optimize(load_model(SAMPLE), layout="greedy", target="cuda")


def test_step_zero_is_the_graph_as_loaded(history):
    assert history[0].pass_name == "as loaded"
    assert graph_text(history.at(0)) == graph_text(load_model(SAMPLE))
    assert [s.pass_name for s in history.steps[1:]] == list(choose(layout="greedy").names)


def test_the_last_moment_is_the_result(history):
    assert graph_text(history.at(len(history) - 1)) == graph_text(history.graph)


def test_every_moment_computes_the_same(history):
    inputs = random_inputs(history.initial)
    expected = outputs(history.initial, inputs)
    for step in (s for s in range(len(history)) if history[s].pass_name in ("fold_batchnorm", "layout_greedy")):
        count = len(history[step].rewrites)
        assert count > 50
        for done in (1, count // 3, count // 2, count):
            for name, array in outputs(history.at(step, done), inputs).items():
                np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-7)


def test_a_pipeline_leaves_the_graph_that_it_was_given_alone():
    graph = load_model(SAMPLE)
    before = graph_text(graph)
    api.optimize(graph, layout="greedy", target="cuda")
    assert graph_text(graph) == before


def test_the_report_has_the_words_that_others_depend_on(history):
    report = history_report(history)
    fields = {
        "rewrites", "nodes_before", "nodes_after", "transposes_before", "transposes_after",
        "elements_moved_before", "elements_moved_after", "seconds", "verified", "max_abs_error", "max_rel_error",
    }  # fmt: skip
    assert fields | {"pass"} <= set(report["steps"][0])
    assert fields <= set(report["totals"])
    assert report["totals"]["nodes_before"] == 176
    assert report["totals"]["nodes_after"] == len(history.graph)
    for step, after in zip(report["steps"], report["steps"][1:], strict=False):
        assert step["nodes_after"] == after["nodes_before"]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("layout", ["greedy", "record-then-insert"])
def test_passes_are_right_for_every_value_of_a_symbolic_dim(layout):
    """Bound to one size for the costs, run at others."""
    graph = load_model(ROOT / "sample_models" / "ppocr_cls_v2.onnx")
    optimized = api.optimize(graph, layout=layout, target="npu").graph
    assert optimized.tensor_type("x").shape == graph.tensor_type("x").shape
    for shape in ((1, 3, 48, 192), (3, 3, 64, 96), (2, 3, 33, 100)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        expected = outputs(graph, {"x": x})
        for name, array in outputs(optimized, {"x": x}).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-6)


# ---- a pass that is wrong --------------------------------------------------------------


def _double_a_bias(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    if node.name != pass_.which or node.inputs[1].endswith("_doubled"):
        raise NoMatch("it is another node")
    name = f"{node.inputs[1]}_doubled"
    wrong = constant(graph.constants[node.inputs[1]].numpy() * 2)
    edit = Edit(remove=(node.name,), insert=(node.replace(inputs=(node.inputs[0], name)),), constants={name: wrong})
    return Rewrite(edit, f"the constant of {node} is doubled", (node.name,))


def _rename_a_relu(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    if node.metadata:
        raise NoMatch("it is marked")
    changed = node.replace(metadata={"seen": "yes"})
    return Rewrite(Edit(remove=(node.name,), insert=(changed,)), f"{node} is marked", (node.name,))


@dataclass(frozen=True)
class Wrong(Pass):
    """Marks every Relu, and spoils one Add between."""

    title = "A pass that is wrong"
    which: str = option("Add_d", "The node to spoil.")
    rules = (
        Rule("mark", ("Relu",), _rename_a_relu, None, exactness=Exactness.BIT_EXACT),
        Rule("spoil", ("Add",), _double_a_bias, None, exactness=Exactness.BIT_EXACT),
    )


TEXT = """g (float[4] x) => (float[4] y) <float[4] c = {1, 2, 3, 4}> {
    a = Relu(x)  b = Relu(a)  d = Add(b, c)  e = Relu(d)  f = Relu(e)  y = Neg(f) }"""


def test_a_wrong_rewrite_is_found_by_bisecting():
    graph = typed(TEXT)
    with Verifier(graph) as verifier:
        history = pipeline.run_pipeline(
            graph,
            [Wrong()],
            PassContext(load_profile("npu")),
            after_step=partial(verify_step, verifier),
            check_each=True,
        )
    step = history[1]
    assert step.verdict.ok is False
    assert history.failed is step
    assert step.rewrites[step.broken_by].sentence == "the constant of Add 'Add_d' is doubled"
    assert step_report(step)["verified"] is False
    assert step_report(step)["broken_by"] == "the constant of Add 'Add_d' is doubled"


def _flip(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    other = {"Relu": "Abs", "Abs": "Relu"}[node.op]
    return Rewrite(Edit(remove=(node.name,), insert=(node.replace(op_type=other),)), f"{node} is flipped", (node.name,))


@dataclass(frozen=True)
class Endless(Pass):
    """Two rules that undo each other."""

    title = "A pass without an end"
    rules = (Rule("flip", ("Relu", "Abs"), _flip, None, exactness=Exactness.BIT_EXACT),)


def test_a_pass_that_does_not_end_is_stopped():
    with pytest.raises(RunawayError, match="does not end"):
        run_pass(Endless(), typed(TEXT), PassContext(load_profile("npu")))


class Stopped(Exception):
    pass


def test_a_pipeline_can_be_stopped_between_rewrites():
    def stop(progress):
        if progress.rewrites == 3:
            raise Stopped

    with pytest.raises(Stopped):
        api.optimize(load_model(SAMPLE), on_progress=stop)


# ---- options ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Optional_(Pass):
    """Has one option of each kind."""

    title = "Options"
    flag: bool = option(True, "A switch.")
    limit: int = option(10, "A number.", least=1)
    share: float = option(0.5, "A share.")
    kind: str = option("a", "A choice.", choices=("a", "b"))


def test_options_are_read_from_text():
    read = with_options(Optional_, {"flag": "off", "limit": "1_000", "share": "0.25", "kind": "b"})
    assert dataclasses.astuple(read) == (False, 1000, 0.25, "b")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nothing": "1"}, "has no option 'nothing'; its options are: flag, limit, share, kind"),
        ({"flag": "perhaps"}, "is on or off, not 'perhaps'"),
        ({"limit": "many"}, "must be a number, not 'many'"),
        ({"limit": "0"}, "must be at least 1, not 0"),
        ({"share": "nan"}, "must be a finite number, not nan"),
        ({"kind": "c"}, "must be one of a, b, not 'c'"),
    ],
)
def test_a_bad_option_is_one_sentence(options, words):
    with pytest.raises(OptionError, match=words):
        with_options(Optional_, options)
