"""`bench` keeps what it measures, `runs` prints it."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.commands import NHWC, NPU
from workbench.formats.io.exporting import export_onnx
from workbench.ir import from_text


@pytest.fixture(autouse=True)
def user_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))


@pytest.mark.slow
def test_what_bench_measures_is_kept(done, refused, tmp_path):
    assert "no run is kept" in done("runs")
    done("bench", NPU, "--repeat", 1, "--backend", "torch,onnxruntime", "--json", tmp_path / "b.json")
    done("bench", NHWC, "--repeat", 1)
    assert done("runs").count(".onnx") == 3
    first, second = json.loads(done("runs", "--model", NPU, "--json"))["runs"]
    assert {run["backend"] for run in (first, second)} == {"torch", "onnxruntime"}
    written = json.loads((tmp_path / "b.json").read_text())
    medians = {found["median_ms"] for found in written["variants"].values()}
    assert {run["median_ms"] for run in (first, second)} == medians
    rows = list(csv.DictReader(io.StringIO(done("runs", "--csv"))))
    assert len(rows) == 3
    assert "neither a file nor" in refused("runs", "--model", "nothing.onnx")


@pytest.mark.slow
def test_a_database_that_is_not_there_costs_no_measurement(run, monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_RUNS_URL", f"sqlite:///{tmp_path}/none/runs.sqlite")
    code, out, err = run("bench", NPU, "--repeat", 1)
    assert code == 0
    assert "median ms" in out
    assert "this measurement is not kept" in err


@pytest.mark.slow
def test_the_sizes_stand_beside_each_run(done, tmp_path):
    text = "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"
    export_onnx(from_text(text), tmp_path / "m.onnx")
    done("bench", tmp_path / "m.onnx", "--dims", "N=3", "--repeat", 1)
    header, row = done("runs").splitlines()[:2]
    assert "dims" in header and "N=3" in row


def test_reading_makes_no_file(refused, tmp_path):
    url = f"sqlite:///{tmp_path}/none.sqlite"
    assert "there is no file" in refused("runs", "--url", url)
    assert not (tmp_path / "none.sqlite").exists()
