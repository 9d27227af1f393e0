"""The page Compare: another file beside the open one, what corresponds and what does not."""

from __future__ import annotations

import onnx
import pytest

import workbench as wb
from tests.pages import drawn, fine, opened_sample, page, words
from tests.waiting import LIMIT_S
from workbench.formats.io.samples import FOLDER
from workbench.interfaces.ui.screens.lockstep_page import ShownSides
from workbench.interfaces.ui.state import gains
from workbench.interfaces.ui.state.session import open_other
from workbench.interfaces.ui.widgets.files_card import _VERDICT_JOB
from workbench.presentation.explanations.digest import change_digest


def card(at) -> str:
    return next(html.proto.body for html in at.get("html") if "wb-card" in html.proto.body)


def verified(at):
    """The page once the results of both files have been compared."""
    job = at.session_state["opened"].jobs.by_key.get(_VERDICT_JOB)
    if job is not None:
        assert job.is_done(within_s=LIMIT_S)
    return fine(at.run())


def kinds(at) -> list[str]:
    """The kinds of change in the list, each with how often."""
    return [button.label for button in at.button if (button.key or "").startswith("show_kind_")]


def test_what_corresponds_is_counted_and_what_does_not_is_listed():
    opened = opened_sample("conv_relu_conv_relu")
    open_other(opened, str(FOLDER / "npu_reshape_add.onnx"))
    at = verified(page("compare", opened).run())
    assert "only in the first" in words(at) or "only in the second" in words(at)
    assert f"{len(opened.graph)} → {len(opened.other.graph)}" in card(at)
    (unmatched,) = (table.value.to_dict("records") for table in at.dataframe)
    correspondence = opened.other.correspondence
    assert len(unmatched) == len(correspondence.only_a) + len(correspondence.only_b) > 0
    scene = drawn(at)["scene"]
    assert scene["pair"] == 1 and [step["title"] for step in scene["steps"]] == [
        opened.title,
        "npu_reshape_add.onnx",
    ]
    assert "--against" in at.code[0].value


def test_a_file_against_itself_has_nothing_unmatched_and_computes_the_same():
    opened = opened_sample("npu_path")
    open_other(opened, opened.path)
    at = verified(page("compare", opened).run())
    assert not at.dataframe and not kinds(at) and "Both files have the same nodes" in words(at)
    assert "equal" in card(at) and "bit-equal" in card(at)
    scene = drawn(at)["scene"]
    assert all(version[1] > 1 for box in scene["boxes"] for version in box["v"]), "nothing goes"


@pytest.mark.slow
def test_two_files_are_digested_and_a_click_frames_the_place(tmp_path):
    opened, file = opened_sample("ppocr_cls_v2"), tmp_path / "optimized.onnx"
    wb.export(wb.optimize(opened.graph).graph, file)
    open_other(opened, str(file))
    at = verified(page("compare", opened).run())
    assert "261 → 125" in card(at) and "equal" in card(at)
    labels = kinds(at)
    assert "Add, Clip, Mul, Div -> HardSwish, 18 times" in labels
    number = labels.index("Add, Clip, Mul, Div -> HardSwish, 18 times")
    fine(at.button(key=f"show_kind_{number}").click().run())
    first = drawn(at)["show"]
    assert len(first["frame"]) == 5, "four nodes become one"
    fine(at.button(key="place_after").click().run())
    second = drawn(at)["show"]
    assert second["n"] > first["n"] and set(second["frame"]).isdisjoint(first["frame"])
    assert "2 of 18" in words(at)
    fine(at.run())
    assert drawn(at)["show"]["n"] == second["n"], "a run of the page asks for nothing again"


