"""No-ops, neutral constants, repeated operators and pairs: what ONNX Runtime gives decides, also for odd numbers."""

import itertools
import random

import numpy as np
import pytest

from passes.cleanup.cancel_pairs import CancelPairs
from passes.cleanup.merge_repeated import MergeRepeated
from passes.cleanup.remove_neutral import RemoveNeutral
from passes.cleanup.remove_noops import RemoveNoops
from tests.running import outputs, typed
from workbench.ir import DataType, Edit, constant
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass
from workbench.rewrite.analyses.casts import is_one_cast, keeps_numbers

END = 2**63 - 1
BOUNDS = (0, 1, 2, 5, 6, 7, 1000, 2**31 - 1, END, -1, -2, -6, -7, -1000, -(2**63))
STEPS = (1, 1, 1, 2, 3, -1, -2)


def run(pass_, text, mode="exact"):
    graph = typed(text)
    run_pass(pass_, graph, PassContext(load_profile("cuda"), mode=mode), check_each=True)
    return graph


def ops(graph):
    return [node.op for node in graph.nodes]


def numbered(shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def assert_same(pass_, text, *shapes):
    """The pass changes nothing of what comes out for x of these shapes; its graph is returned."""
    before, after = typed(text), run(pass_, text)
    for shape in shapes if ops(after) != ops(before) else ():
        expected = outputs(before, {"x": numbered(shape)})
        found = outputs(after, {"x": numbered(shape)})
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=f"{text} {shape}")
            assert found[name].shape == array.shape
    return after


# ---- slices ------------------------------------------------------------------------------------


def sliced(dim, *cuts):
    """One axis, sliced several times; the last is followed by Neg."""
    lines, source, constants = [], "x", []
    for i, (start, end, step) in enumerate(cuts):
        constants += [f"int64[1] s{i} = {{{start}}}, int64[1] e{i} = {{{end}}}, int64[1] p{i} = {{{step}}}"]
        lines += [f"a{i} = Slice({source}, s{i}, e{i}, i, p{i})"]
        source = f"a{i}"
    held = ", ".join(["int64[1] i = {0}", *constants])
    return f"g (float[{dim}] x) => (float[M] y) <{held}> {{ {'  '.join(lines)}  y = Neg({source}) }}"


def drawn(draw):
    """A start, end and step; not backward to INT_MAX, where ONNX and ONNX Runtime differ."""
    step = draw.choice(STEPS)
    return draw.choice(BOUNDS), draw.choice([n for n in BOUNDS if step > 0 or n < 2**31 - 1]), step


def test_slices_take_the_same():
    """Slices of everything go, two become one: with a known length, and with an unknown one of many values."""
    draw = random.Random(0)
    removed = merged = 0
    for _ in range(40):
        cuts = [drawn(draw) for _ in range(2)]
        known, unknown = sliced(6, *cuts), sliced("N", *cuts)
        merged += 2 - ops(assert_same(MergeRepeated(), known, (6,))).count("Slice")
        merged += 2 - ops(assert_same(MergeRepeated(), unknown, (0,), (1,), (5,), (6,), (7,), (8,))).count("Slice")
        removed += 2 - ops(assert_same(RemoveNoops(), known, (6,))).count("Slice")
        removed += 2 - ops(assert_same(RemoveNoops(), unknown, (0,), (1,), (5,), (7,))).count("Slice")
    assert merged > 30 and removed > 0


@pytest.mark.parametrize(("first", "second"), list(itertools.product(((1, END, 1), (1, -1, 2), (2, 5, 1)), repeat=2)))
def test_slices_of_unknown_length(first, second):
    assert_same(MergeRepeated(), sliced("N", first, second), *((n,) for n in range(10)))


@pytest.mark.parametrize(
    ("cut", "known", "unknown"),
    [
        ((0, END, 1), True, True),
        ((0, 2**31 - 1, 1), True, True),
        ((-(2**63), END, 1), True, True),
        ((0, 6, 1), True, False),
        ((-6, 1000, 1), True, False),
        ((0, -1, 1), False, False),
        ((0, END, 2), False, False),
        ((-1, -(2**63), -1), False, False),
        ((1, END, 1), False, False),
    ],
)
def test_slice_of_everything(cut, known, unknown):
    assert ops(run(RemoveNoops(), sliced(6, cut))) == (["Neg"] if known else ["Slice", "Neg"])
    assert ops(run(RemoveNoops(), sliced("N", cut))) == (["Neg"] if unknown else ["Slice", "Neg"])


