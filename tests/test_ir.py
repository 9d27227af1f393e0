"""The smaller parts of `workbench/ir`, each by itself: types, permutations, orders of nodes, notes of files."""

import math

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper

from workbench.ir import Edit, EditError, Graph, Node, OpaqueType, TensorType, constant, from_text, to_text
from workbench.ir.attribute_defaults import default_of, defaults_at, with_defaults
from workbench.ir.check import violations
from workbench.ir.edit import restoring, update
from workbench.ir.format_version import lowest_ir
from workbench.ir.function_calls import (
    body_of_call,
    in_place,
    inlined_body,
    operands_of_call,
    with_all_inlined,
    with_attribute_values,
)
from workbench.ir.liveness import unread_nodes
from workbench.ir.narrowed_io import INPUT_TYPE, is_narrowed, loaded_type, type_between
from workbench.ir.node import AttrRef, Function, without_trailing
from workbench.ir.order import check_order, rank_between, rank_bounds, sorted_among, topological
from workbench.ir.permutation import (
    channels_first,
    channels_last,
    compose,
    identity,
    inverse,
    is_identity,
    moves_data,
    perm_of,
    permuted,
    permuted_constant,
)
from workbench.ir.permuted_io import INPUT_ORDER, OUTPUT_ORDER, input_order, output_order, permutation_between
from workbench.ir.preserved_metadata import PassthroughFields, annotated, kept_fields, metadata_of, write_metadata_of
from workbench.ir.provenance import MAX_ORIGINS, Provenance, of_metadata, without_provenance
from workbench.ir.retyping import retyped, retyped_node
from workbench.ir.signature_changes import is_valid_unchanged
from workbench.ir.text import from_text as parsed
from workbench.ir.text import node_line
from workbench.ir.types import DataType, MissingConstant, lazy_constant, numpy_name, rearranged_constant
from workbench.ir.versioned import fixed_opset, opset_of_domain, plain_imports, versioned_domain

FLOATS = TensorType(DataType.FLOAT, (2, "N", None))


# ---- types ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "rank", "static", "elements", "size", "text"),
    [
        (TensorType(DataType.FLOAT), None, None, None, None, "float"),
        (FLOATS, 3, None, None, None, "float[2,N,?]"),
        (TensorType(DataType.INT64, (2, 3)), 2, (2, 3), 6, 48, "int64[2,3]"),
        (TensorType(DataType.INT4, (3,)), 1, (3,), 3, 2, "int4[3]"),
        (TensorType(DataType.INT4, (2, 2)), 2, (2, 2), 4, 2, "int4[2,2]"),
        (TensorType(DataType.DOUBLE, ()), 0, (), 1, 8, "double[]"),
        (TensorType(DataType.STRING, (2,)), 1, (2,), 2, None, "string[2]"),
        (TensorType(DataType.UNDEFINED, (2,)), 1, (2,), 2, None, "undefined[2]"),
    ],
)
def test_what_a_type_says(type_, rank, static, elements, size, text):
    assert (type_.rank, type_.static_shape, type_.elements, type_.bytes, str(type_)) == (
        rank,
        static,
        elements,
        size,
        text,
    )


def test_types_and_constants_in_another_order():
    assert FLOATS.permuted((2, 0, 1)) == TensorType(DataType.FLOAT, (None, 2, "N"))
    assert TensorType(DataType.FLOAT).permuted((1, 0)) == TensorType(DataType.FLOAT)
    assert FLOATS.with_shape((1,)) == TensorType(DataType.FLOAT, (1,))
    assert (numpy_name(DataType.FLOAT), numpy_name(DataType.FLOAT16), numpy_name(DataType.BOOL)) == (
        "float32",
        "float16",
        "bool",
    )
    tensor = constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    turned = permuted_constant(tensor, (1, 0))
    assert turned.numpy().tolist() == [[0, 3], [1, 4], [2, 5]] and tuple(turned.shape) == (3, 2)
    missing = MissingConstant(lambda: None, dtype=DataType.FLOAT, shape=onnx_ir.Shape((2, 3)))
    assert isinstance(rearranged_constant(missing, np.ravel, (6,)), MissingConstant)
    assert not isinstance(turned, MissingConstant)
    lazy = lazy_constant(lambda: np.float32([1, 2]), DataType.FLOAT, (2,))
    assert lazy.numpy().tolist() == [1, 2] and tuple(lazy.shape) == (2,) and lazy.dtype == DataType.FLOAT


# ---- permutations --------------------------------------------------------------


