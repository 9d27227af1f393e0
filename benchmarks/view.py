"""The times of the graph view in a Chromium, in four minutes.

first picture: from the navigation to a link until the first picture is painted. That includes Streamlit's
               page, loading the model, its summary, placement and drawing, in a new session each time.
               "The model loaded before": from the click on the page Open, which places the graph again.
two passes:    from the navigation to a link with two passes, of 5,000 rewrites each, until the first picture.
nothing said:  the longest time before that in which the page showed neither progress nor a picture.
open, close:   from the key on a selected box until the new scene is painted.
inspector:     from the click on a box until its text is shown.
step:          from the key until the new moment is painted, measured by the browser.
pan:           frames a second while the mouse drags for 2 seconds.
payload:       bytes of the largest message; an unchanged rerun: bytes of all messages of the rerun.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import onnx
from playwright.sync_api import Browser, Page

from benchmarks.shared.benchmark import Benchmark, Item, RealModels, Row, option, repeat, table
from sample_models.resnet import resnet
from tests.browser import GraphView, chromium, press_more, running_app, settle, watched_page
from tests.viewing import large_graph
from workbench.formats.io.exporting import export_onnx
from workbench.ir import from_text

TABLE = table("measured", "model", "asked", "median", "95th percentile, or worst")
TWO_PASSES = "sum_to_add,algebra_powers"
PASSES = "fold_constants,fold_batchnorm,layout_greedy"
_MARKS = "name => performance.getEntriesByName(`graph-workbench:${name}`).map(entry => entry.startTime)"
_WATCH_PROGRESS = """() => { window.progressAt = []; setInterval(() => {
    if (document.querySelector("[data-testid=stProgress], [data-testid=stSpinner]")) progressAt.push(performance.now());
}, 40); }"""
_FRAMES = """() => new Promise(done => { const at = []; const end = performance.now() + 2000;
    const tick = now => { at.push(now); now < end ? requestAnimationFrame(tick) : done(at); };
    requestAnimationFrame(tick); })"""


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    with tempfile.TemporaryDirectory() as folder, running_app() as (address, _), chromium() as browser:
        if browser is None:
            sys.exit("No Chromium was found: install one, or run `playwright install chromium`.")
        models = _models(Path(folder))
        for name, path in models.items():
            asked = "2.5 s" if "101" in name else "5 s" if "no scopes" in name else "3 s"
            yield _row(
                "first picture", name, asked, [_first(browser, address, path) for _ in range(chosen.repeat)], "s"
            )
            loaded_before = [_first_again(browser, address, path) for _ in range(chosen.repeat)]
            yield _row("first picture, the model loaded before", name, asked, loaded_before, "s")
        rewritten = [_rewritten(browser, address, _with_rewrites(Path(folder))) for _ in range(chosen.repeat)]
        name = "10,000 nodes, no scopes"
        yield _row("two passes with 10,000 rewrites, to the picture", name, "20 s", [s for s, _ in rewritten], "s")
        yield _row("nothing said meanwhile", name, "-", [s for _, s in rewritten], "s")
        large = models["10,000 nodes, scopes"]
        yield from _large(browser, address, large)
        yield from _history(browser, address, models["ResNet-101's shape"], "ResNet-101's shape")
        if chosen.unet is not None:
            yield from _history(browser, address, chosen.unet.resolve(), chosen.unet.stem)


def _models(folder: Path) -> dict[str, Path]:
    small, large, plain = folder / "resnet101.onnx", folder / "scopes.onnx", folder / "plain.onnx"
    onnx.save(resnet(width=8, side=64, classes=10), str(small))
    export_onnx(large_graph(10_000, scopes=True), large)
    export_onnx(large_graph(10_000), plain)
    return {"ResNet-101's shape": small, "10,000 nodes, scopes": large, "10,000 nodes, no scopes": plain}


def _with_rewrites(folder: Path) -> Path:
    """A model of 10,000 nodes, each of which one of two passes rewrites."""
    file, last, lines = folder / "rewrites.onnx", "x", []
    for number in range(5_000):
        lines += [f"s{number} = Sum({last}, m)", f"p{number} = Pow(s{number}, two)"]
        last = f"p{number}"
    kind = "float[1,8,16,16]"
    head = f"g ({kind} x, {kind} m) => ({kind} {last}) <float two = {{2.0}}>"
    export_onnx(from_text(f"{head} {{ {' '.join(lines)} }}"), file)
    return file


def _rewritten(browser: Browser, address: str, path: Path) -> tuple[float, float]:
    """Seconds until the first picture, and the longest time before it without a progress bar."""
    with watched_page(browser) as page:
        page.add_init_script(f"({_WATCH_PROGRESS})()")
        page.goto(f"{address}/optimize?model={path}&passes={TWO_PASSES}")
        page.wait_for_function(f"() => ({_MARKS})('first-picture').length > 0", timeout=120_000)
        until = page.evaluate(_MARKS, "first-picture")[0]
        moments = [0.0, *(at for at in page.evaluate("() => window.progressAt") if at < until), until]
        return until / 1000, max(b - a for a, b in itertools.pairwise(moments)) / 1000


def _row(what: str, model: str, asked: str, values: list[float], unit: str) -> Row:
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return what, model, asked, f"{_number(statistics.median(values))} {unit}", f"{_number(high)} {unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _first(browser: Browser, address: str, path: Path) -> float:
    with watched_page(browser) as page:
        page.goto(f"{address}/?model={path}")
        GraphView(page)
        page.wait_for_function(f"() => ({_MARKS})('first-picture').length > 0", timeout=60_000)
        return page.evaluate(_MARKS, "first-picture")[0] / 1000


def _first_again(browser: Browser, address: str, path: Path) -> float:
    with watched_page(browser) as page:
        page.goto(f"{address}/optimize?model={path}&passes=")
        settle(page)
        GraphView(page)
        page.wait_for_timeout(1000)
        return _since(page, "first-picture", lambda: page.get_by_role("link", name="1 Open", exact=True).click())


def _since(page: Page, mark: str, act) -> float:
    """Seconds from the act until the next mark of that name."""
    before = len(page.evaluate(_MARKS, mark))
    start = page.evaluate("() => performance.now()")
    act()
    page.wait_for_function(f"n => ({_MARKS})('{mark}').length > n", arg=before, timeout=60_000)
    return (page.evaluate(_MARKS, mark)[before] - start) / 1000


def _large(browser: Browser, address: str, path: Path) -> Iterator[Row]:
    name = "10,000 nodes, scopes"
    received: list[int] = []
    with watched_page(browser) as page:
        page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(len(frame))))
        page.goto(f"{address}/?model={path}")
        settle(page)
        view = GraphView(page)
        yield _row("payload, collapsed: the largest message", name, "150 kB", [max(received) / 1e3], "kB")
        groups = [id_ for id_ in view.boxes if id_.startswith("group:") and not view.box(id_)["open"]][:10]
        toggles = []
        for id_ in groups:
            view.press("Escape")
            page.evaluate("id => Object.values(window.graphWorkbench).at(-1).select(id)", id_)
            settle(page)
            toggles += [_since(page, "scene", lambda: view.press("Enter")) for _ in range(2)]
            settle(page)
        yield _row("open or close a box", name, "0.5 s", toggles, "s")
        closed = [id_ for id_ in view.boxes if not view.box(id_)["open"]][:20]
        yield _row("click to inspector", name, "0.3 s", _clicks(page, view, closed), "s")
        opened = [_since(page, "scene", lambda: press_more(page, "Open all"))]
        settle(page)
        yield _row("everything open (flat)", name, "5 s", opened, "s")
        yield _row("payload, everything open", name, "-", [max(received) / 1e3], "kB")
        for zoom, key in (("at reading zoom", None), ("everything in sight", "Space")):
            if key:
                view.press(key)
            yield _row(f"pan, {zoom}", f"{name}, flat", "30 / s", _pan(page, view), "frames / s")


def _clicks(page: Page, view: GraphView, ids: list[str]) -> list[float]:
    seconds = []
    for id_ in ids:
        page.evaluate("id => Object.values(window.graphWorkbench).at(-1).centre(id)", id_)
        page.wait_for_timeout(600)  # else it would be the second click of a double-click
        seconds.append(_since(page, "inspector", lambda id_=id_: view.click(id_)))
        settle(page)
    return seconds


def _pan(page: Page, view: GraphView) -> list[float]:
    """Frames a second while the mouse drags in circles, as a list of one."""
    stage = view.canvas.bounding_box()
    x, y = stage["x"] + stage["width"] / 3, stage["y"] + stage["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(f"() => {{ window.panFrames = ({_FRAMES})(); }}")
    end = time.monotonic() + 2
    turn = 0
    while time.monotonic() < end:
        turn += 1
        page.mouse.move(x + 90 * ((turn % 9) - 4) / 4, y + 60 * ((turn % 7) - 3) / 3)
    at = page.evaluate("() => window.panFrames")
    page.mouse.up()
    gaps = [b - a for a, b in itertools.pairwise(at)]
    return [1000 * len(gaps) / sum(gaps)]


def _history(browser: Browser, address: str, path: Path, name: str) -> Iterator[Row]:
    received: list[int] = []
    with watched_page(browser) as page:
        page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(len(frame))))
        page.goto(f"{address}/optimize?model={path}&passes={PASSES}&target=cuda&step=3&rewrite=1")
        settle(page, limit_s=300)
        view = GraphView(page)
        page.wait_for_timeout(2000)
        before = view.places()
        view.press("Space")
        before = view.places()
        steps = []
        for _ in range(100):
            view.press("ArrowRight")
            page.wait_for_timeout(30)
            steps.append(view.state["last_step_ms"])
        after = view.places()
        yield _row("step", name, "100 ms", steps, "ms")
        moved = sum(before[id_][:2] != after[id_][:2] for id_ in before)
        yield "boxes that moved in 100 steps", name, "0", f"{moved} of {len(before):,}", ""
        settle(page)
        page.wait_for_timeout(1500)
        received.clear()
        view.press("ArrowRight")
        page.wait_for_timeout(1500)
        settle(page)
        yield "unchanged rerun, all messages", name, "2 kB", f"{sum(received) / 1e3:.3g} kB", ""
        visible = [id_ for id_ in view.boxes if not id_.startswith(("group:", "in:", "out:"))]
        clicks = _clicks(page, view, [i for i in visible if _is_visible(view, i)][:20])
        yield _row("click to inspector", name, "0.3 s", clicks, "s")


def _is_visible(view: GraphView, id_: str) -> bool:
    box = view.box(id_)
    return box is not None and box["visible"]


def published(real: RealModels) -> list[list[str]]:
    return [real.named("unet_sd15_raw")]


UNET = option("unet", nargs="?", type=Path, help="a real model of thousands of nodes")
BENCHMARK = Benchmark(measure, (TABLE,), (UNET, repeat(5)), published)
