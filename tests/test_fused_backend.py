"""The backend `fused`: calls for products, compiled groups, the choice among them, and what it reports."""

import json
import time

import numpy as np
import pytest
import torch

from passes.fuse.fuse_groups import FuseGroups
from passes.fuse.fuse_minimum import FuseMinimum
from tests.random_graphs import random_graph
from tests.running import normal, outputs, random_inputs, typed
from tests.slow import thorough_unless
from workbench.backends.profiling.profile_result import Kernel
from workbench.backends.torch.executor.compilers import compiler_note, missing_compiler
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.backends.torch.fused import compiling_ahead, products, select_kernels
from workbench.backends.torch.fused.epilogue import Epilogue
from workbench.backends.torch.fused.product import ConstantProduct
from workbench.backends.torch.fused.select_kernels import choose_kernels
from workbench.backends.torch.fused.tracing import trace_group
from workbench.ir import Graph
from workbench.planning.fusion.groups_at_once import grouped
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass
from workbench.run.measurement.formatting import kernels_text
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.measurement_result import measurement_from_json
from workbench.run.measurement.variants import combined

pytestmark = pytest.mark.slow  # g++ compiles a library

IMAGES = "float[2,4,9,8] x, float[2,6,9,8] r"  # for convolutions
GIVEN = {"x": normal(2, 4, 9, 8), "r": normal(2, 6, 9, 8)}
ROWS = "float[2,3,8] x, float[2,3,6] r"  # for products
GIVEN_ROWS = {"x": normal(2, 3, 8), "r": normal(2, 3, 6)}


def weights(**shapes: str) -> str:
    """Initializers of random numbers, in the text of a graph."""
    rng = np.random.default_rng(3)
    held = []
    for name, shape in shapes.items():
        sizes = [int(size) for size in shape.split(",")]
        numbers = ", ".join(f"{number:.6f}" for number in rng.standard_normal(np.prod(sizes)))
        held.append(f"float[{shape}] {name} = {{{numbers}}}")
    return f"<{', '.join(held)}>"


def kernels_of(graph: Graph, inputs: dict, expected: dict, rtol: float = 1e-5) -> list[Kernel]:
    """The kernels chosen for a graph, whose results are `expected` in the deciding run and in later ones."""
    executor = TorchExecutor(grouped(graph))
    tensors = executor.upload(inputs)
    seen: list[str] = []
    chosen = choose_kernels(executor, tensors, seen.append).kernels
    words = [f"choosing the kernel of group {number:,} of {len(chosen):,}" for number in range(1, len(chosen) + 1)]
    assert [said for said in seen if said.startswith("choosing")] == words
    for _ in range(2):
        for name, array in executor.run(inputs).items():
            np.testing.assert_allclose(array, expected[name], rtol=rtol, atol=2e-6)
    return chosen


def take_calls(monkeypatch, library):
    """Calls are taken however long they take, of products those of this library."""
    for name in products.LIBRARIES:
        monkeypatch.setitem(select_kernels._MAX_RELATIVE_TIME, name, float("inf"))
    monkeypatch.setattr(
        products, "_fastest", lambda calls, *of: next((c for c in calls if c.library == library), calls[0])
    )


@pytest.fixture
def by_onednn(monkeypatch):
    take_calls(monkeypatch, "oneDNN")


@pytest.fixture(params=products.LIBRARIES)
def library(request, monkeypatch):
    if request.param == "C++" and (lacks := missing_compiler("cpu")):
        pytest.skip(lacks)
    take_calls(monkeypatch, request.param)
    return request.param


# ---- products ---------------------------------------------------------------------------------

BEHIND = {
    "": "y = Identity(c)",
    "Relu": "y = Relu(c)",
    "Sigmoid": "y = Sigmoid(c)",
    "Tanh": "y = Tanh(c)",
    "HardSwish": "y = HardSwish(c)",
    "HardSigmoid": "y = HardSigmoid<alpha=0.16666667>(c)",
    "HardSigmoid of another slope": "y = HardSigmoid<alpha=0.2, beta=0.4>(c)",
    "LeakyRelu": "y = LeakyRelu<alpha=0.3>(c)",
    "Gelu": "y = Gelu(c)",
    "Gelu by tanh": 'y = Gelu<approximate="tanh">(c)',
    "Sigmoid + Mul": "s = Sigmoid(c)  y = Mul(s, c)",
    "Add": "y = Add(r, c)",
}


