"""`groups`: the groupings of a model's operators, and what each moves."""

import json

import pytest

import workbench as wb
from tests.commands import OCR
from workbench.planning.fusion.rules import RULES


def test_every_grouping_has_a_row_and_none_is_above_the_one_before(done):
    lines = done("groups", OCR, "--seconds", "5").splitlines()
    assert [line.split()[0] for line in lines] == ["grouping", "unfused", "greedy", *RULES]
    assert len({len(line) for line in lines}) == 1
    moved = [int(line.split()[2].replace(",", "")) for line in lines[1:]]
    assert moved == sorted(moved, reverse=True) and moved[-1] < moved[0] / 2
    assert lines[3].split()[5:7] == ["proven", "0.0%"]


@pytest.mark.slow
def test_the_json_has_what_the_passes_report(done, tmp_path):
    found = json.loads(done("groups", OCR, "--passes", "fold_batchnorm", "--max-operators", "3", "--json"))["groupings"]
    graph = wb.load(OCR)
    for name, row in found.items():
        passes = ["fold_batchnorm", "fuse_groups" if name == "greedy" else "fuse_minimum"]
        options = {f"{passes[1]}.max_operators": 3} | ({} if name == "greedy" else {"fuse_minimum.rules": name})
        facts = wb.optimize(graph, passes, options=options)[2].facts
        assert max(len(group.members) for group in facts.groups) <= 3
        assert row.pop("seconds") >= 0
        assert row == {
            "groups": len(facts.groups),
            "unfused_bytes": facts.traffic.unfused_bytes,
            "bytes": facts.traffic.bytes,
            "bound_bytes": facts.traffic.bound_bytes,
            "certified": facts.traffic.certified,
        }


def test_sizes_that_are_unknown_are_said(done, tmp_path):
    (tmp_path / "m.onnxtxt").write_text(
        """<ir_version: 10, opset_import: ["": 20]>
        g (float[n] x) => (float[m] y) { z = NonZero(x)  c = Cast<to = 1>(z)  s = Squeeze(c)  y = Exp(s) }"""
    )
    *_, last = done("groups", tmp_path / "m.onnxtxt").splitlines()
    assert last.startswith("the memory traffic is unknown")


def test_the_progress_can_stop_it():
    def stop(name, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wb.groupings(wb.load(OCR), on_grouping=stop)


def test_a_pass_that_is_not_there_is_one_sentence(refused):
    assert "there is no pass 'nope'" in refused("groups", OCR, "--passes", "nope")
