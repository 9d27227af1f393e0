"""`layouts`: every strategy on one model, side by side."""

import json
import sys

import pytest

import passes as library
from tests.commands import NPU, RESNET
from tests.making import discover_again
from workbench.formats.io import load_model
from workbench.interfaces.api import layouts
from workbench.presentation.explanations.reporting import history_report

WRONG = '''"""A strategy that is wrong."""
from dataclasses import dataclass
from workbench.ir import Edit
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.rewrite import Rewrite

@dataclass(frozen=True)
class LayoutWrong(LayoutStrategy):
    """Makes the first Relu a Sigmoid."""
    title = "Wrong on purpose"
    strategy = "wrong"

    def rewrites(self, graph, context):
        node = next(n for n in graph.nodes if n.op == "Relu")
        yield Rewrite(Edit(remove=(node.name,), insert=(node.replace(op_type="Sigmoid"),)), "wrong", (node.name,))
'''


@pytest.mark.slow
def test_every_strategy_has_a_row(done):
    lines = done("layouts", RESNET, "--target", "cuda").splitlines()
    proofs = [line for line in lines if ": no choice " in line]
    assert [proof.partition(":")[0] for proof in proofs] == ["blocked", "optimal"]
    assert lines[-len(proofs) :] == proofs
    lines = lines[: -len(proofs)]
    assert [line.split()[0] for line in lines] == ["strategy", "none", *library.compared_strategies()]
    assert all(line.endswith("equal") for line in lines[1:])
    assert "602,112 proven" in next(line for line in lines if line.startswith("optimal"))


@pytest.mark.slow
def test_as_json_with_latency(done):
    found = json.loads(done("layouts", NPU, "--target", "npu", "--measure", "--json"))
    assert (found["model"], found["target"]) == (str(NPU), "npu")
    rows = found["strategies"]
    assert rows["none"]["transposes"] == 0 and rows["none"]["seconds"] is None
    assert rows["optimal"]["certified"] is True
    assert (
        rows["optimal"]["bytes_moved"]
        == rows["optimal"]["lower_bound"]
        == min(row["bytes_moved"] for name, row in rows.items() if name not in ("none", "measured"))
    )
    assert all(row["verified"] is True and row["median_ms"] > 0 for row in rows.values())
    assert rows["none"]["ratio"] == 1.0


def test_without_verification(done):
    assert "not verified" in done("layouts", NPU, "--no-verify", "--target", "cuda")


def test_a_target_that_there_is_not(refused):
    assert "there is no target profile 'nope'" in refused("layouts", NPU, "--target", "nope")


@pytest.mark.slow
def test_a_wrong_strategy_is_shown_failing(run, tmp_path, monkeypatch):
    (tmp_path / "layout_wrong.py").write_text(WRONG)
    monkeypatch.setattr(library, "__path__", [*library.__path__, str(tmp_path)])
    discover_again()
    try:
        code, said, _ = run("layouts", RESNET, "--target", "cuda")
    finally:
        discover_again()
        sys.modules.pop("passes.layout_wrong", None)
    assert code == 1
    assert next(line for line in said.splitlines() if line.startswith("wrong")).endswith("NOT EQUAL")


def test_a_strategy_whose_file_does_not_import_is_named(run, tmp_path, monkeypatch):
    (tmp_path / "layout_half_done.py").write_text("import no_such_module")
    monkeypatch.setattr(library, "__path__", [*library.__path__, str(tmp_path)])
    discover_again()
    try:
        code, said, noted = run("layouts", NPU, "--no-verify", "--target", "cuda")
    finally:
        discover_again()
    assert code == 0 and "half-done" not in said
    assert "pass 'layout_half_done' is missing, since its file cannot be imported: ModuleNotFoundError" in noted


def test_the_library_gives_the_histories():
    graph = load_model(NPU)
    found = layouts(graph, target="npu")
    assert list(found) == ["none", *library.compared_strategies()]
    assert history_report(found["greedy"].history)["layout"]["strategy"] == "greedy"
    assert found["greedy"].verdict is None
    assert graph.find("Conv_NHWC") is None


@pytest.mark.slow
def test_a_device_that_is_not_here(refused):
    said = refused("layouts", NPU, "--no-verify", "--measure", "--device", "cuda")
    assert "Device 'cuda' cannot be used" in said and said.count("\n") <= 1
