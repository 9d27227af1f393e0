"""What the inspector says of nodes, values, constants and groups, at any moment of a history."""

import json

import numpy as np
import onnx_ir
import pytest

import passes
import workbench as wb
from tests.conftest import ROOT
from tests.making import HOSTILE, hostile_model
from tests.running import typed
from workbench.formats.io import load_model
from workbench.ir import DataType, Edit, Graph, Node, TensorType, from_text, to_text
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.running import run_pipeline, start
from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.constants import BINS
from workbench.presentation.view.documents import document, plain_text
from workbench.presentation.view.inspection import inspect_element
from workbench.presentation.view.lineage import Lineage
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite, Rule, with_options

CUDA = load_profile("cuda")
EVERY_PASS = [cls() for cls in passes.all_passes().values()]
REFUSALS = [
    pytest.param(cls, refusal, id=f"{name}-{i}")
    for name, cls in passes.all_passes().items()
    for i, refusal in enumerate(cls.refusals())
]
FOLDED = """g (float[1,1,2,2] x) => (float[1,2,2,2] y)
    <float[2,1,1,1] w = {1, 2}, float[2] s = {4, 9}, float[2] b = {1, 1}, float[2] m = {1, 2}, float[2] v = {4, 9}> {
    c = Conv(x, w)
    n = BatchNormalization<epsilon=0.0>(c, s, b, m, v)
    y = Relu(n)
}"""


def shown(history, id, step=-1, rewrites=None, given=(), **more):
    """What `inspect` says, checked to be JSON of the agreed form; and its sections by title."""
    found = inspect_element(history, step % len(history), rewrites, id, given, **more)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["id"] == id and found["title"] and "\n" not in found["about"]
    for section in found["sections"]:
        assert section.keys() <= {"title", "open", "head", "rows", "text", "moments", "histogram", "at", "drawings"}
        assert all(isinstance(cell, str) for row in section.get("rows", ()) for cell in row)
        assert len(section.get("histogram", {}).get("counts", range(BINS))) == BINS
    return found, {section["title"]: section for section in found["sections"]}


def rows(section):
    return {row[0]: row[1:] if len(row) > 2 else row[1] for row in section["rows"]}


def of_text(text, *names):
    return run_pipeline(typed(text), [passes.find_pass(name)() for name in names], PassContext(CUDA))


# ---- nodes -----------------------------------------------------------------------------


def test_a_convolution():
    history = start(load_model(ROOT / "sample_models/conv_relu_conv_relu.onnx"), CUDA)
    node = next(node for node in history.graph.nodes if node.op == "Conv")
    found, by_title = shown(history, node.name, target=CUDA)
    assert found["title"] == f"Conv  {node.name}"
    x, weight = node.inputs[:2]
    assert rows(by_title["Inputs"])[x] == [str(history.graph.type(x)), "NCHW"]
    assert rows(by_title["Inputs"])[weight] == [str(history.graph.type(weight)), "OIHW"]
    assert rows(by_title["Attributes"])["pads"] == str(list(node.attr("pads")))
    contract = rows(by_title["Contract"])
    assert contract["category"] == "convolution" and contract["layout"].startswith("sensitive")
    assert contract["class for cuda"] == "heavily layout-sensitive"
    assert contract["run by"] == "the torch executor, natively"
    array = history.graph.constants[weight].numpy()
    said = rows(by_title[f"Constant {weight}"])
    assert float(said["mean"]) == pytest.approx(array.mean(), rel=1e-4)
    assert sum(by_title[f"Constant {weight}"]["histogram"]["counts"]) == array.size
    assert not by_title["Documentation of Conv"]["open"]


