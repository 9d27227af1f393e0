"""Sessions of ONNX Runtime on the CPU."""

from __future__ import annotations

from typing import Any

import onnx

from workbench.checker.plain import PlainModel


class NotCompared(Exception):
    """The models cannot be compared, without a fault of the output; the message says why."""


def cpu_session(proto: onnx.ModelProto, optimized: bool = False) -> Any:
    """A session without optimizations unless `optimized`."""
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def with_weights(model: PlainModel) -> onnx.ModelProto:
    """The message with the weights of its external files."""
    message = onnx.ModelProto()
    message.CopyFrom(model.proto)
    onnx.external_data_helper.load_external_data_for_model(message, str(model.folder))
    return message
