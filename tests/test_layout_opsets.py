"""Operators in the forms of older opsets: loaded, then brought to permuted operands, against the original file."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from tests.carrying import Draw, on_permuted
from tests.loading import run, saved
from tests.running import outputs
from workbench.formats.io import load_model
from workbench.ir.permutation import channels_last

X = "float[2,3,4,5] x"
FLAT = "float[2,1,4,1] x"
PARTS = "int64[2] b = {1, 0}, int64[2] e = {3, 3}, int64[2] a = {1, -1}, int64[2] t = {1, 2}"
SCALES = "float[4] s = {1.0, 1.0, 2.0, 3.0}"

# Operator, opset, and the one node in the words of that opset.
MODELS = [
    ("Squeeze", 7, f"g ({FLAT}) => (y) {{ y = Squeeze <axes = [1, 3]> (x) }}"),
    ("Squeeze", 11, f"g ({FLAT}) => (y) {{ y = Squeeze <axes = [-1]> (x) }}"),
    ("Squeeze", 11, f"g ({FLAT}) => (y) {{ y = Squeeze (x) }}"),
    ("Squeeze", 13, f"g ({FLAT}) => (y) <int64[1] a = {{-3}}> {{ y = Squeeze (x, a) }}"),
    ("Unsqueeze", 9, f"g ({X}) => (y) {{ y = Unsqueeze <axes = [0, 3]> (x) }}"),
    ("Unsqueeze", 11, f"g ({X}) => (y) {{ y = Unsqueeze <axes = [-1]> (x) }}"),
    ("ReduceSum", 7, f"g ({X}) => (y) {{ y = ReduceSum <axes = [1, 3], keepdims = 0> (x) }}"),
    ("ReduceSum", 11, f"g ({X}) => (y) {{ y = ReduceSum <axes = [-2]> (x) }}"),
    ("ReduceSum", 13, f"g ({X}) => (y) <int64[1] a = {{1}}> {{ y = ReduceSum <keepdims = 0> (x, a) }}"),
    ("ReduceMean", 9, f"g ({X}) => (y) {{ y = ReduceMean <axes = [2, 3], keepdims = 0> (x) }}"),
    ("ReduceMax", 13, f"g ({X}) => (y) {{ y = ReduceMax <axes = [1], keepdims = 0> (x) }}"),
    ("Pad", 7, f"g ({X}) => (y) {{ y = Pad <pads = [0, 1, 0, 2, 0, 0, 3, 0], value = 7.0> (x) }}"),
    ("Pad", 9, f"g ({X}) => (y) {{ y = Pad <mode = 'reflect', pads = [0, 0, 1, 1, 0, 0, 1, 1]> (x) }}"),
    ("Pad", 13, f"g ({X}) => (y) <int64[8] p = {{0, 1, 0, 2, 0, 0, 3, 0}}> {{ y = Pad <mode = 'edge'> (x, p) }}"),
    ("Clip", 7, f"g ({X}) => (y) {{ y = Clip <min = -0.5, max = 0.5> (x) }}"),
    ("Clip", 9, f"g ({X}) => (y) {{ y = Clip <max = 0.5> (x) }}"),
    ("Clip", 11, f"g ({X}) => (y) <float low = {{-0.5}}> {{ y = Clip (x, low) }}"),
    ("Softmax", 7, f"g ({X}) => (y) {{ y = Softmax <axis = 3> (x) }}"),
    ("Softmax", 11, f"g ({X}) => (y) {{ y = Softmax <axis = -1> (x) }}"),
    ("Flatten", 11, "g (float[2,3,5,1] x) => (y) { y = Softmax <axis = 1> (x) }"),  # what two axes at once become
    ("Softmax", 13, f"g ({X}) => (y) {{ y = Softmax <axis = 1> (x) }}"),
    ("LogSoftmax", 9, f"g ({X}) => (y) {{ y = LogSoftmax <axis = 3> (x) }}"),
    ("Slice", 7, f"g ({X}) => (y) {{ y = Slice <axes = [1, 3], starts = [1, -3], ends = [3, 1000]> (x) }}"),
    ("Slice", 9, f"g ({X}) => (y) {{ y = Slice <starts = [0, 1], ends = [2, 3]> (x) }}"),
    ("Slice", 11, f"g ({X}) => (y) <{PARTS}> {{ y = Slice (x, b, e, a, t) }}"),
    ("Dropout", 7, f"g ({X}) => (y) {{ y = Dropout <ratio = 0.4> (x) }}"),
    ("Dropout", 11, f"g ({X}) => (y) {{ y = Dropout <ratio = 0.4> (x) }}"),
    ("Dropout", 13, f"g ({X}) => (y) <float r = {{0.4}}> {{ y = Dropout (x, r) }}"),
    ("Resize", 7, f"g ({X}) => (y) {{ y = Upsample <mode = 'nearest', scales = [1.0, 1.0, 2.0, 3.0]> (x) }}"),
    ("Resize", 9, f"g ({X}) => (y) <{SCALES}> {{ y = Upsample <mode = 'linear'> (x, s) }}"),
    ("Resize", 11, f"g ({X}) => (y) <float[0] r = {{}}, {SCALES}> {{ y = Resize <mode = 'nearest'> (x, r, s) }}"),
    ("Concat", 7, "g (float[2,3,4] x, float[2,3,4] z) => (y) { y = Concat <axis = 1> (x, z) }"),
    ("Split", 7, f"g ({X}) => (y, z) {{ y, z = Split <axis = 3, split = [2, 3]> (x) }}"),
    ("Split", 11, f"g ({X}) => (y, z) {{ y, z = Split <axis = -2> (x) }}"),
    ("TopK", 9, f"g ({X}) => (y, i) {{ y, i = TopK <axis = 1, k = 2> (x) }}"),
    ("ArgMax", 11, f"g ({X}) => (y) {{ y = ArgMax <axis = -2, keepdims = 0> (x) }}"),
    (
        "BatchNormalization",
        7,
        f"g ({X}) => (y) <float[3] s = {{1, 2, 3}}> {{ y = BatchNormalization (x, s, s, s, s) }}",
    ),
    ("Add", 7, f"g ({X}) => (y) <float[3,1,1] c = {{1, 2, 3}}> {{ y = Add (x, c) }}"),
    ("DepthToSpace", 9, "g (float[1,8,2,3] x) => (y) { y = DepthToSpace <blocksize = 2> (x) }"),
    ("QuantizeLinear", 13, f"g ({X}) => (y) <float[3] s = {{1, 2, 3}}> {{ y = QuantizeLinear <axis = 1> (x, s) }}"),
]


IDS = [f"{index} {op} {opset}" for index, (op, opset, _) in enumerate(MODELS)]


@pytest.mark.parametrize(("op", "opset", "text"), MODELS, ids=IDS)
def test_an_older_form_on_permuted_operands(op, opset, text, tmp_path):
    header = f'<ir_version: 7, opset_import: ["": {opset}]>\n'
    path = saved(tmp_path, text.replace("'", '"'), header=header)
    graph = load_model(path)
    draw = Draw(zlib.crc32(text.encode()))
    feeds = {value: draw.normal(*graph.shape(value)) for value in graph.inputs}
    expected = run(path, feeds)
    node = next(node for node in graph.nodes if node.op == op)
    rank = graph.rank_of(node.inputs[0])
    perms = [channels_last(rank), *(draw.permutation(rank) for _ in range(3))]
    accepted = 0
    for perm in perms:
        moved = graph.copy()
        if on_permuted(moved, node.name, perm) is not None:
            continue
        accepted += 1
        for name, array in zip(graph.outputs, expected, strict=True):
            np.testing.assert_allclose(outputs(moved, feeds)[name], array, rtol=1e-5, atol=1e-6, err_msg=str(perm))
    assert accepted, f"{node} refuses {perms}"