@pytest.mark.slow
@pytest.mark.parametrize("epilogue", BEHIND)
@pytest.mark.parametrize(
    "product",
    [
        thorough_unless(False, "c = Conv<pads=[1,1,1,1]>(x, w, b)"),
        "c = Conv<pads=[0,1,2,1]>(x, w)",
        'c = Conv<auto_pad="SAME_UPPER">(x, u, b)',
        "c = Conv<pads=[2,2,2,2], dilations=[2,2], group=2>(x, g2, b)",
        "c = Conv(x, v, b)",
    ],
)
def test_a_convolution_takes_along_what_is_behind_it(product, epilogue, library):
    """BLAS computes that of single elements alone, oneDNN one HardSigmoid alone; another library the others."""
    held = weights(w="6,4,3,3", u="6,4,2,2", v="6,4,1,1", g2="6,2,3,3", b="6")
    graph = typed(f"g ({IMAGES}) => (float[2,6,9,8] y) {held} {{ {product}  {BEHIND[epilogue]} }}")
    (kernel,) = kernels_of(graph, GIVEN, outputs(graph, GIVEN))
    assert kernel.by == library or library == "BLAS" or (library, epilogue[:14]) == ("oneDNN", "HardSigmoid of")
    absorbed = "; Identity one by one" if not epilogue else ""
    assert (
        kernel.how
        == f"one call for Conv{' + ' if epilogue else ''}{epilogue.removesuffix(' by tanh').removesuffix(' of another slope')}{absorbed}"
    )


@pytest.mark.parametrize("epilogue", [name for name in BEHIND if name != "Add"])
@pytest.mark.parametrize("op", ["Conv", "workbench.Conv_NHWC"])
def test_a_convolution_of_single_elements_is_a_product(op, epilogue, library):
    """NaN stays NaN but in oneDNN, whose Relu makes it 0."""
    order = (0, 1, 2, 3) if op == "Conv" else (0, 2, 3, 1)
    x = normal(2, 4, 9, 8).transpose(order)
    types = [f"float[{','.join(map(str, np.array((2, c, 9, 8))[list(order)]))}]" for c in (4, 6)]
    graph = typed(
        f"g ({types[0]} x) => ({types[1]} y) {weights(v='6,4,1,1', b='6')} {{ c = {op}(x, v, b)  {BEHIND[epilogue]} }}"
    )
    (kernel,) = kernels_of(graph, {"x": x}, outputs(graph, {"x": x}))
    assert kernel.by == library or (library, epilogue[:14]) == ("oneDNN", "HardSigmoid of")
    if library != "oneDNN":
        hostile = np.full_like(x, np.nan)
        kernels_of(graph, {"x": hostile}, outputs(graph, {"x": hostile}))


def test_the_fastest_call_is_taken():
    """Our own is, unless another is faster by more than a trial can say."""
    product, epilogue = ConstantProduct(torch.zeros(2, 3), (4, 3)), Epilogue(0, [])

    def taking(ms):
        return lambda x: time.sleep(ms / 1e3)

    def fastest(**ms):
        calls = [products._Call(taking(taken), "C++" if name == "own" else name) for name, taken in ms.items()]
        return products._fastest(calls, product, epilogue).library

    assert fastest(oneDNN=10, BLAS=1) == "BLAS"
    assert fastest(oneDNN=1, BLAS=10) == "oneDNN"
    assert fastest(oneDNN=5, own=1) == "C++"
    assert fastest(oneDNN=1, own=5) == "oneDNN"
    assert fastest(oneDNN=20, own=21) == "C++"


