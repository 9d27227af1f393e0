"""Numbers for free dims with which a graph runs, where those that it has are too small for its kernels."""

from __future__ import annotations

from collections.abc import Collection

from workbench.analysis.inference.bound_sizes import sizes_fit
from workbench.evidence.verification.verifier import Verifier
from workbench.ir import Graph


def with_fitting_dims(graph: Graph, given: Collection[str] = ()) -> Graph:
    """The graph itself if its sizes fit; else a copy that is bound to dims with which it runs, found by trying.

    given: dims that stay. A graph for which none is found is as it was.
    """
    with Verifier(graph, given=given) as verifier:
        return fitted(graph, verifier)


def fitted(graph: Graph, verifier: Verifier) -> Graph:
    """The graph itself if its sizes fit; else a copy that is bound to dims with which the verifier's original runs."""
    return graph if sizes_fit(graph) else verifier.with_running_dims(graph)
