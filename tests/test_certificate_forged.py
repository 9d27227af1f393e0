"""Another computation is not accepted, whatever is written into files and log: the forgeries of an attack, rebuilt small,
with neighbours."""

import hashlib

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.forging import (
    NEG,
    RELU,
    changed,
    forged,
    model_of,
    node,
    refusal,
    rewriting,
)
from workbench.checker.outcome import DoesNotHold

TO_NEG = {"remove": [node("Relu", ["x"], ["y"])], "insert": [node("Neg", ["x"], ["y"])]}
SCALED = "g (float[2,3] x) => (float[2,3] y) <float[3] w = {{{}}}> {{ y = Mul(x, w) }}"
WITH_BODIES = """g (float[2,3] x, bool c) => (float[2,3] y) <float[3] s = {1, 1, 1}> {
    y = If(c) <then_branch = t () => (float[2,3] ot) { ot = Mul(x, s) },
               else_branch = e () => (float[2,3] oe) { oe = Mul(x, s) }>
}"""


def then_branch(model):
    return next(a.g for a in model.graph.node[0].attribute if a.name == "then_branch")


def test_sparse_weights_in_a_body_that_shadow_an_outer_one_are_refused(tmp_path):
    def shadow(model):
        sparse = then_branch(model).sparse_initializer.add(dims=[3])
        sparse.values.CopyFrom(helper.make_tensor("s", TensorProto.FLOAT, [1], [7.0]))
        sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [1], [0]))

    said = refusal(forged(tmp_path, WITH_BODIES, changed(WITH_BODIES, shadow)))
    assert said == "'out.onnx' has GraphProto.sparse_initializer, which is not read"


def test_weights_in_a_body_that_shadow_an_outer_one_are_compared(tmp_path):
    def shadow(model):
        then_branch(model).initializer.append(helper.make_tensor("s", TensorProto.FLOAT, [3], [7.0, 7, 7]))

    assert "of the If that computes 'y'" in refusal(forged(tmp_path, WITH_BODIES, changed(WITH_BODIES, shadow)))


def test_what_loading_does_in_a_body_is_said(tmp_path):
    text = """g (float[2,3] x, bool c) => (float[2,3] y) {{
        y = If(c) <then_branch = t () => (float[2,3] o) {{ o = {0}(x) }}, else_branch = e () => (float[2,3] p) {{ p = {0}(x) }}>
    }}"""
    bodies = [
        {"body": name, "edit": {"remove": [node("Relu", ["x"], [made])], "insert": [node("Exp", ["x"], [made])]}}
        for name, made in (("then_branch", "o"), ("else_branch", "p"))
    ]
    step = {"pass": "loading", "rewrites": [{"edit": {"inside": [{"node": "y", "bodies": bodies}]}}]}
    found = forged(tmp_path, text.format("Relu"), text.format("Exp"), step)
    assert "loading: in then_branch of the node that computes 'y': nodes taken out: 1 Relu, nodes put in: 1 Exp" in (
        found.told()
    )
    assert found.check().answer.endswith("not checked; --run N compares them on N random inputs")
    with pytest.raises(DoesNotHold, match="the output's 'y' differs"):
        found.check(runs=2)


@pytest.mark.parametrize("place", [1, 2])
def test_loading_is_the_first_step_and_exporting_the_last(tmp_path, place):
    frame = {"pass": "loading", "rewrites": [{"edit": TO_NEG}]}
    steps = [{"pass": "dead_nodes", "rewrites": []}] * place
    assert "loading is the first step, and exporting the last" in refusal(forged(tmp_path, RELU, NEG, *steps, frame))
    frame = {"pass": "exporting", "rewrites": [{"edit": TO_NEG}]}
    assert "loading is the first step, and exporting the last" in refusal(forged(tmp_path, RELU, NEG, frame, *steps))


@pytest.mark.parametrize("number", [256, 2, -1])
def test_a_truth_value_that_readers_take_for_different_ones_is_refused(tmp_path, number):
    text = "g (float[2,3] x) => (float[2,3] y) <bool[1] b = {0}, float[1] z = {0}> { y = Where(b, x, z) }"

    def lie(model):
        model.graph.initializer[0].int32_data[0] = number

    assert "has a number outside its type" in refusal(forged(tmp_path, text, changed(text, lie)))


