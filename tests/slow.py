"""Marks those cases of a parametrized test that only `make test-all` runs."""

from typing import Any

import pytest


def slow_unless(quick: bool, value: Any):
    return pytest.param(value, marks=() if quick else pytest.mark.slow)
