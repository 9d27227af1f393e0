"""Graphs and ONNX's messages: a model with everything that a file may say is the same after being read and written."""

import numpy as np
import onnx_ir
import pytest
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    StringStringEntryProto,
    TensorProto,
    helper,
    numpy_helper,
    parser,
)

from workbench.ir import Graph, Node, OpaqueType, TensorType, constant, from_text
from workbench.ir.from_proto import attribute_value, bodies, from_proto, read_copy, value_type
from workbench.ir.networkx_graph import networkx_graph
from workbench.ir.node import AttrRef, Function
from workbench.ir.text import parser_message, to_text
from workbench.ir.to_proto import LARGE, function_proto, graph_parts, inside, is_large, structure, to_proto, write_value
from workbench.ir.types import DataType, MissingConstant

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def branch(name, op):
    """A body with notes: what it returns is typed, and it captures `a`."""
    node = helper.make_node(op, ["a"], [f"{name}_r"], name=f"{name}_n", doc_string="inside")
    helper.set_metadata_props(node, {"k": name})
    inner = helper.make_node("Neg", [f"{name}_r"], [f"{name}_s"], name=f"{name}_m")
    result = helper.make_tensor_value_info(f"{name}_s", FLOAT, [2])
    return helper.make_graph(
        [node, inner], name, [], [result], value_info=[helper.make_tensor_value_info(f"{name}_r", FLOAT, [2])]
    )


def everything() -> ModelProto:
    plugin = helper.make_node(
        "Plug", ["y", "", "k"], ["z", "", "w"], name="plug", domain="own", overload="fast", doc_string="why"
    )
    helper.set_metadata_props(plugin, {"b": "2", "a": "1"})
    values = {
        "i": 3,
        "f": 0.5,
        "s": "text",
        "raw": b"\xff\x00",
        "ints": [1, 2],
        "floats": [0.5, 1.0],
        "strings": ["a", "b"],
        "one": ["a"],
    }
    plugin.attribute.extend(helper.make_attribute(name, value) for name, value in values.items())
    plugin.attribute.append(helper.make_attribute("tensor", numpy_helper.from_array(np.float32([1, 2]), "inner")))
    plugin.attribute.append(helper.make_attribute("graphs", [branch("g", "Exp"), branch("h", "Log")]))
    plugin.attribute.append(helper.make_attribute("of_type", helper.make_tensor_type_proto(FLOAT, [1])))
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch("t", "Neg"), else_branch=branch("e", "Abs")),
        plugin,
        helper.make_node("Call", ["w", "d"], ["v"], name="call", domain="own", alpha=0.25),
    ]
    inputs = [
        helper.make_tensor_value_info("x", FLOAT, [2], doc_string="an input"),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("d", FLOAT, ["N", None]),
        helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [2]))),
    ]
    inputs[0].type.denotation = "IMAGE"
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, ["M"]))
    mapping = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, [2]))
    outputs = [helper.make_tensor_value_info("v", FLOAT, None), helper.make_value_info("z", sequence)]
    inner = [helper.make_tensor_value_info("k", FLOAT, [2]), helper.make_tensor_value_info("a", FLOAT, [2])]
    inner += [helper.make_tensor_value_info("y", FLOAT, [2]), helper.make_value_info("w", mapping)]
    graph = helper.make_graph(
        nodes, "everything", inputs, outputs, [numpy_helper.from_array(np.float32([3, 4]), "k")], "of the graph", inner
    )
    helper.set_metadata_props(graph, {"graph": "note"})
    for value, entry in (("k", "k"), ("y", "k")):
        graph.quantization_annotation.add(tensor_name=value).quant_parameter_tensor_names.append(
            StringStringEntryProto(key="SCALE_TENSOR", value=entry)
        )
    body = [
        helper.make_node("Neg", ["p"], ["q"], name="n"),
        helper.make_node("Elu", ["q"], ["r"], name="e"),
        helper.make_node("Add", ["r", "r"], ["s"], name="add"),
    ]
    body[1].attribute.append(AttributeProto(name="alpha", ref_attr_name="alpha", type=AttributeProto.FLOAT))
    typed = [helper.make_tensor_value_info(value, FLOAT, [2]) for value in ("p", "q", "s")]
    function = helper.make_function(
        "own",
        "Call",
        ["p", "more"],
        ["s"],
        body,
        [helper.make_opsetid("", 20)],
        ["alpha"],
        [helper.make_attribute("beta", 2)],
        value_info=typed,
    )
    function.ClearField("overload")
    model = helper.make_model(
        graph, functions=[function], opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    )
    model.producer_name, model.domain, model.model_version, model.doc_string = (
        "graph-workbench",
        "d.o.m",
        7,
        "of the model",
    )
    helper.set_metadata_props(model, {"a": "1", "model": "note"})
    model.configuration.add(name="devices", num_devices=2)
    model.ir_version = 11
    return model