def test_slice_of_one_element_backward_is_everything():
    assert ops(run(RemoveNoops(), sliced(1, (-1, -(2**63), -1)))) == ["Neg"]


def test_slice_starts_before_the_front_with_a_negative_step():
    """ONNX moves such a start to 0, and takes the first element; Python takes nothing."""
    graph = assert_same(MergeRepeated(), sliced(6, (0, END, 1), (-100, -100, -1)), (6,))
    assert ops(graph) == ["Slice", "Neg"]
    assert outputs(graph, {"x": numbered((6,))})["y"].shape == (1,)


def test_slices_of_other_axes_that_are_left_out_or_negative():
    text = """g (float[N,4,5] x) => (float[A,B,C] y)
        <int64[2] s = {1, 0}, int64[2] e = {3, 3}, int64[1] t = {-2}, int64[1] f = {9}, int64[1] i = {-1}> {
        a = Slice(x, s, e)
        y = Slice(a, t, f, i)
    }"""
    graph = assert_same(MergeRepeated(), text, (0, 4, 5), (2, 4, 5), (7, 4, 5))
    assert ops(graph) == ["Slice"]


def test_slice_with_another_reader_or_a_computed_operand_stays():
    text = """g (float[6] x, int64[1] c) => (float[M] y, float[K] z)
        <int64[1] s = {1}, int64[1] e = {5}> { a = Slice(x, s, e)  y = Slice(a, c, e)  z = Slice(a, s, e) }"""
    assert ops(run(MergeRepeated(), text)) == ["Slice", "Slice", "Slice"]


# ---- shapes ------------------------------------------------------------------------------------


def test_reshape_of_reshape_with_zeros():
    """A zero copies an axis of what stands between: written out where that is a number."""
    text = """g (float[4,6] x) => (float[A,B,C] y) <int64[2] s = {3, 8}, int64[3] t = {0, 2, -1}> {
        a = Reshape(x, s)
        y = Reshape(a, t)
    }"""
    graph = assert_same(MergeRepeated(), text, (4, 6))
    assert ops(graph) == ["Reshape"]
    assert graph.constants[graph.nodes[0].inputs[1]].numpy().tolist() == [3, 2, -1]


def test_reshape_of_unsqueeze_with_a_zero_for_a_symbol():
    text = """g (float[N,6] x) => (float[A,B,C] y) <int64[1] i = {1}, int64[3] t = {0, 3, 2}> {
        a = Unsqueeze(x, i)
        y = Reshape(a, t)
    }"""
    graph = assert_same(MergeRepeated(), text, (0, 6), (1, 6), (3, 6))
    assert ops(graph) == ["Reshape"]
    moved = """g (float[6,N] x) => (float[A,B,C] y) <int64[2] s = {-1, 6}, int64[3] t = {0, 3, 2}> {
        a = Reshape(x, s)
        y = Reshape(a, t)
    }"""
    assert ops(assert_same(MergeRepeated(), moved, (6, 0), (6, 1), (6, 3))) == ["Reshape"]


def test_reshape_with_allowzero():
    """Its zeros are zeros, whatever stood before."""
    text = """g (float[N,0] x) => (float[A,B,C] y) <int64[2] s = {0, 5}, int64[3] t = {0, 2, 7}> {
        a = Reshape<allowzero=1>(x, s)
        y = Reshape<allowzero=1>(a, t)
    }"""
    assert ops(assert_same(MergeRepeated(), text, (3, 0), (0, 0))) == ["Reshape"]
    kept = """g (float[N,3] x) => (float[A,B] y) <int64[2] s = {0, 4}> { a = Reshape<allowzero=1>(x, s)  y = Neg(a) }"""
    assert ops(assert_same(RemoveNoops(), kept, (0, 3))) == ["Reshape", "Neg"]