def test_a_constant_has_its_elements_once_and_all_of_them(tmp_path):
    def twice(model):
        model.graph.initializer[0].raw_data = np.full(3, 7, np.float32).tobytes()

    def short(model):
        del model.graph.initializer[0].float_data[1:]

    def beside(model):
        model.graph.initializer[0].external_data.add(key="location", value="weights")

    def segment(model):
        model.graph.initializer[0].segment.begin = 0

    honest = SCALED.format("1, 1, 1")
    for lie, said in (
        (twice, "has its elements in float_data and raw_data"),
        (short, "has 1 elements, and its shape 3"),
        (beside, "names an external file, but is not in it"),
        (segment, "has TensorProto.segment, which is not read"),
    ):
        assert said in refusal(forged(tmp_path, honest, changed(honest, lie)))


def test_weights_beside_the_model_are_named_once(tmp_path):
    """onnx reads the last of two locations, others the first."""
    for name, number in (("one", 1), ("other", 7)):
        (tmp_path / name).write_bytes(np.full(3, number, np.float32).tobytes())

    def put(*names):
        def change(model):
            tensor = model.graph.initializer[0]
            tensor.ClearField("float_data")
            tensor.data_location = TensorProto.EXTERNAL
            for name in names:
                tensor.external_data.add(key="location", value=name)

        return changed(SCALED.format("1, 1, 1"), change)

    said = refusal(forged(tmp_path, put("one"), put("one", "other")))
    assert "has duplicate or unknown keys of external data" in said


def test_a_weight_that_is_written_over_is_taken_out_first(tmp_path):
    other = {"type": 1, "shape": [3], "sha256": "63ceee3c5975d14e2c95b517952c2c6e27ba3eb3fa8861541704edc7e3483a84"}
    step = rewriting({"constants": {"w": other}})
    said = refusal(forged(tmp_path, SCALED.format("1, 1, 1"), SCALED.format("7, 7, 7"), step))
    assert said == "rewrite 1 (fold_constants) replaces the constant 'w' without removing it"


FUNCTION = """g (float[2,3] x) => (float[2,3] y) {{ y = d.F(x) }}
<domain: "d", opset_import: ["": 17]> F (a) => (b) {{ b = {}(a) }}"""


def function(op, domain="d", name="F"):
    graph = {"inputs": ["a"], "outputs": ["b"], "nodes": [node(op, ["a"], ["b"])], "constants": {}}
    told = {"domain": domain, "name": name, "overload": "", "graph": graph, "opsets": {"": 17}}
    return told | {"parameters": [], "defaults": {}}


def test_a_pass_gives_no_function_another_body(tmp_path):
    step = rewriting({"functions": [function("Exp")]})
    said = refusal(forged(tmp_path, FUNCTION.format("Relu"), FUNCTION.format("Exp"), step))
    assert said == "rewrite 1 (fold_constants) gives the function 'd.F' another body"


def test_no_function_is_taken_out_and_put_in_again(tmp_path):
    gone = {"functions": [{"domain": "d", "name": "F", "overload": ""}]}
    steps = (rewriting(gone, "inline_functions"), rewriting({"functions": [function("Exp")]}))
    said = refusal(forged(tmp_path, FUNCTION.format("Relu"), FUNCTION.format("Exp"), *steps))
    assert said == "rewrite 2 (fold_constants) gives the function 'd.F' another body"
    without = changed(FUNCTION.format("Relu"), lambda model: model.functions.pop())
    said = refusal(forged(tmp_path, FUNCTION.format("Relu"), without, steps[0]))
    assert "the output calls 'F', which is a function in the model, without its body" in said


@pytest.mark.parametrize("domain", ["d", "workbench"])
def test_a_pass_gives_no_operator_of_the_model_a_body(tmp_path, domain):
    called = f"g (float[2,3] x) => (float[2,3] y) {{ y = {domain}.Op(x) }}"
    step = rewriting({"functions": [function("Exp", domain, "Op")]})
    assert "which the model calls as an operator of its runtime" in refusal(forged(tmp_path, called, called, step))


@pytest.mark.parametrize("frame", ["loading", "exporting", "fuse_groups"])
def test_no_function_takes_the_place_of_an_operator(tmp_path, frame):
    """Whoever may add a function named Relu makes another computation of every Relu."""
    step = {"pass": frame, "rewrites": [{"edit": {"functions": [function("Exp", "", "Relu")]}}]}
    assert "in a domain whose operators are defined elsewhere" in refusal(forged(tmp_path, RELU, RELU, step))
    with_function = changed(RELU, lambda model: model.functions.append(model_of(FUNCTION.format("Exp")).functions[0]))
    with_function.functions[0].domain, with_function.functions[0].name = "ai.onnx", "Relu"
    assert "has a function 'Relu' in a domain of ONNX's own operators" in refusal(forged(tmp_path, RELU, with_function))
    step["rewrites"][0]["edit"]["functions"] = [function("Exp", "custom", "Op")]
    called = "g (float[2,3] x) => (float[2,3] y) { y = custom.Op(x) }"
    assert "which the model calls as an operator of its runtime" in refusal(forged(tmp_path, called, called, step))


