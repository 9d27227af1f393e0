"""Write docs/recording.webm and .vtt, about three minutes of the running app: `python docs/make_recording.py`.

An engineer goes from a slow model to a faster file. Every number in a caption is read from the page. It needs a
Chromium, ffmpeg, and a machine on which nothing else runs, since a busy one claims no gain.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from film import POINTER_S, SCENE, SCREEN, Cue, Film, encoder, text_on, texts_of, wait_until_idle  # noqa: E402

SAMPLE = "ppocr_cls_v2"  # of all samples the one with the clearest gain in ONNX Runtime: docs/results.md
REPETITIONS = "60"
LIMIT_MS = 300_000  # of a measurement on a busy machine
WAITING = re.compile("not measured|measuring|waiting")


@dataclass(frozen=True)
class Pace:
    """least_s, word_s: a caption is shown at least the first, and so much for each of its words and three more.

    wait_s: as much of each longer wait is in the film. pointer_s: of each way of the pointer.
    budget: of the tuning, as the app takes it. tries: of the card's measurement while the machine is busy.
    quiet_s: at most so long each measurement waits for an idle machine.
    """

    least_s: float = 3.2
    word_s: float = 0.31
    wait_s: float = 2.0
    pointer_s: float = POINTER_S
    budget: str = "2m"
    tries: int = 12
    quiet_s: float = 30.0

    def seconds(self, text: str) -> float:
        return max(self.least_s, self.word_s * (3 + len(text.split())))


@dataclass(frozen=True)
class Card:
    """The card of the result. text: all of it. latency: its words below the two times, both in ms."""

    text: str
    nodes: str
    before: str
    after: str
    latency: str
    result: str

    @property
    def is_busy(self) -> bool:
        return self.latency.startswith("busy machine")


@dataclass(frozen=True)
class Recording:
    """card: as the page showed it. cues: of the film. shown: each caption as drawn, and whether it was inside."""

    card: Card
    cues: list[Cue]
    shown: list[tuple[str, bool]]


def record(browser: Any, file: Path, pace: Pace) -> Recording:
    """Write the film to `file` (.webm), its captions beside it. Raises FileNotFoundError if there is no ffmpeg."""
    encoder()
    with tempfile.TemporaryDirectory(prefix="recording-") as scratch, _page(browser, Path(scratch)) as (page, folder):
        frames = Path(scratch) / "frames"
        frames.mkdir()
        film = Film(page, frames, pace.pointer_s)
        card = Story(film, folder, pace).tell()
        shown = [(text, inside) for text, inside in page.evaluate("window.captionsShown")]
        return Recording(card, film.write(file), shown)


@contextlib.contextmanager
def _page(browser: Any, scratch: Path) -> Iterator[tuple[Any, Path]]:
    """The app's first page, and the folder in which the app was started; it knows nothing of an earlier user."""
    from tests.browser import running_app, settle, watched_page

    folder = scratch / "models"
    folder.mkdir()
    own = {"WORKBENCH_CACHE": str(scratch / "cache"), "WORKBENCH_PASSES": str(scratch / "passes")}
    kept = {name: os.environ.get(name) for name in (*own, "WORKBENCH_MEASURE")}
    os.environ.update(own)
    os.environ.pop("WORKBENCH_MEASURE", None)  # the card fills itself
    try:
        with (
            running_app(folder=folder) as (address, _),
            watched_page(browser, color_scheme="light", accept_downloads=True) as page,
        ):
            page.add_init_script(SCENE)
            page.set_viewport_size(SCREEN)
            page.goto(address)
            settle(page)
            yield page, folder
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


