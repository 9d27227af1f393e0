"""How many operators run in the layout that the target requires of them."""

import pytest

import workbench as wb
from tests.conftest import ROOT
from workbench.planning.layout.problem.required_layouts import RequiredLayouts, required_layouts_met
from workbench.planning.layout.profile import load_profile

RESNET = ROOT / "sample_models" / "resnet50_narrow.onnx"


@pytest.mark.parametrize(
    ("target", "layout", "expected"),
    [
        ("cuda", None, (0, 53)),
        ("cuda", "optimal", (53, 53)),
        ("nchw", None, (53, 53)),
        ("blocked", None, (0, 108)),
        ("blocked", "blocked", (108, 108)),
    ],
)
def test_a_result_says_what_of_its_target_it_meets(target, layout, expected):
    graph = wb.optimize(wb.load(RESNET), preset="none", layout=layout, target=target).graph
    assert required_layouts_met(graph, load_profile(target)) == expected


def test_where_nothing_is_required_it_says_none():
    assert str(RequiredLayouts(0, 0)) == "none" and str(RequiredLayouts(1, 1_200)) == "1 of 1,200"


@pytest.mark.slow
def test_the_comparison_of_layouts_has_the_column():
    found = wb.layouts(wb.load(ROOT / "sample_models" / "conv_relu_conv_relu.onnx"), target="cuda", preset="none")
    rows = {name: laid_out.row() for name, laid_out in found.items()}
    assert (rows["none"]["required_layouts_met"], rows["none"]["required_layouts"]) == (0, 2)
    assert rows["optimal"]["required_layouts_met"] == 2
