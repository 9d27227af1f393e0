"""What a person comes for, gone through in a real browser from the first page to the end."""

from __future__ import annotations

import contextlib

import onnx
import pytest

from tests import journeys
from tests.browser import running_app, settle, watched_page

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def begun(browser, tmp_path, monkeypatch):
    """A page at the address of an app that knows nothing of an earlier user."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WORKBENCH_PASSES", str(tmp_path / "passes"))
    monkeypatch.delenv("WORKBENCH_MEASURE", raising=False)  # the card fills itself
    with contextlib.ExitStack() as stack:
        address, _ = stack.enter_context(running_app())
        page = stack.enter_context(watched_page(browser, accept_downloads=True))
        page.add_init_script(journeys.COUNT_CLICKS)
        page.goto(address)
        settle(page)
        yield page


def test_a_stranger_exports_a_smaller_model_and_reads_why(begun, tmp_path):
    result = journeys.stranger(begun, tmp_path)
    assert "176 → 123" in result.card and "equal" in result.card and " ms" in result.card
    assert "Fold batch normalization into convolution" in result.steps
    model = onnx.load(result.file)
    onnx.checker.check_model(model, full_check=True)
    assert len(model.graph.node) == 123
    assert journeys.clicks(begun) <= 4


def test_an_engineer_is_led_from_a_slow_model_to_the_operator_that_is_slow(begun):
    view = journeys.engineer(begun, "Conv")
    view.wait("hook => hook.state().query === 'op:Conv' && hook.state().hits > 0 && hook.state().colouring === 'query'")
    assert journeys.clicks(begun) <= 5


def test_an_author_comes_from_an_empty_file_to_an_accepted_pass(begun, tmp_path):
    journeys.author(begun)
    assert (tmp_path / "passes" / "abs_of_neg.py").read_text() == journeys.PASS
    assert "abs_of_neg" in begun.url
    assert journeys.clicks(begun) <= 5
