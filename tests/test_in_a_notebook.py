"""The library as one meets it in a notebook: names that complete, results that are read, and names that are wrong."""

import re
from pathlib import Path

import pytest

import workbench as wb
from passes import find_pass
from workbench.errors import UserError
from workbench.ir import from_text
from workbench.planning.layout.profile import machine_target

GRAPH = from_text("g (float[2,3] x) => (float[2,3] y) { a = Neg(x)  y = Neg(a) }")


def test_the_verbs_are_what_is_listed():
    assert dir(wb) == sorted(wb.__all__) and "Any" not in dir(wb)
    assert all(callable(getattr(wb, name)) for name in dir(wb))


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ({"passes": ["simplfy"]}, "there is no pass 'simplfy'; did you mean the preset 'simplify'?"),
        ({"passes": ["fold_constant"]}, "there is no pass 'fold_constant'; did you mean 'fold_constants'?"),
        ({"passes": ["record_then_insert"]}, "did you mean the layout strategy 'record-then-insert'?"),
        ({"preset": "fold_constant"}, "there is no preset 'fold_constant'; did you mean the pass 'fold_constants'?"),
        ({"layout": "gredy"}, "there is no layout strategy 'gredy'; did you mean 'greedy'?"),
        ({"target": "cud"}, "there is no target profile 'cud'; did you mean 'cuda'?"),
        ({"preset": "xyz"}, "there is no preset 'xyz'; there are: simplify, default, normalize, none"),
    ],
)
def test_a_wrong_name_gets_the_nearest(asked, meant):
    with pytest.raises(UserError, match=re.escape(meant)):
        wb.optimize(GRAPH, **asked)


def test_a_missing_file_is_what_python_calls_it_too(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        wb.load(tmp_path / "nothing.onnx")


def test_results_are_read_at_a_glance(tmp_path):
    history = wb.optimize(GRAPH, preset="simplify")
    shown = [repr(step) for step in history.steps if step.changed]
    assert (shown and shown[0].endswith(", 2 nodes to 1>")) or "rewrite" in shown[0]
    shown = repr(wb.verify(GRAPH, history.graph))
    assert re.fullmatch(
        r"<Verdict: Equal to the last bit: 1 output\. Compared on \d+ inputs; 1 value inside is equal too\.>", shown
    )
    report = wb.export(history.graph, tmp_path / "y.onnx")
    assert re.fullmatch(r"<ExportReport: .*y\.onnx, 0\.00 MB, opset \d+; checked: onnx\.checker>", repr(report))


@pytest.mark.slow
def test_a_measurement_is_a_table(shared_worker):
    found = wb.measure({"as loaded": GRAPH, "<b>": GRAPH}, repeat=2)
    head, first, second, *notes = repr(found).splitlines()
    assert head.split("  ")[0] == "variant" and "median ms" in head
    assert first.startswith("as loaded  ") and second.startswith("<b>  ")
    assert notes == list(found.notes)
    page = found._repr_html_()
    assert page.count("<tr>") == 3 and "&lt;b&gt;" in page and "<b>" not in page


def test_the_target_is_that_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    if not Path("/dev/nvidiactl").exists():
        assert wb.optimize(GRAPH, []).target == machine_target() == "cpu"
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert wb.optimize(GRAPH, []).target == machine_target() == "cuda"
    assert wb.optimize(GRAPH, [], target="npu").target == "npu"


def test_a_pipeline_is_made_of_texts_and_parts():
    parts = ["dead_nodes", wb.Fixpoint([find_pass("algebra_inverse")()], rounds=2), "layout{strategy=greedy}"]
    history = wb.optimize(GRAPH, parts)
    assert [step.pass_name for step in history.steps[1:]] == [
        "dead_nodes",
        "algebra_inverse",
        "repeat",
        "layout_greedy",
        "repeat",
    ]
    assert wb.optimize(GRAPH, wb.Pipeline([find_pass("algebra_inverse")()])).graph.outputs == GRAPH.outputs
