"""What the checker reads of certificates and models as plain values, and what it makes of them again."""

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

from tests.forging import NEG, RELU, changed, forged, model_of, node, refusal, rewriting
from workbench.checker import command, inference, records
from workbench.checker.certificate_fields import CERTIFICATE, check_form
from workbench.checker.certificate_nodes import written_contents, written_function, written_node, written_type
from workbench.checker.checking import check_files, report_lines
from workbench.checker.command import add_arguments, checked_command
from workbench.checker.files import plain_model, read_constants, read_proto
from workbench.checker.inference import expanded_nodes, inferred, read_in_bodies, size_in_bytes
from workbench.checker.opening import opened
from workbench.checker.operators import full_name, is_known
from workbench.checker.outcome import DoesNotHold, Unreadable, in_quotes
from workbench.checker.plain import PlainConstant, PlainGraph, PlainNode, first_difference, graph_from, kernel_name
from workbench.checker.rebuilding import node_proto, proto_of_function
from workbench.checker.records import Fields, as_finite, as_int, content_digest, read_certificate
from workbench.checker.types import contradiction
from workbench.checker.versions import is_of_passes

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def plain(model, name="m.onnx"):
    return plain_model(model_of(model) if isinstance(model, str) else model, Path(), name)


# ---- fields ------------------------------------------------------------------------------------


def test_fields_have_the_type_that_they_must_have():
    fields = Fields({"t": "a", "n": 3, "l": ["a"], "w": [1, 2], "o": {"k": 1}, "r": [{"k": 1}, {"k": 2}], "null": None}, "place")  # fmt: skip
    assert fields.text("t") == "a" and fields.whole("n") == 3 and fields.texts("l") == ("a",)
    assert fields.wholes("w") == (1, 2) and fields.named("o") == {"k": 1} and fields.record("o").whole("k") == 1
    assert [record.whole("k") for record in fields.records("r", "thing")] == [1, 2]
    assert [record.where for record in fields.records("r", "thing")] == ["place, thing 1", "place, thing 2"]
    assert fields.items("missing") == [] and fields.named("missing") == {} and fields.texts("missing") == ()
    assert fields.has("t") and not fields.has("null") and not fields.has("missing")


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda f: f.text("n"), "place, n is the number 3 and must be text"),
        (lambda f: f.whole("t"), "place, t is text and must be a whole number"),
        (lambda f: f.whole("b"), "place, b is true or false and must be a whole number"),
        (lambda f: f.whole("f"), "place, f is the number 1.5 and must be a whole number"),
        (lambda f: f.whole("big"), "place, big is a number of 257 bits; at most 256 are read"),
        (lambda f: f.whole("long"), "place, long is a number of 333 bits"),
        (lambda f: f.text("long"), r"is the number 1{30} and"),
        (lambda f: f.items("t"), "place, t is text and must be a list"),
        (lambda f: f.named("l"), "place, l is a list and must be an object"),
        (lambda f: f.record("null"), "place, null is null and must be an object"),
        (lambda f: f.text("o"), "place, o is an object and must be text"),
        (lambda f: f.text("missing"), "place has no field 'missing'"),
        (lambda f: list(f.records("l", "thing")), "place, thing 1 is text and must be an object"),
        (lambda f: Fields([], ""), "the certificate's content is a list and must be an object"),
        (lambda f: Fields({}, "").text("a"), "the certificate's content has no field 'a'"),
    ],
)
def test_other_types_are_refused(read, why):
    fields = Fields({"t": "a", "n": 3, "b": True, "f": 1.5, "l": ["a"], "o": {}, "null": None, "big": 2**256, "long": int("1" * 101)}, "place")  # fmt: skip
    with pytest.raises(Unreadable, match=why):
        read(fields)


def test_numbers():
    assert as_int(-(2**256) + 1, "n") == -(2**256) + 1 and as_finite(3, "n") == 3.0 and as_finite(-0.5, "n") == -0.5
    assert np.isnan(as_finite("nan", "n")) and as_finite("inf", "n") == np.inf == -as_finite("-inf", "n")
    for wrong in (True, "1", None, float("inf"), float("nan"), [], 2**256):
        with pytest.raises(Unreadable):
            as_finite(wrong, "n")


def test_a_certificate_is_json_without_ambiguity(tmp_path, monkeypatch):
    path = tmp_path / "c.json"

    def why(text):
        path.write_text(text)
        with pytest.raises((Unreadable, DoesNotHold)) as caught:
            read_certificate(path)
        return str(caught.value)

    begin = '{"format": "graph-workbench certificate", "version": 3'
    assert why("{") == "it is not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"
    assert "one of its objects has a field twice" in why(begin + ', "a": {"b": 1, "b": 1}}')
    assert "NaN is not a number of JSON" in why(begin + ', "a": NaN}') and "Infinity" in why(
        begin + ', "a": -Infinity}'
    )
    assert "it is nested too deep" in why("[" * 100_000)
    assert "it is not a certificate of Graph Workbench" in why('{"format": "other"}')
    assert "it has version 2, and this checker reads 3" in why(begin.replace("3", "2") + "}")
    assert "has no field 'digest'" in why(begin + "}")
    assert "the digest over the certificate is not that of its contents" in why(begin + ', "digest": "0"}')
    content = {"format": "graph-workbench certificate", "version": 3, "another": 1}
    assert "'another', which is not read" in why(json.dumps(content | {"digest": content_digest(content)}))
    monkeypatch.setattr(records, "MAX_PARTS", 4)
    for text in ("[1,2,3,4,5]", "[[[[[]]]]]", '{"a":{"a":{"a":{"a":{}}}}}'):
        assert "it has more than 4 parts" in why(text)
    monkeypatch.setattr(records, "LARGEST_CERTIFICATE", 8)
    assert "it has 9 bytes; at most 8 are read" in why("123456789") and "not a certificate" not in why("12345678")


