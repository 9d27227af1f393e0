"""The installed command calls itself `graph-workbench`, the module `python -m workbench`."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.commands import SAMPLES
from tests.conftest import ROOT
from workbench.interfaces.cli.main import COMMANDS

MODEL = SAMPLES / "conv_relu_conv_relu.onnx"
# What pip writes for the entry point of pyproject.toml.
SCRIPT = "import sys\nfrom workbench.interfaces.cli.main import program\nsys.exit(program())\n"
# What the pages show, in a process that the command `app` began.
PAGES = """
import runpy, sys
sys.argv = ["streamlit", "run", "app.py"]
from types import SimpleNamespace as Of
from workbench.pipeline.command_text import optimize_text
from workbench.interfaces.ui.state import commands
opened = Of(path="m.onnx", graph=Of(dims={}, inputs=()), inputs=None, seed=0, other=None)
commands.declared_layouts = lambda graph: {}
print(optimize_text("m.onnx"))
print(commands.recipe_command_of(opened, "r.toml"))
print(commands.against_command_of(opened))
print(commands.package_command_of(opened, "m.onnx", "cpu"))
"""


@pytest.fixture
def installed(tmp_path):
    """The command, as the file that pip writes."""
    command = tmp_path / "bin" / "graph-workbench"
    command.parent.mkdir()
    command.write_text(SCRIPT)
    return [sys.executable, str(command)]


def said(*words, cwd):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_helps_usages_and_errors_name_the_command(installed, tmp_path):
    module = [sys.executable, "-m", "workbench"]
    for start, name, prefix in (
        (installed, "graph-workbench", "graph-workbench"),
        (module, "python -m workbench", "workbench"),
    ):
        assert said(*start, "--help", cwd=tmp_path).startswith(f"usage: {name} [-h] [--version] COMMAND")
        assert said(*start, "optimize", "--help", cwd=tmp_path).startswith(f"usage: {name} optimize MODEL -o OUT.onnx")
        wrong = said(*start, "optimize", MODEL, cwd=tmp_path)
        assert wrong.startswith(f"{prefix}: ") and f"see `{name} optimize --help`" in wrong


@pytest.mark.slow
def test_what_is_said_to_do_next_names_the_command(installed, tmp_path):
    written = said(
        *installed,
        "optimize",
        MODEL,
        "-o",
        "out.onnx",
        "--passes",
        "dead_nodes",
        "--certificate",
        "c.json",
        cwd=tmp_path,
    )
    assert f"check it with: graph-workbench check {MODEL} out.onnx c.json" in written
    assert "not checked" in said(*installed, "check", MODEL, "out.onnx", "c.json", cwd=tmp_path)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("name", "begins"), [("graph-workbench", "graph-workbench "), ("streamlit", "python -m workbench ")]
)
def test_the_app_shows_commands_as_it_was_started(tmp_path, name, begins):
    (tmp_path / name).write_text(PAGES)
    lines = said(sys.executable, tmp_path / name, "app", cwd=tmp_path).splitlines()
    assert len(lines) == 4 and all(line.startswith(begins) for line in lines), lines


def test_one_module_writes_the_name():
    """Docstrings may say what the module is called."""
    named = re.compile(
        rf"python -m workbench\b(?!\.)|graph-workbench (?:{'|'.join(COMMANDS)})\b|['\"]-m['\"], ['\"]workbench['\"]"
    )
    for path in sorted((ROOT / "workbench").rglob("*.py")):
        texts = [line for line in path.read_text().splitlines() if not line.lstrip().startswith(('"""', "#"))]
        assert path.name == "command_text.py" or not named.findall("\n".join(texts)), path
