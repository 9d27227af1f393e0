"""Operators that a user declares in a TOML file: their types follow, layouts cross them, pure ones are computed once."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import workbench as wb
from tests.loading import saved
from workbench.ops.declared import OPERATORS_VARIABLE

HEADER = '<ir_version: 8, opset_import: ["": 11, "my": 1]>\n'
DECLARED = """
["my.Up"]
operands = ["T[N,C,H,W]"]
results = ["T[N,C,2*H,2*W]"]

["my.Act"]
operands = ["T[*D]"]
results = ["T[*D]"]
layout = "agnostic"
pure = true

["my.Both"]
operands = ["T[*D]", "T[*D]"]
results = ["T[*D]", "bool[*D]"]
layout = "agnostic"

["EfficientNMS_TRT"]
operands = ["T[N,B,4]"]
results = ["int32[N,1]", "T[N,@keep,4]", "float[?,3]", "int64[]"]
"""


@pytest.fixture
def declare(tmp_path, monkeypatch):
    """Write a file of declarations; its path."""
    folder = tmp_path / "operators"
    folder.mkdir()
    monkeypatch.setenv(OPERATORS_VARIABLE, str(folder))

    def declare(text, name="mine.toml"):
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    return declare


def loaded(tmp_path, text):
    return wb.load(saved(tmp_path, text, header=HEADER))


@pytest.mark.parametrize(
    ("call", "types"),
    [
        ("u = my.Up (x)", {"u": "float[N,3,12,10]"}),
        ("u = my.Act (x)", {"u": "float[N,3,6,5]"}),
        ("u, v = my.Both (x, x)", {"u": "float[N,3,6,5]", "v": "bool[N,3,6,5]"}),
        (
            "u, v, w, s = EfficientNMS_TRT <keep = 100> (b)",
            {"u": "int32[M,1]", "v": "float16[M,100,4]", "w": "float[unk__0,3]", "s": "int64[]"},
        ),
        ("u, v = EfficientNMS_TRT (b)", {"u": "int32[M,1]", "v": "float16[M,unk__0,4]"}),
    ],
)
def test_types_follow_from_the_declaration(tmp_path, declare, call, types):
    declare(DECLARED)
    graph = loaded(tmp_path, f"g (float[N,3,6,5] x, float16[M,7,4] b) => (y, b) {{ {call} y = Relu (x) }}")
    assert {value: str(graph.type(value)) for value in types} == types


def test_types_behind_a_declared_operator_follow_too(tmp_path, declare):
    declare(DECLARED)
    graph = loaded(tmp_path, "g (float[N,3,6,5] x) => (y) { u = my.Up (x) y = Softmax <axis = 3> (u) }")
    assert str(graph.type("y")) == "float[N,3,12,10]"


WEIGHTS = "float[3,3,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}"
CHAIN = f"g (float[1,3,4,4] x) => (float[1,3,4,4] y) <{WEIGHTS}> {{ a = Conv (x, w) b = my.Act (a) y = Conv (b, w) }}"


def run(path, x):
    """The model with my.Act as a function, since nothing else computes it."""
    model = onnx.load(path)
    body = f'<domain: "my", opset_import: ["": {model.opset_import[0].version}]> Act (a) => (b) {{ b = Sigmoid (a) }}'
    model.functions.append(parser.parse_function(body))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("layout", ["greedy", "record-then-insert", "optimal", "convert-layout"])
def test_a_layout_crosses_an_operator_that_works_on_any_order_of_axes(tmp_path, declare, layout):
    path = saved(tmp_path, CHAIN, header=HEADER)
    left = {}
    for text in (DECLARED, DECLARED.replace("agnostic", "barrier")):
        declare(text)
        graph = wb.optimize(wb.load(path), passes=[], layout=layout, target="npu", verify="off").graph
        out = tmp_path / f"{len(left)}.onnx"
        wb.export(graph, out)
        x = np.random.default_rng(0).standard_normal((1, 3, 4, 4)).astype(np.float32)
        np.testing.assert_allclose(run(out, x), run(path, x), rtol=1e-5)
        left[text] = sum(node.op_type == "Transpose" for node in onnx.load(out).graph.node)
    assert list(left.values()) == [2, 4]


def test_equal_calls_are_computed_once_only_if_they_are_pure(tmp_path, declare):
    path = saved(tmp_path, "g (float[2] x) => (y) { a = my.Act (x) b = my.Act (x) y = Add (a, b) }", header=HEADER)
    counts = []
    for text in ("", DECLARED.replace("pure = true", ""), DECLARED):
        declare(text)
        counts.append(len(wb.optimize(wb.load(path), passes=["common_subexpressions"]).graph))
    assert counts == [3, 3, 2]


def test_a_declared_operator_is_named_with_its_file(tmp_path, declare):
    declare(DECLARED)
    assert loaded(tmp_path, CHAIN).warnings == (
        "the model can be shown, not run: operator 'my.Act' of a Act that computes ['b'] is declared in 'mine.toml', and "
        "nothing here computes it",
    )


def test_the_folder_is_in_the_users_settings(tmp_path, declare, monkeypatch):
    monkeypatch.delenv(OPERATORS_VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config/graph-workbench/operators"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(DECLARED, encoding="utf-8")
    assert "declared in 'mine.toml'" in loaded(tmp_path, CHAIN).warnings[0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[", "is not TOML (Invalid initial character for a key part (at end of document)), so its operators are not known; correct it"),
        ("a = 1", "has the key 'a' outside of any table, so its operators are not known; begin a table, such as [\"my.a\"]"),
        ("[my.Op]\nresults = []", "has the table 'my', so its operators are not known; write an operator with its domain in quotes: [\"my.Op\"]"),
        ("[Relu]\nresults = []", "declares 'Relu', which is known, so its operators are not known; take it out"),
        ('["workbench.Silu"]\nresults = []', "declares 'workbench.Silu', which is known, so its operators are not known; take it out"),
        ('["my.Op"]\npure = true', "gives no results for 'my.Op', so its operators are not known; add their types, such as results = [\"float[N,4]\"]"),
        ('["my.Op"]\nresults = []\nshape = 1', "has the key 'shape' for 'my.Op', so its operators are not known; there are operands, results, layout, pure"),
        ('["my.Op"]\nresults = "float[]"', "has results of 'my.Op' that are not a list of texts, so its operators are not known; write results = [\"float[N,4]\"]"),
        ('["my.Op"]\nresults = ["float"]', "has the type 'float' for 'my.Op', so its operators are not known; write one such as \"float[N,2*C,@size,?]\""),
        ('["my.Op"]\nresults = ["float[-1]"]', "has the type 'float[-1]' for 'my.Op', so its operators are not known; write one such as \"float[N,2*C,@size,?]\""),
        ('["my.Op"]\nresults = ["real[1]"]', "has the element type 'real' for 'my.Op', so its operators are not known; name ONNX's or an operand's"),
        ('["my.Op"]\nresults = ["float[N]"]', "has the size 'N' for 'my.Op', which no operand has, so its operators are not known; give it to one, or write ?"),
        ('["my.Op"]\noperands = ["float[2*N]"]\nresults = []', "has '2*N' in an operand of 'my.Op', so its operators are not known; write a number, a name or ?"),
        ('["my.Op"]\nresults = ["float[*D]"]', "has '*D' for 'my.Op', so its operators are not known; * stands for axes only as in an operand"),
        ('["my.Op"]\nresults = []\nlayout = "any"', "has the layout 'any' for 'my.Op', so its operators are not known; write barrier or agnostic"),
        ('["my.Op"]\nresults = []\npure = 1', "has pure = 1 for 'my.Op', so its operators are not known; write true or false"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path, declare, text, sentence):
    path = declare(text)
    *_, warning = loaded(tmp_path, CHAIN).warnings
    assert warning == f"'{path}' {sentence}"


def test_an_operator_is_declared_once(tmp_path, declare):
    first, second = declare(DECLARED, "a.toml"), declare(DECLARED, "b.toml")
    *_, warning = loaded(tmp_path, CHAIN).warnings
    assert (
        warning == f"'{second}' declares 'my.Up', as '{first}' does, so its operators are not known; keep one of them"
    )


def test_a_model_without_foreign_operators_says_nothing_of_faulty_files(tmp_path, declare):
    declare("[")
    assert loaded(tmp_path, "g (float[2] x) => (float[2] y) { y = Relu (x) }").warnings == ()


def test_operands_that_do_not_fit_the_declaration_leave_the_type_open(tmp_path, declare):
    declare(DECLARED)
    graph = loaded(tmp_path, "g (float[4] x) => (y) { u = my.Up (x) y = Relu (u) }")
    assert graph.shape("u") is None or len(graph.shape("u")) == 4
