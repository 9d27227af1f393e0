"""The app as a process, and a Chromium to drive it: for the browser tests and for the pictures of docs/."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.waiting import LIMIT_MS, LIMIT_S, until

expect.set_options(timeout=LIMIT_MS)
ROOT = Path(__file__).resolve().parents[1]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
READABLE_ZOOM = 0.45  # of the graph view; below, groups are drawn as one box
FOUND_ON_PATH = ("chromium", "chromium-browser", "google-chrome")
SCREEN = {"width": 1366, "height": 768}
POLL_MS = 40  # not at every animation frame: without a GPU each costs a processor
TRIES, OPENING_MS = 5, 6000  # of a select box
FIRST_BYTE_OF_RERUN = 0x5A  # of a message that asks for a run of the page's script: field 11 of Streamlit's BackMsg
WATCH_RUNS = f"""
window.scriptRuns = {{ touched: -Infinity, asked: -Infinity, heard: 0, calm: 0 }};
for (const kind of ["click", "change"]) {{
    addEventListener(kind, ({{ target }}) => {{
        if (target.closest?.("button, input, label, a")) window.scriptRuns.touched = performance.now();
    }}, true);
}}
window.WebSocket = class extends WebSocket {{
    constructor(...words) {{
        super(...words);
        this.addEventListener("message", () => {{
            window.scriptRuns.asked = -Infinity;
            window.scriptRuns.heard = performance.now();
        }});
    }}
    send(message) {{
        if (message[0] === {FIRST_BYTE_OF_RERUN}) {{
            window.scriptRuns.asked = performance.now();
            window.scriptRuns.touched = -Infinity;
        }}
        super.send(message);
    }}
}};
"""
AT_REST = """() => {
    const runs = window.scriptRuns;
    const state = document.querySelector("[data-testid=stApp]")?.dataset.testScriptState;
    const quiet = runs.heard > 0 && performance.now() - runs.heard > 80;
    const asked = performance.now() - runs.asked < 10000;
    const touched = performance.now() - runs.touched < 700;
    runs.calm = state === "notRunning" && !touched && !asked && quiet ? runs.calm + 1 : 0;
    return runs.calm > 3;
}"""  # on a busy machine a widget asks 0.3 s after the click; a request not answered in 10 s is one that Streamlit drops
VIEW_AT_REST = """calm => {
    const view = Object.values(window.graphWorkbench).at(-1);
    const { x, y } = calm.canvas.getBoundingClientRect();
    const places = JSON.stringify([x, y, view.boxes().map(id => { const b = view.box(id); return [id, b.x, b.y, b.mark]; })]);
    calm.looks = places === calm.places ? calm.looks + 1 : 0;
    calm.places = places;
    return calm.looks > 4;
}"""


STAYS = """({ button, calm }) => {
    const { x, y } = button.getBoundingClientRect();
    calm.looks = calm.x === x && calm.y === y ? calm.looks + 1 : 0;
    Object.assign(calm, { x, y });
    return calm.looks > 4;
}"""


def find_chromium(playwright: Playwright) -> str | None:
    """Playwright's own Chromium, else one on the PATH, else None."""
    own = playwright.chromium.executable_path
    if Path(own).exists():
        return own
    return next(filter(None, map(shutil.which, FOUND_ON_PATH)), None)


@contextlib.contextmanager
def chromium() -> Iterator[Browser | None]:
    """A running browser, None where this machine has none."""
    with sync_playwright() as playwright:
        found = find_chromium(playwright)
        if found is None:
            yield None
            return
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def watched_context(browser: Browser, **words: Any) -> Iterator[BrowserContext]:
    """A context for whose pages `settle` can wait; words: of the context."""
    with browser.new_context(viewport=SCREEN, **words) as context:
        context.set_default_timeout(LIMIT_MS)
        context.add_init_script(WATCH_RUNS)
        yield context


@contextlib.contextmanager
def watched_page(browser: Browser, **words: Any) -> Iterator[Page]:
    """A page in a context of its own; words: of the context."""
    with watched_context(browser, **words) as context:
        yield context.new_page()


@contextlib.contextmanager
def guarded(browser: Browser, address: str) -> Iterator[Page]:
    """A page in a context of its own that talks to this site alone."""
    with watched_page(browser) as page, guard(page, address):
        yield page


@contextlib.contextmanager
def guard(page: Page, address: str) -> Iterator[None]:
    """Whatever the page asks of another site, and each dialog it opens, is a failure."""
    strangers, dialogs = [], []
    page.on("request", lambda r: None if r.url.startswith((address, "data:", "blob:")) else strangers.append(r.url))
    page.on("dialog", lambda d: (dialogs.append(d.message), d.dismiss()))
    yield
    assert not strangers
    assert not dialogs


