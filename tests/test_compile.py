"""What is fast leaves the workbench: a graph as a function of tensors, and as a package that torch alone runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import workbench as wb
from tests.commands import OCR
from tests.running import outputs, typed
from workbench.backends.torch.executor.compilers import missing_compiler, missing_toolkit
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.backends.torch.executor.input_numbers import reader_of_input_numbers
from workbench.errors import UserError
from workbench.evidence.verification.verifier import Verifier
from workbench.run.compiling import MAX_BUCKETS
from workbench.run.packages import package_graph
from workbench.run.worker.client import Worker
from workbench.run.worker.process import CancelledError

SMALL = "g (float[N,4] x, float[N,4] z) => (float[N,4] y) { a = Add(x, z)  b = Relu(a)  y = Mul(b, z) }"
FIXED = "g (float[2,4] images) => (float[2,4] y) { y = Relu(images) }"


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X = normal(2, 4)


@pytest.fixture(scope="module")
def model():
    return wb.load(OCR, dims={"x_2": 48, "x_3": 192})


# ---- the function -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "arena"])
def test_a_real_model_computes_what_the_executor_computes(model, backend):
    compiled = wb.compile(model, backend=backend)
    (name,) = model.outputs
    first, second = normal(1, 3, 48, 192), normal(1, 3, 48, 192, seed=1)
    expected = [TorchExecutor(model).run({"x": x})[name] for x in (first, second)]
    of_numpy = [compiled(x)[name] for x in (first, second)]
    of_torch = [compiled(x=torch.from_numpy(x))[name] for x in (first, second)]
    for right, array, tensor in zip(expected, of_numpy, of_torch, strict=True):
        assert isinstance(array, np.ndarray) and isinstance(tensor, torch.Tensor)
        np.testing.assert_allclose(array, right, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert compiled.fallbacks == {} and len(compiled.buckets) == 1


@pytest.mark.parametrize("backend", ["torch", "arena", "streams", pytest.param("fused", marks=pytest.mark.slow)])
def test_what_a_call_gave_stays_and_other_batches_get_a_bucket(backend):
    graph = typed(SMALL)
    compiled = wb.compile(graph, backend=backend)
    assert compiled.sentence.endswith("shapes prepared: none yet")
    given = [{"x": normal(n, 4, seed=n), "z": normal(n, 4, seed=9 - n)} for n in (1, 3, 1, 2, 3)]
    given.insert(1, {"x": given[0]["x"] + 1, "z": given[0]["z"]})
    results = [compiled(one) for one in given]
    for one, found in zip(given, results, strict=True):
        np.testing.assert_array_equal(found["y"], outputs(graph, one)["y"])
    assert [bucket["x"] for bucket in compiled.buckets] == [(1, 4), (2, 4), (3, 4)]
    assert "shapes prepared: 3 of at most 8 (x [1, 4], z [1, 4]; " in compiled.sentence


def test_what_a_call_was_given_stays_too():
    compiled = wb.compile(typed("g (float[N,4] x) => (float[N,4] y, float[N,4] w) { y = Relu(x)  w = Identity(x) }"))
    given = torch.from_numpy(normal(2, 4))
    before = given.clone()
    first = compiled(given)
    compiled(torch.ones(2, 4))
    assert torch.equal(given, before) and torch.equal(first["w"], before)
    first["w"].zero_()  # it is the caller's
    assert torch.equal(compiled(given)["w"], before)


def test_gradients_may_be_computed_from_outputs():
    """They are no tensors of the inference mode, which autograd refuses."""
    compiled = wb.compile(typed(FIXED))
    weight = torch.ones(4, requires_grad=True)
    (compiled(torch.ones(2, 4, requires_grad=True))["y"] * weight).sum().backward()
    assert weight.grad.tolist() == [2.0] * 4


def test_tensors_that_are_no_rows_of_memory_are_taken():
    compiled = wb.compile(typed(FIXED), backend="arena")
    x = normal(4, 2)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x.T)["y"], np.maximum(x.T, 0))
        np.testing.assert_array_equal(compiled(torch.from_numpy(x).T)["y"].numpy(), np.maximum(x.T, 0))


def test_the_last_used_buckets_are_kept():
    compiled = wb.compile(typed("g (float[N] x) => (float[N] y) { y = Relu(x) }"))
    for size in (*range(1, MAX_BUCKETS + 1), 1, MAX_BUCKETS + 1):
        compiled(normal(size))
    sizes = [bucket["x"][0] for bucket in compiled.buckets]
    assert sizes == [*range(3, MAX_BUCKETS + 1), 1, MAX_BUCKETS + 1]


def test_threads_take_turns():
    compiled = wb.compile(typed(SMALL), backend="arena")
    wrong = []

    def call(number):
        x = np.full((2, 4), number, np.float32)
        for _ in range(50):
            if not (compiled(x, x)["y"] == 2 * number * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_narrow_run_takes_tensors_of_both_types():
    compiled = wb.compile(typed(FIXED), dtype="bfloat16")
    x = torch.from_numpy(normal(2, 4))
    wide, narrow = compiled(x)["y"], compiled(x.bfloat16())["y"]
    assert wide.dtype == torch.bfloat16 and torch.equal(wide, narrow)
    assert compiled(x.numpy())["y"].dtype == np.float32


def test_the_types_of_a_run_are_its_own():
    """Not those of the caller's autocast."""
    graph = typed("g (float[2,4] x, float[4,4] w) => (float[2,4] y) { y = MatMul(x, w) }")
    compiled, given = wb.compile(graph), (torch.from_numpy(X), torch.from_numpy(normal(4, 4)))
    alone = compiled(*given)["y"]
    with torch.autocast("cpu", torch.bfloat16):
        within = compiled(*given)["y"]
    assert within.dtype == torch.float32 and torch.equal(within, alone)


