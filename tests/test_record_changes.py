"""Kept runs: the hash of their model, what changed between two, and the commands that keep and print them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.making import HOSTILE
from tests.recording import HASH, OTHER_HASH, VERSIONS, keep_one, kept_twice, use_own_cache
from tests.running import typed
from workbench.errors import UserError
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.formats.io.samples import FOLDER
from workbench.interfaces.cli.runs import RunsRequest, keep_bench, runs_command
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.statistics import Ratio
from workbench.run.measurement.variants import combined
from workbench.run.records.changes import differences, ratio_of, reliability
from workbench.run.records.store import (
    URL_VARIABLE,
    RecordsError,
    Run,
    RunOrigin,
    file_hash,
    find_runs,
    model_hash,
    records_of,
)

MODEL = FOLDER / "conv_relu_conv_relu.onnx"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    return use_own_cache(tmp_path, monkeypatch)


# ---- hashes ----------------------------------------------------------------------------------


def test_the_hash_is_that_of_the_file_as_sha256sum_gives_it(tmp_path):
    assert model_hash(load_model(MODEL)) == file_hash(str(MODEL)) == hashlib.sha256(MODEL.read_bytes()).hexdigest()
    copy = tmp_path / "copy.onnx"
    shutil.copy(MODEL, copy)
    assert file_hash(str(copy)) == file_hash(str(MODEL))
    copy.write_bytes(b"changed")
    assert file_hash(str(copy)) == hashlib.sha256(b"changed").hexdigest()


def test_a_graph_without_a_file_has_the_hash_of_its_bytes():
    text = "g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }"
    assert model_hash(typed(text)) == model_hash(typed(text)) != model_hash(typed(text.replace("Relu", "Abs")))


def test_a_model_that_is_gone_is_a_sentence(tmp_path):
    with pytest.raises(RecordsError, match=r"the model '.*gone\.onnx' cannot be read"):
        file_hash(str(tmp_path / "gone.onnx"))


# ---- what changed ------------------------------------------------------------------------------


def test_differences_are_said_in_words(tmp_path):
    settings = {
        "device_name": "NVIDIA H200",
        "backend": "onnxruntime",
        "dims": {"N": 8},
        "versions": {**VERSIONS, "torch": "2.14.0", "cuda": "13.0"},
    }
    pipelines = ("optimize m --passes a,b", "optimize m --passes a,c")
    first, other = kept_twice(f"sqlite:///{tmp_path}/own.sqlite", pipelines, settings)
    assert differences(first, other) == (
        "another pipeline, with c, without b",
        "device NVIDIA H200 instead of Xeon",
        "backend onnxruntime instead of torch",
        "N 8 instead of none",
        "torch 2.14.0 instead of 2.13.0",
        "cuda 13.0 instead of none",
    )
    assert "other sizes" in reliability(first, other)
    assert differences(first, first) == ()


@pytest.mark.parametrize(
    ("pipelines", "words"),
    [
        (("", "optimize m"), "an optimized model instead of as it is"),
        (("optimize m", ""), "the model as it is instead of an optimized one"),
        (("optimize m --passes a,b", "optimize m --passes b,a"), "the same arguments in another order"),
    ],
)
def test_another_pipeline_is_said_in_words(tmp_path, pipelines, words):
    first, other = kept_twice(f"sqlite:///{tmp_path}/own.sqlite", pipelines)
    assert differences(first, other) == (f"another pipeline, {words}",)


def test_the_ratio_says_whether_both_met_the_same_moments(tmp_path):
    first, other = kept_twice(f"sqlite:///{tmp_path}/own.sqlite")
    together = replace(other, measurement=first.measurement)
    busy = [10.0, 20.0, 30.0, 40.0, 50.0]
    times = {first.id: busy, other.id: [time / 2 for time in busy]}
    apart = ratio_of(first, other, times)
    assert apart.ratio == 0.5 and apart.ratio_low < 0.5 < apart.ratio_high
    half = Ratio(0.5, ratio_low=0.5, ratio_high=0.5, ratio_busy=True)
    assert ratio_of(first, together, times) == half  # turn by turn, it is half each time
    assert "at different times" in reliability(first, other)
    assert "together, interleaved" in reliability(first, together)
    assert "different model files" in reliability(first, replace(other, model_hash=OTHER_HASH))


def test_runs_apart_may_have_different_numbers_of_repetitions(tmp_path):
    first, other = kept_twice(f"sqlite:///{tmp_path}/own.sqlite")
    found = ratio_of(first, other, {first.id: [4.0] * 7, other.id: [2.0] * 3})
    assert found == Ratio(0.5, ratio_low=0.5, ratio_high=0.5, ratio_busy=False)


# ---- the command line --------------------------------------------------------------------------


def printed(capsys, model=None, as_json=False, as_csv=False, url=None) -> str:
    assert runs_command(RunsRequest(model, as_json, as_csv, url)) == 0
    return capsys.readouterr().out


def test_the_command_prints_a_table_csv_and_json(capsys):
    assert "no run is kept in" in printed(capsys)
    keep_one(label=f"{HOSTILE}\x1b[31m", origin=RunOrigin(HASH, "x" * 10_000))
    table = printed(capsys)
    assert "2.000" in table and HASH[:12] in table and HOSTILE in table and "\x1b" not in table
    assert max(map(len, table.splitlines())) < 250
    (row,) = csv.DictReader(io.StringIO(printed(capsys, as_csv=True)))
    assert float(row["median_ms"]) == 2.0 and row["versions"] == "python=3.11,torch=2.13.0"
    (run,) = json.loads(printed(capsys, as_json=True))["runs"]
    assert next(iter(run["record"]["variants"].values()))["times_ms"] == [1.0, 2.0, 3.0]
    time = datetime.fromisoformat(run["time"])
    assert timedelta() <= datetime.now(UTC) - time < timedelta(hours=1)


def test_the_command_takes_a_file_or_a_hash(capsys, tmp_path):
    keep_one(label="mine", origin=RunOrigin(file_hash(str(MODEL)), "model"))
    keep_one(label="other", origin=RunOrigin(OTHER_HASH, "model"))
    assert "mine" in printed(capsys, str(MODEL)) and "other" not in printed(capsys, str(MODEL))
    assert "other" in printed(capsys, "CDCD") and "mine" not in printed(capsys, "cdcd")
    with pytest.raises(UserError, match="there is no file"):
        printed(capsys, url=f"sqlite:///{tmp_path}/other.sqlite")
    for wrong in ("cd", "xyzw", str(tmp_path / "gone.onnx")):
        with pytest.raises(UserError, match="is neither a file nor"):
            runs_command(RunsRequest(wrong, False, False, None))


@pytest.mark.slow
def test_what_bench_measured_is_kept_and_where_it_cannot_be_a_note_says_so(capsys, monkeypatch):
    models = {str(MODEL): load_model(MODEL)}
    variants = combined(models, ["torch", "onnxruntime"], ["float32"])
    with Verifier(models[str(MODEL)]) as verifier:
        found = measure_models(
            variants, inputs=verifier.inputs, reference=verifier.reference, repeat=3, worker=verifier.worker
        )
    keep_bench(found, variants, models)
    runs: tuple[Run, ...] = find_runs(model_hash=file_hash(str(MODEL)))
    assert [(run.label, run.backend, run.model_name) for run in runs] == [
        ("torch", "torch", MODEL.name),
        ("onnxruntime", "onnxruntime", MODEL.name),
    ]
    for run in runs:
        variant = records_of([run])[run.id]["variants"][run.label]
        assert variant["times_ms"] == list(found.ran[run.label].times_ms)
        assert run.median_ms == variant["median_ms"] and run.peak_bytes == variant["memory"]["peak_bytes"]
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(URL_VARIABLE, "postgresql://user:secret@127.0.0.1:1/d")
    keep_bench(found, variants, models)
    said = capsys.readouterr().err
    assert said.startswith("note: this measurement is not kept: the runs in") and "secret" not in said
