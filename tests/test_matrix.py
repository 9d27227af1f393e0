"""A matrix of measurements: every block once, in order, and on from where it was broken off."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.commands import OCR, RESNET, SPEECH
from workbench.interfaces.study.cluster.jobs import OnThisMachine
from workbench.interfaces.study.sweep.blocks import Block, Matrix, MatrixError, graph_digest
from workbench.interfaces.study.sweep.matrix import (
    COLUMNS,
    as_csv,
    batch_sizes,
    matrix_notes,
    row_label,
    rows_of,
    run_matrix,
)
from workbench.interfaces.study.sweep.named_sweeps import PLANS
from workbench.interfaces.study.sweep.record import forget_blocks
from workbench.ir import Graph, from_text
from workbench.run.measurement.measure import refused_sizes
from workbench.run.measurement.notes import notes_of
from workbench.run.worker.client import CancelledError, RunError

SMALL = (
    "g (float[N,4] x) => (float[N,4] y) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> { y = MatMul(x, w) }"
)
RELU = "r (float[B,4] x) => (float[B,4] y) { y = Relu(x) }"


@pytest.fixture(scope="module", autouse=True)
def worker(kept_worker):
    """The tests', and that of the commands in them."""
    return kept_worker


def measured(matrix: Matrix, record: Any, worker: Any, *heard: Any) -> list[Block]:
    return list(run_matrix(matrix, record, OnThisMachine(worker), *heard))


def written(blocks: list[Block]) -> list[dict[str, Any]]:
    """As the blocks' lines are read."""
    return [json.loads(json.dumps(block.to_json())) for block in blocks]


def graphs() -> dict[str, dict[str, Graph]]:
    first, second = from_text(SMALL), from_text(RELU)
    for graph in (first, second):
        graph.dims = {graph.shape("x")[0]: 1}
    return {"product": {"as loaded": first, "again": first}, "relu": {"as loaded": second}}


@pytest.mark.slow
def test_every_model_at_every_batch_in_every_way(worker):
    matrix = Matrix(graphs(), batches=(1, 3), backends=("torch", "onnxruntime"), repeat=2)
    heard: list[tuple[str, float]] = []
    blocks = measured(matrix, None, worker, lambda words, share: heard.append((words, share)))
    assert [(b.model, b.batch) for b in blocks] == [("product", 1), ("product", 3), ("relu", 1), ("relu", 3)]
    assert [block.measurement.dims for block in blocks] == [{"N": 1}, {"N": 3}, {"B": 1}, {"B": 3}]
    assert list(blocks[0].measurement.variants) == [
        *("as loaded, torch", "as loaded, onnxruntime", "again, torch", "again, onnxruntime")
    ]
    rows = rows_of(blocks)
    assert len(rows) == 4 + 4 + 2 + 2
    assert all(set(row) == set(COLUMNS) for row in rows)
    assert all(row["median_ms"] > 0 and row["runs"] == 2 and row["max_rel_error"] < 1e-6 for row in rows)
    assert {(row["step"], row["backend"], row["dtype"]) for row in rows[:4]} == {
        (step, backend, "float32") for step in ("as loaded", "again") for backend in ("torch", "onnxruntime")
    }
    shares = [share for _, share in heard]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    table = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert [row["variant"] for row in table] == [row["variant"] for row in rows]


class Stop(Exception):
    pass


def test_it_goes_on_where_it_was_broken_off(worker, tmp_path):
    matrix, record = Matrix(graphs(), batches=(1, 2), repeat=1), tmp_path / "m.jsonl"

    def stop(words: str, share: float) -> None:
        if "block 3" in words:
            raise Stop

    done = []
    with pytest.raises(Stop):
        done.extend(run_matrix(matrix, record, OnThisMachine(worker), stop))
    first = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(block["model"], block["batch"]) for block in first] == [("product", 1), ("product", 2)]
    assert written(done) == first  # each was given away when it was done
    with open(record, "a") as file:
        file.write('{"key": "half a line')
    heard: list[str] = []
    blocks = measured(matrix, record, worker, lambda words, share: heard.append(words))
    assert not any("product" in words for words in heard)
    assert written(blocks[:2]) == first
    assert [json.loads(line) for line in record.read_text().splitlines()] == written(blocks)
    forget_blocks(record, blocks[:1])
    assert [json.loads(line) for line in record.read_text().splitlines()] == written(blocks[1:])
    assert sorted(tmp_path.iterdir()) == [record]


def test_another_question_is_measured_anew(worker, tmp_path):
    record = tmp_path / "m.jsonl"
    measured(Matrix(graphs(), repeat=1), record, worker)
    heard: list[str] = []
    measured(Matrix(graphs(), repeat=2), record, worker, lambda words, share: heard.append(words))
    assert heard
    heard.clear()
    measured(Matrix(graphs(), repeat=2), record, worker, lambda words, share: heard.append(words))
    assert not heard


