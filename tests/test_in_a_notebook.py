"""The library as one meets it in a notebook: names that complete, results that are read, and names that are wrong."""

import re

import pytest

import workbench as wb
from workbench.errors import UserError
from workbench.ir import from_text

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
        ({"preset": "xyz"}, "there is no preset 'xyz'; there are: default, none"),
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
    assert repr(wb.verify(GRAPH, history.graph)) == "<Verdict: Equal to the last bit: 1 output.>"
    report = wb.export(history.graph, tmp_path / "y.onnx")
    assert re.fullmatch(r"<ExportReport: .*y\.onnx, 0\.00 MB, opset \d+; checked: onnx\.checker>", repr(report))


def test_a_measurement_is_a_table(shared_worker):
    found = wb.measure({"as loaded": GRAPH, "<b>": GRAPH}, repeat=2)
    head, first, second, *notes = repr(found).splitlines()
    assert head.split("  ")[0] == "variant" and "median ms" in head
    assert first.startswith("as loaded  ") and second.startswith("<b>  ")
    assert notes == list(found.notes)
    page = found._repr_html_()
    assert page.count("<tr>") == 3 and "&lt;b&gt;" in page and "<b>" not in page
