"""Ways through the app that a person goes with one aim, with the clicks each takes, as counted by the browser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.browser import GraphView, go, open_sample, settle, show_in_graph

COUNT_CLICKS = """addEventListener("click", ({ isTrusted, detail }) => {
    if (isTrusted && detail > 0) window.clicksOfUser = (window.clicksOfUser ?? 0) + 1;
}, true);"""
WATCH_SHIFTS = """new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.shift = (window.shift ?? 0) + value;
}).observe({ type: "layout-shift", buffered: true });"""
PAGES = (  # by the ends of their addresses
    *("open", "optimize", "run", "export", "compare", "memory", "lessons", "layouts", "precision", "tune", "extract"),
    *("workshop", "matrix", "runs", "compare-tools", "streams", "lockstep"),
)
LIMIT_MS = 180_000  # of a measurement on a busy machine
PASS = '''\
"""The absolute value of a negated value is that of the value."""

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, Pass, Refusal
from workbench.rewrite.patterns.algebra import algebraic_rule


@dataclass(frozen=True)
class AbsOfNeg(Pass):
    """A Neg whose result only an Abs reads is removed.

    Does not apply to an Abs after any other operator.

    Source: abs(-x) = abs(x) in floating point, which only changes the sign bit.
    """

    title = "Remove a negation before Abs"

    rules = (
        algebraic_rule(
            "negated",
            "for signed integers and floats: abs(-x) == abs(x)",
            "{root} ignores the sign that {nodes[0]} changes; 1 node fewer",
            Example(
                before="g (float[2] x) => (float[2] y) { a = Neg(x)  y = Abs(a) }",
                after="g (float[2] x) => (float[2] y) { y = Abs(x) }",
                sentences=("Abs 'Abs_y' ignores the sign that Neg 'Neg_a' changes; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) { a = Relu(x)  y = Abs(a) }",
                    "Abs 'Abs_y' does not follow a Neg",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
'''


@dataclass(frozen=True)
class Stranger:
    """What a stranger has in the end. card: the text of the result card. steps: of the timeline. file: the export."""

    card: str
    steps: str
    file: Path


def stranger(page, folder: Path) -> Stranger:
    """From the first page to the exported model and the reason for its gain.

    page: at the address of the app, counting by COUNT_CLICKS.
    """
    open_sample(page, "resnet50_narrow")
    _click(page, page.get_by_role("button", name="Next: 2 Optimize"))
    GraphView(page)
    card = page.locator(".wb-card")
    card.get_by_text(" ms").first.wait_for(timeout=LIMIT_MS)
    settle(page)
    card_text, steps = card.inner_text(), page.locator(".st-key-digest").inner_text()
    go(page, "Export")
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile(r"^Download .*\.onnx$")).click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return Stranger(card_text, steps, file)


def engineer(page, operator: str) -> GraphView:
    """From the first page to the nodes of the operator that takes most of the time, coloured in the graph."""
    open_sample(page, "resnet50_narrow")
    go(page, "Measure")
    _click(page, page.get_by_role("button", name="Measure", exact=True))
    _click(page, page.get_by_role("tab", name="Where the time went"))
    page.get_by_text("Show in the graph").wait_for(timeout=LIMIT_MS)
    show_in_graph(page, operator)
    return GraphView(page)


def author(page) -> None:
    """From the first page to a pass of one's own that is accepted, saved, and on in the pipeline."""
    open_sample(page, "conv_relu_conv_relu")
    go(page, "Workshop")
    page.get_by_label("Name", exact=True).fill("abs_of_neg")
    text = page.locator(".st-key-workshop_text textarea")
    text.fill(PASS)
    text.press("Control+Enter")
    settle(page)
    page.get_by_text("checks passed").wait_for()
    _click(page, page.get_by_role("button", name="Save to my passes"))
    _click(page, page.get_by_role("button", name="Use it on Optimize"))


def layout_shift(page, address: str) -> float:
    """How far what is drawn was moved by what was drawn later, from the address to rest.

    The sum of Chromium's scores, each the share of the window that moved times how far it moved as a share of the
    window's larger side (https://web.dev/articles/cls). page: with WATCH_SHIFTS as a script of the start.
    """
    page.goto(address)
    settle(page)
    page.wait_for_timeout(1500)  # what comes by itself: verdicts
    settle(page)
    return float(page.evaluate("window.shift ?? 0"))


def clicks(page) -> int:
    """The clicks of the mouse since the page was loaded."""
    return page.evaluate("window.clicksOfUser ?? 0")


def _click(page, place) -> None:
    place.click()
    settle(page)
