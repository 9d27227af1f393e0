"""The command line where a model runs: dims and inputs of one's own, `verify`, `bench`."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch

from tests.commands import NPU, SPEECH, report_of

SYMBOLIC = """<ir_version: 10, opset_import: ["": 23]>
symbolic (float[N,3,H,W] x) => (float[N,2,H,W] y) <float[2,3,1,1] w = {1,2,3,4,5,6}>
{ [c] c = Conv (x, w)  [r] y = Relu (c) }
"""

BROKEN = """<ir_version: 10, opset_import: ["": 23]>
broken (float[N,3,H,W] x) => (float[N,2,H,W] y) <int64[1] s = {5}> { y = Reshape (x, s) }
"""


@pytest.fixture
def symbolic(tmp_path):
    path = tmp_path / "symbolic.onnx"
    path.write_bytes(onnx.parser.parse_model(SYMBOLIC).SerializeToString())
    return path


# ---- dims and own inputs ---------------------------------------------------------------


def test_inspect_with_dims(done, symbolic):
    assert "float[N,3,H,W] NCHW, run with float[1,3,224,224]" in done("inspect", symbolic)
    out = done("inspect", symbolic, "--dims", "N=2, H=8,W=9")
    assert "run with float[2,3,8,9]" in out and "run with float[2,2,8,9]" in out
    assert json.loads(done("inspect", symbolic, "--json", "--dims", "H=8"))["dims"] == {"N": 1, "H": 8, "W": 224}


def shapes(path):
    graph = onnx.load(path).graph
    return [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.input, *graph.output)]


@pytest.mark.slow
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
    done("optimize", symbolic, "-o", out, "--dims", "N=2,H=8,W=9", "--layout", "greedy", "--target", "cuda")
    done("verify", symbolic, out, "--dims", "N=3,H=5,W=4")


def test_own_inputs(done, tmp_path, symbolic):
    own = tmp_path / "own.npz"
    np.savez(own, x=np.zeros((2, 3, 4, 5), np.float32))
    report = report_of(done, tmp_path, symbolic, "--inputs", own)
    assert report["totals"]["verified"] is True
    assert "every one of its 80 values is 0.0" in report["steps"][-1]["verdict"]  # it was our zeros that ran


@pytest.mark.slow
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


# ---- verify ----------------------------------------------------------------------------


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


def test_verify_in_the_modes_in_which_the_rewrites_were_made(run, tmp_path):
    """x / x is NaN at 0, which mode fast makes 1; x * 4 / 3 rounds otherwise than x * (4 / 3), which ieee allows."""
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y)'
    quotient = variant(tmp_path, f"{head} {{ y = Div(x, x) }}", "quotient.onnx")
    one = variant(tmp_path, f"{head} <float one = {{1.0}}> {{ z = Sub(x, x)  y = Add(one, z) }}", "one.onnx")
    zeros = tmp_path / "zeros.npz"
    np.savez(zeros, x=np.array([[0, 1, 2], [3, 4, 5]], np.float32))
    assert run("verify", quotient, one, "--inputs", zeros)[0] == 1
    code, out, _ = run("verify", quotient, one, "--inputs", zeros, "--mode", "fast")
    assert code == 0 and "1 element did not count, being infinite or NaN in the original" in out
    twice = variant(
        tmp_path,
        f"{head} <float four = {{4.0}}, float three = {{3.0}}> {{ a = Mul(x, four)  y = Div(a, three) }}",
        "twice.onnx",
    )
    once = variant(tmp_path, f"{head} <float both = {{1.3333334}}> {{ y = Mul(x, both) }}", "once.onnx")
    assert run("verify", twice, once)[0] == 0
    code, out, _ = run("verify", twice, once, "--mode", "exact")
    assert code == 1 and "in exact mode" in out


# ---- bench -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("torch", marks=pytest.mark.slow), "onnxruntime"])
def test_bench(done, tmp_path, backend):
    record = tmp_path / "bench.json"
    out = done("bench", NPU, "--backend", backend, "--repeat", "4", "--json", record)
    found = json.loads(record.read_text())
    assert str(NPU) in out and f"; {backend}, float32" in out
    measured = found["variants"][str(NPU)]
    assert (measured["backend"], measured["dtype"], found["repeat"]) == (backend, "float32", 4)
    assert len(measured["times_ms"]) == 4
    assert 0 < measured["min_ms"] <= measured["median_ms"] <= measured["p90_ms"] <= measured["p99_ms"]
    assert measured["memory"]["peak_bytes"] > 0 and measured["error"]["ok"] is True
    assert found["machine"]["versions"]["torch"].startswith("2.")


def test_bench_of_two(done, tmp_path):
    other, record = tmp_path / "other.onnx", tmp_path / "bench.json"
    done("optimize", NPU, "-o", other, "--layout", "greedy", "--target", "cuda", "--no-verify")
    done("bench", NPU, other, "--repeat", "3", "--json", record)
    first, second = json.loads(record.read_text())["variants"].values()
    assert first["ratio"] == 1.0 and second["ratio"] > 0
    assert second["ratio_low"] <= second["ratio"] <= second["ratio_high"]
    assert second["error"]["ok"] is True


def test_bench_in_bfloat16(done, tmp_path):
    record = tmp_path / "bench.json"
    done("bench", NPU, "--dtype", "bfloat16", "--repeat", "2", "--json", record)
    found = json.loads(record.read_text())
    measured = found["variants"][str(NPU)]
    assert measured["dtype"] == "bfloat16"
    error = measured["error"]
    assert error["ok"] is True and error["max_rel_error"] > 1e-5  # it was not float32 that ran


def test_bench_with_dims_and_own_inputs(done, tmp_path, symbolic):
    record, own = tmp_path / "bench.json", tmp_path / "own.npz"
    done("bench", symbolic, "--dims", "N=2,H=8,W=9", "--repeat", "1", "--json", record)
    assert json.loads(record.read_text())["dims"] == {"N": 2, "H": 8, "W": 9}
    np.savez(own, x=np.ones((3, 3, 4, 5), np.float32))
    done("bench", symbolic, "--inputs", own, "--repeat", "1", "--json", record)
    assert json.loads(record.read_text())["dims"] == {"N": 3, "H": 4, "W": 5}


@pytest.mark.slow
def test_bench_ends_alike_with_matrix_where_something_is_left_out_or_fails(run, tmp_path, symbolic):
    """What cannot be asked for is a note and no failure; what fails is one."""
    for command in ("bench", "matrix"):
        code, out, err = run(command, NPU, "--backend", "torch,onnxruntime", "--dtype", "float32,bfloat16",
                             "--repeat", "1")  # fmt: skip
        assert code == 0, out + err
        assert err.count("left out") == 1
        assert "process" in out and "values" in out
    broken = variant(tmp_path, BROKEN, "broken.onnx")
    code, out, _ = run("bench", symbolic, broken, "--dims", "N=1,H=4,W=4", "--repeat", "1")
    assert code == 1
    assert "failed" in out


def test_a_model_is_measured_against_itself(done, run, tmp_path):
    done("bench", NPU, NPU, NPU, "--repeat", "2", "--json", tmp_path / "r.json")
    variants = json.loads((tmp_path / "r.json").read_text())["variants"]
    assert list(variants) == [str(NPU), f"{NPU} (2)", f"{NPU} (3)"]
    assert all(len(variant["times_ms"]) == 2 for variant in variants.values())


def test_bench_says_each_thing_once(run, symbolic):
    code, out, err = run("bench", symbolic, "--dims", "H=4,W=4", "--backend", "cuda-graphs", "--dtype",
                         "float32,bfloat16", "--repeat", "1")  # fmt: skip
    assert code == 0, err
    assert out.count("need a CUDA device") == 1
    assert "('float32', 'bfloat16')" in out


def test_a_size_that_is_fixed_to_nothing_is_one(done, tmp_path):
    """ONNX Runtime takes an empty array there and no other."""
    text = '<ir_version: 10, opset_import: ["": 23]> z (float[0,3] x) => (float[0,3] y) { y = Relu(x) }'
    model = variant(tmp_path, text, "zero.onnx")
    done("bench", model, "--repeat", "2")
    assert "the end: Equal to the last bit" in done("optimize", model, "-o", tmp_path / "out.onnx")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("backend", ["torch", "onnxruntime"])
@pytest.mark.parametrize("command", ["bench", pytest.param("matrix", marks=pytest.mark.slow)])
def test_a_gpu_that_is_not_there(run, command, backend):
    code, out, err = run(command, NPU, "--device", "cuda", "--backend", backend)
    assert code == 2 and out == ""
    assert err.startswith("workbench: ") and err.count("\n") == 1 and "cuda" in err.lower()