def kept(model: ModelProto) -> Graph:
    from workbench.ir.preserved_metadata import PassthroughFields, kept_fields

    graph = from_proto(model)
    graph.kept = PassthroughFields(model=kept_fields(model))
    graph.metadata.pop("producer")
    return graph


def test_a_model_with_everything_is_the_same_after_being_read_and_written():
    """But for notes of nodes, which are in alphabetical order."""
    model = everything()
    written = to_proto(kept(model))
    model.graph.node[2].metadata_props.sort(key=lambda entry: entry.key)
    assert written == model
    assert from_proto(model).metadata == {"a": "1", "model": "note", "producer": "graph-workbench"}
    unnamed = everything()
    unnamed.graph.name, unnamed.producer_name = "", ""
    assert from_proto(unnamed).name == "graph" and "producer" not in from_proto(unnamed).metadata


def test_what_is_read_of_it():
    graph = kept(everything())
    assert (
        graph.name == "everything"
        and graph.inputs == ("x", "c", "d", "o")
        and graph.opset_imports == {"": 20, "own": 1}
    )
    node = graph.node("plug")
    assert (node.op, node.overload, node.inputs, node.outputs) == ("own.Plug", "fast", ("y", "", "k"), ("z", "", "w"))
    assert dict(node.metadata) == {"a": "1", "b": "2", "doc_string": "why"}
    attributes = {
        "i": 3,
        "f": 0.5,
        "s": "text",
        "raw": b"\xff\x00",
        "ints": (1, 2),
        "floats": (0.5, 1.0),
        "strings": ("a", "b"),
    }
    assert {name: node.attributes[name] for name in attributes} == attributes
    assert [body.name for body in node.attributes["graphs"]] == ["g", "h"]
    assert node.attributes["tensor"].numpy().tolist() == [1, 2]
    assert graph.node("if").bodies["then_branch"].node("t_n").metadata == {"k": "t", "doc_string": "inside"}
    assert graph.types["d"] == TensorType(DataType.FLOAT, ("N", None)) and graph.types["v"] == TensorType(
        DataType.FLOAT
    )
    assert {value for value in graph.types if isinstance(graph.types[value], OpaqueType)} == {"o", "z", "w"}
    function = graph.functions["own", "Call", ""]
    assert function.attributes == {"beta": 2, "alpha": None} and function.graph.opset_imports == {"": 20}
    assert function.graph.node("e").attributes["alpha"] == AttrRef("alpha", AttributeProto.FLOAT)


def test_without_metadata_of_nodes_and_with_large_constants_elsewhere():
    graph = kept(everything())
    plain = to_proto(graph, metadata=False)
    assert not any(node.metadata_props or node.doc_string for node in plain.graph.node)
    assert not any(node.metadata_props for node in plain.graph.node[1].attribute[0].g.node)
    assert plain.metadata_props and plain.graph.metadata_props and plain.configuration
    large = Graph(
        inputs=["x"],
        outputs=["y"],
        nodes=[Node("Add", ("x", "k"), ("y",), name="n")],
        constants={"k": constant(np.zeros(300, np.float32))},
    )
    written = structure(large, "weights", 9)
    (tensor,) = written.graph.initializer
    assert {entry.key: entry.value for entry in tensor.external_data} == {"location": "weights", "length": "1200"}
    assert written.ir_version == 9 and structure(large).ir_version < 9 and list(tensor.dims) == [300]
    assert structure(large).graph.initializer[0].external_data[0].value == "<this file>"
    assert is_large(constant(np.zeros(LARGE + 1, np.int8))) and not is_large(constant(np.zeros(LARGE, np.int8)))
    assert not is_large(onnx_ir.StringTensor(np.array([b"a" * 2000], object), shape=onnx_ir.Shape((1,))))
    missing = MissingConstant(lambda: 1 / 0, dtype=DataType.FLOAT, shape=onnx_ir.Shape((2,)))
    lost = Graph(inputs=["x"], outputs=["y"], nodes=large.nodes, constants={"k": missing})
    assert structure(lost).graph.initializer[0].data_location == TensorProto.EXTERNAL
    with pytest.raises(ZeroDivisionError):
        to_proto(lost)


