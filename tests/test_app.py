"""The app without a browser: Open and Optimize with every sample, pass, strategy and profile; what goes wrong is a sentence."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

import passes as library
from tests.conftest import CORPUS
from tests.making import HOSTILE, discover_again, hostile_model, model, node, saved, value
from tests.pages import (
    STRATEGIES,
    compared,
    drawn,
    fine,
    history,
    opened_file,
    opened_sample,
    page,
    steps,
    through_optimize,
    verdicts,
    words,
)
from tests.slow import thorough_unless
from tests.waiting import LIMIT_S
from workbench.formats.io.samples import samples
from workbench.interfaces.ui.state import session
from workbench.interfaces.ui.state.commands import python_of
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import open_uploads
from workbench.pipeline.registry.pass_choice import choose
from workbench.planning.layout.profile import profile_names
from workbench.planning.layout.strategies.strategy_facts import layout_step
from workbench.run.worker.client import Worker

SAMPLES = [sample.file.stem for sample in samples() if sample.group in ("Real networks", "Layouts", "Patterns")]
SMALL = ("conv_relu_conv_relu", "tvm_two_convs_nhwc", "npu_path", "npu_reshape_add", "bias_add_dropout")
PRESET = list(choose(preset="normalize").names)
OTHER_PRESETS = [name for name, entry in library.presets().items() if "alias" not in entry and name != "normalize"]
COMBINED = [
    pytest.param(stem, strategy, profile, marks=[] if stem in SMALL[:2] else [pytest.mark.slow])
    for number, stem in enumerate(SAMPLES)
    for place, strategy in enumerate(STRATEGIES)
    for index, profile in enumerate(profile_names())
    if stem == SMALL[0] or (number + place) % len(profile_names()) == index
]


def test_the_whole_app_starts_on_a_sample():
    at = AppTest.from_file("../workbench/interfaces/ui/main.py", default_timeout=LIMIT_S).run()
    fine(at)
    assert at.session_state["opened"].title == samples()[0].title


def test_two_sessions_do_not_share_a_model():
    first, second = page("open").run(), page("open").run()
    fine(first.button(key="sample_npu_path").click().run())
    fine(second.button(key="sample_bias_add_dropout").click().run())
    assert Path(first.session_state["opened"].path).stem == "npu_path"
    assert isinstance(session.worker(), Worker)
    fine(first.run())
    assert Path(first.session_state["opened"].path).stem == "npu_path"


@pytest.mark.slow
def test_a_hostile_name_is_text(tmp_path):
    opened = opened_file(hostile_model(tmp_path), title=HOSTILE)
    for name in ("open", "optimize", "run", "export"):
        at = fine(page(name, opened).run())
        shown = words(at)
        assert "<img" not in shown.replace("\\<img", ""), "every < is escaped for Markdown"
        html = "".join(element.proto.body for element in at.main if element.type == "html")
        assert "<img" not in html


def test_a_long_name_leaves_room_for_the_page(tmp_path):
    long = "n" * 10_000
    relu = node("Relu", long, "y")
    made = model([relu], inputs=[value(long, [1, 4])], outputs=[value("y", [1, 4])])
    opened = opened_file(Path(saved(tmp_path, made)))
    at = fine(page("optimize", opened).run())
    assert max(len(markdown.value) for markdown in at.markdown) < 1000


def test_a_strategy_that_proves_that_nothing_is_to_be_done_says_so():
    at = through_optimize("npu_reshape_add", ("strategy", "optimal"), ("target", "nchw"))
    assert not layout_step(history(at)).changed
    assert layout_step(history(at)).conclusion.split(",")[0] in words(at).replace("\\", "")


# ---- Open ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def open_page():
    return page("open").run()


@pytest.mark.parametrize("stem", SAMPLES)
def test_every_sample_opens(open_page, stem):
    at = fine(open_page.button(key=f"sample_{stem}").click().run())
    opened = at.session_state["opened"]
    assert Path(opened.path).stem == stem
    assert at.metric[0].value == f"{opened.summary.nodes:,}"


@pytest.mark.slow
def test_bound_dims_stay_and_the_file_keeps_them_symbolic():
    at = page("open", opened_sample("ppocr_cls_v2")).run()
    name, size = next(iter(at.session_state["opened"].graph.dims.items()))
    field = next(f for f in at.number_input if f.key.endswith(f"_{name}"))
    assert field.value == size
    field.set_value(size + 1)
    bind = next(b for b in at.button if b.label == "Bind")
    fine(bind.click().run())
    opened = at.session_state["opened"]
    assert opened.graph.dims[name] == size + 1
    assert any(name in str(opened.graph.type(v)) for v in opened.graph.inputs)


@pytest.mark.parametrize("content", [b"", b"\x08\x07truncated", os.urandom(200)], ids=["empty", "truncated", "random"])
def test_a_file_that_does_not_open_is_one_sentence_and_the_last_model_stays(open_page, tmp_path, content):
    file = tmp_path / "broken.onnx"
    file.write_bytes(content)
    before = open_page.session_state["opened"]
    open_page.text_input(key="path").set_value(str(file))
    at = next(b for b in open_page.button if b.label == "Open path").click().run()
    assert not at.exception
    assert len(at.error) == 1
    assert "broken" in at.error[0].value
    assert "Traceback" not in at.error[0].value
    assert at.session_state["opened"] is before


def test_uploads_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    held: dict = {}
    monkeypatch.setattr(session.st, "session_state", held)
    content = (samples()[1].file).read_bytes()
    upload = SimpleNamespace(name="model.onnx", getbuffer=lambda: memoryview(content))
    open_uploads([upload])
    assert len(list(tmp_path.glob("workbench-upload-*"))) == 1
    with pytest.raises(Exception, match=r"model\.onnx"):
        open_uploads([SimpleNamespace(name="model.onnx", getbuffer=lambda: memoryview(b"nothing"))])
    assert len(list(tmp_path.glob("workbench-upload-*"))) == 1, "the upload that failed is gone"
    held.clear()
    assert not list(tmp_path.glob("workbench-upload-*")), "and so is one that nobody holds any more"


# ---- Optimize --------------------------------------------------------------------------


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("stem", [s if s in SMALL else pytest.param(s, marks=pytest.mark.slow) for s in SAMPLES])
def test_the_default_preset_keeps_every_sample_equal(stem):
    at = through_optimize(stem)
    changed = [step.title for step in history(at).steps[1:] if step.changed]
    assert [row["step"] for row in steps(at)[1:] if "changes nothing" not in row["step"]] == changed
    assert len(history(at)) == len(PRESET) + 1
    assert verdicts(at) == {"equal"}
    assert steps(at)[0]["rewrites"] == "-"


@pytest.fixture(scope="module")
def optimize_page():
    """By sample, one session of the page: its settings are chosen one after the other, as a user does."""
    return cache(through_optimize)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("stem", "strategy", "profile"), COMBINED)
def test_every_strategy_and_profile(optimize_page, stem, strategy, profile):
    """On the smallest sample all combinations; on each other every strategy, the profiles in rotation."""
    at = optimize_page(stem)
    at.radio(key="strategy").set_value(strategy)
    at.selectbox(key="target").set_value(profile)
    fine(at.run())
    spec = at.session_state["opened"].spec
    assert spec.profile.name == profile and library.strategies()[strategy]().name in spec.pipeline.names
    assert len(history(at)) == len(PRESET) + 2
    assert verdicts(at) == {"equal"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "stem", [SMALL[0], *(thorough_unless(False, stem) for stem in ("resnet50_narrow", "silero_vad"))]
)
def test_every_pass_off_and_on(stem):
    """On the smallest every pass, on a larger one and one with bodies those of the preset."""
    at = through_optimize(stem, ("strategy", STRATEGIES[0]))
    names = [box.key.removeprefix("on_") for box in at.checkbox if str(box.key).startswith("on_")]
    length = len(history(at))
    for name in names if stem == SMALL[0] else PRESET:
        was = at.checkbox(key=f"on_{name}").value
        fine(at.checkbox(key=f"on_{name}").set_value(not was).run())
        assert len(history(at)) == length + (-1 if was else 1)
        assert verdicts(at) == {"equal"}
        at.checkbox(key=f"on_{name}").set_value(was)  # with the next one's change
    fine(at.run())
    assert len(history(at)) == length


def test_a_repetition_that_is_switched_off_stays_in_its_place():
    at = page("optimize", opened_sample("conv_relu_conv_relu"))
    at.query_params["passes"] = text = "fixpoint(fold_constants,fold_batchnorm),dead_nodes,fixpoint(cancel_pairs)"
    fine(at.run())
    for on, passes in ((False, text.replace("fixpoint(cancel_pairs)", "cancel_pairs")), (True, text)):
        fine(at.checkbox(key="on_repeat#2").set_value(on).run())
        assert str(at.session_state["opened"].spec.pipeline) == passes
        assert [element.value for element in at.sidebar.markdown] == ["*repeated from here*"] * 2


@pytest.mark.slow
def test_passes_move_up_and_down_and_back():
    at = through_optimize("conv_relu_conv_relu")
    first, second = PRESET[:2]
    titles = [step.title for step in history(at).steps[1:3]]
    fine(at.button(key=f"down_{first}").click().run())
    assert [step.title for step in history(at).steps[1:3]] == titles[::-1]
    assert at.session_state["pass_order"][2:4] == [
        second,
        first,
    ]  # behind fix_dims, which is off, and the begin of the fixpoint
    fine(at.button(key=f"up_{first}").click().run())
    assert [step.title for step in history(at).steps[1:3]] == titles
    fine(at.checkbox(key=f"on_{first}").set_value(False).run())
    fine(at.checkbox(key="on_precision_optimal").set_value(True).run())
    fine(at.button(key="up_precision_optimal").click().run())  # past all those that are off
    assert list(at.session_state["opened"].spec.pipeline.names)[-2:] == ["precision_optimal", PRESET[-1]]
    size = at.number_input(key="option_fold_constants.max_bytes")
    default = size.value
    fine(size.set_value(1000).run())
    fine(at.button(key="reset_passes").click().run())
    assert at.number_input(key="option_fold_constants.max_bytes").value == default
    assert at.checkbox(key=f"on_{first}").value is True
    assert len(history(at)) == len(PRESET) + 1


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("preset", ["normalize", "simplify"])
@pytest.mark.parametrize("before", ["none", "greedy"])
def test_a_strategy_chosen_in_a_session_from_a_link_takes_the_place_that_it_has_without(preset, before):
    def chosen(at: AppTest, *strategies: str) -> list[str]:
        for strategy in strategies:
            fine(at.radio(key="strategy").set_value(strategy).run())
        return list(at.session_state["opened"].spec.pipeline.names)

    first = through_optimize("conv_relu_conv_relu", ("preset", preset))
    passes = chosen(first, before)
    linked = page("optimize", opened_sample("conv_relu_conv_relu"))
    for key in ("passes", "preset", "target"):
        if key in first.query_params:
            linked.query_params[key] = first.query_params[key]
    fine(linked.run())
    assert chosen(linked) == passes
    assert chosen(linked, "convert-layout") == chosen(first, "convert-layout")
    assert "layout_convert_layout" in chosen(linked)


@pytest.mark.slow
@pytest.mark.parametrize("preset", [thorough_unless(n == "simplify", n) for n in OTHER_PRESETS])
def test_every_preset_can_be_chosen_and_left(preset):
    at = through_optimize("ppocr_cls_v2")
    nodes = len(history(at).graph)
    fine(at.selectbox(key="preset").select(preset).run())
    assert [step.pass_name for step in history(at).steps[1:]] == list(choose(preset=preset).names)
    assert verdicts(at) <= {"equal"}
    if preset == "simplify":
        assert len(history(at).graph) < nodes
    fine(at.selectbox(key="preset").select("normalize").run())
    assert len(history(at).graph) == nodes


@pytest.mark.slow
def test_the_mode_decides_what_runs_and_stands_in_command_and_python():
    at = through_optimize("ppocr_cls_v2")
    assert any(step.pass_name == "fold_batchnorm" and step.changed for step in history(at).steps)
    fine(at.selectbox(key="mode").select("exact").run())
    assert not any(step.pass_name == "fold_batchnorm" and step.changed for step in history(at).steps)
    assert any("--mode exact" in code.value for code in at.code)
    opened = at.session_state["opened"]
    assert "mode='exact'" in python_of(opened, opened.spec)


def test_an_option_reaches_the_pass_and_the_command():
    at = through_optimize("conv_relu_conv_relu", ("strategy", STRATEGIES[0]))
    with_options = [w for w in (*at.number_input, *at.text_input, *at.checkbox) if str(w.key).startswith("option_")]
    number = next(w for w in with_options if isinstance(w.value, int | float) and not isinstance(w.value, bool))
    fine(number.set_value(number.value + 1).run())
    name = number.key.removeprefix("option_")
    pass_name, _, field = name.partition(".")
    step = next(s for s in at.session_state["opened"].history.steps if s.pass_name == pass_name)
    assert step.options[field] == number.value
    assert f"{field}={number.value}" in at.code[0].value


@pytest.mark.slow
def test_every_step_moment_and_view_is_shown():
    at = through_optimize("conv_relu_conv_relu", ("strategy", STRATEGIES[0]))
    history = at.session_state["opened"].history
    for index, step in enumerate(history.steps):
        at.session_state["step"] = index
        for view in ("Graph", "Rewrites", "Text"):
            at.session_state["view"] = view
            fine(at.run())
        at.session_state["view"] = "Text"
        for done in range(len(step.rewrites)) if len(step.rewrites) > 1 else ():
            fine(at.slider[0].set_value(done).run())
    at.session_state["view"] = "Graph"
    scene = drawn(fine(at.run()))["scene"]
    assert [step["title"] for step in scene["steps"]] == [step.title for step in history.steps]
    assert [rewrite["s"] for rewrite in scene["rewrites"]] == [r.sentence for s in history.steps for r in s.rewrites]


def failing_pass(folder: Path) -> None:
    """A pass in a file of its own, wrong on purpose: its second rewrite makes a Relu of x an Abs."""
    folder.mkdir()
    (folder / "spoil_relu.py").write_text(
        '''"""Wrong on purpose."""
from dataclasses import dataclass
from workbench.ir import Edit
from workbench.rewrite.core.passes import Pass
from workbench.rewrite.core.rule import Rewrite


@dataclass(frozen=True)
class SpoilRelu(Pass):
    """Makes each Relu another operator, the first the same one under another name."""

    title = "Spoil Relus"

    def rewrites(self, graph, context):
        relus = [node for node in graph.nodes if node.op == "Relu"]
        for number, node in enumerate(relus):
            new = node.replace(op_type="Relu" if number == 0 else "Neg", name=f"spoiled_{number}")
            yield Rewrite(Edit(remove=(node.name,), insert=(new,)), f"spoiled number {number}", nodes=(new.name,))
'''
    )


def test_a_failing_pass_is_shown_failing_with_its_rewrite(tmp_path, monkeypatch):
    failing_pass(tmp_path / "more")
    monkeypatch.setattr(library, "__path__", [*library.__path__, str(tmp_path / "more")])
    discover_again()
    try:
        at = through_optimize("conv_relu_conv_relu")
        compared(at.checkbox(key="on_spoil_relu").set_value(True).run())
        rows = steps(at)
    finally:
        monkeypatch.undo()
        discover_again()
    assert not at.exception
    assert rows[-1]["verdict"] == "NOT EQUAL"
    assert "spoiled number 1" in at.error[0].value
    assert "Rewrite 2 of 2" in at.error[0].value
    assert at.session_state["opened"].history[-1].broken_by == 1


@pytest.mark.thorough
@pytest.mark.skipif(not (CORPUS / "unet_sd15_raw.onnx").exists(), reason="shared/corpus/unet_sd15_raw.onnx is not here")
def test_a_model_of_thousands_of_nodes_stays_quick():
    opened = opened_file(CORPUS / "unet_sd15_raw.onnx")
    started = time.monotonic()
    at = fine(page("optimize", opened).run())
    assert time.monotonic() - started < 60
    assert verdicts(at) == {"equal"}
    for view in ("Graph", "Rewrites", "Text"):
        at.session_state["view"] = view
        started = time.monotonic()
        fine(at.run())
        assert time.monotonic() - started < 10


def test_passes_are_found_by_words_and_the_others_stand_in_groups():
    at = page("optimize", opened_sample("conv_relu_conv_relu"))
    fine(at.run())
    groups = [caption.value for caption in at.sidebar.caption]
    assert any(group.startswith(markdown_escaped("ort: write operators of ONNX Runtime")) for group in groups)
    before = at.session_state["opened"].spec
    fine(at.text_input(key="find_pass").set_value("Batch fold").run())
    shown = {box.key for box in at.sidebar.checkbox if box.key.startswith("on_")}
    assert "on_fold_batchnorm" in shown and len(shown) < 4
    assert at.session_state["opened"].spec == before, "what is not shown stays as it is"
    fine(at.text_input(key="find_pass").set_value("fp16").run())
    found = [box.key.removeprefix("on_") for box in at.sidebar.checkbox if box.key.startswith("on_")]
    ours, tools = found.index("precision_optimal"), found.index("ort_float16")
    assert ours < tools, "our own precision passes come before other people's converters"
    assert any("element type" in caption.value or "float16" in caption.value for caption in at.sidebar.caption)
    fine(at.text_input(key="find_pass").set_value("bias gelu").run())
    fine(at.checkbox(key="on_fuse_bias_gelu").set_value(True).run())
    fine(at.text_input(key="find_pass").set_value("").run())
    assert "fuse_bias_gelu" in at.session_state["opened"].spec.pipeline.names
