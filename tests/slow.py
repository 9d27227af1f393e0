"""Marks cases of a parametrized test that say little beside the others: `make test-all` runs all of them."""

from typing import Any

import pytest


def thorough_unless(stays: bool, value: Any):
    """The value as a case of every run in which its test is, or of one commit in ten in `.ci/run`."""
    return pytest.param(value, marks=() if stays else pytest.mark.thorough)