@pytest.mark.parametrize(
    "second", ["Squeeze(a)", "Squeeze(a, i)", "Flatten<axis=2>(a)", "Reshape(a, s)", "Unsqueeze(a, i)"]
)
@pytest.mark.parametrize("first", ["Squeeze(x, i)", "Flatten(x)", "Reshape(x, s)", "Unsqueeze(x, i)"])
@pytest.mark.parametrize("shape", ["N,1,1,6", "N,1,1,M", "1,1,1,6"])
def test_pairs_of_shapes(first, second, shape):
    text = f"""g (float[{shape}] x) => (float[?] y) <int64[1] i = {{1}}, int64[4] s = {{-1, 1, 2, 3}}> {{
        a = {first}
        b = {second}
        y = Neg(b)
    }}"""
    sizes = [tuple(int(d) if d.isdigit() else n for d in shape.split(",")) for n in (6, 1, 2, 0)]
    for size in dict.fromkeys(sizes):
        try:
            outputs(typed(text), {"x": numbered(size)})
        except Exception:  # what is written does not fit this shape
            continue
        for pass_ in (MergeRepeated(), CancelPairs(), RemoveNoops()):
            assert_same(pass_, text, size)


@pytest.mark.parametrize(("axis", "goes"), [(1, True), (-1, False)])
def test_unsqueeze_and_squeeze_of_a_value_of_unknown_rank(axis, goes):
    """The same axes cancel when counted from the front; from the end they need the rank."""
    text = f"g (float[] x) => (float[] y) <int64[1] i = {{{axis}}}> {{ a = Unsqueeze(x, i)  b = Squeeze(a, i)  y = Neg(b) }}"
    assert (ops(assert_same(CancelPairs(), text, (2, 3))) == ["Neg"]) == goes


def test_squeeze_without_axes_may_take_more():
    text = "g (float[N,3] x) => (float[?] y) <int64[1] i = {1}> { a = Unsqueeze(x, i)  b = Squeeze(a)  y = Neg(b) }"
    for pass_ in (CancelPairs(), MergeRepeated(), RemoveNoops()):
        assert_same(pass_, text, (1, 3), (2, 3))


def test_first_of_a_pair_stays_for_others():
    text = """g (float[N,3] x) => (float[N,3] y, float[N,1,3] z) <int64[1] i = {1}> {
        a = Unsqueeze(x, i)
        b = Squeeze(a, i)
        y = Neg(b)
        z = Neg(a)
    }"""
    assert sorted(ops(assert_same(CancelPairs(), text, (2, 3)))) == ["Neg", "Neg", "Unsqueeze"]


def test_concat_takes_in_the_concat_along_its_own_axis():
    """Its first operand is joined along another axis and stays."""
    text = """g (float[2,3] x) => (float[6,6] y) {
        other = Concat<axis=1>(x, x)
        same = Concat<axis=-2>(other, other)
        more = Concat<axis=1>(x, x)
        y = Concat<axis=0>(more, same)
    }"""
    assert ops(assert_same(MergeRepeated(), text, (2, 3))) == ["Concat", "Concat", "Concat"]


@pytest.mark.parametrize(("count", "sizes", "goes"), [(2, (3, 2), True), (2, (2, 3), False), (3, (2, 2, 1), True)])
def test_concat_and_split_into_a_number_of_pieces(count, sizes, goes):
    """Five elements in two pieces are three and two."""
    names = [f"p{i}" for i in range(count)]
    parts = ", ".join(f"float[{size}] x{i}" for i, size in enumerate(sizes))
    joined = ", ".join(f"x{i}" for i in range(count))
    results = ", ".join(f"float[?] y{i}" for i in range(count))
    negated = "  ".join(f"y{i} = Neg({name})" for i, name in enumerate(names))
    text = f"""g ({parts}) => ({results}) {{
        a = Concat<axis=0>({joined})
        {", ".join(names)} = Split<num_outputs={count}>(a)
        {negated}
    }}"""
    before, after = typed(text), run(CancelPairs(), text)
    assert ("Split" not in ops(after)) == goes
    inputs = {f"x{i}": numbered((size,)) + i for i, size in enumerate(sizes)}
    expected = outputs(before, inputs)
    for name, array in outputs(after, inputs).items():
        np.testing.assert_array_equal(array, expected[name])


