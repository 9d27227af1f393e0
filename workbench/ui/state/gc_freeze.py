"""Kept graphs stay out of the garbage collection that Streamlit does after every run: 0.2 s with 10,000 nodes."""

from __future__ import annotations

import gc

_GROWTH = 2  # as often as what is kept out has grown so much, what is dead in it is looked for
_alive = 0
_kept = 0  # at most: what died by itself is found out when it matters, for to count takes 40 ms


def keep_out() -> None:
    """Leave everything that is alive now out of later collections.

    What dies later is not found by them, so that all is collected once what
    is kept out has doubled: it never holds more dead objects than living ones.
    """
    global _alive, _kept
    _kept += len(gc.get_objects())
    gc.freeze()
    if _kept > _GROWTH * _alive:
        _kept = gc.get_freeze_count()
    if _kept > _GROWTH * _alive > 0:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        _alive = 0
    if not _alive:
        _alive = _kept = gc.get_freeze_count()


def let_go() -> None:
    """Let the next collection find everything again, since what was kept is replaced."""
    global _alive, _kept
    gc.unfreeze()
    _alive = _kept = 0
