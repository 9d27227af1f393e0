"""A film of a page in Chromium: frames as they are drawn, a caption below the page, a pointer; as WebM with WebVTT."""

from __future__ import annotations

import base64
import contextlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

SCREEN = {"width": 1280, "height": 800}  # so that the graph view of Optimize fits above the caption
CAPTION_HEIGHT = 64  # pixels at the bottom, which the app leaves free
FRAMES_A_SECOND = 20
IDLE_PERCENT = 12  # of all processors; an app and a browser at rest use less
DRAWN_S = 20.0  # until the browser has drawn what the page holds
POINTER_S = 0.6  # of the pointer's way to where it clicks
# Playwright's mouse jumps; the drawn pointer glides after it. A clipped app cannot be scrolled by a focus.
SCENE = f"""addEventListener("DOMContentLoaded", () => {{
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`
        [data-testid=stApp] {{ bottom: {CAPTION_HEIGHT}px !important; overflow: clip !important; }}
        [data-testid=stAppViewContainer] {{ overflow: clip !important; }}
        [data-testid=stAppViewContainer] > *, [data-testid=stSidebar] {{ height: 100% !important; }}
        #film-caption {{ position: fixed; inset: auto 0 0 0; height: {CAPTION_HEIGHT}px; box-sizing: border-box;
            display: grid; place-items: center; background: #15202b; color: #fff; white-space: nowrap;
            font: 600 28px/1.2 "Source Sans", "Source Sans Pro", sans-serif; z-index: 2147483646; }}
        #film-pointer {{ position: fixed; left: 0; top: 0; width: 20px; height: 28px; pointer-events: none;
            transition: translate {POINTER_S}s ease-in-out; translate: 640px 360px; z-index: 2147483647; }}
        .film-ripple {{ position: fixed; width: 44px; height: 44px; margin: -22px; border-radius: 50%;
            border: 4px solid #e8590c; box-sizing: border-box; pointer-events: none; z-index: 2147483647; }}`);
    document.adoptedStyleSheets.push(sheet);
    const caption = document.createElement("div");
    caption.id = "film-caption";
    const pointer = document.createElement("div");
    pointer.id = "film-pointer";
    pointer.innerHTML = `<svg width="20" height="28" viewBox="0 0 20 28"><path d="M1 1v21l5-4 4 9 4-2-4-9h7z"
        fill="#15202b" stroke="#fff" stroke-width="1.5"/></svg>`;
    document.documentElement.append(caption, pointer);
    window.captionsShown = [];
    new MutationObserver(() => {{
        const inside = caption.scrollWidth <= innerWidth && caption.getBoundingClientRect().bottom <= innerHeight;
        window.captionsShown.push([caption.innerText, inside && caption.checkVisibility()]);
    }}).observe(caption, {{ childList: true }});
    addEventListener("mousemove", ({{ clientX, clientY }}) => {{
        pointer.style.translate = `${{clientX}}px ${{clientY}}px`;
    }}, true);
    addEventListener("mousedown", ({{ clientX, clientY }}) => {{
        const ripple = document.createElement("div");
        ripple.className = "film-ripple";
        ripple.style.left = `${{clientX}}px`;
        ripple.style.top = `${{clientY}}px`;
        document.documentElement.append(ripple);
        const grows = [{{ scale: 0.2 }}, {{ scale: 1, opacity: 0.9 }}, {{ scale: 1.1, opacity: 0 }}];
        const shown = ripple.animate(grows, 700);
        shown.onfinish = () => ripple.remove();
    }}, true);
}});"""


@dataclass(frozen=True)
class Cue:
    """A caption from `start` to `end`, seconds of the film."""

    start: float
    end: float
    text: str


