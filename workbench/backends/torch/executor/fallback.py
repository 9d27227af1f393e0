"""Runs an operator that torch does not run, by ONNX Runtime on the CPU as a model of one node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx import helper

from workbench.ir import AttrRef, Graph, Node
from workbench.ir.text import OPSET
from workbench.ir.to_proto import to_proto
from workbench.ir.types import TensorType
from workbench.ir.versioned import opset_of_domain, plain_imports
from workbench.ops.dtypes import to_tensor
from workbench.ops.lazy import torch


class OneNodeModel:
    """Runs one node by ONNX Runtime, with a session for each combination of operand types.

    reduced: the floating-point type of the run if it is not float32; such operands
    are converted to float32.
    """

    def __init__(self, node: Node, attributes: dict[str, Any], opsets: dict[str, int], reduced: Any = None) -> None:
        kept = {key: value for key, value in attributes.items() if not isinstance(value, AttrRef)}
        own_form = opset_of_domain(node.domain)
        node = node if own_form is None else node.replace(domain="")
        self._node = node.replace(attributes=kept, overload="")
        self._opsets = {**plain_imports(opsets), node.domain: opsets.get(node.domain) or 1}
        self._opsets[""] = own_form or _oldest_of_the_same_form(node, opsets.get("", OPSET))
        self._reduced = reduced
        self._session = cache(self._new_session)

    def __call__(self, operands: Sequence[Any], captured: Sequence[Any], device: Any) -> tuple[Any, ...]:
        """The results, on `device`. `captured`: the values that the node's bodies capture, after its inputs."""
        outside = self._node.operands[len({v for v in self._node.inputs if v}) :]
        values = dict(zip((*self._node.inputs, *outside), (*operands, *captured), strict=False))
        feeds = {name: self._plain(value) for name, value in values.items() if name and value is not None}
        session = self._session(tuple((name, _type_key(value)) for name, value in feeds.items()))
        results = iter(session.run(None, feeds))
        narrow = self._in_bfloat16(operands)
        return tuple(
            self._ours(next(results), device, torch.bfloat16 if i in narrow else self._reduced) if name else None
            for i, name in enumerate(self._node.outputs)
        )

    def _in_bfloat16(self, operands: Sequence[Any]) -> set[int]:
        """The results whose type the operator's schema ties to operands of bfloat16, which are computed in float32."""
        opset = self._opsets[self._node.domain]
        if self._node.bodies or not onnx.defs.has(self._node.op_type, opset, self._node.domain):
            return set()
        schema = onnx.defs.get_schema(self._node.op_type, opset, self._node.domain)
        narrow = (i for i, x in enumerate(operands) if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16)
        tied = {_formal(schema.inputs, i).type_str for i in narrow}
        return {i for i in range(len(self._node.outputs)) if _formal(schema.outputs, i).type_str in tied}

    def _plain(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if isinstance(value, np.ndarray):
            return value
        value = value.detach().cpu()
        if value.dtype in (torch.bfloat16, self._reduced):
            value = value.float()
        return value.numpy()

    def _ours(self, value: Any, device: Any, reduced: Any) -> Any:
        if isinstance(value, list):
            return [self._ours(item, device, reduced) for item in value]
        if value is None:
            return None
        tensor = to_tensor(np.asarray(value))
        if isinstance(tensor, np.ndarray):
            return tensor
        if reduced is not None and tensor.dtype == torch.float32:
            tensor = tensor.to(reduced)
        return tensor.to(device)

    def _new_session(self, types: tuple[tuple[str, Any], ...]) -> Any:
        import onnxruntime

        graph = Graph(
            inputs=[name for name, _ in types],
            outputs=[name for name in self._node.outputs if name],
            nodes=[self._node],
            types={name: TensorType(key) for name, key in types if not isinstance(key, tuple)},
            opset_imports=self._opsets,
        )
        model = to_proto(graph)
        for info, (name, key) in zip(model.graph.input, types, strict=True):
            info.CopyFrom(_value_info(name, key))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _formal(parameters: Sequence[Any], index: int) -> Any:
    """The formal operand or result in a schema; the last one may be variadic."""
    return parameters[min(index, len(parameters) - 1)]


def _oldest_of_the_same_form(node: Node, opset: int) -> int:
    """Above OPSET, which ONNX Runtime knows in any case, the opset in which the operator got its present form."""
    if node.domain or node.bodies or opset <= OPSET or not onnx.defs.has(node.op_type, opset, ""):
        return opset
    return max(onnx.defs.get_schema(node.op_type, opset, "").since_version, OPSET)


def _type_key(value: Any) -> Any:
    """The element type; for a sequence, a tuple of its elements' types."""
    if isinstance(value, list):
        return (_type_key(value[0]) if value else onnx_ir.DataType.FLOAT,)
    if value.dtype.kind in "OSU":
        return onnx_ir.DataType.STRING
    return onnx_ir.DataType.from_numpy(value.dtype)


def _value_info(name: str, key: Any) -> onnx.ValueInfoProto:
    if isinstance(key, tuple):
        return helper.make_tensor_sequence_value_info(name, int(key[0]), None)
    return helper.make_tensor_value_info(name, int(key), None)
