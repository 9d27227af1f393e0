"""Small helpers of the command line's tests: sample models, an `optimize` with its report, the operators it wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import pytest

from tests.conftest import ROOT
from workbench import verification
from workbench.run.worker import client

SAMPLES = ROOT / "sample_models"
NPU, RESHAPE, NHWC = (SAMPLES / f"{name}.onnx" for name in ("npu_path", "npu_reshape_add", "tvm_two_convs_nhwc"))
RESNET, OCR, SPEECH = (SAMPLES / f"{name}.onnx" for name in ("resnet50_narrow", "ppocr_cls_v2", "silero_vad"))


class _Kept(client.Worker):
    """Its processes outlive the command that closes it; the next asks them."""

    def close(self) -> None:
        pass


@contextmanager
def one_worker() -> Iterator[client.Worker]:
    """Commands run in this process meanwhile share a worker: each would take two seconds to start one with torch.

    That a command ends its own is tested without this, in test_cli.py.
    """
    kept = _Kept()
    with pytest.MonkeyPatch.context() as patch:
        for module in (client, verification):
            patch.setattr(module, "Worker", lambda: kept)
        yield kept
    client.Worker.close(kept)


def report_of(done, tmp_path, model, *arguments):
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    done("optimize", model, "-o", out, "--report", report, *arguments)
    onnx.checker.check_model(str(out), full_check=True)
    return json.loads(report.read_text())


def operators(path):
    found = {}
    for node in onnx.load(path).graph.node:
        found[node.op_type] = found.get(node.op_type, 0) + 1
    return found
