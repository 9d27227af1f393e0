"""Small helpers of the command line's tests: sample models, an `optimize` with its report, the operators it wrote."""

from __future__ import annotations

import json

import onnx

from tests.conftest import ROOT

SAMPLES = ROOT / "sample_models"
NPU, RESHAPE, NHWC = (SAMPLES / f"{name}.onnx" for name in ("npu_path", "npu_reshape_add", "tvm_two_convs_nhwc"))
RESNET, OCR, SPEECH = (SAMPLES / f"{name}.onnx" for name in ("resnet50_narrow", "ppocr_cls_v2", "silero_vad"))


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
