"""The tests whose numbers come from kernels that differ by CPU hold on a CPU with AVX2 alone."""

from __future__ import annotations

import sys

import pytest

from tests.other_cpus import EMULATOR, LESS, emulated_python, run_tests

pytestmark = pytest.mark.slow

# Of these tests, the cases with such kernels.
EIGHT_BITS = (
    "test_exactness.py::test_rule_is_as_exact_as_it_says",
    "test_ort_operators.py::test_an_operator_is_typed_and_runs_as_in_onnx_runtime",
    "test_export_quantized.py::test_integers_differ_by_a_step_at_most",
    "test_export_quantized.py::test_convolutions_in_qdq_form_leave_no_more_nodes_than_its_own_optimizer",
    "test_export_quantized.py::test_matrix_products_in_qdq_form",
    "test_export_quantized.py::test_sums_that_saturate_on_this_cpu_are_named_where_they_make_a_difference",
    "test_quantizers.py::test_each_operator_is_a_rewrite_and_the_result_is_called_close",
)
CORNERS = (
    "test_executor_corners.py::test_functions_of_corner_values",
    "test_executor_corners.py::test_reductions_with_each_corner_value_beside_ordinary_ones",
    "test_executor_corners.py::test_every_pair_of_corner_values",
)
CASES = "in_qdq_form or ort_ or com.microsoft or differ_by_a_step or saturate or corner"


def files(*names: str) -> list[str]:
    return [f"tests/{name}" for name in names]


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-x86_64 (Debian: qemu-user), on a machine of that kind")
def test_kernels_of_a_cpu_with_avx2_alone(tmp_path):
    python = emulated_python(tmp_path / "venv")
    printed = run_tests(python, [*files(*EIGHT_BITS, *CORNERS), "-k", CASES])
    assert " passed" in printed and " failed" not in printed, printed


@pytest.mark.parametrize("variables", LESS.values(), ids=LESS)
def test_kernels_of_torch_and_onednn_told_to_use_less(variables):
    printed = run_tests(
        sys.executable, files("test_executor_corners.py", "test_conformance.py", "test_ops.py"), variables
    )
    assert " passed" in printed and " failed" not in printed, printed
