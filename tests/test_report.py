"""The report: the whole history in one HTML file, which a browser shows without any network."""

from __future__ import annotations

import json
import re

import onnxruntime
import pytest

from tests.browser import SCREEN, GraphView, press_more
from tests.making import HOSTILE, hostile_model
from tests.viewing import large_graph
from workbench.formats.io.exporting import export_onnx
from workbench.formats.io.samples import FOLDER
from workbench.presentation.view.report import COMPONENT, MAX_FLAT, bundle

NARROW = FOLDER / "resnet50_narrow.onnx"


@pytest.fixture
def report(browser, tmp_path):
    """A report opened from its file; whatever it asks of a network is a failure."""
    context = browser.new_context(viewport=SCREEN, offline=True)
    page = context.new_page()
    asked, errors = [], []
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else asked.append(r.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)

    def open_report(file) -> GraphView:
        page.goto(file.as_uri())
        return GraphView(page)

    yield open_report
    context.close()
    assert not asked and not errors


def test_every_module_is_in_the_bundle_once_and_nothing_is_imported():
    script = bundle("report.js")
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert not re.search(r"^ *(//|/\*\*|\*)(?!.*\*/.*\S)", script, re.MULTILINE), (
        "comments on lines of their own stay behind"
    )
    names = re.findall(r"^(?:async )?(?:function|class|const) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names)), "top-level names are unique"
    for module in COMPONENT.glob("*.js"):
        if module.name != "index.js":
            text = module.read_text(encoding="utf-8")
            first = re.search(r"^export (?:async )?(?:function|class|const) (\w+)", text, re.MULTILINE)
            assert first is None or first[1] in names, module.name


def test_the_component_takes_nothing_from_elsewhere_and_writes_no_markup():
    for file in (*COMPONENT.glob("*.js"), *COMPONENT.glob("*.css")):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), file.name
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "eval(" not in text, file.name
        assert len(text.splitlines()) <= 400, file.name


@pytest.mark.slow
@pytest.mark.browser
def test_a_report_is_played_searched_and_inspected_without_a_network(done, report, tmp_path):
    file = tmp_path / "report.html"
    said = done("report", NARROW, "--passes", "fold_batchnorm", "--layout", "greedy", "--target", "cuda", "-o", file)
    assert "layout_greedy" in said and "open it in a browser" in said
    view = report(file)
    assert view.state["step"] == 2
    view.press("ArrowUp", "Home", "ArrowRight")
    assert "folded into" in view.page.locator(".gw-sentence").inner_text()
    view.press("ArrowUp")
    field = view.page.locator("input.gw-search")
    field.fill("batchnormalization")
    field.press("Enter")
    view.wait("hook => hook.state().selected !== ''")
    assert "of 53" in view.page.locator(".gw-find").inner_text()
    view.page.locator(".gw-inspector").get_by_text("Attributes", exact=True).wait_for()
    press_more(view.page, "Constants")
    view.wait("hook => hook.boxes().some(id => id.startsWith('const:'))")
    field.fill("op:BatchNormalization")
    view.page.get_by_text("A report finds plain words only; open the model in the app to search by op:.").wait_for()
    field.fill("conv n7")
    view.page.locator(".gw-found").get_by_role("heading", name="found").wait_for()
    view.page.locator(".gw-found").get_by_role("option").first.click()
    view.page.get_by_role("button", name="Draw NHWC of").first.click()
    view.page.get_by_role("dialog", name="Memory order").get_by_text("NHWC (this value)").wait_for()
    view.page.keyboard.press("Escape")
    link = view.page.url
    assert "query=conv+n7" in link
    assert "step=0" in link or "step=1" in link


@pytest.mark.slow
@pytest.mark.browser
def test_in_a_report_of_a_large_model_closed_groups_open_and_every_node_is_found(run, report, tmp_path):
    model, file = tmp_path / "scoped.onnx", tmp_path / "report.html"
    export_onnx(large_graph(MAX_FLAT + 500, scopes=True), model)
    assert run("report", model, "--passes", "dead_nodes", "--no-verify", "-o", file)[0] == 0
    view = report(file)
    before = len(view.boxes)
    press_more(view.page, "Open all")
    view.wait(f"hook => hook.boxes().length > {before} && hook.boxes().length >= {MAX_FLAT + 500}")
    press_more(view.page, "Open all")
    view.wait(f"hook => hook.boxes().length === {before}")
    view.page.keyboard.press("Escape")
    group = view.ask("hook => hook.boxes().find(id => hook.box(id).open === false && id.startsWith('group:'))")
    view.ask(f"hook => hook.zoom({json.dumps(group)}) ?? true")
    place = view.rest().box(group)
    view.page.mouse.dblclick(place["x"] + place["w"] / 2, place["y"] + place["h"] / 2)
    view.wait(f"hook => hook.box({json.dumps(group)}).open")
    view.page.locator(".gw-inspector").get_by_text("has no details of its nodes").wait_for()
    view.press("Enter")
    view.wait(f"hook => hook.boxes().length === {before}")
    hidden = "_2999"
    assert not any(id_.endswith(hidden) for id_ in view.boxes)
    field = view.page.locator("input.gw-search")
    field.fill(hidden)
    field.press("Enter")
    view.wait(f"hook => hook.state().selected.endsWith({json.dumps(hidden)})")
    assert view.box(view.state["selected"])["visible"]


@pytest.mark.slow
@pytest.mark.browser
def test_two_files_side_by_side(done, report, tmp_path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "other.onnx")
    onnxruntime.InferenceSession(str(NARROW), options)
    file = tmp_path / "report.html"
    said = done("report", NARROW, "--against", tmp_path / "other.onnx", "-o", file)
    assert "123 nodes by name; 53 only in the first" in said
    view = report(file)
    press_more(view.page, "Open all")
    view.wait("hook => hook.boxes().length > 170")
    marks = [mark for *_, mark in view.places().values()]
    assert marks.count("-") == 53 and marks.count("+") == 0
    assert "53 only in the first" in view.page.locator(".graph-workbench").inner_text()


@pytest.mark.slow
@pytest.mark.browser
def test_hostile_names_stay_text(run, report, tmp_path):
    file = tmp_path / "report.html"
    assert run("report", hostile_model(tmp_path), "--passes", "dead_nodes", "--no-verify", "-o", file)[0] == 0
    text = file.read_text(encoding="utf-8")
    data = re.search(r'id="graph-workbench-data">(.*?)</script>', text, re.DOTALL)
    assert data is not None and json.loads(data[1])["scenes"]
    view = report(file)
    assert any(HOSTILE in id_ for id_ in view.boxes)
    assert view.page.locator("img[src=x]").count() == 0


def test_what_can_not_be_written_is_told_before_the_work(refused, tmp_path):
    assert "its folder does not exist" in refused("report", NARROW, "-o", tmp_path / "no" / "r.html")
    assert "read or written already" in refused("report", NARROW, "-o", NARROW)
    assert "there is no pass" in refused("report", NARROW, "--passes", "nonsense", "-o", tmp_path / "r.html")


def test_a_pipeline_that_is_wrong_is_reported_and_the_exit_code_says_so(run, tmp_path):
    file = tmp_path / "wrong.html"
    words = ("--layout", "wrong-on-purpose", "--target", "npu", "--on-failure", "stop")
    code, said, _ = run("report", FOLDER / "npu_reshape_add.onnx", *words, "-o", file)
    assert code == 1 and "NOT EQUAL" in said and file.exists()
