"""Two pipelines of one model, stepped together: one clock, both graphs as they are, the differences counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.browser import settle
from tests.pages import fine, opened_sample, page
from workbench.formats.io import load_model
from workbench.formats.io.samples import samples
from workbench.interfaces.api import optimize
from workbench.interfaces.ui.screens.lockstep_page import _run
from workbench.interfaces.ui.state.pipelines import keep_pipeline, spec_of, title_of
from workbench.interfaces.ui.state.work import Stopped
from workbench.ir import graph_text
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.lockstep import in_lockstep

DEFAULT = "record-then-insert", "greedy"


def histories(stem: str, first: dict, second: dict):
    sample = next(s for s in samples() if s.file.stem == stem)
    graph = load_model(sample.file, sample.dims)
    return optimize(graph, **first), optimize(graph, **second)


def counts(history) -> list[int]:
    return [len(step.rewrites) for step in history.steps]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"layout": "record-then-insert", "target": "npu"}, {"layout": "greedy", "target": "npu"}),
        ({"preset": "simplify"}, {"layout": "optimal"}),
        ({"passes": []}, {"passes": ["dead_nodes", "fold_constants"]}),
    ],
    ids=["two strategies", "two presets", "nothing and something"],
)
def test_both_have_the_same_steps_and_moments_and_their_graphs_are_their_own(first, second):
    pair = histories("npu_reshape_add", first, second)
    aligned = in_lockstep(*pair)
    assert counts(aligned[0]) == counts(aligned[1])
    for history, before in zip(aligned, pair, strict=True):
        assert graph_text(history.at(len(history) - 1)) == graph_text(before.graph)
        assert [s.pass_name for s in history.steps if s.pass_name] == [s.pass_name for s in before.steps]


def test_a_step_that_one_pipeline_does_not_have_waits_and_says_so():
    nothing, _ = in_lockstep(*histories("npu_path", {"passes": []}, {"passes": ["layout_greedy"], "target": "npu"}))
    waiting = nothing.steps[1]
    assert waiting.title == "not in this pipeline: Layout: greedy in order"
    assert {rewrite.sentence for rewrite in waiting.rewrites} == {"nothing to do here; the other pipeline goes on"}
    assert waiting.after == nothing.steps[0].after


def test_one_that_is_done_earlier_says_so():
    cuda = {"target": "cuda"}
    left, right = in_lockstep(*histories("npu_path", {"layout": DEFAULT[0], **cuda}, {"layout": DEFAULT[1], **cuda}))
    step = next(index for index, step in enumerate(left.steps) if step.pass_name.startswith("layout_"))
    assert left[step].rewrites[-1].sentence != right[step].rewrites[-1].sentence
    assert right[step].rewrites[-1].sentence == "all 2 rewrites of this step are done; the other pipeline goes on"


def test_the_page_counts_the_differences_below():
    at = page("lockstep", opened_sample("npu_reshape_add"))
    at.session_state["target"] = "npu"
    fine(at.run())
    rows = at.dataframe[0].value.to_dict("records")
    assert {"rewrites", "nodes", "transposes", "elements moved", "bytes moved"} == {row[""] for row in rows}
    left, right = (f"layout: {name}" for name in DEFAULT)
    assert all(row["difference"] == row[right] - row[left] for row in rows)
    fine(at.selectbox(key="lockstep_right").set_value("layout:none").run())
    assert "The results differ" in at.markdown[-1].value
    fine(at.selectbox(key="lockstep_left").set_value("layout:none").run())
    assert at.markdown[-1].value == "Both pipelines end in the same graph\\."


@pytest.mark.slow
def test_a_side_that_was_done_is_not_run_again_after_a_cancel_or_beside_another():
    opened = opened_sample("ppocr_cls_v2")
    profile = load_profile("cuda")
    left, right, other = (spec_of(opened, f"layout:{name}", profile) for name in ("none", "greedy", "optimal"))
    heard: list[str] = []

    def report(words: str, share: float | None) -> None:
        heard.append(words.partition(":")[0])
        if stops and words.startswith("right"):
            raise Stopped

    stops = True
    with pytest.raises(Stopped):
        _run(opened, (left, right), ("left", "right"), None, report)
    stops = False
    assert {"left", "right"} <= {*heard}
    heard.clear()
    first = _run(opened, (left, right), ("left", "right"), None, report).histories
    assert "right" in heard and "left" not in heard
    heard.clear()
    second = _run(opened, (left, other), ("left", "other"), None, report).histories
    assert "other" in heard and "left" not in heard and second[0] is first[0]


def test_a_kept_pipeline_comes_back_from_its_word():
    opened = opened_sample("npu_path")
    spec = spec_of(opened, "preset:simplify", load_profile("cuda"))
    changed = replace(spec, pipeline=spec.pipeline.first(2))
    word = keep_pipeline(changed)
    assert title_of(word) == f"kept: {', '.join(changed.pipeline.names)}"
    assert spec_of(opened, word, spec.profile) == changed


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_on_one_side_moves_both_and_a_reload_keeps_the_sides(tab, app):
    tab.goto(f"{app[0]}/lockstep?model=sample_models/npu_path.onnx&target=npu&left=layout:optimal&right=layout:greedy")
    settle(tab)
    ready = "() => Object.values(window.graphWorkbench ?? {}).filter(view => view.boxes().length).length === 2"
    tab.wait_for_function(ready)
    places = "() => Object.values(window.graphWorkbench).map(view => [view.state().step, view.state().rewrite])"
    tab.locator("canvas.gw-canvas").first.focus()
    for key in ("Home", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    first, second = tab.evaluate(places)
    assert first == second and first[1] == 2
    tab.locator("canvas.gw-canvas").nth(1).focus()
    tab.keyboard.press("ArrowLeft")
    assert [place[1] for place in tab.evaluate(places)] == [1, 1]
    tab.reload()
    settle(tab)
    tab.wait_for_function(ready)
    assert "left=layout%3Aoptimal" in tab.url and "right=layout%3Agreedy" in tab.url
    assert tab.get_by_text("layout: optimal").count() >= 2
