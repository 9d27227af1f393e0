"""Named matrices, which repeat published measurements."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.ir import Graph


@dataclass(frozen=True)
class NamedMatrix:
    """title: for the user. models: makes the graphs. The other fields are those of `blocks.Matrix`."""

    title: str
    models: Callable[[], Mapping[str, Mapping[str, Graph]]]
    batches: Sequence[int]
    dtypes: Sequence[str]


def _resnet_101() -> Mapping[str, Mapping[str, Graph]]:
    from workbench.formats.io.onnx_file import load_proto
    from workbench.formats.io.samples import FOLDER
    from workbench.interfaces.api import optimize

    graph = load_proto(runpy.run_path(str(FOLDER / "resnet.py"))["resnet"](), {"N": 1})
    return {
        "ResNet-101": {
            "NCHW": optimize(graph).graph,
            "channels-last": optimize(graph, target="cuda", layout="optimal").graph,
        }
    }


PLANS: Mapping[str, NamedMatrix] = {
    "oneflow": NamedMatrix(
        "OneFlow's table: ResNet-101, mixed precision, batches 16, 32, 64, NCHW against channels-last",
        _resnet_101,
        batches=(16, 32, 64),
        dtypes=("mixed",),
    ),
}