def test_only_files_are_read(tmp_path):
    with pytest.raises(Unreadable, match="it is not a regular file"):
        read_certificate(tmp_path)
    with pytest.raises(Unreadable, match=r"it cannot be read \(No such file or directory\)"):
        read_certificate(tmp_path / "none")
    with pytest.raises(Unreadable, match="is not a regular file"):
        read_proto(tmp_path)
    with pytest.raises(Unreadable, match=r"'none' cannot be read \(No such file or directory\)"):
        read_proto(tmp_path / "none")
    for name, data in (("a.onnx", b""), ("a.onnx", b"\xff\xff"), ("a.txt", b"<"), ("a.onnxtxt", b"\xff")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(Unreadable, match="is not ONNX, or it was cut off"):
            read_proto(tmp_path / name)
    (tmp_path / "b.txt").write_text('<ir_version: 8, opset_import: ["": 17]> ' + RELU)
    assert read_proto(tmp_path / "b.txt").graph.node[0].op_type == "Relu"


def test_a_digest_is_over_all_fields_but_itself():
    assert content_digest({"b": 1, "a": [2]}) == hashlib.sha256(b'{"a":[2],"b":1}').hexdigest()
    assert content_digest({"a": 1, "digest": "x"}) == content_digest({"a": 1}) != content_digest({"a": 2})


def test_every_field_of_a_certificate_is_read():
    for content, why in (
        ({"another": 1}, "content has 'another'"),
        (dict.fromkeys("gfedcba"), "content has 'a', 'b', 'c', 'd', 'e', 'f' and 1 more, which is not read"),
        ({"model": {"another": 1}}, "model of content has 'another'"),
        ({"dims": {"n": {}}}, "n of dims of content is an object and must not be one"),
        ({"dims": {"n": [{}]}}, "n of dims of content is an object and must not be one"),
        ({"dims": {"n": [1, [{}]]}}, "n of dims of content is an object and must not be one"),
        ({"steps": [{"rewrites": [{"edit": {"remove": [{"another": 1}]}}]}]}, "remove of edit of rewrites of steps"),
        ({"bounds": [{"kind": "order", "bound": 3}]}, "bounds of content has 'bound', which is not read"),
        ({"bounds": [{"kind": "other", "offsets": {}}]}, "has 'offsets'"),
        ({"bounds": [{"kind": "plan", "offsets": {"a": {}}}]}, "a of offsets of bounds"),
    ):
        with pytest.raises(Unreadable, match=why):
            check_form(content, CERTIFICATE, "content")
    check_form(
        {"bounds": [{"kind": "plan", "offsets": {"a": 1}}], "dims": {"n": 2}, "steps": []}, CERTIFICATE, "content"
    )


# ---- nodes, constants and types --------------------------------------------------------------------

EVERY_KIND = [
    ("int", 3, {"int": 3}),
    ("float", 1.5, {"float": 1.5}),
    ("text", "ab", {"text": "ab"}),
    ("ints", [3, -4], {"ints": [3, -4]}),
    ("floats", [1.5, 2.0], {"floats": [1.5, 2]}),
    ("texts", ["a", "b"], {"texts": ["a", {"bytes": "62"}]}),
]


@pytest.mark.parametrize(("kind", "value", "written"), EVERY_KIND)
def test_attributes_are_the_same_from_files_and_certificates_and_as_messages(kind, value, written):
    proto = helper.make_node("Op", ["x", "", ""], ["y", ""], domain="d", value=value)
    model = helper.make_model(helper.make_graph([proto], "g", [helper.make_tensor_value_info("x", FLOAT, [2])], []))
    (call,) = plain(model).graph.nodes.values()
    fields = {
        "op": "Op",
        "domain": "d",
        "inputs": ["x", "", ""],
        "outputs": ["y", ""],
        "attributes": {"value": written},
    }
    assert written_node(Fields(fields, "node")) == call and call.attributes["value"][0] == kind
    proto.overload = ""
    assert call.inputs == ("x", "", "") and node_proto(call, {}) == proto


def test_graphs_tensors_types_and_references_become_messages_again():
    body = parser.parse_graph("t () => (float[2] p) <float[2] k = {1, 2}> { q = Neg(x) p = Add(q, k) }")
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
        helper.make_node("Many", ["x"], ["z"], domain="d", bodies=[body, body]),
        helper.make_node("Tensor", ["x"], ["t"], domain="d", value=numpy_helper.from_array(np.float32([1, 2]))),
        helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(FLOAT, [2])),
    ]
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("x", FLOAT, [2])]
    model = plain(helper.make_model(helper.make_graph(nodes, "g", inputs, [])))
    made = [node_proto(call, {}) for call in model.graph.nodes.values()]
    again = plain(helper.make_model(helper.make_graph(made, "g", inputs, [])))
    assert again.graph == model.graph and [n.op_type for n in made] == ["If", "Many", "Tensor", "Optional"]
    assert [a.type for a in made[1].attribute] == [AttributeProto.GRAPHS] and len(made[1].attribute[0].graphs) == 2


def test_functions_become_messages_again():
    text = (
        RELU.replace("Relu(x)", "d.F <a = 1> (x)")
        + """
    <domain: "d", opset_import: ["": 17]> F <a, b: float = 2.0> (x) => (y) {
        k = Constant <value = float[1] {3}> () t = Op <v: int = @a> (x) u = Mul(t, k) y = Neg(u)
    }"""
    )
    model = plain(text)
    ((key, function),) = model.functions.items()
    made = proto_of_function(key, function)
    assert made is not None and function.parameters == {"a"} and function.defaults["b"][0] == "float"
    other = model_of(text)
    other.functions[0].CopyFrom(made)
    assert plain(other).functions == model.functions
    assert [n.op_type for n in made.node] == ["Constant", "Op", "Mul", "Neg"]


def test_what_has_large_constants_cannot_be_rebuilt():
    large = PlainConstant(FLOAT, (1000,), "0" * 64)
    unknown = {}
    node_proto(PlainNode("d", "Op", "", ("x",), ("y",), {"value": ("tensor", large)}), unknown)
    assert unknown == {"value": large}


def test_constants_of_certificates():
    data = np.int64([1, -2]).tobytes()
    sha = hashlib.sha256(data).hexdigest()
    found = written_contents({"type": INT64, "shape": [2], "sha256": sha, "values": [1, -2]}, "w")
    assert found == PlainConstant(INT64, (2,), sha) and found.data == data
    assert written_contents({"type": FLOAT, "shape": [2], "sha256": sha}, "w").data is None
    narrow = np.int32([-(2**31), 2**31 - 1]).tobytes()
    values = {"type": TensorProto.INT32, "shape": [2], "sha256": hashlib.sha256(narrow).hexdigest()}
    assert written_contents(values | {"values": [-(2**31), 2**31 - 1]}, "w").data == narrow
    for change, error, why in (
        ({"sha256": sha[:-1]}, Unreadable, "has no SHA-256 of 64 digits"),
        ({"sha256": sha + "0"}, Unreadable, "has no SHA-256 of 64 digits"),
        ({"sha256": sha.upper()}, Unreadable, "has no SHA-256 of 64 digits"),
        ({"values": [1, -3]}, DoesNotHold, "the values of the certificate's w are not those of its hash"),
        ({"values": [1, 2**63]}, Unreadable, "values that are not of its element type"),
        ({"values": [1, -(2**63) - 1]}, Unreadable, "values that are not of its element type"),
        ({"type": FLOAT}, Unreadable, "values that are not of its element type"),
    ):
        with pytest.raises(error, match=why):
            written_contents({"type": INT64, "shape": [2], "sha256": sha, "values": [1, -2]} | change, "w")


def test_types_of_certificates():
    assert written_type(None, "t") is None and written_type([1, None], "t") == (1, None)
    assert written_type([1, [2, "n", None]], "t") == (1, (2, "n", None)) and written_type([1, []], "t") == (1, ())
    assert written_type(["sequence_type", [1, None]], "t") == ("sequence_type", (1, None))
    assert written_type(["map_type", [7, [1, []]]], "t") == ("map_type", (7, (1, ())))
    for wrong in ([1], [1, [], 2], "float", [1, "n"], [None, []], [1, [1.5]], ["map_type", [7]], ["map_type", 7]):
        with pytest.raises(Unreadable):
            written_type(wrong, "t")


def test_functions_of_certificates():
    record = Fields({"domain": "d", "name": "F", "overload": "o"}, "function 1")
    assert written_function(record) == (("d", "F", "o"), None)
    graph = {"inputs": ["x"], "outputs": ["y"], "nodes": [{"op": "Neg", "inputs": ["x"], "outputs": ["y"]}]}
    fields = {"graph": graph, "opsets": {"": 17}, "parameters": ["a"], "defaults": {"b": {"int": 1}}}
    _, function = written_function(Fields(record.fields | fields, "function 1"))
    assert function is not None and function.opsets == {"": 17} and function.parameters == {"a"}
    assert function.defaults == {"b": ("int", 1)} and list(function.graph.nodes) == ["y"]


@pytest.mark.parametrize(
    ("attribute", "why"),
    [
        ({}, "must have one field, its kind"),
        ({"int": 1, "ints": [1]}, "must have one field, its kind"),
        ({"number": 1}, "has the unknown kind 'number'"),
        ({"int": "1"}, "must be a whole number"),
        ({"text": {"bytes": "zz"}}, "bytes that are not hexadecimal"),
        ({"ints": 1}, "must be a list"),
        ({"reference": {"name": "a"}}, "has no field 'type'"),
        ({"graph": {"nodes": [{"op": "Neg", "inputs": ["x"], "outputs": []}]}}, "a Neg has no result"),
    ],
)
def test_attributes_that_are_none_are_refused(attribute, why):
    with pytest.raises((Unreadable, DoesNotHold), match=why):
        written_node(Fields({"op": "Op", "inputs": [], "outputs": ["y"], "attributes": {"a": attribute}}, "node"))


