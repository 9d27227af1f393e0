"""Casts around operators that move elements: the same bits with fewer Casts, never without one that loses numbers."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import passes
from tests.fuzz import failure, preset
from tests.precision_reports import MIXED
from tests.random_graphs import random_graph
from tests.running import outputs, typed
from workbench.interfaces import api
from workbench.ir import DataType, Graph
from workbench.rewrite import NoMatch, PassContext, run_pass
from workbench.rewrite.analyses.casts import CASTABLE, keeps_numbers
from workbench.rewrite.analyses.element_types import NO_KERNEL

CLS = passes.all_passes()["push_casts"]
RULES = {rule.name: rule for rule in CLS.rules}
TYPES = sorted(CASTABLE)


def name(dtype: DataType) -> str:
    return dtype.name.lower()


@pytest.mark.parametrize(("source", "wide"), list(permutations(TYPES, 2)), ids=lambda dtype: name(DataType(dtype)))
def test_a_pair_around_an_operator_goes_only_if_the_type_between_represents_every_number(source, wide):
    before = typed(f"""g ({name(source)}[2,3] x) => ({name(source)}[3,2] y) {{
        a = Cast<to={wide.value}>(x)  t = Transpose<perm=[1,0]>(a)  y = Cast<to={source.value}>(t)
    }}""")
    after = before.copy()
    step = run_pass(CLS(), after, PassContext(mode="fast"))
    assert casts_of(after) == (0 if keeps_numbers(source, wide) else 2)
    if not keeps_numbers(source, wide):
        with pytest.raises(NoMatch, match=f"{name(wide)}, to which .* does not represent every {name(source)}"):
            RULES["through"].match(before, before.node("Cast_y"), CLS())
        return
    assert len(step.rewrites) == 1
    if source.bitwidth <= 16:
        numbers = np.arange(2**source.bitwidth, dtype=f"uint{source.bitwidth}").view(source.numpy())
        numbers = np.array([False, True]) if source == DataType.BOOL else numbers
        with np.errstate(invalid="ignore"):
            back = numbers.astype(wide.numpy()).astype(source.numpy())
        assert same_bits(back, numbers)


def casts_of(graph: Graph) -> int:
    return sum(node.op == "Cast" for node in graph.nodes)


def same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    """NaN of any bits are the same."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if found.dtype.kind in "biu":
        return np.array_equal(found, expected)
    differ = found.view(f"u{found.itemsize}") != expected.view(f"u{expected.itemsize}")
    with np.errstate(invalid="ignore"):
        return not (differ & ~(np.isnan(found) & np.isnan(expected))).any()


FLOATS = (DataType.FLOAT16, DataType.FLOAT, DataType.DOUBLE)
INTEGERS = (DataType.INT8, DataType.UINT8, DataType.INT32, DataType.INT64)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.1, 7.0, np.nan, np.inf, -np.inf, 65504.0, 6e-8, 3e38)