@pytest.mark.parametrize(
    ("domain", "name"), [("workbench", "Hide"), ("d", "Odd"), ("", "Odd"), ("ai.onnx.odd", "Relu")]
)
def test_no_operator_is_put_in_that_nothing_defines(tmp_path, domain, name):
    called = changed(
        RELU, lambda model: model.graph.node[0].CopyFrom(helper.make_node(name, ["x"], ["y"], domain=domain))
    )
    step = rewriting(
        {"remove": [node("Relu", ["x"], ["y"])], "insert": [node(name, ["x"], ["y"]) | {"domain": domain}]}
    )
    operator = ".".join(filter(None, (domain, name)))
    said = refusal(forged(tmp_path, RELU, called, step))
    assert said == f"the output calls '{operator}', which neither ONNX defines nor a function, nor has the model"
    forged(tmp_path, called, called).check()


def test_an_input_changes_only_the_order_of_its_axes(tmp_path):
    text = "g (float[{0}] x) => (float[{0}] y) {{ y = Relu(x) }}"
    step = rewriting({"types": {"x": [1, [6]], "y": [1, [6]]}})
    assert "which is not a permutation of float[2, 3]" in refusal(
        forged(tmp_path, text.format("2,3"), text.format("6"), step)
    )
    turned = rewriting({"types": {"x": [1, [3, 2]], "y": [1, [3, 2]]}})
    found = forged(tmp_path, text.format("2,3"), text.format("3,2"), turned)
    assert "'x' is float[3, 2], and was float[2, 3]" in found.told()


def test_a_weight_does_not_become_an_input_with_a_default(tmp_path):
    def give(model):
        model.graph.input.insert(0, helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]))

    honest = SCALED.format("1, 1, 1")
    said = refusal(forged(tmp_path, honest, changed(honest, give)))
    assert "a caller may feed 'w', 'x' to the output, and after the log 'x'" in said


def test_an_input_with_a_default_that_becomes_a_constant_is_said(tmp_path):
    def give(model):
        model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]))

    honest = SCALED.format("1, 1, 1")
    found = forged(tmp_path, changed(honest, give), honest)
    assert found.check().answer.endswith("not checked; --run N compares them on N random inputs")
    assert found.told() == "inputs of the model that are constants in the output: 'w'"

    def in_old_files(model):
        give(model)
        model.ir_version = 3

    assert "checked: it has the same nodes" in forged(tmp_path, changed(honest, in_old_files), honest).check().answer


def test_a_default_stays_a_default_of_the_same_type(tmp_path):
    def give(shape, held=True):
        def change(model):
            model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, shape))
            if not held:
                del model.graph.initializer[:]

        return changed(SCALED.format("1, 1, 1"), change)

    assert "has another type or shape" in refusal(forged(tmp_path, give([3]), give([None])))
    assert refusal(forged(tmp_path, give([3]), give([3], held=False)))
    forged(tmp_path, give([3]), give([3])).check()


def test_outputs_that_a_split_counts_are_compared(tmp_path):
    text = "g (float[4] x) => (float[{1}] y) {{ y{0} = Split(x) }}"
    assert "it computes (y, ), not (y)" in refusal(forged(tmp_path, text.format(', ""', 2), text.format("", 2)))


def test_what_a_sequence_is_of_is_compared(tmp_path):
    text = "g (float[2] x) => (seq({}) q) {{ q = SequenceConstruct(x) }}"
    said = refusal(forged(tmp_path, text.format("float[2]"), text.format("float[3]")))
    assert "sequence_type of float[2] after the log, and sequence_type of float[3] in the output" in said


def test_names_are_given_once(tmp_path):
    def function_twice(model):
        model.functions.append(model_of(FUNCTION.format("Exp")).functions[0])

    def weight_twice(model):
        model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [3], [7.0, 7, 7]))

    def attribute_twice(model):
        model.graph.node[0].attribute.extend([helper.make_attribute("axis", 0), helper.make_attribute("axis", 1)])

    def opset_twice(model):
        model.opset_import.add(domain="ai.onnx", version=9)

    scaled = SCALED.format("1, 1, 1")
    for text, lie, said in (
        (FUNCTION.format("Relu"), function_twice, "has two functions of one name"),
        (scaled, weight_twice, "two constants have one name"),
        (scaled, attribute_twice, "has two attributes of one name"),
        (scaled, opset_twice, "has two opsets of one domain"),
    ):
        assert said in refusal(forged(tmp_path, text, changed(text, lie)))