def test_an_input_with_a_default_may_be_left_out(tmp_path):
    path = tmp_path / "m.onnxtxt"
    path.write_text(
        '<ir_version: 8, opset_import: ["": 17]>\ng (float[2] x, float[2] b = {1, 2}) => (float[2] y) { y = Add(x, b) }'
    )
    compiled = wb.compile(wb.load(path))
    assert compiled(np.zeros(2, np.float32))["y"].tolist() == [1, 2]
    assert compiled(torch.zeros(2))["y"].tolist() == [1, 2]
    assert compiled(torch.zeros(2), torch.zeros(2))["y"].tolist() == [0, 0]


READING = {
    "Reshape": "g (float[2,6] x, int64[2] s) => (float[M,K] y) { y = Reshape(x, s) }",
    "NonZero": "g (float[N] x) => (int64[1,M] y) { y = NonZero(x) }",
    "If": "g (float[N] x, bool c) => (float[N] y) { y = If(c) <then_branch = t () => (float[N] a) { a = Relu(x) }, "
    "else_branch = e () => (float[N] b) { b = Neg(x) }> }",
}


@pytest.mark.parametrize("operator", READING)
def test_numbers_of_inputs_that_decide_what_runs_are_read_in_every_call(operator):
    """A prepared run would keep those of its first call."""
    compiled = wb.compile(typed(READING[operator]), backend="arena")
    x = normal(2, 6)
    if operator == "Reshape":
        assert [compiled(x, np.array(s))["y"].shape for s in ((3, 4), (4, 3))] == [(3, 4), (4, 3)]
    elif operator == "NonZero":
        found = [compiled(np.array(one, np.float32))["y"].tolist() for one in ([0, 1], [1, 1])]
        assert found == [[[1]], [[0, 1]]]
    else:
        found = [compiled(x[0], np.array(one))["y"] for one in (True, False)]
        np.testing.assert_array_equal(found, [np.maximum(x[0], 0), -x[0]])
    said = compiled.fallbacks["arena"]
    assert said.startswith(f"runs operator by operator: {operator}") and "may read numbers" in said