def test_permutations():
    assert identity(3) == (0, 1, 2) and is_identity((0, 1)) and not is_identity((1, 0))
    assert inverse((2, 0, 1)) == (1, 2, 0) and compose((2, 0, 1), (1, 2, 0)) == (0, 1, 2)
    assert compose((0, 2, 3, 1), (1, 0, 2, 3)) == (2, 0, 3, 1) and permuted("abc", (2, 0, 1)) == ("c", "a", "b")
    assert channels_last(4) == (0, 2, 3, 1) and channels_first(4) == (0, 3, 1, 2) and channels_last(2) == (0, 1)
    assert moves_data((1, 0), (2, 3)) and not moves_data((1, 0), (1, 3)) and moves_data((1, 0), ("N", 3))
    assert not moves_data((0, 2, 1), (2, 1, 1)) and moves_data((2, 1, 0), (2, 1, 3))
    graph = Graph(inputs=["x", "u"], types={"x": FLOATS})
    assert perm_of(graph, Node("Transpose", ("x",), ("y",))) == (2, 1, 0)
    assert perm_of(graph, Node("Transpose", ("u",), ("y",))) is None
    assert perm_of(graph, Node("Transpose", ("u",), ("y",), {"perm": (1, 0)})) == (1, 0)


def test_permuted_inputs_and_outputs_are_read_where_they_fit():
    notes = {
        f"{INPUT_ORDER}x": "0,2,1",
        f"{OUTPUT_ORDER}y": "1,0",
        f"{INPUT_ORDER}u": "0,2,1",
        f"{INPUT_ORDER}v": "1,2,0",
    }
    types = {"x": FLOATS, "y": FLOATS.with_shape((1, 2)), "v": FLOATS.with_shape((1, 2))}
    graph = Graph(inputs=["x", "u", "v"], outputs=["y"], types=types, metadata=notes)
    assert [input_order(graph, value) for value in "xuv"] == [(0, 2, 1), None, None]
    assert (output_order(graph, "y"), input_order(graph, "y"), output_order(graph, "x")) == ((1, 0), None, None)
    other = Graph(inputs=["x"], types={"x": FLOATS}, metadata={f"{INPUT_ORDER}x": "1,2,0"})
    plain = Graph(inputs=["x", "v"], types={"x": FLOATS, "v": FLOATS}, outputs=["y"])
    assert permutation_between(graph, other, "x") == compose((0, 2, 1), (1, 2, 0))
    assert permutation_between(plain, other, "x") == (1, 2, 0) and permutation_between(other, plain, "x") == (2, 0, 1)
    assert permutation_between(graph, graph, "x") is None and permutation_between(graph, plain, "u") is None
    assert permutation_between(Graph(types={"y": types["y"]}), graph, "y", OUTPUT_ORDER) == (1, 0)
    assert permutation_between(plain, Graph(types={"v": types["v"]}), "v") is None
    ranks = Graph(types={"x": FLOATS.with_shape((1, 2))}, metadata={f"{INPUT_ORDER}x": "1,0"})
    assert permutation_between(ranks, other, "x") is None


def test_narrowed_inputs_are_told_by_type_and_note():
    note = {f"{INPUT_TYPE}x": "float32", f"{INPUT_TYPE}w": "float32", f"{INPUT_TYPE}d": "double"}
    half, wide = TensorType(DataType.FLOAT16, (1,)), TensorType(DataType.FLOAT, (1,))
    graph = Graph(inputs=["x", "w", "d", "h"], types={"x": half, "w": wide, "d": half, "h": half}, metadata=note)
    assert [is_narrowed(graph, value, INPUT_TYPE) for value in ("x", "w", "d", "h", "nobody")] == [True, *[False] * 4]
    loaded = [DataType.FLOAT, DataType.FLOAT, DataType.FLOAT16, DataType.FLOAT16, None]
    assert [loaded_type(graph, value, INPUT_TYPE) for value in ("x", "w", "d", "h", "nobody")] == loaded
    before = Graph(inputs=["x", "w", "h"], types={"x": wide, "w": wide, "h": wide})
    between = [type_between(before, graph, value, INPUT_TYPE) for value in ("x", "w", "h", "d", "nobody")]
    assert between == [DataType.FLOAT16, None, None, None, None]
    assert type_between(graph, before, "x", INPUT_TYPE) == DataType.FLOAT
    brain = Graph(inputs=["x"], types={"x": TensorType(DataType.BFLOAT16, (1,))}, metadata=note)
    assert is_narrowed(brain, "x", INPUT_TYPE) and type_between(graph, brain, "x", INPUT_TYPE) == DataType.BFLOAT16


# ---- orders of nodes -----------------------------------------------------------


def chain(*names: str) -> dict[str, Node]:
    """Each reads the one before."""
    return {
        name: Node("Relu", (before,), (name,), name=name) for before, name in zip(("x", *names), names, strict=False)
    }


def test_topological_order_by_rank_and_cycles():
    nodes = {
        **chain("a", "b"),
        "c": Node("Neg", ("x",), ("c",), name="c"),
        "d": Node("Add", ("b", "b"), ("d",), name="d"),
    }
    producer = {name: name for name in nodes}
    assert topological(nodes, producer, {"a": 0, "b": 3, "c": 1, "d": 4}) == ["a", "c", "b", "d"]
    assert topological(nodes, producer, {"a": 5, "b": 6, "c": 7, "d": 4}) == ["a", "b", "d", "c"]
    assert [node.name for node in sorted_among(dict(reversed(nodes.items())))] == ["c", "a", "b", "d"]
    assert sorted_among({"n": Node("Relu", ("v",), ("v",), name="n")}) is None
    assert sorted_among({}) == []


