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
from benchmarks.gpu.beside_torch import _LEFT, MoreToDo, Settings, networks
from benchmarks.gpu.networks import NETWORKS, exported, network
from benchmarks.gpu.parts import memory, oneflow
from benchmarks.gpu.section import gpu_measurement
from benchmarks.on_gpu import run_part
from benchmarks.publishing.groups import NAMES
from benchmarks.publishing.page import without_versions
from benchmarks.publishing.publish import PAGE
from benchmarks.shared.benchmark import RealModels, benchmark, content_of, lines_of, table
from benchmarks.shared.models import LIGHT, SAMPLE_FOLDER, model_files
from sample_models.light import LIGHT_MODELS
from sample_models.resnet import RESNET_101, resnet
from tests.conftest import ROOT
from tests.running import outputs, random_inputs, typed
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.run.records.published import PUBLISHED_FOLDER, read_published
from workbench.run.records.store import find_runs


def printed(*command):
    """The lines that a command of this Python prints."""
    words = [sys.executable, *map(str, command)]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def tables_of(name, *words):
    """The rows of each table that a benchmark makes."""
    content = content_of(benchmark(name).run([*map(str, words)]))
    return [item.rows for item in content if not isinstance(item, str)]


# ---- what every benchmark is ------------------------------------------------------------------------------


def test_the_runner_lists_every_benchmark_with_a_sentence_that_no_other_has():
    lines = [line.split(maxsplit=1) for line in printed("-m", "benchmarks") if line.startswith("  ")]
    assert tuple(name for name, _ in lines) == NAMES
    assert len({sentence for _, sentence in lines}) == len(NAMES)


def test_an_unknown_benchmark_is_refused_in_a_sentence():
    ended = subprocess.run([sys.executable, "-m", "benchmarks", "no_such"], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2 and "there is no benchmark 'no_such'" in ended.stderr


def test_the_modules_of_benchmarks_are_those_with_published_results():
    modules = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__init__", "__main__"}
    assert modules == set(NAMES) == {file.stem for file in PUBLISHED_FOLDER.iterdir()}


# Columns of tables that no benchmark makes, with what they are.
BY_HAND = {"simplify": [("CPU seconds", "turns", "before", "ours", "onnxsim", "ours to onnxsim")]}
# Tables that no machine has made yet, by their first column and their number of columns.
NOT_YET = {"on_gpu": [("network", 6)]}


@pytest.mark.parametrize("name", NAMES)
def test_published_columns_are_those_that_the_benchmark_makes(name):
    """If not, the table is stale: `python -m benchmarks publish --only NAME`."""
    made = {without_versions(one.columns) for one in benchmark(name).tables}
    measurements = read_published(PUBLISHED_FOLDER / f"{name}.json").measurements
    published = {without_versions(one.columns) for measurement in measurements for one in measurement.tables}
    assert published - made == set(BY_HAND.get(name, []))
    if measurements:
        assert [(one[0], len(one)) for one in made - published] == NOT_YET.get(name, [])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_published_can_be_asked_for(name, tmp_path):
    """Each of its command lines is one that the benchmark takes."""
    for stem in ("unet_sd15_raw", "bert_12l_raw", "ppocr_cls_v2"):
        (tmp_path / f"{stem}.onnx").touch()
    one = benchmark(name)
    for words in one.published(RealModels(tmp_path, tmp_path)):
        one.run(words)


@pytest.mark.slow
def test_models_have_names(tmp_path):
    """A file, a folder, a sample, and one that is generated; the runner itself imports no onnx for them."""
    (tmp_path / "mine.onnx").write_bytes((SAMPLE_FOLDER / "npu_path.onnx").read_bytes())
    names = [str(tmp_path / "mine.onnx"), str(tmp_path), "npu_path", "bert_100"]
    assert [(path.stem, path.exists()) for path in model_files(names)] == [
        *[("mine", True)] * 2,
        ("npu_path", True),
        ("bert_100", True),
    ]
    with pytest.raises(SystemExit):
        list(model_files(["no_such"]))
    assert LIGHT == LIGHT_MODELS


def test_a_table_right_after_one_with_its_columns_continues_it():
    head = table("a", "b")
    items = ["x", head, ("1", "2"), head, ("3", "4"), "y", head]
    first, second = (one for one in content_of(items) if not isinstance(one, str))
    assert first.rows == (("1", "2"), ("3", "4")) and not second.rows
    assert [*lines_of(items)] == [
        *("x", "", "| a | b |\n|---|---|", "| 1 | 2 |", "| 3 | 4 |", "", "y", "", head.markdown)
    ]
    with pytest.raises(ValueError, match="3 cells"):
        content_of([head, ("1", "2", "3")])


# ---- some of them on small models -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["engine", "strategies", "saturation", "precision", "precision_with_layout", "int8", "rounding", "compared"],
)
def test_a_small_sample_has_rows(name):
    tables = tables_of(name, "npu_path")
    assert tables and all("npu_path" in row[0] for rows in tables for row in rows) and all(tables)


@pytest.mark.slow
def test_what_is_planted_into_a_small_sample_is_found():
    (rows,) = tables_of("planted", "npu_path", "--faults", "2")
    assert rows[-1] == ("all", *["2 of 2"] * 3, "6 of 6")


