"""Small helpers of the tests: a graph's outputs by ONNX Runtime, random inputs for it, random numbers."""

import numpy as np

from workbench.evidence.verification.pass_files.example_graphs import typed
from workbench.evidence.verification.pass_files.example_runs import outputs, random_inputs
from workbench.ir import Graph, from_text, to_text

__all__ = ["normal", "outputs", "plays_both_ways", "random_inputs", "typed"]


def normal(*shape):
    """Standard normal numbers, the same for the same shape."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def plays_both_ways(graph: Graph, rewrites, before: str) -> None:
    """Undone one by one, the rewrites of a graph lead to the text before, and done again to the graph."""
    after = to_text(graph)
    for rewrite in reversed(rewrites):
        graph.apply(rewrite.inverse)
    assert to_text(graph) == to_text(from_text(before))
    for rewrite in rewrites:
        graph.apply(rewrite.edit)
    assert to_text(graph) == after
