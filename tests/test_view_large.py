"""The graph view on large models, in a real browser: ResNet-101's shape, a real UNet, ten thousand nodes."""

from __future__ import annotations

import json

import onnx
import pytest

from sample_models.resnet import resnet
from tests.browser import GraphView, press_more, settle
from tests.conftest import CORPUS
from tests.viewing import large_graph
from workbench.formats.io.exporting import export_onnx
from workbench.presentation.view.groups import MOST_BOXES

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    onnx.save(resnet(width=8, side=64, classes=10), str(folder / "resnet101.onnx"))
    export_onnx(large_graph(10_000, scopes=True), folder / "scopes.onnx")
    export_onnx(large_graph(10_000), folder / "plain.onnx")
    return folder


def optimized(page, app, model, passes: str) -> GraphView:
    page.goto(f"{app[0]}/optimize?model={model}&passes={passes}&target=cuda&step=2")
    settle(page, limit_s=300)
    return GraphView(page).rest()


def stays(view: GraphView, steps: int) -> None:
    """Nothing moves while one goes through so many moments, where no group is closed that a moment would open."""
    view.press("ArrowLeft")  # the first rewrite is zoomed to, so that it can be read
    before = view.rest().places()
    for _ in range(steps):
        view.press("ArrowLeft")
    after = view.places()
    shifts = {(round(after[id_][0] - before[id_][0]), round(after[id_][1] - before[id_][1])) for id_ in before}
    assert len(shifts) == 1, "the camera follows the rewrites; boxes do not move among each other"


def test_resnet_101_before_and_after(tab, app, models):
    view = optimized(tab, app, models / "resnet101.onnx", "fold_batchnorm,layout_record_then_insert")
    assert view.state["step"] == 2 and view.state["rewrite"] > 200
    assert {"~"} <= {mark for *_, mark in view.places().values()}
    press_more(tab, "Open all")
    view.wait("hook => hook.boxes().length > 340 && !hook.boxes().some(id => id.startsWith('group:'))")
    stays(view, 100)
    view.goto_node("batchnormalization")
    assert view.state["zoom"] >= 0.45, "what is found can be read"


@pytest.mark.skipif(not (CORPUS / "unet_sd15_raw.onnx").exists(), reason="shared/corpus/unet_sd15_raw.onnx is not here")
def test_a_real_unet_is_played_searched_and_inspected(tab, app):
    view = optimized(tab, app, CORPUS / "unet_sd15_raw.onnx", "fold_constants,layout_record_then_insert")
    shown = [id_ for id_ in view.ask("hook => hook.drawn()") if not id_.startswith(("in:", "out:"))]
    assert 5 < len(shown) <= MOST_BOXES, "collapsed to what can be read"
    view.press(*["ArrowLeft"] * 30)
    closed = "hook.framed().filter(id => id.startsWith('group:') && !hook.box(id).open)"
    view.wait(f"hook => hook.framed().length && !{closed}.length")
    view.goto_node("softmax")
    found = view.state["selected"]
    view.wait(f"hook => hook.box({json.dumps(found)})?.visible")
    tab.locator(".gw-inspector").get_by_text("Attributes", exact=True).wait_for()
    assert len(view.boxes) >= len(shown), "what hid it was opened"


@pytest.mark.parametrize("name", ["scopes", "plain"])
def test_ten_thousand_nodes_collapsed_searched_opened_and_panned(tab, app, models, name):
    tab.goto(f"{app[0]}/?model={models / name}.onnx")
    settle(tab)
    view = GraphView(tab).rest()
    assert len(view.ask("hook => hook.drawn()")) <= MOST_BOXES + 4
    view.goto_node("mul_7611" if name == "plain" else "mul_8011")
    assert "Mul_" in view.state["selected"] and view.box(view.state["selected"])["visible"]
    press_more(tab, "Open all")
    view.wait("hook => hook.boxes().length > 10000")
    settle(tab)
    tab.keyboard.press("Escape")  # closes the menu
    frames = view.state["frames"]
    stage = view.canvas.bounding_box()
    tab.mouse.move(stage["x"] + 200, stage["y"] + 200)
    tab.mouse.down()
    for turn in range(30):
        tab.mouse.move(stage["x"] + 200 + 5 * turn, stage["y"] + 200 + 3 * turn)
    tab.mouse.up()
    assert view.state["frames"] > frames
    view.press("Space")
    assert view.state["zoom"] < 0.1, "all of it is in sight"
