"""The torch executor's numbers beside ONNX Runtime's: real models, narrow types, empty operands, every channels-last form."""

import numpy as np
import onnxruntime
import pytest

from sample_models.light import LIGHT_MODELS
from tests.conftest import CORPUS
from tests.light_networks import light_file
from tests.running import normal, random_inputs, typed
from tests.running import outputs as onnxruntime_outputs
from tests.test_ops import drawn, floats, native
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io import load_model
from workbench.ir import Graph, from_text
from workbench.ops import contract_of, contracts
from workbench.ops.channels_last import OWN_SIGNATURES, parse_channels_last
from workbench.run.inputs import seed_inputs

TOLERANCE = 1e-4  # of the largest number in the reference

CORPUS_MODELS = [
    "basic_pitch_nmp",
    "bert_12l_raw",
    "ddddocr_det_yolox",
    "magika_v3_3",
    "open_nsfw_resnet",
    "ppocr_cls_v2",
    "ppocrv4_det",
    "ppocrv4_rec",
    "silero_vad",
    "unet_sd15_raw",
]

SENSIBLE = {
    "ppocr_cls_v2": {"x": normal(2, 3, 48, 192)},
    "ppocrv4_det": {"x": normal(1, 3, 160, 192)},
    "ppocrv4_rec": {"x": normal(2, 3, 48, 320)},
    "silero_vad": {"input": normal(1, 512) / 10, "state": normal(2, 1, 128) / 10, "sr": np.array(16000)},
}


def reference(model: str | bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def assert_same(ours, wanted, tolerance=TOLERANCE):
    assert list(ours) == list(wanted)
    for name, expected in wanted.items():
        assert ours[name].shape == expected.shape
        assert expected.size == 1 or np.ptp(expected) > 0, f"'{name}' has one value only and shows nothing"
        largest = np.abs(expected).max()
        assert np.abs(ours[name].astype(np.float64) - expected).max() <= tolerance * largest


# ---- real models -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPUS_MODELS)
def test_corpus(name):
    path = CORPUS / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"THE CORPUS IS NOT HERE: {path}; the executor is not compared on real models")
    graph = load_model(path)
    inputs = SENSIBLE.get(name) or seed_inputs(graph)
    executor = TorchExecutor(graph)
    assert_same(executor.run(inputs), reference(str(path), inputs))
    assert executor.fallbacks == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_light_models(name, tmp_path):
    own = light_file(name, tmp_path)
    graph = load_model(own)
    inputs = seed_inputs(graph)
    executor = TorchExecutor(graph)
    wanted = reference(str(own), inputs)
    assert len(np.unique(next(iter(wanted.values())))) > 500
    assert_same(executor.run(inputs), wanted)
    assert executor.fallbacks == {}