def test_ranks_between_neighbours():
    ranks = [0.0, 2.0, 3.0, 8.0]
    assert rank_between(ranks, -math.inf, 3.0) == 2.5 and rank_between(ranks, 2.5, 3.0) == 2.75
    assert rank_between(ranks, -math.inf, 0.0) == -1.0 and rank_between(ranks, 3.0, 8.0) == 5.5
    assert rank_between(ranks, -math.inf, math.inf) == 9.0 and rank_between([], -math.inf, math.inf) == 0.0
    assert rank_between(ranks, 2.0, math.inf) == 2.5 and rank_between(ranks, 8.0, math.inf) == 9.0
    assert rank_between(ranks, 0.0, math.inf) == 1.0
    nodes = [
        Node("Relu", ("x",), ("a", ""), name="a"),
        Node("Relu", ("a",), ("b",), name="b"),
        Node("Neg", ("a",), ("c",), name="c"),
    ]
    users, rank = {"b": {"u": None, "w": None}, "c": {"w": None}, "": {"u": None}}, {"u": 4.0, "w": 6.0}
    assert rank_bounds(nodes, users, rank) == {"a": 4.0, "b": 4.0, "c": 6.0}
    assert rank_bounds(nodes[:1], {}, {}) == {"a": math.inf}


def test_new_ranks_are_checked():
    nodes, rank = chain("a", "b", "c"), {"a": 0.0, "b": 1.0, "c": 2.0}
    producer = {name: name for name in nodes}
    assert check_order(nodes, producer, rank, {"a": -1.0, "c": 5.0}) == {"a": 0.0, "c": 2.0}
    assert check_order(nodes, producer, rank, {}) == {}
    for wrong in ({"a": 1.0}, {"b": 7.0}, {"c": 0.5}):
        with pytest.raises(EditError, match="runs before"):
            check_order(nodes, producer, rank, wrong)
    with pytest.raises(EditError, match="there is no node 'z' to move"):
        check_order(nodes, producer, rank, {"z": 1.0})


def test_an_edit_of_ranks_alone_moves_nodes_and_back():
    graph = from_text("g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(x)  y = Add(a, b) }")
    inverse_edit = graph.apply(Edit(ranks={"Neg_b": -1.0}))
    assert [node.name for node in graph.nodes] == ["Neg_b", "Relu_a", "Add_y"]
    graph.apply(inverse_edit)
    assert [node.name for node in graph.nodes] == ["Relu_a", "Neg_b", "Add_y"]
    assert not Edit(ranks={"a": 1.0}).is_empty and Edit().is_empty and not Edit(metadata={"a": None}).is_empty


def test_tables_are_updated_and_restored():
    table = {"a": 1, "b": 2}
    undo = update(table, {"a": 3, "b": None, "c": 4, "d": None})
    assert table == {"a": 3, "c": 4} and undo == {"a": 1, "b": 2, "c": None}
    update(table, undo)
    assert table == {"a": 1, "b": 2} and restoring({"a": 1, "b": 0}, table) == {"b": 0}


def test_nodes_that_nothing_needs():
    graph = from_text("""g (float[2] x) => (float[2] y) {
        a = Relu(x)  b = Neg(a)  c = Abs(b)  d = Exp(a)  y = Tanh(d)  e, f = Split<num_outputs = 2>(x)  h = Neg(f) }""")
    assert list(unread_nodes(graph)) == ["Neg_h", "Split_e", "Abs_c", "Neg_b"]
    assert unread_nodes(from_text("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }")) == {}
    used = from_text("g (float[2] x) => (float[2] e) { e, f = Split<num_outputs = 2>(x)  h = Neg(x) }")
    assert list(unread_nodes(used)) == ["Neg_h"]


# ---- nodes, bodies, functions --------------------------------------------------


def test_names_without_omitted_ones_at_the_end():
    assert without_trailing(("a", "", "b", "", "")) == ("a", "", "b") and without_trailing(("", "")) == ("",)
    assert without_trailing(()) == ()


def test_a_node_and_its_bodies():
    then = Graph(outputs=["p"], nodes=[Node("Neg", ("x",), ("p",), name="n")])
    other = Graph(outputs=["q"], nodes=[Node("Abs", ("z",), ("q",), name="m")])
    attributes = {"body": then, "more": (then, other), "axis": 1, "names": ("a",), "none": ()}
    node = Node("If", ["c", ""], ["y"], attributes, "n", "ai.onnx")
    assert (node.op, node.domain, node.inputs, node.operands) == ("If", "", ("c", ""), ("c", "x", "z"))
    assert list(node.bodies) == ["body", "more[0]", "more[1]"] and node.inner_values == {"p", "q"}
    assert Node("F", (), ("y",), domain="own").op == "own.F" and str(node) == "If 'n'"
    renamed = node.with_values_renamed({"x": "w", "c": "d"})
    assert renamed.operands == ("d", "w", "z") and renamed.attributes["axis"] == 1
    assert node.with_values_renamed({"nobody": "w"}) is node
    swapped = node.with_bodies({"body": other, "more[0]": other, "more[1]": then})
    assert swapped.bodies == {"body": other, "more[0]": other, "more[1]": then} and swapped.attributes["names"] == (
        "a",
    )
    outer = Graph(outputs=["o"], nodes=[node.replace(outputs=("o",))])
    assert Node("If", ("c",), ("y",), {"body": outer}).inner_values == {"o", "p", "q"}
    assert Node("Softmax", ("x",), ("y",)).attr("axis") == -1 and node.attr("axis") == 1
    assert Node("Own", ("x",), ("y",)).attr("size", 7) == 7