def test_what_was_the_fastest_is_not_tried_again(monkeypatch):
    tried = []
    monkeypatch.setattr(products, "_fastest", lambda calls, *of: (tried.append(len(calls)), calls[0])[1])
    held = weights(w="4,4,3,3", v="4,4,3,3", u="4,4,3,3")
    conv = "{} = Conv<pads=[1,1,1,1], strides=[{},{}]>(x, {})"
    nodes = [conv.format("a", 1, 1, "w"), conv.format("b", 1, 1, "v"), conv.format("c", 2, 2, "u")]
    graph = typed(
        f"g (float[1,4,8,8] x) => (float[1,4,8,8] a, float[1,4,8,8] b, float[1,4,4,4] c) {held} {{ {' '.join(nodes)} }}"
    )
    inputs = {"x": normal(1, 4, 8, 8)}
    kernels_of(graph, inputs, outputs(graph, inputs))
    assert len(tried) == 2


def test_a_sum_and_its_relu_go_along_together(by_onednn):
    held = weights(w="6,4,3,3", b="6")
    nodes = "c = Conv<pads=[1,1,1,1]>(x, w, b)  s = Add(c, r)  y = Relu(s)"
    graph = typed(f"g ({IMAGES}) => (float[2,6,9,8] y) {held} {{ {nodes} }}")
    (kernel,) = kernels_of(graph, GIVEN, outputs(graph, GIVEN))
    assert kernel.how == "one call for Conv + Add + Relu"


def test_a_bias_that_is_added_behind_is_the_calls_own(by_onednn):
    held = weights(w="6,4,3,3", b="6,1,1")
    nodes = "c = Conv<pads=[1,1,1,1]>(x, w)  s = Add(b, c)  y = Relu(s)"
    graph = typed(f"g ({IMAGES}) => (float[2,6,9,8] y) {held} {{ {nodes} }}")
    (kernel,) = kernels_of(graph, GIVEN, outputs(graph, GIVEN))
    assert kernel.how == "one call for Conv + Add + Relu"


def test_bounds_of_a_clip_must_be_constants(by_onednn):
    held = weights(w="6,4,3,3")[:-1] + ", float low = {-0.5}, float high = {0.5}>"
    nodes = "c = Conv<pads=[1,1,1,1]>(x, w)  y = Clip(c, {}, high)"
    for low, how in (("low", "one call for Conv + Clip"), ("", "one call for Conv; Clip one by one")):
        graph = typed(f"g ({IMAGES}) => (float[2,6,9,8] y) {held} {{ {nodes.format(low)} }}")
        (kernel,) = kernels_of(graph, GIVEN, outputs(graph, GIVEN))
        assert kernel.how == how