def test_sizes_that_follow_from_those_of_inputs_are_no_numbers_of_them(model):
    assert reader_of_input_numbers(model) is None
    rows = "g (float[N,4] x) => (float[M] y) { s = Shape(x)  t = ReduceProd<keepdims=1>(s)  y = Reshape(x, t) }"
    assert reader_of_input_numbers(typed(rows)) is None


def test_uint64_is_looked_at_in_every_call():
    """Numbers from 2^63 up take another way in torch."""
    graph = typed("g (uint64[2] x, uint64[2] z) => (bool[2] y) { y = Greater(x, z) }")
    compiled = wb.compile(graph, backend="arena")
    for high in (1, 2**63 + 1):
        one, other = np.array([high, 0], np.uint64), np.array([0, high], np.uint64)
        assert compiled(one, other)["y"].tolist() == [True, False]
    assert "Greater" in compiled.fallbacks["arena"]


def test_functions_are_looked_into(model):
    grouped = wb.optimize(model, ["fuse_groups"]).graph
    assert grouped.functions and reader_of_input_numbers(grouped) is None


WRONG = {
    "fixed size": ((normal(3, 4),), "Input 'images' has 3 on axis 0, which the graph fixes to 2"),
    "rank": ((normal(4),), "Input 'images' has 1 axes, [4], and the graph takes"),
    "type": ((X.astype(np.float64),), "Input 'images' has type float64, and the graph takes float32"),
    "torch type": ((torch.zeros(2, 4).half(),), "Input 'images' has type float16, and the graph takes float32"),
    "no tensor": (([1.0],), "Input 'images' is a list; give a torch tensor or a numpy array"),
    "missing": ((), "Input 'images' is missing"),
    "too many": ((X, X), "2 inputs are given, and the graph has 1: 'images'"),
    "unknown": (({"image": X},), "There is no input 'image'; the graph's inputs are 'images'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_call_is_a_sentence_that_names_the_input(wrong):
    given, said = WRONG[wrong]
    with pytest.raises(UserError) as error:
        wb.compile(typed(FIXED))(*given)
    assert str(error.value).startswith(said) and "\n" not in str(error.value)


def test_inputs_that_do_not_go_together_are_a_sentence():
    compiled = wb.compile(typed(SMALL))
    with pytest.raises(UserError, match="'N' is 2 in input 'x' and 3 in input 'z'"):
        compiled(X, normal(3, 4))
    with pytest.raises(UserError, match="some are numpy arrays; give all as one"):
        compiled(X, torch.from_numpy(X))
    with pytest.raises(UserError, match="Input 'x' is given twice"):
        compiled(X, x=X)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"backend": "onnxruntime"}, "ONNX Runtime runs files: export the graph"),
        ({"backend": "fast"}, "There is no backend 'fast'; use torch, "),
        ({"dtype": "float8"}, "There is no element type 'float8'"),
        ({"device": "tpu"}, "There is no device 'tpu'; use cpu or cuda"),
    ],
)
def test_what_cannot_be_compiled_is_a_sentence(how, said):
    with pytest.raises(UserError, match=said):
        wb.compile(typed(FIXED), **how)


def test_strings_and_sequences_are_no_tensors():
    with pytest.raises(UserError, match="Input 'x' holds strings"):
        wb.compile(typed("g (string[N] x) => (string[N] y) { y = Identity(x) }"))
    with pytest.raises(UserError, match=r"Input 's' has type .*; only graphs of tensors"):
        wb.compile(typed("g (seq(float[N]) s) => (int64 y) { y = SequenceLength(s) }"))


# ---- the package ------------------------------------------------------------------------------

ALONE = """
import sys, numpy, torch
run = torch._inductor.aoti_load_package(sys.argv[1])
(result,) = run(torch.from_numpy(numpy.load(sys.argv[2])))
numpy.save(sys.argv[3], result.numpy())
print(sorted({"onnx", "onnx_ir", "onnxruntime", "workbench"} & sys.modules.keys()))
"""

compiles = pytest.mark.skipif(missing_compiler("cpu") is not None, reason="there is no C++ compiler")


