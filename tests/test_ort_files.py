"""Samples and real models as ONNX Runtime's optimizer writes them: they open, are typed, optimized around, and run."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import workbench as wb
from tests.conftest import CORPUS
from tests.running import outputs
from workbench.analysis.inference.stand_ins import ONNX_RUNTIME as DOMAIN
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.formats.io.samples import FOLDER
from workbench.ir import TensorType

SAMPLES = ["conv_relu_conv_relu", "resnet50_narrow", "ppocr_cls_v2", "basic_pitch_nmp"]
FROM_CORPUS = ["bert_12l_raw", "ddddocr_det_yolox", "ppocrv4_rec", "ppocrv4_det"]
FILES = [
    *(FOLDER / f"{stem}.onnx" for stem in SAMPLES),
    *(pytest.param(CORPUS / f"{stem}.onnx", marks=pytest.mark.slow) for stem in FROM_CORPUS),
]


def optimized_by_onnxruntime(path, folder):
    """What its extended level writes."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(str(path), options)
    return folder / "optimized.onnx"


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_that_the_optimizer_wrote(path, tmp_path):
    if not path.exists():
        pytest.skip(f"NOT TESTED: {path} is not there")
    graph = load_model(optimized_by_onnxruntime(path, tmp_path))
    own = [node for node in graph.nodes if node.domain == DOMAIN]
    assert own, "it fused nothing"
    assert not [warning for warning in graph.warnings if DOMAIN in warning]
    original = load_model(path)
    known = {v for v in original.values() if isinstance(original.type(v), TensorType)}
    for node in own:
        type_ = graph.type(node.outputs[0])
        assert isinstance(type_, TensorType) and type_.shape is not None, node
        if node.outputs[0] in known:
            assert type_.dtype == original.tensor_type(node.outputs[0]).dtype
            assert len(type_.shape) == len(original.tensor_type(node.outputs[0]).shape)
    with Verifier(graph) as verifier:
        history = wb.optimize(graph, verifier=verifier, verify="end")
        assert history[-1].verdict.ok
        inputs = verifier.inputs
    assert sum(node.domain == DOMAIN for node in history.graph.nodes) == len(own)
    executor = TorchExecutor(history.graph)
    found = executor.run(inputs)
    assert not {op for op in executor.fallbacks if op.startswith(DOMAIN)}
    for name, expected in outputs(history.graph, inputs).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-4)
    export_onnx(history.graph, tmp_path / "again.onnx")
    again = load_model(tmp_path / "again.onnx")
    assert [node.op for node in again.nodes] == [node.op for node in history.graph.nodes]
