"""The command line: every command, every option, the report and the exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from itertools import pairwise

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import passes as library
from tests.conftest import ROOT
from workbench.__main__ import main

SAMPLES = ROOT / "sample_models"
NPU, RESHAPE, NHWC = (SAMPLES / f"{name}.onnx" for name in ("npu_path", "npu_reshape_add", "tvm_two_convs_nhwc"))
RESNET, OCR, SPEECH = (SAMPLES / f"{name}.onnx" for name in ("resnet50_narrow", "ppocr_cls_v2", "silero_vad"))

SYMBOLIC = """<ir_version: 10, opset_import: ["": 23]>
symbolic (float[N,3,H,W] x) => (float[N,2,H,W] y) <float[2,3,1,1] w = {1,2,3,4,5,6}>
{ [c] c = Conv (x, w)  [r] y = Relu (c) }
"""


@pytest.fixture
def run(capsys):
    """Run a command in this process: its exit code, stdout and stderr."""

    def run(*arguments):
        code = main([str(a) for a in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def done(run):
    """The stdout of a command that must succeed."""

    def done(*arguments):
        code, out, err = run(*arguments)
        assert code == 0, out + err
        return out

    return done


@pytest.fixture
def symbolic(tmp_path):
    path = tmp_path / "symbolic.onnx"
    path.write_bytes(onnx.parser.parse_model(SYMBOLIC).SerializeToString())
    return path


def shapes(path):
    graph = onnx.load(path).graph
    return [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.input, *graph.output)]


def operators(path):
    found = {}
    for node in onnx.load(path).graph.node:
        found[node.op_type] = found.get(node.op_type, 0) + 1
    return found


def in_a_process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "workbench", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=120,
    )


# ---- as a process -----------------------------------------------------------------------


def test_the_process_ends_with_the_code_and_says_one_line():
    ended = in_a_process("passes")
    assert ended.returncode == 0 and "fold_batchnorm" in ended.stdout and ended.stderr == ""
    ended = in_a_process("inspect", "there_is_no_such.onnx")
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr == "workbench: there_is_no_such.onnx: there is no such file\n"
    ended = in_a_process("bench", NPU, "--device", "tpu")
    assert ended.returncode == 2 and ended.stderr.startswith("workbench: ") and ended.stderr.count("\n") == 1


def test_a_listing_imports_nothing_heavy():
    code = (
        "import sys; from workbench.__main__ import main; main(['passes']); "
        "print(sorted({'torch', 'onnxruntime', 'streamlit', 'pandas', 'plotly'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert ended.stdout.splitlines()[-1] == "[]", ended.stderr


def test_help_is_no_error(capsys):
    for command in ("passes", "explain", "inspect", "optimize", "verify", "bench"):
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0 and command in capsys.readouterr().out


# ---- passes, explain, inspect ---------------------------------------------------------------


def test_passes(done):
    out = done("passes")
    for name, cls in library.all_passes().items():
        assert any(line.split(maxsplit=1) == [name, cls.title] for line in out.splitlines())
    assert "preset default" in out and "fold_constants.max_bytes = " in out


def test_passes_as_json(done):
    found = json.loads(done("passes", "--json"))
    assert [row["name"] for row in found["passes"]] == list(library.all_passes())
    assert found["broken"] == {}
    assert found["presets"]["default"]["passes"][0] == "fold_constants"
    row = next(row for row in found["passes"] if row["name"] == "fold_constants")
    assert [option["name"] for option in row["options"]] == ["max_bytes"]
    assert {row["strategy"] for row in found["passes"]} == {None, "greedy", "record-then-insert"}


@pytest.mark.parametrize("name", library.all_passes())
def test_explain(done, name):
    out, cls = done("explain", name), library.all_passes()[name]
    assert out.startswith(f"{name}: {cls.title}\n")
    assert out.count("  before:\n") == out.count("  after:\n") == len(cls.examples())
    for rule in cls.rules:
        assert f"Rule: {rule.name}" in out
    for example in cls.examples():
        assert all(f"  - {sentence}" in out for sentence in example.sentences)


def test_inspect(done):
    out = done("inspect", RESNET)
    assert out.startswith("resnet50: 176 nodes, opset 23, ")
    assert "input gpu_0/data_0: float[1,3,224,224] NCHW" in out
    assert "operators: BatchNormalization 53, Conv 53, Relu 49, Sum 16, " in out


def test_inspect_as_json(done):
    found = json.loads(done("inspect", NHWC, "--json"))
    assert (found["nodes"], found["transposes"]) == (8, 4)
    assert found["elements_moved"] == 56 * 56 * (64 + 32 + 32 + 32)
    assert found["parameters"] == 32 * 64 * 9 + 32 * 32 * 9
    multiplied = 2 * 56 * 56 * 9 * (64 * 32 + 32 * 32)
    assert multiplied <= found["flops"] <= multiplied * 1.01


def test_inspect_with_dims(done, symbolic):
    assert "float[N,3,H,W] NCHW, run with float[1,3,224,224]" in done("inspect", symbolic)
    out = done("inspect", symbolic, "--dims", "N=2, H=8,W=9")
    assert "run with float[2,3,8,9]" in out and "run with float[2,2,8,9]" in out
    assert json.loads(done("inspect", symbolic, "--json", "--dims", "H=8"))["dims"] == {"N": 1, "H": 8, "W": 224}


# ---- optimize ---------------------------------------------------------------------------------

STEP = {
    "pass",
    "rewrites",
    "nodes_before",
    "nodes_after",
    "transposes_before",
    "transposes_after",
    "elements_moved_before",
    "elements_moved_after",
    "seconds",
    "verified",
    "max_abs_error",
    "max_rel_error",
}


def report_of(done, tmp_path, model, *arguments):
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    done("optimize", model, "-o", out, "--report", report, *arguments)
    onnx.checker.check_model(str(out), full_check=True)
    return json.loads(report.read_text())


def test_the_report(done, tmp_path):
    report = report_of(done, tmp_path, RESNET, "--layout", "greedy")
    steps, totals = report["steps"], report["totals"]
    expected = ["fold_constants", "fold_batchnorm", "cancel_transposes", "layout_greedy", "dead_nodes"]
    assert [step["pass"] for step in steps] == expected
    assert all(step.keys() >= STEP for step in steps)
    assert totals.keys() == STEP - {"pass"}
    for before, after in pairwise(steps):
        for count in ("nodes", "transposes", "elements_moved"):
            assert before[f"{count}_after"] == after[f"{count}_before"]
    for count in ("nodes", "transposes", "elements_moved"):
        assert totals[f"{count}_before"] == steps[0][f"{count}_before"]
        assert totals[f"{count}_after"] == steps[-1][f"{count}_after"]
    assert totals["rewrites"] == sum(step["rewrites"] for step in steps)
    assert totals["seconds"] == pytest.approx(sum(step["seconds"] for step in steps), abs=1e-3)
    assert all(step["verified"] is True for step in steps) and totals["verified"] is True
    assert totals["max_rel_error"] == max(step["max_rel_error"] for step in steps) < 1e-4
    fold = steps[1]
    assert (fold["rewrites"], fold["nodes_before"], fold["nodes_after"]) == (53, 176, 123)
    found = operators(tmp_path / "out.onnx")
    assert totals["nodes_after"] == sum(found.values()) - found.get("Constant", 0)
    assert totals["transposes_after"] == found.get("Transpose", 0) == 2


def test_constants_are_no_nodes_and_their_transposes_do_not_count(done, tmp_path):
    text = """<ir_version: 10, opset_import: ["": 23]>
    g (float[2,3] x) => (float[3,2] y) <float[2,3] w = {1,2,3,4,5,6}>
    { wt = Transpose <perm = [1,0]> (w)  xt = Transpose <perm = [1,0]> (x)  k = Constant <value_float = 2.0> ()
      s = Add (xt, wt)  y = Mul (s, k) }"""
    path = tmp_path / "g.onnxtxt"
    path.write_text(text)
    totals = report_of(done, tmp_path, path, "--passes", "dead_nodes")["totals"]
    assert (totals["nodes_before"], totals["transposes_before"], totals["elements_moved_before"]) == (4, 1, 6)


def test_passes_run_in_the_order_given(done, tmp_path):
    report = report_of(done, tmp_path, NHWC, "--passes", "dead_nodes,cancel_transposes , dead_nodes")
    assert [step["pass"] for step in report["steps"]] == ["dead_nodes", "cancel_transposes", "dead_nodes"]


def test_presets(done, tmp_path):
    assert [s["pass"] for s in report_of(done, tmp_path, NPU)["steps"]] == [
        name for name in library.presets()["default"]["passes"] if name != "layout"
    ]
    assert report_of(done, tmp_path, NPU, "--preset", "none")["steps"] == []
    report = report_of(done, tmp_path, NPU, "--preset", "none", "--layout", "record-then-insert")
    assert [step["pass"] for step in report["steps"]] == ["layout_record_then_insert"]


def test_targets_and_layouts(done, tmp_path):
    for target, shape in (("cuda", None), ("npu", (3, 3, 16, 8))):
        report = report_of(done, tmp_path, NPU, "--target", target, "--layout", "record-then-insert")
        assert report["target"] == target and report["totals"]["transposes_after"] == 2
        graph = onnx.load(tmp_path / "out.onnx").graph
        assert [n.op_type for n in graph.node] == [
            "Transpose",
            "Conv_NHWC" if target == "cuda" else graph.node[1].op_type,
            "Transpose",
        ]
        if shape is not None:
            assert tuple(graph.initializer[0].dims) == shape  # HWOI


def test_an_option_of_a_pass(done, tmp_path):
    text = """<ir_version: 10, opset_import: ["": 23]>
    g (float[4] x) => (float[4] y) <float[4] a = {1,2,3,4}, float[4] b = {1,1,1,1}>
    { c = Add (a, b)  y = Mul (x, c) }"""
    path = tmp_path / "g.onnxtxt"
    path.write_text(text)
    assert report_of(done, tmp_path, path)["steps"][0]["rewrites"] == 1
    step = report_of(done, tmp_path, path, "--option", "fold_constants.max_bytes=8")["steps"][0]
    assert step["rewrites"] == 0 and step["options"] == {"max_bytes": 8}


def test_dims_stay_symbolic_unless_fixed(done, tmp_path, symbolic):
    out = tmp_path / "out.onnx"
    done("optimize", symbolic, "-o", out, "--dims", "N=2,H=8,W=9")
    assert shapes(out) == [["N", 3, "H", "W"], ["N", 2, "H", "W"]]
    done("optimize", symbolic, "-o", out, "--dims", "N=2,H=8,W=9", "--fix-dims")
    assert shapes(out) == [[2, 3, 8, 9], [2, 2, 8, 9]]
    done("verify", symbolic, out, "--dims", "N=2,H=8,W=9")
    done("bench", symbolic, out, "--dims", "N=2,H=8,W=9", "--repeat", "2")


def test_a_pass_is_right_for_other_dims_than_those_it_saw(done, tmp_path, symbolic):
    out = tmp_path / "out.onnx"
    done("optimize", symbolic, "-o", out, "--dims", "N=2,H=8,W=9", "--layout", "greedy")
    done("verify", symbolic, out, "--dims", "N=3,H=5,W=4")


def test_own_inputs(done, tmp_path, symbolic):
    own = tmp_path / "own.npz"
    np.savez(own, x=np.zeros((2, 3, 4, 5), np.float32))
    report = report_of(done, tmp_path, symbolic, "--inputs", own)
    assert report["totals"]["verified"] is True
    assert "every one of its 80 values is 0.0" in report["steps"][-1]["verdict"]  # it was our zeros that ran


def test_the_seed_decides_the_inputs(done, tmp_path):
    errors = [report_of(done, tmp_path, RESNET, "--seed", seed)["totals"]["max_abs_error"] for seed in (0, 0, 7)]
    assert errors[0] == errors[1] != errors[2]


def test_no_verify(done, tmp_path):
    report = report_of(done, tmp_path, RESNET, "--no-verify")
    assert all(
        part["verified"] is None and part["max_abs_error"] is None for part in (*report["steps"], report["totals"])
    )


def test_without_passes_what_is_written_is_verified_too(done, tmp_path):
    report = report_of(done, tmp_path, OCR, "--passes", "")
    assert report["steps"] == [] and report["totals"]["verified"] is True


def test_lengths_that_a_model_needs_are_found_but_not_against_the_user(run, tmp_path):
    out = tmp_path / "out.onnx"
    code, _, err = run("optimize", SPEECH, "-o", out, "--passes", "dead_nodes")
    assert code == 0 and "input_1=512, found by trying" in err
    code, said, err = run("optimize", SPEECH, "-o", out, "--passes", "dead_nodes", "--dims", "input_1=32")
    assert code == 3 and "found by trying" not in err and "the original does not run" in said
    assert run("verify", SPEECH, SPEECH)[0] == 0
    assert run("verify", SPEECH, SPEECH, "--dims", "input_1=32")[0] == 3
    code, _, err = run("bench", SPEECH, "--repeat", "1", "--dims", "input_1=32")
    assert code == 2 and err.startswith("workbench: ") and err.count("\n") == 1


# ---- torch programs ------------------------------------------------------------------------------

FACTORY = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    return model, (torch.randn(1, 3, 8, 8),)

def broken():
    raise RuntimeError("the disk is full")
"""


