"""What the inspector says of a constant: any element type, any values, any size."""

import json

import ml_dtypes
import numpy as np
import onnx_ir
import pytest

from workbench.ir import DataType, constant, lazy_constant
from workbench.presentation.view import constants
from workbench.presentation.view.constants import constant_section, statistics_of


def rows(section):
    return dict(section["rows"])


def of_constant(tensor):
    """What is said of a constant of its own."""
    section = constant_section("c", tensor, "Tensor")
    json.dumps(section, allow_nan=False)
    return section, rows(section)


ODD = {
    "bfloat16": (np.array([-1, 0, 2], ml_dtypes.bfloat16), "-1", "2"),
    "float8": (np.array([-1, 0, 2], ml_dtypes.float8_e4m3fn), "-1", "2"),
    "float16": (np.array([-65504, 0, 65504], np.float16), "-65504", "65504"),
    "int4": (np.array([-8, 0, 7], ml_dtypes.int4), "-8", "7"),
    "uint4": (np.array([15, 0, 7], ml_dtypes.uint4), "0", "15"),
    "bool": (np.array([True, False, True]), "0", "1"),
    "uint64": (np.array([0, 2**64 - 1], np.uint64), "0", f"{2**64 - 1:,}"),
    "int64": (np.array([-(2**63), 2**63 - 1]), f"{-(2**63):,}", f"{2**63 - 1:,}"),
    "double": (np.array([-1.7e308, 0, 1.7e308]), "-1.7e+308", "1.7e+308"),
    "denormal": (np.array([0, 5e-324]), "0", "4.94066e-324"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_element_types(name):
    array, low, high = ODD[name]
    section, said = of_constant(constant(array))
    assert (said["minimum"], said["maximum"]) == (low, high)
    assert "text" not in section
    if name != "denormal":
        assert sum(section["histogram"]["counts"]) == array.size
    assert float(said["standard deviation"]) == pytest.approx(np.std(array.astype(np.longdouble)), rel=1e-4, abs=1e-300)


def test_statistics_by_hand():
    found = statistics_of(np.array([0, 0, 1, 3, np.nan, np.inf, -np.inf], np.float32))
    assert (found.low, found.high, found.mean) == (0, 3, 1)
    assert found.deviation == pytest.approx(np.sqrt(1.5))
    assert (found.zeros, found.nans, found.infinite) == (2, 1, 2)
    assert found.counts == (2, *[0] * 7, 1, *[0] * 14, 1)


def test_nothing_finite():
    section, said = of_constant(constant(np.full((2, 3), np.nan, np.float32)))
    assert said["minimum"] == said["mean"] == "-" and said["NaN"] == "6" and "histogram" not in section


def test_complex_empty_scalar_and_equal():
    _, said = of_constant(constant(np.array([3 + 4j, 0], np.complex64)))
    assert said["maximum of magnitudes"] == "5" and said["zeros"] == "50.00%"
    section, said = of_constant(constant(np.zeros((0, 3), np.float32)))
    assert said["elements"] == "none" and "histogram" not in section
    assert of_constant(constant(np.array(7, np.int64)))[1]["value"] == "7"
    section, said = of_constant(constant(np.full(9, 2.5, np.float32)))
    assert said["standard deviation"] == "0" and "histogram" not in section


def test_strings():
    tensor = onnx_ir.StringTensor([b"a", b"b<i>", b"a"], shape=onnx_ir.Shape((3,)))
    _, said = of_constant(tensor)
    assert said["elements"] == "3" and said["different"] == "2" and said["first values"] == "'a', 'b<i>', 'a'"


def test_a_large_constant_is_sampled_and_says_so(monkeypatch):
    monkeypatch.setattr(constants, "MAX_READ", 1000)
    monkeypatch.setattr(constants, "_SAMPLE_SIZE", 100)
    section, _ = of_constant(constant(np.arange(2000, dtype=np.float32)))
    assert section["text"] == "Of 2,000 elements 100 were read, evenly spaced."
    assert sum(section["histogram"]["counts"]) == 100
    assert "text" not in of_constant(constant(np.arange(1000, dtype=np.float32)))[0]


def test_a_constant_that_cannot_be_read_says_why():
    def fails():
        raise OSError("weights.bin is gone")

    section, _ = of_constant(lazy_constant(fails, DataType.FLOAT, (2, 2)))
    assert section["text"] == "It cannot be read: OSError: weights.bin is gone"
