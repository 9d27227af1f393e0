"""The list of what changed, beside the graph: each kind leads to its places."""

from __future__ import annotations

import pytest

from tests.pages import drawn, fine, history, optimize
from workbench.interfaces.ui.widgets.steps import WHOLE
from workbench.presentation.explanations.digest import change_digest


def shown(at):
    """The moment that the browser is asked for: step, and rewrites done."""
    return drawn(at)["at"]["step"], drawn(at)["at"]["rewrite"]


@pytest.mark.slow
def test_a_card_for_each_kind_and_a_click_shows_its_first_place():
    at = optimize("ppocr_cls_v2")
    digest = change_digest(history(at))
    buttons = [button for button in at.button if (button.key or "").startswith("show_kind_")]
    assert [button.label.rsplit(", ", 1)[0] for button in buttons] == [kind.title for kind in digest.kinds]
    assert at.session_state[WHOLE]
    place = digest.kinds[1].places[0]
    fine(buttons[1].click().run())
    assert not at.session_state[WHOLE] and shown(at) == (place.step, place.rewrite + 1)


@pytest.mark.slow
def test_the_way_through_its_places_and_back_to_the_whole():
    at = optimize("ppocr_cls_v2")
    kind = change_digest(history(at)).kinds[1]
    fine(at.button(key="show_kind_1").click().run())
    assert at.button(key="place_before").disabled
    for place in kind.places[1:3]:
        fine(at.button(key="place_after").click().run())
        assert shown(at) == (place.step, place.rewrite + 1)
    fine(at.button(key="place_before").click().run())
    assert shown(at) == (kind.places[1].step, kind.places[1].rewrite + 1)
    assert any(text.value == f"2 of {len(kind.places)}" for text in at.markdown)
    fine(at.button(key="place_why_not").click().run())
    assert at.session_state["view"] == "Why not" and at.session_state["step"] == kind.places[1].step
    fine(at.button(key="show_whole").click().run())
    assert at.session_state[WHOLE]


def test_a_model_in_which_nothing_changes_says_so():
    at = optimize("conv_relu_conv_relu")
    assert change_digest(history(at)).kinds == () and any(c.value == "No pass changed anything." for c in at.caption)


@pytest.mark.slow
def test_the_order_by_step_stays_while_steps_are_chosen():
    at = optimize("ppocr_cls_v2")
    fine(at.segmented_control(key="digest_order").set_value("By step").run())
    first = next(index for index, step in enumerate(history(at).steps) if step.changed)
    fine(at.radio(key="step_list").set_value(first).run())
    assert at.segmented_control(key="digest_order").value == "By step" and at.session_state["step"] == first


@pytest.mark.slow
def test_titles_are_literal_in_the_list_and_in_the_field():
    """A list of choices renders Markdown, a field does not."""
    at = optimize()
    fine(at.radio(key="goal").set_value("hardware").run())
    fine(at.segmented_control(key="digest_order").set_value("By step").run())
    titles = {option.replace("\\", "") for option in at.radio(key="step_list").options}
    assert any(title.startswith("Layout: proven minimum") for title in titles)
    fine(at.radio(key="step_list").set_value(at.session_state["step"]).run())
    at.session_state["view"] = "Text"
    fine(at.run())
    (field,) = (one for one in at.selectbox if one.label == "Step shown")
    assert any("Layout: proven minimum" in option for option in field.options)
    assert not any("\\" in option for option in field.options)
