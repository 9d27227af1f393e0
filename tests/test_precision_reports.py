"""What the workbench says of reports that users filed on float16, each rebuilt small, and what it writes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.conftest import ROOT
from tests.precision_reports import REPORTS, Report
from tests.running import outputs, typed
from workbench.interfaces import api
from workbench.ir import Graph, to_text
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.registry.reading import precision_strategy
from workbench.planning.layout.profile import load_profile
from workbench.planning.precision.precision_facts import PrecisionFacts
from workbench.rewrite import PassContext, run_pass
from workbench.run.precision_effects import loss_sentence, precision_effects
from workbench.run.value_recording import RunRecorder

CPU = load_profile("cpu")
reports = pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.issues[0])


def simplified(report: Report) -> Graph:
    return api.optimize(typed(report.text), preset="simplify").graph


def converted(graph: Graph, report: Report, worker, strategy: str, **options: object) -> tuple[Graph, PrecisionFacts]:
    recorder = RunRecorder(worker, lambda _: [report.inputs])
    return graph, run_pass(precision_strategy(strategy, options), graph, PassContext(CPU, recorder)).facts


def casts(graph: Graph) -> int:
    return sum(node.op == "Cast" for node in graph.nodes)


@reports
@pytest.mark.parametrize("strategy", library.precision_strategies())
def test_the_file_is_valid_gives_the_same_numbers_and_says_what_stays(report, strategy, kept_worker, tmp_path):
    graph, facts = converted(simplified(report), report, kept_worker, strategy, max_error=report.max_error)
    original = typed(report.text)
    api.export(graph, tmp_path / "model.onnx")
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    expected, found = outputs(original, report.inputs)["y"], outputs(graph, report.inputs)["y"]
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2 * np.abs(expected[np.isfinite(expected)]).max())
    if strategy == "optimal" or not report.max_error:
        assert report.kept.items() <= kept(facts).items()
    if strategy == "optimal":
        assert facts.certified and (casts(original), casts(graph)) == report.casts


def kept(facts: PrecisionFacts) -> dict[str, str]:
    return {kept.node: kept.why for kept in facts.kept}


@reports
def test_the_first_line_of_the_command_names_the_operator(report, kept_worker):
    if report.explained:
        graph = simplified(report)
        effects = precision_effects(graph, inputs=report.inputs, worker=kept_worker)
        assert loss_sentence(graph, effects, "float16") == report.explained


def test_one_run_has_the_error_of_each_operator_and_what_stays_is_no_more_than_is_needed(kept_worker):
    """Not all operators before the fault, as a bisection over their order says; NVIDIA/TensorRT#4616."""
    [report] = [report for report in REPORTS if report.max_error]
    graph = simplified(report)
    effects = precision_effects(graph, inputs=report.inputs, worker=kept_worker)
    assert [effect.node for effect in effects] == [node.name for node in graph.nodes if node.op != "Greater"]
    order = [node.name for node in graph.nodes]
    _, facts = converted(graph, report, kept_worker, "record-then-insert", max_error=report.max_error)
    assert facts.fitted.needed and facts.fitted.kept.keys() == {"Add_above", "Sub_difference"}
    assert order.index("Add_above") == 2 and facts.fitted.error < report.max_error < facts.fitted.error_before


def test_a_graph_of_which_all_is_kept_stays_as_it_is(kept_worker):
    """The user of onnxruntime#21345 blocked every node, and got NaN."""
    original = typed(REPORTS[0].text)
    graph, facts = converted(original.copy(), REPORTS[0], kept_worker, "optimal", keep="*")
    assert to_text(graph) == to_text(original) and not facts.casts


ROOT_OF_SQUARES = Report(
    issues=("a root that is divided by",),
    saw="",
    rebuilt="",
    text="""g (float[4] x, float[4] v) => (float[4] y) <int64[2] shape = {2, 2}, int64[1] flat = {-1}> {
        scaled = Mul(v, v)  square = Reshape(scaled, shape)  root = Sqrt(square)  row = Reshape(root, flat)
        y = Div(x, row)
    }""",
    inputs={"x": np.array([0, 0.25, 2, 3], np.float32), "v": np.array([1e-4, 1e-4, 2, 3], np.float32)},
    explained="",
    casts=(0, 0),
    kept={"Sqrt_root": "an element of 'square' is 1e-08, which float16 rounds to 0"},
)
EXPANDED = replace(REPORTS[0], kept={"Expand_divisor": "an element of 'clipped' is 1e-12, which float16 rounds to 0"})


@pytest.mark.parametrize("report", [ROOT_OF_SQUARES, EXPANDED], ids=lambda report: report.issues[0])
@pytest.mark.parametrize("strategy", library.precision_strategies())
def test_a_divisor_is_not_rounded_before_it_reaches_the_division(report, strategy, kept_worker):
    """The graph is not simplified. In float32 the division by what was rounded to 0 gives NaN all the same."""
    original = typed(report.text)
    graph, facts = converted(original.copy(), report, kept_worker, strategy)
    expected, found = outputs(original, report.inputs)["y"], outputs(graph, report.inputs)["y"]
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    assert report.kept.items() <= kept(facts).items()


def test_the_page_of_reports_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from make_precision_reports import document

    page = ROOT / "docs" / "precision-reports.md"
    assert page.read_text(encoding="utf-8") == document(), "run `python docs/make_precision_reports.py`"
