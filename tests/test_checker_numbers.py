"""The checker's arithmetic: minimum cuts, folded sizes, types, Transposes, drawn inputs, and what rounding may do."""

import itertools
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from workbench.checker import drawing, minimum_cut
from workbench.checker.comparing import Differences, largest_difference, narrowed_outputs
from workbench.checker.drawing import other_sizes, random_array, size_of_dim, with_corners
from workbench.checker.files import plain_model
from workbench.checker.folding import FOLDED, fold_arithmetic, small_constants
from workbench.checker.minimum_cut import Network
from workbench.checker.outcome import DoesNotHold, NotFinished, Unreadable, escaped, in_quotes, listed, one_line
from workbench.checker.rounding import largest_rounding, moved_array, with_noise
from workbench.checker.sessions import cpu_session
from workbench.checker.tensors import as_tensor, plain_constant
from workbench.checker.transpose_traffic import axis_order, moves, stored_bytes, transpose_perm, transposed_bytes
from workbench.checker.types import (
    contradiction,
    differ_in_width,
    in_words,
    says_more,
    sizes_of,
    symbol_of,
    symbols_meant,
    with_numbers,
)
from workbench.checker.widening import has_constants, widened

HEADER = '<ir_version: 8, opset_import: ["": 17, "f": 1]> main '
FLOAT, HALF, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT64


def plain(text, functions=""):
    return plain_model(parser.parse_model(HEADER + text + functions), Path(), "m.onnx")


# ---- minimum cuts ------------------------------------------------------------------------------


def test_the_least_cut_is_that_of_all_assignments():
    for seed in range(60):
        draw = random.Random(seed)
        vertices = [Network.SOURCE, Network.SINK, *range(draw.randint(1, 5))]
        terms = [
            (draw.choices(vertices, k=draw.randint(1, 4)), draw.choice((0, 1, 2, 5, 9)))
            for _ in range(draw.randint(1, 9))
        ]
        network = Network()
        for members, cost in terms:
            network.add(members, cost)
        inner = [v for v in vertices if v not in (Network.SOURCE, Network.SINK)]
        sides = (
            {Network.SOURCE: 0, Network.SINK: 1, **dict(zip(inner, bits, strict=True))}
            for bits in itertools.product((0, 1), repeat=len(inner))
        )
        costs = [sum(cost for members, cost in terms if len({side[v] for v in members}) > 1) for side in sides]
        assert network.minimum_cut() == min(costs) == network.minimum_cut(), seed


def test_a_cut_goes_where_paths_are_narrow():
    network = Network()
    for chain in ((Network.SOURCE, 1, 2, Network.SINK), (Network.SOURCE, 3, 2), (1, 4, Network.SINK)):
        for pair in itertools.pairwise(chain):
            network.add(pair, 3)
    assert network.minimum_cut() == 6
    assert Network().minimum_cut() == 0


def test_a_cut_that_takes_too_long_is_not_finished(monkeypatch):
    network = Network()
    network.add((Network.SOURCE, Network.SINK), 1)
    monkeypatch.setattr(minimum_cut, "_MAX_VISITS", 1)
    with pytest.raises(NotFinished, match="takes more than 1 visits"):
        network.minimum_cut()


# ---- folded sizes ------------------------------------------------------------------------------