@contextlib.contextmanager
def new_visitor(context: BrowserContext, address: str) -> Iterator[Page]:
    """A page in a context that others had before it, without what their pages kept at this site.

    The scripts that the context compiled stay: a page is there with two thirds of the work.
    """
    page = context.new_page()
    kept = {"origin": address, "storageTypes": "cookies,local_storage"}
    context.new_cdp_session(page).send("Storage.clearDataForOrigin", kept)
    try:
        yield page
    finally:
        context.clear_permissions()
        for opened in context.pages:
            opened.close()


@contextlib.contextmanager
def running_app(
    *words: str,
    address: str = "127.0.0.1",
    folder: Path = ROOT,
    log: int | IO[bytes] = subprocess.DEVNULL,
    script: Path = ROOT / "app.py",
) -> Iterator[tuple[str, int]]:
    """The address and the process id of the app, started as a user starts it, stopped in the end.

    words: more of the command line; address: where it listens; folder: in which it is started; log: takes what it prints.
    script: `app.py`, or what a test puts in its place.
    """
    port = free_port()
    options = ("--server.headless=true", f"--server.address={address}", f"--server.port={port}", *words)
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", str(script), *options],
        cwd=folder,
        stdout=log,
        stderr=log,
        env={key: value for key, value in os.environ.items() if not key.startswith("STREAMLIT_")},
        start_new_session=True,
    )
    site = f"http://127.0.0.1:{port}"
    try:
        wait_for_app(site, process)
        yield site, process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=LIMIT_S)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for_app(site: str, process: subprocess.Popen) -> None:
    """Until the app that the process serves there answers."""

    def answers() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{site}/_stcore/health", timeout=2) as answer:
            return answer.status == 200
        return False

    until(answers, lambda: process.poll() is None)


def settle(page: Page, limit_s: float = LIMIT_S) -> None:
    """Wait until every run of the page's script that was asked for has come to its end and is drawn.

    page: a `watched_page`. Once nothing is asked and unanswered, some animation frames are left to pass,
    in which a click becomes a question, and an answer a picture.
    """
    page.wait_for_function(AT_REST, polling=POLL_MS, timeout=limit_s * 1000)


def page_link(page, name: str) -> Any:
    """The link to a page of the app: "Optimize" is "2 Optimize" there."""
    return page.get_by_role("link", name=re.compile(rf"^(\d )?{name}$"))


PART_OF = {
    **dict.fromkeys(("Layouts", "Precision", "Tune", "Extract", "Workshop"), "Optimize"),
    **dict.fromkeys(("Compare tools", "Matrix", "Runs"), "Measure"),
    "Lockstep": "Compare",
    "Streams": "Memory",
}


def go(page, name: str) -> None:
    """By the bar of pages, and by the links that are on a page's parts."""
    name = {"Lessons": "Learn"}.get(name, name)
    if name in PART_OF and not page_link(page, name).count():
        go(page, PART_OF[name])
    page_link(page, name).click()
    settle(page)


def optimized(page, app: tuple[str, Any], model: Path, **more: str) -> GraphView:
    """The graph of Optimize at rest, by its address. more: further words of the address."""
    words = "".join(f"&{key}={value}" for key, value in more.items())
    page.goto(f"{app[0]}/optimize?model={model}{words}")
    settle(page, limit_s=300)
    return GraphView(page).rest()


def open_advanced(page) -> None:
    """Open the part of the sidebar of Optimize that has target, strategy and passes."""
    details = page.locator(".st-key-advanced details").first
    if details.get_attribute("open") is None:
        details.locator("summary").first.click()
        page.locator(".st-key-strategy").wait_for(state="visible")


def choose_strategy(page, name: str) -> None:
    """Choose a layout strategy; in place of this machine's target, one whose layouts are not the models' own."""
    open_advanced(page)
    target = page.locator(".st-key-target input")
    if target.input_value() == "cpu":
        select(page, target, "cuda")
    page.locator(".st-key-strategy").get_by_text(name, exact=True).click()
    settle(page)


def select(page, box: Any, option: str) -> None:
    """Choose an option of a select box. A box that opens while the page below it grows closes again: open it again.

    Errors: AssertionError, where the option is in none of the lists that open.
    """
    wanted = page.get_by_role("option", name=option).first
    for _ in range(TRIES):
        box.click()
        with contextlib.suppress(PlaywrightTimeoutError):
            wanted.click(timeout=OPENING_MS)
            settle(page)
            return
        page.keyboard.press("Escape")
    raise AssertionError(f"no option {option!r}")


def press_more(page, name: str) -> None:
    """Press a control in the menu of the graph view, which stays open."""
    menu = page.locator("details.gw-menu").first
    if menu.get_attribute("open") is None:
        menu.locator("summary").click()
    menu.get_by_role("button", name=name, exact=True).click()