@compiles
@pytest.mark.slow
def test_a_package_computes_the_same_in_a_process_that_has_torch_alone(model, done, tmp_path):
    path, given, made = (tmp_path / name for name in ("m.pt2", "x.npy", "y.npy"))
    said = done("package", OCR, "--dims", "x_2=48,x_3=192", "-o", path).splitlines()
    assert said[0].startswith("In a process with only torch, compared with ONNX Runtime: Equal: 1 output")
    assert said[1].startswith(f"wrote {path}, ")
    assert said[2].startswith("takes x float32[1, 3, 48, 192] on cpu, of these shapes only; gives the tuple save_infer")
    assert said[3] == f"torch._inductor.aoti_load_package({str(path)!r})(x)"
    x = normal(1, 3, 48, 192, seed=7)
    np.save(given, x)
    words = [sys.executable, "-I", "-c", ALONE, path, given, made]
    child = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"
    np.testing.assert_allclose(np.load(made), outputs(model, {"x": x})[model.outputs[0]], rtol=1e-4, atol=1e-6)


def test_a_package_for_a_gpu_needs_the_headers_of_cuda(monkeypatch, tmp_path):
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    is_here = Path("/usr/local/cuda").exists()
    assert (missing_toolkit("cuda:0") is None, missing_toolkit("cpu")) == (is_here, None)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert missing_toolkit("cuda:0") is None


@compiles
@pytest.mark.slow
def test_a_package_in_another_type(tmp_path):
    graph = typed("g (float[2,8] x, float[8,4] w) => (float[2,4] y) { a = MatMul(x, w)  y = Relu(a) }")
    made = wb.package(graph, tmp_path / "m.pt2", dtype="bfloat16")
    assert made.comparison.ok and made.bytes == (tmp_path / "m.pt2").stat().st_size
    assert [type_.partition("[")[0] for _, type_ in made.inputs] == ["bfloat16"] * 2


@compiles
@pytest.mark.slow
def test_a_package_that_is_wrong_is_not_written(tmp_path):
    graph = typed(FIXED)
    (tmp_path / "m.pt2").write_bytes(b"before")
    with Worker() as worker:
        without_relu = SimpleNamespace(original=graph, inputs={"images": X}, reference={"y": X}, worker=worker)
        made = package_graph(graph, tmp_path / "m.pt2", without_relu)
    assert not made.comparison.ok and "Output 'y' differs" in made.sentence
    assert (tmp_path / "m.pt2").read_bytes() == b"before" and os.listdir(tmp_path) == ["m.pt2"]


def test_what_compiles_can_be_cancelled(tmp_path):
    graph = typed(FIXED)

    def cancel(event):
        worker.cancel()

    with Verifier(graph) as verifier, pytest.raises(CancelledError):
        worker = verifier.worker
        package_graph(graph, tmp_path / "m.pt2", verifier, on_progress=cancel)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "name", "how", "said"),
    [
        (FIXED, "m.onnx", {}, r"names end in .pt2; rename '.*m.onnx'"),
        (FIXED, "m.pt2", {"dtype": "tf32"}, "No package can be made in 'tf32'; use float32"),
        (READING["NonZero"], "m.pt2", {}, "No package can be made, since NonZero .* may read numbers"),
        ("g (string[N] x) => (string[N] y) { y = Identity(x) }", "m.pt2", {}, "input 'x' is not one"),
        ("g (float[N] x) => (float[N] y) { y = RandomNormalLike(x) }", "m.pt2", {}, "draws random numbers"),
    ],
)
def test_what_cannot_be_packaged_is_a_sentence(text, name, how, said, tmp_path):
    with pytest.raises(UserError, match=said):
        wb.package(typed(text), tmp_path / name, **how)
    assert os.listdir(tmp_path) == []


def test_without_a_compiler_the_command_says_what_to_install(refused, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    said = refused("package", OCR, "-o", tmp_path / "m.pt2")
    assert "No package can be compiled here: there is no C++ compiler 'no-such-compiler' (install one" in said
