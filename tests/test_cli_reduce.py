"""The command `reduce` with real processes: hostile commands, files, and folders."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.commands import OCR, heeds_ctrl_c
from tests.conftest import ROOT
from tests.waiting import LIMIT_S

TEXT = """<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, 3}> {
    a = Relu(x) b = Mul(a, w) c = Exp(b) y = Neg(c) }"""
HAS_MUL = """
import sys, onnx
sys.exit(any(node.op_type == "Mul" for node in onnx.load(sys.argv[1]).graph.node))
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "a model.onnx"
    path.write_bytes(parser.parse_model(TEXT).SerializeToString())
    return path


@pytest.fixture
def checks(tmp_path):
    """A command that runs this Python code on the candidate."""

    def checks(code, arguments="{}"):
        script = tmp_path / "a check.py"
        script.write_text(code)
        return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {arguments}"

    return checks


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.slow
def test_the_smallest_model_is_written_with_its_inputs(done, tmp_path, model, checks):
    out = tmp_path / "small one.onnx"
    said = done("reduce", model, "--check", checks(HAS_MUL), "-o", out).splitlines()
    assert operators(out) == ["Mul"]
    assert said[0].startswith("nodes: 4 before, 1 left; candidates checked: ")
    assert said[1] == f"wrote {out}, 0.00 MB, and its inputs, {tmp_path / 'small one.inputs.npz'}"
    again = said[2].removeprefix("reproduce it with: ")
    assert subprocess.run(shlex.split(again)).returncode == 1
    done("verify", out, out, "--inputs", tmp_path / "small one.inputs.npz")
    with np.load(tmp_path / "small one.inputs.npz") as inputs:
        assert inputs["a"].min() == 0 and inputs["a"].max() > 0  # behind Relu: real numbers
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["a check.py", "a model.onnx", "small one.inputs.npz", "small one.onnx"]
    )


def test_a_command_gets_the_recorded_inputs(done, tmp_path, model, checks):
    """The fault is one of numbers: it shows only if the operand of the product is never negative."""
    code = """
import sys, numpy, onnx
nodes = [node for node in onnx.load(sys.argv[1]).graph.node if node.op_type == "Mul"]
inputs = numpy.load(sys.argv[2])
operand = nodes[0].input[0] if nodes else ""
sys.exit(operand == "a" and ("a" not in inputs or inputs["a"].min() >= 0))
"""
    out = tmp_path / "small.onnx"
    done("reduce", model, "--check", checks(code, "{} {inputs}"), "-o", out)
    assert operators(out) == ["Mul"]


@pytest.mark.slow
def test_external_data_stays_readable(done, tmp_path, model, checks):
    whole = onnx.load(model)
    whole.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.arange(3000, dtype=np.float32).reshape(1000, 1, 3), "w")
    )
    del whole.graph.output[0].type.tensor_type.shape.dim[:]
    path = tmp_path / "outside.onnx"
    onnx.save(whole, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    out = tmp_path / "small.onnx"
    done("reduce", path, "--check", checks(HAS_MUL), "-o", out)
    assert onnx.numpy_helper.to_array(onnx.load(out).graph.initializer[0]).sum() == np.arange(3000).sum()


# ---- hostile commands ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import sys; sys.exit(0)", "exits with 0 on the model itself; it must exit with 1 while the fault shows"),
        (
            "import sys; print('no model'); sys.exit(3)",
            "exits with 3 on the model itself; it must exit with 1 while the fault shows (its last line: no model)",
        ),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "was ended by signal 11; let it exit with 1 if the fault shows",
        ),
        ("raise ValueError('always')", "a model of one Identity shows the fault too"),
    ],
)
def test_a_command_that_does_not_tell_the_fault(refused, tmp_path, model, checks, code, sentence):
    assert sentence in refused("reduce", model, "--check", checks(code), "-o", tmp_path / "small.onnx")
    assert not (tmp_path / "small.onnx").exists()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("true", "the command 'true' has no {}; write {} where the path of a model belongs"),
        ("", "has no {}"),
        ("check '{}", "cannot be split into words: No closing quotation; close its quotes"),
        ("/there/is/none {}", "the command '/there/is/none' cannot be run (No such file or directory)"),
        (f"{ROOT / 'README.md'} {{}}", "cannot be run (Permission denied); see that it exists, is executable"),
        ("'' {}", "cannot be run"),
    ],
)
def test_what_is_no_command(refused, tmp_path, model, command, sentence):
    assert sentence in refused("reduce", model, "--check", command, "-o", tmp_path / "small.onnx")


def test_a_command_that_never_ends_is_ended_with_its_children(refused, tmp_path, model, checks):
    code = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
child.wait()
"""
    command = checks(code)
    assert "did not end within 1 s, its time limit; allow more with --timeout" in refused(
        "reduce", model, "--check", command, "--timeout", "1", "-o", tmp_path / "small.onnx"
    )
    assert _ends(int((tmp_path / "child").read_text()))


def _ends(pid):
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_a_command_that_hangs_crashes_shouts_and_deletes(done, tmp_path, model, checks):
    """Each for some candidates only; the others decide."""
    code = """
