"""A wrong or edited certificate is refused with the first thing that does not hold, a hostile one with one sentence."""

import copy
import itertools
import json
import os
import random

import onnx
import pytest
from onnx import numpy_helper

from tests.certifying import bound, certified, certified_plan, rewrites, small_network
from tests.commands import NHWC, SAMPLES
from tests.forging import changed, forged, node
from tests.slow import thorough_unless
from workbench.checker import records, replay
from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.records import content_digest, read_certificate


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """A network with a log of some length, a layout and constants that rewrites made."""
    folder = tmp_path_factory.mktemp("cut")
    words = {"passes": ["sum_to_add", "fold_batchnorm", "layout_optimal"], "target": "cuda"}
    return certified(small_network(folder / "small.onnx"), folder, **words)


@pytest.fixture(scope="module")
def grouping(tmp_path_factory):
    return certified(NHWC, tmp_path_factory.mktemp("grouping"), passes=["fuse_minimum"])


@pytest.fixture(scope="module")
def types(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    return certified(small_network(folder / "small.onnx"), folder, passes=["precision_optimal_with_layout"])


@pytest.fixture(scope="module")
def order(tmp_path_factory):
    folder = tmp_path_factory.mktemp("order")
    return certified(small_network(folder / "small.onnx"), folder, passes=["order_for_memory"])


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return certified_plan(SAMPLES / "memory" / "in_place_trap.onnx", tmp_path_factory.mktemp("plan"))


def refusal(found, change) -> str:
    """The sentence for the certificate so changed, with a digest that fits."""
    with pytest.raises(DoesNotHold) as caught:
        found.edited(change).check()
    return str(caught.value)


# ---- the digest ------------------------------------------------------------------------------------


def test_any_edit_alone_breaks_the_digest(cut):
    content = cut.content
    content["steps"][1]["pass"] = "another"
    with pytest.raises(DoesNotHold, match="the digest over the certificate is not that of its contents"):
        cut.written(json.dumps(content)).check()


def test_names_of_passes_and_rules_are_names_alone(cut):
    """The checker knows no passes: who edits a name and makes the digest anew changes what rewrites are called."""
    right = [one.sentence for one in cut.check().statements]

    def change(content):
        for step in content["steps"][1:-1]:
            step["pass"] = "another"
            for rewrite in step["rewrites"]:
                rewrite["rule"] = "another"

    assert [one.sentence for one in cut.edited(change).check().statements] == right


# ---- the log ---------------------------------------------------------------------------------------


def test_an_attribute_of_a_new_node(cut):
    def change(content):
        node = next(
            n for r in rewrites(content) for n in r["edit"].get("insert", []) if "kernel_shape" in n["attributes"]
        )
        node["attributes"]["kernel_shape"]["ints"][0] += 1

    assert "its attribute 'kernel_shape' is ints [" in refusal(cut, change)


def test_an_operand_of_a_new_node(cut):
    def change(content):
        node = rewrites(content)[0]["edit"]["insert"][0]
        node["inputs"].reverse()

    assert "it reads (" in refusal(cut, change)


def test_a_new_node_without_its_operand(cut):
    def change(content):
        rewrites(content)[0]["edit"]["insert"][0]["inputs"][0] = "nowhere"

    assert refusal(cut, change).endswith("reads 'nowhere', which nothing computes")
    assert refusal(cut, change).startswith("in rewrite 1 (sum_to_add.two operands), the Add that computes ")


def test_a_rewrite_that_is_dropped(cut):
    def change(content):
        step = next(step for step in content["steps"] if step["pass"] == "sum_to_add")
        del step["rewrites"][1]

    sentence = refusal(cut, change)  # a later one removes the Add that it made
    assert "(layout_optimal) removes the Add that computes '" in sentence
    assert sentence.endswith("in the graph the operator is Sum, not Add")


def test_two_rewrites_that_are_exchanged(cut):
    """Those of a layout build on each other: the second reads what the first made."""

    def change(content):
        step = next(step for step in content["steps"] if step["pass"] == "layout_optimal")
        first, second = (number for number, r in enumerate(step["rewrites"][:6]) if number in (1, 2))
        step["rewrites"][first], step["rewrites"][second] = step["rewrites"][second], step["rewrites"][first]

    sentence = refusal(cut, change)
    assert sentence.startswith(("rewrite ", "in rewrite ")) and "(layout_optimal)" in sentence


def test_a_node_that_is_removed_and_is_not_there(cut):
    def change(content):
        node = rewrites(content)[1]["edit"]["remove"][0]
        rewrites(content)[1]["edit"]["remove"].append(node | {"outputs": ["nowhere"]})

    said = "rewrite 2 (sum_to_add.two operands) removes the Sum that computes 'nowhere', which the graph does not have"
    assert refusal(cut, change) == said


def test_a_node_that_is_removed_and_still_read(cut):
    def change(content):
        rewrites(content)[1]["edit"]["insert"] = []

    sentence = refusal(cut, change)
    assert sentence.startswith("rewrite 2 (sum_to_add.two operands) removes '") and sentence.endswith("still reads it")


def test_a_value_of_two_producers(cut):
    def change(content):
        inserted = rewrites(content)[1]["edit"]["insert"]
        inserted.append(copy.deepcopy(inserted[0]))

    assert "has two producers, one of them a new Add" in refusal(cut, change)


def test_a_cycle(cut):
    def change(content):
        node = rewrites(content)[0]["edit"]["insert"][0]
        node["inputs"][0] = "y"

    assert refusal(cut, change).endswith("is in a cycle or depends on one")


def test_a_constant_with_another_hash(cut):
    def change(content):
        told = next(told for r in rewrites(content) for told in r["edit"].get("constants", {}).values())
        told["sha256"] = "0" * 64

    assert "has other elements in the output than after the log" in refusal(cut, change)


def test_a_small_constant_whose_numbers_are_not_those_of_its_hash(tmp_path):
    found = certified(SAMPLES / "basic_pitch_nmp.onnx", tmp_path, preset="normalize", layout="optimal")

    def change(content):
        constants = [told for r in rewrites(content) for told in r["edit"].get("constants", {}).values()]
        next(told for told in constants if "values" in told)["values"][0] += 1

    assert "are not those of its hash" in refusal(found, change)


def test_a_pass_that_changes_the_opset(cut):
    def change(content):
        rewrites(content)[0]["edit"]["opsets"] = {"": 5}

    assert "changes the opset, which only loading and exporting do" in refusal(cut, change)


def test_a_function_of_the_output(cut):
    def change(content):
        told = content["steps"][-1]["rewrites"][0]["edit"]["functions"][0]
        told["graph"]["nodes"][0]["op"] = "Relu"

    assert "the function 'workbench." in refusal(cut, change)


def test_another_model(cut):
    def change(content):
        content["model"]["sha256"] = "0" * 64

    assert "is not the model of the certificate: its SHA-256 differs" in refusal(cut, change)


# ---- the output ------------------------------------------------------------------------------------


def with_other_output(found, folder, change):
    """The output with a change to its message, the certificate made to name its hash."""
    from dataclasses import replace

    model = onnx.load(found.output)
    change(model)
    onnx.save(model, folder / "out.onnx")
    other = replace(found, output=folder / "out.onnx")

    def name_it(content):
        from workbench.checker.files import sha256_of

        content["output"]["sha256"] = sha256_of(other.output)

    return other, other.edited(name_it)


def flip_a_bit(model):
    weight = max(model.graph.initializer, key=lambda tensor: len(numpy_helper.to_array(tensor).tobytes()))
    data = bytearray(weight.raw_data)
    data[100] ^= 1
    weight.raw_data = bytes(data)


def change_an_attribute(model):
    node = next(node for node in model.graph.node if node.op_type.startswith("Conv"))
    next(a for a in node.attribute if a.name == "strides").ints[0] = 3


def first_dim(model):
    return model.graph.input[0].type.tensor_type.shape.dim[1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (flip_a_bit, "has other elements in the output than after the log"),
        (change_an_attribute, "its attribute 'strides' is ints"),
        (lambda model: model.graph.node.pop(), "in the output by nothing"),
        (lambda model: setattr(first_dim(model), "dim_value", 4), "has another type or shape"),
        (lambda model: setattr(model.graph.output[0].type.tensor_type, "elem_type", 10), "another type or shape"),
        (lambda model: setattr(model.opset_import[0], "version", 17), "the opsets are"),
        (lambda model: model.functions.pop(), "differs between the output and the log"),
    ],
)
def test_an_output_that_was_edited(cut, tmp_path, change, sentence):
    for found in with_other_output(cut, tmp_path, change):
        with pytest.raises(DoesNotHold, match=sentence):
            found.check()


