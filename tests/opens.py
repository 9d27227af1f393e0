"""Open small models one after the other on the app's pages and print the process's resident memory after each.

A program of its own (`python -m tests.opens 400`), since the tests' process holds much else.
"""

from __future__ import annotations

import sys

import psutil

from tests.pages import fine, page
from workbench.formats.io.samples import samples

SMALL = ("conv_relu_conv_relu", "npu_types", "two_orders", "npu_reshape_add")


def main(count: int) -> None:
    small = [sample for sample in samples() if sample.file.stem in SMALL]
    at = page("open")
    fine(at.run())
    for number in range(count):
        sample = small[number % len(small)]
        at.button(key=f"sample_{sample.file.stem}").click()
        fine(at.run())
        assert at.session_state["opened"].title == sample.title
        print(psutil.Process().memory_info().rss, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
