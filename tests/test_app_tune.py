"""The page Tune: a recipe, its evidence, what is kept when it is stopped, and its pipeline on Optimize."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w
from streamlit.testing.v1 import AppTest

from tests.browser import guarded, running_app, select, settle
from tests.conftest import ROOT
from tests.pages import fine, opened_sample, page, words
from tests.waiting import LIMIT_S
from workbench.interfaces.study.tuning.recipe import STOPPED_EARLY, load_recipe
from workbench.interfaces.ui.screens import tune_page
from workbench.interfaces.ui.screens.tune_page import Tuning
from workbench.interfaces.ui.state.record_files import record_file
from workbench.pipeline.registry.pass_choice import choose


@pytest.fixture
def at():
    script = "from workbench.interfaces.ui.screens.tune_page import tune_page; tune_page(None)"
    at = AppTest.from_string(script, default_timeout=LIMIT_S)
    at.session_state["opened"] = opened_sample("conv_relu_conv_relu")
    return at


def pressed(at: AppTest, **settings: str) -> AppTest:
    for label, value in settings.items():
        fields = [field for field in (*at.selectbox, *at.text_input) if field.label.replace(" ", "_") == label]
        fields[0].set_value(value)
    return next(button for button in at.button if button.label == "Tune").click().run()


@pytest.mark.slow
def test_the_smallest_file_is_found_and_its_pipeline_is_used_on_optimize(at, tmp_path):
    assert "Nothing is tuned yet" in words(fine(at.run()))
    fine(pressed(at, Best_for="size"))
    rows = at.dataframe[0].value.to_dict("records")
    assert rows[0]["result"] == "best" and len(rows) == 7
    opened = at.session_state["opened"]
    recipe = opened.state(Tuning).recipe
    assert recipe.label in words(at) and f"{len(recipe.evidence)} candidates" in words(at)
    assert any(f"optimize {opened.path} --recipe recipe.toml" in code.value for code in at.code)
    (tmp_path / "recipe.toml").write_text(tomli_w.dumps(tomllib.loads(recipe.toml())))
    assert load_recipe(tmp_path / "recipe.toml").table() == recipe.table()
    assert fine(at.run()).dataframe, "a second look keeps the results"

    optimize = fine(page("optimize", opened).run())
    optimize.session_state["pipeline_wished"] = tune_page._linked_pipeline(recipe)
    fine(optimize.run())
    passes = choose(list(recipe.passes), export_for=recipe.export_for, options=recipe.options)
    assert opened.spec.pipeline.passes == passes.passes


def test_a_budget_that_is_no_time_is_a_sentence(at):
    at.run()
    (error,) = pressed(at, Budget="soon").error
    assert error.value == "the budget is a time such as 90s, 10m or 1h, not 'soon'"
    assert at.session_state["opened"].state(Tuning).recipe is None


@pytest.mark.slow
def test_a_tuning_that_is_stopped_goes_on_with_what_it_measured(at, monkeypatch):
    opened = at.session_state["opened"]
    real = tune_page.tune

    def stopped_after_the_first_round(*words, **how):
        heard = []
        is_enough = lambda: any("round 1" in text for text in heard)  # noqa: E731
        return real(*words, **{**how, "on_progress": heard.append, "is_enough": is_enough})

    monkeypatch.setattr(tune_page, "tune", stopped_after_the_first_round)
    at.run()
    fine(pressed(at, Budget="3m"))
    assert opened.state(Tuning).recipe.ended == STOPPED_EARLY and "Tune again to continue" in words(at)
    assert record_file(opened, "tunings").read_text().count("\n") >= 1


@pytest.mark.slow
def test_the_recipe_is_shown_rewrite_by_rewrite(browser):
    with running_app() as (address, _), guarded(browser, address) as tab:
        tab.goto(f"{address}/tune?model={ROOT / 'sample_models' / 'resnet50_narrow.onnx'}")
        settle(tab)
        select(tab, tab.get_by_role("combobox", name="Best for"), "size")
        tab.get_by_role("button", name="Tune", exact=True).click()
        tab.get_by_text("Best for size on").wait_for()
        settle(tab)
        tab.get_by_role("button", name="Use on Optimize").click()
        tab.wait_for_url("**/optimize?*")
        settle(tab)
        tab.get_by_text("Fold batch normalization into convolution").first.wait_for()