def test_an_empty_list_has_no_kind():
    for kind in ("ints", "floats", "texts", "graphs"):
        fields = {"op": "Op", "inputs": [], "outputs": ["y"], "attributes": {"a": {kind: []}}}
        assert written_node(Fields(fields, "node")).attributes["a"] == ("ints", ())


# ---- plain graphs --------------------------------------------------------------------------------

BODY = PlainGraph(("i",), ("r",), {"r": PlainNode("", "Add", "", ("i", "x"), ("r",))}, {})


def test_what_a_node_reads_and_how_large_it_is():
    call = PlainNode("", "Loop", "", ("n", "", "c"), ("", "y"), {"body": ("graph", BODY), "more": ("graphs", (BODY,))})
    assert call.key == "y" and call.reads == {"n", "c", "x"} and list(call.bodies) == [BODY, BODY]
    assert BODY.captured == {"x"} and BODY.size == 1 + 4 and call.size == 1 + 3 + 2 + 2 * BODY.size
    assert str(PlainNode("d", "Op", "", (), ("y",))) == "d.Op that computes 'y'"
    assert PlainGraph((), ("z",), {}, {}).captured == {"z"}
    assert kernel_name("workbench", "Conv_NHWC__pads") == "Conv_NHWC" and kernel_name("d", "A__b") == "A__b"


def test_each_value_has_one_producer_before_its_readers():
    one, other = PlainNode("", "Neg", "", ("x",), ("a",)), PlainNode("", "Exp", "", ("a",), ("b",))
    constants = {"k": PlainConstant(FLOAT, (), "0" * 64)}
    graph = graph_from(["x"], ["b"], [one, other], constants, "it")
    assert list(graph.nodes) == ["a", "b"] and graph.constants == {}
    assert graph_from(["x"], ["b"], [one, other], constants, "it", keep=True).constants == constants
    assert graph_from(["x"], ["k"], [], constants, "it").constants == constants
    silent = PlainNode("", "Print", "", ("x",), ("",))
    assert list(graph_from(["x"], [], [silent, one], {}, "it", keep=True).nodes) == ["a"]
    for calls, inputs, why in (
        ([other, one], ["x"], "in it, the Exp that computes 'b' is before the node that computes 'a'"),
        ([one, one], ["x"], "in it, 'a' has two producers"),
        ([one], ["x", "a"], "in it, 'a' has two producers"),
        ([one], ["x", "k"], "in it, 'k' has two producers"),
        ([one], ["x", "x"], "in it, 'x' has two producers"),
        ([silent], ["x"], "in it, a Print has no result"),
    ):
        with pytest.raises(DoesNotHold, match=why):
            graph_from(inputs, ["b"], calls, constants, "it")


def test_differences_of_nodes_in_words():
    def call(op="Op", inputs=("x",), outputs=("y",), overload="", **attributes):
        return PlainNode("d", op, overload, inputs, outputs, attributes)

    def body(op="Add", inputs=("i", "x"), key="r", constants=None):
        return ("graph", PlainGraph(("i",), (key,), {key: PlainNode("", op, "", inputs, (key,))}, constants or {}))

    for one, other, words in (
        (call(), call(), ""),
        (call(), call("Other"), "the operator is d.Op, not d.Other"),
        (call(overload="a"), call(), "the operator is d.Op, not d.Op"),
        (call(), call(inputs=("x", "z")), "it reads (x), not (x, z)"),
        (call(), call(outputs=("y", "z")), "it computes (y), not (y, z)"),
        (call(a=("int", 1)), call(a=("int", 2)), "its attribute 'a' is int 1, not int 2"),
        (call(a=("int", 1)), call(), "its attribute 'a' is int 1, not absent"),
        (call(), call(a=("ints", (1, 2))), "its attribute 'a' is absent, not ints [1, 2]"),
        (call(a=("int", 1), b=("int", 1)), call(a=("int", 1), b=("int", 2)), "its attribute 'b' is int 1, not int 2"),
        (call(a=body()), call(a=body("Sub")), "its attribute 'a' is one body, not one body: of the Add that computes 'r' there, the operator is Add, not Sub"),
        (call(a=body()), call(a=body(key="s")), "its attribute 'a' is one body, not one body: in one of them nothing computes 'r'"),
        (call(a=body()), call(a=body(constants={"k": 1})), "its attribute 'a' is one body, not one body: their constants, inputs or outputs differ"),
        (call(a=body()), call(a=("int", 1)), "its attribute 'a' is one body, not int 1"),
        (call(a=("int", 1)), call(a=body()), "its attribute 'a' is int 1, not one body"),
    ):  # fmt: skip
        assert first_difference(one, other) == words
    more = PlainGraph(("i",), ("r",), body()[1].nodes | {"s": PlainNode("", "Neg", "", ("i",), ("s",))}, {})
    told = "its attribute 'a' is one body, not one body: in one of them nothing computes 's'"
    assert first_difference(call(a=body()), call(a=("graph", more))) == told


# ---- models ------------------------------------------------------------------------------------


def test_a_model_as_plain_values():
    text = """g (float[N,3] x, float[3] w, int64 i) => (float[N,3] y) <float[3] w = {1, 2, 3}, float[3] v = {1, 2, 3}> {
        k = Constant <value_float = 2.0> () a = Mul(x, w) b = Add(a, v) y = Mul(b, k)
    }"""
    model = plain(text)
    assert (
        model.graph.inputs == ("x", "i")
        and model.graph.outputs == ("y",)
        and list(model.graph.nodes) == ["a", "b", "y"]
    )
    assert set(model.graph.constants) == {"w", "v", "k"} and model.defaults == {"w"} and model.overridable == {"w"}
    assert set(model.feed_inputs) == {"x", "w", "i"} and set(model.types) == {"x", "i", "y"}
    assert (
        model.symbols == {"N"} and model.opsets == {"": 17, "d": 1} and [s.key for s in model.steps] == ["a", "b", "y"]
    )
    assert model.graph.constants["w"] == model.graph.constants["v"] != model.graph.constants["k"]
    old = model_of(text)
    old.ir_version = 3
    assert plain(old).overridable == set() and set(plain(old).feed_inputs) == {"x", "i"}
    tensors = read_constants(model)
    assert tensors[model.graph.constants["k"]].float_data[:] == [2.0] and len(tensors) == 2


def test_domains_and_omitted_names_are_read_alike():
    for domain, inputs, read in (("ai.onnx", ["x", ""], ("x",)), ("", ["x", ""], ("x",)), ("d", ["x", ""], ("x", ""))):
        model = model_of(RELU)
        model.graph.node[0].CopyFrom(helper.make_node("Clip", inputs, ["y", ""], domain=domain))
        (call,) = plain(model).graph.nodes.values()
        assert call.domain == domain.removeprefix("ai.onnx") and call.inputs == read and len(call.outputs) == len(read)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.graph.input.append(m.graph.input[0]), "two inputs have one name"),
        (lambda m: m.functions.extend([helper.make_function("e", "F", [], [], [], [])] * 2), "two functions of one name"),
        (lambda m: m.functions.append(helper.make_function("", "F", [], [], [], [])), "a function 'F' in a domain of ONNX"),
        (lambda m: m.functions.append(helper.make_function("ai.onnx.ml", "F", [], [], [], [])), "a function 'F' in a domain"),
        (lambda m: m.graph.initializer.append(helper.make_tensor("", 1, [1], [1.0])), "a constant has no name"),
        (lambda m: m.graph.initializer.extend([helper.make_tensor("w", 1, [1], [1.0])] * 2), "two constants have one name"),
        (lambda m: m.graph.initializer.append(helper.make_tensor("y", 1, [1], [1.0])), "'y' has two producers"),
        (lambda m: m.graph.node.extend([helper.make_node("Constant", [], ["k"], value_int=1)] * 2), "'k' has two producers"),
        (lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 3)), "two opsets of one domain"),
        (lambda m: m.graph.node[0].attribute.extend([helper.make_attribute("a", 1)] * 2), "two attributes of one name"),
        (lambda m: m.graph.node[0].attribute.append(AttributeProto(name="a", type=1, f=1.0, i=3)), "attribute 'a' in 'm.onnx' also has i"),
        (lambda m: m.graph.node[0].attribute.append(AttributeProto(name="a", i=3)), "a kind that is not read"),
        (lambda m: m.functions.append(helper.make_function("e", "F", [], [], [], [], attributes=["a", "a"])), "two parameters of one name"),
        (lambda m: m.graph.sparse_initializer.add(), "GraphProto.sparse_initializer, which is not read"),
        (lambda m: m.training_info.add(), "ModelProto.training_info, which is not read"),
    ],
)  # fmt: skip
def test_models_that_readers_could_read_differently_are_refused(change, why):
    model = model_of(RELU)
    change(model)
    with pytest.raises((Unreadable, DoesNotHold), match=why):
        plain(model)