def test_an_output_of_which_only_a_name_was_edited_is_another_file(cut, tmp_path):
    """What computes nothing is not compared; the hash of the file covers it."""
    other, named = with_other_output(cut, tmp_path, lambda model: setattr(model.graph.node[0], "name", "another"))
    with pytest.raises(DoesNotHold, match=r"'out\.onnx' is not the output of the certificate"):
        other.check()
    named.check()


def test_an_output_whose_nodes_are_in_no_order_in_which_they_run(cut, tmp_path):
    def change(model):
        last = model.graph.node.pop()
        model.graph.node.insert(0, last)

    _, named = with_other_output(cut, tmp_path, change)
    with pytest.raises(DoesNotHold, match="is before the node that computes"):
        named.check()


# ---- plans -----------------------------------------------------------------------------------------


def test_an_offset(plan):
    def change(content):
        offsets = bound(content)["offsets"]
        offsets.update(dict.fromkeys(offsets, 0))

    assert "no view, Concat or elementwise operator lets them share bytes" in refusal(plan, change)


def test_a_value_that_the_file_does_not_compute(plan):
    assert "places 'nowhere', which nothing computes" in refusal(
        plan, lambda content: bound(content)["offsets"].update(nowhere=0)
    )


# ---- hostile files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it is not JSON"),
        ("[]", "must be an object"),
        ("[" * 100_000, "nested too deep|not JSON"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deep"),
        ("{}", "it is not a certificate of Graph Workbench"),
        ('{"format": "graph-workbench certificate", "version": 1}', "it has version 1"),
        ('{"format": "graph-workbench certificate", "version": 1e999}', "must be a whole number"),
        ('{"format": "graph-workbench certificate", "version": NaN}', "NaN is not a number of JSON"),
        ('{"format": "graph-workbench certificate", "version": 1' + "0" * 5_000 + "}", "it is not JSON"),
        ('{"format": "graph-workbench certificate", "version": 1' + "0" * 4_000 + "}", "at most 256 are read"),
        ("\ud800".encode(errors="surrogatepass"), "it is not JSON"),
    ],
    ids=itertools.count(),
)
def test_what_is_no_certificate_is_one_sentence(tmp_path, refused, text, sentence):
    path = tmp_path / "c.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Unreadable, match=sentence):
        read_certificate(path)
    assert len(refused("check", NHWC, NHWC, path)) < 400


