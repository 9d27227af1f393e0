"""Programs written out as Python: the same bits as by their steps, the same refusals, nothing that outlives them."""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest
import torch

from tests.running import typed
from workbench.backends.torch.executor.codegen import generated, source
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.backends.torch.executor.operator_errors import OperatorError
from workbench.backends.torch.fused.select_kernels import choose_kernels
from workbench.ir import from_text

CALLS = {  # by what is written, a graph
    "v1.exp()": "g (float[2,3] x) => (float[2,3] y) { y = Exp (x) }",
    "v1.mul(v2)": "g (float[2,3] x, float[3] z) => (float[2,3] y) { y = Mul (x, z) }",
    "v1.add(c0)": "g (int64[3] x) => (int64[3] y) <int64[3] b = {1, 2, 3}> { y = Add (x, b) }",
    "v1.div(v1)": "g (float[2,3] x) => (float[2,3] y) { y = Div (x, x) }",
    "torch.div(v1, v1, rounding_mode = 'trunc')": "g (int64[3] x) => (int64[3] y) { y = Div (x, x) }",
    "v1.relu()": "g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }",
    "torch.where(v1, v2, v2)": "g (bool[3] c, float[3] x) => (float[3] y) { y = Where (c, x, x) }",
    "torch.softmax(v1, 1)": "g (float[2,3] x) => (float[2,3] y) { y = Softmax <axis = 1> (x) }",
    "torch.matmul(v1, v2)": "g (float[2,3] x, float[3,2] z) => (float[2,2] y) { y = MatMul (x, z) }",
    "torch._C._nn.linear(v1, v2, v3)": (
        "g (float[2,3] x, float[4,3] w, float[4] b) => (float[2,4] y) { y = Gemm <transB = 1> (x, w, b) }"
    ),
    "torch.addmm(v3, v1, t, beta = 1.0, alpha = 2.0)": (
        "g (float[2,3] x, float[4,3] w, float[4] b) => (float[2,4] y) { y = Gemm <transB = 1, alpha = 2.0> (x, w, b) }"
    ),
    "torch.conv2d(v1, v2, None, (1, 1), (1, 1), (1, 1), 1)": (
        "g (float[1,2,4,4] x, float[2,2,3,3] w) => (float[1,2,4,4] y) { y = Conv <pads = [1, 1, 1, 1]> (x, w) }"
    ),
    "torch.conv2d(pad, v2, None, (1, 1), (0, 0), (1, 1), 1)": (
        "g (float[1,2,4,4] x, float[2,2,3,3] w) => (float[1,2,4,4] y) { y = Conv <pads = [1, 1, 0, 0]> (x, w) }"
    ),
    "v1.mean((2, 3), keepdim = True)": "g (float[1,2,4,4] x) => (float[1,2,1,1] y) { y = GlobalAveragePool (x) }",
    "torch.layer_norm(v1, (3,), v2, None, 0.5)": (
        "g (float[2,3] x, float[3] s) => (float[2,3] y) { y = LayerNormalization <epsilon = 0.5> (x, s) }"
    ),
    "v1.select(0, 1)": "g (float[2,3] x) => (float[3] y) <int64 i = {1}> { y = Gather (x, i) }",
    "v1.index_select(0, c0)": "g (float[2,3] x) => (y) <int64[2] i = {1, 0}> { y = Gather (x, i) }",
    "unsqueeze.unsqueeze(3)": (
        "g (float[2,3] x) => (float[1,2,3,1] y) <int64[2] a = {-1, 0}> { y = Unsqueeze (x, a) }"
    ),
    "v1.squeeze((0,))": "g (float[1,3] x) => (float[3] y) <int64[1] a = {0}> { y = Squeeze (x, a) }",
    "v1.reshape([2, -1])": "g (float[2,3,4] x) => (y) <int64[2] s = {0, -1}> { y = Reshape (x, s) }",
    "v1.reshape([size, -1])": "g (float[N,3,4] x) => (y) <int64[2] s = {0, -1}> { y = Reshape (x, s) }",
    "v1.reshape([0, 5])": "g (float[0,3] x) => (y) <int64[2] s = {0, 5}> { y = Reshape <allowzero = 1> (x, s) }",
    "permute.contiguous()": "g (float[2,3] x) => (float[3,2] y) { y = Transpose <perm = [1, 0]> (x) }",
    "torch.cat((v1, v1), 0)": "g (float[2,3] x) => (float[4,3] y) { y = Concat <axis = 0> (x, x) }",
    "v1.sum((-1,), False)": (
        "g (float[2,3] x) => (float[2] y) <int64[1] a = {-1}> { y = ReduceSum <keepdims = 0> (x, a) }"
    ),
    "v1.mean((0,), True)": "g (float[2,3] x) => (y) <int64[1] a = {0}> { y = ReduceMean (x, a) }",
}
AS_A_WHOLE = {  # what the contract's function has to look at in each run, by the reason
    "axes that are an input": "g (float[1,3] x, int64[1] a) => (y) { y = Squeeze (x, a) }",
    "sizes that are not known, and may all be 1": "g (float[N,M] x) => (float[M,N] y) { y = Transpose <perm = [1, 0]> (x) }",
    "an image that may be empty": "g (float[N,3] x) => (y) <int64[1] a = {0}> { y = ReduceMean (x, a) }",
    "sizes whose product is not known": "g (float[N,3,4] x) => (y) { y = Flatten (x) }",
}


