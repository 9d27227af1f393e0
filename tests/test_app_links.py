"""Links that name what is not here: the page says so until the user closes the message, and shows the rest."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages import drawn, fine, opened_sample, page, words

PIPELINE = {
    "passes": "fold_batchnorm,layout{strategy=greedy},cancel_pairs",
    "target": "cuda",
    "mode": "fast",
    "grow": "2",
}
PAGES_OF_RESULTS = (
    *("run", "compare", "export", "layouts", "memory", "streams", "precision"),
    *("tune", "extract", "matrix", "compare_tools", "lockstep", "runs", "workshop"),
)


def linked(**parameters: str):
    at = page("optimize", opened_sample("npu_path"))
    for key, value in parameters.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception
    return at


def messages(at) -> str:
    return " ".join(error.value.replace("\\", "") for error in at.error)


def test_unknown_passes_and_targets_are_named_and_the_rest_is_shown():
    at = linked(passes="nonsense,fold_batchnorm", target="mars")
    assert messages(at) == (
        "The link names the pass 'nonsense' and the target 'mars', which this workbench does not have; the rest is shown."
    )
    assert at.selectbox(key="target").value != "mars"
    assert messages(at.run()), "it stays until it is closed"
    assert not messages(at.button(key="close_refusal").click().run())


def test_a_step_beyond_the_last_is_said():
    at = linked(passes="fold_batchnorm", target="cuda", step="77")
    at.run()
    assert messages(at) == "The link names step 77, but the last one is 1, which is shown."


def test_a_link_of_what_is_here_says_nothing():
    assert not messages(linked(passes="fold_batchnorm", target="npu", step="1"))


@pytest.mark.parametrize(
    ("former", "name"), [("layout_optimal_any_order", "strategy=optimal"), ("drop_dropout", "remove_dropout")]
)
def test_a_former_name_of_a_pass_in_a_link_is_read(former, name):
    at = linked(passes=former, target="npu")
    assert not messages(at) and name in " ".join(code.value for code in at.code)


def test_the_types_of_inputs_and_outputs_are_in_the_link_the_controls_and_the_command():
    at = linked(passes="precision_optimal{io=as-computed}", target="cpu", step="1")
    choice = at.selectbox(key="option_precision_optimal.io")
    assert (choice.value, choice.options) == ("as-computed", ["float32", "as-computed"])
    assert all("'precision_optimal{io=as-computed}'" in code.value for code in at.code)
    choice.set_value("float32").run()
    assert not at.exception and all("--passes precision_optimal " in code.value for code in at.code)
    assert at.query_params["passes"] == "precision_optimal"


def from_link(name: str, **parameters: str | list[str]) -> AppTest:
    """A page as a fresh browser opens it by a link."""
    at = page(name)
    if "target" in at.session_state:
        del at.session_state["target"]
    at.query_params.update({"model": opened_sample("npu_path").path, **PIPELINE, **parameters})
    return fine(at.run())


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", PAGES_OF_RESULTS)
def test_a_link_to_any_page_has_run_its_pipeline(name):
    at = from_link(name)
    opened = at.session_state["opened"]
    assert opened.spec.pipeline.names == ("fold_batchnorm", "layout_greedy", "cancel_pairs")
    assert (opened.spec.target, opened.spec.mode, opened.spec.grow) == ("cuda", "fast", 2)
    assert {key: at.query_params[key] for key in PIPELINE} == PIPELINE
    history = opened.history
    fine(at.run())
    assert opened.history is history, "a second run of the page runs nothing again"


def test_optimize_goes_on_with_the_result_of_the_link():
    at = from_link("export", leave_out="fold_batchnorm:")
    opened = at.session_state["opened"]
    history = opened.history
    assert "fold_batchnorm" not in [step.pass_name for step in history.steps]
    at = page("optimize", opened)
    for key in ("preset", "target"):
        del at.session_state[key]
    fine(at.run())
    assert opened.history is history


def test_export_names_the_file_by_what_it_is():
    labels = [button.label for button in from_link("export").get("download_button")]
    assert "Download npu_path.opt.onnx" in labels
    at = fine(page("export", opened_sample("npu_path")).run())
    assert "Download npu_path.as-loaded.onnx" in [button.label for button in at.get("download_button")]


def test_compare_shows_the_result_of_the_link():
    titles = [step["title"] for step in drawn(from_link("compare"))["scene"]["steps"]]
    assert titles == ["original", "result"]


def test_a_pipeline_that_does_not_exist_is_said_on_every_page():
    at = page("memory", opened_sample("npu_path"))
    at.query_params["passes"], at.query_params["target"] = "nonsense", "mars"
    at.run()
    assert not at.exception and "'nonsense'" in messages(at) and "'mars'" in messages(at)
    assert "npu" in words(at)
