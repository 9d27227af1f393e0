"""The files in which a result can be shipped: each is built, compared, measured beside the others, and written."""

from __future__ import annotations

import shlex
import subprocess
import sys
from threading import Event

import onnx
import pytest

from tests.conftest import ROOT
from tests.pages import fine, opened_sample, page
from workbench.interfaces.ui.state import export_variants, histories
from workbench.interfaces.ui.state.session import Spec
from workbench.interfaces.ui.widgets.export_table import ExportFiles
from workbench.pipeline.registry.pass_choice import choose
from workbench.planning.layout.profile import load_profile

ANY, ORT, NHWC, FLOAT16 = (
    export_variants.THIS_RESULT,
    "ONNX for ONNX Runtime",
    "ONNX, channels last",
    "ONNX in float16",
)


@pytest.fixture
def opened():
    result = opened_sample("conv_relu_conv_relu")
    histories.history_of(result, Spec(choose(), load_profile("cpu")), lambda *_: None)
    return result


def written(at) -> onnx.ModelProto:
    return onnx.load_from_string(at.session_state["exported"][2])


def operators(model: onnx.ModelProto) -> list[tuple[str, str]]:
    return sorted((node.domain, node.op_type) for node in model.graph.node)


@pytest.mark.parametrize(
    ("how", "missing", "opens_in"),
    [
        ({}, None, "any runtime"),
        ({"export_for": "onnxruntime"}, ORT, "ONNX Runtime only"),
        ({"layout": "optimal"}, NHWC, "ONNX Runtime, onnx.reference"),
        ({"precision": "optimal"}, FLOAT16, "any runtime that has the opset, with"),
    ],
)
def test_what_the_pipeline_has_already_is_no_further_file(how, missing, opens_in):
    found = export_variants.export_variants(Spec(choose(**how), load_profile("cpu")))
    assert list(found) == [title for title in (ANY, ORT, NHWC, FLOAT16) if title != missing]
    assert found[ANY].opens_in.startswith(opens_in)
    assert "narrower type" in found.get(FLOAT16, found[ANY]).opens_in


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("title", "suffix", "shows"),
    [
        (ANY, "opt", lambda model: {node.domain for node in model.graph.node} == {""}),
        (ORT, "opt.ort", lambda model: ("com.microsoft", "FusedConv") in operators(model)),
        (NHWC, "opt.nhwc", lambda model: any("NHWC" in function.name for function in model.functions)),
        (
            FLOAT16,
            "opt.fp16",
            lambda model: {t.data_type for t in model.graph.initializer} == {onnx.TensorProto.FLOAT16},
        ),
    ],
)
def test_each_file_is_what_its_command_writes(opened, title, suffix, shows, tmp_path):
    at = fine(page("export", opened).run())
    fine(at.radio(key=f"write_{opened.number}").set_value(title).run())
    assert "Equal" in at.success[0].value and shows(written(at))
    command = shlex.split(at.code[-2].value)
    out = f"conv_relu_conv_relu.{suffix}.onnx"
    assert command[:4] == ["python", "-m", "workbench", "optimize"] and out in command
    command[command.index(out)] = str(tmp_path / "out.onnx")
    subprocess.run([sys.executable, *command[1:]], cwd=ROOT, check=True, capture_output=True)
    assert operators(onnx.load(tmp_path / "out.onnx")) == operators(written(at))
    assert opened.spec.pipeline == choose(), "what Optimize shows stays"


@pytest.mark.slow
def test_all_files_are_built_and_measured_beside_the_original(opened):
    at = fine(page("export", opened).run())
    assert [row["result"] for row in at.dataframe[0].value.to_dict("records")] == [""] * 4
    rows = fine(at.button(key="build_variants").click().run()).dataframe[0].value.to_dict("records")
    assert [row["file"] for row in rows] == [ANY, ORT, NHWC, FLOAT16]
    assert all(row["result"] == "equal" and row["latency (ms)"] > 0 and row["size (MB)"] > 0 for row in rows)
    sizes = {row["file"]: row["size (MB)"] for row in rows}
    assert sizes[FLOAT16] < sizes[ANY]
    assert opened.state(ExportFiles).built.spec == opened.spec


@pytest.mark.slow
def test_what_was_built_of_another_pipeline_is_not_shown_as_this_one(opened):
    """Also where the pipeline was changed while the files were built."""
    first = opened.spec
    opened.state(ExportFiles).built = export_variants.build_variants(opened, first, lambda *_: None, Event())
    histories.history_of(opened, Spec(choose(preset="normalize"), load_profile("cpu")), lambda *_: None)
    assert opened.state(ExportFiles).built.histories.keys() == {ANY, ORT, NHWC, FLOAT16}
    rows = fine(page("export", opened).run()).dataframe[0].value.to_dict("records")
    assert opened.state(ExportFiles).built.spec == first != opened.spec and [row["result"] for row in rows] == [""] * 4