def operands_of(graph):
    random, found = np.random.default_rng(0), {}
    for name in graph.inputs:
        type_ = graph.tensor_type(name)
        shape = [size if isinstance(size, int) else 2 for size in type_.shape]
        drawn = random.standard_normal(shape)
        found[name] = {"float32": drawn.astype(np.float32), "bool": drawn > 0}.get(
            type_.dtype.numpy().name, np.ones(shape, np.int64) if name == "x" else np.zeros(shape, np.int64)
        )
    return found


def both_ways(graph):
    """The outputs of a run by steps and of one written out, and the text."""
    executor, inputs = TorchExecutor(graph), operands_of(graph)
    runs = executor.run(inputs), executor.run(inputs)
    for name, ours in runs[0].items():
        np.testing.assert_array_equal(runs[1][name], ours)
    assert executor.fallbacks == {}
    return source(executor.program)


@pytest.mark.parametrize("call", CALLS)
def test_what_is_known_beforehand_is_torchs_calls(call):
    graph = typed(CALLS[call])
    assert f" = {call};" in both_ways(graph)


@pytest.mark.parametrize("text", AS_A_WHOLE.values(), ids=AS_A_WHOLE)
def test_what_is_not_known_is_the_contracts_function(text):
    assert re.search(r"contract_\w+\(v1", both_ways(typed(text)))


def test_an_operand_without_a_type_is_looked_at_in_each_run():
    text = both_ways(from_text("g (float[2,2] x) => (y) { t = Neg (x) y = Abs (t) }"))
    assert "neg = v1.neg()" in text and "contract_Abs(neg)" in text


def test_inputs_of_another_shape_than_the_graph_says_run_by_steps():
    executor = TorchExecutor(typed("g (float[2,3,4] x) => (y) <int64[2] s = {0, -1}> { y = Reshape (x, s) }"))
    shapes = [executor.run({"x": np.zeros(shape, np.float32)})["y"].shape for shape in [(2, 3, 4)] * 2 + [(4, 3, 2)]]
    assert shapes == [(2, 12), (2, 12), (4, 6)] and "reshape([2, -1])" in source(executor.program)


def test_a_type_that_the_first_run_contradicts_is_not_relied_on():
    graph = from_text(
        "g (float[N,4] x) => (y) <float[2,2,1] t, int64[1] a = {0}, int64[2] s = {0, -1}> { t = Unsqueeze (x, a) y = Reshape (t, s) }"
    )
    executor = TorchExecutor(graph)
    assert [executor.run({"x": np.zeros((3, 4), np.float32)})["y"].shape for _ in range(2)] == [(1, 12)] * 2


@pytest.mark.parametrize("mode", ["wrap", "reflect"])
def test_what_a_call_holds_for_later_runs_is_a_tensor_whoever_asks_first(mode):
    text = (
        f'g (float[1,1,2,3] x) => (y) <int64[8] p = {{0, 0, 3, 3, 0, 0, 3, 3}}> {{ y = Pad <mode = "{mode}"> (x, p) }}'
    )
    graph = typed(text)
    executor, inputs = TorchExecutor(graph), operands_of(graph)
    source(executor.program)  # recorded before any run
    (step,) = executor.program.steps
    assert {type(held) for held in step.call.held_tensors.values()} == {torch.Tensor}
    expected = np.pad(inputs["x"], [(0, 0), (0, 0), (3, 3), (3, 3)], mode=mode)
    for _ in range(2):
        np.testing.assert_array_equal(executor.run(inputs)["y"], expected)