def test_other_dims_are_another_question(worker, tmp_path):
    record = tmp_path / "m.jsonl"
    for size in (4, 400):
        found = graphs()
        found["relu"]["as loaded"].dims = {"B": size}
        blocks = measured(Matrix(found, repeat=1), record, worker)
        assert blocks[1].measurement.dims == {"B": size}


def test_what_failed_is_tried_again(worker, tmp_path):
    record = tmp_path / "m.jsonl"
    broken = from_text("b (float[N,4] x) => (float[N,4] y) <int64[1] s = {5}> { y = Reshape(x, s) }")
    broken.dims = {"N": 1}
    matrix = Matrix({"product": {"as loaded": graphs()["product"]["again"], "broken": broken}}, repeat=1)
    blocks = measured(matrix, record, worker)
    assert "Reshape" in blocks[0].measurement.variants["broken"].failed
    assert not record.exists()


@pytest.mark.slow
def test_what_a_backend_cannot_be_asked_for_is_no_failure(worker, tmp_path):
    record = tmp_path / "m.jsonl"
    matrix = Matrix(graphs(), backends=("torch", "onnxruntime"), dtypes=("float32", "bfloat16"), repeat=1)
    blocks = measured(matrix, record, worker)
    assert len(record.read_text().splitlines()) == 2
    assert not any(row["failed"] for row in rows_of(blocks))
    assert len(rows_of(blocks)) == 2 * 3 + 3
    assert [note for note in matrix_notes(blocks) if "left out" in note] == [
        "ONNX Runtime is measured with the model's own types: 'as loaded, onnxruntime, bfloat16', "
        "'again, onnxruntime, bfloat16' left out. (product)",
        "ONNX Runtime is measured with the model's own types: 'onnxruntime, bfloat16' left out. (relu)",
    ]


@pytest.mark.slow
def test_notes_stand_once_with_all_that_they_concern(worker):
    blocks = measured(Matrix(graphs(), batches=(1, 2), repeat=1), None, worker)
    for index, block in enumerate(blocks):
        variants = {label: replace(variant, busy=True) for label, variant in block.measurement.variants.items()}
        notes = ["Something else.", *notes_of(variants, "cpu")]
        blocks[index] = replace(block, measurement=replace(block.measurement, variants=variants, notes=notes))
    own, busy = matrix_notes(blocks)
    assert own == "Something else. (product, batch 1; product, batch 2; relu, batch 1; relu, batch 2)"
    assert "'product, batch 1, as loaded', 'product, batch 1, again', 'product, batch 2, as loaded'" in busy


@pytest.mark.slow
def test_a_row_says_what_its_peak_is_of(worker):
    rows = rows_of(measured(Matrix(graphs(), backends=("torch", "onnxruntime"), repeat=1), None, worker))
    assert {(row["backend"], row["peak_counted"]) for row in rows} == {("torch", "values"), ("onnxruntime", "process")}


def test_a_batch_that_is_fixed_inside_is_a_sentence(worker):
    text = "g (float[N,4] x) => (float[M,K] y) <int64[2] s = {1, 4}> { a = Relu(x) y = Reshape(a, s) }"
    baked = from_text(text)
    baked.dims = {"N": 1}
    first, second = measured(Matrix({"baked": {"as loaded": baked}}, batches=(1, 4), repeat=1), None, worker)
    assert first.measurement is not None
    assert second.failed.startswith(
        "'baked' does not run with N=4, perhaps because another size is fixed inside it: Reshape"
    )
    assert row_label(rows_of([second])[0]) == "baked, batch 4"
    with pytest.raises(RunError, match=r"^The run is out of memory"), refused_sizes("m", {"N": 4096}):
        raise RunError("The run is out of memory (1 GB are free).", "run")  # not for any size inside it
    assert row_label({"model": "m", "batch": None, "variant": None}) == "m"


@pytest.mark.slow
def test_the_plan_has_graphs_that_can_be_run_and_told_apart():
    (model,) = PLANS["oneflow"].models().values()
    first, second = model.values()
    assert graph_digest(first) != graph_digest(second)
    assert sum(node.op_type == "Conv" for node in first.nodes) == 104
    assert not any(node.op_type == "Conv" for node in second.nodes)  # all are in channels-last form


def test_cancelling_keeps_what_is_done(worker, tmp_path):
    record = tmp_path / "m.jsonl"

    def cancel(words: str, share: float) -> None:
        if "block 2" in words and "run" in words:
            worker.cancel()

    with pytest.raises(CancelledError):
        measured(Matrix(graphs(), batches=(1, 2), repeat=200), record, worker, cancel)
    assert len(record.read_text().splitlines()) == 1


