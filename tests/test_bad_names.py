"""Names that are markup, code, control characters or very long: on the command line they are only text."""

from __future__ import annotations

import os
import subprocess
import sys

import onnx
import pytest

from tests.conftest import ROOT
from tests.making import model, node, saved, value
from tests.waiting import LIMIT_S
from workbench.errors import printable


def named(name):
    nodes = [node("Relu", "x", "m", name="n"), node("Sigmoid", "m", "y")]
    made = model(nodes, (value("x", ["N", 4]),), (value("y", ["N", 4]),))
    made.graph.node[0].name = name
    made.graph.input[0].name = made.graph.node[0].input[0] = name + "x"
    made.graph.node[0].output[0] = made.graph.node[1].input[0] = name + "m"
    made.graph.node[1].output[0] = made.graph.output[0].name = name + "y"
    return made


WEIRD = [
    "<img src=x onerror=alert(1)>",
    "a\nb",
    'a"b',
    "a\\b\\",
    "a'b; DROP",
    "caf\u00e9 \u2028 \U0001f600",
    "\x01\x07\x1b[31m\x7f",
    "{}()[]<>,=;%&|\t",
    " ",
    "n" * 100_000,
]


@pytest.mark.parametrize("name", WEIRD, ids=lambda name: ascii(name[:12]))
def test_names_are_only_text(run, tmp_path, name):
    path, out = saved(tmp_path, named(name)), tmp_path / "out.onnx"
    code, said, _ = run("inspect", path)
    assert code == 0 and printable(name + "x") in said
    assert all(line.isprintable() for line in said.splitlines())
    code, _, _ = run(
        "optimize", path, "-o", out, "--layout", "greedy", "--target", "cuda", "--report", tmp_path / "r.json"
    )
    assert code == 0
    written = onnx.load(out)
    onnx.checker.check_model(written)
    assert [v.name for v in (*written.graph.input, *written.graph.output)] == [name + "x", name + "y"]
    assert written.graph.node[0].name == name


def test_a_terminal_without_such_letters(tmp_path):
    path = saved(tmp_path, named("caf\u00e9"))
    ended = subprocess.run(
        [sys.executable, "-m", "workbench", "inspect", path],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=LIMIT_S,
    )
    assert ended.returncode == 0 and b"caf\\xe9x" in ended.stdout


@pytest.mark.parametrize("name", WEIRD, ids=lambda name: ascii(name[:12]))
def test_names_survive_the_text_form(tmp_path, name):
    from workbench.formats.io import load_model
    from workbench.ir import from_text, to_text

    graph = load_model(saved(tmp_path, named(name)))
    back = from_text(to_text(graph))
    assert (back.inputs, back.outputs) == (graph.inputs, graph.outputs)
    assert [(n.name, n.op_type, n.inputs, n.outputs) for n in back.nodes] == [
        (n.name, n.op_type, n.inputs, n.outputs) for n in graph.nodes
    ]