NARROWED = """int64[3] shape = {0, 4, -1}, float mask = {-3.4e38}> {
    c = Conv <pads = [1, 1, 1, 1]> (x, w)
    r = Reshape (c, shape)
    t = Transpose <perm = [0, 2, 1]> (r)
    m = MatMul (r, t)
    f = Cast <to = 1> (m)
    n = Softmax (f)
    hidden = Mul (n, mask)
    finite = Clip (hidden)
    zero = Sub (finite, finite)
    y = Add (zero, m)
}"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types_stay_near(dtype):
    weights = ", ".join(f"{v:.3f}" for v in normal(144))
    graph = typed(f"g (float[2,4,8,8] x) => (float[2,4,4] y) <float[4,4,3,3] w = {{{weights}}}, {NARROWED}")
    inputs = random_inputs(graph)
    ours = TorchExecutor(graph, dtype=dtype).run(inputs)
    assert ours["y"].dtype == np.float32
    assert_same(ours, onnxruntime_outputs(graph, inputs), tolerance=3e-2)


BITS = """<ir_version: 13, opset_import: ["": 26]>
g (float[2,2] x, int32[2] i) => (int32[2,2] y, float[2] z, float[2] r) {
    m = MatMul (x, x)
    y = BitCast <to = 6> (m)
    z = BitCast <to = 1> (i)
    r = Add (z, z)
}"""


@pytest.mark.parametrize("dtype", [None, "float16", "bfloat16", "mixed"])
def test_bits_are_those_of_float32_in_any_run(dtype):
    x, bits = np.diag([1.5, -2]).astype(np.float32), np.array([0.5, -3], np.float32)
    executor = TorchExecutor(typed(BITS), dtype=dtype)
    ours = executor.run({"x": x, "i": bits.view(np.int32)})
    assert executor.fallbacks == {}
    np.testing.assert_array_equal(ours["y"], (x @ x).view(np.int32))
    np.testing.assert_array_equal(ours["z"], bits)
    np.testing.assert_array_equal(ours["r"], 2 * bits)


# ---- empty operands, states ---------------------------------------------------------------------


@pytest.mark.parametrize("spatial", [(6,), (4, 4), (4, 4, 4)])
def test_windows_of_no_image_are_put_together(spatial):
    rank = len(spatial)
    text = f"g (float[0,B,L] x, int64[{rank}] i, int64[{rank}] k) => (float y) {{ y = Col2Im (x, i, k) }}"
    kernel, windows = np.full(rank, 2), np.prod(np.array(spatial) - 1)
    x = np.zeros((0, 3 * 2**rank, windows), np.float32)
    assert native(from_text(text), {"x": x, "i": np.array(spatial), "k": kernel})["y"].shape == (0, 3, *spatial)


@pytest.mark.parametrize("masked", ["", ", , m"])
def test_deformed_convolution_of_no_image(masked):
    text = f"""g (float[0,4,5,5] x, float[6,2,3,3] w, float[0,36,3,3] o, float[0,18,3,3] m) => (float[0,6,3,3] y) {{
        y = DeformConv <group = 2, offset_group = 2> (x, w, o{masked})
    }}"""
    shapes = {"x": (0, 4, 5, 5), "w": (6, 2, 3, 3), "o": (0, 36, 3, 3), "m": (0, 18, 3, 3)}
    assert native(from_text(text), {name: np.ones(s, np.float32) for name, s in shapes.items()})["y"].shape == (
        0,
        6,
        3,
        3,
    )


NEW = '<ir_version: 13, opset_import: ["": 27]>'
ATTENTION = f"""{NEW} g (float[B,T,4] q, float[B,T,2] k, float[B,T,3] v, float[B,1,2,3] s) => (float y, float t) {{
    y, t = LinearAttention <q_num_heads = 2, kv_num_heads = 1, update_rule = "linear"> (q, k, v, s)
}}"""
CAUSAL = f"""{NEW} g (float[B,2,T] x, float[2,1,3] w, float[B,2,2] s) => (float y, float t) {{
    y, t = CausalConvWithState <activation = "silu"> (x, w, , s)
}}"""


@pytest.mark.parametrize(("batch", "length"), [(2, 0), (0, 3), (0, 0)])
def test_linear_attention_of_no_token_leaves_the_state(batch, length):
    widths, state = {"q": 4, "k": 2, "v": 3}, floats(drawn(11), batch, 1, 2, 3)
    values = {name: np.ones((batch, length, width), np.float32) for name, width in widths.items()}
    ours = native(from_text(ATTENTION), {**values, "s": state})
    assert ours["y"].shape == (batch, length, 6)
    np.testing.assert_array_equal(ours["t"], state)


@pytest.mark.parametrize(("batch", "length"), [(2, 0), (0, 3), (0, 0)])
def test_causal_convolution_of_no_token_leaves_the_state(batch, length):
    state = floats(drawn(12), batch, 2, 2)
    x, weight = np.ones((batch, 2, length), np.float32), np.ones((2, 1, 3), np.float32)
    ours = native(from_text(CAUSAL), {"x": x, "w": weight, "s": state})
    assert ours["y"].shape == (batch, 2, length)
    np.testing.assert_array_equal(ours["t"], state)


def test_state_of_a_causal_convolution_does_not_keep_the_sequence():
    executor = TorchExecutor(from_text(CAUSAL))
    values = {"x": floats(drawn(13), 1, 2, 100), "w": np.ones((2, 1, 3)), "s": np.ones((1, 2, 2))}
    uploaded = executor.upload({name: value.astype(np.float32) for name, value in values.items()})
    state = executor.run_tensors(uploaded)["t"]
    assert state.untyped_storage().nbytes() == state.numel() * state.itemsize


# ---- channels-last forms ---------------------------------------------------------------


def channels_last_forms():
    """ONNX's operators in channels-last form; those of our own domain are tested with their bodies."""
    for op in contracts():
        parts = parse_channels_last(*op.split(".")) if op.startswith("workbench.") else None
        if parts is not None and parts.op_type not in OWN_SIGNATURES:
            yield op