PRODUCTS = {
    "c = MatMul(x, w)": "Gelu",
    "p = MatMul(x, w)  c = Add(p, b)": "Add + Gelu",
    "p = MatMul(x, w)  c = Add(b, p)": "Add + Gelu",
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_product_takes_along_its_bias_and_gelu(product, library):
    graph = typed(f"g ({ROWS}) => (float[2,3,6] y) {weights(w='8,6', b='6')} {{ {product}  y = Gelu(c) }}")
    (kernel,) = kernels_of(graph, GIVEN_ROWS, outputs(graph, GIVEN_ROWS))
    assert kernel.how == f"one call for MatMul + {PRODUCTS[product]}"


def test_a_product_takes_along_bias_and_residual(library):
    nodes = "p = MatMul(x, w)  c = Add(p, b)  y = Add(r, c)"
    graph = typed(f"g ({ROWS}) => (float[2,3,6] y) {weights(w='8,6', b='6')} {{ {nodes} }}")
    (kernel,) = kernels_of(graph, GIVEN_ROWS, outputs(graph, GIVEN_ROWS))
    assert kernel.how == "one call for MatMul + Add + Add"


NO_CALL = "operator by operator: there is no call for its product, or the weights are computed"
GEMMS = {
    "y = Gemm(x, w, b)": "one call for Gemm",
    "y = Gemm<transB=1>(x, v, b)": "one call for Gemm",
    "y = Gemm<transB=1>(x, v)": "one call for Gemm",
    "c = Gemm(x, w, b)  y = Relu(c)": "one call for Gemm + Relu",
    "y = Gemm<alpha=0.5>(x, w, b)": NO_CALL,
    "y = Gemm<beta=0.5>(x, w, b)": NO_CALL,
    "y = Gemm(x, w, one)": NO_CALL,
    "y = Gemm(x, w, column)": NO_CALL,
}


@pytest.mark.parametrize("nodes", GEMMS)
def test_gemms(nodes, library):
    held = weights(w="8,6", v="6,8", b="6", one="1", column="3,1")
    graph = typed(f"g (float[3,8] x) => (float[3,6] y) {held} {{ {nodes} }}")
    inputs = {"x": normal(3, 8)}
    (kernel,) = kernels_of(graph, inputs, outputs(graph, inputs))
    assert kernel.how == GEMMS[nodes]


REFUSED = {
    "the product is read twice": ("c = Conv<pads=[1,1,1,1]>(x, w)  y = Relu(c)  z = Neg(c)", "one call for Conv"),
    "the product is an output": ("z = Conv<pads=[1,1,1,1]>(x, w)  y = Relu(z)", "one call for Conv"),
    "the summand has another shape": (
        "c = Conv<pads=[1,1,1,1]>(x, w)  m = ReduceMax<keepdims=1>(r)  s = Add(c, m)  y = Relu(s)  z = Neg(r)",
        "one call for Conv; Add, Relu one by one",
    ),
    "the sum is of the product twice": (
        "c = Conv<pads=[1,1,1,1]>(x, w)  y = Add(c, c)  z = Neg(r)",
        "one call for Conv; Add one by one",
    ),
    "an operator between is not one that calls take": (
        "c = Conv<pads=[1,1,1,1]>(x, w)  s = Softplus(c)  y = Relu(s)  z = Neg(r)",
        "one call for Conv; Softplus, Relu one by one",
    ),
    "the weights are computed": (
        "v = Neg(w)  c = Conv<pads=[1,1,1,1]>(x, v)  y = Relu(c)  z = Neg(r)",
        NO_CALL,
    ),
}


@pytest.mark.parametrize("case", [thorough_unless(case != "the summand has another shape", case) for case in REFUSED])
def test_what_a_call_cannot_take_along_stays(case, by_onednn):
    nodes, how = REFUSED[case]
    graph = typed(f"g ({IMAGES}) => (float[2,6,9,8] y, float[2,6,9,8] z) {weights(w='6,4,3,3')} {{ {nodes} }}")
    kernels = kernels_of(graph, GIVEN, outputs(graph, GIVEN))
    assert how in [kernel.how for kernel in kernels]


def test_channels_last_forms_are_called_too(by_onednn):
    text = f"""g (float[2,9,8,4] x, float[2,9,8,6] r) => (float[2,9,8,6] y, float[2,9,8,6] z) {weights(w="6,4,3,3", v="3,3,4,6")} {{
        c = workbench.Conv_NHWC<pads=[1,1,1,1]>(x, w)  s = Add(c, r)  y = Relu(s)
        d = workbench.Conv_NHWC_HWIO<pads=[1,1,1,1]>(x, v)  z = Sigmoid(d)
    }}"""
    graph = typed(text)
    inputs = {"x": normal(2, 9, 8, 4), "r": normal(2, 9, 8, 6)}
    kernels = kernels_of(graph, inputs, outputs(graph, inputs))
    assert [kernel.how for kernel in kernels] == ["one call for Conv + Add + Relu", "one call for Conv + Sigmoid"]


def test_the_weights_are_not_held_twice(by_onednn):
    held = weights(w="6,4,3,3", b="6", k="6,1,1")
    graph = typed(f"g ({IMAGES}) => (float[2,6,9,8] y) {held} {{ c = Conv<pads=[1,1,1,1]>(x, w, b)  y = Mul(c, k) }}")
    executor = TorchExecutor(grouped(graph))
    chosen = choose_kernels(executor, executor.upload(GIVEN), lambda words: None)
    assert chosen.packed_bytes == 4 * (6 * 4 * 9 + 6)
    assert [tuple(weight.shape) for weight in executor.weights] == [(6, 1, 1)]


def test_other_types_than_float32_are_left_to_torch():
    graph = typed("g (double[1,2,5,5] x, double[3,2,3,3] w) => (double[1,3,3,3] y) { c = Conv(x, w)  y = Relu(c) }")
    inputs = {"x": normal(1, 2, 5, 5).astype(np.float64), "w": normal(3, 2, 3, 3).astype(np.float64)}
    (kernel,) = kernels_of(graph, inputs, outputs(graph, inputs))
    assert kernel.how == NO_CALL
    graph = typed(
        f"g (float[1,4,5,5] x) => (float[1,6,3,3] y) {weights(w='6,4,3,3')} {{ c = Conv(x, w)  y = Relu(c) }}"
    )
    executor = TorchExecutor(grouped(graph), dtype="bfloat16")
    tensors = executor.upload({"x": normal(1, 4, 5, 5)})
    (kernel,) = choose_kernels(executor, tensors, lambda words: None).kernels
    assert kernel.how == "operator by operator: calls compute products in float32 only"


# ---- inductor -------------------------------------------------------------------------------

CHAIN = "a = Mul(x, r)  s = Sigmoid(a)  y = Add(s, r)"


@pytest.fixture
def compiler():
    if lacks := missing_compiler("cpu"):
        pytest.skip(lacks)


@pytest.mark.slow
def test_elementwise_operators_become_one_kernel(compiler, monkeypatch):
    monkeypatch.setitem(
        select_kernels._MAX_RELATIVE_TIME, "inductor", float("inf")
    )  # however long it takes beside other work
    graph = typed(f"g (float[64,256] x, float[64,256] r) => (float[64,256] y) {{ {CHAIN} }}")
    inputs = {"x": normal(64, 256), "r": normal(64, 256)}
    (kernel,) = kernels_of(graph, inputs, outputs(graph, inputs))
    assert (kernel.by, kernel.how, kernel.kernels) == ("inductor", "1 kernel of C++", 1)
    assert kernel.bytes == 3 * 4 * 64 * 256
    assert "cpp_fused" in kernel.source
    assert kernel.compile_s > 0 and kernel.time_ms > 0 and kernel.torch_ms > 0


@pytest.mark.slow
def test_a_repeated_group_is_compiled_once(compiler):
    """Of the same structure on the same shapes; another shape, attribute or constant is another kernel."""
    blocks = "  ".join(f"a{i} = Mul(x{i}, r)  b{i} = Elu<alpha={alpha}>(a{i})  y{i} = Neg(b{i})" for i, alpha in BLOCKS)
    images = ", ".join(f"float[{3 if i == 3 else 2},8] x{i}" for i, _ in BLOCKS)
    results = ", ".join(f"float[{3 if i == 3 else 2},8] y{i}" for i, _ in BLOCKS)
    graph = typed(f"g ({images}, float[1,8] r) => ({results}) {{ {blocks} }}")
    inputs = random_inputs(graph)
    kernels = kernels_of(graph, inputs, outputs(graph, inputs))
    assert [kernel.same_as for kernel in kernels] == ["", "group_1", "", ""]
    assert [bool(kernel.source) for kernel in kernels][1] is False
    assert kernels[1].operators == ("Mul_a1", "Elu_b1", "Neg_y1")


BLOCKS = ((0, 1.0), (1, 1.0), (2, 0.5), (3, 1.0))


def test_what_onnx_runtime_runs_is_not_compiled():
    graph = typed("g (uint64[2] x, uint64[2] r) => (uint64[2] y) { a = Max(x, r)  y = Mul(a, r) }")
    inputs = {"x": np.array([2**63, 5], np.uint64), "r": np.array([1, 7], np.uint64)}
    (kernel,) = kernels_of(graph, inputs, outputs(graph, inputs))
    assert kernel.how == "operator by operator: ONNX Runtime runs Max"


# ---- without a compiler ---------------------------------------------------------------------


@pytest.fixture
def in_place(monkeypatch):
    """There is no compiler, and calls in place are taken however long they take."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setitem(select_kernels._MAX_RELATIVE_TIME, "in place", float("inf"))


LACKS = "there is no C++ compiler 'no-such-compiler' (install one, or name yours in CXX)"
# nodes, further results, the calls that write into their operand, all calls
IN_PLACE = {
    "a chain": (CHAIN, "", 2, 3),
    "a value that is read again": ("a = Mul(x, r)  s = Sigmoid(a)  y = Mul(a, s)", "", 1, 3),
    "a result": ("a = Mul(x, r)  s = Sigmoid(a)  y = Neg(s)", "float[4,8] s", 1, 2),
    "a square": ("a = Neg(x)  s = Mul(a, a)  y = Neg(s)", "", 1, 3),
    "an operand that grows": ("a = Neg(q)  s = Mul(a, x)  y = Abs(s)", "", 1, 3),
    "a constant": ("a = Mul(c, x)  y = Neg(a)", "", 1, 2),
    "another type": ("a = Neg(x)  s = Greater(a, r)  t = Cast<to=1>(s)  y = Exp(t)", "", 1, 4),
    "a turned value": ("a = Exp(x)  t = Transpose<perm=[1,0]>(a)  y = Neg(t)", "", 1, 4),
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_without_a_compiler_operators_write_into_their_operands(case, in_place):
    """The same bits; operands, constants and values that are still read stay as they are."""
    nodes, more, written, calls = IN_PLACE[case]
    y = "float[8,4] y" if "Transpose" in nodes else "float[4,8] y"
    held = f"<float[4,8] c = {{{', '.join(map(str, range(32)))}}}>"
    results = ", ".join(filter(None, (y, more)))
    graph = typed(f"g (float[4,8] x, float[4,8] r, float[1,8] q) => ({results}) {held} {{ {nodes} }}")
    inputs = {"x": normal(4, 8), "r": normal(4, 8), "q": normal(1, 8)}
    expected = TorchExecutor(graph).run(inputs)
    before = {name: array.copy() for name, array in inputs.items()}
    executor = TorchExecutor(grouped(graph))
    (kernel,) = choose_kernels(executor, executor.upload(inputs), lambda words: None).kernels
    ending = "s write into their" if written > 1 else "s writes into its"
    assert (kernel.by, kernel.how) == ("in place", f"{written} of {calls} call{ending} operand: {LACKS}")
    assert kernel.source.count("_.default") + kernel.source.count("_.Tensor") == written
    for _ in range(2):
        found = executor.run(inputs)
        assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)
    assert all(array.tobytes() == before[name].tobytes() for name, array in inputs.items())


def test_a_result_of_a_group_is_not_written_into(in_place):
    """Of a group of several results, one read by the next operator of the group."""
    graph = typed("g (float[4,8] x, float[4,8] r) => (float[4,8] y, float[4,8] s) { s = Mul(x, r)  y = Neg(s) }")
    after = graph.copy()
    run_pass(FuseMinimum(grouped_by="several"), after, PassContext(load_profile("cuda")))
    inputs = {"x": normal(4, 8), "r": normal(4, 8)}
    (kernel,) = kernels_of(after, inputs, outputs(graph, inputs))
    assert kernel.operators == ("Mul_s", "Neg_y")
    assert kernel.how == f"operator by operator: {LACKS}; no operator can write into its operand"


def test_what_cannot_be_written_in_place_runs_one_by_one_and_it_is_said(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    graph = typed("g (float[4,8] x, float[4,1] r) => (float[4,8] y) { a = Neg(r)  y = Mul(a, x) }")
    inputs = {"x": normal(4, 8), "r": normal(4, 1)}
    (kernel,) = kernels_of(graph, inputs, outputs(graph, inputs))
    assert kernel.how == f"operator by operator: {LACKS}; no operator can write into its operand"
    assert compiler_note(["torch", "fused"], "cpu").startswith(f"torch's compiler cannot be used: {LACKS}")
    assert compiler_note(["torch", "onnxruntime"], "cpu") is None


# ---- whole graphs ---------------------------------------------------------------------------

SEED_GRAPH = "g (float[N,4,6] x) => (float[N,4,6] y) { a = Relu(x)  y = Exp(a) }"


@pytest.mark.parametrize("seed", [*(thorough_unless(False, i) for i in range(14))])
def test_a_random_graph_gives_the_same(seed, compiler, library):
    graph = random_graph(seed, [SEED_GRAPH, SEED_GRAPH], operators=10)
    inputs = random_inputs(graph)
    kernels_of(graph, inputs, outputs(graph, inputs), rtol=1e-4)


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(i, marks=pytest.mark.slow) for i in range(2, 14))])
def test_a_random_graph_gives_the_same_in_place(seed, in_place):
    graph = random_graph(seed, [SEED_GRAPH, SEED_GRAPH], operators=10)
    inputs = random_inputs(graph)
    kernels_of(graph, inputs, outputs(graph, inputs), rtol=1e-4)


@pytest.mark.slow
def test_it_is_measured_beside_the_others(compiler, shared_worker):
    """Through the worker: equal, with its kernels in the record, which is read back as it was written."""
    held = weights(w="6,4,3,3", b="6")
    nodes = "c = Conv<pads=[1,1,1,1]>(x, w, b)  a = Relu(c)  m = Mul(a, r)  y = Exp(m)"
    graph = typed(f"g ({IMAGES}) => (float[2,6,9,8] y) {held} {{ {nodes} }}")
    said = []
    found = measure_models(
        combined({"m": graph}, ["torch", "fused"], ["float32"]),
        inputs=GIVEN,
        reference=outputs(graph, GIVEN),
        repeat=3,
        worker=shared_worker,
        on_progress=lambda event: said.append(event["stage"]),
    )
    ran = found.variants["fused"]
    assert ran.error.ok
    assert ran.fallbacks == {}
    assert found.variants["torch"].kernels == ()
    assert sorted(name for kernel in ran.kernels for name in kernel.operators) == ["Conv_c", "Exp_y", "Mul_m", "Relu_a"]
    assert "choosing the kernel of group 1 of 1" in said
    assert [operator.name for operator in ran.operators] == [kernel.group for kernel in ran.kernels]
    elements = 2 * 6 * 9 * 8
    assert sum(operator.flops for operator in ran.operators) == elements * (2 * 4 * 9 + 1) + 3 * elements
    assert measurement_from_json(json.loads(json.dumps(found.to_json()))).variants["fused"].kernels == ran.kernels
    assert kernels_text(ran.kernels, ran.first_result_s).startswith("1 group: 1 ")


@pytest.mark.slow
def test_groups_of_a_pass_are_those_that_run(compiler):
    """A graph whose operators a pass has grouped runs in these groups."""
    graph = typed(f"g (float[4,8] x, float[4,8] r) => (float[4,8] y) {{ {CHAIN} }}")
    after = graph.copy()
    run_pass(FuseGroups(max_operators=2), after, PassContext(load_profile("cuda")))
    inputs = {"x": normal(4, 8), "r": normal(4, 8)}
    kernels = kernels_of(after, inputs, outputs(graph, inputs))
    assert [kernel.operators for kernel in kernels] == [("Mul_a", "Sigmoid_s")]


@pytest.mark.slow
@pytest.mark.skipif(missing_compiler("cpu") is not None, reason="no C++ compiler")
def test_groups_are_compiled_side_by_side_and_found_in_the_cache(tmp_path, monkeypatch):
    """Four groups by two processes, into a cache that is empty; then nothing is left to compile."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling_ahead, "_GROUPS_PER_PROCESS", 2)
    traced = {}
    for width in (8, 16, 24, 32):
        graph = grouped(
            typed(f"g (float[4,{width}] x) => (float[4,{width}] y) {{ a = Exp(x)  y = Softmax<axis=1>(a) }}")
        )
        executor = TorchExecutor(graph)
        operand = executor.upload({"x": normal(4, width)})["x"]
        with executor.computing():
            traced[width] = trace_group(executor.program, [operand])
    done: list[int] = []
    compiling_ahead.compile_ahead(traced, 4, done.append)
    assert done[0] == 0 and done == sorted(done) and len(list(tmp_path.rglob("groups/*"))) == 4
    compiled = set(tmp_path.rglob("*.so"))
    assert len(compiled) >= 4
    for group in traced.values():
        with torch.inference_mode():
            torch._inductor.compile(group.module, group.tensors)(*group.tensors)
    assert set(tmp_path.rglob("*.so")) == compiled
    compiling_ahead.compile_ahead(traced, 4, lambda count: pytest.fail("it was compiled before"))


def test_few_groups_or_cores_are_no_reason_to_start_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling_ahead.subprocess, "Popen", lambda *given, **named: pytest.fail("started"))
    compiling_ahead.compile_ahead(dict.fromkeys(range(15)), 16, lambda count: None)
    compiling_ahead.compile_ahead(dict.fromkeys(range(99)), 2, lambda count: None)