def test_what_the_output_declares_of_inner_values_follows_from_it(tmp_path):
    """ONNX Runtime's optimizations put a declared size in place of a Shape, whatever is computed."""
    honest = "g (float[64] x) => (int64[2] y) { n = NonZero(x) y = Shape(n) }"

    def declare(dim, elem=TensorProto.INT64):
        info = helper.make_tensor_value_info("n", elem, [1, dim])
        return changed(honest, lambda model: model.graph.value_info.append(info))

    found = forged(tmp_path, honest, declare(64))
    assert "that 'n' have the sizes that the output declares does not follow" in found.told()
    assert found.check().answer.endswith("not checked; --run N compares them on N random inputs")
    with pytest.raises(DoesNotHold, match="the output's 'y' differs"):
        found.check(runs=2)
    assert "does not follow" not in forged(tmp_path, declare(64), declare(64)).told()
    said = refusal(forged(tmp_path, honest, declare(64, elem=TensorProto.FLOAT)))
    assert "the output declares 'n' to be float[1, 64]; it is int64[1, " in said


def test_what_the_model_declares_says_nothing_of_what_a_rewrite_put_in(tmp_path):
    text = "g (float[2,3] x) => (int64[2] y) {{ n = {0} y = Shape(n) }}"

    def declare(text):
        info = helper.make_tensor_value_info("n", TensorProto.INT64, [2, 6])
        return changed(text, lambda model: model.graph.value_info.append(info))

    doubled = "Constant<value = int64[2,6] {1,1,1,1,1,1,1,1,1,1,1,1}>()"
    model, output = declare(text.format(doubled)), declare(text.format("NonZero(x)"))
    one = {"type": 7, "shape": [2, 6], "sha256": hashlib.sha256(np.ones(12, np.int64).tobytes()).hexdigest()}
    step = rewriting({"drop": {"n": one}, "insert": [node("NonZero", ["x"], ["n"])]})
    found = forged(tmp_path, model, output, step)
    assert "that 'n' have the sizes that the output declares does not follow from its nodes" in found.told()
    with pytest.raises(DoesNotHold, match="the output's 'y' differs"):
        found.check(runs=4)


def test_two_values_of_different_sizes_share_no_symbol(tmp_path):
    text = "g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1,2,3,4,5,6}> { a = Relu(x) y = MatMul(a, w) }"

    def declare(model):
        model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N", "N"]))

    said = refusal(forged(tmp_path, text, changed(text, declare)))
    assert said == "the output declares 'a' to be float[3, 3]; it is float[2, 3]"


def test_a_node_without_a_result_is_not_put_in(tmp_path):
    other = changed(RELU, lambda model: model.graph.node.append(helper.make_node("Op", ["x"], [], domain="d")))
    assert "has a d.Op without a result" in refusal(forged(tmp_path, RELU, other))
    forged(tmp_path, other, RELU).check()


def test_any_rewrite_is_not_checked_and_a_run_finds_it(tmp_path):
    found = forged(tmp_path, RELU, NEG, rewriting(TO_NEG, rule="no.such_rule"))
    assert found.check().answer == (
        "'out.onnx' computes the same as 'm.onnx': not checked; --run N compares them on N random inputs"
    )
    with pytest.raises(DoesNotHold, match=r"run on random inputs \(seed \d+\), the output's 'y' differs"):
        found.check(runs=1)


@pytest.mark.parametrize(("steps", "holds"), [(0.6, True), (1.6, False)])
def test_a_quantized_output_may_differ_by_a_step_of_its_quantization_and_no_more(steps, holds, tmp_path):
    """Its few values differ by much more than a twentieth of the largest."""
    constants = f"<float s = {{4}}, uint8 z = {{128}}, float k = {{{4 * steps}}}>"
    text = "g (float[64] x) => (float[64] y) {0} {{ {1} y = DequantizeLinear(q, s, z) }}"
    model = text.format(constants, "u = Add(x, k) q = QuantizeLinear(u, s, z)")
    output = text.format(constants.replace(f", float k = {{{4 * steps}}}", ""), "q = QuantizeLinear(x, s, z)")
    gone = {"type": 1, "shape": [], "sha256": hashlib.sha256(np.float32(4 * steps).tobytes()).hexdigest()}
    before = [node("Add", ["x", "k"], ["u"]), node("QuantizeLinear", ["u", "s", "z"], ["q"])]
    edit = {"remove": before, "insert": [node("QuantizeLinear", ["x", "s", "z"], ["q"])], "drop": {"k": gone}}
    found = forged(tmp_path, model, output, rewriting(edit), mode="ieee")
    if holds:
        assert "up to rounding" in found.check(runs=4).answer
    else:
        with pytest.raises(DoesNotHold, match="the output's 'y' differs"):
            found.check(runs=4)
