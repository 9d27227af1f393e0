"""Matrices by name, for the command line and the app: what somebody else measured, to be set beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.ir import Graph


@dataclass(frozen=True)
class Plan:
    """title: what it is. models: makes the graphs; these and the rest as in `matrix.Matrix`."""

    title: str
    models: Callable[[], Mapping[str, Mapping[str, Graph]]]
    batches: Sequence[int]
    dtypes: Sequence[str]


def _resnet_101() -> Mapping[str, Mapping[str, Graph]]:
    import onnx

    from sample_models.resnet import resnet
    from workbench.api import optimize
    from workbench.loading import load_model

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet101.onnx"
        onnx.save(resnet(), path)
        graph = load_model(str(path), {"N": 1})
    return {"ResNet-101": {"NCHW": optimize(graph).graph, "channels-last": optimize(graph, layout="optimal").graph}}


PLANS: Mapping[str, Plan] = {
    "oneflow": Plan(
        "OneFlow's table: ResNet-101, mixed precision, batches 16, 32, 64, NCHW against channels-last",
        _resnet_101,
        batches=(16, 32, 64),
        dtypes=("mixed",),
    ),
}