def test_types_are_changed_in_bodies_too():
    text = "g (bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = t () => (float[2] p) { p = Neg(x) }, else_branch = e () => (float[2] q) { q = Abs(x) }> }"
    graph = from_text(text)
    half = retyped(graph, lambda type_: TensorType(DataType.FLOAT16, type_.shape))
    types = [half.types["x"], *(body.types[body.outputs[0]] for body in half.node("If_y").bodies.values())]
    assert {type_.dtype for type_ in types} == {DataType.FLOAT16} and graph.types["x"].dtype == DataType.FLOAT
    several = Graph(
        nodes=[Node("Many", (), ("y",), {"bodies": tuple(graph.node("If_y").bodies.values()), "k": (1,)}, "n")]
    )
    node = retyped(several, lambda type_: TensorType(DataType.INT8, type_.shape)).node("n")
    assert {t.dtype for body in node.bodies.values() for t in body.types.values()} == {DataType.INT8}
    assert node.attributes["k"] == (1,)


def test_attributes_of_a_call_in_the_body_of_its_function():
    inner = Graph(outputs=["r"], nodes=[Node("Elu", ("a",), ("r",), {"alpha": AttrRef("slope", 1)}, "i")])
    nodes = [
        Node("Constant", (), ("k",), {"value_ints": AttrRef("sizes", 7)}, "constant"),
        Node("Constant", (), ("f",), {"value_float": 2.5}, "number"),
        Node("Constant", (), ("open",), {"value_int": AttrRef("none", 2)}, "open"),
        Node("LeakyRelu", ("a",), ("b",), {"alpha": AttrRef("slope", 1), "kept": 3}, "relu"),
        Node("If", ("c",), ("d",), {"then_branch": inner}, "if"),
        Node("Elu", ("a",), ("e",), {"alpha": AttrRef("none", 1)}, "elu"),
    ]
    function = Function(
        "F", "own", Graph(inputs=["a", "c"], outputs=["b", "d"], nodes=nodes), {"slope": 0.5, "none": None}
    )
    call = Node("F", ("x",), ("y",), {"sizes": (3, 4)}, "call", "own")
    body = body_of_call(function.graph, function, call)
    assert body.constants["k"].numpy().tolist() == [3, 4] and body.constants["k"].dtype == DataType.INT64
    assert body.constants["f"].numpy().item() == 2.5 and body.constants["f"].dtype == DataType.FLOAT
    assert dict(body.node("relu").attributes) == {"alpha": 0.5, "kept": 3} and not body.node("elu").attributes
    assert body.node("if").bodies["then_branch"].node("i").attributes["alpha"] == 0.5
    assert body.find("constant") is None and body.find("open") is not None
    steeper = body_of_call(function.graph, function, call.replace(attributes={"slope": 2.0}))
    assert steeper.node("relu").attributes["alpha"] == 2.0 and "k" not in steeper.constants
    assert operands_of_call(function, call) == {"a": "x", "c": ""}
    assert function.key == ("own", "F", "")


def test_calls_are_inlined_in_bodies_too_under_names_of_their_own():
    graph = from_text("""<ir_version: 10, opset_import: ["": 23, "own": 1]>
        g (bool c, float[2] x, float[2] t) => (float[2] y, float[2] z) {
            z = own.F(x)
            y = If(c) <then_branch = a () => (float[2] p) { p = own.F(z) }, else_branch = b () => (float[2] q) { t_1 = Abs(t)  q = own.G(t_1) }>
        }
        <domain: "own", opset_import: ["": 23, "own": 1]> F (a) => (b) { t = Neg(a)  s = own.G(t)  b = Exp(s) }
        <domain: "own", opset_import: ["": 23]> G (a) => (b) { t = Abs(a)  b = Sqrt(t) }""")
    graph.provenance["F_z"] = Provenance("maker", "rule", ("n",), "NHWC")
    flat = with_all_inlined(graph)
    assert not flat.functions and flat.opset_imports == {"": 23} and not list(violations(flat))
    assert [node.op for node in flat.nodes] == ["Neg", "Abs", "Sqrt", "Exp", "If"]
    then, other = flat.node("If_y").bodies.values()
    assert [node.op for node in then.nodes] == ["Neg", "Abs", "Sqrt", "Exp"] and len(other.nodes) == 3
    assert {*then.values(), *other.values()}.isdisjoint(flat.values())
    made = {flat.provenance[node.name] for node in flat.nodes[:-1]}
    assert made == {Provenance("maker", "rule", ("n",))} and "If_y" not in flat.provenance
    assert flat.inputs == graph.inputs and flat.outputs == graph.outputs and then.inputs == ()


