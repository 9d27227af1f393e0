"""The checker knows versions: a rewrite is about calls in the form for which passes are written, and no other."""

import onnx
import pytest
from onnx import parser

import workbench as wb
from tests.certifying import certified
from tests.forging import Json, forged, model_of, node, refusal, rewriting
from workbench.checker.versions import OPSET_OF_PASSES, is_of_passes
from workbench.ir.signature_changes import is_valid_unchanged
from workbench.ir.text import OPSET

SOFTMAX = "g (float[1,4,4,4] x) => (float[1,4,4,4] y) { y = Softmax <axis = 1> (x) }"
MOVED = """g (float[1,4,4,4] x) => (float[1,4,4,4] y) { a = Transpose <perm = [0, 2, 3, 1]> (x)
    b = Softmax <axis = 3> (a) y = Transpose <perm = [0, 3, 1, 2]> (b) }"""


def a_softmax_moved(op: str) -> Json:
    """What a layout strategy once made of a Softmax over three axes, which is over one then."""
    inserted = [
        node("Transpose", ["x"], ["a"], perm={"ints": [0, 2, 3, 1]}),
        node(op, ["a"], ["b"], axis={"int": 3}),
        node("Transpose", ["b"], ["y"], perm={"ints": [0, 3, 1, 2]}),
    ]
    return rewriting({"remove": [node(op, ["x"], ["y"], axis={"int": 1})], "insert": inserted}, "layout_greedy")


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_softmax_of_an_older_opset_is_not_moved(tmp_path, op):
    texts = (text.replace("Softmax", op) for text in (SOFTMAX, MOVED))
    found = forged(tmp_path, *(model_of(text, 11) for text in texts), a_softmax_moved(op))
    assert refusal(found) == (
        f"rewrite 1 (layout_greedy) is about the {op} that computes 'y', whose form in opset 11 is not that of opset 23, "
        "for which passes are written"
    )


def test_the_same_of_an_opset_that_passes_know_is_followed(tmp_path):
    found = forged(tmp_path, model_of(SOFTMAX, 13), model_of(MOVED, 13), a_softmax_moved("Softmax"))
    assert "log" in found.check().holds


@pytest.mark.parametrize(
    ("inserted", "fault"),
    [
        (node("Gelu", ["x"], ["y"]), "it came later"),
        (node("Relu", ["x"], ["y"], alpha={"float": 1.0}), "it has no attribute 'alpha'"),
        (node("Relu", ["x", "x"], ["y"]), "it takes 1 to 1 operands"),
    ],
)
def test_a_call_that_the_opset_does_not_have_is_not_inserted(tmp_path, inserted, fault):
    relu = "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }"
    made = relu.replace("Relu(x)", f"{inserted['op']}({', '.join(inserted['inputs'])})")
    step = rewriting({"remove": [node("Relu", ["x"], ["y"])], "insert": [inserted]})
    assert refusal(forged(tmp_path, relu, made, step)).endswith(f"which opset 17 does not have in this form: {fault}")


def test_a_call_of_another_opset_is_not_changed_in_its_own_domain(tmp_path):
    domain = "ai.onnx.opset11"
    text = "g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.opset11.Softmax <axis = AXIS> (x) }"
    models = [
        parser.parse_model(f'<ir_version: 8, opset_import: ["": 23, "{domain}": 11]>\n{text.replace("AXIS", axis)}')
        for axis in "10"
    ]
    calls = [node("Softmax", ["x"], ["y"], axis={"int": axis}) | {"domain": domain} for axis in (1, 0)]
    step = rewriting({"remove": calls[:1], "insert": calls[1:]})
    assert refusal(forged(tmp_path, *models, step)) == (
        "rewrite 1 (fold_constants) changes the ai.onnx.opset11.Softmax that computes 'y', which is of another opset, and "
        "which no pass may change"
    )


@pytest.mark.parametrize("layout", ["greedy", "record-then-insert", "optimal"])
@pytest.mark.parametrize("foreign", ["a = my.Op (x)", "a = Scan_like (x)", "a = Relu (x)"])
def test_what_is_made_of_an_older_file_is_checked_as_before(tmp_path, layout, foreign):
    text = f"""<ir_version: 6, opset_import: ["": 11, "my": 1]> g (float[1,4,4,4] x) => (float[1,4,4,4] y, float[1,4,8,8] v, a)
    <float[4,4,1,1] w = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, float[0] r = {{}}, float[4] s = {{1, 1, 2, 2}}> {{
        {foreign} c = Conv (x, w) y = Softmax <axis = 1> (c)
        v = Resize <mode = "nearest", coordinate_transformation_mode = "tf_half_pixel_for_nn"> (c, r, s) }}"""
    model = parser.parse_model(text.replace(", a)", ", float[1,4,4,4] a)"))
    path = tmp_path / "old.onnx"
    onnx.save(model, path)
    found = certified(
        path, tmp_path / "made" if (tmp_path / "made").mkdir() is None else tmp_path, layout=layout, target="npu"
    )
    assert "log" in found.check().holds
    assert wb.load(path).opset_imports["ai.onnx.opset11"] == 11


def own(text: str, opset: int) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')


@pytest.mark.parametrize(
    ("domain", "axis", "opset", "holds"),
    [(11, 1, 11, True), (12, 1, 11, False), (11, 0, 11, False), (11, 1, 13, False)],
)
def test_loading_and_exporting_give_a_call_its_domain_and_nothing_else(tmp_path, domain, axis, opset, holds):
    text = "g (float[2,3] x) => (float[2,3] y) { y = Softmax <axis = 1> (x) }"
    plain = node("Softmax", ["x"], ["y"], axis={"int": 1})
    in_own_domain = node("Softmax", ["x"], ["y"], axis={"int": axis}) | {"domain": f"ai.onnx.opset{domain}"}
    imports = {"": 23, f"ai.onnx.opset{domain}": domain}
    loading = {"remove": [plain], "insert": [in_own_domain], "opsets": imports}
    exporting = {"remove": [in_own_domain], "insert": [plain], "opsets": {"": opset}}
    steps = [{"pass": name, "rewrites": [{"edit": e}]} for name, e in (("loading", loading), ("exporting", exporting))]
    found = forged(tmp_path, own(text, 11), own(text, opset), *steps)
    if holds:
        assert "log" in found.check().holds
    else:
        assert f"has the ai.onnx.opset{domain}.Softmax that computes 'y' for what is no such call of opset" in refusal(
            found
        )


def test_the_checker_and_the_engine_agree_on_what_changed():
    assert OPSET_OF_PASSES == OPSET
    for schema in onnx.defs.get_all_schemas_with_history():
        for opset in range(7, OPSET) if schema.domain == "" else ():
            known = onnx.defs.has(schema.name, opset, "")
            if not known or onnx.defs.get_schema(schema.name, opset, "").deprecated:
                continue
            assert is_of_passes(schema.name, opset) == is_valid_unchanged(schema.name, opset, OPSET), (
                schema.name,
                opset,
            )