# ---- numbers -----------------------------------------------------------------------------------


NAMES = "BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FLOAT16 BFLOAT16 FLOAT DOUBLE".split()  # noqa: SIM905


@pytest.mark.parametrize("source", [DataType[name] for name in NAMES if name not in ("BOOL", "BFLOAT16")])
def test_kept_numbers_come_back(source):
    """The largest, the smallest and odd numbers of a type survive a cast there and back, exactly where it is said."""
    kind = source.numpy()
    info = np.finfo(kind) if np.issubdtype(kind, np.floating) else np.iinfo(kind)
    hard = [info.max, info.min, kind.type(1) - (info.eps if hasattr(info, "eps") else 0)]
    hard += [info.max - 1, info.max // 2] if np.issubdtype(kind, np.integer) else [info.tiny, info.smallest_subnormal]
    numbers = np.array(hard, kind)
    for target in (DataType[name] for name in NAMES if name not in ("BOOL", "BFLOAT16")):
        with np.errstate(all="ignore"):
            there = numbers.astype(target.numpy())
            back = there.astype(kind)
        exact = bool((back == numbers).all()) and bool((there.astype(object) == numbers.astype(object)).all())
        assert keeps_numbers(source, target) == exact, (source, target)


def test_casts_that_are_not_one():
    types = {name: DataType[name] for name in NAMES}
    assert is_one_cast(types["FLOAT16"], types["FLOAT"], types["BFLOAT16"])
    assert is_one_cast(types["INT8"], types["INT32"], types["UINT8"])
    assert not is_one_cast(types["FLOAT"], types["FLOAT16"], types["FLOAT"])
    assert not is_one_cast(types["FLOAT"], types["INT64"], types["FLOAT"])
    assert not is_one_cast(types["FLOAT16"], types["FLOAT"], types["INT8"])
    assert not is_one_cast(types["INT32"], types["DOUBLE"], types["FLOAT16"])
    assert not is_one_cast(types["INT64"], types["BOOL"], types["INT64"])
    assert is_one_cast(types["BOOL"], types["INT64"], types["FLOAT"])


def test_every_quantized_number_comes_back():
    """All of an int8 and a uint16, with scales from small to large and in every channel."""
    for kind, zero, low, high in (("int8", 3, -128, 127), ("uint8", 250, 0, 255), ("uint16", 9, 0, 65535)):
        for scale in (2.0**-100, 1e-9, 0.1, 1 / 3, 1.0, 12345.678, 2.0**100):
            text = f"""g ({kind}[N] x) => ({kind}[N] y) <float s = {{{scale!r}}}, {kind} z = {{{zero}}}> {{
                d = Identity(x)
                a = DequantizeLinear(d, s, z)
                y = QuantizeLinear(a, s, z)
            }}"""
            numbers = {"x": np.arange(low, high + 1).astype(kind)}
            assert ops(run(CancelPairs(), text)) == ["Identity"]
            np.testing.assert_array_equal(outputs(typed(text), numbers)["y"], numbers["x"])


def test_quantized_along_other_axes_stay():
    text = """g (int8[2,2] x) => (int8[2,2] y) <float[2] s = {1, 2}, int8[2] z = {0, 0}> {
        a = DequantizeLinear<axis=0>(x, s, z)
        b = QuantizeLinear<axis=1>(a, s, z)
        y = Neg(b)
    }"""
    assert "QuantizeLinear" in ops(run(CancelPairs(), text))
    assert ops(run(CancelPairs(), text.replace("axis=1", "axis=0"))) == ["Neg"]


@pytest.mark.parametrize("kind", ["float", "double", "float16", "int32", "uint8"])
def test_clips_of_all_kinds(kind):
    """Bounds left out, in every order; NaN and infinities come out the same."""
    bounds = ("", "a", "b", "c")
    for low, high, again, top in itertools.product(bounds, repeat=4):
        text = f"""g ({kind}[N] x) => ({kind}[N] y) <{kind} a = {{1}}, {kind} b = {{3}}, {kind} c = {{6}}> {{
            k = Clip(x, {low}, {high})
            y = Clip(k, {again}, {top})
        }}"""
        if "" in (low, again) or "" in (high, top) or not max(low, again) < min(high, top):
            continue
        before, after = typed(text), run(MergeRepeated(), text)
        assert len(after) == 1
        numbers = np.array([0, 1, 2, 3, 4, 5, 6, 7, 100] * 3).astype(before.tensor_type("x").dtype.numpy())
        if kind.startswith(("float", "double")):
            numbers[::5] = [np.nan, np.inf, -np.inf, np.nan, -0.0, np.nan]
        np.testing.assert_array_equal(outputs(after, {"x": numbers})["y"], outputs(before, {"x": numbers})["y"])


def test_clip_with_crossed_or_nan_bounds_stays():
    text = "g (float[N] x) => (float[N] y) <float a = {5}, float b = {2}> { k = Clip(x, a)  y = Clip(k, b) }"
    assert ops(run(MergeRepeated(), text)) == ["Clip"]
    assert ops(run(MergeRepeated(), text.replace("Clip(x, a)", "Clip(x, a, b)"))) == ["Clip", "Clip"]
    graph = typed(text)
    graph.apply(Edit(constants={"a": constant(np.array(np.nan, np.float32))}))
    run_pass(MergeRepeated(), graph, PassContext(load_profile("cuda")))
    assert ops(graph) == ["Clip", "Clip"]


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Pow"])
@pytest.mark.parametrize("shape", ["", "[1]", "[2]", "[3]", "[1,1]"])
@pytest.mark.parametrize("number", ["0", "-0.0", "1"])
def test_neutral_constants_of_any_shape(op, shape, number):
    """The result keeps its shape, the sign of its zeros, and its NaN; in mode "fast" its shape and all else."""
    many = int(np.prod([int(n) for n in shape.strip("[]").split(",") if n]))
    values = ", ".join([number] * many)
    text = f"g (float[N] x) => (float[?] y) <float{shape} c = {{{values}}}> {{ a = {op}(x, c)  y = Neg(a) }}"
    numbers = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -3.4e38, 2.5], np.float32)
    exact, fast = run(RemoveNeutral(), text), run(RemoveNeutral(), text, "fast")
    for length in (0, 1, 8) if len(fast) == 1 else ():
        inputs = {"x": numbers[:length]}
        expected = outputs(typed(text), inputs)["y"]
        assert outputs(fast, inputs)["y"].shape == expected.shape
        found = outputs(exact, inputs)["y"]
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


