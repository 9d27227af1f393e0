"""What the app keeps stays out of garbage collections, and what it no longer keeps does not stay for ever."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from tests.conftest import ROOT
from workbench.ui.state import gc_freeze


class Circle:
    """Only a collection frees it and its objects."""

    def __init__(self, size: int) -> None:
        self.own = [self, *([number] for number in range(size))]


@pytest.fixture(autouse=True)
def fresh():
    gc_freeze.let_go()
    gc.collect()
    yield
    gc_freeze.let_go()


def test_what_is_kept_is_not_looked_at_again():
    kept = Circle(100_000)
    assert len(gc.get_objects()) > len(kept.own)
    gc_freeze.keep_out()
    assert len(gc.get_objects()) < len(kept.own)


def test_what_died_goes_once_what_is_kept_out_has_doubled():
    """In a process that holds little else: it is doubled ten times by half, and this one may hold millions of objects."""
    code = "from tests.test_garbage import keep_and_drop; keep_and_drop()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def keep_and_drop():
    gc_freeze.keep_out()
    alive = gc.get_freeze_count()
    dead = []
    for _ in range(10):
        kept = Circle(alive // 2)
        gc_freeze.keep_out()
        dead.append(weakref.ref(kept))
        del kept
        assert gc.get_freeze_count() < 3.5 * alive
    assert sum(reference() is not None for reference in dead) <= 5


def test_opening_another_model_lets_everything_go():
    kept = Circle(1_000)
    gc_freeze.keep_out()
    dead = weakref.ref(kept)
    del kept
    gc.collect()
    assert dead() is not None
    gc_freeze.let_go()
    gc.collect()
    assert dead() is None