def test_many_values_are_written_in_parts_that_make_one_message():
    nodes = [Node("Relu", ("x",), (f"v{i}",), name=f"n{i}") for i in range(600)]
    readers = [Node("Sum", tuple(f"v{i}" for i in range(600)) + tuple(f"k{i}" for i in range(300)), ("y",), name="sum")]
    types = {value: TensorType(DataType.FLOAT, (1,)) for value in ("x", "y", *(f"v{i}" for i in range(600)))}
    graph = Graph(
        inputs=["x"],
        outputs=["y"],
        nodes=[*nodes, *readers],
        types=types,
        constants={f"k{i}": constant(np.float32([i])) for i in range(300)},
    )
    parts = list(graph_parts(graph, inside))
    assert [len(part.value_info) for part in parts] == [256, 256, 256, 132] and len({part.name for part in parts}) == 2
    whole = GraphProto()
    whole.ParseFromString(b"".join(part.SerializeToString() for part in parts))
    assert len(whole.initializer) == 300 and [info.name for info in whole.value_info[-2:]] == ["v598", "v599"]


def test_outputs_of_bodies_have_the_types_of_the_graph_around():
    text = "g (bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = t () => (float[2] x) { }, else_branch = e () => (float[2] q) { q = Abs(x) }> }"
    graph = from_text(text)
    then = to_proto(graph).graph.node[0].attribute[0].g
    assert then.output[0].type == to_proto(graph).graph.input[1].type and not then.input


def test_unused_constants_are_left_out_and_annotations_of_what_is_gone():
    graph = kept(everything())
    graph._constants["unused"] = graph.constants["k"]
    assert [tensor.name for tensor in to_proto(graph).graph.initializer] == ["k"]
    message = kept(everything())
    message.kept.model.graph.quantization_annotation.add(tensor_name="gone")
    lost = message.kept.model.graph.quantization_annotation.add(tensor_name="y")
    lost.quant_parameter_tensor_names.append(StringStringEntryProto(key="SCALE_TENSOR", value="gone"))
    assert len(to_proto(message).graph.quantization_annotation) == 2
    only = Graph(
        inputs=["x"],
        outputs=["y"],
        nodes=[Node("Relu", ("x",), ("y",), name="n")],
        constants={"scale": constant(np.float32([2]))},
    )
    only.kept.model.graph.quantization_annotation.add(tensor_name="y").quant_parameter_tensor_names.append(
        StringStringEntryProto(key="SCALE_TENSOR", value="scale")
    )
    assert [tensor.name for tensor in to_proto(only).graph.initializer] == ["scale"]


def test_functions_have_their_constants_as_nodes():
    body = Graph(
        inputs=["p"],
        outputs=["s"],
        nodes=[Node("Add", ("p", "k"), ("s", ""), name="n")],
        constants={"k": constant(np.float32([2]))},
        types={value: TensorType(DataType.FLOAT, (1,)) for value in "pks"},
    )
    proto = function_proto(Function("F", "own", body, {"beta": 2}, "more"))
    assert [(node.op_type, node.name, list(node.output)) for node in proto.node] == [
        ("Constant", "Constant_k", ["k"]),
        ("Add", "n", ["s"]),
    ]
    assert [attribute.name for attribute in proto.node[0].attribute] == ["value"]
    assert [info.name for info in proto.value_info] == ["p", "s"] and (proto.domain, proto.name, proto.overload) == (
        "own",
        "F",
        "more",
    )
    read = from_proto(
        to_proto(Graph(functions={("own", "F", "more"): Function("F", "own", body, {}, "more")}))
    ).functions["own", "F", "more"]
    assert read.graph.constants["k"].numpy().tolist() == [2] and len(read.graph) == 1