def test_a_gigantic_file_is_not_read(tmp_path, refused):
    path = tmp_path / "c.json"
    with open(path, "wb") as file:
        file.truncate(2**40)
    assert "has 1,099,511,627,776 bytes; at most 67,108,864 are read" in refused("check", NHWC, NHWC, path)


def test_more_parts_than_memory_has_room_for_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "MAX_PARTS", 1_000)
    (tmp_path / "c.json").write_text("[" + "[]," * 1_000 + "[]]")
    with pytest.raises(Unreadable, match="more than 1,000 parts"):
        read_certificate(tmp_path / "c.json")


def test_a_log_that_turns_the_order_around_without_end_is_stopped(cut, monkeypatch):
    monkeypatch.setattr(replay, "MAX_VISITS", 20)
    monkeypatch.setattr(replay, "VISITS_PER_NAME", 0)
    with pytest.raises(Unreadable, match="more than 20 visits of names"):
        cut.check()


def test_work_grows_with_edits_times_operands_and_is_stopped(tmp_path, monkeypatch):
    """A body is followed anew for each edit of it; all of its operands count."""
    monkeypatch.setattr(replay, "MAX_VISITS", 20_000)
    monkeypatch.setattr(replay, "VISITS_PER_NAME", 0)
    reads = ", ".join(["x"] * 1_000)
    text = f"""g (float[2,3] x, bool c) => (float[2,3] y) {{
        y = If(c) <then_branch = t () => (float[2,3] o) {{ o = Sum({reads}) }}, else_branch = e () => (float[2,3] p) {{
            p = Relu(x) }}>
    }}"""
    inner = {"remove": [node("Relu", ["x"], ["p"])], "insert": [node("Relu", ["x"], ["p"])]}
    edit = {"inside": [{"node": "y", "bodies": [{"body": "else_branch", "edit": inner}]}]}
    step = {"pass": "a", "rewrites": [{"edit": edit}] * 100}
    with pytest.raises(Unreadable, match="visits of names of values"):
        forged(tmp_path, text, text, step).check()


