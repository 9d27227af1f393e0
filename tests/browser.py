"""The app as a process, and a Chromium to drive it: for the browser tests and for the pictures of docs/."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright, sync_playwright

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
FOUND_ON_PATH = ("chromium", "chromium-browser", "google-chrome")
SCREEN = {"width": 1366, "height": 768}
START_LIMIT_S = 60


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
def running_app() -> Iterator[tuple[str, int]]:
    """The address and the process id of the app, started as a user starts it, stopped in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--server.headless=true", "--server.address=127.0.0.1")
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", "app.py", *options, f"--server.port={port}"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={key: value for key, value in os.environ.items() if not key.startswith("STREAMLIT_")},
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/_stcore/health", process)
        yield address, process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=20)


def _wait_for(health: str, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the app ended with code {process.returncode} before it answered")
        with contextlib.suppress(OSError), urllib.request.urlopen(health, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the app did not answer within {START_LIMIT_S} s")


def settle(page: Page, limit_s: float = 120) -> None:
    """Wait until the page's script has come to its end."""
    page.wait_for_timeout(300)
    page.wait_for_function(
        "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'",
        timeout=limit_s * 1000,
    )
    page.wait_for_timeout(300)