class Story:
    """The way of the engineer. folder: where the app was started. pace: of the captions and the waits."""

    def __init__(self, film: Film, folder: Path, pace: Pace) -> None:
        self.film, self.page, self.folder, self.pace = film, film.page, folder, pace

    def tell(self) -> Card:
        """All of it; returns the card that the captions quote."""
        self.open()
        self.see_where_the_time_goes()
        self.choose_fastest()
        card = self.see_the_card()
        self.see_why()
        self.compare()
        self.run_the_file(self.export())
        self.say(f"The card said: {card.before} ms before, {card.after} ms after.")
        return card

    def open(self) -> None:
        self.say("This model reads which way up a text line is.")
        self.say("It is too slow for us on this CPU.")
        self.press(self.page.locator(f".st-key-sample_{SAMPLE} button"))
        nodes = self.page.get_by_test_id("stMetricValue").first.inner_text()
        self.say(f"Open draws its graph: {nodes} nodes, grouped to fit.")

    def see_where_the_time_goes(self) -> None:
        self.say("The first question: where does the time go?")
        self.measure()
        latency, *_ = self.read(r"([\d.,]+) ms \((?:original|onnxruntime)\)").groups()
        chart = self.page.locator(".js-plotly-plot").first
        operators = texts_of(chart.locator(".ytick text"))
        shares = [text.split()[-1] for text in texts_of(chart.locator(".bartext"))]
        self.say(f"One run takes {latency} ms; {operators[0]} takes {shares[0]} of it.")
        self.say(f"{operators[1]} and {operators[2]} are small, yet take {shares[1]} and {shares[2]}.")
        self.say(f"A press on {operators[1]} shows where it is in the graph.")
        choice = self.page.get_by_role("radio", name=operators[1], exact=True)
        self.press(choice.or_(self.page.get_by_role("button", name=operators[1], exact=True)).first)
        self.graph().rest()
        found = self.page.get_by_text(re.compile("nodes found")).inner_text().split()[0]
        self.say(f"{found} {operators[1]} nodes, in almost every part of the network.")

    def choose_fastest(self) -> None:
        """By tuning; where that finds nothing that is faster for sure, by the goal that is the default."""
        self.say("Our goal stands at the left: the fastest file here.")
        self.press(self.page.get_by_role("link", name="Fastest here"))
        self.say("Tune measures many pipelines and backends within a time budget.")
        budget = self.page.get_by_role("textbox", name="Budget")
        self.film.point(budget)
        budget.fill(self.pace.budget)
        budget.press("Tab")
        best = self.page.get_by_text("Best for latency on")
        self.press_and_wait("Tune", best.or_(self.page.get_by_role("alert")).first)
        if best.count():
            label, tried, seconds = self.read(r": (.+?)\. (\d+) candidates in ([\d,]+) s;").groups()
            self.say(f"{tried} candidates took {seconds} s; the wait is cut.")
            self.say(f"The best here: {label}.")
            self.press(self.page.get_by_role("button", name="Use on Optimize"))
        else:
            self.say("The time budget was too short on this busy machine.")
            self.press(self.page.get_by_role("button", name="Back to 2 Optimize"))
        self.graph()
        self.show_layouts()
        if self.strip.get_by_role("radio").count() == 1:
            self.say("It has no rewrites to show; we take the simplified file.")
            self.press(self.page.get_by_text("Smaller and simpler"))

    def see_the_card(self) -> Card:
        """The card, measured again while the machine is busy."""
        self.film.hold(self.pace.wait_s)
        with self.film.cut():
            self.wait_for_card()
            for _ in range(self.pace.tries - 1):
                if not self.card.is_busy:
                    break
                wait_until_idle(self.page, self.pace.quiet_s)
                self.page.get_by_role("button", name="Measure again").click()
                self.page.locator(".wb-card").get_by_text(WAITING).first.wait_for()
                self.wait_for_card()
        card = self.card
        self.film.point(self.page.locator(".wb-card"))
        self.say("The card says what the pipeline gained, as measured here.")
        self.say(f"The graph went from {card.nodes.replace('→', 'to')} nodes.")
        self.say(f"One run went from {card.before} to {card.after} ms.")
        self.say(f"The card: {re.split('[:;]', card.latency)[0]}.")
        self.say(f"The result is equal to the original's: {card.result}.")
        return card

    def see_why(self) -> None:
        """Two kinds of change, those that removed most nodes, and two places of the first."""
        self.say("Why is it faster? Each card on the left is one kind of change.")
        self.choose_kind(0)
        self.say(f"This kind of change was made {self.kind(0, '.times')[1:]} times.")
        self.say("The sentence above the graph is the reason.")
        self.say("On the left is the graph before, on the right after.")
        self.page.keyboard.press("n")
        self.graph().rest()
        self.say("The key N shows its next place.")
        self.choose_kind(1)
        self.say(f"The next kind was made {self.kind(1, '.times')[1:]} times.")
        self.say("This reason too has names and numbers.")
        self.press(self.page.locator(".st-key-view").get_by_text("Steps", exact=True))
        self.say("Each step was compared with ONNX Runtime on the original.")
        table = self.page.get_by_test_id("stDataFrame")
        verdicts = texts_of(table.locator("td"))[5 :: table.locator("th").count()]
        self.say(f"{verdicts.count('equal')} of {len(verdicts)} verdicts say equal: they are the last column.")

    def compare(self) -> None:
        self.press(self.link("Compare"))
        self.graph()
        self.show_layouts()
        self.graph().rest()
        self.say("Compare shows the original beside the result.")
        lost = self.read(r"([\d,]+) only in the original")[1]
        self.say(f"{lost} nodes are only in the original.")
        self.press(self.page.get_by_role("button", name="Next change"))
        self.graph().rest()
        self.say("Red frames are gone, amber ones are changed.")

    def export(self) -> str:
        """Returns the name of the file, which is in the app's folder."""
        self.press(self.link("Export"))
        self.say("Export writes an ONNX file with standard operators only.")
        size = self.page.get_by_test_id("stMetricValue").first.inner_text()
        self.say(f"The file has {size}; at the right are command and code.")
        button = self.page.get_by_role("button", name=re.compile(r"^Download .*\.onnx$"))
        self.film.point(button)
        with self.page.expect_download() as download:
            button.click()
        name = download.value.suggested_filename
        download.value.save_as(self.folder / name)
        return name

    def run_the_file(self, name: str) -> None:
        self.say("Last, we run the new file like any other.")
        self.press(self.link("Open"))
        self.press(self.page.get_by_role("tab", name="Path"))
        path = self.page.get_by_label("Path of a model on this machine")
        self.film.point(path)
        path.press_sequentially(name, delay=40)
        self.press(self.page.get_by_role("button", name="Open path"))
        self.measure()
        latency = self.read(r"([\d.,]+) ms \((?:original|onnxruntime)\)")[1]
        self.say(f"The exported file takes {latency} ms.")

    def say(self, text: str) -> None:
        self.film.say(text, self.pace.seconds(text))

    def press(self, place: Any) -> None:
        """What takes longer than `wait_s` is cut."""
        from playwright.sync_api import TimeoutError as TookLonger

        from tests.browser import settle

        self.film.point(place)
        place.click()
        try:
            settle(self.page, self.pace.wait_s)
        except TookLonger:
            with self.film.cut():
                settle(self.page)

    def measure(self) -> None:
        """Measure the open model alone in ONNX Runtime."""
        from tests.browser import settle

        self.press(self.link("Measure"))
        backends = self.page.get_by_role("combobox", name="Backends")
        if self.page.locator("form, [data-testid=stForm]").get_by_text("torch", exact=True).count():
            self.press(backends)
            backends.press("Backspace")
            self.page.keyboard.press("Escape")
        self.page.get_by_label("Repetitions", exact=True).fill(REPETITIONS)
        settle(self.page)
        self.press_and_wait("Measure", self.page.get_by_text("Show in the graph"))
        for _ in range(self.pace.tries - 1):
            if not self.page.get_by_text("Other processes used").count():
                break
            with self.film.cut():
                wait_until_idle(self.page, self.pace.quiet_s)
                self.page.get_by_role("button", name="Measure", exact=True).click()
                settle(self.page)

    def press_and_wait(self, button: str, place: Any) -> None:
        """Press a button; the wait until `place` is there is cut."""
        from tests.browser import settle

        with self.film.cut():
            wait_until_idle(self.page, self.pace.quiet_s)
        target = self.page.get_by_role("button", name=button, exact=True)
        self.film.point(target)
        target.click()
        self.film.hold(self.pace.wait_s)
        with self.film.cut():
            place.wait_for(timeout=LIMIT_MS)
            settle(self.page)

    def wait_for_card(self) -> None:
        self.page.locator(".wb-card").wait_for()
        waiting = self.page.locator(".wb-card").get_by_text(WAITING)
        waiting.first.wait_for(state="detached", timeout=LIMIT_MS)

    @property
    def card(self) -> Card:
        card = self.page.locator(".wb-card")
        figures = {}
        for cell in card.locator("> div").all_inner_texts():
            value, caption = cell.strip().split("\n", 1)
            label, _, detail = caption.strip().partition(": ")
            figures[label] = (value, detail)
        times, latency = figures["latency"]
        before, after = re.fullmatch(r"([\d.,]+) → ([\d.,]+) ms", times).groups()
        return Card(card.inner_text(), figures["nodes"][0], before, after, latency, figures["result"][1])

    def choose_kind(self, number: int) -> None:
        """Press the card of a kind of change, and wait until the graph shows its first place."""
        self.press(self.page.locator(f".st-key-show_kind_{number} button"))
        self.graph().rest()

    def kind(self, number: int, part: str) -> str:
        """The text of a part of a card."""
        text: str = self.page.locator(".wb-kind").nth(number).locator(part).inner_text()
        return text

    def show_layouts(self) -> None:
        """End the search of before, and colour by layout again."""
        field = self.page.locator("input.gw-search")
        field.fill("")
        field.press("Escape")
        self.page.get_by_label("Colour by").select_option(label="Layout")

    def graph(self) -> Any:
        from tests.browser import GraphView

        return GraphView(self.page)

    def link(self, name: str) -> Any:
        from tests.browser import page_link

        return page_link(self.page, name)

    def read(self, pattern: str) -> re.Match[str]:
        """The first place on the page with this pattern. Raises LookupError if there is none."""
        return text_on(self.page, self.page.get_by_test_id("stMain"), pattern)


def main() -> None:
    from tests.browser import chromium

    file = HERE / "recording.webm"
    with chromium() as browser:
        if browser is None:
            sys.exit("There is no Chromium here: install one, or run `playwright install chromium`.")
        try:
            recording = record(browser, file, Pace())
        except FileNotFoundError as error:
            sys.exit(str(error))
    print(f"{recording.cues[-1].end:.0f} s, {file.stat().st_size / 1e6:.1f} MB\n{recording.card.text}")
    if recording.card.is_busy:
        sys.exit("The machine was busy, so the card claims no gain: record it again while nothing else runs.")


if __name__ == "__main__":
    main()
