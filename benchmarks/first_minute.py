"""The first minute with a model, here and in two viewers: `python benchmarks/first_minute.py [--shots FOLDER]`.

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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import journeys
from tests.browser import ROOT, SCREEN, GraphView, chromium, free_port, running_app, settle, watched_page

MODEL = ROOT / "sample_models" / "resnet50_narrow.onnx"
LIMIT_S = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=Path, help="a folder for a screenshot of each last picture")
    shots = parser.parse_args().shots
    if shots is not None:
        shots.mkdir(parents=True, exist_ok=True)
    print("| tool | until | seconds | clicks |\n|---|---|---|---|")
    with chromium() as browser:
        if browser is None:
            sys.exit("There is no Chromium here: install one, or run `playwright install chromium`.")
        ways: list[tuple[str, str, Callable[[Page, Path], object]]] = [
            ("Graph Workbench", "a smaller model is exported, with the reason and the gain", journeys.stranger),
            ("Graph Workbench", "the slow operator is coloured", lambda page, _: journeys.engineer(page, "Conv")),
            ("Graph Workbench", "a new pass is accepted and used", lambda page, _: journeys.author(page)),
        ]
        report("Graph Workbench", "the graph is drawn", drawn_here(browser, shots and shots / "Graph Workbench.png"))
        for tool, until, way in ways:
            report(tool, until, here(browser, way, shots and shots / f"{until[:20]}.png"))
        for tool, command, look in (
            ("Netron", netron, netron_drawn),
            ("Model Explorer", model_explorer, explorer_drawn),
        ):
            report(tool, "the graph is drawn", elsewhere(browser, command, look, shots and shots / f"{tool}.png"))
        report_pages(browser)


def report_pages(browser: Browser) -> None:
    """The graph's first drawing in new sessions of an app that runs, and how much each page moves while it is drawn."""
    with running_app() as (address, _):
        seconds = []
        for _ in range(6):
            with watched_page(browser) as page:
                begun = time.perf_counter()
                page.goto(f"{address}/optimize?model={MODEL}", wait_until="commit")
                GraphView(page)
                seconds.append(time.perf_counter() - begun)
        print("\n| page | layout shift |\n|---|---|")
        for name in journeys.PAGES:
            with watched_page(browser) as page:
                page.add_init_script(journeys.WATCH_SHIFTS)
                print(f"| {name} | {journeys.layout_shift(page, f'{address}/{name}?model={MODEL}'):.3f} |", flush=True)
    first, *later = seconds
    print(
        f"\nIn an app that runs already, a new session has the graph after {first:.1f} s the first time, then "
        f"after {min(later):.1f} to {max(later):.1f} s."
    )


def report(tool: str, until: str, figures: tuple[float, int] | None) -> None:
    cells = ("not installed", "") if figures is None else (f"{figures[0]:.1f}", f"{figures[1]}")
    print(f"| {tool} | {until} | {cells[0]} | {cells[1]} |", flush=True)


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


if __name__ == "__main__":
    main()