def test_a_constant_node_has_one_attribute_of_one_kind_and_no_overload():
    model = model_of(NEG.replace("y = Neg(x)", "y = Neg(x) k = Constant <value_int = 1> ()"))
    assert set(plain(model).graph.constants) == {"k"}
    model.graph.node[1].attribute[0].f = 2.0
    with pytest.raises(Unreadable, match="attribute 'value_int' in"):
        plain(model)
    model.graph.node[1].attribute[0].ClearField("f")
    for field, value in (("overload", "o"), ("domain", "d"), ("op_type", "Other")):
        other = model_of(NEG)
        other.graph.node.append(model.graph.node[1])
        setattr(other.graph.node[1], field, value)
        assert not plain(other).graph.constants and "k" in plain(other).graph.nodes


def test_what_computes_nothing_is_not_read():
    model = model_of(RELU)
    model.producer_name, model.doc_string, model.domain = "p", "d", "e"
    model.graph.name, model.graph.node[0].name, model.graph.node[0].doc_string = "h", "n", "d"
    model.graph.input[0].type.denotation = "IMAGE"
    assert plain(model).graph == plain(RELU).graph


def test_weights_lie_beside_their_model(tmp_path):
    def model(location, **words):
        made = model_of(RELU)
        tensor = made.graph.initializer.add(name="w", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
        for key, value in reversed(({"location": location} | words).items()):
            tensor.external_data.add(key=key, value=value)
        return made

    folder = tmp_path / "m"
    folder.mkdir()
    for place in (folder / "w.bin", tmp_path / "w.bin"):
        place.write_bytes(np.float32([1, 2, 3]).tobytes())
    found = plain_model(model("w.bin", offset="4", length="8"), folder, "m.onnx")
    assert found.graph.constants["w"].data == np.float32([2, 3]).tobytes()
    assert found.weight_files == {"w.bin": folder / "w.bin"} and read_constants(found) == {}
    assert plain_model(model("w.bin"), folder, "m.onnx").graph.constants["w"].data == np.float32([1, 2]).tobytes()
    for location, words in (
        ("../w.bin", {}),
        ("none", {}),
        ("", {}),
        ("w.bin", {"length": "4"}),
        ("w.bin", {"key": "1"}),
    ):
        with pytest.raises(Unreadable):
            plain_model(model(location, **words), folder, "m.onnx")


def test_weights_of_functions_and_bodies_are_found_too(tmp_path):
    def external(name):
        (tmp_path / name).write_bytes(bytes(4))
        tensor = TensorProto(name="w", data_type=FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=name)
        return tensor

    body = helper.make_graph([helper.make_node("Neg", ["w"], ["p"])], "b", [], [helper.make_empty_tensor_value_info("p")], [external("b")])  # fmt: skip
    model = model_of(RELU)
    model.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=body, else_branch=body))
    model.graph.node.append(helper.make_node("Many", ["x"], ["m"], domain="d", bodies=[body]))
    model.graph.node.append(helper.make_node("Constant", [], ["k"], value=external("a")))
    function = helper.make_function(
        "e", "F", ["x"], ["y"], [helper.make_node("Constant", [], ["y"], value=external("f"))], []
    )
    model.functions.append(function)
    assert set(plain_model(model, tmp_path, "m.onnx").weight_files) == {"a", "b", "f"}


# ---- inference and functions -----------------------------------------------------------------------


def test_shapes_follow_from_inputs_and_constants_alone():
    text = "g (float[N,6] x) => (float[A,B,C] y) { s = Constant <value_ints = [0, 2, -1]> () y = Reshape(x, s) }"
    found = inferred(plain(text), {"N": 4})
    assert found.shape("y") == (4, 2, 3) and found.bytes("y") == 96 and found.element_bits("y") == 32 and not found.why
    assert inferred(plain(text), {}).shape("y") is None and inferred(plain(text), {}).bytes("z") is None
    lies = model_of("g (float[2] x) => (float[3] y) { a = Neg(x) y = Exp(a) }")
    lies.graph.value_info.append(helper.make_tensor_value_info("a", FLOAT, [5]))
    assert inferred(plain(lies), {}).shape("a") == (2,) == inferred(plain(lies), {}).shape("y")


def test_sizes_that_are_computed_are_inferred():
    text = """g (float[N,4,6] x) => (float[A,B] y) {
        s = Shape(x) zero = Constant <value_ints = [0]> () n = Gather(s, zero) rest = Constant <value_ints = [-1]> ()
        t = Concat <axis = 0> (n, rest) y = Reshape(x, t)
    }"""
    assert inferred(plain(text), {"N": 2}).shape("y") == (2, 24)
    quotient = """g (float[N,4,6] x) => (float[A,B,C,D] y) {
        n = Shape <start = 0, end = 1> (x) h = Shape <start = 1, end = 2> (x) w = Shape <start = 2, end = 3> (x)
        two = Constant <value_ints = [2]> () q = Div(h, two) t = Concat <axis = 0> (n, two, q, w) y = Reshape(x, t)
    }"""
    assert inferred(plain(quotient), {"N": 3}).shape("y") == (3, 2, 2, 6)
    unknown = inferred(plain(quotient), {})
    assert unknown.types["y"][1][1] == 2 and len(unknown.types["y"][1]) == 4


def test_bytes_of_types():
    assert size_in_bytes((FLOAT, (2, 3))) == 24 and size_in_bytes((TensorProto.INT4, (3,))) == 2
    assert (
        size_in_bytes((FLOAT, ("n",))) is None is size_in_bytes((TensorProto.STRING, (2,)))
        and size_in_bytes(None) is None
    )
    assert size_in_bytes((TensorProto.BOOL, ())) == 1 and size_in_bytes((TensorProto.INT4, (4,))) == 2


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([helper.make_node("EyeLike", [], ["a"])], "a 'EyeLike' has no first operand"),
        ([helper.make_node("EyeLike", [""], ["a"])], "a 'EyeLike' has no first operand"),
        (
            [helper.make_node("Split", ["x"], ["a", "b"], num_outputs=3)],
            "another number of results than its num_outputs",
        ),
        ([helper.make_node("GatherND", ["x", "x"], ["a"], batch_dims=-1)], "a negative number of batch dims"),
        ([helper.make_node("Split", ["x"], ["b", "c"], num_outputs=2)], ""),
        ([helper.make_node("Range", ["", "x", "x"], ["a"])], "a 'Range' has no first operand"),
    ],
)
def test_what_would_crash_inference_is_not_inferred(nodes, why):
    model = model_of(RELU)
    model.opset_import[0].version = 18
    model.graph.node.extend(nodes)
    found = inferred(plain(model), {}).why
    assert why in found and bool(found) == bool(why)


FUNCTION = '\n<domain: "d", opset_import: ["": 17]> F <k> (a, b) => (r, s) { t = Add(a, b) r = Cast <to: int = @k> (t) s = Neg(t) }'


