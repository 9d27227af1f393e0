"""Small helpers of the command line's tests: sample models, an `optimize` with its report, the operators it wrote."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import pytest

from tests.conftest import ROOT
from workbench.evidence.verification import verifier as verification
from workbench.run.worker import client

SAMPLES = ROOT / "sample_models"
NPU, RESHAPE, NHWC = (SAMPLES / f"{name}.onnx" for name in ("npu_path", "npu_reshape_add", "tvm_two_convs_nhwc"))
RESNET, OCR, SPEECH = (SAMPLES / f"{name}.onnx" for name in ("resnet50_narrow", "ppocr_cls_v2", "silero_vad"))


class KeptWorker(client.Worker):
    """Its processes outlive who closes it; the next asks them, and need not wait two seconds until torch is there."""

    def close(self) -> None:
        pass

    def end(self) -> None:
        super().close()


@contextmanager
def commands_share(worker: KeptWorker) -> Iterator[None]:
    """Commands and verifiers of this process ask this worker meanwhile.

    That a command ends its own is tested without this, in test_cli.py.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (client, verification):
            patch.setattr(module, "Worker", lambda: worker)
        yield


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


def heeds_ctrl_c() -> None:
    """For a process to be started: tests that run in the background of a shell hand down that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