# ---- files ---------------------------------------------------------------------


def test_domains_of_older_forms():
    assert versioned_domain(11) == "ai.onnx.opset11" and opset_of_domain("ai.onnx.opset11") == 11
    assert [opset_of_domain(domain) for domain in ("", "11", "ai.onnx.opset", "ai.onnx.opsetX", "own.opset11")] == [
        None
    ] * 5
    imports = {"": 23, "own": 1, "ai.onnx.opset9": 1}
    assert fixed_opset(imports) == 9 and fixed_opset({"": 23}) is None and plain_imports(imports) == {"": 23, "own": 1}


def test_defaults_of_attributes():
    assert default_of("Softmax", "axis") == -1 and default_of("Softmax", "nothing") is None
    assert default_of("own.Softmax", "axis") is None and default_of("ai.onnx.ml.Normalizer", "norm") == "MAX"
    assert with_defaults("Elu", {}) == {"alpha": 1.0} and with_defaults("Elu", {"alpha": 2.0}) == {"alpha": 2.0}
    assert defaults_at("Softmax", 11) == {"axis": 1} and defaults_at("Nothing", 11) == {}
    assert defaults_at("RNN", 22)["activations"] == ("Tanh", "Tanh") and "activation_alpha" not in defaults_at(
        "RNN", 22
    )


@pytest.mark.parametrize(
    ("op_type", "old", "new", "valid"),
    [
        ("Relu", 14, 23, True),
        ("Abs", 6, 13, True),
        ("Softmax", 11, 13, False),  # another default
        ("Split", 13, 18, False),
        ("GroupNormalization", 18, 21, False),
        ("GroupNormalization", 21, 23, True),
        ("Upsample", 9, 10, False),
        ("Clip", 6, 11, False),  # attributes became inputs
        ("Nothing", 6, 11, False),
        ("Scatter", 9, 11, False),  # deprecated
        ("Dropout", 10, 12, False),
        ("Add", 7, 14, True),
        ("Add", 6, 7, False),  # lost attributes
        ("BatchNormalization", 9, 14, False),
    ],
)
def test_calls_that_mean_the_same_in_another_opset(op_type, old, new, valid):
    assert is_valid_unchanged(op_type, old, new) is valid


def test_the_lowest_version_of_the_format():
    def version(**arguments):
        return lowest_ir(Graph(opset_imports={"": 7}, **arguments))

    assert version() == 4 == version(types={"x": FLOATS}) and lowest_ir(Graph(opset_imports={"": 23})) > 8
    assert lowest_ir(Graph(opset_imports={"": 7, "own": 999})) == 4
    for dtype, lowest in {"FLOAT8E5M2": 9, "INT4": 10, "UINT4": 10, "FLOAT4E2M1": 11, "FLOAT8E8M0": 12}.items():
        assert version(types={"x": TensorType(DataType[dtype], (1,))}) == lowest
    packed = onnx_ir.Tensor(np.zeros(2, np.int8), dtype=DataType.INT8)
    assert version(constants={"k": packed}) == 4
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    assert version(types={"x": OpaqueType(optional)}) == 8 and version(types={"x": OpaqueType(sequence)}) == 4

    def with_function(**arguments):
        return version(functions={("own", "F", ""): Function("F", "own", Graph(), **arguments)})

    assert with_function() == 8 == with_function(attributes={"a": None}) and with_function(attributes={"a": 1}) == 9
    assert with_function(overload="more") == 10
    body = Graph(types={"p": TensorType(DataType.INT4, (1,))})
    assert version(nodes=[Node("If", (), ("y",), {"then_branch": body}, "n")]) == 10
    model = onnx.ModelProto()
    model.configuration.add(name="devices", num_devices=1)
    assert version(kept=PassthroughFields(model=model)) == 11


def test_provenance_as_metadata():
    made = Provenance("fold", "rule", ("a", "ä"), "NHWC")
    assert of_metadata(made.metadata) == made and "ä" in made.metadata["workbench.origins"]
    assert of_metadata(Provenance("fold").metadata) == Provenance("fold") and len(Provenance("fold").metadata) == 1
    assert of_metadata({}) is None and of_metadata({"workbench.rule": "r"}) is None
    for origins in ("not JSON", "{}", "[1]", '"a"', "[" * 100_000):
        assert of_metadata({"workbench.pass": "p", "workbench.origins": origins}) is None
    many = of_metadata(Provenance("p", origins=tuple(map(str, range(99)))).metadata)
    assert many.origins == tuple(map(str, range(MAX_ORIGINS)))
    assert without_provenance({**made.metadata, "mine": "kept"}) == {"mine": "kept"}


