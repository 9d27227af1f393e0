"""Keys of what constants and attributes hold."""

import numpy as np
import onnx_ir
import pytest

from tests.running import typed
from workbench.interfaces.api import optimize
from workbench.ir import constant
from workbench.rewrite.core.content import attribute_key, elements_key

STRINGS = """g (string[2] x) => (string[2] y) <string[2] a = {"s", "t"}, string[2] b = {"s", "t"}> {
    p = StringConcat(x, a)  y = StringConcat(p, b)
}"""


def test_constants_of_text_are_shared():
    """They have no bytes."""
    step = optimize(typed(STRINGS), ["share_constants"])[1]
    assert [rewrite.sentence.partition(";")[0] for rewrite in step.rewrites] == ["constant 'b' holds the same as 'a'"]


@pytest.mark.parametrize("size", [2, 1000])
def test_elements_type_and_shape_tell_constants_apart(size):
    array = np.arange(size, dtype=np.float32)
    same = [constant(array), constant(array.copy())]
    other = [constant(array + 1), constant(array.astype(np.float64)), constant(array.reshape(2, -1))]
    assert len({elements_key(tensor) for tensor in same}) == 1
    assert len({elements_key(tensor) for tensor in (*same, *other)}) == 4


def test_attributes_are_told_apart_by_sign_and_type():
    keys = [attribute_key(value) for value in (0.0, -0.0, 0, "0", (0,), (0.0,), float("nan"))]
    assert len({*keys}) == 7 and attribute_key(float("nan")) == keys[-1]
    tensors = [onnx_ir.tensor([1, 2]), onnx_ir.tensor([1, 3])]
    assert attribute_key(tuple(tensors)) != attribute_key((tensors[0], tensors[0]))
