"""Paths that many tests share."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"


def pytest_addoption(parser):
    parser.addoption("--run-slow", action="store_true", help="run the slow matrices too")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--run-slow"):
        return
    skip = pytest.mark.skip(reason="slow matrix: run with --run-slow, as .ci/run does")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)