@pytest.fixture
def factory(tmp_path, monkeypatch):
    package = tmp_path / "my_models"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "small.py").write_text(textwrap.dedent(FACTORY))
    monkeypatch.syspath_prepend(tmp_path)
    return "my_models.small"


def test_a_torch_factory(run, done, tmp_path, factory):
    out = tmp_path / "out.onnx"
    done("optimize", "--torch", f"{factory}:make", "-o", out)
    assert operators(out) == {"Conv": 1, "Relu": 1}
    given = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(out))
    module, _ = sys.modules[factory].make()
    expected = module.eval()(torch.from_numpy(given)).detach().numpy()
    found = session.run(None, {session.get_inputs()[0].name: given})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert "Conv 1" in done("inspect", "--torch", f"{factory}:make")
    for name, sentence in (("broken", "the disk is full"), ("nothing", "has no 'nothing'")):
        code, _, err = run("inspect", "--torch", f"{factory}:{name}")
        assert code == 2 and sentence in err and err.count("\n") == 1


def test_a_torch_program_file(done, run, tmp_path, factory):
    program, out = tmp_path / "program.pt2", tmp_path / "out.onnx"
    sys.path_importer_cache.clear()
    module, given = __import__(factory, fromlist=["make"]).make()
    torch.export.save(torch.export.export(module.eval(), given), program)
    done("optimize", program, "-o", out)
    assert operators(out) == {"Conv": 1, "Relu": 1}
    done("verify", program, out)
    code, _, err = run("optimize", program, "-o", program)
    assert code == 2 and "read or written already" in err and program.read_bytes()[:2] == b"PK"