def test_opened_functions_have_operands_results_and_attributes_of_their_call():
    text = "g (float[2] x) => (float[2] y, float[2] z) { t = Exp(x) y, z = d.F <k = 10> (t, x) }"
    model = model_of(text + FUNCTION)
    found = opened(model)
    assert [n.op_type for n in found.nodes] == ["Exp", "Add", "Cast", "Neg"]
    _, add, cast, neg = found.nodes
    assert list(add.input) == ["t", "x"] and list(cast.output) == ["y"] and list(neg.output) == ["z"]
    assert add.output[0] not in ("t", "") and cast.input[0] == neg.input[0] == add.output[0]
    assert cast.attribute[0].i == 10 and cast.attribute[0].name == "to" and not cast.attribute[0].ref_attr_name
    assert found.call_of == {add.output[0]: 1, "y": 1, "z": 1}
    kept = opened(model, [("d", "F", "")])
    assert [n.op_type for n in kept.nodes] == ["Exp", "F"] and kept.call_of == {}


def test_a_result_that_is_an_operand_is_an_identity():
    function = '\n<domain: "d", opset_import: ["": 17]> F (a) => (a, r, r) { r = Neg(a) }'
    model = model_of("g (float[2] x) => (float[2] y, float[2] z, float[2] w) { y, z, w = d.F(x) }" + function)
    found = {node.output[0]: (node.op_type, list(node.input)) for node in opened(model).nodes}
    assert (found["y"] == ("Identity", ["x"]) and found["w"] == ("Neg", ["x"])) or found["z"] == ("Neg", ["x"])
    assert {"y", "z", "w"} <= found.keys()


def test_calls_in_bodies_and_functions_are_opened_too():
    text = """g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] p) { p = d.G(x) }, else_branch = e () => (float[2] q) { q = Neg(x) }>
    }"""
    functions = '\n<domain: "d", opset_import: ["": 17, "d": 1]> G (a) => (r) { r = d.H(a) }\n<domain: "d", opset_import: ["": 17]> H (a) => (r) { r = Exp(a) }'
    model = model_of(text + functions)
    (call,) = opened(model).nodes
    inside = call.attribute[0].g.node
    assert [(n.op_type, list(n.input), list(n.output)) for n in inside] == [("Exp", ["x"], ["p"])]
    assert expanded_nodes(model) == 3 + 2 and read_in_bodies(model.graph.node[0]) == {"x"}


def test_functions_of_another_opset_are_not_opened_and_none_calls_itself():
    other = FUNCTION.replace("17", "13")
    text = "g (float[2] x) => (float[2] y, float[2] z) { y, z = d.F <k = 10> (x, x) }"
    with pytest.raises(Unreadable, match="the function 'F' has another opset than its model"):
        opened(model_of(text + other))
    again = '\n<domain: "d", opset_import: ["d": 1]> F (a) => (r) { r = d.F(a) }'
    with pytest.raises(Unreadable, match=r"the function 'd\.F' calls itself"):
        expanded_nodes(model_of(RELU.replace("Relu", "d.F") + again))


def test_expanding_adds_only_so_many_nodes(monkeypatch):
    function = '\n<domain: "d", opset_import: ["": 17]> F (a) => (r) { t = Neg(a) r = Exp(t) }'
    model = model_of("g (float[2] x) => (float[2] y) { a = d.F(x) b = d.F(a) y = d.F(b) }" + function)
    for most, too_far in ((4, False), (3, True)):  # 3 calls and 6 nodes in them, of 5 nodes in the file
        monkeypatch.setattr(inference, "MAX_EXPANDED", most)
        assert inference.expands_too_far(model) == too_far
        assert bool(inferred(plain(model), {}).why) == too_far
        if too_far:
            with pytest.raises(Unreadable, match="adds too many nodes"):
                opened(model)


def test_names_of_operators():
    assert full_name("", "Relu") == "Relu" == full_name("ai.onnx", "Relu") and full_name("d", "F") == "d.F"
    assert full_name("", "F", "o") == "F:o" and full_name("", "d.F") == ":d.F" != full_name("d", "F")
    assert is_known("Relu", 7) and not is_known("Relu", 6) and is_known("Softmax", 13) and not is_known("Softmax", 12)


def test_versions_of_passes():
    for op, opset, same in (("Relu", 6, True), ("Softmax", 12, False), ("Softmax", 13, True), ("Hide", 7, True),
                            ("Split", 13, False), ("Slice", 9, False), ("Pad", 10, False), ("Relu", 23, True),
                            ("ReduceSum", 11, False), ("Upsample", 9, False), ("Hardmax", 11, False),
                            ("LogSoftmax", 12, False), ("LogSoftmax", 13, True), ("Hardmax", 13, True),
                            ("GroupNormalization", 20, False), ("GroupNormalization", 21, True),
                            ("RoiAlign", 15, False), ("RoiAlign", 16, True), ("Split", 17, False)):  # fmt: skip
        assert is_of_passes(op, opset) is same, (op, opset)


def test_names_in_messages_are_escaped():
    assert in_quotes("a'b") == r"'a\'b'" and in_quotes("a\\b") == r"'a\\b'" and in_quotes("X") == "'X'"
    assert in_quotes("a\nb c") == r"'a\nb c'"


def test_types_contradict_each_other_only_where_both_say_something():
    optional, shaped, ranked = ("optional", FLOAT), (FLOAT, (2, "N")), (FLOAT, None)
    for one, other, found in ((shaped, ranked, False), (ranked, shaped, False), (None, shaped, False),
                              (shaped, (FLOAT, (3, 4)), True), (shaped, (FLOAT, ("M", 4)), False),
                              (shaped, (INT64, (2, 4)), True), (shaped, (FLOAT, (2,)), True),
                              (optional, optional, False)):  # fmt: skip
        assert contradiction(one, other) is found, (one, other)


# ---- certificates from end to end ------------------------------------------------------------------

EXP = "g (float[2,3] x) => (float[2,3] y) { a = Neg(x) y = Exp(a) }"


def removed(op, reads, makes):
    return node(op, [reads], [makes])


@pytest.mark.parametrize(
    ("edit", "output", "equal", "why"),
    [
        ({"remove": [node("Neg", ["x"], ["y"])], "insert": [node("Relu", ["x"], ["y"])]}, RELU, False, "give different results alone"),
        ({"remove": [node("Neg", ["x"], ["y"])], "insert": [node("Neg", ["x"], ["b"]), node("Identity", ["b"], ["y"])]}, NEG.replace("y = Neg(x)", "b = Neg(x) y = Identity(b)"), True, "for 1 of 1 rewrites"),
        ({"insert": [node("Exp", ["x"], ["b"])]}, NEG.replace("y = Neg(x)", "b = Exp(x) y = Neg(x)"), None, "1 of 1 rewrites cannot be evaluated alone"),
    ],
)  # fmt: skip
def test_rewrites_are_evaluated_alone(tmp_path, edit, output, equal, why):
    found = forged(tmp_path, NEG, output, rewriting(edit))
    if equal is False:
        with pytest.raises(DoesNotHold, match="'y' differs"):
            found.check(1)
        return
    (said,) = (s for s in found.check(1).statements if "alone" in s.sentence)
    assert said.sentence.startswith(why) and said.proven == bool(equal)


def test_a_rewrite_that_relies_on_the_nodes_before_it_is_evaluated_with_them(tmp_path):
    model = "g (float[2,3] x) => (float[2,3] y) { a = Abs(x) y = Relu(a) }"
    output = "g (float[2,3] x) => (float[2,3] y) { a = Abs(x) y = Identity(a) }"
    edit = {"remove": [node("Relu", ["a"], ["y"])], "insert": [node("Identity", ["a"], ["y"])]}
    found = forged(tmp_path, model, output, rewriting(edit, rule="r")).check(2)
    told = [s.sentence for s in found.statements if "alone" in s.sentence]
    assert told == ["1 of 1 rewrites give different results alone; they may rely on properties of their operands: 'rewrite 1 (r)'"]  # fmt: skip
    assert (
        found.holds == {"log", "run"}
        and "equal to the last bit on 2 random inputs, and 4 with NaN, infinities or the largest numbers, in"
        in found.answer
    )


