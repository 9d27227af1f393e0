"""docs/adding-a-pass.md, followed to the letter in a copy of the project."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "adding-a-pass.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LONG = "python docs/make_rules.py"  # proves every law again, as make docs does
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
FILE = re.search(r"Save this, .*?as `(passes/(\w+)\.py)`", PAGE)
SKIPPED = shutil.ignore_patterns(".venv*", ".git", "__pycache__", ".*_cache", ".hypothesis", "node_modules", "site")
TESTS = next(command for command in COMMANDS if "pytest" in command)

# Rules that are wrong, each in its own way, and look right on their examples.
WRONG = """
from dataclasses import dataclass
import numpy as np
from workbench.ir import Edit, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Rewrite, Rule
from workbench.rewrite.patterns.algebra import algebraic_rule

def times_zero(graph, node, pass_):
    zero = graph.constant(node.inputs[1])
    if zero is None or zero.numpy().any():
        raise NoMatch("not zero")
    made = {"zeros": constant(np.zeros(graph.shape(node.outputs[0]), np.float32), "zeros")}
    edit = Edit(remove=(node.name,), constants=made, replace={node.outputs[0]: "zeros"})
    return Rewrite(edit, "0", (node.name,))

def without_neg(graph, node, pass_):
    neg = graph.producer(node.inputs[0])
    if neg is None or neg.op != "Neg":
        raise NoMatch("no Neg")
    edit = Edit(remove=(neg.name, node.name), insert=(node.replace(inputs=neg.inputs),))
    return Rewrite(edit, "Abs", (neg.name, node.name))

@dataclass(frozen=True)
class Wrong(Pass):
    title = "Wrong"
    rules = (RULE,)
"""
RULES = {
    "wrong_for_infinities": """Rule("zero", ("Mul",), times_zero, Example(
        before="g (float[2] x, float[2] z) => (float[2] y) <float[2] o = {0, 0}> { a = Mul(x, o)  y = Add(a, z) }",
        after="g (float[2] x, float[2] z) => (float[2] y) <float[2] zeros = {0, 0}> { y = Add(zeros, z) }",
        sentences=("0",)), exactness=Exactness.BIT_EXACT)""",
    "wrong_law": """algebraic_rule("sum", "for floats: (x + z) - z == x", "{root} goes", Example(
        before="g (float[2] x, float[2] z) => (float[2] y) { a = Add(x, z)  b = Sub(a, z)  y = Neg(b) }",
        after="g (float[2] x, float[2] z) => (float[2] y) { a = Add(x, z)  y = Neg(x) }",
        sentences=("Sub 'Sub_b' goes",)), exactness=Exactness.ROUNDING)""",
    "wrong_function": """algebraic_rule("third", "pow(x, 3) == x * x * x", "{root} goes", Example(
        before="g (float[2] x) => (float[2] y) <float[1] t = {3}> { y = Pow(x, t) }",
        after="g (float[2] x) => (float[2] y) { y_mul = Mul(x, x)  y = Mul(y_mul, x) }",
        sentences=("Pow 'Pow_y' goes",)), exactness=Exactness.ROUNDING)""",
    "wrong_where_others_read": """Rule("abs", ("Abs",), without_neg, Example(
        before="g (float[2] x) => (float[2] y) { a = Neg(x)  y = Abs(a) }",
        after="g (float[2] x) => (float[2] y) { y = Abs(x) }",
        sentences=("Abs",)), exactness=Exactness.BIT_EXACT)""",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project with the page's file in it."""
    folder = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(ROOT, folder, ignore=SKIPPED)
    (folder / FILE[1]).write_text(PYTHON[0], encoding="utf-8")
    return folder


def run(command, folder):
    words = command.replace("/tmp/out.onnx", str(folder / "out.onnx")).split()
    words[0] = sys.executable
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)


def test_the_page_has_one_file_and_its_commands():
    assert len(PYTHON) == 1
    assert len(COMMANDS) == 6


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("command", [pytest.param(c, marks=pytest.mark.slow) if c == LONG else c for c in COMMANDS])
def test_each_command_of_the_page_works(project, command):
    done = run(command, project)
    assert done.returncode == 0, done.stdout + done.stderr
    if "passes" in command.split()[-1:] or "explain" in command:
        assert FILE[2] in done.stdout
    if "pytest" in command:
        passed = int(re.search(r"(\d+) passed", done.stdout)[1])
        assert passed >= 5


@pytest.mark.slow
def test_the_tests_of_the_page_fail_for_wrong_rules(project):
    files = {name: project / "passes" / f"{name}.py" for name in RULES}
    try:
        for name, file in files.items():
            file.write_text(
                f'"""A rule that is wrong."""\n{WRONG.replace("RULE,", f"{RULES[name]},")}', encoding="utf-8"
            )
        done = run(TESTS.replace(FILE[2], "wrong_"), project)
    finally:
        for file in files.values():
            file.unlink()
    failed = re.findall(r"^FAILED \S+?\[(wrong_\w+?)[-\]]", done.stdout, re.MULTILINE)
    assert set(failed) == set(RULES), done.stdout[-4000:]


@pytest.mark.slow
def test_the_documentation_has_the_new_pass(project):
    assert run("python docs/make_passes.py", project).returncode == 0
    assert f"(passes/{FILE[2]}.md)" in (project / "docs" / "passes.md").read_text(encoding="utf-8")
    page = (project / "docs" / "passes" / f"{FILE[2]}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# `{FILE[2]}`: Drop second relu\n") and "<svg" in page
    assert "Relu 'Relu_b' changes nothing after Relu 'Relu_a'; 1 node fewer" in page
    assert "Relu 'Relu_y' does not follow a Relu" in page


@pytest.mark.slow
def test_the_app_lists_the_new_pass(project):
    code = (
        "from streamlit.testing.v1 import AppTest\n"
        "at = AppTest.from_string('from workbench.interfaces.ui.screens.optimize_page import optimize_page; optimize_page()',"
        " default_timeout=180)\n"
        "at.session_state['advanced'] = at.session_state['other_passes'] = True\n"
        "at.run()\n"
        "assert not at.exception, at.exception\n"
        f"box = at.checkbox(key='on_{FILE[2]}')\n"
        "assert box.value is False\n"
        "print(box.label)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "Drop second relu"
