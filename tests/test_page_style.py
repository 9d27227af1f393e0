"""The app's style sheet is in the page itself, so that what is drawn first stays where it is."""

from __future__ import annotations

import urllib.request

import pytest

from tests.browser import settle, watched_page
from workbench.interfaces.ui.server import page_style

MOST_SHIFT = 0.3  # of the screen; without the style sheet in the page it was 0.4 to 1.3
SHIFTS = """
    window.shifted = 0;
    new PerformanceObserver(list => {
        for (const entry of list.getEntries()) window.shifted += entry.hadRecentInput ? 0 : entry.value;
    }).observe({ type: "layout-shift", buffered: true });
"""

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def answer(address: str, accept: str) -> tuple[bytes, dict[str, str]]:
    request = urllib.request.Request(address, headers={"Accept": accept, "Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as response:
        return response.read(), dict(response.headers)


def test_a_page_has_the_style_sheet_once_and_says_its_length(app):
    rules = page_style._STYLE.read_bytes()
    for path in ("", "optimize", "learn"):
        body, headers = answer(f"{app[0]}/{path}", "text/html,*/*")
        assert body.count(b"<style>" + rules) == 1
        assert len(body) == int(headers["content-length"])


def test_what_is_no_page_is_left_as_it_is(app):
    body, headers = answer(f"{app[0]}/_stcore/health", "text/html")
    assert b"<style>" not in body and not headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", ["", "optimize", "run", "memory", "export", "learn"])
def test_little_moves_while_a_page_is_drawn(browser, app, path):
    with watched_page(browser) as page:
        page.add_init_script(SHIFTS)
        page.goto(f"{app[0]}/{path}?model=sample_models/resnet50_narrow.onnx")
        settle(page, limit_s=300)
        assert page.evaluate("window.shifted") < MOST_SHIFT
