"""The first minute with a model, here and in two viewers.

Here: the journeys of `tests/journeys.py`, each in an app that was just started, with its seconds from the command that
starts the app and the clicks that the browser counted; the graph's first drawing is by `graph-workbench app MODEL`, as
the viewers are started. Beside it, where they are on the PATH: Netron (`netron`) and
Model Explorer (`model-explorer`, with `model-explorer-onnx`), until the graph of the same model is drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from benchmarks.shared.benchmark import Benchmark, Item, Row, option, table
from tests import journeys
from tests.browser import ROOT, SCREEN, GraphView, chromium, free_port, running_app, settle, watched_page

FIRST = table("tool", "until", "seconds", "clicks")
PAGES = table("page", "layout shift")
MODEL = ROOT / "sample_models" / "resnet50_narrow.onnx"
LIMIT_S = 60


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    shots = chosen.shots
    if shots is not None:
        shots.mkdir(parents=True, exist_ok=True)
    yield FIRST
    with chromium() as browser:
        if browser is None:
            sys.exit("There is no Chromium here: install one, or run `playwright install chromium`.")
        drawn = "the graph is drawn"
        yield row("Graph Workbench", drawn, drawn_here(browser, shots and shots / "Graph Workbench.png"))
        for until, way in WAYS.items():
            yield row("Graph Workbench", until, here(browser, way, shots and shots / f"{until[:20]}.png"))
        for tool, command, look in (
            ("Netron", netron, netron_drawn),
            ("Model Explorer", model_explorer, explorer_drawn),
        ):
            yield row(tool, drawn, elsewhere(browser, command, look, shots and shots / f"{tool}.png"))
        yield from of_pages(browser)


WAYS: dict[str, Callable[[Page, Path], object]] = {
    "a smaller model is exported, with the reason and the gain": journeys.stranger,
    "the slow operator is coloured": lambda page, _: journeys.engineer(page, "Conv"),
    "a new pass is accepted and used": lambda page, _: journeys.author(page),
}


def of_pages(browser: Browser) -> Iterator[Item]:
    """The graph's first drawing in new sessions of an app that runs, and how much each page moves while it is drawn."""
    with running_app() as (address, _):
        seconds = []
        for _ in range(6):
            with watched_page(browser) as page:
                begun = time.perf_counter()
                page.goto(f"{address}/optimize?model={MODEL}", wait_until="commit")
                GraphView(page)
                seconds.append(time.perf_counter() - begun)
        yield PAGES
        for name in journeys.PAGES:
            with watched_page(browser) as page:
                page.add_init_script(journeys.WATCH_SHIFTS)
                yield name, f"{journeys.layout_shift(page, f'{address}/{name}?model={MODEL}'):.3f}"
    first, *later = seconds
    yield (
        f"In an app that runs already, a new session has the graph after {first:.1f} s the first time, then "
        f"after {min(later):.1f} to {max(later):.1f} s."
    )


def row(tool: str, until: str, figures: tuple[float, int] | None) -> Row:
    if figures is None:
        return tool, until, "not installed", ""
    return tool, until, f"{figures[0]:.1f}", f"{figures[1]}"


def here(browser: Browser, way: Callable[[Page, Path], object], shot: Path | None) -> tuple[float, int]:
    """The seconds and clicks of a way through an app that is started for it, and knows nothing of an earlier user."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.environ.update(WORKBENCH_CACHE=f"{folder}/cache", WORKBENCH_PASSES=f"{folder}/passes")
        begun = time.perf_counter()
        address, _ = stack.enter_context(running_app())
        page = stack.enter_context(watched_page(browser, accept_downloads=True))
        page.add_init_script(journeys.COUNT_CLICKS)
        page.goto(address)
        settle(page)
        way(page, Path(folder))
        return finished(page, begun, shot, journeys.clicks(page))


def drawn_here(browser: Browser, shot: Path | None) -> tuple[float, int]:
    """The seconds and clicks until the graph is drawn by an app that is started with the model, as the viewers are."""
    with contextlib.ExitStack() as stack:
        begun = time.perf_counter()
        address, _ = stack.enter_context(running_app("--", str(MODEL)))
        page = stack.enter_context(watched_page(browser))
        page.goto(f"{address}/optimize?model={MODEL}", wait_until="commit")
        GraphView(page)
        return finished(page, begun, shot, 0)


def elsewhere(
    browser: Browser, command: Callable[[int], list[str]], look: Callable[[Page], int], shot: Path | None
) -> tuple[float, int] | None:
    """The seconds and clicks until another tool has drawn the model; None if it is not on the PATH."""
    port = free_port()
    words = command(port)
    if shutil.which(words[0]) is None:
        return None
    begun = time.perf_counter()
    with started(words) as output, browser.new_context(viewport=SCREEN) as context:
        page = context.new_page()
        page.goto(address_in(output, port), wait_until="commit")
        clicks = look(page)
        return finished(page, begun, shot, clicks)


def finished(page: Page, begun: float, shot: Path | None, clicks: int) -> tuple[float, int]:
    seconds = time.perf_counter() - begun
    if shot is not None:
        page.wait_for_timeout(1000)
        page.screenshot(path=shot)
    return seconds, clicks


@contextlib.contextmanager
def started(words: list[str]) -> Iterator[Path]:
    """A file with what the command prints while it runs."""
    with tempfile.NamedTemporaryFile() as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, env={**os.environ, "BROWSER": "true"})
        try:
            yield Path(output.name)
        finally:
            process.terminate()
            process.wait(timeout=20)


def address_in(output: Path, port: int) -> str:
    """The address that a tool prints once it serves."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for word in output.read_text(errors="replace").split():
            if word.startswith("http") and f":{port}" in word:
                return word.rstrip("/")
        time.sleep(0.05)
    raise RuntimeError(f"no address within {LIMIT_S} s: {output.read_text()[-500:]}")


def netron(port: int) -> list[str]:
    return ["netron", str(MODEL), "--host", "127.0.0.1", "--port", str(port)]


def netron_drawn(page: Page) -> int:
    """Wait for its graph; the clicks that this took. (Its page forbids a script that counts them.)"""
    page.get_by_text("Accept").click()  # its notice about cookies
    expect(page.locator("#canvas .node").first).to_be_attached(timeout=LIMIT_S * 1000)
    return 1


def model_explorer(port: int) -> list[str]:
    options = ("--no_open_in_browser", "--skip_health_check", "--extensions", "model_explorer_onnx")
    return ["model-explorer", str(MODEL), "--port", str(port), *options]


def explorer_drawn(page: Page) -> int:
    page.get_by_text("GRAPH INFO").wait_for(timeout=LIMIT_S * 1000)
    return 0


SHOTS = option("--shots", type=Path, help="a folder for a screenshot of each last picture")
BENCHMARK = Benchmark(measure, (FIRST, PAGES), (SHOTS,))
