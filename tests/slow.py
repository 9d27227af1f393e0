"""Marks those cases of a parametrized test that only `make test-all` runs."""

from typing import Any

import pytest


def slow_unless(quick: bool, value: Any):
    return pytest.param(value, marks=() if quick else pytest.mark.slow)


def thorough_unless(slow: bool, value: Any):
    """For a test that is slow as a whole: this value of it is in every run of `.ci/run`, or in one in ten."""
    return pytest.param(value, marks=() if slow else pytest.mark.thorough)
