"""The kernel of the backend `fused`: convolutions of all kinds, shuffles of channels, and results in place of a Concat."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.running import normal, outputs, typed
from tests.test_fused_backend import kernels_of, take_calls, weights
from workbench.backends.torch.executor.compilers import missing_compiler
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.backends.torch.fused import convolutions
from workbench.backends.torch.fused.activations import Unary
from workbench.backends.torch.fused.convolutions import CompiledCall
from workbench.backends.torch.fused.epilogue import Epilogue
from workbench.backends.torch.fused.lowering import NoLowering
from workbench.backends.torch.fused.product import NO_AXES, ConstantProduct
from workbench.backends.torch.fused.select_kernels import choose_kernels
from workbench.ops.windows import Window
from workbench.planning.fusion.groups_at_once import grouped

pytestmark = pytest.mark.slow  # g++ compiles a library


@pytest.fixture(autouse=True)
def own(monkeypatch):
    """Products are calls of our own kernel."""
    if lacks := missing_compiler("cpu"):
        pytest.skip(lacks)
    take_calls(monkeypatch, "C++")


# ---- the kernel -----------------------------------------------------------------------------


def drawn(rng: np.random.Generator) -> tuple[ConstantProduct, torch.Tensor]:
    """A random convolution and its weight: dense, in groups or of each channel alone."""
    groups = int(rng.choice([1, 1, 2, 3, 5, 17, 40]))
    inputs, outputs_ = int(rng.integers(1, 40)), int(rng.integers(1, 70))
    if groups > 3:
        inputs, outputs_ = 1, int(rng.choice([1, 1, 2]))
    kernel, strides, dilations = (tuple(map(int, rng.integers(1, high, 2))) for high in (4, 3, 3))
    begins, ends = (tuple(map(int, rng.integers(0, 3, 2))) for _ in range(2))
    spatial = tuple(int(rng.integers((k - 1) * d + 1, 14)) for k, d in zip(kernel, dilations, strict=True))
    weight = torch.randn(groups * outputs_, inputs, *kernel)
    shape = (int(rng.integers(1, 4)), *spatial, groups * inputs)
    window = Window(kernel, strides, dilations, begins, ends)
    return ConstantProduct(weight, shape, window, groups, is_channels_last=not rng.integers(2)), weight


@pytest.mark.parametrize("seed", range(40))
def test_random_convolutions(seed):
    check_random(seed)


@pytest.mark.parametrize("seed", range(8))
def test_random_convolutions_without_the_widest_vectors(seed, monkeypatch):
    """As on a processor that has no AVX-512."""
    source = "#undef __AVX512F__\n" + convolutions._SOURCE.read_text(encoding="utf-8")
    library = convolutions.loaded_kernel(source)
    assert library.lanes() == 8
    monkeypatch.setattr(convolutions, "_library", lambda: library)
    check_random(seed)


def check_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    product, weight = drawn(rng)
    bias = torch.randn(weight.shape[0]) if rng.integers(2) else None
    other = torch.randn(product.result_shape) if rng.integers(2) else None
    x = product.example()
    x.copy_(torch.randn(product.shape))
    order = tuple(map(int, rng.permutation(weight.shape[0]))) if rng.integers(2) else None
    name, scalars = [("none", ()), ("relu", ()), ("clamped_linear", (0.3, 0.4)), ("tanh", ())][rng.integers(4)]
    unary = Unary(name, scalars)
    y = CompiledCall(product, Epilogue(0, [], bias, 1 if other is not None else None, unary, order))(
        x, *(() if other is None else (other,))
    )
    (top, left), (bottom, right) = product.window.begins, product.window.ends
    padded = F.pad(x.permute(0, 3, 1, 2), (left, right, top, bottom)).double()
    expected = F.conv2d(
        padded,
        weight.double(),
        None if bias is None else bias.double(),
        product.window.strides,
        0,
        product.window.dilations,
        product.groups,
    ).permute(0, 2, 3, 1)
    expected = unary.in_place(expected if other is None else expected + other)
    if order is not None:
        expected = torch.empty_like(expected).index_copy_(-1, torch.tensor(order), expected)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["sigmoid", "gelu", "relu"])
@pytest.mark.parametrize("seed", range(4))
def test_a_part_of_a_buffer_is_written_and_nothing_else(seed, activation):
    product, weight = drawn(np.random.default_rng(seed))
    x = torch.randn(product.shape)
    call = CompiledCall(
        product, Epilogue(0, [], None, None, Unary(activation, (), "none" if activation == "gelu" else ""))
    )
    buffer = torch.full((*product.result_shape[:-1], weight.shape[0] + 5), 7.0)
    part = call.into(buffer, 3, x)
    assert part.data_ptr() == buffer[..., 3:].data_ptr()
    torch.testing.assert_close(part, call(x))
    assert torch.cat((buffer[..., :3], buffer[..., 3 + weight.shape[0] :]), -1).unique().tolist() == [7.0]


@pytest.mark.parametrize("rows, inputs, results", [((1,), 3, 1), ((2, 3), 70, 33), ((200,), 300, 129)])
def test_products_of_matrices(rows, inputs, results):
    weight, x = torch.randn(results, inputs), torch.randn(*rows, inputs)
    y = CompiledCall(ConstantProduct(weight, (*rows, inputs), NO_AXES), Epilogue(0, []))(x)
    torch.testing.assert_close(y, x @ weight.t(), rtol=1e-4, atol=1e-4)


def test_the_threads_agree():
    """One result, however many threads compute it."""
    product = ConstantProduct(
        torch.randn(96, 64, 3, 3), (1, 30, 30, 64), Window((3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    )
    x, threads = torch.randn(product.shape), torch.get_num_threads()
    found = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(CompiledCall(product, Epilogue(0, []))(x))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


@pytest.mark.parametrize(
    "shape, kernel, reason",
    [
        ((1 << 31, 1), (), "more elements than 4-byte offsets"),
        ((1, 1 << 11, 1 << 11, 1), (3, 3), "too many pixels for a table"),
    ],
)
def test_what_is_too_large_is_refused(shape, kernel, reason):
    zeros, ones = (0,) * len(kernel), (1,) * len(kernel)
    product = ConstantProduct(torch.zeros(1, 1, *kernel), shape, Window(kernel, ones, ones, zeros, zeros))
    with pytest.raises(NoLowering, match=reason):
        CompiledCall(product, Epilogue(0, []))


@pytest.mark.parametrize("groups", [1, 4])
def test_no_images(groups):
    weight = torch.zeros(4, 4 // groups, 3, 3)
    product = ConstantProduct(weight, (0, 5, 5, 4), Window((3, 3), (1, 1), (1, 1), (0, 0), (0, 0)), groups)
    assert CompiledCall(product, Epilogue(0, []))(torch.zeros(0, 5, 5, 4)).shape == (0, 3, 3, 4)


# ---- shuffles of channels -------------------------------------------------------------------

SHUFFLE = "s = Reshape(c, split)  t = Transpose<perm=[0,2,1,3,4]>(s)  y = Reshape(t, whole)"
SHUFFLED = "one call for Conv + Relu + Reshape + Transpose + Reshape"
SHUFFLES = {
    "": (SHUFFLE, SHUFFLED),
    "another axis": (
        SHUFFLE.replace("0,2,1,3,4", "0,1,2,4,3"),
        "one call for Conv + Relu; Reshape, Transpose, Reshape",
    ),
    "read between": (f"{SHUFFLE}  z = Neg(s)", "one call for Conv + Relu; Reshape"),
}


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("case", SHUFFLES)
def test_a_shuffle_of_channels_is_written_as_it_is_to_be(case, groups):
    nodes, how = SHUFFLES[case]
    held = weights(w=f"6,{4 // groups},3,3")[:-1] + ", int64[5] split = {1,2,3,5,5}, int64[4] whole = {1,6,5,5}>"
    results = "float[1,6,5,5] y" + (", float[1,2,3,5,5] z" if "z =" in nodes else "")
    conv = f"r = Conv<pads=[1,1,1,1], group={groups}>(x, w)  c = Relu(r)"
    graph = typed(f"g (float[1,4,5,5] x) => ({results}) {held} {{ {conv}  {nodes} }}")
    inputs = {"x": normal(1, 4, 5, 5)}
    kernels = kernels_of(graph, inputs, outputs(graph, inputs))
    assert kernels[0].how.startswith(how)


def test_a_shuffle_behind_channels_last():
    held = weights(w="6,4,1,1")[:-1] + ", int64[5] split = {1,5,5,2,3}, int64[4] whole = {1,5,5,6}>"
    nodes = "r = workbench.Conv_NHWC(x, w)  c = Relu(r)  s = Reshape(c, split)  t = Transpose<perm=[0,1,2,4,3]>(s)"
    graph = typed(f"g (float[1,5,5,4] x) => (float[1,5,5,6] y) {held} {{ {nodes}  y = Reshape(t, whole) }}")
    inputs = {"x": normal(1, 5, 5, 4)}
    (kernel,) = kernels_of(graph, inputs, outputs(graph, inputs))
    assert kernel.how == SHUFFLED


# ---- Concats of channels ----------------------------------------------------------------------

CONVS = "a = Conv<pads=[1,1,1,1]>(x, w)  b = Conv(x, v)  d = Conv<group=4>(x, k)  p = Relu(a)  q = Relu(b)  r = Relu(d)"
CONCATS = {
    "all are written in place": ("y = Concat<axis=1>(p, q, r)", 1),
    "one is an operand of the graph": ("y = Concat<axis=1>(p, x, q)", 1),
    "one is read elsewhere too": ("y = Concat<axis=1>(p, q, r)  z = Neg(q)", 1),
    "one is joined twice": ("y = Concat<axis=1>(p, q, p)", 0),
    "one is an output": ("y = Concat<axis=1>(a, q, r)  z = Identity(a)", 1),
    "joined along another axis": ("y = Concat<axis=2>(p, q)", 0),
}


@pytest.mark.parametrize("case", CONCATS)
def test_operands_of_a_concat_are_written_in_place(case):
    nodes, count = CONCATS[case]
    results = "float[a,b,c,d] y" + (", float[e,f,g,h] z" if "z =" in nodes else "")
    held = weights(w="6,4,3,3", v="6,4,1,1", k="4,1,1,1")
    graph = typed(f"g (float[2,4,7,6] x) => ({results}) {held} {{ {CONVS}  {nodes} }}")
    inputs = {"x": normal(2, 4, 7, 6)}
    kernels = kernels_of(graph, inputs, outputs(graph, inputs))
    assert sum("in the result of Concat" in kernel.how for kernel in kernels) == count


def test_nothing_is_copied_into_the_concat(monkeypatch):
    """The results of all three are parts of one buffer, which is the Concat's result."""
    held = weights(w="6,4,3,3", v="6,4,1,1", k="4,1,1,1")
    graph = typed(f"g (float[2,4,7,6] x) => (float[2,16,7,6] y) {held} {{ {CONVS}  y = Concat<axis=1>(p, q, r) }}")
    seen = []
    plain = CompiledCall.into
    monkeypatch.setattr(
        CompiledCall, "into", lambda call, buffer, *of: (seen.append(buffer), plain(call, buffer, *of))[1]
    )
    executor = TorchExecutor(grouped(graph))
    tensors = executor.upload({"x": normal(2, 4, 7, 6)})
    choose_kernels(executor, tensors, lambda words: None)
    seen.clear()
    y = executor.run_tensors(tensors)["y"]
    assert [buffer.data_ptr() for buffer in seen] == [y.data_ptr()] * 3


def test_concats_of_channels_last():
    held = weights(w="6,4,1,1", v="5,4,1,1")
    nodes = "a = workbench.Conv_NHWC(x, w)  b = workbench.Conv_NHWC(x, v)  p = Relu(a)  q = Relu(b)  y = Concat<axis=-1>(p, q)"
    graph = typed(f"g (float[1,5,5,4] x) => (float[1,5,5,11] y) {held} {{ {nodes} }}")
    inputs = {"x": normal(1, 5, 5, 4)}
    kernels = kernels_of(graph, inputs, outputs(graph, inputs))
    assert [kernel.how for kernel in kernels] == [
        "one call for Conv + Relu",
        "one call for Conv + Relu, in the result of Concat",
    ]
