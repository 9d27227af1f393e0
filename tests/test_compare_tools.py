"""The open model through every optimizer that is here: the command, the page, wrong results and failures."""

import json
from dataclasses import replace
from threading import Event

import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.browser import guarded, running_app, settle
from tests.conftest import CORPUS, ROOT
from tests.pages import fine, opened_file, opened_sample, words
from tests.running import typed
from tests.waiting import LIMIT_S
from tests.wrong_tool import WrongTool
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.study.compare_tools import comparing as compared
from workbench.interfaces.study.compare_tools.comparing import (
    ORIGINAL,
    OURS,
    chosen_tools,
    comparable_tools,
    compare_tools,
)
from workbench.interfaces.study.compare_tools.tool_fault import ToolFault
from workbench.interfaces.ui.screens import compare_tools_page
from workbench.interfaces.ui.screens.compare_tools_page import ComparedTools
from workbench.interfaces.ui.state.reducing import reduce_fault
from workbench.run.worker.client import Worker

KEYS = ["tool", "version", "nodes", "seconds", "peak_bytes", "max_rel_error", "equal", "failed"]
KEYS += ["median_ms", "min_ms", "ratio", "ratio_low", "ratio_high", "ratio_busy"]
MODEL = ROOT / "sample_models" / "resnet50_narrow.onnx"
WRONG = "import os\n\ndef optimize(model):\n    model.graph.node[0].op_type = 'Sin'\n    return model\n"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A wrong tool and one that crashes."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "wrong.py").write_text(WRONG)
    (folder / "crashes.py").write_text("import os\n\ndef optimize(model):\n    os.abort()\n")
    monkeypatch.setenv("WORKBENCH_TOOLS", str(folder))
    wb.export(typed("g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  y = Neg(a) }"), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.slow
def test_the_json_has_a_row_a_tool_the_original_first(done):
    tools = f"{OURS},onnxscript_optimizer,ort_optimizer:extended"
    rows = json.loads(done("compare-tools", MODEL, "--tools", tools, "--repeat", 3, "--json"))
    assert [row["tool"] for row in rows] == [ORIGINAL, OURS, "onnxscript_optimizer", "ort_optimizer:extended"]
    assert all(list(row) == KEYS for row in rows)
    assert all(row["equal"] is True and row["failed"] is None and row["median_ms"] > 0 for row in rows)
    assert [row["nodes"] for row in rows] == [176, 123, 123, 90]
    assert all(row["seconds"] > 0 and row["peak_bytes"] > 10**7 for row in rows[1:])
    assert rows[0]["seconds"] is None and rows[0]["peak_bytes"] is None


@pytest.mark.slow
def test_who_is_wrong_and_who_failed_is_said(own, done):
    out = done("compare-tools", own, "--tools", f"{OURS},wrong,crashes", "--no-measure")
    assert "wrong: Output 'y' differs: relative error" in out
    assert "crashes: The run crashed (SIGABRT)" in out
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "NOT EQUAL" in lines["wrong"] and "failed" in lines["crashes"] and "equal" in lines[OURS]


@pytest.mark.slow
def test_what_the_tools_write_can_be_kept(own, done, tmp_path):
    done("compare-tools", own, "--tools", "wrong,ort_optimizer:basic", "--no-measure", "--save", tmp_path / "kept")
    assert [node.op for node in wb.load(tmp_path / "kept" / "wrong" / "m.onnx").nodes] == ["Sin", "Neg"]
    assert (tmp_path / "kept" / "ort_optimizer_basic" / "m.onnx").is_file()


def test_a_tool_that_is_not_there_is_refused_with_those_that_are(own, refused):
    said = refused("compare-tools", own, "--tools", "no_such")
    assert said.startswith(f"workbench: there is no tool 'no_such'; there are: {ORIGINAL}, {OURS}, onnxoptimizer, ")


@pytest.mark.slow
def test_the_part_that_is_wrong_is_found_by_switching_off_one_at_a_time(tmp_path, monkeypatch):
    text = "g (float[4] x) => (float[4] y) { a = Exp(x)  b = Mul(x, x)  c = Relu(b)  y = Add(a, c) }"
    wb.export(typed(text), tmp_path / "m.onnx")
    monkeypatch.setattr(compared, "tools", lambda: {"wrong_tool": WrongTool})
    graph = wb.load(tmp_path / "m.onnx")
    with Verifier(graph) as verifier:
        found = compare_tools(graph, chosen_tools(["wrong_tool"]), tmp_path, verifier, measure=False)
    result = found["wrong_tool"]
    assert result.verdict.ok is False and result.blamed == ("SinForExp",)
    assert result.row()["failed"].endswith(" It is right without SinForExp.")


def test_a_comparison_that_was_stopped_goes_on_where_it_was(own):
    class Stop(Exception):
        pass

    asked = []

    def stop(words, share):
        asked.append(words)
        if words.startswith("wrong"):
            raise Stop

    graph, found = wb.load(own), {}
    with Verifier(graph) as verifier:
        chosen = chosen_tools(["ort_optimizer:basic", "wrong"])
        with pytest.raises(Stop):
            compare_tools(graph, chosen, own.parent, verifier, measure=False, on_progress=stop, results=found)
        assert list(found) == [ORIGINAL, "ort_optimizer:basic"]
        asked.clear()
        compare_tools(
            graph, chosen, own.parent, verifier, measure=False, on_progress=lambda w, s: asked.append(w), results=found
        )
    assert set(asked) == {"wrong (3 of 3)"}
    assert list(found) == [ORIGINAL, "ort_optimizer:basic", "wrong"]


def test_a_missing_package_is_a_row(monkeypatch):
    monkeypatch.setattr(compared.tools()["onnxsim"], "packages", ("no_such_package",))
    (found,) = (tool for tool in comparable_tools() if tool.name == "onnxsim")
    assert found.missing == "no_such_package is not installed; pip install no_such_package"


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_a_wrong_result_of_another_tool_on_a_real_model(done):
    """onnxslim 0.1.98 merges what two convolutions of this network share."""
    rows = json.loads(
        done("compare-tools", CORPUS / "open_nsfw_resnet.onnx", "--tools", f"{OURS},onnxslim", "--no-measure", "--json")
    )
    original, ours, slim = rows
    assert ours["equal"] and ours["nodes"] < slim["nodes"] < original["nodes"]
    assert slim["equal"] is False and slim["failed"].startswith("Output '4195' differs: relative error 0.0")


# ---- the page ---------------------------------------------------------------------------


def few(names):
    return [tool for tool in comparable_tools() if tool.name in names]


@pytest.mark.slow
def test_the_page_says_what_it_runs_and_shows_a_row_a_tool(monkeypatch):
    monkeypatch.setattr(compare_tools_page, "comparable_tools", lambda: few((ORIGINAL, OURS, "ort_optimizer:basic")))
    script = (
        "from workbench.interfaces.ui.screens.compare_tools_page import compare_tools_page; compare_tools_page(None)"
    )
    at = AppTest.from_string(script, default_timeout=LIMIT_S)
    at.session_state["opened"] = opened_sample("conv_relu_conv_relu")
    fine(at.run())
    assert f"{OURS}, ort" in words(at) and not at.dataframe
    fine(at.button(key="run_tools").click().run())
    rows = at.dataframe[0].value.to_dict("records")
    assert [row["tool"] for row in rows] == [ORIGINAL, OURS, "ort_optimizer:basic"]
    assert {row["result"] for row in rows} == {"equal"} and all(row["median (ms)"] > 0 for row in rows)
    assert fine(at.run()).dataframe, "a second look keeps the results"

    results = at.session_state["opened"].state(ComparedTools).results
    calm = {name: replace(one.latency, others=None, busy=False) for name, one in results.items()}
    for name, latency in calm.items():
        results[name] = replace(results[name], latency=latency)
    assert "The machine was busy" not in words(fine(at.run())) and "min (ms)" not in at.dataframe[0].proto.column_order
    results[OURS] = replace(results[OURS], latency=replace(calm[OURS], busy=True))
    assert f"The machine was busy with something else while '{OURS}' ran" in words(fine(at.run()))
    assert "min (ms)" in at.dataframe[0].proto.column_order, "which the note advises"


@pytest.fixture
def wrong_seen(own, tmp_path, monkeypatch):
    """The page behind a run of a tool that is wrong on an Exp, and one that crashes on it."""
    begins = "import os\n\ndef optimize(model):\n    for node in model.graph.node:\n        if node.op_type == 'Exp':\n"
    (tmp_path / "tools" / "wrong.py").write_text(f"{begins}            node.op_type = 'Sin'\n    return model\n")
    (tmp_path / "tools" / "crashes.py").write_text(f"{begins}            os.abort()\n    return model\n")
    monkeypatch.setattr(compare_tools_page, "comparable_tools", lambda: few((ORIGINAL, OURS, "wrong", "crashes")))
    script = (
        "from workbench.interfaces.ui.screens.compare_tools_page import compare_tools_page; compare_tools_page(None)"
    )
    at = AppTest.from_string(script, default_timeout=LIMIT_S)
    at.session_state["opened"] = opened_file(own)
    fine(at.run())
    return fine(at.button(key="run_tools").click().run())


@pytest.mark.slow
def test_a_report_of_the_defect_is_made_on_the_page(wrong_seen):
    at = wrong_seen
    assert [one.key for one in at.button if "reduce_" in str(one.key)] == ["reduce_crashes", "reduce_wrong"]
    fine(at.button(key="reduce_wrong").click().run())
    assert "1 of 2 nodes** show the fault of wrong" in words(at)
    assert "Exp" in at.code[0].value and "Neg" not in at.code[0].value
    (reduced,) = at.session_state["opened"].state(ComparedTools).reduced.values()
    readme, inputs, model = reduced.files
    assert "compare-tools small.onnx --inputs small.inputs.npz --tools wrong --no-measure" in readme.read_text()
    assert (
        reduced.fault_text.startswith("Output 'a' differs: relative error") and reduced.fault_text in readme.read_text()
    )
    assert [node.op for node in wb.load(model).nodes] == ["Exp"] and inputs.name == "small.inputs.npz"
    assert fine(at.run()).get("download_button"), "a second look keeps the report"
    fine(at.button(key="reduce_crashes").click().run())
    assert "crashed (SIGABRT)" in at.session_state["opened"].state(ComparedTools).reduced["crashes"].fault_text
    fine(at.button(key="run_tools").click().run())
    assert not at.session_state["opened"].state(ComparedTools).reduced, "another run has no reports"


@pytest.mark.slow
def test_a_search_that_is_ended_keeps_the_smallest_part_so_far(wrong_seen):
    opened, finish, heard = wrong_seen.session_state["opened"], Event(), []

    def report(words, share):
        heard.append(words)
        if len(heard) == 4:
            finish.set()

    reduced = reduce_fault(opened, opened.state(ComparedTools).results["wrong"].tool, finish, report)
    assert 1 <= reduced.nodes <= reduced.before == 2 and len(heard) == 4
    finish.set()
    assert (
        reduce_fault(opened, opened.state(ComparedTools).results["wrong"].tool, finish, lambda words, share: None)
        is None
    )


@pytest.mark.slow
def test_a_click_on_a_tool_compares_its_result_with_the_model(browser):
    with running_app() as (address, _), guarded(browser, address) as page:
        page.goto(f"{address}/compare-tools?model=sample_models/npu_types.onnx")
        settle(page)
        page.get_by_role("button", name="Run all tools", exact=True).click()
        table = page.get_by_test_id("stDataFrame")
        table.wait_for(timeout=LIMIT_S * 1000)
        settle(page)
        box = table.bounding_box()
        page.mouse.click(box["x"] + 60, box["y"] + 34 + 26 * 1.5)  # the second row: ours
        page.wait_for_url("**/compare?*")
        settle(page)
        page.get_by_text("nodes by name").first.wait_for()


# ---- the smallest model on which a tool is wrong -----------------------------------------

NEGATIVE_PLACES = """g (float[2,3,4,5] x) => (int64[2] z, float[2,3,4,5] w)
    <int64[1] t = {1}, int64[1] f = {9}, int64[1] i = {0}> {
    a = Relu(x)  b = Sigmoid(a)  c = Mul(b, a)  w = Neg(c)
    k = Shape<start=1, end=-1>(c)  s = Slice(k, t, f, i)  n = Neg(s)  m = Abs(n)  z = Concat<axis=0>(m, m)
}"""  # onnx/optimizer#263


@pytest.mark.slow
def test_a_wrong_result_is_reduced_to_the_nodes_that_it_needs(tmp_path, run):
    if compared.tools()["onnxoptimizer"].missing():
        pytest.skip(compared.tools()["onnxoptimizer"].missing())
    wb.export(typed(NEGATIVE_PLACES), tmp_path / "m.onnx")
    small = tmp_path / "small.onnx"
    code, out, err = run("reduce", tmp_path / "m.onnx", "--tool", "onnxoptimizer", "-o", small)
    assert code == 0, out + err
    assert {node.op for node in wb.load(small).nodes} == {"Shape", "Slice"}
    again = [
        "compare-tools",
        small,
        "--inputs",
        tmp_path / "small.inputs.npz",
        "--tools",
        "onnxoptimizer",
        "--no-measure",
    ]
    assert "NOT EQUAL" in run(*again)[1]


@pytest.mark.slow
def test_a_result_that_cannot_be_opened_is_a_fault_too(tmp_path, run):
    """onnx/optimizer#274, on which onnxslim 0.1.98 leaves a Not of floats."""
    if compared.tools()["onnxslim"].missing():
        pytest.skip(compared.tools()["onnxslim"].missing())
    text = "g (float[4] x) => (float[4] y, bool[4] z) { e = Exp(x)  a, m = Dropout(e)  y = Neg(a)  z = Not(m) }"
    wb.export(typed(text), tmp_path / "m.onnx")
    code, out, err = run("reduce", tmp_path / "m.onnx", "--tool", "onnxslim", "-o", tmp_path / "small.onnx")
    assert code == 0, out + err
    ops = [node.op for node in wb.load(tmp_path / "small.onnx").nodes]
    assert len(ops) == 2 and "Dropout" in ops
    again = ["compare-tools", tmp_path / "small.onnx", "--tools", "onnxslim", "--no-measure"]
    assert "its result cannot be opened" in run(*again)[1]


@pytest.mark.slow
def test_a_fault_is_the_same_fault(own, tmp_path):
    other = tmp_path / "other.onnx"
    wb.export(typed("g (float[2,3] x) => (float[2,3] y) { y = Sin(x) }"), other)
    with Worker() as worker:
        wrong, crashes = (ToolFault(name, worker, 60) for name in ("wrong", "crashes"))
        assert (wrong.exit_code(own, "none.npz"), wrong.exit_code(other, "none.npz")) == (1, 0)
        assert crashes.exit_code(own, "none.npz") == 1
        assert ToolFault("wrong", worker, 60).exit_code(other, "none.npz") == 0


def test_a_tool_that_is_right_leaves_nothing_to_reduce(own, refused, tmp_path):
    said = refused("reduce", own, "--tool", "ort_optimizer:basic", "-o", tmp_path / "s.onnx")
    assert said.endswith("ort_optimizer:basic computes what the model computes, so there is no fault to look for\n")