# Integers, and several images: test_layout_contracts.py runs these on what they are made for.
ELSEWHERE = ("ConvInteger", "QLinearConv", "MaxUnpool", "MaxPoolWithIndices", "GridSample")
FORMS = sorted(op for op in channels_last_forms() if not any(name in op for name in ELSEWHERE))
ATTRIBUTES = {
    "Conv": "group = 2, pads = [{pads}], strides = [{twos}]",
    "ConvTranspose": "group = 2, pads = [{pads}], strides = [{twos}]",
    "MaxPool": "kernel_shape = [{threes}], pads = [{pads}], strides = [{twos}]",
    "AveragePool": "kernel_shape = [{threes}], pads = [{pads}], strides = [{twos}]",
    "LpPool": "kernel_shape = [{threes}], p = 2",
    "LRN": "size = 3",
    "GroupNormalization": "num_groups = 2",
    "DepthToSpace": "blocksize = 2",
    "SpaceToDepth": "blocksize = 2",
}


def channels_last_graph(op: str) -> Graph:
    """One call of `op` on a small channels-last operand; its weights are constants."""
    parts = parse_channels_last(*op.split("."))
    spatial = parts.rank - 2
    numbers = {
        "pads": ", ".join(["1", "0", "2"][:spatial] + ["0", "1", "1"][:spatial]),
        "twos": ", ".join(["2"] * spatial),
        "threes": ", ".join(["3"] * spatial),
    }
    attributes = ATTRIBUTES.get(parts.op_type, "").format(**numbers)
    call = f"<{attributes}>" if attributes else ""
    constants = []
    if parts.op_type.startswith("Conv"):
        shape = [4, 2, *[3] * spatial]
        if parts.weights:
            own = "OI" + {1: "W", 2: "HW", 3: "DHW"}[spatial]
            shape = [shape[own.index(axis)] for axis in parts.weights.replace("HW", own[2:])]
        constants = [("w", shape), ("b", [4])]
    elif parts.op_type == "BatchNormalization":
        constants = [(name, [4]) for name in ("scale", "bias", "mean", "variance")]
    elif parts.op_type in ("InstanceNormalization", "GroupNormalization"):
        constants = [("scale", [4]), ("bias", [4])]
    declared = ", ".join(f"float[{','.join(map(str, s))}] {n} = {{{_numbers(n, s)}}}" for n, s in constants)
    operands = ", ".join(["x", *(name for name, _ in constants)])
    dims = ",".join(["2", *["6", "8", "10"][:spatial], "4"])
    return typed(
        f"g (float[{dims}] x) => (float[{','.join('?' * parts.rank)}] y) "
        f"{f'<{declared}>' if declared else ''} {{ y = {op} {call} ({operands}) }}"
    )


def _numbers(name, shape):
    values = normal(int(np.prod(shape)))
    return ", ".join(f"{v:.4f}" for v in (np.abs(values) + 0.5 if name == "variance" else values))


@pytest.mark.parametrize("op", [op for op in FORMS if "GlobalLpPool" not in op])
def test_channels_last_forms(op):
    """The native form against the function's body, Transposes and all, in ONNX Runtime."""
    graph = channels_last_graph(op)
    inputs = random_inputs(graph)
    executor = TorchExecutor(graph)
    assert_same(executor.run(inputs), onnxruntime_outputs(graph, inputs))
    assert executor.fallbacks == {}


@pytest.mark.parametrize("op", [op for op in FORMS if "GlobalLpPool" in op])
def test_channels_last_global_norms(op):
    """By hand: ONNX Runtime has no GlobalLpPool of this opset."""
    graph = channels_last_graph(op)
    (x,) = random_inputs(graph).values()
    wanted = np.sqrt((x**2).sum(tuple(range(1, x.ndim - 1)), keepdims=True))
    assert_same(TorchExecutor(graph).run({"x": x}), {"y": wanted})


def test_channels_last_flops_are_those_of_the_operator():
    graph = channels_last_graph("workbench.Conv_NHWC_HWOI")
    (node,) = graph.nodes
    types = [graph.tensor_type(v) for v in node.inputs], [graph.tensor_type(v) for v in node.outputs]
    assert graph.shape("y") == (2, 3, 4, 4)
    elements = 2 * 3 * 4 * 4
    assert contract_of(node).count_flops(node, *types) == 2 * elements * 2 * 3 * 3 + elements