class RandomCasts:
    """A random graph: chains of a Cast, operators and a Cast back or to a third type, between operators that compute."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.values: list[tuple[str, DataType, tuple[int, ...]]] = []
        self.read: set[str] = set()
        self.lines: list[str] = []
        self.source = ("", ())
        self.constants: list[str] = []
        self.inputs = ["bool[2,3] c"]
        for i, dtype in enumerate((DataType.INT8, DataType.FLOAT16, self.one((*FLOATS, *INTEGERS, DataType.BOOL)))):
            self.inputs.append(f"{name(dtype)}[2,3] x{i}")
            self.values.append((f"x{i}", dtype, (2, 3)))
        for _ in range(int(self.draw.integers(2, 5))):
            self.add_chain(*self.one(self.values[-4:]))

    def one(self, items):
        return items[int(self.draw.integers(len(items)))]

    def add_chain(self, value: str, dtype: DataType, shape: tuple[int, ...]) -> None:
        if dtype in FLOATS and self.draw.random() < 0.3:  # in float, if float16
            value = self.add(f"Mul({value}, {value})", dtype, shape, value)
        wide = self.cast_type(dtype)
        self.source = (value, shape)
        value = self.add(f"Cast<to={wide.value}>({value})", wide, shape, value)
        for _ in range(int(self.draw.integers(1, 4))):
            value, shape = self.add_operator(value, wide, shape)
        last = (
            dtype if self.draw.random() < 0.6 and not (wide in FLOATS and dtype in INTEGERS) else self.cast_type(wide)
        )
        self.add(f"Cast<to={last.value}>({value})", last, shape, value)

    def cast_type(self, dtype: DataType) -> DataType:
        """Another type. No float becomes an integer, which is undefined if it does not fit."""
        types = (*FLOATS, *INTEGERS, DataType.BOOL) if dtype not in FLOATS else (*FLOATS, DataType.BOOL)
        return self.one([other for other in types if other != dtype])

    def add_operator(self, value: str, dtype: DataType, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        size, kind = int(np.prod(shape)), self.one(("move", "move", "repeat", "number", "pair", "split"))
        if kind == "move" and len(shape) == 2:
            return self.add(f"Transpose<perm=[1,0]>({value})", dtype, shape[::-1], value), shape[::-1]
        if kind == "repeat" and size < 50:
            call = f"Expand({value}, {self.numbers([2, *[1] * len(shape)])})"
            return self.add(call, dtype, (2, *shape), value), (2, *shape)
        if kind == "number" and dtype in (DataType.INT8, DataType.INT32, *FLOATS):
            return self.add(f"{self.one(('Neg', 'Relu', 'Abs'))}({value})", dtype, shape, value), shape
        if kind == "pair" and shape == (2, 3) and dtype not in NO_KERNEL["Where"]:
            return self.add(f"Where(c, {value}, {self.other(dtype)})", dtype, shape, value), shape
        if kind == "pair" and len(shape) == 2 and shape[1] == 3:
            return self.add(f"Concat<axis=0>({value}, {self.other(dtype)})", dtype, (shape[0] + 2, 3), value), (
                shape[0] + 2,
                3,
            )
        if kind == "split" and shape[0] % 2 == 0:
            half = (shape[0] // 2, *shape[1:])
            result = self.add(f"Split<num_outputs=2>({value})", dtype, half, value, second="s")
            target = self.cast_type(dtype)
            self.add(f"Cast<to={target.value}>({result}s)", target, half, f"{result}s")
            return result, half
        return self.add(f"Reshape({value}, {self.numbers([-1])})", dtype, (size,), value), (size,)

    def other(self, dtype: DataType) -> str:
        """A value of shape [2,3]: an input, or what the chain begins with, cast to the type."""
        fitting = [value for value, own, _ in self.values[:3] if own not in FLOATS or dtype in FLOATS]
        source = self.source[0] if self.source[1] == (2, 3) and self.draw.random() < 0.5 else self.one(fitting)
        result = self.add(f"Cast<to={dtype.value}>({source})", dtype, (2, 3), source)
        self.read.add(result)
        return result

    def numbers(self, values: list[int]) -> str:
        constant = f"k{len(self.constants)}"
        self.constants.append(f"int64[{len(values)}] {constant} = {{{', '.join(map(str, values))}}}")
        return constant

    def add(self, call: str, dtype: DataType, shape: tuple[int, ...], read: str, second: str = "") -> str:
        """The name of the result. second: the name of a second one, behind that of the first."""
        result = f"v{len(self.lines)}"
        self.lines.append(f"{result}{f', {result}{second}' if second else ''} = {call}")
        self.read.add(read)
        self.values.append((result, dtype, shape))
        return result

    @property
    def text(self) -> str:
        results = [(v, t, s) for v, t, s in self.values[3:] if v not in self.read]
        types = ", ".join(f"{name(t)}[{','.join(map(str, s))}] {v}" for v, t, s in results)
        body = "  ".join(self.lines)
        return f"g ({', '.join(self.inputs)}) => ({types}) <{', '.join(self.constants)}> {{ {body} }}"

    def feeds(self, graph: Graph) -> dict[str, np.ndarray]:
        feeds = {}
        with np.errstate(over="ignore"):
            for value in graph.inputs:
                dtype = graph.tensor_type(value).dtype.numpy()
                numbers = self.draw.choice(SPECIAL, 6) if dtype.kind == "f" else self.draw.integers(0, 256, 6)
                feeds[value] = numbers.astype(dtype).reshape(2, 3)
        return feeds


def to_cast(graph: Graph) -> tuple[int, int]:
    """The number of Casts, and of the elements that they read."""
    casts = [node for node in graph.nodes if node.op == "Cast"]
    return len(casts), sum(graph.tensor_type(node.inputs[0]).elements for node in casts)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("mode", ["exact", "ieee"])
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_random_graphs_give_the_same_bits_with_fewer_casts_or_fewer_elements_to_cast(first, mode):
    fired = 0
    for seed in range(first, first + 100):
        made = RandomCasts(seed)
        before = typed(made.text)
        after, measure = before.copy(), to_cast(before)
        for rewrite in CLS().run(after, PassContext(mode=mode)):
            after.apply(rewrite.edit)
            fired += 1
            assert to_cast(after) < measure, f"seed {seed}: {rewrite.sentence}"
            measure = to_cast(after)
        feeds = made.feeds(before)
        expected, found = outputs(before, feeds), outputs(after, feeds)
        for value in before.outputs if mode == "exact" else ():
            assert same_bits(found[value], expected[value]), f"seed {seed}, {value}\n{made.text}"
    assert fired > 50


# ---- where ONNX Runtime rounds to float16 ------------------------------------------------

LEFT_OUT = """g (float[N,4] x) => (float16[N,2] y) {
    a, b = Split<axis=1, num_outputs=2>(x)  c = Cast<to=10>(a)  d = Cast<to=10>(b)  y = Sub(c, d)
}"""


def test_onnx_runtime_leaves_out_a_cast_to_float16_that_the_rewrite_keeps():
    """Of Sub it has no kernel for float16; the Cast that is moved away from it rounds as ONNX says."""
    before = typed(LEFT_OUT)
    exact, rounded = before.copy(), before.copy()
    assert not run_pass(CLS(), exact, PassContext(mode="exact")).rewrites
    (rewrite,) = run_pass(CLS(), rounded, PassContext(mode="ieee")).rewrites
    assert rewrite.rule.name == "in float16"
    x = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    halves = x.astype(np.float16).astype(np.float32)
    as_onnx_says = (halves[:, :2] - halves[:, 2:]).astype(np.float16)
    assert same_bits(outputs(rounded, {"x": x})["y"], as_onnx_says)
    assert not same_bits(outputs(before, {"x": x})["y"], as_onnx_says)


@pytest.mark.parametrize(
    "text",
    [
        """g (float16[N,2] x) => (float16[2,N] y) {
            m = Mul(x, x)  a = Cast<to=1>(m)  t = Transpose<perm=[1,0]>(a)  y = Cast<to=10>(t) }""",
        """g (float[N,2] x) => (float16[2,N] y, float16[N,2] z) {
            h = Cast<to=10>(x)  z = Neg(h)  a = Cast<to=1>(h)  t = Transpose<perm=[1,0]>(a)  y = Cast<to=10>(t) }""",
        """g (float[3,1] x) => (bool[3,4] y) <int64[2] s = {1, 4}> {
            h = Cast<to=10>(x)  e = Expand(h, s)  y = Cast<to=9>(e) }""",
    ],
    ids=["computed in float", "another reader", "a Cast above"],
)
def test_float16_that_may_not_have_been_rounded_stays_in_mode_exact(text):
    assert not run_pass(CLS(), typed(text), PassContext(mode="exact")).rewrites


def test_a_cast_of_an_input_is_rounded_and_goes_in_mode_exact():
    graph = typed("""g (float[N,2] x) => (float16[2,N] y) {
        h = Cast<to=10>(x)  a = Cast<to=1>(h)  t = Transpose<perm=[1,0]>(a)  y = Cast<to=10>(t) }""")
    run_pass(CLS(), graph, PassContext(mode="exact"))
    assert [node.op for node in graph.nodes] == ["Cast", "Transpose"]


def test_a_pad_that_fills_with_an_attribute_stays():
    """Before opset 11; its number would be rounded to the first type."""
    graph = typed("""<ir_version: 8, opset_import: ["": 10]> g (float16[2] x) => (double[3] y) {
        a = Cast<to=1>(x)  p = Pad<pads=[0,1], value=0.1>(a)  y = Cast<to=11>(p) }""")
    with pytest.raises(NoMatch, match="Pad 'Pad_p' fills with a number of no type of its own"):
        RULES["in float16"].match(graph, graph.node("Cast_y"), CLS())


# ---- models as converters to float16 leave them ------------------------------------------------


@pytest.mark.parametrize(("low", "left"), [("-10000", 2), ("-3.4e38", 4)], ids=["a mask of float16", "a mask of float"])
def test_a_mixed_model_keeps_the_casts_at_its_ends_and_those_of_what_float16_does_not_represent(low, left):
    before = typed(MIXED.format(low=low))
    after = api.optimize(before, preset="simplify").graph
    assert (casts_of(before), casts_of(after)) == (16, left)
    draw = np.random.default_rng(0)
    feeds = {"x": draw.standard_normal((1, 8, 16)), "w": draw.standard_normal((16, 16)) / 4}
    feeds |= {"table": draw.standard_normal((10, 16)), "i": draw.integers(0, 10, (1, 8))}
    feeds["mask"] = draw.integers(0, 2, (1, 1, 8, 8))
    feeds = {value: array.astype(before.tensor_type(value).dtype.numpy()) for value, array in feeds.items()}
    np.testing.assert_allclose(outputs(after, feeds)["y"], outputs(before, feeds)["y"], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("mode", ["exact", "ieee", "fast"])
@pytest.mark.parametrize("between", ["b = Identity(a)", "b = Transpose<perm=[1,0]>(a)", "b = Concat<axis=0>(a, a)"])
def test_a_cast_to_float16_and_back_stays(mode, between):
    """What converters insert between two operators that they leave in float, and what some tools remove: it rounds
    (microsoft/onnxconverter-common issue 271, microsoft/onnxruntime issue 20346)."""
    before = typed(
        f"g (float[3,3] x) => (float[A,3] y) {{ a = Cast<to=10>(x)  {between}  c = Cast<to=1>(b)  y = Neg(c) }}"
    )
    after = api.optimize(before, preset="simplify", mode=mode).graph
    assert casts_of(after) == 2
    x = {"x": np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)}
    assert same_bits(outputs(after, x)["y"], outputs(before, x)["y"])


# ---- with the other passes ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_with_the_passes_that_move_what_casts_are_moved_across_the_preset_ends(seed):
    """A Slice and a Gather move before Casts, reshapes and transposes across them; a second run finds nothing."""
    others = [example for other in ("shrink_first", "push_reshapes", "push_transposes", "absorb_expand", "cut_concat")
              for example in passes.all_passes()[other].examples()]  # fmt: skip
    draw = np.random.default_rng(seed)
    own = CLS.examples()[seed % len(CLS.examples())]
    graph = random_graph(seed, [own.before, others[draw.integers(len(others))].before])
    assert failure(graph, preset("simplify", "ieee"), seed) == ""


@pytest.mark.parametrize("call", ["Slice(a, s, e)", "Gather(a, s)"])
def test_a_cast_of_which_little_is_read_comes_after_the_selection(call):
    """By shrink_first; this pass moves a Cast before a Gather only where that gives more elements than it reads."""
    graph = typed(f"""g (float16[8,4] x) => (float[A,4] y) <int64[1] s = {{0}}, int64[1] e = {{2}}> {{
        a = Cast<to=1>(x)  b = {call}  y = Neg(b) }}""")
    found = api.optimize(graph, preset="simplify").graph
    assert [node.op for node in found.nodes] == [call.partition("(")[0], "Cast", "Neg"]
