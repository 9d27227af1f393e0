"""Work survives: a job goes on when its page is left or loaded again, and looking never waits for measuring."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser import GraphView, choose_strategy, go, open_sample, page_link, settle, show_last_step, watched_page

pytestmark = pytest.mark.browser
SAMPLE = "model=sample_models/resnet50_narrow.onnx"


def start_measuring(page, repetitions: str) -> None:
    page.get_by_label("Repetitions", exact=True).fill(repetitions)
    page.get_by_role("button", name="Measure", exact=True).click()
    page.get_by_text("Measuring ResNet").first.wait_for()


def cancel(page) -> None:
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text(re.compile("Ended early, as asked|The measurement was cancelled")).first.wait_for()


@pytest.mark.slow
def test_a_measurement_goes_on_while_the_page_is_loaded_again_and_left(tab, app):
    tab.goto(f"{app[0]}/run?{SAMPLE}")
    settle(tab)
    start_measuring(tab, "400")
    tab.reload()
    tab.get_by_text("Measuring ResNet").first.wait_for()
    go(tab, "Open")
    go(tab, "Measure")
    tab.get_by_role("tab", name="Where the time went").wait_for()
    settle(tab)
    tab.reload()
    tab.get_by_role("tab", name="Where the time went").wait_for()
    assert "model=sample_models" in tab.url


@pytest.mark.slow
def test_after_a_reload_the_pipeline_is_the_one_that_was_chosen(tab, app):
    tab.goto(f"{app[0]}/optimize?model=sample_models/conv_relu_conv_relu.onnx")
    settle(tab)
    choose_strategy(tab, "greedy")
    settle(tab)
    GraphView(tab).wait("hook => hook.boxes().some(id => id.startsWith('to_nhwc'))")
    go(tab, "Export")
    tab.reload()
    settle(tab)
    go(tab, "Optimize")
    assert (
        tab.locator(".st-key-strategy input:checked").evaluate("input => input.closest('label').innerText") == "greedy"
    )
    GraphView(tab).wait("hook => hook.boxes().some(id => id.startsWith('to_nhwc'))")


@pytest.mark.slow
def test_a_query_its_colours_the_selection_and_the_moment_survive_another_page_and_a_reload(tab, app):
    query = "query=op:Conv&hits=colour"
    tab.goto(f"{app[0]}/optimize?model=sample_models/ppocr_cls_v2.onnx&passes=normalize&verify=off&{query}")
    settle(tab)
    show_last_step(tab)  # what the page asked of the browser before must not come back
    view = GraphView(tab)
    view.press("ArrowLeft")
    tab.wait_for_function("() => new URL(location).searchParams.has('rewrite')")
    view.goto_node("Conv@3")
    field = tab.locator("input.gw-search")
    field.fill("op:Conv")
    field.press("Enter")
    view.wait("hook => hook.state().query === 'op:Conv' && hook.state().hits > 0")

    def state() -> dict:
        view = GraphView(tab).rest()
        view.wait("hook => hook.state().hits > 0")
        return {key: view.state[key] for key in ("t", "step", "rewrite", "selected", "query", "hits", "colouring")}

    before = state()
    assert before["selected"] and before["colouring"] == "query"
    go(tab, "Memory")
    go(tab, "Optimize")
    assert state() == before
    tab.reload()
    settle(tab)
    assert state() == before


@pytest.mark.slow
def test_a_report_of_the_view_just_before_another_page_loses_no_choice(tab, app):
    """Both requests are one run, in which the goal of the page before looked chosen anew: all passes were reset."""
    tab.goto(f"{app[0]}/optimize?model=sample_models/ppocr_cls_v2.onnx&passes=normalize&verify=off&step=3")
    settle(tab)
    GraphView(tab).press("ArrowLeft")
    GraphView(tab).rest()
    before = passes_in(tab.url)
    link = page_link(tab, "Memory").element_handle()
    tab.evaluate("link => { Object.values(window.graphWorkbench).at(-1).report(); link.click(); }", link)
    tab.wait_for_url("**/memory?**")
    settle(tab)
    go(tab, "Optimize")
    assert passes_in(tab.url) == before != ["simplify"]


def passes_in(url: str) -> list[str]:
    return parse_qs(urlsplit(url).query)["passes"]


@pytest.mark.slow
def test_another_browser_opens_and_optimizes_while_one_measures(tab, browser, app):
    tab.goto(f"{app[0]}/run?{SAMPLE}")
    settle(tab)
    start_measuring(tab, "2000")
    with watched_page(browser) as other:
        other.goto(f"{app[0]}/run?{SAMPLE}")
        settle(other)
        assert not other.get_by_text("Measuring ResNet").count()  # a browser of its own
        go(other, "Optimize")
        other.get_by_label("What was gained").get_by_text("equal").wait_for()  # verified meanwhile
        go(other, "Measure")
        other.get_by_role("button", name="Measure", exact=True).click()
        other.get_by_text("waiting for its turn, 1 job before it on cpu: Measuring ResNet").wait_for()
        cancel(other)
    assert tab.get_by_text("Measuring ResNet").count()
    cancel(tab)


@pytest.mark.slow
def test_going_back_takes_no_more_steps_than_going_there(page):
    entries = page.evaluate("history.length")
    open_sample(page, "npu_path")  # it opens on Optimize
    choose_strategy(page, "greedy")
    settle(page)
    GraphView(page).press("Home", "ArrowRight")
    page.wait_for_function("() => new URL(location).searchParams.get('rewrite') === '1'")
    made = page.evaluate("history.length") - entries
    assert made <= 2  # the other page, and its sample
    for _ in range(made):
        page.go_back()
        settle(page)
    page.get_by_role("tab", name="Upload").wait_for()


@pytest.mark.slow
def test_a_link_shows_its_own_pipeline_in_a_browser_that_has_run_another(tab, app):
    """The browser has the model with another pipeline and with a layout that the link does not declare."""
    model = "model=sample_models/conv_relu_conv_relu.onnx"
    for page_name in ("memory", "lockstep", "export", "run", "optimize"):
        tab.goto(
            f"{app[0]}/optimize?{model}&passes=layout_greedy&target=cuda&leave_out=layout_greedy:&input_layout=x=NHWC"
        )
        settle(tab)
        tab.goto(f"{app[0]}/{page_name}?{model}&passes=fold_batchnorm&target=npu")
        settle(tab)
        asked = parse_qs(urlsplit(tab.url).query)
        assert (asked["passes"], asked["target"]) == (["fold_batchnorm"], ["npu"]), page_name
        assert not {"leave_out", "input_layout"} & asked.keys(), page_name
        go(tab, "Optimize")
        assert tab.locator(".st-key-on_fold_batchnorm input").is_checked()