# ---- verify ------------------------------------------------------------------------------------------


def variant(tmp_path, text, name):
    path = tmp_path / name
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


def test_verify(run, tmp_path, symbolic):
    same = variant(tmp_path, SYMBOLIC.replace("[c]", "[other]"), "same.onnx")
    wrong = variant(tmp_path, SYMBOLIC.replace("{1,2,3", "{1,2,4"), "wrong.onnx")
    renamed = variant(tmp_path, SYMBOLIC.replace(" x)", " z)").replace("(x,", "(z,"), "renamed.onnx")
    code, out, _ = run("verify", symbolic, same, "--dims", "H=4,W=4")
    assert code == 0 and out.startswith("equal: ")
    code, out, _ = run("verify", symbolic, wrong, "--dims", "H=4,W=4")
    assert code == 1 and out.startswith("NOT EQUAL: Output 'y' differs")
    code, out, err = run("verify", symbolic, renamed)
    assert code == 2 and out == "" and "Only the first model has an input 'x'" in err


def test_verify_as_json(run, tmp_path, symbolic):
    wrong = variant(tmp_path, SYMBOLIC.replace("{1,2,3", "{1,2,4"), "wrong.onnx")
    found = json.loads(run("verify", symbolic, symbolic, "--json", "--dims", "H=4,W=4")[1])
    assert found["ok"] is True and found["bit_equal"] is True and found["max_abs_error"] == 0.0
    own = tmp_path / "own.npz"
    np.savez(own, x=np.full((1, 3, 2, 2), 3, np.float32))
    code, out, _ = run("verify", symbolic, wrong, "--json", "--inputs", own)
    found = json.loads(out)
    assert code == 1 and found["ok"] is False
    assert found["max_abs_error"] == pytest.approx(3) and found["max_rel_error"] == pytest.approx(3 / 45)