class Film:
    """Records a page from its creation on.

    page: in a context with SCENE as its init script and a viewport of SCREEN, loaded. folder: for the frames.
    pointer_s: how long a click waits for the pointer, which takes POINTER_S.
    """

    def __init__(self, page: Any, folder: Path, pointer_s: float = POINTER_S) -> None:
        self.page, self.folder, self.pointer_s = page, folder, pointer_s
        self._frames: list[tuple[float, str]] = []  # seconds of the film, file name
        self._captions: list[tuple[float, str]] = []
        self._skipped = 0.0
        self._is_rolling = False
        self._client = page.context.new_cdp_session(page)
        self._client.on("Page.screencastFrame", self._take)
        self._began = time.time()
        self._roll()

    @property
    def seconds(self) -> float:
        """The length so far."""
        return time.time() - self._began - self._skipped

    def say(self, text: str, seconds: float) -> None:
        """Show a caption, which stays until the next one, and wait that long."""
        self.page.evaluate("text => document.getElementById('film-caption').replaceChildren(text)", text)
        self._captions.append((self.seconds, text))
        self.hold(seconds)

    def hold(self, seconds: float) -> None:
        self.page.wait_for_timeout(1000 * seconds)

    def point(self, place: Any) -> None:
        """Move the pointer to the middle of a locator's element, and wait for its way."""
        place.hover()
        self.hold(self.pointer_s)

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """What happens inside is left out of the film; nothing is captured, so that a measurement is not disturbed."""
        began = time.time()
        self._is_rolling = False
        self._client.send("Page.stopScreencast")
        try:
            yield
        finally:
            self._skipped += time.time() - began
            self._roll()

    def write(self, file: Path) -> list[Cue]:
        """End the film; write it as WebM (VP9), and its captions as WebVTT beside it, and return them."""
        self._is_rolling = False
        self._client.send("Page.stopScreencast")
        end = self.seconds
        times = [time_ for time_, _ in self._frames]
        lines = ["ffconcat version 1.0"]
        for (start, name), next_ in zip(self._frames, [*times[1:], end], strict=True):
            lines += [f"file {name}", f"duration {max(next_ - start, 0):.3f}"]
        lines.append(f"file {self._frames[-1][1]}")  # without it ffmpeg drops the last duration
        (self.folder / "frames.txt").write_text("\n".join(lines))
        encode(self.folder / "frames.txt", end, file)
        ends = [*(start for start, _ in self._captions[1:]), end]
        cues = [Cue(start, until, text) for (start, text), until in zip(self._captions, ends, strict=True)]
        file.with_suffix(".vtt").write_text(vtt_text(cues), encoding="utf-8")
        return cues

    def _roll(self) -> None:
        self._is_rolling = True
        self._client.send("Page.startScreencast", {"format": "jpeg", "quality": 92})

    def _take(self, frame: dict[str, Any]) -> None:
        self._client.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})
        if not self._is_rolling:
            return
        last = self._frames[-1][0] if self._frames else 0.0
        name = f"{len(self._frames):06}.jpg"
        (self.folder / name).write_bytes(base64.b64decode(frame["data"]))
        # The first frame after a cut may have been drawn inside it.
        self._frames.append((max(last, frame["metadata"]["timestamp"] - self._began - self._skipped), name))


def wait_until_idle(page: Any, limit_s: float) -> None:
    """Until the processors were idle for three seconds, at most so long."""
    deadline, idle = time.monotonic() + limit_s, 0
    psutil.cpu_percent()
    while idle < 3 and time.monotonic() < deadline:
        page.wait_for_timeout(1000)
        idle = idle + 1 if psutil.cpu_percent() < IDLE_PERCENT else 0


def texts_of(place: Any) -> list[str]:
    """The texts of a locator's elements, once the first is there: a chart or a table is drawn after its page."""
    place.first.wait_for(state="attached")
    return place.all_text_contents()


def text_on(page: Any, place: Any, pattern: str) -> re.Match[str]:
    """The first match in the text of a locator's element. Raises LookupError if there is none within DRAWN_S."""
    deadline = time.monotonic() + DRAWN_S
    while True:
        text = place.inner_text()
        if found := re.search(pattern, text):
            return found
        if time.monotonic() > deadline:
            raise LookupError(f"the page has no text like {pattern!r}: {text[:500]}")
        page.wait_for_timeout(100)


def encoder() -> str:
    """The path of ffmpeg. Raises FileNotFoundError if there is none."""
    found = shutil.which("ffmpeg")
    if found is None:
        raise FileNotFoundError("There is no ffmpeg on the PATH, which encodes the film: install it.")
    return found


def encode(frames: Path, seconds: float, file: Path) -> None:
    """Encode the frames of a list of ffmpeg's concat format, cut to its length."""
    words = [encoder(), "-y", "-loglevel", "error", "-f", "concat", "-i", str(frames), "-t", f"{seconds:.3f}"]
    words += ["-vf", f"fps={FRAMES_A_SECOND},scale=out_range=tv,format=yuv420p"]
    words += ["-c:v", "libvpx-vp9", "-crf", "34", "-b:v", "0", "-deadline", "realtime", "-cpu-used", "7"]
    words += ["-row-mt", "1", "-tune-content", "screen", "-g", str(10 * FRAMES_A_SECOND), str(file)]
    subprocess.run(words, check=True)


def vtt_text(cues: list[Cue]) -> str:
    """The captions as WebVTT."""
    return "WEBVTT\n" + "".join(f"\n{_clock(cue.start)} --> {_clock(cue.end)}\n{cue.text}\n" for cue in cues)


def _clock(seconds: float) -> str:
    """ "00:02:05.250" """
    ms = round(1000 * seconds)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