import os, signal, sys, time, onnx
ops = [node.op_type for node in onnx.load(sys.argv[1]).graph.node]
print("x" * 3_000_000)
os.remove(sys.argv[1])
if ops == ["Identity"]:
    os.kill(os.getpid(), signal.SIGKILL)
if ops == ["Exp"]:
    time.sleep(1000)
sys.exit("Exp" in ops and "Mul" in ops)
"""
    out = tmp_path / "small.onnx"
    original = tmp_path / "copy.onnx"
    original.write_bytes(model.read_bytes())
    code = code.replace("os.remove(sys.argv[1])", f"sys.argv[1] == {str(original)!r} or os.remove(sys.argv[1])")
    done("reduce", original, "--check", checks(code), "--timeout", "3", "-o", out)
    assert operators(out) == ["Mul", "Exp"]


@pytest.mark.slow
def test_ctrl_c_writes_the_smallest_so_far(tmp_path, checks):
    code = """
import sys, time, onnx
ops = [node.op_type for node in onnx.load(sys.argv[1]).graph.node]
open(sys.argv[2], "a").write(f"{len(ops)}\\n")
time.sleep(1000 if 2 < len(ops) < 100 else 0)
sys.exit("GlobalAveragePool" in ops)
"""
    out, log = tmp_path / "small.onnx", tmp_path / "log"
    arguments = ["reduce", str(OCR), "--check", checks(code, "{} " + shlex.quote(str(log))), "-o", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeds_ctrl_c,
    )
    for _ in range(600):
        if log.exists() and any(2 < int(line) < 100 for line in log.read_text().split()):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, errors
    assert errors == f"workbench: stopped; '{out}' is the smallest so far\n"
    assert said.startswith("nodes: 566 before, ") and 100 <= len(operators(out)) < 566
    assert (tmp_path / "small.inputs.npz").exists()


# ---- files -----------------------------------------------------------------------------------


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "text", ["(float[2] x) => (float[2] x) { }", "(float[2] x) => (float[2] w) <float[2] w = {1, 2}> { }"]
)
def test_a_model_without_nodes(done, tmp_path, checks, text):
    """There is nothing to take away."""
    path, out = tmp_path / "empty.onnx", tmp_path / "small.onnx"
    path.write_bytes(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}').SerializeToString())
    empty = "import sys, onnx; sys.exit(not onnx.load(sys.argv[1]).graph.node)"
    assert "nodes: 0 before, 0 left" in done("reduce", path, "--check", checks(empty), "-o", out)
    assert operators(out) == []


def test_the_model_is_not_overwritten(refused, tmp_path, model, checks):
    before = model.read_bytes()
    assert "read or written already" in refused("reduce", model, "--check", checks(HAS_MUL), "-o", model)
    assert model.read_bytes() == before
    inputs = tmp_path / "small.inputs.npz"
    np.savez(inputs, x=np.ones((2, 3), np.float32))
    assert "read or written already" in refused(
        "reduce", model, "--check", checks(HAS_MUL), "--inputs", inputs, "-o", tmp_path / "small.onnx"
    )


def test_a_folder_that_cannot_be_written_is_told_first(refused, tmp_path, model):
    assert "its folder does not exist" in refused(
        "reduce", model, "--check", "x {}", "-o", tmp_path / "none" / "s.onnx"
    )
    assert "it is a pipe or a device" in refused("reduce", model, "--check", "x {}", "-o", os.devnull)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write everywhere")
    assert "cannot be written" in refused("reduce", model, "--check", "x {}", "-o", closed / "s.onnx")


@pytest.mark.slow
def test_a_model_that_does_not_run_is_reduced_by_its_types(run, refused, tmp_path, checks):
    path = tmp_path / "unknown.onnx"
    path.write_bytes(
        parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17, "other": 1]> g (float[2] x) => (float[2] y) { a = Relu(x) b = Mul(a, a) c = other.Op(b) y = Neg(b) }'
        ).SerializeToString()
    )
    code, _, said = run("reduce", path, "--check", checks(HAS_MUL), "-o", tmp_path / "small.onnx")
    assert code == 0 and said.startswith("note: no values were recorded")
    assert operators(tmp_path / "small.onnx") == ["Mul"] and not (tmp_path / "small.inputs.npz").exists()
    assert "there are none, since the model does not run" in refused(
        "reduce", path, "--check", checks(HAS_MUL, "{} {inputs}"), "-o", tmp_path / "small.onnx"
    )


@pytest.mark.slow
def test_what_was_found_outlives_the_command(run, tmp_path, model, checks, monkeypatch):
    """The script's interpreter goes while it is used: what is smallest so far is written, and the reason told."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    code = f"""
import os, sys, onnx
ops = [node.op_type for node in onnx.load(sys.argv[1]).graph.node]
if len(ops) == 2:
    os.remove({str(link)!r})
sys.exit("Mul" in ops)
"""
    command = checks(code).replace(shlex.quote(sys.executable), shlex.quote(str(link)), 1)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # the interpreter behind a link knows no environment
    out = tmp_path / "small.onnx"
    code, said, errors = run("reduce", model, "--check", command, "-o", out)
    assert code == 2 and "cannot be run (No such file or directory)" in errors
    assert "Mul" in operators(out) and len(operators(out)) == 2 and said.startswith("nodes: 4 before, 2 left")
