"""Types with dims bound follow from the nodes that bring new symbols: they are those of an inference of the whole."""

from __future__ import annotations

import pytest

from tests.conftest import CORPUS
from tests.making import model, node, value
from tests.slow import thorough_unless
from workbench.analysis.inference import bound_sizes
from workbench.analysis.inference.bound_sizes import bound_types
from workbench.analysis.inference.shapes import infer_types
from workbench.formats.io import load_model
from workbench.formats.io.onnx_file import load_proto, load_text
from workbench.ir import TensorType
from workbench.ir.types import DataType

HEAD = '<ir_version: 10, opset_import: ["": 23]>\n'


def loaded(text: str, **dims: int):
    return load_text(HEAD + text, dims)[0]


def inferred_wholly(monkeypatch) -> list[str]:
    """The names of graphs that are inferred as a whole from now on."""
    found: list[str] = []
    whole = bound_sizes.infer_types
    monkeypatch.setattr(
        bound_sizes,
        "infer_types",
        lambda graph, *more, **options: found.append(graph.name) or whole(graph, *more, **options),
    )
    return found


def agree(graph) -> None:
    found, whole = bound_types(graph), infer_types(graph, graph.dims)
    assert found.keys() == whole.keys()
    for name, type_ in whole.items():
        assert found[name].dtype == type_.dtype
        known = zip(found[name].shape or (), type_.shape or (), strict=type_.shape is not None)
        assert all(ours == theirs for ours, theirs in known if isinstance(theirs, int)), name


def test_a_size_cut_at_a_symbol_is_known_once_the_symbol_is(monkeypatch):
    whole = inferred_wholly(monkeypatch)
    graph = loaded(
        """positions (float[N,S,4] x) => (float[N,S,4] y)
        <float[9,4] table = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0},
         int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
            shape = Shape(x)  length = Slice(shape, one, two)  cut = Slice(table, zero, length)  y = Add(x, cut)
        }""",
        N=2,
        S=5,
    )
    assert not isinstance(graph.shape("cut")[0], int)
    assert bound_types(graph)["cut"].shape == (5, 4)
    assert not whole
    agree(graph)


def test_a_wrong_declared_output_is_inferred():
    graph = loaded(
        """cut (float[N,8] x) => (float[N,N] y) <int64[1] zero = {0}, int64[1] three = {3}, int64[1] one = {1}> {
            y = Slice(x, zero, three, one)
        }""",
        N=2,
    )
    assert bound_types(graph)["y"].shape == (2, 3)


def test_what_a_branch_makes_is_inferred_as_a_whole(monkeypatch):
    whole = inferred_wholly(monkeypatch)
    graph = loaded(
        """branches (float[N,8] x, bool c) => (float[M,8] z) {
            y = If(c) <
                then_branch = one () => (float[K,8] a) { a = Concat<axis=0>(x, x) },
                else_branch = two () => (float[L,8] b) { b = Relu(x) }>
            z = Relu(y)
        }""",
        N=2,
    )
    bound_types(graph)
    assert whole


def test_symbols_of_an_inference_long_ago_mean_nothing_here():
    """A file declares "unk__0" of a value that ONNX cannot infer; here another value is the first of unknown size."""
    proto = model(
        [
            node("NonZero", "x", "places"),
            node("Mystery", "x", "strange", domain="nowhere"),
            node("Relu", "strange", "y"),
        ],
        [value("x", ["N", 4])],
        [value("y", None)],
    )
    proto.opset_import.add(domain="nowhere", version=1)
    proto.graph.value_info.append(value("strange", ["unk__0", 7]))
    graph = load_proto(proto, {"N": 3})
    assert graph.shape("strange") == (None, 7)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "path",
    [thorough_unless("unet" not in path.stem, path) for path in sorted(CORPUS.glob("*.onnx"))],
    ids=lambda path: path.stem,
)
def test_on_real_models_nothing_that_was_known_differs(path):
    graph = load_model(path)
    agree(graph)


def test_without_dims_the_types_are_those_of_the_graph():
    graph = loaded("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    assert bound_types(graph)["y"] == TensorType(DataType.FLOAT, (2, 3))