@pytest.mark.slow
def test_a_block_that_cannot_run_does_not_end_the_matrix(worker, tmp_path):
    text = "g (float[N,1] x) => (float[N,K] y) <int64[2] to = {1, 1000000000}> { y = Expand(x, to) }"
    huge = from_text(text)
    huge.dims = {"N": 1000}
    matrix = Matrix({"huge": {"as loaded": huge}, **graphs()}, repeat=1)
    record = tmp_path / "m.jsonl"
    blocks = measured(matrix, record, worker)
    assert "GB of memory" in blocks[0].failed
    assert [block.measurement is not None for block in blocks] == [False, True, True]
    assert rows_of(blocks)[0]["failed"] == blocks[0].failed
    assert len(record.read_text().splitlines()) == 2  # it is tried again next time


@pytest.mark.parametrize(
    "line", ['{"key": "k", "model": "m", "batch": 1}', '{"key": "k", "found": {"variants": {"a": {}}}}']
)
def test_an_edited_record_is_a_sentence(worker, tmp_path, line):
    record = tmp_path / "m.jsonl"
    record.write_text(line + "\n")
    with pytest.raises(MatrixError, match="line 1"):
        measured(Matrix(graphs(), repeat=1), record, worker)


@pytest.mark.slow
def test_a_last_line_without_its_end_counts_where_it_is_whole(worker, tmp_path):
    record, matrix = tmp_path / "m.jsonl", Matrix(graphs(), repeat=1)
    first = measured(matrix, record, worker)
    record.write_text("\n" + record.read_text().rstrip("\n"))
    heard: list[str] = []
    again = measured(matrix, record, worker, lambda words, share: heard.append(words))
    assert written(again) == written(first)
    assert not heard


def test_batches_in_words():
    assert batch_sizes(" 1, 8 32,") == (1, 8, 32)
    assert batch_sizes("") == ()
    with pytest.raises(MatrixError, match="not '0'"):
        batch_sizes("1,0")


@pytest.mark.slow
def test_dims_that_a_model_needs_are_found(done):
    assert "silero" in done("matrix", SPEECH, "--repeat", 1)


@pytest.mark.slow
def test_a_fixed_batch_is_measured_at_its_own_size(worker):
    fixed = from_text("g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }")
    (block,) = measured(Matrix({"f": {"as loaded": fixed}}, batches=(2,), repeat=1), None, worker)
    assert block.batch == 2 and block.measurement.variants["as loaded"].times_ms


def test_bad_wishes_are_sentences(worker, tmp_path):
    fixed = from_text("g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }")
    with pytest.raises(MatrixError, match="'f' has a fixed batch of 2, so it cannot be measured at 1"):
        measured(Matrix({"f": {"as loaded": fixed}}, batches=(1, 2)), None, worker)
    other = tmp_path / "notes.txt"
    other.write_text("bread\nmilk\n")
    with pytest.raises(MatrixError, match="is not a record of a matrix: line 1"):
        measured(Matrix(graphs(), repeat=1), other, worker)
    assert other.read_text() == "bread\nmilk\n"
    with pytest.raises(MatrixError, match="cannot be written"):
        measured(Matrix(graphs(), repeat=1), tmp_path / "none" / "m.jsonl", worker)


@pytest.mark.slow
def test_the_command(done, refused, tmp_path):
    table, record = tmp_path / "t.csv", tmp_path / "r.jsonl"
    words = (
        "matrix",
        OCR,
        "--layouts",
        "greedy",
        "--target",
        "cuda",
        "--batches",
        "1,2",
        "--dims",
        "x_2=48,x_3=64",
        "--repeat",
        1,
    )
    out = done(*words, "--csv", table, "--record", record, "--json", tmp_path / "r.json")
    rows = list(csv.DictReader(table.open()))
    assert [(row["batch"], row["variant"]) for row in rows] == [
        (batch, variant) for batch in ("1", "2") for variant in ("as loaded", "simplify", "greedy")
    ]
    assert all(float(row["max_rel_error"]) < 1e-4 for row in rows)
    assert out.count("greedy") == 2
    assert len(json.loads((tmp_path / "r.json").read_text())) == 2
    assert "give either models or a plan" in refused("matrix")
    assert "there is no plan 'nvidia'" in refused("matrix", "--plan", "nvidia")
    assert "not 'many'" in refused("matrix", OCR, "--batches", "1,many")
    assert "a plan has its own models" in refused("matrix", "--plan", "oneflow", "--layouts", "greedy")
    assert "no backend 'tvm'" in refused("matrix", OCR, "--backend", "tvm")
    assert "no dimension 'Q'" in refused("matrix", OCR, "--batches", "1", "--batch-dim", "Q")


@pytest.mark.slow
def test_the_steps_of_a_pipeline(done):
    out = done("matrix", RESNET, "--steps", "--repeat", 1)
    assert "fold_batchnorm" in out
    assert out.count("as loaded") == 1