def test_a_log_without_rewrites_says_that_nothing_changed(tmp_path):
    found = forged(tmp_path, NEG, NEG).check()
    assert found.answer == "'out.onnx' computes the same as 'm.onnx': checked: it has the same nodes and constants"
    assert found.holds == {"log"}
    lines = list(report_lines(found))
    assert lines[0] == found.answer and lines[1] == "checked:" and "claimed, not checked:" not in lines
    bounds = forged(tmp_path, NEG, NEG, bounds=[{"kind": "order"}]).check()
    assert bounds.holds == {"log", "bounds"}
    unproven = forged(tmp_path, NEG, NEG, bounds=[{"kind": "order"}, {"kind": "plan", "offsets": {}}]).check()
    assert unproven.holds == {"log"} and "claimed, not checked:" in list(report_lines(unproven))


def test_modes_steps_and_sizes_of_certificates(tmp_path):
    for mode in ("exact", "ieee", "fast"):
        assert forged(tmp_path, NEG, NEG, mode=mode).check().holds == {"log"}
    assert "the certificate's mode is 'other'" in refusal(forged(tmp_path, NEG, NEG, mode="other"))
    free = NEG.replace("float[2,3]", "float[N,3]")
    assert forged(tmp_path, free, free, dims={"N": 4}).check().holds == {"log"}
    assert "has sizes for 'M', which are not sizes" in refusal(forged(tmp_path, free, free, dims={"N": 1, "M": 4}))
    assert forged(tmp_path, free, free, dims={"N": 0}).check().holds == {"log"}
    unknown = dict.fromkeys("hgfedcba", 1)
    assert "has sizes for 'a', 'b', 'c', 'd', 'e', 'f' and 2 more, which" in refusal(
        forged(tmp_path, free, free, dims=unknown)
    )
    for size in (-1, 2**31):
        assert "size of 'N' is not from 0 to" in refusal(forged(tmp_path, free, free, dims={"N": size}))
    assert "the certificate has more than 20 bounds" in refusal(
        forged(tmp_path, NEG, NEG, bounds=[{"kind": "order"}] * 21)
    )
    assert forged(tmp_path, NEG, NEG, bounds=[{"kind": "order"}] * 20).check().holds == {"log", "bounds"}
    assert "is not a name of a pass" in refusal(forged(tmp_path, NEG, NEG, {"pass": "a b"}))
    loading, exporting, other = {"pass": "loading"}, {"pass": "exporting"}, {"pass": "fold_constants"}
    assert forged(tmp_path, NEG, NEG, loading, other, exporting).check().holds == {"log"}
    assert "step 2 is called loading" in refusal(forged(tmp_path, NEG, NEG, other, loading))
    assert "step 1 is called exporting" in refusal(forged(tmp_path, NEG, NEG, exporting, other))


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"remove": [node("Neg", ["x"], ["b"])]}, "removes the Neg that computes 'b', which the graph does not have"),
        ({"remove": [node("Neg", ["z"], ["a"])]}, "and in the graph it reads (x), not (z)"),
        ({"remove": [node("Neg", ["x"], ["a"])]}, "removes 'a', and the Exp that computes 'y' still reads it"),
        ({"remove": [node("Exp", ["a"], ["y"])]}, "removes 'y', which is an output of the graph"),
        ({"insert": [node("Neg", ["none"], ["b"])]}, "reads 'none', which nothing computes"),
        ({"insert": [node("Neg", ["x"], ["a"])]}, "'a' has two producers, one of them a new Neg"),
        ({"insert": [node("Neg", ["a"], ["x"])]}, "'x' has two producers"),
        ({"insert": [node("Neg", ["x"], [])]}, "inserts a Neg without a result"),
        ({"insert": [node("Neg", ["c"], ["b"]), node("Neg", ["b"], ["c"])]}, "is in a cycle or depends on one"),
        ({"drop": {"w": {"type": 1, "shape": [], "sha256": "0" * 64}}}, "removes the constant 'w', which the graph does not have"),
        ({"constants": {"a": {"type": 1, "shape": [], "sha256": "0" * 64}}}, "'a' has two producers, one of them a constant"),
        ({"types": {"x": [1, [2, 4]]}}, "which is not a permutation of float[2, 3]"),
        ({"types": {"x": [11, [2, 3]]}}, "which is not a permutation of float[2, 3]"),
        ({"types": {"x": [1, [2, 3, 1]]}}, "which is not a permutation of float[2, 3]"),
        ({"opsets": {"": 18}}, "changes the opset, which only loading and exporting do"),
        ({"inside": [{"node": "b", "bodies": []}]}, "changes a body of the node that computes 'b', which the graph does not have"),
        ({"inside": [{"node": "a", "bodies": [{"body": "g", "edit": {}}]}]}, "which has no such body"),
        ({"insert": [node("Neg", ["x"], ["b"])]}, "after the log 'b' is computed by Neg, in the output by nothing"),
        ({"types": {"x": [1, [3, 2]]}}, "'x' has another type or shape: float[3, 2] after the log, and float[2, 3]"),
        ({"types": {"x": [10, [2, 3]]}}, "'x' has another type or shape"),
    ],
)  # fmt: skip
def test_edits_that_do_not_fit_are_refused(tmp_path, edit, why):
    assert why in refusal(forged(tmp_path, EXP, EXP, rewriting(edit)))


def test_the_command_says_what_is_required_and_not_met(tmp_path):
    parser_ = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser_)
    found = forged(tmp_path, NEG, NEG)
    files = [str(found.model), str(found.output), str(found.path)]
    chosen = parser_.parse_args(files)
    assert (chosen.runs, chosen.require) == (0, ["log"])
    lines, code = checked_command(chosen)
    assert code == 0 == command.HOLDS and lines[0].endswith("checked: it has the same nodes and constants")
    lines, code = checked_command(parser_.parse_args([*files, "--require", "log, bounds"]))
    assert code == 1 and lines[-1] == "required and not met: bounds (every bound in the certificate is proven for the output, and there is at least one)"  # fmt: skip
    assert checked_command(parser_.parse_args([*files, "--run", "1", "--require", "run"]))[1] == 0
    with pytest.raises(argparse.ArgumentTypeError, match="--require run needs --run N"):
        checked_command(parser_.parse_args([*files, "--require", "run"]))
    for words in (
        ["--run", "0"],
        ["--run", "10001"],
        ["--run", "-1"],
        ["--run", "1.5"],
        ["--run", "x"],
        ["--run", "1_0"],
        ["--require", "log,x"],
    ):
        with pytest.raises(argparse.ArgumentError):
            parser_.parse_args([*files, *words])
    assert parser_.parse_args([*files, "--run", "10000"]).runs == 10_000
    other = forged(tmp_path, NEG, RELU)
    assert checked_command(parser_.parse_args([str(other.model), str(other.output), str(other.path)]))[1] == 1


def test_files_are_those_of_the_certificate(tmp_path):
    found = forged(tmp_path, NEG, NEG)
    onnx.save(model_of(RELU), found.model)
    assert "'m.onnx' is not the model of the certificate: its SHA-256 differs" in refusal(found)
    found = forged(tmp_path, NEG, NEG)
    model = model_of(NEG)
    model.doc_string = "another"
    onnx.save(model, found.output)
    assert "'out.onnx' is not the output of the certificate: its SHA-256 differs" in refusal(found)
    with pytest.raises(Unreadable):
        check_files(tmp_path / "none.onnx", found.output, found.path)


