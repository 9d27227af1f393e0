"""The recording of docs/: its captions, and the script that makes it, run with short waits against the real app."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT

DOCS = ROOT / "docs"
MAX_WORDS, MIN_SECONDS = 12, 3.0
MAX_BYTES = 6e6
CUE = re.compile(r"(\d+):(\d\d):(\d\d\.\d{3}) --> (\d+):(\d\d):(\d\d\.\d{3})\n(.+)")


def captions(file: Path) -> list[tuple[float, float, str]]:
    """Begin, end and text of each caption of a WebVTT file, in seconds."""
    head, *blocks = file.read_text(encoding="utf-8").strip().split("\n\n")
    assert head == "WEBVTT"
    found = [CUE.fullmatch(block) for block in blocks]
    assert found and all(found)
    return [(_seconds(*match.groups()[:3]), _seconds(*match.groups()[3:6]), match[7]) for match in found]


def _seconds(hours: str, minutes: str, seconds: str) -> float:
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def test_the_kept_recording_lasts_three_minutes_and_can_be_read():
    shown = captions(DOCS / "recording.vtt")
    assert 150 <= shown[-1][1] <= 200
    assert (DOCS / "recording.webm").stat().st_size < MAX_BYTES
    for begin, end, text in shown:
        assert end - begin >= MIN_SECONDS, text
        assert len(text.split()) <= MAX_WORDS, text
    assert [begin for begin, _, _ in shown[1:]] == [end for _, end, _ in shown[:-1]]


def test_the_kept_recording_ends_with_a_gain_that_the_card_claims():
    texts = [text for _, _, text in captions(DOCS / "recording.vtt")]
    before, after = re.fullmatch(r"The card said: ([\d.,]+) ms before, ([\d.,]+) ms after\.", texts[-1]).groups()
    assert f"One run went from {before} to {after} ms." in texts
    assert any(re.search(r"[\d ]+ % less time in ONNX Runtime here", text) for text in texts)


@pytest.mark.browser
@pytest.mark.slow
def test_captions_quote_the_card_and_are_in_the_film_in_their_order(browser, tmp_path, monkeypatch):
    """The tuning's budget is too short on purpose, so that the story goes on with the goal that is the default."""
    _needs_ffmpeg()
    monkeypatch.syspath_prepend(DOCS)
    from make_recording import Pace, record

    file = tmp_path / "recording.webm"
    pace = Pace(least_s=0.5, word_s=0, wait_s=0.2, pointer_s=0.1, budget="1s", tries=1, quiet_s=0)
    recording = record(browser, file, pace)
    shown = captions(file.with_suffix(".vtt"))
    texts = [text for _, _, text in shown]
    assert recording.shown == [(text, True) for text in texts]
    assert max(len(text.split()) for text in texts) <= MAX_WORDS

    before, after = re.fullmatch(r"The card said: (\S+) ms before, (\S+) ms after\.", texts[-1]).groups()
    assert f"{before} → {after} ms\nlatency: " in recording.card.text
    nodes = next(re.search(r"from (\d+) to (\d+) nodes", text) for text in texts if "nodes." in text and "from" in text)
    assert f"{nodes[1]} → {nodes[2]}\nnodes" in recording.card.text
    error = next(text for text in texts if text.startswith("The result is equal")).rstrip(".").split(": ")[1]
    assert f"equal\nresult: {error}" in recording.card.text

    words = ["ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", str(file)]
    seconds = float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert seconds == pytest.approx(shown[-1][1], abs=0.5)
    assert len(texts) * 0.5 <= seconds < 60
    assert 100_000 < file.stat().st_size < MAX_BYTES
    pictures = _caption_pictures(file, [begin + 0.35 for begin, _, _ in shown])
    assert all((picture > 200).mean() > 0.005 for picture in pictures)  # light letters on dark
    others = [(abs(first.astype(int) - second) > 100).mean() > 0.002 for first, second in itertools.pairwise(pictures)]
    assert sum(others) >= 0.8 * len(others), "the film shows each caption; a busy machine paints one in ten late"


def _needs_ffmpeg() -> None:
    if shutil.which("ffmpeg") is None or shutil.which("ffprobe") is None:
        reason = "no ffmpeg on the PATH"
        warnings.warn(f"THE RECORDING WAS NOT TESTED: {reason}", stacklevel=2)
        pytest.skip(reason)


def _caption_pictures(file: Path, times: list[float]) -> list[np.ndarray]:
    """The strip of the caption at each time, as gray pixels."""
    from film import CAPTION_HEIGHT, SCREEN

    width, top = SCREEN["width"], SCREEN["height"] - CAPTION_HEIGHT
    rate = 20
    cut = f"fps={rate},crop={width}:{CAPTION_HEIGHT}:0:{top},format=gray"
    words = ["ffmpeg", "-loglevel", "error", "-i", str(file), "-vf", cut, "-f", "rawvideo", "-"]
    pixels = np.frombuffer(subprocess.run(words, capture_output=True, check=True).stdout, np.uint8)
    frames = pixels.reshape(-1, CAPTION_HEIGHT, width)
    return [frames[min(round(rate * time), len(frames) - 1)] for time in times]
