"""The user's own passes: files of a folder, found beside the shipped ones."""

import os
import re

import pytest

import passes
import workbench as wb
from tests.conftest import ROOT
from tests.running import typed
from workbench.errors import UserError

PAGE = (ROOT / "docs" / "adding-a-pass.md").read_text(encoding="utf-8")
PASS = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
TWICE = "g (float[2] x) => (float[2] y) { a = Relu(x)  b = Relu(a)  y = Neg(b) }"
BROKEN = {
    "half.py": ("x = 1\ny = = 2\n", "line 2: it is not Python"),
    "absent.py": ("import math\n\nimport no_such_package\n", "line 3: ModuleNotFoundError: No module named"),
    "leaves.py": ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
    "empty.py": ("", "it must define one subclass of Pass, and defines 0"),
    "cancel_pairs.py": (PASS, "the name 'cancel_pairs' is taken; rename the file"),
    "simplify.py": (PASS, "the name 'simplify' is taken; rename the file"),
    "Upper.py": (PASS, "the file's name must be small letters, digits and _, then .py; rename it"),
}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes a file into a folder of own passes."""
    monkeypatch.setenv("WORKBENCH_PASSES", str(tmp_path))

    def write(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def test_an_own_pass_runs_in_pipelines_is_listed_and_explained(own, run, tmp_path):
    own("second.py", PASS)
    assert list(passes.all_passes())[-1] == "second"
    history = wb.optimize(typed(TWICE), "second,cancel_pairs")
    assert [node.op for node in history.graph.nodes] == ["Relu", "Neg"]
    wb.export(typed(TWICE), tmp_path / "m.onnx")
    code, out, _ = run("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--passes", "second")
    assert code == 0 and "changes nothing after Relu" in out + run("explain", "second")[1]


def test_a_file_that_changed_is_read_again(own):
    file = own("second.py", PASS)
    first = passes.find_pass("second")
    assert passes.find_pass("second") is first
    before = file.stat()
    own("second.py", PASS.replace("Drop second relu", "Drop the second relu"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # in the same moment, as far as the clock can tell
    assert passes.find_pass("second").title == "Drop the second relu"


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_holds_no_pass_is_one_sentence_and_the_others_work(name, own):
    text, reason = BROKEN[name]
    file = own(name, text)
    own("second.py", PASS)
    (fault,) = passes.broken().values()
    assert fault.startswith(str(file)) and reason in fault and "\n" not in fault
    assert "second" in passes.all_passes() and "cancel_pairs" in passes.all_passes()


def test_a_broken_pass_that_is_asked_for_is_an_error(own):
    file = own("half.py", "x = \n")
    with pytest.raises(UserError, match=re.escape(f"{file}, line 1")):
        wb.optimize(typed(TWICE), "half")


def test_an_own_tool_does_not_take_the_name_of_an_own_pass(own, tmp_path, monkeypatch):
    own("second.py", PASS)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "second.toml").write_text('command = "cp {input} {output}"')
    monkeypatch.setenv("WORKBENCH_TOOLS", str(tools))
    assert passes.find_pass("second").title == "Drop second relu"
    assert "there is another pass 'second'" in passes.broken()["second.toml"]
