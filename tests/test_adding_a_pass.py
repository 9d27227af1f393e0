"""docs/adding-a-pass.md, followed to the letter in a copy of the project."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "adding-a-pass.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LONG = "python docs/make_rules.py"  # proves every law again, as test_laws.py does for the page of rules
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
FILE = re.search(r"Save this as `(passes/(\w+)\.py)`", PAGE)
SKIPPED = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", ".hypothesis")


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


@pytest.mark.parametrize("command", [pytest.param(c, marks=pytest.mark.slow) if c == LONG else c for c in COMMANDS])
def test_each_command_of_the_page_works(project, command):
    done = run(command, project)
    assert done.returncode == 0, done.stdout + done.stderr
    if "passes" in command.split()[-1:] or "explain" in command:
        assert FILE[2] in done.stdout
    if "pytest" in command:
        passed = int(re.search(r"(\d+) passed", done.stdout)[1])
        assert passed >= 5


def test_the_documentation_has_the_new_pass(project):
    assert run("python docs/make_passes.py", project).returncode == 0
    assert f"## `{FILE[2]}`" in (project / "docs" / "passes.md").read_text(encoding="utf-8")


def test_the_app_lists_the_new_pass(project):
    code = (
        "from streamlit.testing.v1 import AppTest\n"
        "at = AppTest.from_string('from workbench.ui.screens.optimize_page import optimize_page; optimize_page()',"
        " default_timeout=120).run()\n"
        "assert not at.exception, at.exception\n"
        f"box = at.checkbox(key='on_{FILE[2]}')\n"
        "assert box.value is False\n"
        "print(box.label)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "Drop a second Relu"


def test_the_page_of_passes_is_up_to_date():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from make_passes import document
    finally:
        sys.path.pop(0)
    assert (ROOT / "docs" / "passes.md").read_text(encoding="utf-8") == document(), "run python docs/make_passes.py"
