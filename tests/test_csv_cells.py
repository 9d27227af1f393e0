"""Tables as CSV: no cell is one that a spreadsheet runs as a formula, and numbers stay numbers."""

import csv
import io

import onnx
import pytest

from workbench.planning.memory.blocks.minimalloc import read_packing
from workbench.run.measurement.formatting import csv_text

FORMULAS = [
    '=HYPERLINK("http://x","y")',
    "+1+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    " =1+1",
    "\t=1+1",
    "\r=1",
    "\n=1",
    "=\n1",
    "＝1+1",
    "＋1",
    "－1+x",
    "＠A",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_cell_that_would_be_run_is_text(formula):
    rows = list(
        csv.reader(io.StringIO(csv_text(["model", formula], [{"model": formula, formula: formula}]), newline=""))
    )
    told = f"'{formula}".replace("\r", "\n")
    assert rows == [["model", told], [told, told]]


def test_no_cell_begins_a_line():
    assert csv_text(["a"], [{"a": "x\r=1+1"}, {"a": "x\n=1+1"}]) == 'a\n"x\n=1+1"\n"x\n=1+1"\n'


@pytest.mark.parametrize(
    "cell", [-1, 2.5, "-1", "+3.5e-07", "-1,234.5", "-", "=", "a=b", "x+y", "me@x", "", "conv-1", None, True]
)
def test_numbers_and_other_texts_stay_as_they_are(cell):
    ((found,),) = csv.reader(io.StringIO(csv_text(["a"], [{"a": cell}]).partition("\n")[2] or "\n", newline="")) or [
        [""]
    ]
    assert found == ("" if cell is None else str(cell))


def test_names_of_a_models_values_in_minimallocs_csv_come_back(done, tmp_path):
    value = "=1+1"
    nodes = [onnx.helper.make_node("Relu", ["x"], [value]), onnx.helper.make_node("Exp", [value], ["@y"])]
    given, made = (onnx.helper.make_tensor_value_info(name, 1, [4]) for name in ("x", "@y"))
    model, file = tmp_path / "m.onnx", tmp_path / "m.csv"
    graph = onnx.helper.make_graph(nodes, "g", [given], [made])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), model)
    file.write_text(done("memory", model, "--csv"))
    assert not any(line.startswith(("=", "+", "-", "@")) for line in file.read_text().splitlines())
    assert {block.name for block in read_packing(file).blocks} <= {value, "@y"}