def show_in_graph(page, operator: str) -> None:
    """Press an operator below the bars of "Where the time went"."""
    choice = page.get_by_role("radio", name=operator, exact=True)
    choice.or_(page.get_by_role("button", name=operator, exact=True)).first.click()
    settle(page)


def show_last_step(page) -> None:
    """From the original and the result to the last step that changed something."""
    page.locator(".st-key-digest_order").get_by_text("By step", exact=True).click()
    page.locator(".st-key-step_list label").last.click()
    settle(page)


def open_sample(page, stem: str) -> None:
    """Press a sample's button, once it stays where it is: a group of samples opens slowly."""
    button = page.locator(f".st-key-sample_{stem} button")
    known = {"button": button.element_handle(), "calm": page.evaluate_handle("({ looks: 0 })")}
    page.wait_for_function(STAYS, arg=known, polling=POLL_MS)
    button.click()
    settle(page)


def upload(page, file: Path) -> None:
    page.get_by_role("tab", name="Upload").click()
    with page.expect_response(lambda answer: "/upload_file/" in answer.url):
        page.locator("[data-testid=stTabs] input[type=file]").first.set_input_files(str(file))
    page.get_by_text(file.name).first.wait_for()
    settle(page)


class GraphView:
    """The graph view of the page, through the hook that it leaves on the window for tests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wait("hook => hook.boxes().length > 0")

    def ask(self, words: str) -> Any:
        """What a JavaScript function of the hook returns; while the page makes the view anew, there is no hook."""
        found = self.page.wait_for_function(
            "() => { const hook = Object.values(window.graphWorkbench ?? {}).at(-1);"
            f" return hook && {{ value: ({words})(hook) }}; }}"
        )
        return found.json_value().get("value")

    def wait(self, words: str, limit_s: float = LIMIT_S) -> None:
        """Until a JavaScript function of the hook is true."""
        self.page.wait_for_function(
            f"() => window.graphWorkbench && Object.keys(window.graphWorkbench).length"
            f" && ({words})(Object.values(window.graphWorkbench).at(-1))",
            timeout=limit_s * 1000,
        )

    @property
    def state(self) -> dict[str, Any]:
        return self.ask("hook => hook.state()")

    @property
    def boxes(self) -> list[str]:
        return self.ask("hook => hook.boxes()")

    def box(self, id_: str) -> dict[str, Any] | None:
        """Where a box is on the screen, in the last pane, and its mark."""
        return self.page.evaluate("id => Object.values(window.graphWorkbench).at(-1).box(id)", id_)

    def places(self) -> dict[str, tuple[float, float, str]]:
        """Where all boxes are, and their marks."""
        words = "hook => hook.boxes().map(id => { const b = hook.box(id); return [id, b.x, b.y, b.mark]; })"
        return {id_: (x, y, mark) for id_, x, y, mark in self.ask(words)}

    def press(self, *keys: str) -> None:
        """Keys on the canvas."""
        self.canvas.focus()
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def canvas(self) -> Any:
        return self.page.locator("canvas.gw-canvas")

    def click(self, id_: str, double: bool = False, **words: Any) -> None:
        """On a box: on its title, if it is a frame."""
        if self.state["zoom"] < READABLE_ZOOM:
            self.ask(f"hook => hook.zoom({json.dumps(id_)}) ?? true")
            self.rest()
        box = self.box(id_)
        assert box is not None and box["visible"], f"{id_} is not to be seen: {box}"
        x, y = box["x"] + min(box["w"] / 2, 60), box["y"] + min(box["h"] / 2, 8)
        for modifier in words.get("modifiers", ()):
            self.page.keyboard.down(modifier)
        self.page.mouse.dblclick(x, y) if double else self.page.mouse.click(x, y)
        for modifier in words.get("modifiers", ()):
            self.page.keyboard.up(modifier)

    def rest(self) -> GraphView:
        """Wait until pane and boxes have kept their places for five looks."""
        calm = self.canvas.evaluate_handle("canvas => ({ canvas, looks: 0, places: '' })")
        self.page.wait_for_function(VIEW_AT_REST, arg=calm, polling=POLL_MS)
        return self

    def open_all(self) -> GraphView:
        """Open every group, as the tests of single nodes need it."""
        if any(self.box(id_) and not self.box(id_)["open"] for id_ in self.boxes if id_.startswith("group:")):
            self.ask("hook => hook.openAll()")
            self.wait("hook => hook.boxes().every(id => !id.startsWith('group:') || hook.box(id).open)")
            self.rest()
            self.press("Space")  # the whole again
        return self.rest()

    def goto_node(self, query: str) -> None:
        """Find it, and go to the first hit."""
        settle(self.page)
        field = self.page.locator("input.gw-search")
        field.fill(query)
        field.press("Enter")
        count = self.page.locator(".gw-count[role=status]").get_by_text(" of ")
        count.wait_for()  # else what was selected before counts
        settle(self.page)
        self.wait("hook => hook.state().selected !== ''")