def test_values_go_with_their_last_reader_and_outputs_may_be_constants():
    graph = typed("g (float[2] x) => (float[2] c, float[2] y) <float[2] c = {1, 2}> { t = Neg (x) y = Add (t, c) }")
    assert [line.strip() for line in both_ways(graph).split("\n") if line.strip()] == [
        "def forward(self, v1):",
        "neg = v1.neg();  v1 = None",
        "c0 = self.c0",
        "add = neg.add(c0);  neg = c0 = None",
        "c0_1 = self.c0",
        "return (c0_1, add)",
    ]


def test_results_that_a_step_has_several_of_and_outputs_that_are_left_out():
    graph = typed("g (float[4] x) => (float[2] a, float[2] b) <int64[2] s = {2, 2}> { a, b = Split (x, s) }")
    assert "getitem_1 = split[1]" in both_ways(graph)
    both_ways(typed("g (float[1,1,4] x) => (int64[1,1,2] i) { , i = MaxPool <kernel_shape = [3]> (x) }"))


def test_a_graph_with_bodies_runs_by_its_steps_and_a_body_that_runs_again_does_not(monkeypatch):
    text = "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (z) { z = Neg (x) }, else_branch = e () => (z) { z = Abs (x) }> }"
    executor = TorchExecutor(from_text(text))
    seen = []
    write = lambda program: (seen.append(program.graph.name), generated(program))[1]  # noqa: E731
    monkeypatch.setattr("workbench.backends.torch.executor.codegen.generated", write)
    for condition, y in ((True, [-1, 2]), (False, [1, 2]), (True, [-1, 2])):
        ours = executor.run({"c": np.array(condition), "x": np.array([1, -2], np.float32)})
        np.testing.assert_array_equal(ours["y"], y)
    assert seen == ["t"]  # the branch that ran twice, not the graph around it


def test_what_onnx_runtime_has_to_run_is_told_once_and_runs_again():
    graph = typed("g (float[2,2] x) => (float[2,2] y) { d = Det (x) y = Add (x, d) }")
    executor, inputs = TorchExecutor(graph), operands_of(graph)
    runs = [executor.run(inputs)["y"] for _ in range(3)]
    assert (runs[0] == runs[1]).all() and (runs[0] == runs[2]).all()


@pytest.mark.parametrize(("op", "attribute"), [("Softmax", "axis"), ("LeakyRelu", "alpha"), ("Concat", "axis")])
def test_a_text_in_the_place_of_a_number_is_not_run(op, attribute):
    executor = TorchExecutor(typed(f"g (float[2,3] x) => (float[2,3] y) {{ y = {op} <{attribute} = 0> (x) }}"))
    executor.program.steps[0].call.attributes[attribute] = "0) or exit("  # as a file may have it
    assert "exit" not in source(executor.program).replace("'0) or exit('", "")
    for _ in range(2):
        with pytest.raises(OperatorError, match=f"{op} .*failed"):
            executor.run({"x": np.zeros((2, 3), np.float32)})


def test_an_operator_that_fails_later_is_named():
    graph = from_text("g (float[N,2] x, float[M,2] z) => (y) { y = Add (x, z) }")
    executor, one, two, three = TorchExecutor(graph), *(np.zeros((size, 2), np.float32) for size in (1, 2, 3))
    executor.run({"x": one, "z": two})
    executor.run({"x": two, "z": two})
    with pytest.raises(OperatorError, match=r"Add .*float32\[2,2\], float32\[3,2\] failed"):
        executor.run({"x": two, "z": three})
    assert executor.run({"x": one, "z": three})["y"].shape == (3, 2)


def test_a_program_and_its_constants_go_with_their_executor():
    graph = from_text("g (float[2] x) => (float[2] y) <float[2] c = {1, 2}> { y = Add (x, c) }")
    executor = TorchExecutor(graph)
    for _ in range(2):
        executor.run({"x": np.zeros(2, np.float32)})
    constant = weakref.ref(executor.weights[0])
    gc.disable()
    try:
        del executor
        assert constant() is None
    finally:
        gc.enable()


def test_kernels_are_chosen_for_a_program_that_ran_before():
    graph = typed("g (float[2,64] x, float[64,64] w) => (float[2,64] y) { m = MatMul (x, w) y = Relu (m) }")
    executor = TorchExecutor(graph)
    tensors = executor.upload(operands_of(graph))
    before = [executor.run_tensors(tensors)["y"] for _ in range(2)][-1]
    assert choose_kernels(executor, tensors, lambda words: None).kernels
    for _ in range(2):
        torch.testing.assert_close(executor.run_tensors(tensors)["y"], before)
