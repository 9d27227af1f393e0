"""The opset and the format of the file that Export writes."""

from __future__ import annotations

import onnx
import pytest

from tests.loading import saved
from tests.pages import fine, opened_file, page, words
from tests.test_written_opset import GELU
from workbench.interfaces.ui.state import histories
from workbench.interfaces.ui.state.session import Spec
from workbench.pipeline.registry.pass_choice import choose
from workbench.planning.layout.profile import load_profile


@pytest.fixture
def opened(tmp_path):
    found = opened_file(saved(tmp_path, GELU, header='<ir_version: 6, opset_import: ["": 12]>\n'))
    spec = Spec(choose("recompose_gelu"), load_profile("cuda"))
    histories.history_of(found, spec, lambda *_: None)
    return found


def prepared(at):
    model = onnx.load_from_string(at.session_state["exported"][2])
    return model.opset_import[0].version, model.ir_version, [node.op_type for node in model.graph.node]


def test_a_raised_opset_is_said_where_the_file_is_taken(opened):
    at = fine(page("export", opened).run())
    assert prepared(at) == (20, 9, ["Gelu", "Unsqueeze"])
    said = words(at).replace("\\", "")
    assert (
        "opset 12 to 20, for Gelu; needs ONNX Runtime 1.17 or newer; `--opset keep` stays at 12, with 4 nodes more"
        in said
    )


def test_the_opset_is_kept_by_running_the_passes_again(opened):
    at = fine(page("export", opened).run())
    fine(at.selectbox(key=f"opset_{opened.number}").set_value("keep").run())
    assert "--opset keep" in at.code[-2].value and "opset='keep'" in at.code[-1].value
    opset, ir, operators = prepared(at)
    assert (opset, ir) == (12, 7) and "Gelu" not in operators
    assert "Opset 12, IR 7" in words(at)
    assert len(opened.history.graph) == 2  # what Optimize shows stays


def test_the_format_can_be_chosen_and_an_impossible_one_is_a_sentence(opened):
    at = fine(page("export", opened).run())
    fine(at.selectbox(key=f"ir_{opened.number}").set_value(10).run())
    assert "--ir 10" in at.code[-2].value
    assert prepared(at)[:2] == (20, 10)
    at.selectbox(key=f"ir_{opened.number}").set_value(4).run()
    assert not at.exception and "IR 4 cannot be written" in at.error[0].value


def test_the_file_says_what_made_each_node_unless_that_is_switched_off(opened):
    at = fine(page("export", opened).run())
    made = []
    for is_on in (True, False):
        fine(at.checkbox(key=f"metadata_{opened.number}").set_value(is_on).run())
        gelu = onnx.load_from_string(at.session_state["exported"][2]).graph.node[0]
        made.append([entry.value for entry in gelu.metadata_props if entry.key == "workbench.pass"])
    assert made == [["recompose_gelu"], []]
    said = "\n".join(code.value for code in at.code)
    assert "--no-metadata" in said and "metadata=False" in said