def test_a_wrong_file_is_told_and_its_place_is_in_the_list(tmp_path):
    opened, file = opened_sample("conv_relu_conv_relu"), tmp_path / "wrong.onnx"
    model = onnx.load(opened.path)
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Sigmoid"
    onnx.save(model, file)
    open_other(opened, str(file))
    at = verified(page("compare", opened).run())
    assert "NOT EQUAL" in card(at) and opened.other.verdict.sentence in words(at).replace("\\", "")
    assert kinds(at) == ["Relu -> Sigmoid, 1 time"]


@pytest.mark.slow
def test_the_latency_of_both_is_measured_on_a_click():
    opened = opened_sample("conv_relu_conv_relu")
    open_other(opened, opened.path)
    at = verified(page("compare", opened).run())
    assert "not measured" in card(at)
    fine(at.button(key="measure_files").click().run())
    assert opened.jobs.by_key[gains.FILES_JOB].is_done(within_s=LIMIT_S)
    fine(at.run())
    assert " ms" in card(at) and "not measured" not in card(at)
    assert at.button(key="measure_files").label == "Measure again"


def test_a_comparison_that_was_cancelled_is_offered_again():
    opened = opened_sample("conv_relu_conv_relu")
    open_other(opened, opened.path)
    opened.jobs.cancelled.add(_VERDICT_JOB)
    at = fine(page("compare", opened).run())
    assert "not compared" in card(at)
    fine(at.button(key="compare_results").click().run())
    assert "bit-equal" in card(verified(at))


def test_a_link_opens_the_other_file_and_says_what_is_wrong_with_it():
    at = page("compare", opened_sample("npu_path"))
    at.query_params["other"] = str(FOLDER / "conv_relu_conv_relu.onnx")
    fine(at.run())
    assert at.session_state["opened"].other.title == "conv_relu_conv_relu.onnx"
    at = page("compare", opened_sample("npu_path"))
    at.query_params["other"] = "/no/such/file.onnx"
    at.run()
    assert not at.exception
    assert "there is no such file" in at.error[0].value
    assert "upload another model" in words(at)


@pytest.mark.slow
def test_it_starts_with_the_original_beside_the_result():
    opened = opened_sample("ppocr_cls_v2")
    at = fine(page("compare", opened).run())
    assert not at.dataframe and "Optimize the open model to see its result beside it" in words(at)
    fine(page("optimize", opened).run())
    at = fine(page("compare", opened).run())
    assert f"{len(opened.graph)} → {len(opened.history.graph)}" in card(at)
    assert [label.rsplit(", ", 1)[0] for label in kinds(at)] == [k.title for k in change_digest(opened.history).kinds]
    assert [step["title"] for step in drawn(at)["scene"]["steps"]] == ["original", "result"]

    at.query_params["other"] = str(FOLDER / "conv_relu_conv_relu.onnx")  # a link to another file is not lost
    fine(at.run())
    assert drawn(at)["scene"]["steps"][1]["title"] == "conv_relu_conv_relu.onnx"
    fine(at.button(key="compare_whole").click().run())
    assert drawn(at)["scene"]["steps"][1]["title"] == "result" and "other" not in at.query_params


def test_lockstep_steps_through_the_other_file_too_unless_that_is_switched_off():
    opened = opened_sample("conv_relu_conv_relu")
    open_other(opened, str(FOLDER / "npu_path.onnx"))
    at = fine(page("lockstep", opened).run())
    left, right = list(opened.state(ShownSides).recent)[-1].histories
    assert [node.op_type for node in left.initial.nodes] == [node.op_type for node in opened.graph.nodes]
    assert [node.op_type for node in right.initial.nodes] == [node.op_type for node in opened.other.graph.nodes]
    assert "npu_path.onnx, layout: greedy" in words(at).replace("\\", "")
    fine(at.toggle(key=f"lockstep_other_{opened.other.number}").set_value(False).run())
    _, right = list(opened.state(ShownSides).recent)[-1].histories
    assert [node.op_type for node in right.initial.nodes] == [node.op_type for node in opened.graph.nodes]
    assert "npu_path.onnx" in str(at.query_params["other"])
