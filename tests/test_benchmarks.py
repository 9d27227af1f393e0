"""The benchmark that needs a GPU to say much runs on the CPU at a small size; mixed precision is what autocast does."""

import datetime
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch

import passes
import workbench as wb
from benchmarks import lanes
from benchmarks.gpu_beside_torch import _LEFT, MoreToDo, Settings, networks
from benchmarks.gpu_networks import NETWORKS, exported, network
from benchmarks.gpu_parts import memory, oneflow
from benchmarks.gpu_section import gpu_measurement
from benchmarks.on_gpu import run_part
from sample_models.resnet import RESNET_101, resnet
from tests.conftest import ROOT
from tests.running import outputs, random_inputs, typed
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.run.records.published import PUBLISHED_FOLDER, read_published
from workbench.run.records.store import find_runs


def printed(script, *words):
    """The lines that a benchmark prints."""
    command = [sys.executable, f"benchmarks/{script}", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def table_of(script, *words):
    """The cells of its table, without the head."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed(script, *words)[2:]]


@pytest.mark.slow
def test_resnet101_small():
    words = ("--batches", "1", "--side", "32", "--stages", "1,1,1,1", "--repeat", "1")
    lines = printed("resnet101.py", *words)
    rows = [line.split(" | ") for line in lines if line.startswith("| 1 ")]
    assert [row[1] for row in rows] == ["NCHW", *passes.compared_strategies(), "optimal, time weighed"]
    assert all(float(row[3]) > 0 and float(row[8]) < 0.1 for row in rows)


@pytest.mark.thorough
def test_running_narrow():
    words = ("--narrow", "16", "--repeat", "2")
    lines = printed("running.py", *words)
    rows = [line.split(" | ") for line in lines if line.startswith("| ")]
    measured = [row for row in rows if row[0] != "| variant"]
    assert len(measured) == 5 + 8 and all(float(row[1]) > 0 for row in measured)
    assert all(float(row[-1].rstrip(" |")) < 0.1 for row in measured)


@pytest.mark.slow
def test_beside_in_one_round():
    words = ("--rounds", "1", "--repeat", "1")
    lines = printed("beside.py", *words)
    rows = [line.split(" | ") for line in lines if " | minimum | " in line or " | median | " in line]
    assert len(rows) == 6 and all(float(row[2]) > 0 and float(row[3]) > 0 for row in rows)


@pytest.mark.slow
def test_certificates_of_one_model():
    words = ("sample_models/tvm_two_convs_nhwc.onnx", "--repeat", "1")
    lines = printed("certificates.py", *words)
    rows = [line.strip("| ").split(" | ") for line in lines[2:]]
    assert [row[-1] for row in rows] == ["-", *["proven"] * 4]
    assert all(float(row[6]) > 0 and float(row[5].replace(",", "")) > 0 for row in rows)


@pytest.mark.thorough
def test_lanes_narrow(monkeypatch, capsys):
    monkeypatch.setattr(lanes, "NETWORKS", lanes.NETWORKS[:1])
    monkeypatch.setattr(sys, "argv", ["lanes.py", "--narrow", "16"])
    lanes.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(rows) == 3 and all(float(row[1]) >= 1 and float(row[2]) >= 1 for row in rows)
    assert all(row[-1] == "proven |" and float(row[-2]) >= float(row[-3]) for row in rows)


@pytest.mark.slow
def test_resnet101_is_resnet101():
    """44.55 million weights, as torchvision's has (its batch norms' running statistics not counted)."""
    model = resnet(RESNET_101)
    onnx.checker.check_model(model)
    statistics = sum(int(np.prod(t.dims)) for t in model.graph.initializer if t.name.endswith((".m", ".v")))
    numbers = sum(int(np.prod(t.dims)) for t in model.graph.initializer)
    assert numbers - statistics == 44_549_160
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 104


def test_mixed_precision_is_narrow_where_autocast_says():
    graph = typed("""g (float[1,3,8,8] x) => (float[1,3,8,8] y, float[1,3,8,8] z)
        <float[3,3,1,1] w = {0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9}> {
        y = Conv(x, w)
        z = Softmax<axis=1>(x)
    }""")
    inputs = random_inputs(graph)
    found, exact = TorchExecutor(graph, dtype="mixed").run(inputs), outputs(graph, inputs)
    narrow = np.abs(found["y"] - exact["y"]).max()
    assert 1e-5 < narrow < 0.05  # bfloat16 has 8 bits
    np.testing.assert_allclose(found["z"], exact["z"], rtol=1e-6)


@pytest.mark.slow
def test_fusion_of_one_sample():
    words = ("sample_models/ppocr_cls_v2.onnx",)
    lines = printed("fusion.py", *words)
    row = lines[2].split(" | ")
    alone, groups, same, wider = (float(row[i]) for i in (2, 3, 5, 8))
    assert alone > groups >= same >= wider > 0


@pytest.mark.slow
def test_verified_on_one_sample():
    words = ("--repeat", "1", "sample_models/npu_path.onnx")
    lines = printed("verified.py", *words)
    (row,) = [line.split(" | ") for line in lines if line.startswith("| npu_path")]
    assert all(float(cell.rstrip(" |")) > 0 for cell in row[1:])


@pytest.mark.thorough
def test_second_runs_of_the_samples_find_nothing():
    lines = table_of("second_runs.py", *sorted((ROOT / "sample_models").glob("*.onnx")))
    rows = [row for row in lines if row and row[0] not in ("model", "strategy") and set(row[0]) != {"-"}]
    presets, strategies = [row for row in rows if len(row) == 7], [row for row in rows if len(row) == 5]
    assert len(presets) > 20 and any(int(row[4]) for row in presets)
    assert {row[5] for row in presets} == {"0"}
    assert len(strategies) == 12 and all(row[1] == row[2] for row in strategies)


@pytest.mark.slow
def test_written_beside_the_original():
    ((model, nodes, ours, *times, _, _),) = table_of("written.py", "--repeat", "3", "sample_models/ppocr_cls_v2.onnx")
    assert model == "ppocr_cls_v2" and int(ours) < int(nodes) and all(float(time) > 0 for time in times)


@pytest.mark.slow
def test_opens_of_few():
    assert [row[0] for row in table_of("opens.py", 24)] == ["1 to 20", "21 to 24"]


@pytest.mark.thorough
def test_what_only_a_gpu_shows_runs_on_a_cpu_too(tmp_path):
    """Every part with narrow networks; started again, nothing is done twice; the section has a table of each."""
    out = tmp_path / "results"
    command = ["on_gpu.py", "--device", "cpu", "--small", "--minutes", "60", "--out", str(out)]
    first = printed(*command)
    assert [line for line in first if ": done after" not in line] == []
    assert {row["kind"] for row in rows_of(out, "conformance")} <= {"native", "fallback", "refused", "disputed"}
    assert {row["outcome"] for row in rows_of(out, "tests")} <= {"passed", "skipped"}
    ran = [row for row in rows_of(out, "networks") if "failed" not in row]
    assert {row["who"] for row in ran} == {"torch", "ours"} and all(row["median_ms"] > 0 for row in ran)
    runs = find_runs(url=f"sqlite:///{out / 'runs.sqlite'}")
    assert {run.label for run in runs} >= {"arena", "lanes", "optimal"}
    again = printed(*command)
    assert all(line.endswith(": done before") for line in again)
    tables = gpu_measurement(out).tables
    assert len(tables) >= 5 and any(row[:3] == ("resnet50", "1", "float32") for row in tables[0].rows)


@pytest.mark.slow
def test_a_part_of_the_gpu_benchmark_ends_at_its_limit_with_the_rows_that_it_has(tmp_path):
    assert run_part("conformance", tmp_path, "cpu", True, 0.2) == "ended at its limit"
    assert not (tmp_path / "conformance.done").exists()


def test_what_was_measured_on_a_gpu_is_not_measured_again(tmp_path):
    """A network that was not opened is, if time is left; without time another start goes on."""
    about = {"network": "resnet50", "batch": 1, "dtype": "float32", "who": "torch"}
    rows = [{**about, "how": "eager", "failed": _LEFT}, {**about, "how": "eager", "median_ms": 1.0}]
    file, settings = tmp_path / "networks.jsonl", Settings("cpu", True, tmp_path, 0.0)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert list(networks(settings)) == []
    file.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)), encoding="utf-8")
    with pytest.raises(MoreToDo):
        list(networks(settings))
    for part, row in ((oneflow, {"batch": 2}), (memory, {"variant": "torch float32"})):
        (tmp_path / f"{part.__name__}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
        assert list(part(settings)) == []


@pytest.mark.slow
def test_every_network_of_the_gpu_benchmark_is_the_same_as_a_graph(tmp_path):
    for name in NETWORKS:
        module, inputs = network(name, 1, small=True)
        graph = wb.load(exported(module, inputs, tmp_path / f"{name}.onnx"))
        found = TorchExecutor(graph).run({key: x.numpy() for key, x in zip(graph.inputs, inputs, strict=True)})
        with torch.no_grad():
            expected = module(*inputs)
        first = expected[0] if isinstance(expected, tuple) else expected
        np.testing.assert_allclose(found[graph.outputs[0]], first.numpy(), rtol=1e-4, atol=1e-5)


def rows_of(folder, part):
    return [json.loads(line) for line in (folder / f"{part}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_a_part_is_measured_into_its_file_and_the_page(tmp_path):
    """In a copy: the file has the rows that were measured now and the text that it had; nothing else changes."""
    for name in ("workbench", "passes", "sample_models", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    data = shutil.copytree(ROOT / "docs" / "results", tmp_path / "docs" / "results")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(tmp_path / "benchmarks" / "results.py"), "--only", "reducing"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)

    changed = [file.name for file in data.iterdir() if file.read_bytes() != (PUBLISHED_FOLDER / file.name).read_bytes()]
    assert changed == ["reducing.json"]
    now, before = (read_published(folder / "reducing.json") for folder in (data, PUBLISHED_FOLDER))
    (measurement,) = now.measurements
    assert (now.title, now.about) == (before.title, before.about)
    assert measurement.date == datetime.datetime.now(datetime.UTC).date().isoformat()
    assert measurement.versions["onnx"] == onnx.__version__
    ((table,), (table_before,)) = (one.measurements[0].tables for one in (now, before))
    assert table.columns == table_before.columns and len(table.rows) == len(table_before.rows)
    assert all(float(seconds) > 0 for *_, seconds in table.rows)
    page = (tmp_path / "docs" / "results.md").read_text(encoding="utf-8")
    assert table.markdown in page and measurement.machine in page
