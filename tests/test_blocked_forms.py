"""The blocked forms of operators against ONNX's own, by their bodies and as the executor runs them."""

import random

import numpy as np
import pytest

from passes.layout.layout_blocked import LayoutBlocked
from tests.blocking import BLOCKED, least, operators
from tests.running import outputs, random_inputs, typed
from workbench.analysis.inference.shapes import infer_types
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io import load_model
from workbench.formats.io.exporting import to_bytes
from workbench.ir import DataType, Graph, Node, TensorType, from_text
from workbench.ops import contracts
from workbench.ops.blocked import blocked, blocked_function, blocked_op, parse_blocked, unblocked
from workbench.ops.npu import is_own, own_function
from workbench.planning.layout.infer import infer_layouts
from workbench.rewrite import PassContext, run_pass


def window(draw: random.Random, op: str) -> dict:
    """Random attributes of a convolution or pool."""
    if op not in ("Conv", "MaxPool", "AveragePool"):
        return {}
    kernel = [draw.randint(1, 3), draw.randint(1, 3)]
    attributes = {
        "strides": [draw.randint(1, 2), draw.randint(1, 2)],
        "pads": [draw.randint(0, k - 1) for k in (*kernel, *kernel)],
        "kernel_shape": kernel,
    }
    if op == "MaxPool":
        attributes["dilations"] = [draw.randint(1, 2), 1]
    if op != "Conv":
        attributes["ceil_mode"] = draw.randint(0, 1)
    if op == "AveragePool":
        attributes["count_include_pad"] = draw.randint(0, 1)
    return attributes


def one_form(op: str, block: int, seed: int, reads_nchw: bool = False) -> tuple[Graph, Graph, dict, dict]:
    """The operator alone and its blocked form alone, each with its inputs."""
    draw, numbers = random.Random(f"{op} {block} {seed}"), np.random.default_rng(seed)
    channels = block * draw.randint(1, 2) if not reads_nchw else draw.choice([1, 3, 5])
    x = numbers.standard_normal((draw.randint(1, 2), channels, draw.randint(5, 8), draw.randint(5, 8)))
    operands, attributes = [x], window(draw, op)
    if op == "Conv":
        group = 1 if reads_nchw else draw.choice([1, 2, channels])
        made = channels if group > 2 else block * 2
        attributes["group"] = group
        operands += [numbers.standard_normal((made, channels // group, *attributes["kernel_shape"]))]
        operands += [numbers.standard_normal(made)] * draw.randint(0, 1)
    if op == "BatchNormalization":
        operands += [numbers.random(channels) + 0.5 for _ in range(4)]
    arrays = [array.astype(np.float32) for array in operands]
    names = [f"i{index}" for index in range(len(arrays))]
    attributes = {key: tuple(v) if isinstance(v, list) else v for key, v in attributes.items()}
    plain = Node(op, names, ("y",), attributes, name="n")
    domain, op_type = blocked_op(op, block, reads_nchw)
    form = plain.replace(op_type=op_type, domain=domain)
    cut = [arrays[0] if reads_nchw else blocked(arrays[0], block), *arrays[1:]]

    def alone(node: Node, given: list[np.ndarray]) -> Graph:
        types = {n: TensorType(DataType.FLOAT, a.shape) for n, a in zip(names, given, strict=True)}
        return Graph(inputs=names, outputs=("y",), nodes=[node], types=types, opset_imports={"": 23})

    feeds = [dict(zip(names, map(np.ascontiguousarray, given), strict=True)) for given in (arrays, cut)]
    return alone(plain, arrays), alone(form, cut), *feeds


FORMS = [op for op in contracts() if op.startswith("workbench.") and parse_blocked(*op.split("."))]


@pytest.mark.parametrize("name", FORMS)
def test_a_form_computes_what_its_operator_does(name):
    parts = parse_blocked(*name.split("."))
    for seed in range(6):
        plain, form, inputs, cut = one_form(parts.op_type, parts.block, seed, parts.reads_nchw)
        expected = outputs(plain, inputs)["y"]
        by_body = outputs(form, cut)["y"]
        np.testing.assert_allclose(unblocked(by_body), expected, rtol=1e-4, atol=1e-4)
        executor = TorchExecutor(form)
        np.testing.assert_allclose(executor.run(cut)["y"], by_body, rtol=1e-4, atol=1e-4)
        assert executor.fallbacks == {}
        assert infer_types(form)["y"].shape == by_body.shape
        figures = [
            contracts()[op].count_flops(g.nodes[0], *types_of(g)) for op, g in ((parts.op_type, plain), (name, form))
        ]
        assert figures[0] == figures[1]


def types_of(graph: Graph) -> tuple[list, list]:
    found = infer_types(graph)
    return [found[value] for value in graph.nodes[0].inputs], [found["y"]]


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_a_body_is_for_any_image(batch):
    """Symbolic batch, height and width, and an empty batch too."""
    graph = typed("""g (float[N,2,H,W,8] x, float[8,16,3,3] w) => (float[N,1,P,Q,8] y) {
        a = workbench.MaxPool_NCHW8c<kernel_shape=[2,2]>(x)
        y = workbench.Conv_NCHW8c<pads=[1,1,1,1]>(a, w)
    }""")
    assert graph.rank_of("a") == graph.rank_of("y") == 5
    feeds = random_inputs(graph) | {"x": np.ones((batch, 2, 6, 5, 8), np.float32)}
    if batch:
        assert outputs(graph, feeds)["y"].shape == (batch, 1, 5, 4, 8)
    assert TorchExecutor(graph).run(feeds)["y"].shape == (batch, 1, 5, 4, 8)


def test_names_that_are_ours():
    for name in ("Conv_NCHW8c", "Conv_NCHW_NCHW16c", "MaxPool_NCHW4c", "BatchNormalization_NCHW32c"):
        assert is_own(name) and own_function(name, 23).name == name
    for name in ("Conv_NCHW2c", "Relu_NCHW8c", "MaxPool_NCHW_NCHW8c", "Conv_NCHWc"):
        assert not is_own(name)
        with pytest.raises(ValueError, match="is not a blocked operator"):
            blocked_function(name, 23)


def test_a_form_of_what_is_no_image_has_no_layout():
    """A file may say anything: neither the types nor the strategy stop at it."""
    graph = from_text("g (float[1,8,4,4] x, float[8,8,1,1] w) => (float[1] y) { y = workbench.Conv_NCHW8c(x, w) }")
    assert infer_layouts(graph)["x"] == infer_layouts(graph)["y"] == "Tensor"
    assert not run_pass(LayoutBlocked(), graph, PassContext(BLOCKED)).rewrites


def test_an_exported_model_is_opened_again(tmp_path):
    graph = typed("""g (float[1,8,6,6] x) => (float[1,8,6,6] y) <float[8,1,1,1] w = {1,2,3,4,5,6,7,8}> {
        y = Conv<group=8>(x, w)
    }""")
    least(graph)
    path = tmp_path / "blocked.onnx"
    path.write_bytes(to_bytes(graph))
    again = load_model(path)
    assert "Conv_NCHW8c" in operators(again)
    assert infer_layouts(again) | {"w": "OIHW"} == infer_layouts(graph) | {"w": "OIHW"}