# ---- a wrong pass -----------------------------------------------------------------------------------------

WRONG = '''
"""A pass with a fault, for a test."""
from dataclasses import dataclass

from workbench.ir import Edit
from workbench.rewrite import Found, Pass

@dataclass(frozen=True)
class Wrong(Pass):
    """Renames nothing but the third Relu, which it turns into a Sigmoid."""
    title = "Wrong"

    def rewrites(self, graph, target):
        relus = [node for node in graph.nodes if node.op_type == "Relu"]
        for number, node in enumerate(relus[:5]):
            other = node.replace(op_type="Sigmoid") if number == 2 else node.replace(metadata={"seen": "yes"})
            yield Found(sentence=f"relu number {number + 1}", edit=Edit(remove=(node.name,), insert=(other,)), nodes=(node.name,))
'''


def test_a_wrong_pass_is_found_out_and_its_rewrite_named(run, tmp_path, monkeypatch):
    (tmp_path / "wrong.py").write_text(WRONG)
    monkeypatch.setattr(library, "__path__", [*library.__path__, str(tmp_path)])
    library._discovered.cache_clear()
    try:
        out, report = tmp_path / "out.onnx", tmp_path / "report.json"
        code, said, _ = run("optimize", RESNET, "-o", out, "--passes", "wrong,dead_nodes", "--report", report)
    finally:
        library._discovered.cache_clear()
        sys.modules.pop("passes.wrong", None)
    assert code == 1
    assert not out.exists()
    assert "wrong: NOT EQUAL: Output 'gpu_0/softmax_1' differs" in said
    assert "wrong: rewrite 3 of 5 broke it: relu number 3" in said
    found = json.loads(report.read_text())
    assert found["steps"][0]["verified"] is False and found["steps"][0]["broken_by"] == "relu number 3"
    assert found["totals"]["verified"] is False and found["totals"]["max_rel_error"] > 1e-4


