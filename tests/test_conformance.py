"""The torch executor on every single-operator case that ONNX ships; docs/conformance.md is the table."""

import sys
from collections import Counter

import numpy as np
import onnxruntime
import pytest

from tests.conformance import DISPUTED, DISPUTES, NATIVE, WRONG, array, cases, verdicts
from tests.conftest import ROOT

pytestmark = pytest.mark.slow  # eight seconds until the package has made its cases; test_executor*.py are quick


def test_every_case_of_the_package_is_run():
    assert len(verdicts()) == len(cases()) == 1884


def test_none_is_wrong():
    assert {v.case: v.reason for v in verdicts() if v.kind == WRONG} == {}


def test_most_are_native():
    assert Counter(v.kind for v in verdicts())[NATIVE] >= 1800


def test_what_is_not_native_has_a_reason_of_one_line():
    assert [v for v in verdicts() if v.kind != NATIVE and (not v.reason or "\n" in v.reason)] == []


def test_the_page_is_up_to_date():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from make_conformance import document
    finally:
        sys.path.pop(0)
    text = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert text == document(), "run python docs/make_conformance.py"


# ---- what is disputed, and the evidence --------------------------------------------------------


def test_what_is_disputed_differs_still():
    assert {v.case for v in verdicts() if v.kind == DISPUTED} == set(DISPUTES)


def by_onnxruntime(case):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), options)
    ((given, (expected,)),) = case.data_sets
    names = [value.name for value in session.get_inputs()]
    (found,) = session.run(None, dict(zip(names, map(array, given), strict=True)))
    return found, array(expected)


def test_indices_of_max_unpool_count_in_the_output_shape():
    case = cases()["test_maxunpool_export_with_output_shape"]
    found, expected = by_onnxruntime(case)
    x, indices, shape = case.data_sets[0][0]
    wanted = np.zeros(shape.prod(), np.float32)
    wanted[indices.reshape(-1)] = x.reshape(-1)
    np.testing.assert_array_equal(found, wanted.reshape(shape))
    assert (found != expected).sum() == 8


@pytest.mark.parametrize("name", ["test_dft_inverse", "test_dft_inverse_opset19"])
def test_an_inverse_transform_of_zero_is_zero(name):
    case = cases()[name]
    found, expected = by_onnxruntime(case)
    assert not np.allclose(found, expected, case.rtol, case.atol)
    signal = case.data_sets[0][0][0].astype(np.float64)
    result = np.fft.ifft(signal[..., 0] + 1j * signal[..., 1], axis=1)
    exact = np.stack([result.real, result.imag], -1)
    far = ~np.isclose(exact, expected, case.rtol, case.atol)
    assert far.sum() == 10
    assert np.abs(exact[far]).max() < 1e-12


def test_no_exact_steps_in_float16_meet_the_tolerance():
    """The body of Attention: each step computed in float64 and rounded once to float16."""
    case = cases()["test_attention_4d_causal_fp16_expanded"]
    (((query, key, value), (expected,)),) = case.data_sets

    def rounded(x):
        return x.astype(np.float16).astype(np.float64)

    root = rounded(np.array(query.shape[-1] ** -0.25))
    query, key, value = (x.astype(np.float64) for x in (query, key, value))
    scores = rounded(rounded(query * root) @ rounded(key * root).swapaxes(-1, -2))
    scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    result = rounded(rounded(weights / weights.sum(-1, keepdims=True)) @ value)
    assert (~np.isclose(result, expected.astype(np.float64), case.rtol, case.atol)).sum() == 2
