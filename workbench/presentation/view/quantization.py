"""What the inspector says of values that are stored in a few bits: scale, zero point, and the error of weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.ir import DataType, Graph, Node
from workbench.rewrite import History
from workbench.rewrite.analyses.quantized_values import QuantizedValue, quantized_value, weight_error

_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE)


def quantization_rows(history: History, step: int, graph: Graph, node: Node) -> list[list[str]]:
    """Rows of what the node quantizes or dequantizes. step: at which `graph` is, or up to which it was changed.

    A weight that a step of the history quantized is compared with the float one.
    """
    value = quantized_value(graph, node, beside=tuple(graph.nodes))
    if value is None:
        return []
    rows = [["number type", value.text]]
    if value.integers is not None:
        found = [weight_error(weight, value) for weight in _weights_before(history, step, node)]
        errors = [pair for pair in found if pair is not None]
        if errors:
            error, largest = min(errors)  # of several weights of the shape, of the one for which the integers stand
            rows.append(["largest error", f"{error:.2g} of {largest:.2g}, the weight before it was quantized"])
    return rows


def _weights_before(history: History, step: int, node: Node) -> Iterator[np.ndarray]:
    """The float constants that were read by the nodes in whose place a rewrite put this one."""
    for rewrite in (rewrite for one in history.steps[: step + 1] for rewrite in one.rewrites):
        if not any(inserted.name == node.name for inserted in rewrite.edit.insert):
            continue
        for value in dict.fromkeys(value for removed in rewrite.inverse.insert for value in removed.operands):
            tensor = rewrite.inverse.constants.get(value) or history.initial.constant(value)
            if tensor is not None and tensor.dtype in _FLOATS:
                yield np.asarray(tensor.numpy())
        return


def quantization_of_node(graph: Graph, node: Node) -> QuantizedValue | None:
    """The scale and zero point with which the node converts to integers or back; None if it does neither."""
    return quantized_value(graph, node) if node.op in ("QuantizeLinear", "DequantizeLinear") else None


def quantization_of_value(graph: Graph, value: str) -> QuantizedValue | None:
    """The scale and zero point of integers, from the QuantizeLinear before or a DequantizeLinear behind them."""
    producer = graph.producer(value)
    if producer is not None and producer.op == "QuantizeLinear":
        return quantization_of_node(graph, producer)
    reader = next((u for u in graph.users(value) if u.op == "DequantizeLinear" and u.inputs[0] == value), None)
    return None if reader is None else quantization_of_node(graph, reader)
