"""`new-pass` and `test-pass`: from an empty folder to an accepted pass, and what is said of files that are wrong."""

import importlib.util
import re
import sys

import pytest

import workbench as wb
from tests.conftest import ROOT
from tests.running import typed
from workbench.cli.exit_codes import BAD_INPUT, DONE, FAILED
from workbench.rewrite import Exactness
from workbench.verification.pass_files.pass_template import new_pass_text
from workbench.verification.pass_files.sampled_laws import sample_law

TEXT = new_pass_text("second")
AFTER = 'after="g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }"'


@pytest.fixture
def file(tmp_path):
    """Writes the file of a pass."""

    def write(text):
        path = tmp_path / "second.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def failed_checks(out):
    return [line.removeprefix("FAILED").strip() for line in out.splitlines() if line.startswith("FAILED")]


def test_from_an_empty_folder_to_an_accepted_pass(run, tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    monkeypatch.setenv("WORKBENCH_PASSES", str(folder))
    code, out, _ = run("new-pass", "abs_of_neg")
    path = folder / "abs_of_neg.py"
    assert code == DONE and f"test-pass {path}" in out
    code, out, _ = run("test-pass", path)
    assert code == DONE and not failed_checks(out)
    assert "relu(relu(x)) == relu(x) is proved for integers and floats" in out
    assert "Relu '…' does not follow a Relu" in out

    text = path.read_text()
    text = text.replace("relu(relu(x)) == relu(x)", "for signed integers and floats: abs(-x) == abs(x)")
    text = text.replace("a = Relu(x)  b = Relu(a)  y = Neg(b)", "a = Neg(x)  y = Abs(a)")
    text = text.replace("a = Neg(x)  y = Relu(a)", "a = Relu(x)  y = Abs(a)")
    path.write_text(text)
    code, out, _ = run("test-pass", path)
    assert code == FAILED
    assert "gives these:" in out and "Abs 'Abs_y' changes nothing after Neg 'Neg_a'; 1 node fewer" in out
    text = text.replace(
        "Relu 'Relu_b' changes nothing after Relu 'Relu_a'", "Abs 'Abs_y' changes nothing after Neg 'Neg_a'"
    )
    text = text.replace("Relu 'Relu_y' does not follow a Relu", "Abs 'Abs_y' does not follow a Neg")
    path.write_text(text)
    assert "the result is not the graph `after`" in run("test-pass", path)[1]
    code, out, _ = run("test-pass", path, "--update")
    assert code == DONE, out
    assert 'after="g (float[2] x) => (float[2] y) { y = Abs (x) }"' in path.read_text()

    wb.export(typed("g (float[2] x) => (float[2] y) { a = Neg(x)  y = Abs(a) }"), tmp_path / "m.onnx")
    code, out, _ = run("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--passes", "abs_of_neg")
    assert code == DONE and "equal" in out
    assert [node.op for node in wb.load(tmp_path / "o.onnx").nodes] == ["Abs"]


def test_new_pass_replaces_nothing(run, refused, tmp_path):
    assert run("new-pass", "mine", "--folder", tmp_path)[0] == DONE
    (tmp_path / "mine.py").write_text("kept")
    assert "exists already" in refused("new-pass", "mine", "--folder", tmp_path)
    assert (tmp_path / "mine.py").read_text() == "kept"
    assert "there is a pass or preset 'simplify' already" in refused("new-pass", "simplify", "--folder", tmp_path)
    assert "cannot be the name of a pass" in refused("new-pass", "../x", "--folder", tmp_path)


def test_what_new_pass_writes_is_the_file_of_the_document():
    page = (ROOT / "docs" / "adding-a-pass.md").read_text(encoding="utf-8")
    shown = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    assert shown == new_pass_text("drop_second_relu")


WRONG = {
    "law": (
        TEXT.replace("relu(relu(x)) == relu(x)", "relu(relu(x)) == x"),
        r"law of 'second': relu\(relu\(x\)\) == x is wrong for integers \(int8\): with x = -\d+",
    ),
    "numbers": (
        TEXT.replace("relu(relu(x)) == relu(x)", "relu(relu(x)) == x"),
        r"example of 'second', in ONNX Runtime: output 'y' differs after '.*': element \[1\] is",
    ),
    "sentence": (
        TEXT.replace('; 1 node fewer",\n            Example', '",\n            Example'),
        "gives other sentences",
    ),
    "after": (TEXT.replace(AFTER, AFTER.replace("Neg", "Abs")), "the result is not the graph `after`"),
    "refusal": (TEXT.replace("Relu 'Relu_y' does not", "Relu 'Relu_z' does not"), "refusal 1 of 'second': .*these:"),
    "refusal that acts": (
        TEXT.replace("{ a = Neg(x)  y = Relu(a) }", "{ a = Relu(x)  y = Relu(a) }"),
        "refusal 1 of 'second': the rule acts: Relu 'Relu_y' changes nothing",
    ),
    "refusal of another operator": (
        TEXT.replace("{ a = Neg(x)  y = Relu(a) }", "{ a = Neg(x)  y = Abs(a) }"),
        r"refusal 1 of 'second': the graph has no node that the rule looks at \(Relu\)",
    ),
    "declarations": (
        TEXT.replace("Source: idempotence", "See idempotence").replace('title = "Second"', 'title = ""'),
        "declarations: the class has no title; its docstring has no line 'Source: ...'",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_file_that_is_wrong_fails_with_what_is_wrong(kind, file, run):
    text, said = WRONG[kind]
    assert text != TEXT
    code, out, _ = run("test-pass", file(text))
    assert code == FAILED
    assert any(re.search(said, line) for line in failed_checks(out)), out


MATCHES = '''\
"""A rule that takes its example for granted."""
from dataclasses import dataclass
from workbench.ir import Edit
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule

def match(graph, node, pass_):
    before = graph.producer(node.inputs[0])
    if before is None:
        raise NoMatch(f"{node} reads an input")
    return Rewrite(Edit(remove=(node.name,), replace={node.outputs[0]: node.inputs[0]}), "it goes", (node.name,))

@dataclass(frozen=True)
class Second(Pass):
    """It goes. Source: none."""
    title = "It goes"
    rules = (Rule("second", ("Relu",), match, Example(
        "g (float[2] x) => (float[2] y) { a = Abs(x)  b = Relu(a)  y = Exp(b) }",
        "g (float[2] x) => (float[2] y) { a = Abs(x)  y = Exp(a) }", ("it goes",)),
        (Refusal("g (float[2] x) => (float[2] y) { y = Relu(x) }", "Relu 'Relu_y' reads an input"),),
        exactness=Exactness.BIT_EXACT),)
'''


def test_a_rule_that_takes_its_example_for_granted_fails_on_a_graph_close_to_it(file, run):
    code, out, _ = run("test-pass", file(MATCHES))
    (line,) = failed_checks(out)
    assert code == FAILED and line.startswith("graphs close to example of 'second'") and "are wrong:" in line
    assert "Abs 'Abs_a': Neg in its place: numbers" in out


def test_a_rule_that_raises_is_one_line_with_its_place(file, run):
    code, out, _ = run("test-pass", file(MATCHES.replace("if before is None", "if before.absent")))
    assert code == FAILED and "second.py, line 8: AttributeError: 'Node' object has no attribute 'absent'" in out


def test_a_file_that_does_not_run_is_bad_input(file, run):
    code, _, err = run("test-pass", file("import no_such_package\n"))
    assert code == BAD_INPUT and "second.py, line 1: ModuleNotFoundError" in err


def test_update_writes_a_graph_that_was_no_graph_and_nothing_else(file, run):
    path = file(TEXT.replace(AFTER, 'after="?"'))
    code, out, _ = run("test-pass", path, "--update")
    assert code == DONE and "wrote the graph `after` of the example of 'second'" in out
    after = 'after="g (float[2] x) => (float[2] y) { a = Relu (x) y = Neg (a) }"'
    assert path.read_text() == TEXT.replace(AFTER, after)
    before = path.read_text()
    assert run("test-pass", path, "--update")[0] == DONE and path.read_text() == before


def test_update_refuses_a_graph_that_is_computed(file, run):
    path = file(TEXT.replace(AFTER, 'after="?".strip()'))
    before = path.read_text()
    code, _, err = run("test-pass", path, "--update")
    assert code == BAD_INPUT and "is not a text in" in err and path.read_text() == before


# ---- laws without z3 ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "exactness"),
    [
        ("relu(relu(x)) == relu(x)", Exactness.BIT_EXACT),
        ("x + a == a + x; x * a == a * x", Exactness.BIT_EXACT),
        ("for floats: x + -0.0 == x", Exactness.BIT_EXACT),
        ("for reals: sqrt(x) * sqrt(x) == x if x >= 0", Exactness.ROUNDING),
        ("(p and q) or (p and r) == p and (q or r)", Exactness.BIT_EXACT),
        ("for reals: exp(x + z) == exp(z) * exp(x)", Exactness.ROUNDING),
    ],
)
def test_a_true_law_holds_for_the_numbers_that_are_tried(law, exactness):
    sampled = sample_law(law, exactness)
    assert sampled.kinds and not sampled.wrong


@pytest.mark.parametrize(
    ("law", "said"),
    [
        ("for floats: x + 0.0 == x", "with x = -0.0 it says 0.0 == -0.0"),
        ("for floats: x * 0 == 0", "== 0.0"),
        ("for integers: abs(x) == x", "it says"),
        ("for reals: exp(x) + exp(z) == exp(x + z)", "with x = "),
        ("x - a == a - x", "is wrong for integers: with a = "),
    ],
)
def test_a_wrong_law_is_refuted_with_numbers(law, said):
    assert said in sample_law(law, Exactness.BIT_EXACT).wrong


def test_without_z3_the_law_is_tried_with_numbers_and_that_is_said(file, run, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "z3" else found(name, *more))
    monkeypatch.setitem(sys.modules, "z3", None)
    code, out, _ = run("test-pass", file(TEXT))
    assert code == DONE and "all passed, 1 could not be decided" in out
    assert "it holds for some thousand integers and floats; z3 is not installed" in out
    code, out, _ = run("test-pass", file(TEXT.replace("== relu(x)", "== x")))
    assert code == FAILED and "is wrong for integers: with x = " in out
