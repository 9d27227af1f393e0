"""Links that name what is not here: the page says so until the user closes the message, and shows the rest."""

from __future__ import annotations

from tests.pages import opened_sample, page


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


def test_the_types_of_inputs_and_outputs_are_in_the_link_the_controls_and_the_command():
    at = linked(passes="precision_optimal{io=as-computed}", target="cpu", step="1")
    choice = at.selectbox(key="option_precision_optimal.io")
    assert (choice.value, choice.options) == ("as-computed", ["float32", "as-computed"])
    assert all("'precision_optimal{io=as-computed}'" in code.value for code in at.code)
    choice.set_value("float32").run()
    assert not at.exception and all("--passes precision_optimal " in code.value for code in at.code)
    assert at.query_params["passes"] == "precision_optimal"
