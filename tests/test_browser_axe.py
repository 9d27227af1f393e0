"""The app for everybody: axe-core finds nothing against WCAG A and AA, a skip link leads to the graph, text is legible."""

from __future__ import annotations

import pytest

from tests.browser import GraphView, settle, watched_page
from tests.conftest import ROOT

pytestmark = pytest.mark.browser
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
NPU = "model=sample_models/npu_path.onnx&target=npu"
PAGES = {
    "open": "",
    "optimize": f"optimize?{NPU}&passes=layout_greedy",
    "lockstep": f"lockstep?{NPU}",
    "lesson": "lessons?lesson=why_a_transpose",
    "expressions": "lessons?lesson=algebra&stop=4",
    "a picture beside the graph": "lessons?lesson=memory&stop=4",
    "presenting": "lessons?lesson=why_a_transpose&present=1",
    "lessons": "lessons",
    "layouts": f"layouts?{NPU}",
    "compare": f"compare?{NPU}",
    "workshop": f"workshop?{NPU}",
    "run": f"run?{NPU}",
    "matrix": f"matrix?{NPU}",
    "memory": f"memory?{NPU}",
    "streams": f"streams?{NPU}",
    "runs": f"runs?{NPU}",
    "export": f"export?{NPU}",
}
IN_LIGHT = "axe.run(document, { runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] } })"
IN_DARK = "axe.run(document, { runOnly: ['color-contrast'] })"  # the elements are the same
BACKGROUND = "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
RECORD_TEXT = """
window.textHeights = [];
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (...words) {
  const scale = this.getTransform().d / (window.devicePixelRatio || 1);
  if (this.canvas.isConnected) window.textHeights.push(parseFloat(/([\\d.]+)px/.exec(this.font)[1]) * scale);
  return fill.apply(this, words);
};
"""


def violations(page, question: str) -> dict[str, list[str]]:
    page.wait_for_function("() => !document.querySelector('[data-stale=true]')")
    page.wait_for_timeout(500)  # what was stale is faded in
    page.evaluate("text => window.axe === undefined && eval(text)", AXE.read_text(encoding="utf-8"))
    return {
        found["id"]: [node["html"][:120] for node in found["nodes"]] for found in page.evaluate(question)["violations"]
    }


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: make check-js brings it, with npm")
@pytest.mark.slow
def test_no_page_violates_wcag_aa_in_light_or_dark(browser, app):
    with watched_page(browser, color_scheme="light") as page:
        for name, path in PAGES.items():
            page.emulate_media(color_scheme="light")
            page.goto(f"{app[0]}/{path}")
            settle(page)
            assert violations(page, IN_LIGHT) == {}, name
            light = page.evaluate(BACKGROUND)
            page.emulate_media(color_scheme="dark")
            page.wait_for_function(f"light => ({BACKGROUND})() !== light", arg=light)
            settle(page)
            assert violations(page, IN_DARK) == {}, name


@pytest.mark.slow
def test_a_skip_link_leads_to_the_graph(tab, app):
    tab.goto(f"{app[0]}/{PAGES['optimize']}")
    settle(tab)
    view = GraphView(tab)
    tab.keyboard.press("Tab")
    link = tab.get_by_text("Skip to the graph")
    assert link.evaluate("link => link === document.activeElement && link.getBoundingClientRect().top >= 0")
    tab.keyboard.press("Enter")
    tab.keyboard.press("Alt+ArrowRight")
    view.wait("hook => hook.state().selected !== ''")


@pytest.mark.slow
def test_no_text_on_the_canvas_is_smaller_than_11_px_at_the_default_zoom(browser, app):
    with watched_page(browser) as page:
        page.add_init_script(RECORD_TEXT)
        page.goto(f"{app[0]}/optimize?model=sample_models/resnet50_narrow.onnx&target=cuda&passes=layout_greedy")
        settle(page)
        GraphView(page).rest()
        heights = page.evaluate("window.textHeights")
        assert heights and min(heights) >= 11