def folded(text, opset=17, **types):
    """What the nodes of a body compute, as far as it is known."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main (float[n] x) => (int64[m] y) {text}')
    any_folded = fold_arithmetic(model, {"x": (FLOAT, (2, 3, 4)), **types})
    found = {node.output[0]: node for node in model.graph.node if node.name == FOLDED}
    assert any_folded == bool(found)
    return {name: numpy_helper.to_array(node.attribute[0].t).tolist() for name, node in found.items()}


@pytest.mark.parametrize(
    ("nodes", "value"),
    [
        ("y = Shape(x)", [2, 3, 4]),
        ("y = Shape <start = 1> (x)", [3, 4]),
        ("y = Shape <start = 1, end = 2> (x)", [3]),
        ("y = Shape <end = -1> (x)", [2, 3]),
        ("y = Size(x)", 24),
        ("s = Shape(x) i = Constant <value_int = 2> () y = Gather(s, i)", 4),
        ("s = Shape(x) i = Constant <value_ints = [2]> () y = Div(s, i)", [1, 1, 2]),
        ("s = Shape(x) i = Constant <value_ints = [-7]> () y = Concat <axis = 0> (s, i)", [2, 3, 4, -7]),
        ("s = Shape(x) y = ReduceProd <keepdims = 0> (s)", 24),
        ("a = Constant <value_int = 1> () b = Constant <value_int = 9> () c = Constant <value_int = 3> () y = Range(a, b, c)", [1, 4, 7]),
        ("a = Constant <value_ints = [3]> () y = ConstantOfShape <value = int64[1] {7}> (a)", [7, 7, 7]),
        ("a = Constant <value_ints = [0]> () y = ConstantOfShape <value = int64[1] {7}> (a)", []),
        ("a = Constant <value_ints = [7, -7]> () b = Constant <value_ints = [4]> () y = Mod(a, b)", [3, 1]),
        ("a = Constant <value_float = 7.5> () y = Cast <to = 7> (a)", 7),
        ("a = Constant <value_floats = [1.5, 2.5]> () y = Cast <to = 7> (a)", [1, 2]),
        ("a = Constant <value_ints = [3000000000]> () y = Cast <to = 7> (a)", [3_000_000_000]),
        ("n = Constant <value_ints = [300]> () a = ConstantOfShape(n) y = Concat <axis = 0> (a, a)", [0.0] * 600),
        ("a = Constant <value_int = 0> () b = Constant <value_int = 2400> () c = Constant <value_int = 3> () y = Range(a, b, c)", [*range(0, 2400, 3)]),
    ],
)  # fmt: skip
def test_arithmetic_on_known_sizes_is_computed(nodes, value):
    assert folded(f"{{ {nodes} }}")["y"] == value


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Shape(unknown)",
        "y = Relu(x)",
        "a = Constant <value_int = 1> () y = Add(a, x)",
        "a = Constant <value_floats = [1.5]> () y = Exp(a)",
        "a = Constant <value_float = 3e9> () y = Cast <to = 6> (a)",
        "a = Constant <value_ints = [3000000000]> () b = Constant <value_ints = [4]> () y = Mod(a, b)",
        "a = Constant <value_ints = [100000, 100000]> () y = ReduceProd(a)",
        "a = Constant <value_int = 0> () b = Constant <value_int = 9000> () c = Constant <value_int = 3> () y = Range(a, b, c)",
        "a = Constant <value_int = 0> () b = Constant <value_int = 9> () c = Constant <value_int = 0> () y = Range(a, b, c)",
        "a = Constant <value_ints = [2000]> () y = ConstantOfShape <value = int64[1] {7}> (a)",
        "a = Constant <value_string = \"a\"> () y = Identity(a)",
    ],
)  # fmt: skip
def test_what_is_large_or_unknown_or_read_differently_is_not(nodes):
    assert "y" not in folded(f"{{ {nodes} }}", unknown=None)


def test_a_slice_that_goes_back_is_computed_only_within_its_operand():
    slice_ = "{{ s = Shape(x) a = Constant <value_ints = [{}]> () e = Constant <value_ints = [{}]> () o = Constant <value_ints = [0]> () k = Constant <value_ints = [{}]> () y = Slice(s, a, e, o, k) }}"
    assert folded(slice_.format(2, 0, -1))["y"] == [4, 3]
    assert folded(slice_.format(-1, -3, -1))["y"] == [4, 3]
    assert folded(slice_.format(2, -(2**40), -1))["y"] == [4, 3, 2]
    assert folded(slice_.format(0, 9, 2))["y"] == [2, 4]
    for start, end in ((3, 0), (-4, 0), (2, 3), (2, -4)):
        assert "y" not in folded(slice_.format(start, end, -1))


def test_arithmetic_is_computed_by_whichever_name_of_the_domain():
    text = (
        '<ir_version: 8, opset_import: ["ai.onnx": 17]> main (float[n] x) => (int64[m] y) { s = Shape(x) y = Neg(s) }'
    )
    model = parser.parse_model(text)
    assert fold_arithmetic(model, {"x": (FLOAT, (2, 3))})
    assert [node.op_type for node in model.graph.node] == ["Constant", "Constant"]


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize(
    "attribute",
    [
        {"value": numpy_helper.from_array(np.array([2], np.int64))},
        {"value_int": 2},
        {"value_ints": [2]},
    ],
    ids=lambda attribute: next(iter(attribute)),
)
def test_constants_of_every_form_are_known(attribute, domain):
    two = helper.make_node("Constant", [], ["two"], domain=domain, **attribute)
    graph = helper.make_graph([two, helper.make_node("Neg", ["two"], ["y"])], "g", [], [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert small_constants(model.graph) == {"two": [2]}
    assert fold_arithmetic(model, {})
    assert np.ravel(numpy_helper.to_array(model.graph.node[1].attribute[0].t)).tolist() == [-2]


def test_a_transpose_stays_and_what_reads_it_is_computed():
    found = folded("{ s = Shape(x) t = Transpose(s) y = Neg(t) }")
    assert found == {"s": [2, 3, 4], "y": [-2, -3, -4]}


def test_results_and_operands_have_1024_elements_at_most():
    shape = "r = Constant <value_ints = [{}]> () a = ConstantOfShape <value = int64[1] {{3}}> (r) y = Neg(a)"
    assert len(folded(f"{{ {shape.format(1024)} }}")["y"]) == 1024
    assert "y" not in folded(f"{{ {shape.format(1025)} }}")
    graph = helper.make_graph([], "g", [], [], [helper.make_tensor("a", INT64, [n], [1] * n) for n in (1024,)])
    assert small_constants(graph) == {"a": [1] * 1024}
    graph.initializer.append(helper.make_tensor("b", INT64, [1025], [1] * 1025))
    graph.initializer.append(helper.make_tensor("c", FLOAT, [1], [1.0]))
    assert set(small_constants(graph)) == {"a"}


# ---- types -------------------------------------------------------------------------------------


def test_a_size_without_a_name_gets_one_of_its_input_and_axis():
    assert symbol_of("x", 0, 3) == "" and symbol_of("x", 0, 1) == "" and symbol_of("x", 0, "n") == "n"
    assert symbol_of("x", 2, None) == symbol_of("x", 2, 0) == symbol_of("x", 2, "?") == symbol_of("x", 2, -1) == "x_2"
    assert symbol_of("1.a/b", 0, None) == "_1_a_b_0" and symbol_of("..", 1, None) == "input_1"


def test_types_in_numbers_and_words():
    assert with_numbers((FLOAT, ("n", 3, None)), {"n": 2}) == (FLOAT, (2, 3, None))
    assert with_numbers((FLOAT, None), {"n": 2}) == (FLOAT, None) and with_numbers(None, {}) is None
    assert sizes_of((FLOAT, (2, 0))) == (2, 0) and sizes_of((FLOAT, ())) == ()
    for unknown in (None, (FLOAT, None), (FLOAT, ("n",)), (FLOAT, (None,)), (FLOAT, (-1,)), ("sequence_type", None)):
        assert sizes_of(unknown) is None
    assert in_words(None) == "of no declared type" and in_words((FLOAT, None)) == "float of any shape"
    assert in_words((HALF, (2, "n", None))) == "float16[2, n, ?]"
    assert in_words(("sequence_type", (FLOAT, (2,)))) == "sequence_type of float[2]"
    assert in_words(("map_type", (7, (FLOAT, ())))) == "map_type of pairs"


def test_widths_differ_between_float32_and_a_narrower_type():
    one, half, brain = (FLOAT, (2,)), (HALF, (2,)), (TensorProto.BFLOAT16, (2,))
    assert all(differ_in_width(*pair) for pair in ((one, half), (half, one), (one, brain), (brain, one)))
    assert not any(differ_in_width(*pair) for pair in ((one, one), (half, brain), (one, (DOUBLE, (2,))), (None, one)))


def test_declared_and_inferred_types():
    assert contradiction((FLOAT, (2,)), (FLOAT, (3,))) and contradiction((FLOAT, (2,)), (HALF, (2,)))
    assert contradiction((FLOAT, (2,)), (FLOAT, (2, 1))) and contradiction((FLOAT, ()), ("sequence_type", None))
    for pair in (((FLOAT, ("n",)), (FLOAT, (3,))), ((FLOAT, None), (FLOAT, (3,))), (None, (FLOAT, ()))):
        assert not contradiction(*pair) and not contradiction(*pair[::-1])
    assert symbols_meant((FLOAT, ("n", 2, None)), (FLOAT, (3, 2, 4))) == {"n": 3}
    assert symbols_meant((FLOAT, ("n",)), (FLOAT, (None,))) == {} == symbols_meant((FLOAT, None), (FLOAT, (3,)))
    assert says_more((FLOAT, (2,)), (FLOAT, (None,))) and says_more((FLOAT, ("n",)), (FLOAT, None))
    assert says_more((FLOAT, None), None)
    assert not says_more((FLOAT, (2, None)), (FLOAT, (2, 3))) and not says_more(None, None)
    assert not says_more((FLOAT, None), (FLOAT, None))


# ---- constants ---------------------------------------------------------------------------------


def contents(**words):
    return plain_constant(TensorProto(name="w", **words), "", "m.onnx")


def test_a_constant_is_its_bytes_in_whichever_field_they_are():
    for number, numbers in ((FLOAT, [1.5, -2.0]), (DOUBLE, [1.5, -2.0]), (INT64, [1, -2]), (TensorProto.INT8, [1, -2]),
                            (TensorProto.UINT32, [1, 2]), (TensorProto.UINT64, [1, 2]), (TensorProto.BOOL, [1, 0]),
                            (TensorProto.INT16, [1, -2]), (TensorProto.UINT16, [1, 65535]), (TensorProto.UINT8, [0, 255]),
                            (TensorProto.COMPLEX64, [1 + 2j, 3j])):  # fmt: skip
        typed = helper.make_tensor("w", number, [2], numbers)
        raw = numpy_helper.from_array(np.array(numbers, helper.tensor_dtype_to_np_dtype(number)), "w")
        assert raw.HasField("raw_data") and not typed.HasField("raw_data")
        one, other = (plain_constant(tensor, "", "m.onnx") for tensor in (typed, raw))
        assert one == other and one.data == other.data == raw.raw_data


def test_few_bytes_are_kept_and_no_texts():
    assert contents(data_type=TensorProto.UINT8, dims=[1024], raw_data=bytes(1024)).data == bytes(1024)
    assert contents(data_type=TensorProto.UINT8, dims=[1025], raw_data=bytes(1025)).data is None
    assert contents(data_type=TensorProto.STRING, dims=[1], string_data=[b"a"]).data is None


def test_elements_of_4_bits_fill_half_a_byte():
    assert contents(data_type=TensorProto.INT4, dims=[3], raw_data=b"ab").shape == (3,)
    assert contents(data_type=TensorProto.UINT4, dims=[2], int32_data=[33]).data == b"!"
    with pytest.raises(Unreadable, match="has 1 elements, and its shape 2"):
        contents(data_type=TensorProto.INT4, dims=[3], raw_data=b"a")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"data_type": 99, "dims": [1]}, "elements of the type 99"),
        ({"data_type": FLOAT, "dims": [-1]}, "a negative size"),
        ({"data_type": FLOAT, "dims": [1], "float_data": [1.0, 2.0]}, "has 2 elements, and its shape 1"),
        ({"data_type": FLOAT, "dims": [1], "raw_data": bytes(3)}, "has 3 elements, and its shape 4"),
        ({"data_type": FLOAT, "dims": [1], "raw_data": bytes(4), "float_data": [0.0]}, "its type has them in float_data"),
        ({"data_type": FLOAT, "dims": [1], "int64_data": [1]}, "has its elements in int64_data"),
        ({"data_type": TensorProto.STRING, "dims": [1], "raw_data": b"a"}, "its type has them in string_data"),
        ({"data_type": TensorProto.BOOL, "dims": [1], "raw_data": b"\2"}, "a byte that is neither 0 nor 1"),
        ({"data_type": TensorProto.BOOL, "dims": [1], "int32_data": [2]}, "a number outside its type"),
        ({"data_type": TensorProto.INT8, "dims": [1], "int32_data": [128]}, "a number outside its type"),
        ({"data_type": TensorProto.INT8, "dims": [1], "int32_data": [-129]}, "a number outside its type"),
    ],
)  # fmt: skip
def test_a_constant_that_readers_could_read_differently_is_refused(words, why):
    with pytest.raises(Unreadable, match=why):
        contents(**words)


def test_the_largest_numbers_of_a_type_are_read():
    for number in (-128, 127):
        assert contents(data_type=TensorProto.INT8, dims=[1], int32_data=[number]).dtype == TensorProto.INT8


def test_a_constant_node_has_a_tensor():
    for value, number, dims in ((3, INT64, ()), ([3, 4], INT64, (2,)), (1.5, FLOAT, ()), ([1.5], FLOAT, (1,)),
                                ("a", TensorProto.STRING, ()), (["a", "b"], TensorProto.STRING, (2,))):  # fmt: skip
        tensor = as_tensor(helper.make_attribute("value", value))
        assert (tensor.data_type, tuple(tensor.dims)) == (number, dims)
        elements = numpy_helper.to_array(tensor).ravel().tolist()
        assert elements == (value if isinstance(value, list) else [value])


# ---- Transposes --------------------------------------------------------------------------------


def test_a_transpose_moves_elements_if_long_axes_change_places():
    assert moves([1, 0], (2, 3)) and moves([0, 2, 1], (2, 3, 4)) and moves([2, 1, 0], (2, 1, 3))
    assert not moves([1, 0], (1, 3)) and not moves([0, 2, 1], (5, 1, 4)) and not moves([0, 1], (2, 3))
    assert axis_order(None, 3) == [2, 1, 0] and axis_order([1, 0], 2) == [1, 0]
    assert axis_order([0, 0], 2) is None and axis_order([1, 0], 3) is None
    assert transpose_perm(helper.make_node("Transpose", ["x"], ["y"], axes=[0, 1], perm=[1, 0]), 2) == [1, 0]


def test_the_bytes_of_tensors_and_transposes():
    assert stored_bytes((FLOAT, (2, 3))) == 24 and stored_bytes((HALF, (2, 3))) == 12 and stored_bytes((FLOAT, ())) == 4
    assert stored_bytes((TensorProto.INT4, (6,))) == 6  # an element takes a byte at least
    assert (
        stored_bytes((FLOAT, None)) is None is stored_bytes((TensorProto.STRING, (2,))) and stored_bytes(None) is None
    )
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    assert transposed_bytes(node, {"x": (FLOAT, (2, 3))}) == 24 and transposed_bytes(node, {"x": (FLOAT, (1, 3))}) == 0
    for type_ in ((FLOAT, (2, 3, 4)), (FLOAT, None), (TensorProto.STRING, (2, 3)), None):
        assert transposed_bytes(node, {"x": type_}) is None


# ---- words -------------------------------------------------------------------------------------


def test_names_of_files_stay_on_their_line():
    assert in_quotes("a\nb'c\\") == "'a\\nb\\'c\\\\'" and escaped("\u202ea b") == "\\u202ea b"
    assert escaped("a" * 120) == "a" * 120 and escaped("a" * 121) == "a" * 120 + "..." and one_line("it's") == "it's"
    assert listed(["a", "b"]) == "'a', 'b'" and listed("abcdefg") == "'a', 'b', 'c', 'd', 'e', 'f' and 1 more"
    assert listed("abcdef") == "'a', 'b', 'c', 'd', 'e', 'f'" and listed("abc", 1) == "'a' and 2 more"


# ---- inputs ------------------------------------------------------------------------------------


def test_inputs_have_their_type_and_sizes():
    draw = np.random.default_rng(0)
    assert size_of_dim("n", {"n": 7}) == 7 and size_of_dim("n", {}) == size_of_dim("n", {"n": 0}) == 2
    array = random_array("x", (FLOAT, ("n", 3, None)), {"n": 4, "x_2": 5}, draw, 10)
    assert array.shape == (4, 3, 5) and array.dtype == np.float32
    numbers = random_array("x", (INT64, (1000,)), {}, draw, 3)
    assert numbers.dtype == np.int64 and set(numbers.tolist()) == {0, 1, 2}
    assert set(random_array("x", (TensorProto.BOOL, (50,)), {}, draw, 1).tolist()) == {False, True}
    assert set(random_array("x", (TensorProto.STRING, (50,)), {}, draw, 1).tolist()) == {"a", "b", "c d"}
    for type_ in (None, (FLOAT, None), (TensorProto.COMPLEX64, (2,))):
        with pytest.raises(ValueError, match="an input is"):
            random_array("x", type_, {}, draw, 10)
    with pytest.raises(ValueError, match="too large"):
        random_array("x", (FLOAT, (2**14, 2**15)), {}, draw, 10)


def test_floats_are_normal_or_of_several_scales_or_on_one_side_and_every_second_has_zeros():
    for kind in range(7):
        arrays = [random_array("x", (FLOAT, (64, 64)), {}, np.random.default_rng(s), 10, kind) for s in range(3)]
        for array in arrays:
            share = np.count_nonzero(array) / array.size
            assert share == 1 if kind % 2 == 0 else 0.6 < share < 0.9
            number = array[array != 0]
            scales = np.array([array[i : i + 16, j : j + 16].std() for i in range(0, 64, 16) for j in range(0, 64, 16)])
            if kind // 2 % 3 == 0:
                assert 0.9 < number.std() < 1.1 and abs(number.mean()) < 0.1
            elif kind // 2 % 3 == 1:
                assert scales.max() > 5 * scales.min() and abs(number.mean()) < scales.max()
            else:
                assert abs(array[:, :32]).max() < 0.1
        if kind == 4:
            assert max(abs(array[:, 32:]).min() for array in arrays) > 5  # of one sign, and mostly large
            assert all((array[:, 32:] > 0).all() or (array[:, 32:] < 0).all() for array in arrays)


def test_floats_of_every_shape_can_be_drawn():
    for kind, shape in itertools.product(range(6), ((), (1,), (7,), (2, 1), (2, 3, 5))):
        assert random_array("x", (HALF, shape), {}, np.random.default_rng(1), 10, kind).shape == shape


def test_a_few_numbers_have_a_zero_too():
    for seed in range(20):
        assert 0 in random_array("x", (FLOAT, (2,)), {}, np.random.default_rng(seed), 10, 1)


def test_other_sizes_are_small_or_the_usual_or_double():
    draws = [other_sizes(["n"], {"n": 100}, np.random.default_rng(seed))["n"] for seed in range(200)]
    assert set(draws) == {100, 200, 1, 3, 4, 5, 8, 32}
    large = [other_sizes(["n"], {"n": 257}, np.random.default_rng(seed))["n"] for seed in range(200)]
    assert set(large) == {257, 1, 3, 4, 5, 8, 32}
    assert other_sizes([], {"n": 3}, np.random.default_rng(0)) == {}


def test_corner_values_take_the_place_of_a_few_floats():
    for size, finite in itertools.product((1, 4, 320), (True, False)):
        array = np.full(size, 0.5, np.float32)
        result = with_corners(array, np.random.default_rng(2), finite)
        changed = result[(result != 0.5) | np.isnan(result)]
        assert (array == 0.5).all() and np.isfinite(result).all() == finite
        assert changed.size == (10 if size == 320 else min(size, 5 if finite else 3))
        if size == 320:
            limits = np.finfo(np.float32)
            ends = {limits.max, -limits.max, limits.smallest_subnormal, 0.0} if finite else {np.inf, -np.inf}
            assert set(changed[~np.isnan(changed)].tolist()) == {float(end) for end in ends}
            assert np.isnan(changed).any() != finite
    integers = np.arange(3)
    assert with_corners(integers, np.random.default_rng(2), True) is integers


def test_the_largest_input_is_bounded(monkeypatch):
    monkeypatch.setattr(drawing, "_MAX_ELEMENTS", 4)
    assert random_array("x", (FLOAT, (2, 2)), {}, np.random.default_rng(0), 10).size == 4
    with pytest.raises(ValueError, match="5 elements is too large"):
        random_array("x", (FLOAT, (5,)), {}, np.random.default_rng(0), 10)


# ---- comparing ---------------------------------------------------------------------------------

ONE = "(float[n] x) => (float[m] y) { y = Relu(x) }"


def differences(expected, result, moved=(), text=ONE, mode="exact", output=None, **narrowed):
    """What is found of one result; the message if it is refused."""
    model = plain(text)
    found = Differences(model, model if output is None else plain(output), mode, narrowed)
    try:
        found.add([expected], [result], lambda: [[one] for one in moved], "run")
    except DoesNotHold as error:
        return str(error)
    return found


def test_equal_results_differ_by_nothing():
    array = np.array([1.0, -0.0, np.nan, np.inf], np.float32)
    found = differences(array, array.copy())
    assert found.largest == {"y": 0.0} and not found.zero_signs and not found.not_counted


def test_the_largest_difference_is_a_part_of_the_largest_element():
    def of(one, other, dtype=np.float32):
        return largest_difference([np.array(one, dtype)], [np.array(other, dtype)])

    assert of([1, 4], [1, 5]) == 0.25 and of([1, -4], [1, -5]) == 0.25 and of([0, 0], [0, -0.0]) == 0
    assert of([0], [1]) == np.inf and of([1], [np.nan]) == np.inf and of([np.inf], [-np.inf]) == np.inf
    assert of([np.inf, 4], [np.inf, 5]) == 0.25 and of([np.nan, 4], [np.nan, 4]) == 0
    assert of([3], [3], np.int64) == 0 and of([3], [4], np.int64) == np.inf
    assert of([1.0], [[1.0]]) == np.inf and of([], []) == 0
    assert largest_difference([np.float32([1])], [np.float64([1])]) == np.inf
    texts = [np.array(word, object) for word in (["a"], ["a"], ["b"])]
    assert largest_difference(texts[:1], texts[1:2]) == 0 and largest_difference(texts[:1], texts[2:]) == np.inf
    assert largest_difference([np.float32([2]), np.float32([4])], [np.float32([1]), np.float32([4])]) == 0.5
    sequences = [[np.float32([2]), np.float32([4])], [np.float32([2]), np.float32([5])], [np.float32([2])]]
    assert largest_difference(sequences[:1], sequences[1:2]) == 0.25
    assert largest_difference(sequences[:1], sequences[2:]) == np.inf
    assert largest_difference([None], [None]) == 0 and largest_difference([None], [[]]) == np.inf


@pytest.mark.parametrize(
    ("expected", "result", "why"),
    [
        (np.float32([1, 2]), np.float32([1, 3]), r"by 5.0e-01 of its largest element: 3 in place of 2 at \[1\]"),
        (np.float32([1, 2]), np.float32([[1, 2]]), r"in shape or type: float32\[1, 2\] in place of float32\[2\]"),
        (np.float32([1]), np.float64([1]), "in shape or type"),
        (np.int64([1, 2]), np.int64([1, 3]), r"in 3 in place of 2 at \[1\]"),
        (np.float32([1, np.nan]), np.float32([1, 3]), r"in 3 in place of nan at \[1\]"),
        (np.float32([1, np.inf]), np.float32([1, -np.inf]), "in -inf in place of inf"),
        (np.array(["a"], object), np.array(["b"], object), "in b in place of a"),
        ([np.float32([1])], [np.float32([1]), np.float32([1])], "in what it is"),
        ([np.float32([1])], [np.float32([2])], "differs by"),
        (None, np.float32([1]), "in what it is"),
    ],
)
def test_other_results_are_refused_in_words(expected, result, why):
    message = differences(expected, result)
    assert isinstance(message, str) and message.startswith("run, the output's 'y' differs ")
    with pytest.raises(DoesNotHold, match=why):
        raise DoesNotHold(message)


def test_sequences_are_compared_item_by_item():
    items = [np.float32([1, 2]), np.float32([3])]
    assert differences(items, [item.copy() for item in items]).largest == {"y": 0.0}


def test_mode_fast_does_not_count_what_is_no_number():
    expected, result = np.float32([1, np.nan, np.inf]), np.float32([1, 5, 6])
    assert differences(expected, result, mode="fast").not_counted == 2
    assert "differs" in differences(expected, result, mode="accurate")
    assert "differs" in differences(np.float32([1, 2, np.nan]), np.float32([1, 3, 0]), mode="fast")
    assert "differs" in differences(np.float32([1]), np.float32([np.nan]), mode="fast")
    assert "differs" in differences(np.float32([1e-4, np.nan]), np.float32([2e-4, 5]), mode="fast")


def test_signs_of_zeros_are_noticed():
    assert differences(np.float32([0, 1]), np.float32([-0.0, 1])).zero_signs
    assert not differences(np.float32([-0.0, 1]), np.float32([-0.0, 1])).zero_signs
    for one, other in (([-1e-6, 1], [0, 1]), ([0, 1], [-1e-6, 1]), ([1e-6, 1], [-1e-6, 1])):
        assert not differences(np.float32(one), np.float32(other)).zero_signs


def test_float16_counts_as_float32_and_the_other_way_round():
    expected = np.float32([1, 0.5])
    assert differences(expected, expected.astype(np.float16)).largest == {"y": 0.0}
    assert differences(expected.astype(np.float16), expected).largest == {"y": 0.0}


def test_what_noise_moves_may_differ_by_a_few_times_as_much():
    expected = np.float32([1, 1])
    moved = [np.float32([1 + 1e-5, 1 + 1e-5])] * 2
    assert differences(expected, np.float32([1, 1 + 1e-4]), moved).largest["y"] == pytest.approx(1e-4, rel=0.01)
    assert "differs by" in differences(expected, np.float32([1, 1 + 3e-4]), moved)
    assert not isinstance(differences(expected, np.float32([1, 1 + 3e-4])), str)  # without noise, a thousandth


def test_narrowed_outputs_may_differ_by_their_share():
    expected, result = np.float32([1, 4]), np.float32([1, 4.8])
    assert "differs by" in differences(expected, result) and "differs by" in differences(expected, result, y=0.1)
    assert differences(expected, result, y=0.25).largest["y"] == pytest.approx(0.2)


def test_outputs_behind_narrower_types_are_found():
    cast = "(float[n] x) => (float[n] y, float[n] z) { h = Cast <to = 10> (x) y = Cast <to = 1> (h) z = Neg(x) }"
    plain_text = "(float[n] x) => (float[n] y, float[n] z) { y = Identity(x) z = Neg(x) }"
    assert narrowed_outputs(plain(plain_text), plain(cast)) == {"y": 0.25}
    assert narrowed_outputs(plain(cast), plain(cast)) == {} == narrowed_outputs(plain(cast), plain(plain_text))
    function = '\n<domain: "f", opset_import: ["": 17]> F (a) => (b) { h = Cast <to = 16> (a) b = Cast <to = 1> (h) }'
    called = plain("(float[n] x) => (float[n] y, float[n] z) { y = f.F(x) z = Neg(y) }", function)
    assert narrowed_outputs(plain(plain_text), called) == {"y": 0.5, "z": 0.5}


def test_quantized_results_may_be_one_step_off():
    text = "(float[n] x) => (uint8[m] y) { s = Constant <value_float = 0.1> () z = Constant <value = uint8 {0}> () y = QuantizeLinear(x, s, z) }"
    expected = np.uint8([10, 20])
    assert differences(expected, np.uint8([10, 21]), text=text).largest["y"] == pytest.approx(0.05)
    assert "in 22 in place of 20" in differences(expected, np.uint8([10, 22]), text=text)
    assert "in 21 in place of 20" in differences(expected, np.uint8([10, 21]))  # nothing quantizes here


def test_dequantized_results_may_be_one_scale_off():
    quantized = "<float s = {{{}}}, uint8 z = {{0}}> {{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }}"
    text = "(float[n] x) => (float[n] y) " + quantized
    expected = np.float32([10, 20])
    assert differences(expected, np.float32([10, 20.5]), text=text.format(0.5)).largest["y"] == pytest.approx(0.025)
    assert differences(expected, np.float32([10, 22]), text=text.format(2)).largest["y"] == pytest.approx(0.1)
    assert isinstance(differences(expected, np.float32([10, 22]), text=text.format(0.5)), str)
    assert isinstance(differences(expected, np.float32([10, 24]), text=text.format(2)), str)


# ---- rounding ----------------------------------------------------------------------------------


def test_without_noise_rounding_is_a_thousandth_of_the_size():
    allowed = largest_rounding(np.float32([0, 0, 0, 8]), [])
    rms = 4.0
    assert allowed == pytest.approx([1e-3 * rms, 1e-3 * rms, 1e-3 * rms, 8e-3])
    assert largest_rounding(np.float32([]), []).size == 0
    assert largest_rounding(np.float32([]), [np.float32([])]).size == 0
    assert largest_rounding(np.float64([3, -3]), []) == pytest.approx([3e-9, 3e-9])


def test_with_noise_it_is_some_times_what_moved_and_four_neighbours_at_least():
    expected, eps = np.float32([1, 1, 1]), float(np.finfo(np.float32).eps)
    moved = [np.float32([1, 1, 1 + 2**-16]), np.float32([1, 1 + 2**-18, 1 + 2**-17])]
    allowed = largest_rounding(expected, moved)
    usual = np.median([2**-18, 2**-16])
    assert allowed == pytest.approx([16 * usual, 16 * usual, 16 * 2**-16])
    assert largest_rounding(np.float32([1, 8]), [np.float32([1, 8])]) == pytest.approx([4 * eps * 8] * 2)
    assert largest_rounding(expected, [np.float32([9, 9, 9])]) == pytest.approx([1e-3] * 3)  # never looser


def test_one_result_that_moves_far_allows_no_more_than_the_usual_for_small_ones():
    expected = np.float32([1e-9] * 3)
    moved = [np.float32([1e-9 + 1e-12, 1e-9 + 1e-10, 1e-9 + 1e-12])]
    usual = float(np.median(np.abs(moved[0].astype(float) - expected.astype(float))))
    assert largest_rounding(expected, moved).max() == pytest.approx(16 * usual)


def test_noise_of_other_shapes_and_what_is_no_number_say_nothing():
    expected = np.float32([1, np.inf])
    assert largest_rounding(expected, [np.float32([1]), [1]]) == pytest.approx(largest_rounding(expected, []))
    one = largest_rounding(np.float32([1, 1]), [np.float32([1 + 2**-16, np.nan])])
    assert one == pytest.approx([16 * 2**-16] * 2)


def test_noise_moves_floats_by_a_few_neighbours():
    draw = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        moved = moved_array(np.ones(10_000, dtype), draw)
        assert moved.dtype == dtype and 6 < moved.std() / np.finfo(dtype).eps < 10 and abs(moved.mean() - 1) < 1e-6
        assert len(set(moved.tolist())) > 20
    integers = np.arange(3)
    assert moved_array(integers, draw) is integers
    assert np.isinf(moved_array(np.float32([np.finfo(np.float32).max] * 50), draw)).any()


@pytest.mark.parametrize("opset", [17, 22])
def test_a_model_with_noise_runs_and_is_a_little_off(opset):
    text = "(float[1000] x) => (float[1000] y) <float[1000] w> { a = Mul(x, w) y = Exp(a) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main {text}')
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1000, np.float32), "w"))
    noisy = with_noise(model, dict.fromkeys("xay", (FLOAT, (1000,))), np.random.default_rng(0))
    moved = numpy_helper.to_array(noisy.graph.initializer[0])
    assert 0 < abs(moved - 1).max() < 1e-4
    session = cpu_session(noisy)
    x = np.ones(1000, np.float32)
    (one,), (other,) = (session.run(None, {"x": x}) for _ in range(2))
    off = abs(one / np.float32(np.e) - 1)
    assert 0 < off.max() < 1e-4 and off.std() > 3e-7 and (one != other).any()


def test_operands_that_are_read_exactly_do_not_move():
    text = "(float[4] x) => (float[4] y) { a = Neg(p) y = Pow(x, a) }"
    model = parser.parse_model(HEADER + text.replace("{ a = Neg(p)", "<float[4] p> { a = Neg(p)"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32([2, 2, 2, 2]), "p"))
    noisy = with_noise(model, dict.fromkeys("pay", (FLOAT, (4,))), np.random.default_rng(0))
    made = [node.op_type for node in noisy.graph.node]
    assert made == ["Neg", "Pow", "RandomNormalLike", "Mul"]  # y moves, and a, the exponent, does not


# ---- float32 in place of narrower types ----------------------------------------------------------


def test_a_widened_model_has_no_narrower_types():
    text = """(float16[2] x, bool c) => (float16[2] y) <float16[2] w = {15360, 16384}> {
        k = Constant <value = float16[2] {3, 4}> ()
        a = Cast <to = 10> (x)
        b = Add(a, w)
        d = f.F(b)
        y = If (c) <then_branch = t () => (float16[2] p) { p = Add(d, k) }, else_branch = e () => (float16[2] q) { q = Cast <to = 10> (d) }>
    }"""
    function = '\n<domain: "f", opset_import: ["": 17]> F (a) => (b) { b = Cast <to = 10> (a) }'
    model = parser.parse_model(HEADER + text + function)
    wide = widened(model, {HALF})
    onnx.checker.check_model(wide)
    assert "float16" not in onnx.printer.to_text(wide) and "to: int = 10" not in onnx.printer.to_text(wide)
    assert numpy_helper.to_array(wide.graph.initializer[0]).tolist() == [1, 2]
    assert widened(model, {TensorProto.BFLOAT16}).graph.node[1].attribute[0].i == HALF
    assert has_constants(model, {HALF}) and not has_constants(model, {TensorProto.BFLOAT16})


def test_constants_of_functions_and_bodies_are_found():
    function = '\n<domain: "f", opset_import: ["": 17]> F (a) => (b) { k = Constant <value = float16[1] {3}> () b = Mul(a, k) }'
    assert has_constants(
        parser.parse_model(HEADER + "(float16[1] x) => (float16[1] y) { y = f.F(x) }" + function), {HALF}
    )
    body = "(bool c) => (float16[1] y) { y = If (c) <then_branch = t () => (float16[1] p) { p = Constant <value = float16[1] {3}> () }, else_branch = e () => (float16[1] q) { q = Constant <value = float16[1] {3}> () }> }"
    assert has_constants(parser.parse_model(HEADER + body), {HALF})
    assert not has_constants(parser.parse_model(HEADER + "(float16[1] x) => (float16[1] y) { y = Neg(x) }"), {HALF})


def test_noise_moves_widened_constants_by_their_rounding_at_most():
    model = parser.parse_model(HEADER + "(float16[1000] x) => (float16[1000] y) <float16[1000] w> { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1000, np.float16), "w"))
    moved = numpy_helper.to_array(widened(model, {HALF}, np.random.default_rng(0)).graph.initializer[0])
    assert moved.dtype == np.float32 and 2.0**-12 < abs(moved - 1).max() <= 2.0**-11
