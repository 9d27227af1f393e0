"""The demonstration that fails: verification finds it, the search names its one wrong rewrite, the app shows both."""

import json

import numpy as np
import pytest

import passes as library
from passes.layout.layout_wrong_on_purpose import LayoutWrongOnPurpose
from tests.commands import NPU, RESHAPE, RESNET
from tests.pages import compared, drawn, opened_sample, page, steps, verdicts, words
from tests.running import outputs, random_inputs, typed
from workbench.pipeline.registry.reading import preset
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

NAME = "wrong-on-purpose"
WRONG = "wrong on purpose: Reshape 'reshape1' was written for NCHW and reads NHWC"


def test_only_demonstrations_are_not_compared():
    assert set(library.strategies()) - set(library.compared_strategies()) == {NAME}
    assert "(demonstration)" in LayoutWrongOnPurpose.title
    assert all("layout_wrong_on_purpose" not in preset(name).names for name in library.presets())


@pytest.mark.parametrize("example", LayoutWrongOnPurpose.extra_examples)
def test_its_example_is_well_formed_and_computes_something_else(example):
    graph = typed(example.before)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    run_pass(LayoutWrongOnPurpose(), graph, PassContext(load_profile(example.target)), check_each=True)
    found = outputs(graph, inputs)
    assert found["output"].shape == expected["output"].shape
    assert not np.allclose(found["output"], expected["output"])


def test_the_command_line_fails_and_names_the_rewrite(run, tmp_path):
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    words = ("optimize", RESHAPE, "-o", out, "--layout", NAME, "--target", "npu", "--report", report)
    code, said, _ = run(*words, "--on-failure", "stop")
    assert code == 1 and not out.exists()
    assert f"layout_wrong_on_purpose: rewrite 2 of 2 broke it: {WRONG}" in said
    found = next(step for step in json.loads(report.read_text())["steps"] if step["pass"] == "layout_wrong_on_purpose")
    assert found["verified"] is False and found["broken_by"].startswith(WRONG)


@pytest.mark.parametrize("model", [NPU, RESNET])
def test_where_no_order_matters_nothing_is_wrong(run, tmp_path, model):
    assert run("optimize", model, "-o", tmp_path / "out.onnx", "--layout", NAME, "--target", "cuda")[0] == 0


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("r = Reshape(c, all)", False),
        ("r = Reshape(c, first)", False),
        ("r = Reshape(c, second)", True),  # its second dim is what the operand has there
        ("r = Flatten<axis=1>(c)", False),
        ("r = Flatten<axis=2>(c)", True),
    ],
)
def test_what_would_change_shape_is_restored(line, stays):
    graph = typed(
        f"""g (float[1,2,4,4] x) => (float y) <float[3,2,1,1] w = {{1, 2, 3, 4, 5, 6}},
        int64[1] all = {{-1}}, int64[2] first = {{0, -1}}, int64[3] second = {{0, 0, -1}}> {{
            c = Conv(x, w)
            {line}
            y = Relu(r)
        }}"""
    )
    run_pass(LayoutWrongOnPurpose(), graph, PassContext(load_profile("cuda")), check_each=True)
    assert ("Transpose" in [node.op for node in graph.nodes[1:]]) == stays


def wrong_page():
    """Optimize with the strategy, as a link or a lesson opens it."""
    at = page("optimize", opened_sample("npu_reshape_add"))
    at.session_state["strategy"] = NAME
    return at.run()


def test_the_app_does_not_offer_it_among_the_strategies():
    at = page("optimize", opened_sample("npu_reshape_add")).run()
    assert not [option for option in at.radio(key="strategy").options if NAME in option]
    at = page("lockstep", opened_sample("npu_reshape_add")).run()
    assert not [option for option in at.selectbox(key="lockstep_left").options if NAME in option]


@pytest.mark.slow
def test_the_app_shows_it_failing():
    at = wrong_page()
    assert f"{NAME} (demonstration)" in at.radio(key="strategy").options
    assert not compared(at).exception
    assert steps(at)[-1]["verdict"] == "NOT EQUAL"
    assert "Rewrite 2 of 2 broke it" in at.error[0].value.replace("\\", "")
    at.button(key="show_broken").click().run()
    assert not at.exception
    shown = drawn(at)
    step = next(i for i, told in enumerate(shown["scene"]["steps"]) if told["ok"] is False)
    assert (shown["at"]["step"], shown["at"]["rewrite"]) == (step, 2)
    assert "was written for NCHW and reads NHWC" in shown["scene"]["rewrites"][-1]["s"]


@pytest.mark.slow
def test_the_app_leaves_it_out_and_goes_on():
    at = wrong_page()
    compared(at).button(key="leave_out").click().run()
    assert verdicts(at) == {"equal"}
    assert not at.exception and not at.error
    assert "Left out of layout_wrong_on_purpose: " in words(at).replace("\\", "")
    assert any("--on-failure skip" in code.value for code in at.code)
    linked = page("optimize")
    for key in ("model", "passes", "target", "leave_out"):
        linked.query_params[key] = at.query_params[key]
    compared(linked.run())
    assert verdicts(linked) == {"equal"}
    assert "Left out of layout_wrong_on_purpose: " in words(linked).replace("\\", "")
    at.button(key="put_back").click().run()
    assert not compared(at).exception
    assert "Rewrite 2 of 2 broke it" in at.error[0].value.replace("\\", "")


@pytest.mark.slow
def test_the_page_of_all_strategies_leaves_it_out():
    at = page("layouts", opened_sample("npu_reshape_add")).run()
    rows = at.dataframe[0].value.to_dict("records")
    assert NAME not in [row["strategy"] for row in rows]
    assert {row["verdict"] for row in rows} == {"equal"}
