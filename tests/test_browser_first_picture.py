"""The first picture of a model: its boxes fill the panes, and their names and shapes can be read.

What is painted is recorded: the text, and its size on the screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from sample_models.resnet import resnet
from tests.browser import GraphView, optimized, settle
from tests.conftest import CORPUS
from tests.light_networks import light_file
from tests.slow import thorough_unless
from tests.torch_bert import exported_bert
from workbench.formats.io.samples import FOLDER
from workbench.presentation.view.groups import MOST_BOXES

pytestmark = [pytest.mark.browser, pytest.mark.slow]
FILLED = 0.5  # of a pane, at least
FILLED_BY = {"unet_sd15_raw": 0.38, "bvlc_alexnet": 0.42, "magika_v3_3": 0.45}  # others: lines beside many boxes
FILLED_AT_FIRST = 0.4  # of the pane of the page Open, which is lower below what the page says
LETTERS = 11  # px of height, at least
RECORD = r"""
window.painted = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
    if (this.canvas.classList.contains("gw-canvas")) {
        const { a, d, e, f } = this.getTransform();
        const size = parseFloat(this.font.match(/([\d.]+)px/)[1]) * a / devicePixelRatio;
        window.painted.push([text, size, (a * x + e) / devicePixelRatio, (d * y + f) / devicePixelRatio]);
    }
    return fillText.call(this, text, x, y, ...more);
};
"""
SAMPLES = ("resnet50_narrow", "ppocr_cls_v2", "basic_pitch_nmp", "silero_vad", "conv_relu_conv_relu")
REAL = (
    "bert_12l_raw",
    "ddddocr_det_yolox",
    "magika_v3_3",
    "open_nsfw_resnet",
    "ppocrv4_det",
    "ppocrv4_rec",
    "unet_sd15_raw",
)
LIGHT = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "shufflenet", "squeezenet", "vgg19", "zfnet512")


@dataclass(frozen=True)
class Picture:
    """What the last pane shows. fill: the share that its boxes cover. smallest: px of the lowest text. said: its texts."""

    boxes: int
    fill: float
    smallest: float
    said: tuple[str, ...]

    @property
    def cut(self) -> list[str]:
        return [text for text in self.said if text.endswith("…")]


def picture(view: GraphView) -> Picture:
    """Painted anew, fitted into the pane."""
    view.page.evaluate("window.painted = []")
    view.press("Space")
    view.page.wait_for_function("window.painted.length > 0")
    state, canvas = view.rest().state, view.canvas.bounding_box()
    pane = canvas["width"] / state["panes"] * canvas["height"]
    drawn = view.ask("hook => hook.drawn()")
    boxes = [view.box(id_) for id_ in drawn]
    painted = view.page.evaluate("window.painted")
    return Picture(
        boxes=sum(1 for id_ in drawn if not id_.startswith(("in:", "out:"))),
        fill=sum(box["w"] * box["h"] for box in boxes) / pane,
        smallest=min(size for _, size, *_ in painted),
        said=tuple(dict.fromkeys(text for text, *_ in painted)),
    )


def assert_can_be_read(tab, app, model: Path) -> Picture:
    tab.add_init_script(RECORD)
    shown = picture(optimized(tab, app, model))
    assert shown.fill >= FILLED_BY.get(model.stem, FILLED), f"boxes fill {shown.fill:.0%} of the pane"
    assert shown.smallest >= LETTERS - 0.05
    assert shown.boxes <= MOST_BOXES
    return shown


@pytest.mark.parametrize("stem", SAMPLES)
def test_boxes_of_a_sample_fill_the_pane_and_nothing_they_say_is_cut(tab, app, stem):
    assert not assert_can_be_read(tab, app, FOLDER / f"{stem}.onnx").cut


@pytest.mark.parametrize("stem", [thorough_unless(stem in ("ppocrv4_det", "unet_sd15_raw"), stem) for stem in REAL])
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real models is not on this machine")
def test_boxes_of_a_real_model_fill_the_pane_and_nothing_they_say_is_cut(tab, app, stem):
    assert not assert_can_be_read(tab, app, CORPUS / f"{stem}.onnx").cut


@pytest.mark.parametrize("name", [thorough_unless(name in ("bvlc_alexnet", "squeezenet"), name) for name in LIGHT])
def test_boxes_of_a_light_network_fill_the_pane_and_nothing_they_say_is_cut(tab, app, name, tmp_path):
    assert not assert_can_be_read(tab, app, light_file(name, tmp_path)).cut


@pytest.mark.thorough
def test_boxes_of_a_deep_network_and_of_a_transformer_fill_the_pane(tab, app, tmp_path):
    deep = tmp_path / "resnet101.onnx"
    deep.write_bytes(resnet(width=16).SerializeToString())
    assert any("×22" in text for text in assert_can_be_read(tab, app, deep).said)
    assert any("×12" in text for text in assert_can_be_read(tab, app, exported_bert(tmp_path / "bert.onnx")).said)


def test_the_one_pane_of_a_model_that_nothing_has_changed_is_filled_too(tab, app):
    tab.add_init_script(RECORD)
    tab.goto(f"{app[0]}/?model={FOLDER / 'resnet50_narrow.onnx'}")
    settle(tab)
    view = GraphView(tab).rest()
    assert view.state["panes"] == 1
    shown = picture(view)
    assert shown.fill >= FILLED_AT_FIRST and shown.smallest >= LETTERS - 0.05


def test_the_first_picture_answers_where_time_and_layouts_are_and_how_many_blocks_there_are(tab, app):
    """Of ResNet-50: a share in each box that has one, names that are counted, shapes with their layouts."""
    tab.add_init_script(RECORD)
    shown = picture(optimized(tab, app, FOLDER / "resnet50_narrow.onnx"))
    shares = [text for text in shown.said if text.endswith(" % of FLOPs")]
    assert len(shares) >= 4
    assert {f"bottleneck {number}" for number in range(1, 5)} <= set(shown.said)
    assert {"stem", "head", "1x128x14x14", "1x128x14x14 NCHW"} <= set(shown.said)
