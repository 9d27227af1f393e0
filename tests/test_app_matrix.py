"""The page Matrix: measures, goes on where it stood, shows and gives away its tables."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages import STRATEGIES, fine, opened_sample, page, through_optimize, words
from workbench.interfaces.ui.screens import matrix_page
from workbench.interfaces.ui.screens.matrix_page import MatrixResults
from workbench.interfaces.ui.state.session import Opened
from workbench.run.records.store import find_runs


@pytest.fixture(autouse=True)
def user_folder(monkeypatch, tmp_path):
    """Blocks and runs of another test are not found."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))


def asked(opened: Opened, **wishes: object) -> AppTest:
    """The page, its fields filled in by their labels."""
    at = fine(page("matrix", opened).run())
    for field in (*at.text_input, *at.multiselect, *at.number_input, *at.selectbox):
        if field.label in wishes:
            field.set_value(wishes[field.label])
    return at


def measured(at: AppTest) -> AppTest:
    return next(b for b in at.button if b.label == "Measure").click().run()


def small() -> Opened:
    opened = opened_sample("ppocr_cls_v2")
    opened.graph.dims.update({"x_2": 48, "x_3": 64})
    return opened


@pytest.mark.slow
def test_batches_and_backends_in_one_run():
    at = asked(small(), Batches="1, 3", Backends=["torch", "onnxruntime"], Repetitions=2)
    fine(measured(at))
    rows = at.dataframe[0].value.to_dict("records")
    assert [(row["batch"], row["step"], row["backend"]) for row in rows] == [
        (batch, step, backend)
        for batch in (1, 3)
        for step in ("as loaded", STRATEGIES[-1])
        for backend in ("torch", "onnxruntime")
    ]
    assert all(
        row["median (ms)"] > 0 and any(v > 0 for n, v in row.items() if n.startswith("peak of ")) for row in rows
    )
    assert "8 variants in 2 blocks" in words(at)
    assert "Latency by batch" in words(at)
    kept = find_runs()
    assert len(kept) == 8
    assert {run.pipeline.partition(" --layout ")[2] for run in kept} == {"", STRATEGIES[-1]}


@pytest.mark.slow
def test_what_is_done_is_not_measured_again(monkeypatch):
    opened = small()
    fine(measured(asked(opened, Batches="1", Repetitions=1)))
    first = opened.state(MatrixResults).blocks
    monkeypatch.setattr(matrix_page, "run_matrix", watched := Watched(matrix_page.run_matrix))
    fine(measured(asked(opened, Batches="1 2", Repetitions=1)))
    assert json.dumps(opened.state(MatrixResults).blocks[0].to_json()) == json.dumps(first[0].to_json())
    assert {words.split(",")[1].strip() for words in watched.heard} == {"batch 2"}


class Watched:
    """Calls the real function and notes what it says on its way."""

    def __init__(self, real) -> None:
        self.real, self.heard = real, []

    def __call__(self, matrix, record, worker, report):
        return self.real(matrix, record, worker, lambda said, share: (self.heard.append(said), report(said, share)))


@pytest.mark.slow
def test_what_optimize_made_is_a_step():
    opened = through_optimize("conv_relu_conv_relu", ("strategy", STRATEGIES[0])).session_state["opened"]
    at = asked(opened, Repetitions=1)
    next(m for m in at.multiselect if m.label == "Steps and strategies").set_value(
        ["as loaded", "pipeline of Optimize"]
    )
    fine(measured(at))
    assert list(at.dataframe[0].value["step"]) == ["as loaded", "pipeline of Optimize"]
    assert any("--passes" in run.pipeline for run in find_runs())


@pytest.mark.slow
def test_another_model_beside_it():
    at = asked(opened_sample("conv_relu_conv_relu"), Repetitions=1)
    beside = next(m for m in at.multiselect if m.label == "Other models")
    beside.set_value([beside.options[1]])
    fine(measured(at))
    assert len(set(at.dataframe[0].value["model"])) == 2


def test_wrong_wishes_are_sentences():
    at = measured(asked(small(), Batches="1, many"))
    assert "not 'many'" in at.error[0].value
    at = measured(asked(small(), Backends=[]))
    assert "Nothing is chosen" in at.error[0].value


@pytest.mark.slow
def test_one_block_without_a_batch_is_told_in_the_singular():
    at = fine(measured(asked(opened_sample("conv_relu_conv_relu"), Repetitions=1)))
    assert "2 variants in 1 block on" in words(at)
    assert "batch" not in at.dataframe[0].value


@pytest.mark.slow
def test_forgotten_blocks_are_measured_again():
    opened = small()
    at = fine(measured(asked(opened, Batches="1", Repetitions=1)))
    first = opened.state(MatrixResults).blocks
    fine(next(b for b in at.button if b.label == "Forget these blocks").click().run())
    assert opened.state(MatrixResults).blocks == [] and not at.dataframe
    fine(measured(asked(opened, Batches="1", Repetitions=1)))
    assert opened.state(MatrixResults).blocks[0].key == first[0].key
    assert opened.state(MatrixResults).blocks[0] != first[0]


def test_a_stopped_matrix_says_one_thing():
    at = page("matrix", small())
    at.session_state["opened"].jobs.cancelled.add("matrix")
    assert "Measure continues with the others" in fine(at.run()).info[0].value
    assert "Nothing is measured" not in words(at)


@pytest.mark.slow
def test_a_block_that_cannot_run_is_a_sentence():
    at = asked(small(), Batches="1 1000000000", Repetitions=1)
    fine(measured(at))
    assert "GB are free" in at.warning[0].value
    assert len(at.dataframe[0].value) == 2