def test_functions_that_grow_without_end_are_not_expanded(tmp_path):
    def doubling(model):
        for i in range(40):
            name, domain = (f"F{i + 1}", "d") if i < 39 else ("Relu", "")
            calls = [onnx.helper.make_node(name, [a], [b], domain=domain) for a, b in (("a", "c"), ("c", "b"))]
            opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("d", 1)]
            model.functions.append(onnx.helper.make_function("d", f"F{i}", ["a"], ["b"], calls, opsets))

    model = changed("g (float[2,3] x) => (float[2,3] y) { y = d.F0(x) }", doubling)
    assert "cannot be inferred" in forged(tmp_path, model, model).told()
    model.functions[0].node[0].op_type = "F0"
    with pytest.raises(Unreadable, match=r"the function 'd\.F0' calls itself"):
        forged(tmp_path, model, model).check()


def test_what_is_no_plain_file_is_one_sentence(tmp_path, refused):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "absent"):
        assert "cannot be checked" in refused("check", NHWC, NHWC, path)


def test_models_that_are_none_are_one_sentence(tmp_path, refused, cut):
    (tmp_path / "bad.onnx").write_bytes(b"\x80" * 100)
    for path in (tmp_path / "bad.onnx", tmp_path, tmp_path / "absent.onnx"):
        assert "cannot be checked" in refused("check", path, cut.output, cut.path)
        assert "cannot be checked" in refused("check", cut.model, path, cut.path)


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "absent", "", "a\0b"])
def test_weights_elsewhere_than_beside_the_model_are_not_read(tmp_path, refused, cut, location):
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(32))
    model = onnx.load(cut.model)
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "bias")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    onnx.save_model(model, folder / "model.onnx")
    assert "are not a file beside it" in refused("check", folder / "model.onnx", cut.output, cut.path)


ODD = (None, -1, 1.5, "x", [], {}, True, 2**200, [[]], {"a": 1}, "\ud800", ["x"], [10**30])


def paths_of(value, path=()):
    """The places in a certificate, each as the keys that lead there."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner_value in items:
        yield from paths_of(inner_value, (*path, key))


def with_odd_part(content, path, odd):
    found = copy.deepcopy(content)
    place = found
    for key in path[:-1]:
        place = place[key]
    if odd is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = odd
    return found


@pytest.mark.parametrize("many", [thorough_unless(many == 25, many) for many in (25, 500)])
@pytest.mark.parametrize("name", ["cut", "grouping", "types", "order", "plan"])
def test_a_part_of_another_kind_or_none_never_ends_in_anything_but_a_sentence(request, name, many):
    """Any place of a certificate, replaced or deleted: it holds still, or a sentence says what does not."""
    found = request.getfixturevalue(name)
    content, chance = found.content, random.Random(name)
    places = [path for path in paths_of(content) if path]
    short = [path for path in places if len(path) <= 4]
    refused = 0
    chosen = [*chance.sample(short, min(many // 3, len(short))), *chance.sample(places, min(many, len(places)))]
    for path in chosen:
        odd = with_odd_part(content, path, chance.choice((*ODD, ...)))
        odd["digest"] = content_digest(odd)
        try:
            found.written(json.dumps(odd)).check()
        except (DoesNotHold, Unreadable) as sentence:
            assert 10 < len(str(sentence)) < 1_000
            refused += 1
    assert refused > len(chosen) // 2
