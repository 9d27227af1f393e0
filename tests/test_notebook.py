"""In a notebook a history and a graph show themselves, each in a frame of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import workbench as wb
import workbench.interfaces.api  # registers how graphs and histories show themselves
from tests.browser import SCREEN, GraphView, press_more
from tests.conftest import ROOT
from tests.viewing import sample_history
from workbench.ir import from_text


@pytest.fixture
def shown(browser, tmp_path):
    """What a page shows in which the cells' outputs stand one below the other; it must ask nobody, and err nowhere."""
    with browser.new_context(viewport=SCREEN, offline=True, accept_downloads=True) as context:
        page = context.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)

        def show(*cells):
            file = tmp_path / "notebook.html"
            outputs = "".join(f"<div>{cell._repr_html_()}</div>" for cell in cells)
            file.write_text(f"<!doctype html><body>{outputs}</body>", encoding="utf-8")
            page.goto(file.as_uri())
            return page, [GraphView(frame) for frame in page.frames[1:]]

        yield show
        assert not errors


@pytest.mark.slow
@pytest.mark.browser
def test_a_history_is_played_beside_a_graph_in_the_same_notebook(shown, tmp_path):
    history = sample_history("conv_relu_conv_relu", "layout_greedy")
    page, (played, still, other) = shown(history, history.initial, history)
    assert (played.state["step"], still.state["step"]) == (1, 0)
    before = other.state
    played.page.locator("canvas.gw-canvas").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert played.state["rewrite"] == 1 and other.state == before
    assert set(still.boxes) == {n.name for n in history.initial.nodes} | {f"in:{v}" for v in history.initial.inputs} | {
        f"out:{v}" for v in history.initial.outputs
    }
    assert page.evaluate("() => window.graphWorkbench") is None, "the notebook's page has nothing of it"
    with page.expect_download() as coming:
        press_more(still.page, "SVG")
    assert coming.value.suggested_filename == "conv_relu_conv_relu.onnx-step0.svg"


@pytest.mark.browser
def test_names_of_a_model_do_not_leave_the_frame(shown):
    name = '"></iframe><script>alert(1)</script>'
    graph = from_text("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    graph.name = name
    page, (view,) = shown(graph)
    assert page.locator("iframe").count() == 1 and view.boxes == ["in:x", "Relu_y", "out:y"]


def test_an_output_weighs_less_than_its_report(tmp_path):
    history = sample_history("conv_relu_conv_relu", "layout_greedy")
    assert len(history._repr_html_()) < 0.6 * wb.report(history, tmp_path / "report.html")


def test_without_the_verbs_a_graph_is_text():
    code = "from workbench.ir import Graph; print(Graph()._repr_html_())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"


def test_as_text_they_take_one_line():
    history = sample_history("conv_relu_conv_relu", "layout_greedy")
    assert repr(history) == "<History of 'conv_relu_conv_relu': 2 steps, 5 rewrites, 4 nodes to 6>"
    assert repr(history.initial) == "<Graph 'conv_relu_conv_relu': 4 nodes>"


@pytest.mark.slow
def test_the_notebook_of_the_documents_says_what_its_cells_say_now(kept_worker):
    """Its text, without the times of a run; the views in it are of the day on which they were made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        from make_notebook import NOTEBOOK, executed
    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert said(executed()) == said(kept), "run python docs/make_notebook.py"
    assert sum(bool(set(output.get("data", ())) & {"text/html"}) for output in outputs(kept)) == 2


def outputs(notebook: dict) -> list[dict]:
    return [output for cell in notebook["cells"] for output in cell.get("outputs", ())]


def said(notebook: dict) -> list[str]:
    texts = ["".join(output.get("text", output.get("data", {}).get("text/plain"))) for output in outputs(notebook)]
    return [re.sub(r"median [\d.]+ ms", "median ms", text) for text in texts]