def test_cost_by_hand():
    history = of_text("g (float[1,8,4,4] x) => (float[1,4,4,8] y) { t = Relu(x)  y = Transpose<perm=[0,2,3,1]>(t) }")
    _, by_title = shown(history, "Transpose_y")
    assert rows(by_title["Cost"]) == {
        "FLOPs": "0",
        "bytes read": "512",
        "bytes written": "512",
        "arithmetic intensity": "0 FLOP/byte",
        "moves": "128 elements",
        "bytes moved": "512",
        "permutation": "[0, 2, 3, 1]",
    }
    _, by_title = shown(history, "Relu_t")
    assert rows(by_title["Cost"])["FLOPs"] == "128"
    assert rows(by_title["Cost"])["arithmetic intensity"] == "0.125 FLOP/byte"


def test_symbolic_dims_are_bound():
    graph = typed("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    graph.dims = {"N": 3}
    _, by_title = shown(start(graph, CUDA), "Relu_y")
    assert rows(by_title["Inputs"])["x"][0] == "float[N,4], here float[3,4]"
    assert rows(by_title["Cost"])["bytes read"] == "48"


def test_what_is_not_known_is_said():
    graph = Graph(
        inputs=("x",),
        outputs=("y",),
        nodes=[Node("Strange", ("x", ""), ("y",), {"text": "a\nb" * 900}, name="s", domain="far.away")],
        opset_imports={"": 17, "far.away": 3},
    )
    found, by_title = shown(start(graph, CUDA), "s", target=CUDA)
    assert found["about"] == "Strange of far.away, version 3"
    assert by_title["Inputs"]["rows"] == [["x", "unknown", "Tensor"], ["left out", "", ""]]
    assert rows(by_title["Contract"])["run by"] == "ONNX Runtime, since the torch executor lacks the operator"
    assert rows(by_title["Cost"])["FLOPs"] == "not known"
    assert len(rows(by_title["Attributes"])["text"]) <= 160
    assert (
        by_title["Documentation of far.away.Strange"]["text"]
        == "ONNX documents no operator far.away.Strange of version 3."
    )


def test_bodies_and_tensors_in_attributes():
    history = start(load_model(ROOT / "sample_models/silero_vad.onnx"), CUDA)
    branch = next(node for node in history.graph.nodes if node.op == "If")
    said = rows(shown(history, branch.name)[1]["Attributes"])
    assert said["then_branch"] == f"a body of {len(branch.attr('then_branch')):,} nodes"
    tensor = onnx_ir.tensor(np.array([7.0], np.float32))
    graph = Graph(
        inputs=("x",), outputs=("y",), nodes=[Node("ConstantOfShape", ("x",), ("y",), {"value": tensor}, name="n")]
    )
    assert rows(shown(start(graph, CUDA), "n")[1]["Attributes"])["value"] == "float[1]: 7.0"


def test_hostile_names_are_text(tmp_path):
    history = start(load_model(hostile_model(tmp_path)), CUDA)
    found, _ = shown(history, HOSTILE)
    assert found["title"] == f"Relu  {HOSTILE}"
    enormous = "\x1b[31m\n" + "n" * 100_000
    graph = Graph(inputs=("x",), outputs=("y",), nodes=[Node("Relu", ("x",), ("y",), name=enormous)])
    found, _ = shown(start(graph, CUDA), enormous)
    assert len(found["title"]) < 200 and found["title"].isprintable()


@pytest.mark.slow
def test_every_node_of_real_models_at_both_ends():
    for name in ("resnet50_narrow", "silero_vad", "npu_path", "basic_pitch_nmp"):
        graph = load_model(ROOT / f"sample_models/{name}.onnx")
        history = run_pipeline(graph, [*choose().parts, passes.find_pass("layout_greedy")()], PassContext(CUDA))
        for step in (0, len(history) - 1):
            at = history.at(step)
            groups, text = OpenedGroups(at), to_text(at)
            for node in at.nodes[:60]:
                _, by_title = shown(history, node.name, step, given=EVERY_PASS, groups=groups, target=CUDA, layouts={})
                assert not [r for r in by_title.get("Why not here?", {}).get("rows", ()) if "the rule failed" in r[2]]
            assert to_text(at) == text, "inspecting changed the graph"


# ---- where it came from ----------------------------------------------------------------


def test_a_folded_convolution_tells_its_origin():
    history = of_text(FOLDED, "cancel_transposes", "fold_batchnorm")
    _, by_title = shown(history, "Conv_c")
    origin = by_title["Where it came from"]
    assert origin["text"] == "It was in the model as loaded. It replaces BatchNormalization 'BatchNormalization_n'."
    sentence = history[2].rewrites[0].sentence
    assert origin["moments"] == [{"t": 1, "words": f"step 2, rewrite 1 of 1: {sentence}", "what": "changes"}]


def test_what_is_gone_says_when_it_was():
    history = of_text(FOLDED, "fold_batchnorm")
    found, by_title = shown(history, "BatchNormalization_n")
    assert (
        found["about"] == "It is not in the graph at this moment; it exists from the beginning until step 1, rewrite 1."
    )
    assert [m["what"] for m in by_title["Where it was"]["moments"]] == ["disappears"]
    assert shown(history, "BatchNormalization_n", step=0)[0]["title"].startswith("BatchNormalization")
    assert shown(history, "BatchNormalization_n", step=1, rewrites=0)[0]["title"].startswith("BatchNormalization")


def test_what_never_was_says_so():
    found, by_title = shown(of_text(FOLDED), "nothing")
    assert found["about"] == "It is not in the graph at this moment; it exists at no moment of this history."
    assert not by_title


def test_origin_goes_back_through_what_went_in():
    """Two transposes merge, and what they became merges again: the first merge is told of the last node."""
    text = """g (float[2,3,4] x) => (float[4,3,2] y) {
        a = Transpose<perm=[1,0,2]>(x)  b = Transpose<perm=[0,2,1]>(a)  c = Transpose<perm=[1,2,0]>(b)  y = Relu(c) }"""
    history = of_text(text, "cancel_transposes")
    assert len(history[1].rewrites) == 2
    origin = shown(history, "Transpose_c")[1]["Where it came from"]
    assert [m["t"] for m in origin["moments"]] == [1, 2]
    assert "Transpose 'Transpose_b'" in origin["text"]


def test_of_many_merged_nodes_the_last_rewrites_are_told():
    adds = "  ".join(f"v{i + 1} = Add(v{i}, one)" for i in range(80))
    text = f"g (float[2] v0) => (float[2] v80) <float[1] one = {{1}}> {{ {adds} }}"
    history = of_text(text, "algebra_constants")
    (left,) = history.graph.nodes
    origin = shown(history, left.name)[1]["Where it came from"]
    changes = len(history[1].rewrites)
    assert changes > 50 and [m["t"] for m in origin["moments"]] == list(range(changes - 49, changes + 1))
    assert origin["text"].endswith("These are the last 50 of its rewrites.")


@pytest.mark.parametrize("path", ["folding/batchnorm.onnx", "algebra/undone.onnxtxt", "resnet50_narrow.onnx"])
def test_lineage_is_what_a_walk_over_all_rewrites_finds(path):
    history = wb.optimize(wb.load(ROOT / "sample_models" / path), preset="normalize")
    lineage = Lineage(history)
    every = [rewrite for step in history.steps for rewrite in step.rewrites]
    names = {node.name for rewrite in every for node in (*rewrite.edit.insert, *rewrite.inverse.insert)}
    for name in names:
        told = [event.placed.done for event in lineage.of(name)]
        assert told == [
            rewrite
            for rewrite in every
            if name in rewrite.inverse.remove or name in {node.name for node in rewrite.inverse.insert}
        ]
        found, waiting = set(), [(name, len(every))]
        while waiting:
            current, until = waiting.pop()
            for t, rewrite in enumerate(every[:until], start=1):
                went = {node.name for node in rewrite.inverse.insert}
                if current not in went and current not in rewrite.inverse.remove:
                    continue
                found.add(t)
                if current in {node.name for node in rewrite.edit.insert}:
                    waiting += [(source, t - 1) for source in went - set(rewrite.inverse.remove)]
        assert [event.placed.t for event in lineage.ancestry(name, 10**6)] == sorted(found)


def test_a_node_that_a_rewrite_made():
    text = "g (float[1,8,4,4] x, float[8,8,1,1] w) => (float[1,8,4,4] y) { y = Conv(x, w) }"
    history = run_pipeline(typed(text), [passes.find_pass("layout_greedy")()], PassContext(load_profile("npu")))
    made = next(node for node in history.graph.nodes if node.op == "Transpose")
    origin = shown(history, made.name)[1]["Where it came from"]
    assert origin["text"].startswith("A rewrite created it.")
    assert origin["moments"][0]["what"] == "appears"
    found, _ = shown(history, made.name, step=0)
    moment = origin["moments"][0]["t"]
    assert found["about"] == f"It is not in the graph at this moment; it exists from step 1, rewrite {moment}."


# ---- why not here ----------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "refusal"), REFUSALS)
def test_every_refusal_is_told(cls, refusal):
    history = start(typed(refusal.graph), CUDA)
    given = [with_options(cls, refusal.options)]
    sections = [shown(history, node.name, given=given)[1] for node in history.graph.nodes]
    said = [row for by_title in sections for row in by_title.get("Why not here?", {"rows": []})["rows"]]
    assert refusal.sentence in [sentence for _, _, sentence in said]
    assert {title for title, _, _ in said} == {cls.title}


def test_a_rule_that_would_act_says_so():
    history = of_text(FOLDED)
    _, by_title = shown(history, "BatchNormalization_n", given=[passes.find_pass("fold_batchnorm")()])
    [[_, rule, sentence]] = by_title["Why not here?"]["rows"]
    assert rule == "after a convolution"
    assert sentence.startswith("would act here: BatchNormalization 'BatchNormalization_n' scales 2 channels")


def test_a_rule_that_the_mode_holds_back_says_so():
    graph = typed(FOLDED)
    history = start(graph, CUDA, "exact")
    _, by_title = shown(history, "BatchNormalization_n", given=[passes.find_pass("fold_batchnorm")()])
    [[_, _, sentence]] = by_title["Why not here?"]["rows"]
    assert sentence.startswith("would act here, but not in mode exact, since its results are equal up to rounding")


def test_passes_without_a_rule_for_the_operator_say_nothing():
    _, by_title = shown(of_text(FOLDED), "Relu_y", given=[c() for c in passes.strategies().values()])
    assert "Why not here?" not in by_title


def test_a_rule_that_fails_is_told():
    def match(graph, node, pass_) -> Rewrite:
        raise KeyError("w")

    class Broken(Pass):
        title = "Broken"
        rules = (Rule("breaks", ("*",), match, Example("", "", ()), exactness=Exactness.BIT_EXACT),)

    _, by_title = shown(of_text(FOLDED), "Relu_y", given=[Broken()])
    assert by_title["Why not here?"]["rows"] == [["Broken", "breaks", "the rule failed with KeyError: 'w'"]]


# ---- values and groups -----------------------------------------------------------------


def test_inputs_outputs_and_constants():
    history = of_text(FOLDED, "fold_batchnorm")
    found, by_title = shown(history, "in:x")
    assert found["title"] == "Input  x" and by_title["Value"]["rows"] == [["x", "float[1,1,2,2]", "NCHW"]]
    assert by_title["Ends"]["rows"] == [["read by", "Conv Conv_c"]]
    assert shown(history, "out:y")[1]["Ends"]["rows"] == [["made by", "Relu Relu_y"]]
    _, by_title = shown(history, "const:w_folded")
    assert [m["what"] for m in by_title["Where it came from"]["moments"]] == ["appears"]
    assert rows(by_title["Constant w_folded"])["layout"] == "OIHW"


def test_values_that_are_not_there():
    history = of_text(FOLDED, "fold_batchnorm")
    assert shown(history, "const:w")[0]["about"] == (
        "There is no constant of that name in the graph at this moment; it exists from the beginning until step 1, rewrite 1."
    )
    assert shown(history, "const:w_folded", step=0)[0]["about"].endswith("it exists from step 1, rewrite 1.")
    assert shown(history, "in:y")[0]["about"].endswith("it exists at no moment of this history.")


@pytest.mark.parametrize("name", ["in:x", "group:x"])
def test_a_node_may_be_called_like_a_value_or_group(name):
    graph = Graph(inputs=("x",), outputs=("y",), nodes=[Node("Relu", ("x",), ("y",), name=name)])
    assert shown(start(graph, CUDA), name)[0]["title"] == f"Relu  {name}"


def test_a_group():
    history = of_text(FOLDED, "fold_batchnorm")
    found, by_title = shown(history, "group:block/one", step=0, members=["Conv_c", "BatchNormalization_n", "gone"])
    assert (found["title"], found["about"]) == ("one", "2 nodes at this moment")
    said = rows(by_title["Inside"])
    assert said["parameters"] == "10" and said["bytes of parameters"] == "40" and said["bytes of results"] == "64"
    assert said["FLOPs"] == "32"
    assert by_title["Operators"]["rows"] == [["BatchNormalization", "1"], ["Conv", "1"]]
    assert shown(history, "group:g", members=["BatchNormalization_n"])[0]["sections"] == []


def test_a_group_of_unknown_operators_says_what_is_missing():
    graph = Graph(inputs=("x",), outputs=("y",), nodes=[Node("Strange", ("x",), ("y",), name="s", domain="d")])
    said = rows(shown(start(graph, CUDA), "group:g", members=["s"])[1]["Inside"])
    assert said["FLOPs"] == "0, without 1 node for which it is unknown"


# ---- documents -------------------------------------------------------------------------


def test_documents_are_of_the_model_s_version():
    old, new = (Graph(opset_imports={"": version}) for version in (1, 17))
    relu = Node("Relu", ("x",), ("y",))
    assert "Since version 1 of ONNX." in document(old, relu) and "Since version 14 of ONNX." in document(new, relu)
    text = document(new, Node("Conv", ("x", "w"), ("y",)))
    assert text.startswith("The convolution operator consumes") and "kernel_shape: The shape of" in text
    assert "Inputs" in text and "<" not in plain_text("a <b>bold</b> <br/>[link](https://onnx.ai) `code`")
    assert plain_text("x < y and y > z &lt; 2") == "x < y and y > z < 2"


def test_documents_of_our_own_operators():
    graph = Graph(opset_imports={"": 17, "workbench": 1})
    assert document(graph, Node("Conv_NHWC", (), (), domain="workbench")).endswith(
        "Its body is: Transpose, Conv, Transpose."
    )
    assert "not an operator of Graph Workbench" in document(graph, Node("Conv_Nothing", (), (), domain="workbench"))


def test_documents_of_the_model_s_functions():
    graph = from_text("""<ir_version: 10, opset_import: ["": 17, "f": 1]>
        g (float[2] x) => (float[2] y) { y = f.twice(x) }
        <domain: "f", opset_import: ["": 17]> twice (a) => (b) { c = Relu(a)  b = Add(c, c) }""")
    assert document(graph, graph.nodes[0]) == "A function of the model. Its body is: Relu, Add."
    _, by_title = shown(start(graph, CUDA), graph.nodes[0].name)
    assert rows(by_title["Contract"])["run by"] == "the torch executor, by the function's body"


def test_what_the_exporter_wrote():
    metadata = {"namespace": "m.layer1", "pkg.torch.onnx.stack_trace": 'File "a.py", line 1\n  x'}
    graph = Graph(inputs=("x",), outputs=("y",), nodes=[Node("Relu", ("x",), ("y",), name="r", metadata=metadata)])
    graph.apply(Edit(types={"x": TensorType(DataType.FLOAT, (1,))}))
    found = inspect_element(start(graph, CUDA), 0, None, "r")
    by_title = {section["title"]: section for section in found["sections"]}
    assert by_title["Exporter"]["rows"] == [["namespace", "m.layer1"]]
    assert by_title["Stack trace"]["text"] == metadata["pkg.torch.onnx.stack_trace"]
