"""The user's own inputs in the app, and the graphs inside a graph."""

import io

import numpy as np
import pytest

import workbench as wb
from tests.pages import fine, opened_file, opened_sample, page, words
from tests.running import typed
from workbench.interfaces.ui.screens.lockstep_page import ShownSides
from workbench.interfaces.ui.screens.memory_page import MemoryPlans
from workbench.interfaces.ui.screens.precision_page import PrecisionEffects
from workbench.interfaces.ui.screens.tune_page import Tuning
from workbench.interfaces.ui.state.commands import python_of
from workbench.interfaces.ui.state.histories import checking_of, history_of
from workbench.interfaces.ui.state.model_inputs import use_inputs
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import Spec
from workbench.interfaces.ui.widgets.export_table import ExportFiles
from workbench.pipeline.registry.pass_choice import choose
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.scopes import MAIN, all_graphs
from workbench.run.npz import InputError

SPEC = Spec(choose("fold_batchnorm"), load_profile("cuda"))


class Upload(io.BytesIO):
    """What Streamlit hands over for an uploaded file."""

    name = "mine.npz"

    def getbuffer(self):
        return memoryview(self.getvalue())


def npz(**arrays) -> Upload:
    file = Upload()
    np.savez(file, **arrays)
    return file


def test_own_inputs_are_what_is_compared_and_what_the_command_says():
    opened = opened_sample("resnet50_narrow")
    history_of(opened, SPEC, lambda words, share: None)
    name = opened.graph.inputs[0]
    x = np.full((1, 3, 224, 224), 0.25, np.float32)
    use_inputs(opened, npz(**{name: x}), 0)
    assert opened.history is None
    history = history_of(opened, SPEC, lambda words, share: None)
    checking_of(opened, history, 1, "each")
    opened.checking.wait(180)
    assert history[1].verdict.ok
    np.testing.assert_array_equal(opened.verifier.inputs[name], x)
    at = fine(page("optimize", opened).run())
    assert "--inputs mine.npz" in at.code[0].value
    assert "inputs=np.load('mine.npz')" in python_of(opened, SPEC)


def test_inputs_that_do_not_fit_leave_all_as_it_was():
    opened = opened_sample("resnet50_narrow")
    history = history_of(opened, SPEC, lambda words, share: None)
    with pytest.raises(InputError, match="has no array"):
        use_inputs(opened, npz(other=np.zeros(3, np.float32)), 0)
    assert opened.history is history
    assert opened.inputs == ""


def test_sizes_with_which_the_model_does_not_run_are_told_where_they_are_entered(tmp_path):
    text = "g (float[N,3] x) => (float[2,3] y) <float[2,3] w = {1,2,3,4,5,6}> { y = Mul(x, w) }"
    wb.export(typed(text), tmp_path / "m.onnx")
    at = page("open", opened_file(tmp_path / "m.onnx", {"N": 1}))
    field = next(field for field in fine(at.run()).number_input if field.label == "N")
    field.set_value(5)
    next(button for button in at.button if button.label == "Bind").click().run()
    assert not at.exception
    (error,) = at.error
    assert "does not run with N = 5; bind other sizes. Mul" in error.value.replace("\\", "")
    next(field for field in at.number_input if field.label == "N").set_value(2)
    fine(next(button for button in at.button if button.label == "Bind").click().run())


def test_a_seed_makes_other_inputs():
    opened = opened_sample("conv_relu_conv_relu")
    first = next(iter(opened.verifier.inputs.values()))
    use_inputs(opened, None, 7)
    second = next(iter(opened.verifier.inputs.values()))
    assert first.shape == second.shape
    assert not np.array_equal(first, second)


def test_bodies_are_shown():
    opened = opened_sample("silero_vad")
    inner = all_graphs(opened.graph)
    assert next(iter(inner)) == MAIN
    assert len(inner) > 8
    assert sum(len(graph) for graph in inner.values()) == opened.summary.nodes
    at = fine(page("open", opened).run())
    choice = at.selectbox(key=f"inner_{opened.number}")
    fine(choice.set_value(list(inner)[3]).run())
    assert "nodes" in words(at)


def test_the_layout_of_an_input_can_be_declared():
    opened = opened_sample("npu_reshape_add")
    at = fine(page("open", opened).run())
    field = at.selectbox(key=f"layout_{opened.number}_input3")
    assert field.value == "Tensor" and "NHWC" in field.options
    assert not any(box.key == f"layout_{opened.number}_input1" for box in at.selectbox)  # its Conv tells
    field.set_value("NCHW")
    fine(next(button for button in at.button if button.label == "Declare").click().run())
    assert opened.summary.inputs[1].layout == "NCHW"
    history = history_of(opened, Spec(choose("layout_greedy"), load_profile("npu")), lambda words, share: None)
    checking_of(opened, history, 1, "each")
    opened.checking.wait(180)
    assert history[1].verdict.ok


def test_a_link_declares_the_layouts_that_were_declared():
    opened = opened_sample("npu_reshape_add")
    first = page("open", opened).run()
    first.selectbox(key=f"layout_{opened.number}_input3").set_value("NHWC")
    fine(next(button for button in first.button if button.label == "Declare").click().run())
    linked = page("open")
    for key in ("model", "input_layout"):
        linked.query_params[key] = first.query_params[key]
    fine(linked.run())
    assert linked.session_state["opened"].summary.inputs[1].layout == "NHWC"
    assert "input3=NHWC" in linked.query_params["input_layout"]


def test_a_link_with_a_layout_that_does_not_fit_says_so():
    linked = page("open")
    linked.query_params["model"] = opened_sample("npu_reshape_add").path
    linked.query_params["input_layout"] = ["input9=NHWC"]
    linked.run()
    assert not linked.exception
    assert ["the model has no input 'input9'" in error.value for error in linked.error] == [True]


def test_what_pages_keep_is_forgotten_where_other_inputs_make_it_wrong():
    """Losses of accuracy, views and pairs of pipelines are of the inputs; memory plans and tunings are not."""
    opened = opened_sample("conv_relu_conv_relu")
    kinds = model_states()
    before = {kind: opened.state(kind) for kind in kinds}
    assert {PrecisionEffects, ShownSides, ExportFiles, MemoryPlans, Tuning} <= {*kinds}
    use_inputs(opened, None, 1)
    kept = {kind for kind in kinds if opened.state(kind) is before[kind]}
    assert kept == {kind for kind in kinds if kind.outlives_inputs} and {MemoryPlans, Tuning} <= kept
    assert not {PrecisionEffects, ShownSides, ExportFiles} & kept


def model_states() -> list[type[ModelState]]:
    return [kind for kind in ModelState.__subclasses__() if kind.__module__.startswith("workbench.")]