def test_names_of_nodes_without_one_and_of_two_with_the_same():
    nodes = [
        helper.make_node("Relu", ["x"], ["", "a"]),
        helper.make_node("Neg", ["x"], [""]),
        *(helper.make_node("Abs", ["x"], [v], name="same") for v in "bcd"),
    ]
    nodes.append(helper.make_node("Abs", ["x"], ["e"], name="same#2"))
    graph = from_proto(helper.make_model(helper.make_graph(nodes, "g", [], [])))
    assert [node.name for node in graph.nodes] == ["Relu_a", "Neg", "same", "same#2", "same#3", "same#2#2"]


def test_metadata_that_was_read_beside_the_model():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="one"),
        helper.make_node("Neg", ["x"], ["b"], name="two"),
        helper.make_node("Abs", ["x"], ["c"], name="three"),
    ]
    branches = [
        helper.make_graph([helper.make_node("Exp", ["x"], ["r"], name=name)], name, [], []) for name in ("p", "q")
    ]
    nodes.append(helper.make_node("If", ["c"], ["y"], name="if", then_branch=branches[0], else_branch=branches[1]))
    beside = {
        ("a",): [("renamed", "Relu", {"k": "1"})],
        ("b",): [("two", "Other", {"k": "2"})],
        ("c",): [("three", "Abs", {"k": "3"}), ("three", "Abs", {"k": "4"})],
        ("r",): [("p", "Exp", {"k": "p"}), ("q", "Exp", {"k": "q"})],
    }
    graph = from_proto(helper.make_model(helper.make_graph(nodes, "g", [], [])), metadata=beside)
    assert [dict(graph.node(name).metadata) for name in ("one", "two", "three")] == [{"k": "1"}, {}, {}]
    assert {body.name: dict(body.nodes[0].metadata) for body in graph.node("if").bodies.values()} == {
        "p": {"k": "p"},
        "q": {"k": "q"},
    }


@pytest.mark.parametrize(
    ("given", "array"),
    [
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": [1, 2]}, np.int64([1, 2])),
        ({"value_float": 0.5}, np.float32(0.5)),
        ({"value_floats": [0.5]}, np.float32([0.5])),
    ],
)
def test_numbers_of_constant_nodes(given, array):
    graph = from_proto(
        helper.make_model(helper.make_graph([helper.make_node("Constant", [], ["k"], **given)], "g", [], []))
    )
    assert graph.constants["k"].numpy().dtype == array.dtype and graph.constants["k"].numpy().tolist() == array.tolist()


def test_tensors_are_copied():
    raw = numpy_helper.from_array(np.float32([1, 2]), "t")
    raw.doc_string = "doc"
    copied = read_copy(raw)
    raw.raw_data = bytes(8)
    assert (
        copied.numpy().tolist() == [1, 2]
        and (copied.name, copied.doc_string) == ("t", "doc")
        and type(copied) is onnx_ir.Tensor
    )
    packed = helper.make_tensor("p", TensorProto.INT4, [3], b"\x21\x03", raw=True)
    assert read_copy(packed).numpy().tolist() == [1, 2, 3]
    bytes_ = helper.make_tensor("b", TensorProto.INT8, [2], b"\x01\x02", raw=True)
    assert read_copy(bytes_).numpy().tolist() == [1, 2] and type(read_copy(bytes_)) is onnx_ir.Tensor
    assert read_copy(helper.make_tensor("s", TensorProto.STRING, [1], ["a"])).numpy().tolist() in ([b"a"], ["a"])


