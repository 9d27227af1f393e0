"""Profiles in the app, without a browser: made from a copy, changed, deleted; nothing found with an old one is shown."""

import pytest

from tests.pages import fine, opened_sample, page, steps, verdicts, words
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.strategies import LayoutComparisons
from workbench.planning.layout.profile import (
    Profile,
    built_in_names,
    load_profile,
    machine_target,
    profile_names,
    save_profile,
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The user's folder, empty."""
    monkeypatch.setenv("WORKBENCH_PROFILES", str(tmp_path / "own"))
    return tmp_path / "own"


def editor(name: str = "optimize", stem: str = "npu_path", start: str = "cuda"):
    """The page with its editor open, started from that profile."""
    at = fine(page(name, opened_sample(stem)).run())
    fine(at.selectbox(key="target").set_value(start).run())
    return fine(at.button(key="edit_profiles").click().run())


def press(at, label: str):
    """A click in the editor, which in a browser stays open by itself."""
    at.button(key="edit_profiles").click()
    return next(button for button in at.button if button.label == label).click().run()


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", ["optimize", "layouts"])
def test_a_profile_is_made_from_a_copy_and_chosen(name):
    at = editor(name, start="npu")
    assert at.text_input(key="profile_name_npu").value == "my-npu"
    at.text_input(key="profile_title_npu").set_value("Mine")
    at.selectbox(key="profile_weights_npu").set_value("OHWI")
    at.multiselect(key="profile_NHWC_npu").set_value(["Conv"])
    at.multiselect(key="profile_NCHW_npu").set_value(["MaxPool"])
    fine(press(at, "Save"))
    mine = load_profile("my-npu")
    assert (mine.title, mine.layout, mine.weights) == ("Mine", "NHWC", "OHWI")
    assert mine.required_layouts == {"Conv": "NHWC", "MaxPool": "NCHW"}
    fine(at.run())
    assert at.selectbox(key="target").value == "my-npu"
    assert "Mine" in words(at) or any("Mine" in option for option in at.selectbox(key="target").options)


@pytest.mark.slow
def test_what_was_found_with_the_old_one_is_not_shown_for_the_new():
    at = editor()
    fine(press(at, "Save"))
    fine(at.radio(key="strategy").set_value("greedy").run())
    before = at.session_state["opened"].history
    assert before[-1].after["transposes"] == 2
    fine(at.button(key="edit_profiles").click().run())
    at.multiselect(key="profile_NHWC_my-cuda").set_value([])
    fine(press(at, "Save"))
    fine(at.run())
    assert at.selectbox(key="target").value == "my-cuda"
    after = at.session_state["opened"].history
    assert after is not before and after[-1].after["transposes"] == 0
    assert verdicts(at) == {"equal"}


@pytest.mark.slow
def test_the_comparison_of_all_strategies_is_made_anew_too():
    at = editor("layouts")
    fine(press(at, "Save"))
    fine(at.run())
    assert at.session_state["opened"].state(LayoutComparisons).complete["my-cuda"].profile.weights != "HWOI"
    fine(at.button(key="edit_profiles").click().run())
    at.selectbox(key="profile_weights_my-cuda").set_value("HWOI")
    fine(press(at, "Save"))
    fine(at.run())
    assert at.session_state["opened"].state(LayoutComparisons).complete["my-cuda"].profile.weights == "HWOI"


@pytest.mark.slow
def test_only_ones_own_can_be_deleted():
    at = editor()
    assert next(button for button in at.button if button.label == "Delete").disabled
    fine(press(at, "Save"))
    fine(at.run())
    fine(at.button(key="edit_profiles").click().run())
    fine(press(at, "Delete"))
    fine(at.run())
    assert profile_names() == built_in_names()
    assert at.selectbox(key="target").value == machine_target()


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("profile_name_cuda", "npu", "'npu' is a built-in profile, which stays as it is"),
        ("profile_name_cuda", "../up", "'../up' cannot be the name of a profile"),
        ("profile_title_cuda", " ", "needs a title"),
    ],
)
def test_what_does_not_fit_is_a_sentence_and_nothing_is_written(folder, key, value, sentence):
    at = editor()
    at.text_input(key=key).set_value(value)
    press(at, "Save")
    assert not at.exception
    assert [sentence in error.value.replace("\\", "") for error in at.error] == [True]
    assert not folder.exists()


def test_an_operator_in_both_lists_and_a_name_that_is_taken(folder):
    at = editor()
    at.multiselect(key="profile_NCHW_cuda").set_value(["Conv"])
    press(at, "Save")
    assert "'Conv' is in two lists" in at.error[0].value.replace("\\", "")
    assert not folder.exists()
    at.multiselect(key="profile_NCHW_cuda").set_value([])
    fine(press(at, "Save"))
    fine(at.run())
    fine(at.selectbox(key="target").set_value("cuda").run())
    fine(at.button(key="edit_profiles").click().run())
    press(at, "Save")
    assert "there is already a profile 'my-cuda'" in at.error[0].value.replace("\\", "")


def test_a_bad_file_is_a_sentence_and_the_others_can_be_chosen(folder):
    folder.mkdir()
    (folder / "bad.toml").write_text("title = ")
    at = page("optimize", opened_sample("npu_path")).run()
    assert not at.exception
    assert [markdown_escaped(f"profile '{folder / 'bad.toml'}' is not TOML") in error.value for error in at.error] == [
        True
    ]
    assert at.selectbox(key="target").options == list(built_in_names())
    assert steps(at)


def test_a_profile_that_was_deleted_meanwhile_gives_way_to_the_usual_one(folder):
    at = editor()
    fine(press(at, "Save"))
    fine(at.run())
    (folder / "my-cuda.toml").unlink()
    fine(at.run())
    assert at.selectbox(key="target").value == machine_target()


def test_the_kernel_of_a_pair_is_shown_and_changed():
    save_profile(Profile("pairs", "Pairs", "NHWC", "OIHW", {"Conv": "NHWC"}, kernels={"Conv": "HWIO"}))
    at = editor(start="pairs")
    assert at.selectbox(key="profile_weights_pairs").value == "HWIO"
    at.selectbox(key="profile_weights_pairs").set_value("OHWI")
    fine(press(at, "Save"))
    assert load_profile("pairs").kernels == {"Conv": "OHWI"}