def test_notes_of_inputs_are_written_where_the_axes_are_the_same():
    def info(*dims, doc="", denotation="", axes=()):
        result = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims, doc_string=doc)
        result.type.denotation = denotation
        for dim, word in zip(result.type.tensor_type.shape.dim, axes, strict=False):
            dim.denotation = word
        return result

    kept = kept_fields(
        helper.make_model(helper.make_graph([], "g", [info(1, "N", doc="d", denotation="IMAGE", axes=("B", "C"))], []))
    )
    for dims, axes in {
        (1, "N"): ["B", "C"],
        (1, 7): ["B", "C"],
        (2, "N"): ["", ""],
        ("N", 1): ["", ""],
        (1,): [""],
        (1, "M"): ["", ""],
    }.items():
        written = info(*dims)
        annotated([written], kept)
        assert (written.doc_string, written.type.denotation) == ("d", "IMAGE")
        assert [dim.denotation for dim in written.type.tensor_type.shape.dim] == axes, dims
    other = helper.make_tensor_value_info("other", TensorProto.FLOAT, [1, 2])
    before = other.SerializeToString()
    annotated([other], kept)
    assert other.SerializeToString() == before
    plain = kept_fields(helper.make_model(helper.make_graph([], "g", [info(1)], [info(1, doc="out")])))
    assert [one.doc_string for one in plain.graph.input] == ["out"]


def test_fields_of_a_model_that_compute_nothing():
    model = helper.make_model(
        helper.make_graph([], "g", [], [], doc_string="graph"), doc_string="model", domain="d", model_version=3
    )
    helper.set_metadata_props(model.graph, {"k": "v"})
    model.graph.quantization_annotation.add(tensor_name="x")
    model.configuration.add(name="devices", num_devices=2)
    kept = kept_fields(model)
    assert (kept.doc_string, kept.domain, kept.model_version, kept.graph.doc_string) == ("model", "d", 3, "graph")
    assert len(kept.graph.metadata_props) == len(kept.graph.quantization_annotation) == len(kept.configuration) == 1


def test_notes_of_a_node_are_metadata_and_written_again_for_values_that_it_has():
    node = helper.make_node("Relu", ["x"], ["y"], doc_string="why")
    configuration = node.device_configurations.add(configuration_id="devices")
    for value in ("x", "y", "gone"):
        configuration.sharding_spec.add(tensor_name=value)
    notes = metadata_of(node)
    assert (
        set(notes) == {"doc_string", "device_configurations"}
        and metadata_of(helper.make_node("Relu", ["x"], ["y"])) == {}
    )
    written = helper.make_node("Relu", ["x"], ["y"])
    assert write_metadata_of(written, {**notes, "mine": "1"}) == {"mine": "1"}
    assert written.doc_string == "why"
    assert [spec.tensor_name for spec in written.device_configurations[0].sharding_spec] == ["x", "y"]
    plain = helper.make_node("Relu", ["x"], ["y"])
    assert (
        write_metadata_of(plain, {"mine": "1"}) == {"mine": "1"}
        and not plain.doc_string
        and not plain.device_configurations
    )


# ---- texts ---------------------------------------------------------------------


def test_a_node_on_one_line():
    body = Graph(nodes=[Node("Neg", ("x",), ("p",), name="n")])
    attributes = {
        "axis": 1,
        "alpha": 0.5,
        "mode": "linear",
        "pads": (1, 2),
        "body": body,
        "value": constant(np.zeros(2)),
    }
    assert node_line(Node("F", ("x", ""), ("y", "z"), attributes, "n", "own")) == (
        '[n] y, z = own.F <axis = 1, alpha = 0.5, mode = "linear", pads = [1, 2], body = {1 nodes}, value = (Tensor)> (x, )'
    )
    assert node_line(Node("Relu", ("x",), ("y",), name="n")) == "[n] y = Relu (x)"


def test_elements_of_large_constants_are_left_out_of_a_text():
    def text_of(count):
        return to_text(
            from_text(
                f"g (float[{count}] x) => (float[{count}] y) <float[{count}] k = {{{', '.join(['7'] * count)}}}> {{ y = Add(x, k) }}"
            )
        )

    assert "7,7" in text_of(16) and "location" not in text_of(16) and '"location"' in text_of(17)


def test_the_opsets_of_a_text():
    assert parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }").opset_imports == {"": 23}
    assert parsed("g (float[2] x) => (float[2] y) { y = workbench.Own(x) }").opset_imports == {"": 23, "workbench": 1}
    text = '\n <ir_version: 10, opset_import: ["": 20, "workbench": 1]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    assert parsed(text).opset_imports == {"": 20, "workbench": 1}