@pytest.mark.slow
def test_resnet101_small():
    (rows,) = tables_of("resnet101", "--batches", "1", "--side", "32", "--stages", "1,1,1,1", "--repeat", "1")
    assert [row[1] for row in rows] == ["NCHW", *passes.compared_strategies(), "optimal, time weighed"]
    assert all(float(row[3]) > 0 and float(row[8]) < 0.1 for row in rows)


@pytest.mark.thorough
def test_running_narrow():
    by_backend, by_type = tables_of("running", "--narrow", "16", "--repeat", "2")
    assert len(by_backend) == 5 and len(by_type) == 8
    assert all(float(row[1]) > 0 and float(row[-1]) < 0.1 for row in (*by_backend, *by_type))


@pytest.mark.slow
def test_beside_in_one_round():
    (rows,) = tables_of("beside", "--rounds", "1", "--repeat", "1")
    assert len(rows) == 6 and all(float(row[2]) > 0 and float(row[3]) > 0 for row in rows)


@pytest.mark.slow
def test_certificates_of_one_model():
    (rows,) = tables_of("certificates", "tvm_two_convs_nhwc", "--repeat", "1")
    assert [row[-1] for row in rows] == ["-", *["proven"] * 4]
    assert all(float(row[6]) > 0 and float(row[5].replace(",", "")) > 0 for row in rows)


@pytest.mark.thorough
def test_streams_of_one_sample():
    ((row,),) = tables_of("streams", "ppocr_cls_v2")
    assert row[0] == "ppocr_cls_v2" and float(row[1]) >= 1 and float(row[2]) >= 1
    assert row[-1] == "proven" and float(row[-2]) >= float(row[-3])


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
    ((row,),) = tables_of("fusion", "ppocr_cls_v2")
    alone, groups, same, wider = (float(row[i]) for i in (2, 3, 5, 8))
    assert alone > groups >= same >= wider > 0


@pytest.mark.slow
def test_verified_on_one_sample():
    ((row,),) = tables_of("verified", "--repeat", "1", "npu_path")
    assert all(float(cell) > 0 for cell in row[1:])


@pytest.mark.thorough
def test_second_runs_of_three_samples_find_nothing():
    presets, strategies = tables_of("second_runs", "npu_path", "ppocr_cls_v2", "silero_vad")  # all: test_second_runs.py
    assert len(presets) == 6 and any(int(row[4]) for row in presets)
    assert {row[5] for row in presets} == {"0"}
    assert len(strategies) == 12 and all(row[1] == row[2] == "3" for row in strategies)


@pytest.mark.slow
def test_written_beside_the_original():
    (((model, nodes, ours, *times, _, _),),) = tables_of("written", "--repeat", "3", "ppocr_cls_v2")
    assert model == "ppocr_cls_v2" and int(ours) < int(nodes) and all(float(time) > 0 for time in times)


@pytest.mark.slow
def test_opens_of_few():
    (rows,) = tables_of("opens", 24)
    assert [row[0] for row in rows] == ["1 to 20", "21 to 24"]


@pytest.mark.thorough
def test_what_only_a_gpu_shows_runs_on_a_cpu_too(tmp_path):
    """Every part with narrow networks; started again, nothing is done twice; the section has a table of each."""
    out = tmp_path / "results"
    command = ["benchmarks/on_gpu.py", "--device", "cpu", "--small", "--minutes", "60", "--out", str(out)]
    first = printed(*command)
    assert [line for line in first if ": done after" not in line] == []
    assert {row["kind"] for row in rows_of(out, "conformance")} <= {"native", "fallback", "refused", "disputed"}
    assert {row["outcome"] for row in rows_of(out, "tests")} <= {"passed", "skipped"}
    ran = [row for row in rows_of(out, "networks") if "failed" not in row]
    assert {row["who"] for row in ran} == {"torch", "ours"} and all(row["median_ms"] > 0 for row in ran)
    runs = find_runs(url=f"sqlite:///{out / 'runs.sqlite'}")
    assert {run.label for run in runs} >= {"arena", "streams", "optimal"}
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
    """In a copy: the file has the rows that were measured now and the text that it had; nothing else changes. The page is
    drawn again, and does not show this part."""
    for name in ("workbench", "passes", "sample_models", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    data = shutil.copytree(ROOT / "docs" / "results", tmp_path / "docs" / "results")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks", "publish", "--only", "reducing"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)

    changed = [file.name for file in data.iterdir() if file.read_bytes() != (PUBLISHED_FOLDER / file.name).read_bytes()]
    assert changed == ["reducing.json"]
    now, before = (read_published(folder / "reducing.json") for folder in (data, PUBLISHED_FOLDER))
    (measurement,) = now.measurements
    assert (now.title, now.about) == (before.title, before.about)
    assert measurement.date == datetime.datetime.now(datetime.UTC).date().isoformat()
    assert measurement.versions["onnx"] == onnx.__version__
    ((new,), (old,)) = (one.measurements[0].tables for one in (now, before))
    assert new.columns == old.columns and len(new.rows) == len(old.rows)
    assert all(float(seconds) > 0 for *_, seconds in new.rows)
    assert (tmp_path / "docs" / "results.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
