"""Evaluates one operator on constants, for constant folding.

Results are bit-equal to those of ONNX Runtime, with which every step is compared: ONNX Runtime evaluates
operators that round, NumPy those with one exact result (`exact.py`). Torch is not used: its import takes
seconds and 200 MB.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir

from workbench.analysis.inference.exact import PLAIN_TYPES, exact, overflows
from workbench.ir import Graph, Node
from workbench.ir.to_proto import to_proto
from workbench.ir.types import DataType, TensorType

_MAX_SESSIONS = 128
_LARGEST = 100_000  # bytes of operands; a session keeps the memory of its run
_SESSIONS: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

RANDOM = frozenset(  # operators whose results differ at each run
    "RandomNormal RandomUniform RandomNormalLike RandomUniformLike Multinomial Bernoulli Dropout "  # noqa: SIM905
    "workbench.random_mask_like".split()
)


class CannotEvaluate(ValueError):
    """ONNX Runtime does not run the operator on these operands; the message says which."""


def evaluate(
    node: Node, operands: Sequence[np.ndarray | None], opsets: Mapping[str, int]
) -> tuple[np.ndarray | None, ...]:
    """The node's results, None for an output without a name. Raises CannotEvaluate with a sentence.

    opsets: the version of each operator domain, as the node's graph imports them.
    """
    _check(node, operands)
    exact_result = (
        None if node.domain or len(node.outputs) != 1 else exact(node.op_type, operands, _plain(node.attributes))
    )
    return by_onnxruntime(node, operands, opsets) if exact_result is None else (exact_result,)


def by_onnxruntime(
    node: Node, operands: Sequence[np.ndarray | None], opsets: Mapping[str, int]
) -> tuple[np.ndarray | None, ...]:
    """Like `evaluate`, but always by ONNX Runtime, with graph optimizations off."""
    call = Node(  # with canonical names, so that the next such call finds the session
        node.op_type,
        tuple(f"i{index}" if operand is not None else "" for index, operand in enumerate(operands)),
        tuple(f"o{index}" if name else "" for index, name in enumerate(node.outputs)),
        node.attributes,
        "call",
        node.domain,
        node.overload,
    )
    feeds = {name: value for name, value in zip(call.inputs, operands, strict=True) if value is not None}
    try:
        results = iter(_session(call, feeds, opsets).run(None, feeds))
    except Exception as error:  # onnxruntime's exceptions have no common base but Exception
        reason = str(error).rsplit(" : ", 1)[-1]
        raise CannotEvaluate(f"{node} does not run on these constants: {reason}") from None
    outputs = tuple(next(results) if name else None for name in node.outputs)
    if any(not isinstance(result, np.ndarray) for result, name in zip(outputs, node.outputs, strict=True) if name):
        raise CannotEvaluate(f"{node} returns something other than tensors")
    return outputs


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    tensor = onnx_ir.TensorProtocol
    return {name: value.numpy() if isinstance(value, tensor) else value for name, value in attributes.items()}


def _check(node: Node, operands: Sequence[np.ndarray | None]) -> None:
    present = [operand for operand in operands if operand is not None]
    unsupported = next((operand.dtype for operand in present if operand.dtype not in PLAIN_TYPES), None)
    if unsupported is not None:
        raise CannotEvaluate(f"{node} reads constants of element type {unsupported}")
    if node.op in ("Div", "Mod") and len(present) == 2 and overflows(*present):
        raise CannotEvaluate(f"{node} divides the smallest integer by -1, which has no result")


def _session(call: Node, feeds: Mapping[str, np.ndarray], opsets: Mapping[str, int]) -> Any:
    """A session for the call; recent ones are cached, since creating one takes most of the time."""
    plain = all(_is_plain(value) for value in call.attributes.values())
    types = tuple((name, value.dtype.str, value.shape) for name, value in feeds.items())
    key = (call.op, call.overload, call.outputs, repr(sorted(call.attributes.items())), types, tuple(opsets.items()))
    if plain and key in _SESSIONS:
        _SESSIONS.move_to_end(key)
        return _SESSIONS[key]
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # starting threads takes longer than running most nodes
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # errors are raised as exceptions
    model = _model(call, feeds, opsets)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    if plain and sum(value.nbytes for value in feeds.values()) <= _LARGEST:
        _SESSIONS[key] = session
        if len(_SESSIONS) > _MAX_SESSIONS:
            _SESSIONS.popitem(last=False)
    return session


def _is_plain(value: Any) -> bool:
    """Whether the text of the value identifies it."""
    values = value if isinstance(value, tuple) else (value,)
    return all(isinstance(item, int | float | str) for item in values)


def _model(node: Node, feeds: Mapping[str, np.ndarray], opsets: Mapping[str, int]) -> bytes:
    graph = Graph(
        inputs=list(feeds),
        outputs=[name for name in node.outputs if name],
        nodes=[node],
        types={name: TensorType(DataType.from_numpy(value.dtype), value.shape) for name, value in feeds.items()},
        opset_imports=dict(opsets),
    )
    return bytes(to_proto(graph).SerializeToString())