def test_bytes_that_are_no_text_are_escaped_in_a_text():
    graph = from_text("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    strings = onnx_ir.StringTensor(np.array([b"\xff\xfe", b"ab"], object), shape=onnx_ir.Shape((2,)))
    text = to_text(graph.with_nodes([*graph.nodes, Node("Identity", ("k",), ("z",), name="n")]).with_nodes(graph.nodes))
    assert text == to_text(graph)
    graph.apply(Edit(insert=(Node("Identity", ("k",), ("z",), name="n"),), constants={"k": strings}))
    assert "\\xff" in to_text(graph) and "ab" in to_text(graph)


# ---- what is not well formed ----------------------------------------------------


def test_every_violation_is_named():
    body = Graph(name="body", outputs=["p", "lost"], nodes=[Node("Add", ("x", "unknown"), ("p",), name="b")])
    nodes = [
        Node("Relu", ("late",), ("k",), name="first"),
        Node("If", ("", "x"), ("late", ""), {"then_branch": body}, "second"),
        Node("Relu", ("x",), ("late",), name="third"),
    ]
    function = Function("F", "own", Graph(name="f", outputs=["q"]))
    graph = Graph(
        name="g",
        inputs=["x", "x"],
        outputs=["late", "none"],
        nodes=nodes,
        constants={"k": constant(np.zeros(1))},
        functions={function.key: function},
    )
    assert list(violations(graph)) == [
        "graph 'g' has two inputs with the same name",
        "Relu 'first' reads 'late', which is not defined before it",
        "value 'k' is defined twice, the second time by Relu 'first'",
        "Add 'b' reads 'unknown', which is not defined before it",
        "output 'lost' of graph 'body' is not defined",
        "value 'late' is defined twice, the second time by Relu 'third'",
        "output 'none' of graph 'g' is not defined",
        "output 'q' of graph 'f' is not defined",
    ]


def test_parts_of_the_graph_that_others_rely_on():
    graph = from_text("""g (bool c, float[2] x) => (float[2] y, float[2] z) <float[2] k = {1, 2}> { a = Add(x, k)  y = Relu(a)
        z = If(c) <then_branch = t () => (float[2] p) { p = Neg(a) }, else_branch = e () => (float[2] q) <float[2] x2 = {1, 2}> { a2 = Abs(x)  q = Add(a2, x2) }> }""")
    assert (
        graph.tensor_type("nobody") is None
        and Graph(types={"o": OpaqueType(onnx.TypeProto())}).tensor_type("o") is None
    )
    assert graph.with_nodes(graph.nodes, ["a"]).outputs == ("a",) and graph.with_nodes(graph.nodes).outputs == (
        "y",
        "z",
    )
    other = graph.node("If_z").bodies["else_branch"]
    assert other.with_captures_renamed({"a2": "w"}) is other and other.with_captures_renamed({"x": "w"}).captured == (
        "w",
    )
    renamed = other.with_captures_renamed({"x": "w", "a2": "v"})
    assert renamed.producer("a2") is not None and renamed.producer("q").inputs == ("a2", "x2")
    bound = Graph(types={"x": FLOATS}, bound_types={"x": TensorType(DataType.FLOAT, (2, 3, 4))}, dims={"N": 3})
    assert bound.copy().bound_types == bound.bound_types and bound.copy().dims == {"N": 3}
    assert [node.name for node in graph.with_bodies] == ["If_z"] and [
        n.name for n in graph.nodes_of(["Relu", "Add"])
    ] == ["Add_a", "Relu_y"]
    assert Node("Relu", ["x"], ["y"], {}, "n", "ai.onnx").op == "Relu" and Node("Relu", ["x"], iter(["y"])).outputs == (
        "y",
    )
    assert Node("Relu", ["x"], ["y"]) != Node("Relu", ["x"], ["y"]), "nodes are compared as objects"


def test_inserted_nodes_stand_behind_all_that_they_read_and_before_the_first_reader():
    graph = from_text(
        "g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(x)  c = Exp(x)  y = Add(c, a)  z = Abs(b) }"
    )
    graph.apply(Edit(insert=(Node("Max", ("a", "c", "b"), ("m",), name="m"),)))
    assert graph.position("Exp_c") < graph.position("m") < graph.position("Add_y")
    graph.apply(Edit(remove=("Neg_b",), insert=(Node("Sum", ("x", "y"), ("b",), name="Neg_b"),)))
    assert [node.name for node in graph.nodes].index("Neg_b") > [node.name for node in graph.nodes].index("Add_y")
    assert not list(violations(graph))
    before = {node.name: graph.position(node.name) for node in graph.nodes}
    with pytest.raises(EditError, match="cycle"):
        graph.apply(Edit(remove=("Relu_a",), insert=(Node("Max", ("m",), ("a",), name="Relu_a"),)))
    assert {node.name: graph.position(node.name) for node in graph.nodes} == before


def test_an_edit_may_turn_what_was_computed_into_a_constant():
    graph = from_text("g (float[2] x) => (float[2] y) <float[2] k = {1, 2}> { a = Neg(k)  y = Add(x, a) }")
    graph.apply(Edit(remove=("Neg_a",), constants={"a": constant(np.float32([-1, -2]))}))
    assert set(graph.constants) == {"a"} and len(graph) == 1
    with pytest.raises(EditError, match="would be removed"):
        graph.apply(Edit(constants={"a": None}))
    graph.apply(Edit(constants={"a": constant(np.float32([5, 5]))}))
    assert graph.constants["a"].numpy().tolist() == [5, 5]
    assert not Edit(constants={"a": None}).is_empty and not Edit(insert=(graph.node("Add_y"),)).is_empty
    with pytest.raises(EditError, match="is replaced in a cycle"):
        Edit(replace={"a": "b", "b": "c", "c": "b"}).followed  # noqa: B018 - the property raises


def test_more_of_functions_in_place():
    graph = from_text("""<ir_version: 10, opset_import: ["": 23, "own": 1]>
        g (float[2] x) => (float[2] y) { z = Neg(x)  y = own.F(z) }
        <domain: "own", opset_import: ["": 23]> F (a) => (a) { z = Relu(a) }""")
    flat = with_all_inlined(graph)
    assert (
        not list(violations(flat))
        and flat.producer("y") is not None
        and len({node.name for node in flat.nodes}) == len(flat.nodes)
    )
    body = Graph(
        name="named",
        inputs=["p"],
        outputs=["q"],
        nodes=[Node("Relu", ("p",), ("q",), name="Neg_z")],
        types={"p": FLOATS, "q": FLOATS},
    )
    call = graph.node("F_y") if graph.find("F_y") else graph.producer("y")
    edit = in_place(graph, call, body, {"p": "z"})
    assert edit.types == {"q": FLOATS} and edit.insert[0].name == "Neg_z_1" and edit.replace == {"y": "q"}
    assert with_attribute_values(body, {}).name == "named" and with_attribute_values(body, {}).types == body.types
    outer = Function(
        "G", "own", Graph(inputs=["b"], outputs=["r"], nodes=[Node("F", ("b",), ("r",), name="inner", domain="own")])
    )
    kept = inlined_body({**graph.functions, outer.key: outer}, outer, {}, lambda node, function: node.name == "inner")
    assert [node.op for node in kept.nodes] == ["own.F"]


def test_where_changed_nodes_do_not_fit_they_move_and_others_stay():
    graph = from_text("""g (float[2] x) => (float[2] y, float[2] z) {
        a = Relu(x)  b = Neg(a)  d = Exp(x)  e = Abs(x)  y = Max(b, e)  z = Sin(d) }""")
    graph.apply(
        Edit(
            insert=(Node("Cos", ("x",), ("c",), name="c"), graph.node("Exp_d").replace(inputs=("c",))),
            remove=("Exp_d",),
        )
    )
    before = {node.name: graph.position(node.name) for node in graph.nodes}
    changed = (graph.node("Relu_a").replace(inputs=("d",)), graph.node("Abs_e").replace(op_type="Sqrt"))
    inverse_edit = graph.apply(Edit(remove=("Relu_a", "Abs_e"), insert=changed))
    assert not list(violations(graph))
    graph.apply(inverse_edit)
    assert {node.name: graph.position(node.name) for node in graph.nodes} == before
    graph.apply(
        Edit(
            remove=("Relu_a", "Sin_z"),
            insert=(Node("Sin", ("x",), ("a",), name="Sin_z"), Node("Tan", ("d",), ("z",), name="t")),
        )
    )
    assert not list(violations(graph)) and graph.position("Sin_z") < graph.position("Neg_b")
    others = {name: rank for name, rank in before.items() if name in graph and name != "Sin_z"}
    assert {name: graph.position(name) for name in others} == others
    graph.apply(Edit(insert=(Node("Sum", ("b", "d", "x"), ("s",), name="s"),)))
    assert {name: graph.position(name) for name in others} == others and not list(violations(graph))


def test_an_edit_that_only_seems_to_remove_a_value_is_refused():
    graph = from_text("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }")
    edit = Edit(insert=(Node("Exp", ("x",), ("a",), name="n"),), constants={"a": None})
    with pytest.raises(EditError, match="value 'a' would be defined twice"):
        graph.apply(edit)


def test_devices_without_documentation_and_nodes_without_bodies():
    node = helper.make_node("Relu", ["x"], ["y"])
    node.device_configurations.add(configuration_id="devices")
    written = helper.make_node("Relu", ["x"], ["y"])
    assert write_metadata_of(written, metadata_of(node)) == {} and written == node
    plain = Node("Relu", ("x",), ("y",), {"k": ()}, "n")
    assert retyped_node(plain, lambda type_: type_) is plain
    with_empty = Node("If", ("c",), ("y",), {"then_branch": Graph(), "k": ()}, "n")
    assert retyped_node(with_empty, lambda type_: type_).attributes["k"] == ()


def test_texts_of_odd_attributes():
    graph = from_text("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    graph.apply(Edit(insert=(Node("Own", ("x",), ("z",), {"strings": (b"\xff", b"a"), "raw": b"\xfe"}, "n", "own"),)))
    assert "\\xff" in to_text(graph) and "\\xfe" in to_text(graph)
    assert node_line(Node("Elu", ("x",), ("y",), {"alpha": 0.1 + 0.2}, "n")) == "[n] y = Elu <alpha = 0.3> (x)"
