"""Shared by rules about the Add of a bias: conditions on the bias, and its axis."""

from __future__ import annotations

import numpy as np

from workbench.rewrite.core.guards import broadcasts_into
from workbench.rewrite.core.rule import NoMatch
from workbench.rewrite.patterns.matching import Match


def is_bias(match: Match) -> None:
    """Raises NoMatch unless `bias` has one axis, as long as an axis of `a`; a constant may have others of size 1."""
    axes, bias = _axes_beside(match).size + 1, match["bias"]
    if axes > 1 and match.graph.constant(bias) is None:
        raise NoMatch(f"'{bias}' of {match.nodes[0]} is computed, and has {axes} axes; a bias has one")


def is_computed_with_axes_of_one(match: Match) -> None:
    """Raises NoMatch unless `bias` is computed, and has axes of size 1 beside one as long as an axis of `a`."""
    if not _axes_beside(match).size or match.graph.constant(match["bias"]) is not None:
        raise NoMatch(f"'{match['bias']}' of {match.nodes[0]} is a constant or has one axis; another rule covers it")


def _axes_beside(match: Match) -> np.ndarray:
    """The axes of size 1 of `bias`. Raises NoMatch unless there is one other, of the size of an axis of `a`."""
    graph, a, bias = match.graph, match["a"], match["bias"]
    shape, small = graph.shape(a), graph.shape(bias)
    if shape is None or small is None:
        raise NoMatch(f"the shapes of '{a}' and '{bias}' are not known")
    axes = axes_of_one(match)
    if not broadcasts_into(small, shape) or len(small) - axes.size != 1:
        raise NoMatch(f"neither operand of {match.nodes[0]} is a bias along one axis of the other")
    return axes


def axes_of_one(match: Match) -> np.ndarray:
    """The axes of size 1 of `bias`, counted from the front."""
    return np.array([axis for axis, dim in enumerate(match.graph.shape(match["bias"]) or ()) if dim == 1], np.int64)


def axis_of_bias(match: Match) -> int:
    """The axis of `a` along which `bias` lies, counted from the front."""
    shape, small = match.graph.shape(match["a"]) or (), match.graph.shape(match["bias"]) or ()
    return len(shape) - len(small) + next(axis for axis, dim in enumerate(small) if dim != 1)


def bias_of_one_axis(match: Match) -> str | np.ndarray:
    """The name of the bias, or its array with one axis if it is a constant with several."""
    tensor = match.graph.constant(match["bias"])
    return match["bias"] if tensor is None or match.graph.rank_of(match["bias"]) == 1 else tensor.numpy().reshape(-1)
