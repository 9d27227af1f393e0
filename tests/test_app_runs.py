"""The page of kept runs without a browser: empty, failed and done; what is compared, and what is downloaded."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing

import pytest
from streamlit.testing.v1 import AppTest

from tests.making import HOSTILE
from tests.pages import fine, opened_sample, page, words
from tests.recording import OTHER_HASH, keep_one, record, use_own_cache
from workbench.interfaces.ui.state.record_runs import keep_measured, pipeline_until
from workbench.interfaces.ui.state.session import Opened
from workbench.run.records.store import URL_VARIABLE, RunOrigin, find_runs, keep, model_hash


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    return use_own_cache(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def opened() -> Opened:
    return opened_sample("conv_relu_conv_relu")


def origin(opened: Opened, pipeline: str = "") -> RunOrigin:
    return RunOrigin(model_hash(opened.graph), opened.title, pipeline)


def keep_pair(opened: Opened, slow: float = 4.0, label: str = "1 greedy", **changes) -> None:
    """A measurement of two variants together, the second taking half of the time."""
    times = [slow, slow * 1.1, slow * 0.9, slow * 1.05]
    found = record({"as loaded": times, label: [time / 2 for time in times]}, **changes)
    keep(found, {"as loaded": origin(opened), label: origin(opened, "optimize --passes layout_greedy")})


def charts(at: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


def select(at: AppTest, *rows: int) -> AppTest:
    """Choose these rows of the table, through its state: AppTest has no hand for it."""
    opened = at.session_state["opened"]
    runs = find_runs(model_hash=model_hash(opened.graph))
    key = f"runs_{opened.number}_False_{runs[0].id}_{len(runs)}"
    assert key in at.session_state
    at.session_state[key] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return at.run()


def test_nothing_kept_says_what_to_do(opened):
    at = fine(page("runs", opened).run())
    assert "No run of this model is kept yet; measure on the page Measure" in at.info[0].value
    assert not at.dataframe and not charts(at)


def test_runs_of_a_busy_machine_have_no_bars(opened):
    keep_pair(opened)
    keep(
        record({"as loaded": [4.0, 9.0, 3.0, 12.0], "1 greedy": [2.0, 2.1, 2.0, 2.1]}),
        {"as loaded": origin(opened), "1 greedy": origin(opened, "optimize --passes layout_greedy")},
    )
    at = fine(page("runs", opened).run())
    bars, _ = charts(at)
    assert len(bars["data"]) == 1 and "1 run of a busy machine: not drawn." in words(at)


def test_the_last_measurement_is_compared(opened):
    keep_pair(opened, slow=8.0)
    keep_pair(opened)
    at = fine(page("runs", opened).run())
    rows = at.dataframe[0].value.to_dict("records")
    assert [(row["variant"], round(row["median (ms)"], 2)) for row in rows] == [
        ("as loaded", 4.1),
        ("1 greedy", 2.05),
        ("as loaded", 8.2),
        ("1 greedy", 4.1),
    ]
    said = words(at).replace("\\", "")
    assert "is 2.00x faster (95 % interval: 2.00x to 2.00x) than" in said
    assert "Different: another pipeline, an optimized model instead of as it is." in said
    assert "measured together, interleaved" in said
    bars, lines = charts(at)
    assert bars["data"][0]["error_x"]["array"]
    assert len(lines["data"]) == 2
    assert all(len(line["x"]) == 2 for line in lines["data"])  # each kind was measured twice


def test_chosen_runs_are_compared_with_what_differs_said(opened):
    keep_pair(opened, slow=8.0, versions={"torch": "2.12.0"})
    keep_pair(opened, versions={"torch": "2.13.0"})
    at = fine(select(page("runs", opened).run(), 0, 2))
    said = words(at).replace("\\", "")
    assert "2.00x faster" in said
    assert "Different: torch 2.13.0 instead of 2.12.0." in said
    assert "They were measured at different times" in said
    at = fine(select(at, 1))
    assert "faster" not in words(at)
    assert len(charts(at)[0]["data"][0]["y"]) == 1
    at = fine(select(at))
    assert "No run is selected in the table" in words(at)
    assert len(charts(at)) == 1


def test_what_a_ratio_means_is_said_once_where_it_is_the_same_for_all(opened):
    keep_pair(opened)
    keep_pair(opened)
    at = fine(select(page("runs", opened).run(), 0, 1, 2, 3))
    said = words(at)
    assert said.count("measured together") == 1 and said.count("at different times") == 2
    at = fine(select(at, 0, 1, 2))
    assert words(at).count("at different times") == 1
    assert words(at).count("No setting differs") == 1


def test_lines_of_one_label_are_told_apart_by_what_differs(opened):
    keep_pair(opened)
    keep_pair(opened, device_name="NVIDIA H200", backend="cuda-graphs")
    at = fine(select(page("runs", opened).run(), 0, 2))
    names = [line["name"] for line in charts(at)[1]["data"]]
    assert names == ["as loaded, cuda-graphs, NVIDIA H200, 2 threads", "as loaded, torch, Xeon, 2 threads"]


def test_runs_of_other_models_are_shown_when_asked_for(opened):
    keep_one(label="of another model", origin=RunOrigin(OTHER_HASH, "another"))
    at = fine(page("runs", opened).run())
    assert at.info and not at.dataframe
    fine(at.toggle(key="runs_of_all").set_value(True).run())
    assert list(at.dataframe[0].value["variant"]) == ["of another model"]


def test_hostile_and_endless_names_are_text(opened):
    keep_pair(opened, label=HOSTILE)
    keep_pair(opened, label="*x*" * 4000)
    at = fine(select(page("runs", opened).run(), 0, 1, 2, 3))
    assert HOSTILE in set(at.dataframe[0].value["variant"])
    assert "<img" not in json.dumps(charts(at)) and HOSTILE not in words(at)
    assert "*x*" not in words(at)  # each star is escaped
    assert max(map(len, words(at).splitlines())) < 2000


def test_a_table_of_many_runs_and_kinds_says_what_it_leaves_out(opened):
    for index in range(15):
        keep_one(label=f"variant {index}", origin=origin(opened))
    at = fine(select(page("runs", opened).run(), *range(15)))
    assert "15 runs are selected; the newest 12 of them are compared" in words(at)
    assert "8 of 15 kinds" in words(at)
    assert len(charts(at)[-1]["data"]) == 8


def test_downloads_are_what_is_chosen(opened):
    keep_pair(opened, slow=8.0)
    keep_pair(opened)
    at = fine(page("runs", opened).run())
    labels = {button.proto.label for button in at.get("download_button")}
    assert labels == {"CSV of 2", "JSON of 2"}
    at = fine(select(at))
    labels = {button.proto.label for button in at.get("download_button")}
    assert labels == {"CSV of 4", "JSON of 4"}


def test_chosen_runs_can_be_forgotten(opened):
    keep_pair(opened, slow=8.0)
    keep_pair(opened)
    at = fine(page("runs", opened).run())
    fine(at.button(key="runs_forget").click().run())
    assert [round(run.median_ms, 2) for run in find_runs()] == [8.2, 4.1]
    assert list(at.dataframe[0].value["median (ms)"].round(2)) == [8.2, 4.1]
    assert not any(button.key == "runs_forget" for button in fine(select(at)).button)


def test_a_damaged_database_is_a_sentence_and_trying_again_works(opened, own_cache):
    own_cache.mkdir()
    file = own_cache / "runs.sqlite"
    file.write_bytes(b"no database" * 100)
    at = page("runs", opened).run()
    assert not at.exception
    assert "cannot be used" in at.error[0].value
    file.unlink()
    keep_pair(opened)
    fine(at.button(key="runs_again").click().run())
    assert len(at.dataframe[0].value) == 2


def test_records_that_are_damaged_leave_the_table(opened, own_cache):
    keep_pair(opened)
    with closing(sqlite3.connect(own_cache / "runs.sqlite")) as database, database:
        database.execute("UPDATE workbench_runs_v1 SET record = '{'")
    at = page("runs", opened).run()
    assert not at.exception
    assert "cannot be used" in at.error[0].value
    assert len(at.dataframe[0].value) == 2


def test_what_a_page_measured_is_kept_with_its_pipeline():
    at = fine(page("optimize", opened_sample("conv_relu_conv_relu")).run())
    fine(at.radio(key="strategy").set_value("greedy").run())
    opened = at.session_state["opened"]
    last = next(i for i, step in enumerate(opened.history.steps) if step.pass_name == "layout_greedy")
    pipelines = {"as loaded": pipeline_until(opened, 0), "last": pipeline_until(opened, last)}
    keep_measured(opened, record({"as loaded": [2.0, 2.0], "last": [1.0, 1.0]}), pipelines)
    loaded, result = find_runs(model_hash=model_hash(opened.graph))
    assert (loaded.pipeline, loaded.model_name) == ("", opened.title)
    assert result.pipeline.startswith("python -m workbench optimize ") and "layout{strategy=greedy}" in result.pipeline
    assert "strategy=greedy" not in pipeline_until(opened, last - 1)


def test_a_measurement_that_cannot_be_kept_is_still_shown(opened, monkeypatch):
    monkeypatch.setenv(URL_VARIABLE, "nonsense")
    at = AppTest.from_string(
        "import streamlit as st\n"
        "from tests.recording import record\n"
        "from workbench.interfaces.ui.state.record_runs import keep_measured, say_not_kept\n"
        "why = keep_measured(st.session_state['opened'], record({'as loaded': [1.0]}), {'as loaded': ''})\n"
        "say_not_kept(why)\n"
    )
    at.session_state["opened"] = opened
    fine(at.run())
    assert "This measurement is shown here but was not kept among the runs" in at.caption[0].value
    assert "cannot be read; write one such as" in at.caption[0].value


def test_csv_has_a_line_for_each_run(opened):
    from workbench.run.records.formats import csv_of

    keep_pair(opened)
    rows = list(csv.DictReader(io.StringIO(csv_of(find_runs()))))
    assert [row["label"] for row in rows] == ["as loaded", "1 greedy"]
