"""A batch twice as large: the axes of inputs that it enlarges, its inputs, and its expected outputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.ir import Graph
from workbench.ir.permuted_io import permutation_between
from workbench.run.inputs import Tensors


def batch_axes(original: Graph, graph: Graph) -> dict[str, int]:
    """The axis of each input whose size is a number in the original, and a symbol in the graph."""
    results = {}
    for value in original.inputs:
        before, after = original.shape(value), graph.shape(value)
        if before is None or after is None or len(before) != len(after):
            continue
        order = permutation_between(original, graph, value) or range(len(after))
        as_before = {axis: after[place] for place, axis in enumerate(order)}
        for axis, size in enumerate(before):
            symbol = as_before[axis]
            if isinstance(size, int) and isinstance(symbol, str):
                results[value] = axis
    return results


def both_batches(first: Tensors, second: Tensors, axes: Mapping[str, int]) -> Tensors:
    """The inputs of two runs concatenated along the batch; inputs without a batch are those of the first run."""
    return {
        value: np.concatenate([tensor, second[value]], axes[value]) if value in axes else tensor
        for value, tensor in first.items()
    }


def expected_of_both(first: Tensors, second: Tensors, result: Tensors) -> Tensors:
    """The outputs of two runs, concatenated along the axis that is twice as long in `result`.

    An output that is not larger in `result` is that of the first run.
    """
    return {name: _joined(tensor, second[name], result.get(name)) for name, tensor in first.items()}


def _joined(first: np.ndarray, second: np.ndarray, result: np.ndarray | None) -> np.ndarray:
    if result is None or result.ndim != first.ndim or result.shape == first.shape:
        return first
    axis = next((axis for axis in range(first.ndim) if result.shape[axis] != first.shape[axis]), 0)
    return np.concatenate([first, second], axis)