# ---- bench ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["torch", "onnxruntime"])
def test_bench(done, tmp_path, backend):
    record = tmp_path / "bench.json"
    out = done("bench", NPU, "--backend", backend, "--repeat", "4", "--json", record)
    found = json.loads(record.read_text())
    assert str(NPU) in out and f"; {backend}, float32" in out
    assert (found["backend"], found["dtype"], found["repeat"]) == (backend, "float32", 4)
    measured = found["variants"][str(NPU)]
    assert len(measured["times_ms"]) == 4
    assert 0 < measured["min_ms"] <= measured["median_ms"] <= measured["p90_ms"] <= measured["p99_ms"]
    assert measured["memory"]["peak_bytes"] > 0 and measured["error"]["ok"] is True
    assert found["machine"]["versions"]["torch"].startswith("2.")


def test_bench_of_two(done, tmp_path):
    other, record = tmp_path / "other.onnx", tmp_path / "bench.json"
    done("optimize", NPU, "-o", other, "--layout", "greedy", "--no-verify")
    done("bench", NPU, other, "--repeat", "3", "--json", record)
    first, second = json.loads(record.read_text())["variants"].values()
    assert first["ratio"] == 1.0 and second["ratio"] > 0
    assert second["ratio_low"] <= second["ratio"] <= second["ratio_high"]
    assert second["error"]["ok"] is True


def test_bench_in_bfloat16(done, tmp_path):
    record = tmp_path / "bench.json"
    done("bench", NPU, "--dtype", "bfloat16", "--repeat", "2", "--json", record)
    found = json.loads(record.read_text())
    assert found["dtype"] == "bfloat16"
    error = found["variants"][str(NPU)]["error"]
    assert error["ok"] is True and error["max_rel_error"] > 1e-5  # it was not float32 that ran


def test_bench_with_dims_and_own_inputs(done, tmp_path, symbolic):
    record, own = tmp_path / "bench.json", tmp_path / "own.npz"
    done("bench", symbolic, "--dims", "N=2,H=8,W=9", "--repeat", "1", "--json", record)
    assert json.loads(record.read_text())["dims"] == {"N": 2, "H": 8, "W": 9}
    np.savez(own, x=np.ones((3, 3, 4, 5), np.float32))
    done("bench", symbolic, "--inputs", own, "--repeat", "1", "--json", record)
    assert json.loads(record.read_text())["dims"] == {"N": 3, "H": 4, "W": 5}


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("backend", ["torch", "onnxruntime"])
def test_bench_on_a_gpu_that_is_not_there(run, backend):
    code, out, err = run("bench", NPU, "--device", "cuda", "--backend", backend)
    assert code == 2 and out == ""
    assert err.startswith("workbench: ") and err.count("\n") == 1 and "cuda" in err.lower()
