"""What rules about the Add of a bias share: is one operand a bias along an axis, and of which?"""

from __future__ import annotations

import numpy as np

from workbench.rewrite.guards import broadcasts_into
from workbench.rewrite.matching import Match
from workbench.rewrite.rule import NoMatch


def is_bias(match: Match) -> None:
    """`bias` of the pattern has one axis, of the size of an axis of `a`; its others, if any, are of size 1."""
    graph, a, bias = match.graph, match["a"], match["bias"]
    shape, small = graph.shape(a), graph.shape(bias)
    if shape is None or small is None:
        raise NoMatch(f"the shapes of '{a}' and '{bias}' are not known")
    if not broadcasts_into(small, shape) or sum(dim != 1 for dim in small) != 1:
        raise NoMatch(f"neither operand of {match.nodes[0]} is a bias along one axis of the other")
    if len(small) > 1 and graph.constant(bias) is None:
        raise NoMatch(f"'{bias}' of {match.nodes[0]} is computed, and has {len(small)} axes; a bias has one")


def axis_of_bias(match: Match) -> int:
    """The axis of `a` along which `bias` lies, counted from the front."""
    shape, small = match.graph.shape(match["a"]) or (), match.graph.shape(match["bias"]) or ()
    return len(shape) - len(small) + next(place for place, dim in enumerate(small) if dim != 1)


def bias_of_one_axis(match: Match) -> str | np.ndarray:
    """The bias; a constant of several axes without those of size 1."""
    tensor = match.graph.constant(match["bias"])
    return match["bias"] if tensor is None or match.graph.rank_of(match["bias"]) == 1 else tensor.numpy().reshape(-1)
