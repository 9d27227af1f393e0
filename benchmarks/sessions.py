"""Many users at once: `python benchmarks/sessions.py [SESSIONS]` (default: 30). It needs a Chromium.

The sessions, each in a separate browser context, open a sample, go to Optimize and to Export; in each step, all start
before the benchmark waits for the first. Each must show its page without an exception, and the server's log must have
none. Prints Markdown.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402

from tests.browser import chromium, page_link, running_app, settle, watched_page  # noqa: E402

SAMPLES = ("ppocr_cls_v2", "conv_relu_conv_relu", "basic_pitch_nmp", "npu_path", "two_orders")
_ERROR_MARKS = ("Traceback", "SystemError", "Uncaught")


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 30
    print("| sessions | step | s until all are there | exceptions shown | errors in the log | server MB |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        log = Path(folder) / "server.log"
        site, pid = stack.enter_context(running_app(log=stack.enter_context(log.open("wb"))))
        browser = stack.enter_context(chromium())
        if browser is None:
            raise SystemExit("no Chromium is found")
        pages = [stack.enter_context(watched_page(browser)) for _ in range(count)]
        model = str(ROOT / "sample_models" / "{}.onnx")
        steps: dict[str, Callable[[int, Any], None]] = {
            "open": lambda i, page: page.goto(f"{site}/?model={model.format(SAMPLES[i % len(SAMPLES)])}"),
            "Optimize": lambda i, page: page_link(page, "Optimize").click(),
            "Export": lambda i, page: page_link(page, "Export").click(),
        }
        for step, act in steps.items():
            start = time.perf_counter()
            for i, page in enumerate(pages):
                act(i, page)
            for page in pages:
                settle(page, limit_s=600)
            shown = sum(page.locator("[data-testid=stException]").count() for page in pages)
            text = log.read_text(encoding="utf-8", errors="replace")
            errors = sum(text.count(mark) for mark in _ERROR_MARKS)
            resident = psutil.Process(pid).memory_info().rss / 1e6
            seconds = time.perf_counter() - start
            print(f"| {count} | {step} | {seconds:.0f} | {shown} | {errors} | {resident:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