def test_plus_zero_goes_in_fast_mode_only():
    text = "g (float[N] x) => (float[N] y) <float z = {0}> { a = Add(x, z)  y = Neg(a) }"
    assert ops(run(RemoveNeutral(), text, "exact")) == ops(run(RemoveNeutral(), text, "ieee")) == ["Add", "Neg"]
    assert ops(run(RemoveNeutral(), text, "fast")) == ["Neg"]


def test_power_has_the_type_of_its_base():
    text = "g (float[N] x) => (float[N] y) <double e = {1}> { a = Pow(x, e)  y = Neg(a) }"
    graph = run(RemoveNeutral(), text)
    assert ops(graph) == ["Neg"]
    assert graph.tensor_type("y").dtype == DataType.FLOAT


def test_no_ops_inside_bodies_go():
    text = """g (float[N] x, bool c) => (float[N] y) <float u = {1}> {
        y = If(c) <
            then_branch = t () => (float[N] r) { a = Identity(x)  b = Mul(a, u)  r = Neg(b) },
            else_branch = e () => (float[N] r2) { r2 = Identity(x) }
        >
    }"""
    graph = run(RemoveNeutral(), text)
    run_pass(RemoveNoops(), graph, PassContext(load_profile("cuda")), check_each=True)
    bodies = graph.node("If_y").bodies
    assert ops(bodies["then_branch"]) == ["Neg"] and ops(bodies["else_branch"]) == ["Identity"]