def test_operators_of_a_runtime_are_named_and_others_refused(tmp_path):
    def with_operator(domain, op):
        model = model_of(NEG.replace("y = Neg(x)", "y = Neg(x) b = Neg(x)"))
        model.graph.node[1].domain, model.graph.node[1].op_type = domain, op
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
        return model

    def check(domain, op):
        insert = node(op, ["x"], ["b"]) | {"domain": domain}
        model = with_operator("", "Neg")
        del model.graph.node[1]
        return forged(tmp_path, model, with_operator(domain, op), rewriting({"insert": [insert]}))

    for domain, op, known in (("", "Exp", True), ("com.microsoft", "Gelu", True), ("com.microsoft", "Hide", False),
                              ("com.microsoft.nchwc", "Conv", False)):  # fmt: skip
        sentences = [s.sentence for s in check(domain, op).check().statements]
        assert (f"that a runtime has '{domain}.{op}'" in sentences) != known
    for domain, op in (("d", "Hide"), ("", "Hide"), ("com.microsofter", "Gelu")):
        assert "which neither ONNX defines nor a function, nor has the model" in refusal(check(domain, op))
    model = with_operator("d", "Hide")
    assert forged(tmp_path, model, model).check().holds == {"log"}


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ("float[2,3,3]", [1, [3, 2, 3]], True),
        ("float[2,3,3]", [1, [2, 2, 3]], False),
        ("float[2,3,3]", [1, [2, 3]], False),
        ("float[2,3,3]", [16, [2, 3, 3]], True),
        ("float[2,3,3]", [7, [2, 3, 3]], False),
        ("float[2,3,3]", [1, None], False),
        ("float[2,3,3]", None, False),
        ("float[N,3,3]", [1, [3, 3, "N"]], True),
        ("float[N,3,3]", [1, [3, 3, 4]], False),
        ("float16[2,3,3]", [1, [2, 3, 3]], True),
        ("float16[2,3,3]", [16, [2, 3, 3]], False),
    ],
)
def test_a_pass_permutes_and_narrows_inputs_and_nothing_else(tmp_path, before, after, allowed):
    text = f"g ({before} x) => ({before} y) {{ y = Relu(x) }}"
    sentence = refusal(forged(tmp_path, text, text, rewriting({"types": {"x": after}})))
    assert ("which is not a permutation of" not in sentence) == allowed
    assert ("has another type or shape" in sentence) == allowed


def test_a_file_may_have_open_sizes_that_become_known(tmp_path):
    text = "g (float[2,3] x) => ({} y) {{ y = Relu(x) }}"
    for declared, after, allowed in (
        ("float[A,B]", [2, 3], True),
        ("float[A,3]", [2, 4], False),
        ("float", [2, 3], False),
    ):
        edit = rewriting({"types": {"y": [1, after]}})
        found = forged(tmp_path, text.format(declared), text.format("float[2,3]"), edit)
        if allowed:
            assert any("'y' is float[2, 3], and was float[A, B]" in s.sentence for s in found.check().statements)
        else:
            assert refusal(found)


def test_constants_are_replaced_by_those_that_the_output_has(tmp_path):
    def of(*numbers):
        tensor = np.float32(numbers)
        return {"type": 1, "shape": [len(numbers)], "sha256": hashlib.sha256(tensor.tobytes()).hexdigest()}

    text = "g (float[2,2] x) => (float[2,2] y) <float[2] w = {{{}}}> {{ y = Mul(x, w) }}"
    one, two = text.format("1, 2"), text.format("1, 3")
    assert forged(tmp_path, one, two, rewriting({"drop": {"w": of(1, 2)}, "constants": {"w": of(1, 3)}})).check()
    for edit, why in (
        ({"drop": {"w": of(1, 3)}, "constants": {"w": of(1, 3)}}, "removes the constant 'w', which has other elements in the graph"),
        ({"constants": {"w": of(1, 3)}}, "replaces the constant 'w' without removing it"),
        ({"drop": {"w": of(1, 2)}}, "removes 'w', and the Mul that computes 'y' still reads it"),
        ({"drop": {"w": of(1, 2)}, "constants": {"w": of(1, 4)}}, "has other elements in the output than after the log (their SHA-256 differ)"),
        ({"drop": {"w": of(1, 2)}, "constants": {"w": of(1, 3) | {"shape": [1, 2]}}}, "has shape [2] and type 1 in the output, not [1, 2] and 1"),
        ({}, "has other elements in the output"),
    ):  # fmt: skip
        assert why in refusal(forged(tmp_path, one, two, rewriting(edit)))
    unread = forged(tmp_path, one, one, rewriting({"constants": {"v": of(1)}}))
    assert unread.check().holds == {"log"}  # nothing reads it


def test_bodies_are_edited_in_place(tmp_path):
    def text(op):
        return f"""g (float[2] x, bool c) => (float[2] y) {{
            y = If (c) <then_branch = t () => (float[2] p) {{ p = {op}(x) }}, else_branch = e () => (float[2] q) {{ q = Exp(x) }}>
        }}"""

    def inside(body="then_branch", **edit):
        return rewriting({"inside": [{"node": "y", "bodies": [{"body": body, "edit": edit}]}]})

    edit = {"remove": [node("Neg", ["x"], ["p"])], "insert": [node("Abs", ["x"], ["p"])]}
    assert forged(tmp_path, text("Neg"), text("Abs"), inside(**edit)).check().holds == {"log"}
    for step, why in (
        (inside("else_branch", **edit), "removes the Neg that computes 'p', which the graph does not have"),
        (inside("other", **edit), "changes the body 'other' of the If that computes 'y', which has no such body"),
        (inside("then_branch[1]", **edit), "which has no such body"),
        (inside(remove=edit["remove"], insert=[node("Abs", ["none"], ["p"])]), "reads 'none', which nothing computes"),
        (inside(remove=edit["remove"]), "removes 'p', which is an output of the graph"),
        (inside(**edit, opsets={"": 18}), "changes types, functions or opsets in a body, which has none"),
        (inside(**edit, types={"x": None}), "changes types, functions or opsets in a body, which has none"),
        (inside(remove=edit["remove"], insert=[node("Sign", ["x"], ["p"])]), "of the Sign that computes 'p' there, the operator is Sign, not Abs"),
    ):  # fmt: skip
        assert why in refusal(forged(tmp_path, text("Neg"), text("Abs"), step))


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("g (float[2,3] x, float[2,3] z) => (float[2,3] y) { y = Neg(x) }", "after the log the inputs are 'x', in the output 'x', 'z'"),
        ("g (float[2,3] x) => (float[2,3] y, float[2,3] x) { y = Neg(x) }", "after the log the outputs are 'y', in the output 'y', 'x'"),
        ("g (float[2,3] x) => (float[2,3] y) { y = Neg(x) b = Neg(x) }", "in the output 'b' is computed by Neg, after the log by nothing"),
        ("g (float[2,3] x) => (float[2,3] y) { y = Abs(x) }", "of the Neg that computes 'y', after the log the operator is Neg, not Abs as in the output"),
        ("g (float[2,4] x) => (float[2,4] y) { y = Neg(x) }", "'x' has another type or shape: float[2, 3] after the log, and float[2, 4] in the output"),
        ("g (float[2,3] x) => (float[2,3] y) { y = Neg(x) d.Print(x) }", "the output has a d.Print without a result, and the model does not have it"),
    ],
)  # fmt: skip
def test_the_output_is_what_the_log_leads_to(tmp_path, output, why):
    model = model_of(output) if "Print" not in output else None
    if model is None:
        model = model_of(NEG)
        model.graph.node.append(helper.make_node("Print", ["x"], [], domain="d"))
    assert why in refusal(forged(tmp_path, NEG, model))


