"""Parallel convolutions and products of one value as one, in whole networks."""

from collections import Counter

import numpy as np
import onnx
import pytest

import workbench as wb
from sample_models.light import random_light
from tests.conftest import CORPUS
from tests.running import outputs
from workbench.run.inputs import seed_inputs


def merged(graph):
    history = wb.optimize(graph, ["inline_functions", "fold_constants", "common_subexpressions", "merge_parallel"])
    before, after = history.before(4), history.graph
    again = wb.optimize(after, ["merge_parallel"])
    assert not again[1].rewrites, "a second run changes nothing"
    inputs = seed_inputs(graph)
    expected = outputs(before, inputs)
    for name, array in outputs(after, inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-5)
    return history[4].rewrites, Counter(node.op for node in before.nodes), Counter(node.op for node in after.nodes)


@pytest.mark.slow
def test_the_branches_of_inception_share_a_kernel(tmp_path):
    """Of the four branches of a module two begin with a 1x1 convolution each, and one of them is one itself."""
    onnx.save(random_light("inception_v1"), tmp_path / "inception.onnx")
    rewrites, before, after = merged(wb.load(tmp_path / "inception.onnx"))
    assert len(rewrites) == 9 and all(rewrite.sentence.startswith("3 kernels, from Conv") for rewrite in rewrites)
    assert before["Conv"] - after["Conv"] == 18 and after["Split"] == 9


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"THE CORPUS OF REAL MODELS IS NOT AT {CORPUS}")
def test_queries_keys_and_values_are_one_product():
    rewrites, before, after = merged(wb.load(CORPUS / "bert_12l_raw.onnx"))
    assert len(rewrites) == 12 and all("become one kernel with 576 (192 + 192 + 192)" in r.sentence for r in rewrites)
    assert before["Gemm"] + before["MatMul"] - after["Gemm"] - after["MatMul"] == 24
