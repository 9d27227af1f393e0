"""Names of version 0.1 are read for one version more: in links, recipes, commands and the library."""

from __future__ import annotations

import pytest

import workbench as wb
from passes import find_pass
from tests.commands import NPU
from workbench.pipeline.registry.reading import read_pipeline
from workbench.rewrite.core.identity import present_label, read_rewrite_id

FORMER_PASSES = ("drop_dropout", "drop_zero_states", "feed_inputs", "give_outputs", "layout_optimal_any_order")


@pytest.mark.parametrize("former", FORMER_PASSES)
def test_passes_of_version_0_1_are_found_in_texts_labels_and_links(former):
    (name,) = read_pipeline(former).names
    assert name != former and find_pass(former) is find_pass(name)
    assert present_label(f"{former}#2") == f"{name}#2"
    assert read_rewrite_id(f"{former}.rule@n#0", "repeat").rule == f"{name}.rule"


def test_options_of_version_0_1_are_taken(done, tmp_path):
    out = tmp_path / "out.onnx"
    done("optimize", NPU, "-o", out, "--no-verify", "--layout", "optimal", "--target", "npu", "--feed-inputs")
    said = done("optimize", NPU, "-o", out, "--no-verify", "--layout", "optimal", "--target", "npu", "--give-outputs")
    assert "wrote" in said
    for former, name in (("feed_inputs", "relayout_inputs"), ("give_outputs", "relayout_outputs")):
        history = wb.optimize(wb.load(NPU), layout="optimal", target="npu", **{former: True})
        assert name in [step.pass_name for step in history.steps]


def test_a_strategy_of_version_0_1_is_found_in_texts_links_and_commands(done, tmp_path):
    assert read_pipeline("layout{strategy=optimal-any-order,seconds=5}").names == ("layout_optimal",)
    out = tmp_path / "out.onnx"
    said = done("optimize", NPU, "-o", out, "--no-verify", "--layout", "optimal-any-order", "--target", "npu")
    assert "layout_optimal: no choice among the orders of axes" in said
