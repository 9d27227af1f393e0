"""`memory`: plans of a model's memory and of MiniMalloc's files, as tables, JSON and CSV."""

import json

import pytest

from tests.commands import OCR
from workbench.planning.memory.planners import planners

TRAP = "sample_models/memory/in_place_trap.onnx"


def test_every_planner_has_a_row(done):
    lines = done("memory", OCR).splitlines()
    assert [line.split()[0] for line in lines[1 : len(planners()) + 1]] == list(planners())
    exact = next(line.split() for line in lines if line.startswith("exact"))
    assert exact[1] == exact[2] == "1,354,752" and exact[4] == "yes"
    assert lines[-1] == "peak: 1,354,752 bytes, 0.684 of the 1,981,952 without shared memory"


def test_json_is_what_the_issue_promises(done):
    plan = json.loads(done("memory", TRAP, "--json"))
    assert plan["total_bytes"] == plan["lower_bound_bytes"] == 8196 and plan["certified"] is True
    assert plan["planner"] == "exact" and plan["order"] == "file" and plan["steps"] == ["A", "B", "C", "E", "F"]
    values = {value["name"]: value for value in plan["values"]}
    assert {"name", "kind", "bytes", "offset", "born", "dies", "alias_of"} <= set(values["B"])
    assert values["B"]["alias_of"] == "A" and (values["B"]["born"], values["B"]["dies"]) == (1, 5)
    assert values["x"]["kind"] == "input" and values["x"]["offset"] is None
    assert values["C"]["alias_of"] is None and values["E"]["kind"] == "output"
    assert "Exp 'C' cannot overwrite 'B': ReduceSum 'F' reads it later" in [one["why"] for one in plan["sharing"]]


def test_one_planner_shows_every_value(done):
    text = done("memory", TRAP, "--planner", "greedy_by_size")
    assert "Exp 'C' cannot overwrite 'B': ReduceSum 'F' reads it later" in text
    assert "A, in place" in text


def test_a_model_s_problem_as_csv_is_planned_to_the_same_size(done, tmp_path):
    file = tmp_path / "problem.csv"
    file.write_text(done("memory", OCR, "--csv"))
    assert file.read_text().splitlines()[0] == "id,lower,upper,size"
    plan, same = json.loads(done("memory", OCR, "--json")), json.loads(done("memory", file, "--json"))
    assert same["total_bytes"] == plan["total_bytes"] and same["certified"]
    assert done("memory", file, "--csv").splitlines()[0] == "id,lower,upper,size,offset"
    assert done("memory", file).splitlines()[1].startswith("colouring")


def test_alignment_and_order(done):
    aligned = json.loads(done("memory", TRAP, "--align", "64", "--json"))
    assert aligned["total_bytes"] == 8192 + 64
    assert all(value["offset"] % 64 == 0 for value in aligned["values"] if value["offset"] is not None)
    other = json.loads(done("memory", TRAP, "--order", "breadth_first", "--json"))
    assert other["order"] == "breadth_first" and other["steps"] != ["A", "B", "C", "E", "F"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no column 'id'; its first line must name id, lower, upper, size"),
        ("id,lower,upper,size\na,0,1\n", "line 2 has 3 columns, and the first line 4"),
        ("id,lower,upper,size\na,0,1,-4\n", "line 2: size must be a whole number from 0 to 2^62, not '-4'"),
        ("id,lower,upper,size\na,3,1,4\n", "line 2: upper is not above lower"),
        ("id,lower,upper,size\na,0,1,4\na,0,1,4\n", "line 3: the id 'a' occurs twice"),
        ("id,lower,upper,size,alignment\na,0,1,4,8\n", "has a column 'alignment', which is unknown"),
        ("id,lower,upper,size\na,0,99999999999,4\n", "upper is above 10,000,000"),
        ("id,lower,upper,size\na,0,1,9223372036854775807\n", "more than 2^62 bytes together"),
    ],
)
def test_a_malformed_file_is_one_sentence(refused, tmp_path, text, sentence):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    assert sentence in refused("memory", file)


def test_refusals(refused, tmp_path):
    assert "There is no planner 'nope'; choose one of: colouring" in refused("memory", OCR, "--planner", "nope")
    assert "There is no execution order 'nope'; choose one of: file" in refused("memory", OCR, "--order", "nope")
    (tmp_path / "bytes.csv").write_bytes(b"id,\xff\xfe")
    assert "is not text in UTF-8" in refused("memory", tmp_path / "bytes.csv")
    assert "cannot be read" in refused("memory", tmp_path / "missing.csv")
    (tmp_path / "good.csv").write_text("id,lower,upper,size\na,0,1,4\n")
    assert "leave out the arguments of a model" in refused("memory", tmp_path / "good.csv", "--order", "depth_first")


@pytest.mark.slow
def test_a_plan_for_each_size_of_a_dim(done):
    found = json.loads(done("memory", OCR, "--range", "x_0=1..4", "--json"))
    assert list(found["plans"]) == ["1", "2", "4"] and found["dim"] == "x_0"
    totals = [plan["total_bytes"] for plan in found["plans"].values()]
    assert totals == sorted(totals) and totals[0] == 1_354_752 and found["total_bytes"] == totals[-1]
    text = done("memory", OCR, "--range", "x_0=2,1")
    assert [line.split()[0] for line in text.splitlines()[1:3]] == ["x_0=1", "x_0=2"]
    assert "each plan is for one size, to which smaller inputs are padded" in text


@pytest.mark.parametrize("words", ["x_0", "x_0=", "x_0=4..2", "x_0=0,1", "=3", "x_0=a", "x_0=1...5"])
def test_sizes_that_are_none(refused, words):
    assert "--range takes a dim with sizes" in refused("memory", OCR, "--range", words)


def test_a_dim_that_the_model_lacks(refused):
    assert "has no dimension 'nope'" in refused("memory", OCR, "--range", "nope=1..4")
