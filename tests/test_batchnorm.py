"""Batch norm folded into every kind of convolution: the same outputs, in ONNX Runtime, on random weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passes.fold.fold_batchnorm import FoldBatchNorm, match_after_convolution
from passes.fold.fold_channel_scale import FoldChannelScale, match_scale_of_norm
from tests.running import outputs, typed
from workbench.ir import DataType, Edit, Graph, Node, TensorType, constant
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import NoMatch, PassContext, run_pass


def network(transposed: bool, groups: int, spatial: int, bias: bool, seed: int, dtype=np.float32) -> Graph:
    random = np.random.default_rng(seed)
    channels_in, channels_out = 2 * groups, 3 * groups
    weight = (channels_in, 3) if transposed else (channels_out, 2)
    constants = {
        "w": random.standard_normal((*weight, *(2,) * spatial)),
        "scale": random.uniform(-2, 2, channels_out),
        "shift": random.standard_normal(channels_out),
        "mean": random.standard_normal(channels_out),
        "variance": random.uniform(0.1, 3, channels_out),
    }
    inputs = ["x", "w"]
    if bias:
        constants["b"] = random.standard_normal(channels_out)
        inputs.append("b")
    operator = "ConvTranspose" if transposed else "Conv"
    return Graph(
        inputs=["x"],
        outputs=["y"],
        nodes=[
            Node(operator, tuple(inputs), ("c",), {"group": groups}, name="conv"),
            Node(
                "BatchNormalization",
                ("c", "scale", "shift", "mean", "variance"),
                ("n",),
                {"epsilon": 1e-3},
                name="norm",
            ),
            Node("LeakyRelu", ("n",), ("y",), name="leaky"),
        ],
        constants={name: constant(array.astype(dtype)) for name, array in constants.items()},
        types={
            "x": TensorType(DataType.from_numpy(np.dtype(dtype)), (1, channels_in, *(4,) * spatial)),
            "y": TensorType(DataType.from_numpy(np.dtype(dtype))),
        },
        opset_imports={"": 23},
    )


@settings(max_examples=40, deadline=None)
@given(st.booleans(), st.integers(1, 4), st.integers(1, 3), st.booleans(), st.integers(0, 1000))
def test_folding_keeps_the_outputs(transposed, groups, spatial, bias, seed):
    graph = network(transposed, groups, spatial, bias, seed)
    x = np.random.default_rng(seed).standard_normal(graph.shape("x")).astype(np.float32)
    expected = outputs(graph, {"x": x})["y"]
    step = run_pass(FoldBatchNorm(), graph, PassContext(load_profile("cuda")), check_each=True)
    assert len(step.rewrites) == 1
    assert [node.op for node in graph.nodes] == ["ConvTranspose" if transposed else "Conv", "LeakyRelu"]
    assert len(np.unique(expected)) > 3
    np.testing.assert_allclose(outputs(graph, {"x": x})["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_folded_weights_keep_their_type(dtype):
    graph = network(False, 1, 2, True, 0, dtype)
    run_pass(FoldBatchNorm(), graph, PassContext(load_profile("cuda")), check_each=True)
    assert {tensor.dtype.numpy() for tensor in graph.constants.values()} == {np.dtype(dtype)}


def test_a_folded_weight_takes_no_memory_until_it_is_read():
    graph = network(False, 1, 2, True, 0)
    run_pass(FoldBatchNorm(), graph, PassContext(load_profile("cuda")))
    weight = graph.constants[graph.nodes[0].inputs[1]]
    assert weight.numpy() is not weight.numpy()


def test_weights_that_float16_would_not_hold_are_not_folded():
    graph = network(False, 1, 2, True, 0, np.float16)
    graph.apply(Edit(constants={"scale": constant(np.full(3, 60000, np.float16))}))
    with pytest.raises(NoMatch, match=r"weights of Conv 'conv' times the factors overflow float16"):
        match_after_convolution(graph, graph.node("norm"), FoldBatchNorm())


@pytest.mark.parametrize(
    ("scale", "by", "why"),
    [
        ("0", "float[1,1,1] by = {inf}", "holds zero, infinity or NaN"),
        ("1e30", "float[1,1,1] by = {1e10}", "overflow float32"),
        ("2", "float[1,1,1,1,1] by = {3}", "has more axes than the channels it would be folded into"),
    ],
)
def test_a_scale_that_the_normalization_cannot_take_stays(scale, by, why):
    """0 times infinity; a product that float32 does not hold; one that gives the result another axis."""
    graph = typed(f"""g (float[1,1,2,2] x) => (y) <float[1] s = {{{scale}}}, float[1] v = {{1e38}}, {by}> {{
        n = BatchNormalization(x, s, s, s, v)
        y = Mul(n, by)
    }}""")
    with pytest.raises(NoMatch, match=why):
        match_scale_of_norm(graph, graph.node("Mul_y"), FoldChannelScale())