def test_inputs_with_a_default_may_become_constants_and_change_no_type(tmp_path):
    text = "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }"
    fixed = text.replace(", float[2] w)", ")")
    found = forged(tmp_path, text, fixed).check()
    assert any(s.sentence == "inputs of the model that are constants in the output: 'w'" for s in found.statements)
    assert "a caller may feed 'x', 'w' to the output, and after the log 'x'" in refusal(forged(tmp_path, fixed, text))
    model = model_of(text)
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "M"
    assert "the input 'w' has another type or shape in the output" in refusal(forged(tmp_path, text, model))
    open_ = model_of(text)
    del open_.graph.initializer[:]
    assert refusal(forged(tmp_path, text, open_))


def test_what_loading_and_exporting_changed_is_said(tmp_path):
    def said(edit, model=NEG, output=NEG, name="loading"):
        found = forged(tmp_path, model, output, {"pass": name, "rewrites": [{"edit": edit}]}).check()
        (sentence,) = (s.sentence for s in found.statements if s.sentence.startswith(name))
        return sentence

    assert (
        said({}) == "loading: nothing that is computed"
        and said({}, name="exporting") == "exporting: nothing that is computed"
    )
    edit = {"remove": [node("Neg", ["x"], ["y"])], "insert": [node("Relu", ["x"], ["y"])]}
    assert said(edit, output=RELU) == "loading: nodes taken out: 1 Neg; nodes put in: 1 Relu"
    output = model_of(NEG, 18)
    assert said({"opsets": {"": 18, "d": 1}}, output=output) == "loading: opset 17 to 18"
    assert (
        said({"opsets": {"": 17}}, output=changed(NEG, lambda m: m.opset_import.pop()))
        == "loading: opset of d 1 to absent"
    )
    types = {"types": {"x": [1, [3, 2]]}}
    turned = NEG.replace("float[2,3] x", "float[3,2] x")
    assert said(types, output=turned) == "loading: 'x' is float[3, 2], and was float[2, 3]"
    sha = {"type": 1, "shape": [1], "sha256": hashlib.sha256(np.float32([1]).tobytes()).hexdigest()}
    with_constant = NEG.replace("(float[2,3] y)", "(float[2,3] y) <float[1] w = {1}>")
    assert said({"constants": {"w": sha}}) == "loading: constants changed or added: 'w'"
    assert said({"drop": {"w": sha}}, model=with_constant) == "loading: constants taken out: 1"
    many = [
        node(op, ["x"], [f"b{n}"]) for n, op in enumerate(("Abs", "Abs", "Exp", "Neg", "Relu", "Sin", "Cos", "Tan"))
    ]
    text = NEG.replace("y = Neg(x)", "y = Neg(x) " + " ".join(f"{n['outputs'][0]} = {n['op']}(x)" for n in many))
    assert said({"insert": many}, output=text) == (
        "loading: nodes put in: 2 Abs, 1 Exp, 1 Neg, 1 Relu, 1 Sin, 1 Cos and 1 other operators"
    )


def test_functions_are_added_and_changed_by_loading_and_exporting_alone(tmp_path):
    def function(op, **fields):
        nodes = [node(op, ["a"], ["b"])]
        graph = {"inputs": ["a"], "outputs": ["b"], "nodes": nodes, "constants": {}}
        return {"domain": "d", "name": "F", "overload": "", "graph": graph, "opsets": {"": 17}} | fields

    def body(op):
        return f'\n<domain: "d", opset_import: ["": 17]> F (a) => (b) {{ b = {op}(a) }}'

    call = RELU.replace("Relu", "d.F")
    for before, after, edit, said in (
        (call + body("Neg"), call + body("Exp"), [function("Exp")], "loading: function 'd.F' changed"),
        (RELU, RELU + body("Exp"), [function("Exp")], "loading: function 'd.F' added"),
        (RELU + body("Exp"), RELU, [{"domain": "d", "name": "F", "overload": ""}], "loading: function 'd.F' taken out"),
    ):
        step = {"pass": "loading", "rewrites": [{"edit": {"functions": edit}}]}
        found = forged(tmp_path, before, after, step).check()
        assert said in [s.sentence for s in found.statements]
    changed_by_pass = rewriting({"functions": [function("Exp")]})
    assert "gives the function 'd.F' another body" in refusal(forged(tmp_path, call + body("Neg"), call + body("Exp"), changed_by_pass))  # fmt: skip
    assert "adds the function 'd.F', which the model calls as an operator" in refusal(forged(tmp_path, call, call + body("Exp"), changed_by_pass))  # fmt: skip
    assert forged(tmp_path, RELU, RELU + body("Exp"), changed_by_pass).check().holds == {"log"}
    assert "the function 'd.F' differs between the output and the log" in refusal(forged(tmp_path, RELU, RELU + body("Neg"), changed_by_pass))  # fmt: skip
    for domain in ("", "ai.onnx", "com.microsoft", "ai.onnx.ml"):
        edit = rewriting({"functions": [function("Exp", domain=domain)]})
        assert "in a domain whose operators are defined elsewhere" in refusal(forged(tmp_path, RELU, RELU, edit))
    lost = rewriting({"functions": [{"domain": "d", "name": "F", "overload": ""}]})
    assert "the output calls 'F', which is a function in the model, without its body" in refusal(forged(tmp_path, call + body("Neg"), call, lost))  # fmt: skip


def test_bodies_in_a_list_are_edited_by_their_number(tmp_path):
    def model(*operators):
        bodies = [parser.parse_graph(f"b () => (float[2] p) {{ p = {op}(x) }}") for op in operators]
        made = model_of("g (float[2] x) => (float[2] y) { y = d.Many(x) }")
        made.graph.node[0].attribute.append(helper.make_attribute("bodies", bodies))
        return made

    edit = {"remove": [node("Neg", ["x"], ["p"])], "insert": [node("Abs", ["x"], ["p"])]}
    for number, outputs in ((0, ("Abs", "Neg")), (1, ("Neg", "Abs"))):
        step = rewriting({"inside": [{"node": "y", "bodies": [{"body": f"bodies[{number}]", "edit": edit}]}]})
        assert forged(tmp_path, model("Neg", "Neg"), model(*outputs), step).check().holds == {"log"}
        assert "d.Many that computes 'y'" in refusal(forged(tmp_path, model("Neg", "Neg"), model(*outputs[::-1]), step))
    step = rewriting({"inside": [{"node": "y", "bodies": [{"body": "bodies[2]", "edit": edit}]}]})
    assert "which has no such body" in refusal(forged(tmp_path, model("Neg", "Neg"), model("Neg", "Abs"), step))


def test_an_output_of_unknown_rank_may_get_its_shape(tmp_path):
    model = changed(RELU, lambda m: m.graph.output[0].type.tensor_type.ClearField("shape"))
    found = forged(tmp_path, model, RELU, rewriting({"types": {"y": [1, [2, 3]]}})).check()
    assert any("'y' is float[2, 3], and was float of any shape" in s.sentence for s in found.statements)


def test_a_file_whose_nodes_stand_before_what_they_read_does_not_hold(tmp_path):
    turned = changed(EXP, lambda m: m.graph.node.append(m.graph.node.pop(0)))
    assert "the Exp that computes 'y' is before the node that computes 'a'" in refusal(forged(tmp_path, EXP, turned))


def test_what_loading_changed_in_bodies_is_said(tmp_path):
    text = """g (float[2] x, bool c) => (float[2] y) {{
        y = If (c) <then_branch = t () => (float[2] p) {{ p = {}(x) }}, else_branch = e () => (float[2] q) {{ q = Exp(x) }}>
    }}"""
    edit = {"remove": [node("Neg", ["x"], ["p"])], "insert": [node("Abs", ["x"], ["p"])]}
    inside = {"inside": [{"node": "y", "bodies": [{"body": "then_branch", "edit": edit}]}]}
    step = {"pass": "loading", "rewrites": [{"edit": inside}]}
    said = [s.sentence for s in forged(tmp_path, text.format("Neg"), text.format("Abs"), step).check().statements]
    assert "loading: in then_branch of the node that computes 'y': nodes taken out: 1 Neg, nodes put in: 1 Abs" in said