def test_types_and_bodies_of_messages():
    assert (
        value_type(helper.make_tensor_type_proto(0, [1])) is None
        and value_type(type(helper.make_tensor_type_proto(1, []))()) is None
    )
    assert (
        bodies(helper.make_attribute("i", 1)) == () and len(bodies(helper.make_attribute("g", branch("b", "Neg")))) == 1
    )
    assert len(bodies(helper.make_attribute("gs", [branch("b", "Neg"), branch("c", "Neg")]))) == 2
    assert attribute_value(helper.make_attribute("t", ["a", b"\xff"]), read_copy) == ("a", b"\xff")
    with pytest.raises(ValueError, match="holds sparse tensors"):
        attribute_value(AttributeProto(name="s", type=AttributeProto.SPARSE_TENSOR), read_copy)
    shaped = OpaqueType(onnx_ir.SequenceType(onnx_ir.TensorType(DataType.FLOAT)), onnx_ir.Shape((2,)))
    info = helper.make_tensor_value_info("old", FLOAT, [1])
    write_value(info, "new", shaped)
    assert info.name == "new" and info.type.sequence_type.elem_type.tensor_type.shape.dim[0].dim_value == 2


def test_messages_of_the_parser_are_one_line():
    assert (
        parser_message(parser.ParseError(b"a\n  \xff b")) == "a � b"
        and parser_message(parser.ParseError("a\n b")) == "a b"
    )
    assert parser_message(parser.ParseError()) == ""


def test_a_text_leaves_out_what_is_beside_the_graph():
    graph = kept(everything())
    assert "own.Call" in to_text(graph) and "overload" not in to_text(graph, functions=False)
    assert "<alpha" in to_text(graph) and "producer_name" not in to_text(graph) and "float[2] a" not in to_text(graph)
    assert "p, more" not in to_text(graph, functions=False) and "note" not in to_text(graph)


def test_a_graph_of_networkx_says_what_it_is_of():
    found = networkx_graph(kept(everything()))
    assert found.name == "everything" and found.graph["opset_imports"] == {"": 20, "own": 1}
    assert {data["kind"] for _, data in found.nodes(data=True)} == {"operator", "input", "output"}
    assert found.nodes["plug"]["domain"] == "own" and found.nodes["plug"]["kind"] == "operator"
    assert found.nodes["out:v"] == {"kind": "output", "value": "v"}
    clash = Graph(inputs=["x"], outputs=["y"], nodes=[Node("Relu", ("x",), ("y",), name="out:y")])
    with pytest.raises(ValueError, match="node 'out:y' has the name that an input or output gets"):
        networkx_graph(clash)


def test_fields_that_are_not_set_and_those_of_inputs_with_defaults():
    from workbench.ir.preserved_metadata import PassthroughFields

    relu = Node("Relu", ("x",), ("y",), name="n")
    model = to_proto(Graph(inputs=["x"], outputs=["y"], nodes=[relu], metadata={"producer": "other", "note": "kept"}))
    assert not model.HasField("model_version") and [entry.key for entry in model.metadata_props] == ["note"]
    defaults = {"x": constant(np.float32([7])), "gone": constant(np.float32([8]))}
    graph = Graph(inputs=["x"], outputs=["y"], nodes=[relu], kept=PassthroughFields(defaults=defaults))
    assert [(t.name, numpy_helper.to_array(t).tolist()) for t in to_proto(graph).graph.initializer] == [("x", [7])]
    noted = onnx_ir.Tensor(np.zeros(300, np.float32), doc_string="of the weight")
    add = Node("Add", ("x", "k"), ("y",), name="add")
    for tensor, words in ((noted, "of the weight"), (constant(np.zeros(300, np.float32)), "")):
        written = structure(Graph(inputs=["x"], outputs=["y"], nodes=[add], constants={"k": tensor}))
        assert written.graph.initializer[0].doc_string == words


def test_outputs_of_bodies_in_bodies_have_the_types_of_the_outermost_graph():
    inner = Graph(name="inner", outputs=["x"])
    outer = Graph(name="outer", outputs=["r"], nodes=[Node("If", ("c",), ("r",), {"then_branch": inner}, "i")])
    types = {"x": TensorType(DataType.FLOAT, (2,)), "c": TensorType(DataType.BOOL, ())}
    graph = Graph(
        inputs=["c", "x"], outputs=["y"], types=types, nodes=[Node("If", ("c",), ("y",), {"then_branch": outer}, "o")]
    )
    model = to_proto(graph)
    assert model.graph.node[0].attribute[0].g.node[0].attribute[0].g.output[0].type == model.graph.input[1].type
