"""OneFlow's pass to the letter: who is wrapped in Transposes, and what becomes of the weights."""

import dataclasses

import numpy as np
import pytest

from passes.layout.layout_insert_and_cancel import LayoutInsertAndCancel
from tests.running import outputs, random_inputs, typed
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir import Graph
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

WEIGHTS = "<float[2,2,1,1] w = {1, 2, 3, 4}, int64[1] s = {-1}>"


def laid_out(text: str, target: str = "cuda", **changed: str) -> Graph:
    graph = typed(text)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    run_pass(
        LayoutInsertAndCancel(),
        graph,
        PassContext(dataclasses.replace(load_profile(target), **changed)),
        check_each=True,
    )
    for name, numbers in outputs(graph, inputs).items():
        np.testing.assert_allclose(numbers, expected[name], rtol=1e-5)
    return graph


def test_an_operator_is_wrapped_only_behind_an_inserted_transpose():
    """A Relu read by a Conv and a Reshape: with every operator wrapped three Transposes were left."""
    graph = laid_out(f"""g (float[1,2,4,4] x) => (float[1,2,4,4] y, float[32] z) {WEIGHTS} {{
        a = Relu(x)  y = Conv(a, w)  z = Reshape(a, s)
    }}""")
    assert count_transposes(graph).transposes == 2
    assert [node.op for node in graph.nodes if node.outputs == ("a",)] == ["Relu"]


def test_operators_follow_one_after_the_other_behind_a_convolution():
    graph = laid_out(f"""g (float[1,2,4,4] x, float[1,2,4,4] b) => (float[1,2,4,4] y) {WEIGHTS} {{
        c = Conv(x, w)  d = Relu(c)  e = Add(d, b)  y = Sigmoid(e)
    }}""")
    assert count_transposes(graph).transposes == 3  # of x, of b, and back
    assert graph.shape(graph.producer("y").inputs[0]) == (1, 4, 4, 2)


def test_a_path_without_a_data_format_stays():
    graph = laid_out("g (float[1,2,4,4] x) => (float[1,2,4,4] y) { a = Relu(x)  y = Sigmoid(a) }")
    assert count_transposes(graph).transposes == 0


@pytest.mark.parametrize(("target", "weights"), [("cuda", "OHWI"), ("npu", "HWOI")])
def test_weights_go_with_the_data_or_as_the_target_names_them(target, weights):
    graph = laid_out(f"g (float[1,2,4,4] x) => (float[1,2,4,4] y) {WEIGHTS} {{ y = Conv(x, w) }}", target)
    convolution = next(node for node in graph.nodes if node.op_type.startswith("Conv"))
    assert convolution.op_type == f"Conv_NHWC_{weights}"
    shape = dict(zip(weights, graph.constant(convolution.inputs[1]).shape, strict=True))
    assert shape == {"O": 2, "H": 1, "W": 1, "I": 2}
