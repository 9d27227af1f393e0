"""The graph view in a real browser: opened, played, searched, inspected, saved, by mouse and by keyboard."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from playwright.sync_api import expect

import workbench as wb
from tests.browser import (
    SCREEN,
    GraphView,
    go,
    guarded,
    open_sample,
    press_more,
    select,
    settle,
    show_last_step,
    watched_page,
)
from tests.dot_files import boxes_and_edges
from tests.making import HOSTILE, hostile_model
from tests.viewing import large_graph, sample_history
from workbench.formats.io.exporting import export_onnx
from workbench.formats.io.samples import FOLDER

pytestmark = [pytest.mark.browser, pytest.mark.slow]
GREEDY = "fold_batchnorm,layout_greedy"
NARROW = "sample_models/resnet50_narrow.onnx"
AT_FIRST = {"step": 2, "panes": 2, "compare": "step", "colouring": "layout", "hops": 0, "selected": "", "zoom": 1}


def opened(page, app, model: str, passes: str = GREEDY, target: str = "cuda", **more) -> GraphView:
    """The page Optimize by a link that names model and passes, with all groups open."""
    words = "&".join(f"{key}={value}" for key, value in more.items())
    page.goto(f"{app[0]}/optimize?model={model}&passes={passes}&target={target}&step={passes.count(',') + 1}&{words}")
    settle(page)
    return GraphView(page).rest().open_all()


@pytest.fixture(scope="module")
def shared_tab(browser, app):
    with guarded(browser, app[0]) as page:
        yield page


@pytest.fixture
def narrow(shared_tab, app) -> GraphView:
    """The narrow ResNet in a page that tests share: brought back to how it was at first, else opened anew."""
    if shared_tab.url != "about:blank":
        view = GraphView(shared_tab)
        if is_as_at_first(view):
            return view
    return opened(shared_tab, app, NARROW)


def is_as_at_first(view: GraphView) -> bool:
    """Bring the view back to the whole of step 2, with nothing selected or searched; is all of it as at first?"""
    view.press("Escape", "Escape", *["ArrowUp"] * 3, "ArrowDown", "ArrowDown")
    view.page.get_by_label("Colour by").select_option(label="Layout")
    view.page.locator("input.gw-search").fill("")
    state = view.state
    if any(state[key] != value for key, value in AT_FIRST.items()):
        return False
    return not any(id_.startswith("const:") for id_ in view.boxes)


@pytest.fixture
def scoped(tab, app, tmp_path) -> GraphView:
    """A model of 2,400 nodes in scopes, most of them in closed groups."""
    file = tmp_path / "scoped.onnx"
    export_onnx(large_graph(2400, scopes=True), file)
    tab.goto(f"{app[0]}/?model={file}")
    settle(tab)
    return GraphView(tab).rest()


def sent_frames(page) -> list:
    """What the page sends to Python from now on."""
    sent: list = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    return sent


# ---- before and after ------------------------------------------------------------------------


@pytest.mark.slow
def test_before_and_after_stand_side_by_side_with_marks(narrow):
    state = narrow.state
    assert (state["panes"], state["step"], state["compare"]) == (2, 2, "step")
    marks = {mark for *_, mark in narrow.places().values()}
    assert {"+", "~", ""} <= marks
    narrow.press("ArrowUp")
    assert narrow.state["step"] == 1
    assert "-" in {mark for *_, mark in narrow.places().values()}, "batch norms are removed"


@pytest.mark.slow
def test_one_pane_or_two(narrow):
    narrow.page.get_by_role("button", name="One pane").click()
    assert narrow.state["panes"] == 1
    narrow.press("2")
    assert narrow.state["panes"] == 2


@pytest.mark.slow
def test_another_screen_is_painted_at_its_own_resolution(narrow):
    """The view keeps its size, so that nothing but the resolution tells of the other screen."""
    root = narrow.page.locator(".graph-workbench")
    height = root.evaluate("root => { const { height } = root.style; root.style.height = '500px'; return height; }")
    screen = narrow.page.context.new_cdp_session(narrow.page)
    for factor, more in ((2, 1), (1.5, 2), (1, 0)):  # Chromium tells of another factor only with another size
        metrics = {**SCREEN, "height": SCREEN["height"] + more, "deviceScaleFactor": factor, "mobile": False}
        screen.send("Emulation.setDeviceMetricsOverride", metrics)
        narrow.page.wait_for_function(
            "([canvas, factor]) => canvas.width === Math.round(canvas.clientWidth * factor)",
            arg=[narrow.canvas.element_handle(), factor],
        )
    screen.detach()
    root.evaluate("(root, height) => { root.style.height = height; }", height)


@pytest.mark.slow
def test_the_view_stays_while_the_steps_get_their_verdicts(tab, app, slow_network):
    """Mounted once, where it is: nothing that one types or points at there is lost when all is compared."""
    tab.add_init_script("""
        window.mounted = [];
        window.graphWorkbench = new Proxy({}, {
            set: (views, key, view) => { window.mounted.push("put"); views[key] = view; return true; },
            deleteProperty: (views, key) => { if (key in views) window.mounted.push("gone"); return delete views[key]; },
        });
    """)
    tab.goto(f"{app[0]}/optimize?model={slow_network}&passes=cancel_transposes,layout_greedy&target=cuda")
    tab.get_by_text(" steps verified").wait_for()
    view = GraphView(tab).rest()
    assert tab.get_by_role("button", name="Stop", exact=True).count(), "the view is there before the verdicts"
    before = view.canvas.bounding_box()
    tab.get_by_text(" steps verified").wait_for(state="detached")
    settle(tab)
    assert tab.get_by_role("button", name="Stop", exact=True).count() == 0
    assert view.canvas.bounding_box() == before
    assert tab.evaluate("window.mounted") == ["put"]


@pytest.fixture
def slow_network(tmp_path):
    """Six convolutions that take seconds to run."""
    weight = numpy_helper.from_array(np.full((32, 32, 3, 3), 0.01, np.float32), "w")
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [helper.make_node("Conv", [f"v{i}", "w"], [f"v{i + 1}"], f"conv{i}", **pads) for i in range(6)]
    given, made = (helper.make_tensor_value_info(name, 1, [1, 32, 640, 640]) for name in ("v0", "v6"))
    graph = helper.make_graph(nodes, "slow", [given], [made], [weight])
    file = tmp_path / "slow.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), file)
    return file


@pytest.mark.slow
def test_the_legend_names_every_colour_and_mark(narrow):
    said = narrow.ask("hook => hook.legend()")
    for words in ("the model's layout", "the target's layout (NHWC)", "Tensor", "removed", "added", "changed"):
        assert words in said


@pytest.mark.slow
@pytest.mark.parametrize("colouring", ["Operator category", "Contract class", "Element type", "Changed by pass"])
def test_other_colourings_have_a_legend_of_their_own(narrow, colouring):
    before = narrow.ask("hook => hook.legend()")
    narrow.page.get_by_label("Colour by").select_option(label=colouring)
    assert narrow.ask("hook => hook.legend()") != before
    assert "the model's layout" not in narrow.ask("hook => hook.legend()")


@pytest.mark.slow
def test_measured_latency_is_a_colouring_with_a_scale(page):
    open_sample(page, "conv_relu_conv_relu")
    go(page, "Optimize")
    expect(page.get_by_label("Colour by").locator("option")).to_have_text(
        [
            *("Layout", "Operator category", "Contract class", "Element type", "Changed by pass", "Fused groups"),
            "ONNX Runtime's provider…",
        ]
    )
    go(page, "Measure")
    page.get_by_label("Repetitions", exact=True).fill("3")
    select(page, page.get_by_role("combobox", name="Backends"), "torch")  # which reports the memory of operators
    page.keyboard.press("Escape")  # the list of options stays open
    page.get_by_role("button", name="Measure", exact=True).click()
    settle(page)
    page.get_by_role("tab", name="Where the time went").wait_for()
    go(page, "Optimize")
    view = GraphView(page)
    page.get_by_label("Colour by").select_option(label="Latency")
    assert re.search(r"\d µs", view.ask("hook => hook.legend()"))
    page.get_by_label("Colour by").select_option(label="Memory")
    assert re.search(r"\d [kM]B", view.ask("hook => hook.legend()"))


# ---- playback ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hundred_steps_move_nothing_that_stays_and_ask_python_nothing(tab, app):
    sent = sent_frames(tab)
    view = opened(tab, app, NARROW, step=2, rewrite=1)
    view.press("ArrowRight")  # the first one is zoomed to
    before = view.rest().places()
    sent.clear()
    for _ in range(99):
        view.press("ArrowRight")
    assert view.state["rewrite"] == 101
    after = view.places()
    shifts = {(round(after[id_][0] - before[id_][0]), round(after[id_][1] - before[id_][1])) for id_ in before}
    assert len(shifts) == 1, "the camera follows the rewrites; boxes do not move among each other"
    assert len(sent) < 10, (
        "a step is the browser's own; only where one stays for 0.7 s, as a busy machine does, it is told"
    )
    assert view.state["last_step_ms"] < 1000


@pytest.mark.slow
def test_left_and_right_go_through_rewrites_up_and_down_through_passes(narrow):
    rewrites = narrow.state["rewrite"]
    narrow.press("ArrowLeft", "ArrowLeft")
    assert narrow.state["rewrite"] == rewrites - 2
    assert narrow.state["compare"] == "rewrite"
    narrow.press("Home")
    assert narrow.state["rewrite"] == 0
    narrow.press("ArrowLeft")
    assert narrow.state["step"] == 1, "back over the beginning of the step"
    narrow.press("ArrowUp", "ArrowDown", "ArrowDown")
    assert (narrow.state["step"], narrow.state["rewrite"]) == (2, rewrites)


@pytest.mark.slow
def test_each_rewrite_has_its_sentence_and_its_text(narrow):
    narrow.press("Home", "ArrowRight")
    said = narrow.page.locator(".gw-sentence").inner_text()
    assert re.search(r"\d", said) and "Conv" in said
    narrow.press("t")
    went, came = (narrow.page.locator(f".gw-{which}").inner_text() for which in ("went", "came"))
    assert "= Conv <" in went and "workbench.Conv_NHWC" in came and "Transpose" in came


@pytest.mark.slow
def test_it_plays_by_itself_and_stops(narrow):
    narrow.press("Home")
    narrow.page.get_by_role("button", name="Play", exact=True).click()
    narrow.wait("hook => hook.state().rewrite >= 3")
    narrow.page.get_by_role("button", name="Pause").click()
    stopped = narrow.state["rewrite"]
    narrow.page.wait_for_timeout(1200)
    assert narrow.state["rewrite"] == stopped


@pytest.mark.slow
def test_the_slider_shows_where_the_selected_box_comes_and_goes(narrow):
    narrow.goto_node("restore_r172")
    ticks = narrow.page.locator(".gw-tick")
    assert [tick.inner_text() for tick in ticks.all()] == ["+", "~", "−"]
    ticks.last.click()
    assert narrow.state["rewrite"] > 0


# ---- the address ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_link_shows_the_same(tab, app, browser):
    view = opened(tab, app, NARROW)
    view.goto_node("n172")
    view.press("Home", "ArrowRight", "ArrowRight", "ArrowRight")
    tab.wait_for_timeout(500)
    link = tab.url
    for words in ("model=", "passes=", "target=cuda", "step=2", "rewrite=3", "node="):
        assert words in link, link
    with watched_page(browser) as other:
        other.goto(link)
        settle(other)
        again = GraphView(other).rest()
        again.wait("hook => hook.state().rewrite === 3")
        assert (again.state["step"], again.state["selected"]) == (2, view.state["selected"])
        checked = [box.is_checked() for box in other.locator("[class*=st-key-on_] input").all()]
    assert sum(checked) == 1, "the passes that the link names are on, the others off"


@pytest.mark.slow
def test_a_link_to_what_there_is_not_is_one_sentence_until_it_is_noted(tab, app):
    tab.goto(f"{app[0]}/optimize?model=/no/such/model.onnx")
    alert = tab.get_by_role("alert").filter(has_text="model.onnx: there is no such file")
    alert.wait_for()
    GraphView(tab).rest().press("ArrowUp")
    tab.get_by_role("button", name="Stop", exact=True).wait_for(state="detached")  # the tab runs anew by itself here
    show_last_step(tab)
    tab.locator(".st-key-view").get_by_text("Rewrites").click()
    settle(tab)
    assert "is open instead" in alert.inner_text()
    tab.get_by_role("button", name="Close", exact=True).click()
    alert.wait_for(state="detached")
    tab.goto(f"{app[0]}/?model=upload:mine.onnx")
    settle(tab)
    assert "mine.onnx" in tab.get_by_role("alert").first.inner_text()


@pytest.mark.slow
def test_what_the_table_of_steps_chooses_the_view_shows_and_back(narrow):
    page = narrow.page
    narrow.press("ArrowUp")
    assert narrow.state["step"] == 1
    page.locator(".st-key-view").get_by_text("Rewrites").click()
    settle(page)
    page.get_by_text("Rewrites (53)").wait_for()
    page.locator(".st-key-view").get_by_text("Graph", exact=True).click()
    settle(page)
    again = GraphView(page)
    again.wait("hook => hook.state().step === 1")


# ---- large graphs ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_box_opens_and_closes_and_stays_under_the_pointer(scoped):
    scoped.page.get_by_role("button", name="Fit").click()
    group = closed_group(scoped.rest())
    scoped.click(group, double=True)  # the first click opens the inspector, and all is fitted into what is left
    scoped.wait(f"hook => hook.box({json.dumps(group)})?.open === true")
    scoped.press("Enter")
    scoped.wait(f"hook => hook.box({json.dumps(group)})?.open === false")
    settle(scoped.page)
    before = scoped.rest().box(group)
    scoped.press("Enter")
    scoped.wait(f"hook => hook.box({json.dumps(group)})?.open === true")
    settle(scoped.page)
    after = scoped.box(group)
    assert abs(after["x"] - before["x"]) < 2 and abs(after["y"] - before["y"]) < 2
    scoped.press("Enter")
    scoped.wait(f"hook => hook.box({json.dumps(group)})?.open === false")


@pytest.mark.slow
def test_alt_and_a_double_click_open_all_below(scoped):
    scoped.page.get_by_role("button", name="Fit").click()
    group = closed_group(scoped.rest())
    before = len(scoped.boxes)
    scoped.click(group, double=True, modifiers=["Alt"])
    scoped.wait(f"hook => hook.boxes().length > {before + 15}")
    inside = [id_ for id_ in scoped.boxes if id_.startswith(f"{group}/")]
    assert all(scoped.box(id_)["open"] for id_ in inside)


@pytest.mark.slow
def test_everything_open_and_back(scoped):
    before = len(scoped.boxes)
    press_more(scoped.page, "Open all")
    scoped.wait("hook => hook.boxes().length >= 2400")
    settle(scoped.page)
    press_more(scoped.page, "Open all")
    scoped.wait(f"hook => hook.boxes().length === {before}")


def test_constants_are_hidden_until_they_are_asked_for(narrow):
    assert not any(id_.startswith("const:") for id_ in narrow.boxes)
    press_more(narrow.page, "Constants")
    narrow.wait("hook => hook.boxes().some(id => id.startsWith('const:'))")


def closed_group(view: GraphView) -> str:
    """A closed group that is to be seen."""
    words = "hook => hook.boxes().filter(id => id.startsWith('group:') && !hook.box(id).open)"
    for id_ in view.ask(words):
        box = view.box(id_)
        stage = view.canvas.bounding_box()
        if box["visible"] and stage["y"] < box["y"] < stage["y"] + stage["height"] - 60:
            return id_
    raise AssertionError("no closed group is to be seen")


# ---- finding -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_search_goes_over_the_whole_model_and_opens_what_hides_a_hit(scoped):
    scoped.press("/")
    scoped.page.keyboard.type("mul")
    scoped.page.keyboard.press("Enter")
    scoped.wait("hook => hook.state().selected.includes('Mul_')")
    first = scoped.state["selected"]
    settle(scoped.page)
    scoped.wait(f"hook => hook.box({json.dumps(first)})?.visible")
    scoped.page.keyboard.press("Enter")
    scoped.wait(f"hook => hook.state().selected !== {json.dumps(first)}")
    assert "of 60" in scoped.page.locator(".gw-find").inner_text()


@pytest.mark.slow
def test_control_f_searches_the_model_and_not_the_page(narrow):
    narrow.press("Control+f")
    narrow.page.keyboard.type("softmax")
    narrow.page.keyboard.press("Enter")
    narrow.wait("hook => hook.state().selected === 'n175'")


@pytest.mark.slow
def test_the_minimap_moves_the_picture_and_selects_nothing(tab, app):
    narrow = opened(tab, app, NARROW)
    narrow.press(*["+"] * 10)
    zoom = narrow.rest().state["zoom"]
    stage = narrow.canvas.bounding_box()
    narrow.page.mouse.click(stage["x"] + stage["width"] - 20, stage["y"] + stage["height"] - 20)
    at_end = narrow.box("n0")
    narrow.page.mouse.click(stage["x"] + stage["width"] - 180, stage["y"] + stage["height"] - 20)
    assert narrow.box("n0")["x"] > at_end["x"] + 1000, "from the end of the graph to its first column"
    assert narrow.state["selected"] == "" and narrow.state["zoom"] == zoom


@pytest.mark.slow
def test_a_graph_that_is_nearly_all_in_view_has_no_minimap_over_it(tab, app):
    view = opened(tab, app, "sample_models/npu_path.onnx", "layout_greedy", "npu")
    view.press("Space")
    before, stage = view.rest().box("output"), view.canvas.bounding_box()
    view.page.mouse.click(stage["x"] + stage["width"] - 50, stage["y"] + stage["height"] - 12)
    assert view.box("output") == before, "the click was on the graph, and moved nothing"


@pytest.mark.slow
def test_search_finds_by_shape_and_layout_and_says_where_nothing_is(narrow):
    narrow.goto_node("op:Conv_NHWC layout:NHWC shape:1x112x112x8")
    assert narrow.state["selected"] == "n0"
    field = narrow.page.locator("input.gw-search")
    field.fill("no such node")
    field.press("Enter")
    narrow.page.get_by_text("No node matches").first.wait_for()


@pytest.mark.slow
def test_a_search_whose_request_is_lost_is_sent_again(narrow):
    """As Streamlit drops one that crosses a run of the page."""
    narrow.page.evaluate("""() => {
        const socket = Object.getPrototypeOf(window.WebSocket);
        const send = socket.prototype.send;
        window.dropped = 0;
        socket.prototype.send = function (message) {
            if (!window.dropped && new TextDecoder().decode(message).includes("n16")) window.dropped += 1;
            else send.call(this, message);
        };
    }""")
    narrow.goto_node("n16")
    assert narrow.page.evaluate("window.dropped") == 1
    assert narrow.state["selected"].startswith("n16")


@pytest.mark.slow
def test_next_change_goes_through_what_differs(narrow):
    narrow.press("c")
    first = narrow.state["selected"]
    narrow.press("c")
    assert first and narrow.state["selected"] not in ("", first)
    assert narrow.box(first)["mark"] in "-+~"


@pytest.mark.slow
def test_focus_on_what_is_near(narrow):
    narrow.goto_node("n172")
    narrow.press("k")
    assert narrow.state["hops"] == 1
    narrow.press("k", "k", "k")
    assert narrow.state["hops"] == 0


@pytest.mark.slow
def test_the_breadcrumb_says_where_the_selected_box_stands(scoped):
    scoped.goto_node("mul_451")
    assert "block4" in scoped.page.locator(".gw-breadcrumb").inner_text()


# ---- the inspector ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_click_tells_all_about_a_node(narrow):
    narrow.goto_node("batchnormalization n1 8")
    panel = narrow.page.locator(".gw-inspector")
    panel.get_by_text("It is not in the graph at this moment").wait_for()
    narrow.press("ArrowUp", "ArrowUp")
    panel.get_by_text("Attributes", exact=True).wait_for()
    said = panel.inner_text()
    for words in (
        "Attributes",
        "Inputs",
        "Outputs",
        "Constant gpu_0",
        "Contract",
        "Cost",
        "Where it came from",
        "Every pass at this node",
    ):
        assert words in said, words
    assert "1 Fold batch normalization into convolution" in said and "BatchNormalization 'n1' scales" in said
    assert panel.locator(".gw-histogram").count() >= 1
    panel.get_by_text("Documentation of BatchNormalization").click()
    panel.get_by_text("1502.03167").wait_for()
    panel.get_by_role("button", name="step 1, rewrite 1 of 53").click()
    assert (narrow.state["step"], narrow.state["rewrite"]) == (1, 1)


@pytest.mark.slow
def test_a_group_and_an_input_are_inspected_too(scoped):
    scoped.page.get_by_role("button", name="Fit").click()
    group = closed_group(scoped.rest())
    scoped.click(group)
    scoped.page.locator(".gw-inspector").get_by_text("FLOPs").first.wait_for()
    scoped.goto_node("abs_0")
    scoped.press("Alt+ArrowUp")
    scoped.wait("hook => hook.state().selected === 'in:x'")
    scoped.page.locator(".gw-inspector").get_by_text("float[1,8,16,16]").first.wait_for()


# ---- out of the app -----------------------------------------------------------------------------------


def saved(view: GraphView, kind: str, folder: Path) -> Path:
    """What the Save menu gives."""
    with view.page.expect_download() as coming:
        press_more(view.page, kind.upper())
    file = folder / f"picture.{kind}"
    coming.value.save_as(file)
    assert coming.value.suggested_filename.endswith(kind)
    return file


@pytest.mark.slow
def test_onnxruntime_is_asked_for_its_providers_and_they_colour(tab, app):
    view = opened(tab, app, "sample_models/resnet50_narrow.onnx", "layout_greedy")
    tab.get_by_label("Colour by").select_option(label="ONNX Runtime's provider…")
    view.wait("hook => hook.state().colouring === 'provider'")
    legend = view.ask("hook => hook.legend()")
    assert "CPUExecutionProvider" in legend and "fused or folded by ONNX Runtime" in legend
    options = tab.get_by_label("Colour by").locator("option").all_inner_texts()
    assert "ONNX Runtime's provider" in options and "ONNX Runtime's provider…" not in options


@pytest.mark.slow
def test_in_one_pane_a_changed_layout_has_both_labels(tab, app, tmp_path):
    view = opened(tab, app, "sample_models/conv_relu_conv_relu.onnx", "layout_greedy", step=1)
    tab.get_by_role("button", name="One pane").click()
    words = re.findall(r"<text[^>]*>([^<]*)</text>", saved(view, "svg", tmp_path).read_text(encoding="utf-8"))
    labels = [word for word in words if re.fullmatch(r"(− )?1x\d+x\d+x\d+ N\w{3}", word)]
    changed = ["1x32x32x16 NHWC", "− 1x16x32x32 NCHW"]  # of the value between conv1 and relu1, and of the next one
    assert all(labels.count(label) == 2 for label in changed), labels
    assert labels.count("− 1x8x32x32 NCHW") == 3, labels  # of x, of conv2's result, and of the output


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture_is_saved(narrow, tmp_path, kind):
    file = saved(narrow, kind, tmp_path)
    if kind == "png":
        assert file.read_bytes().startswith(b"\x89PNG")
        return
    text = file.read_text(encoding="utf-8")
    assert text.startswith(("<svg", "<?xml"))
    assert "AveragePool_NHWC" in text and "MaxPool_NHWC" in text


@pytest.mark.slow
def test_the_graph_is_saved_as_dot(tab, app, tmp_path):
    narrow = opened(tab, app, NARROW)
    boxes, edges = boxes_and_edges(saved(narrow, "dot", tmp_path).read_text(encoding="utf-8"))
    graph = sample_history("resnet50_narrow", *GREEDY.split(",")).graph
    public = {f"in:{value}" for value in graph.inputs} | {f"out:{value}" for value in graph.outputs}
    assert boxes.keys() == {node.name for node in graph.nodes} | public
    made = {(a, b) for a, b, _ in boxes_and_edges(wb.dot(graph).source)[1]}
    assert {(a, b) for a, b, _ in edges} == made and any(words.endswith(" NHWC") for *_, words in edges)
    assert {box.get("fillcolor", "").lower() for box in boxes.values()} >= {"#d3d3d3", "#ffdab9"}


@pytest.mark.slow
def test_open_groups_are_clusters_of_dot_and_closed_ones_boxes(tab, app, tmp_path):
    tab.goto(f"{app[0]}/?model={NARROW}")
    settle(tab)
    view = GraphView(tab).rest()
    view.ask("hook => hook.select('group:bottleneck 2') ?? true")
    view.press("Enter")
    view.wait("hook => hook.box('group:bottleneck 2').open")
    settle(tab)
    text = saved(view, "dot", tmp_path).read_text(encoding="utf-8")
    boxes, _ = boxes_and_edges(text)
    frames = set(view.ask("hook => hook.boxes().filter(id => hook.box(id).open)"))
    assert boxes.keys() == set(view.boxes) - frames
    assert text.count("subgraph cluster_") == len(frames) > 0
    assert any(id_.startswith("group:") for id_ in boxes)


# ---- for everybody --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_keyboard_alone_is_enough(narrow):
    page = narrow.page
    narrow.canvas.focus()
    for key in ("n", "n", "Alt+ArrowDown", "Alt+ArrowUp"):
        page.keyboard.press(key)
    assert narrow.state["selected"]
    page.keyboard.press("Escape")
    assert narrow.state["selected"] == ""
    zoom = narrow.state["zoom"]
    page.keyboard.press("+")
    assert narrow.state["zoom"] > zoom
    page.keyboard.press("?")
    page.get_by_text("next step (pass)").wait_for()
    page.keyboard.press("Escape")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Shift+Tab")
        reached.add(page.evaluate("() => document.activeElement.shadowRoot?.activeElement?.textContent ?? ''"))
    assert {"Two panes", "Next change", "Constants"} & reached


@pytest.mark.slow
def test_zoom_and_moment_are_kept_when_a_box_opens(scoped):
    scoped.press("+", "+")
    zoom = scoped.state["zoom"]
    press_more(scoped.page, "Constants")
    settle(scoped.page)
    assert scoped.state["zoom"] == zoom


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser, app, scheme):
    with watched_page(browser, color_scheme=scheme) as page:
        view = opened(page, app, "sample_models/npu_path.onnx", "layout_greedy")
        assert page.locator(".graph-workbench").get_attribute("data-theme") == scheme
        words = """hook => { const c = [...document.querySelectorAll('*')].map(e => e.shadowRoot).filter(Boolean)
            .map(r => r.querySelector('canvas.gw-canvas')).find(Boolean);
            return [...c.getContext('2d').getImageData(3, 3, 1, 1).data].slice(0, 3); }"""
        corner = sum(view.ask(words))
    assert corner > 600 if scheme == "light" else corner < 200


@pytest.mark.slow
def test_a_fused_group_is_a_frame_from_its_rewrite_on_and_closes(tab, app):
    model = "model=sample_models%2Fconv_relu_conv_relu.onnx&passes=fuse_groups&target=cuda&step=1"
    tab.goto(f"{app[0]}/optimize?{model}")
    settle(tab)
    view = GraphView(tab)
    view.press("Home")
    assert not view.box("group:group_1")["visible"]
    view.press("ArrowRight")
    assert view.box("group:group_1")["mark"] == "+" and view.box("relu1")["mark"] == "~"
    tab.get_by_role("button", name="Fit", exact=True).click()
    view.rest()
    view.click("group:group_1")
    settle(tab)
    tab.locator(".gw-inspector").get_by_text("workbench.group_1_Conv_Relu").wait_for()
    view.press("Enter")
    settle(tab)
    view.rest()
    assert view.box("conv1") is None and not view.box("group:group_1")["open"]
    view.press("Enter")
    settle(tab)
    assert view.rest().box("conv1")["mark"] == "~"


@pytest.mark.slow
def test_hostile_and_enormous_names_break_nothing(tab, app, tmp_path):
    tab.goto(f"{app[0]}/?model={hostile_model(tmp_path)}")
    settle(tab)
    view = GraphView(tab).rest()
    id_ = next(id_ for id_ in view.boxes if HOSTILE in id_ and not id_.startswith(("in:", "out:")))
    view.click(id_)
    settle(tab)
    tab.locator(".gw-inspector").get_by_text(HOSTILE).first.wait_for()
    assert tab.locator("img[src=x]").count() == 0
    go(tab, "Optimize")
    GraphView(tab)


@pytest.mark.slow
def test_two_files_are_compared(page, tmp_path):
    open_sample(page, "resnet50_narrow")
    go(page, "Compare")
    page.get_by_role("button", name="Path of another").click()
    page.get_by_label("Path of another model on this machine").fill(str(other_tools_output(tmp_path)))
    page.get_by_role("button", name="Compare", exact=True).last.click()
    settle(page)
    page.get_by_text("only in the first").first.wait_for()
    view = GraphView(page)
    assert {"-"} <= {mark for *_, mark in view.places().values()} or view.state["compare"] == "step"


def other_tools_output(folder: Path) -> Path:
    """What ONNX Runtime's basic level makes of the sample."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "other.onnx")
    onnxruntime.InferenceSession(str(FOLDER / "resnet50_narrow.onnx"), options)
    return folder / "other.onnx"
