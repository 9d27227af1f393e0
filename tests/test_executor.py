"""The torch executor: real models against ONNX Runtime on the original file, and what it promises besides."""

import gc
import weakref
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper

from tests.conftest import CORPUS
from tests.running import outputs as onnxruntime_outputs
from tests.running import random_inputs, typed
from workbench.errors import UserError
from workbench.ir import Graph, from_text
from workbench.loading import load_model
from workbench.ops import contract_of, contracts
from workbench.ops.channels_last import OWN_BODIES, parse_channels_last
from workbench.run.inputs import seed_inputs
from workbench.run.torch_executor import OperatorError, TorchExecutor
from workbench.run.torch_places import host_values

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
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


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


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


# ---- real models ------------------------------------------------------------------------


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


def discriminating(model: onnx.ModelProto) -> onnx.ModelProto:
    """The light model with random weights where ConstantOfShape made them all equal; variances stay positive."""
    random = np.random.default_rng(0)
    made = {}
    for node in model.graph.node:
        if node.op_type == "Constant":
            made[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    made |= {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    positive = {v for n in model.graph.node if n.op_type == "BatchNormalization" for v in (n.input[1], n.input[4])}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = made[node.input[0]].tolist()
        if node.output[0] in positive:
            weight = random.uniform(0.5, 1.0, shape)  # no growth from block to block, which would saturate Softmax
        else:
            weight = random.standard_normal(shape) / np.sqrt(max(np.prod(shape[1:]), 1))
        model.graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_light_models(path, tmp_path):
    own = tmp_path / path.name
    onnx.save(discriminating(onnx.load(path)), own)
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


# ---- channels-last forms ------------------------------------------------------------------


def channels_last_forms():
    """ONNX's operators in channels-last form; those of our own domain are tested with their bodies."""
    for op in contracts():
        parts = parse_channels_last(*op.split(".")) if op.startswith("workbench.") else None
        if parts is not None and parts.op_type not in OWN_BODIES:
            yield op


FORMS = sorted(channels_last_forms())
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


# ---- control flow, functions, sequences ---------------------------------------------------

NESTED = """g (float[3] x, bool c, int64 n) => (float[3] y, float[4,3] steps)
<int64 turns = {4}, bool on = {1}> {
    two = Constant <value = float {2.0}> ()
    y = If (c) <
        then_branch = then () => (float[3] a) {
            a = If (c) <then_branch = inner () => (float[3] i) { i = Mul (x, two) },
                        else_branch = other () => (float[3] o) { o = Neg (x) }>
        },
        else_branch = else () => (float[3] b) { b = Sub (x, two) }
    >
    last, steps = Loop (turns, on, x) <body = body (int64 k, bool go, float[3] v) => (bool still, float[3] w, float[3] s) {
        still = Identity (go)
        w = Mul (v, two)
        s = Add (w, x)
    }>
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_bodies_see_the_values_around_them(condition):
    graph = from_text(NESTED)
    x = normal(3)
    ours = TorchExecutor(graph).run({"x": x, "c": np.array(condition), "n": np.array(1)})
    np.testing.assert_array_equal(ours["y"], x * 2 if condition else x - 2)
    np.testing.assert_allclose(ours["steps"], [x * 2 ** (k + 1) + x for k in range(4)], rtol=1e-6)


FUNCTIONS = """<ir_version: 10, opset_import: ["": 23, "own": 1]>
g (float[3] x) => (float[3] y, float[3] z) {
    y = own.outer <slope = 0.5> (x)
    z = own.outer (x)
}
<domain: "own", opset_import: ["": 23, "own": 1]>
outer <slope: float = 0.25> (a) => (b) {
    leaked = own.leak <alpha: float = @slope> (a)
    b = Neg (leaked)
}
<domain: "own", opset_import: ["": 23]>
leak <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }
"""


def test_functions_run_through_their_bodies():
    graph = from_text(FUNCTIONS)
    x = np.array([-4.0, 0.0, 8.0], np.float32)
    executor = TorchExecutor(graph)
    ours = executor.run({"x": x})
    np.testing.assert_array_equal(ours["y"], [2.0, 0.0, -8.0])
    np.testing.assert_array_equal(ours["z"], [1.0, 0.0, -8.0])
    assert executor.fallbacks == {}


def test_sequence_outputs_are_numbered():
    graph = from_text("g (float[4] x) => (seq(float) parts) <int64 two = {2}> { parts = SplitToSequence (x, two) }")
    x = normal(4)
    ours = TorchExecutor(graph).run({"x": x})
    assert list(ours) == ["parts[0]", "parts[1]"]
    np.testing.assert_array_equal(ours["parts[1]"], x[2:])


# ---- fallback --------------------------------------------------------------------------------


def test_unknown_operator_falls_back_to_onnxruntime():
    graph = from_text("g (float[2,8] x) => (float[2,8] y) { b = Unique <sorted = 1> (x)\n y = Sub (x, x) }")
    executor = TorchExecutor(graph)
    assert executor.fallbacks == {"Unique": "the operator table does not know it"}
    x = normal(2, 8)
    np.testing.assert_array_equal(executor.run({"x": x})["y"], x - x)


def test_fallback_computes_what_onnxruntime_computes():
    graph = from_text("g (float[5] x) => (float[N] y, int64[N] first) { y, first = Unique (x) }")
    ours = TorchExecutor(graph).run({"x": np.array([3, 1, 3, 2, 1], np.float32)})
    np.testing.assert_array_equal(ours["y"], [1, 2, 3])
    np.testing.assert_array_equal(ours["first"], [1, 3, 0])


def test_strings_fall_back_when_they_are_met():
    graph = from_text("g (string[2] x) => (float[2] y) { y = Cast <to = 1> (x) }")
    executor = TorchExecutor(graph)
    assert executor.fallbacks == {}
    ours = executor.run({"x": np.array(["1.5", "-2"], object)})
    np.testing.assert_array_equal(ours["y"], [1.5, -2.0])
    assert executor.fallbacks == {"Cast": "torch has no strings"}


def test_operator_that_nothing_runs_is_named():
    text = '<ir_version: 10, opset_import: ["": 23, "far": 1]> g (float[2] x) => (float[2] y) { [n7] y = far.Away (x) }'
    executor = TorchExecutor(from_text(text))
    with pytest.raises(OperatorError, match=r"Neither torch .* nor ONNX Runtime can run far\.Away 'n7' .*float32\[2\]"):
        executor.run({"x": normal(2)})


# ---- errors and memory ----------------------------------------------------------------------------


def test_failing_operator_is_named_with_its_shapes():
    graph = from_text("g (float[2,3] x, float[4] y) => (float[2,4] z) { [sum] z = Add (x, y) }")
    with pytest.raises(OperatorError, match=r"Add 'sum' on operands of float32\[2,3\], float32\[4\] failed: .*"):
        TorchExecutor(graph).run({"x": normal(2, 3), "y": normal(4)})


def test_missing_input_is_named():
    graph = from_text("g (float[2] x, float[2] y) => (float[2] z) { z = Add (x, y) }")
    with pytest.raises(UserError, match="Input 'y' of graph 'g' is missing"):
        TorchExecutor(graph).run({"x": normal(2)})


def test_values_are_freed_after_their_last_use():
    text = """g (float[64] x) => (float[64] y) {
        a = Exp (x)
        b = Neg (a)
        c = Add (a, b)
        d = Sin (c)
        y = Cos (d)
    }"""
    alive, counts = {}, {}

    def observe(node, results):
        alive[node.outputs[0]] = weakref.ref(results[0])
        gc.collect()
        counts[node.outputs[0]] = sorted(name for name, value in alive.items() if value() is not None)

    TorchExecutor(from_text(text)).run({"x": normal(64)}, observe)
    assert counts == {"a": ["a"], "b": ["a", "b"], "c": ["c"], "d": ["d"], "y": ["y"]}


def test_transpose_moves_data_only_where_it_must():
    text = """g (float[1,8,1,4] x) => (float[1,1,4,8] moved, float[1,1,8,4] kept) {
        moved = Transpose <perm = [0, 2, 3, 1]> (x)
        kept = Transpose <perm = [0, 2, 1, 3]> (x)
    }"""
    x = torch.from_numpy(normal(1, 8, 1, 4))
    results = TorchExecutor(from_text(text)).run_tensors({"x": x})
    assert results["moved"].is_contiguous()
    assert results["moved"].data_ptr() != x.data_ptr()
    assert results["kept"].data_ptr() == x.data_ptr()


# ---- places ------------------------------------------------------------------------------------------


def test_shape_arithmetic_stays_on_the_host():
    graph = typed("""
        g (float[2,3,4] x) => (float[2,12] y) <int64 zero = {0}, int64[1] first = {0}, int64[1] rest = {-1}> {
            s = Shape (x)
            batch = Gather (s, zero)
            lifted = Unsqueeze (batch, first)
            target = Concat <axis = 0> (lifted, rest)
            r = Relu (x)
            y = Reshape (r, target)
        }""")
    assert host_values(graph) == {"s", "batch", "lifted", "target", "rest", "first", "zero"}


def test_what_depends_on_data_is_computed_on_the_device():
    graph = typed("""
        g (float[200] x) => (float[N] y) <int64[1] zero = {0}, int64[1] flat = {-1}> {
            places = NonZero (x)
            s = ReduceMax <keepdims = 1> (places)
            end = Reshape (s, flat)
            y = Slice (x, zero, end)
        }""")
    assert host_values(graph) == {"zero", "flat"}


def test_body_wants_reach_the_graph_around_it():
    graph = typed("""
        g (float[2,3] x, bool c) => (float[6] y) <int64[1] flat = {-1}> {
            s = Size (x)
            n = Reshape (s, flat)
            y = If (c) <then_branch = t () => (float[6] a) { a = Reshape (x, n) },
                        else_branch = e () => (float[6] b) { b = Expand (s, n) }>
        }""")
    assert {"s", "n"} <= host_values(graph)
