"""Layouts pass group normalizations of one group, which exporters write as three nodes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

import passes
from tests.running import outputs, random_inputs, typed
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.interfaces import api
from workbench.ir import Graph, to_text
from workbench.planning.layout.conversion.sample_norms import joined_norms, split_norms

STRATEGIES = [name for name in passes.compared_strategies() if name not in ("measured", "blocked")]
# A block of a PoolFormer: torch writes GroupNorm(1, C) as Reshape, InstanceNormalization, Reshape, Mul, Add.
BLOCK = """g (float[{image}] x) => (float[{image}] y)
    <float[4,4,3,3] w, float[4,4,1,1] v, float[4,1,1] m = {{1.5, 0.5, 2, 1}}, float[4,1,1] a = {{0.5, -1, 0, 1}},
    float[1] one = {{1}}, float[1] zero = {{0}}, int64[3] group = {{0, 1, -1}}, int64[4] whole = {{{whole}}}> {{
    c = Conv<pads=[1,1,1,1]>(x, w)
    s = Reshape(c, group)
    i = InstanceNormalization<epsilon=0.01>(s, one, zero)
    r = Reshape(i, {back})
    g = Mul(r, m)
    h = Add(g, a)
    p = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(h)
    d = Sub(p, h)
    e = Add(c, d)
    y = Conv(e, v)
}}"""


def block(n: str = "2", back: str = "whole") -> Graph:
    image = f"{n},4,H,W" if back == "dims" else f"{n},4,6,6"
    text = BLOCK.format(image=image, whole="2, 4, 6, 6" if n == "2" else "0, 4, 6, 6", back=back)
    numbers = np.random.default_rng(0).standard_normal
    for name, shape in (("w", (4, 4, 3, 3)), ("v", (4, 4, 1, 1))):
        values = ", ".join(f"{number:.3f}" for number in numbers(int(np.prod(shape))))
        text = text.replace(f"] {name},", f"] {name} = {{{values}}},")
    if back != "whole":
        text = text.replace("    r = Reshape", "    dims = Shape(c)\n    r = Reshape")
    return typed(text)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("preset", ["none", "simplify"])
def test_a_transpose_stands_at_each_end_and_none_between(strategy, preset, tmp_path):
    graph = block()
    result = api.optimize(graph, preset=preset, layout=strategy, target="cuda").graph
    assert count_transposes(result).transposes == 2
    assert Counter(node.op for node in result.nodes)["InstanceNormalization"] == 1
    inputs = random_inputs(graph)
    np.testing.assert_allclose(outputs(result, inputs)["y"], outputs(graph, inputs)["y"], rtol=1e-4, atol=1e-5)
    export_onnx(result, tmp_path / "first.onnx")
    assert {f.name.partition("_")[0] for f in onnx.load(tmp_path / "first.onnx").functions} <= {"Conv", "AveragePool"}
    again = api.optimize(load_model(tmp_path / "first.onnx"), preset=preset, layout=strategy, target="cuda").graph
    export_onnx(again, tmp_path / "second.onnx")
    assert (tmp_path / "second.onnx").read_bytes() == (tmp_path / "first.onnx").read_bytes()


@pytest.mark.parametrize("back", ["whole", "dims"])
def test_sizes_that_are_not_known_are_read_when_it_runs(back):
    graph = block("N", back)
    result = api.optimize(graph, preset="none", layout="optimal", target="cuda").graph
    assert count_transposes(result).transposes == 2
    for size in (1, 3):
        inputs = {"x": np.random.default_rng(size).standard_normal((size, 4, 6, 6)).astype(np.float32)}
        np.testing.assert_allclose(outputs(result, inputs)["y"], outputs(graph, inputs)["y"], rtol=1e-4, atol=1e-5)


def test_the_three_nodes_come_back_with_their_names():
    graph = block()
    text, names = to_text(graph), {}
    for edit, _, _ in joined_norms(graph, names):
        graph.apply(edit)
    assert [node.op for node in graph.nodes][1] == "workbench.SampleNormalization"
    for edit, _, _ in split_norms(graph, names):
        graph.apply(edit)
    assert to_text(graph) == text


ONE_NORM = """g (float[2,4,6,6] x) => ({outputs}) <float[{n}] s = {{{ones}}}, float[{n}] b = {{{zeros}}},
    int64[3] group = {{0, {n}, -1}}, int64[4] whole = {{{whole}}}> {{
    f = Reshape(x, group)
    i = InstanceNormalization(f, s, b)
    y = Reshape(i, whole)
}}"""
IMAGE = "float[2,4,6,6] y"
KEPT = {
    "two groups": {"n": 2, "ones": "1, 1", "zeros": "0, 0"},
    "what is between is an output": {"outputs": "float[2,1,144] i, float[2,4,6,6] y"},
    "another shape comes back": {"outputs": "float[2,6,4,6] y", "whole": "2, 6, 4, 6"},
    "the samples are split": {"outputs": "float[4,2,6,6] y", "whole": "4, 2, 6, 6"},
}


@pytest.mark.parametrize("name", ["one group", *KEPT])
def test_only_one_group_of_a_sample_of_the_same_shape_is_taken_together(name):
    one = {"outputs": IMAGE, "n": 1, "ones": "1", "zeros": "0", "whole": "2, 4, 6, 6"}
    graph = typed(ONE_NORM.format(**one | KEPT.get(name, {})))
    assert len(list(joined_norms(graph, {}))) == (name == "one group")


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_torch_runs_it_as_onnx_runtime_runs_the_three_nodes(rank):
    shape = ",".join(map(str, (2, 3, 4, 5, 2)[:rank]))
    graph = typed(
        f"""g (float[{shape}] x) => (float[{shape}] y) <float[1] s = {{1.5}}, float[1] b = {{0.25}}> {{
            y = workbench.SampleNormalization<epsilon=0.1>(x, s, b)
        }}"""
    )
    inputs = random_inputs(graph)
    by_torch = TorchExecutor(graph).run(inputs)["y"]
    np.testing.assert_allclose(by_torch, outputs(graph, inputs)["y"], rtol=1e-5, atol=1e-6)
