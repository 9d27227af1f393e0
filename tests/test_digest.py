"""What a history changed, in kinds: nothing is left out, nothing counts twice, and every front end has it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import workbench as wb
from tests.commands import SAMPLES
from tests.running import typed
from workbench.interfaces.cli.bench import print_difference
from workbench.ir import from_text
from workbench.presentation.explanations.digest import change_digest, digest_of_difference
from workbench.presentation.explanations.digest_text import digest_details, digest_html, digest_markdown, digest_rows
from workbench.presentation.explanations.gain import AFTER, BEFORE, gain_of
from workbench.presentation.explanations.time_changes import difference_with_times
from workbench.rewrite import Exactness

NARROW, OCR = SAMPLES / "resnet50_narrow.onnx", SAMPLES / "ppocr_cls_v2.onnx"
CHOICES = {
    "simplified": (OCR, {}),
    "in the hardware's layout": (OCR, {"layout": "optimal", "target": "cuda"}),
    "in float16": (OCR, {"precision": "optimal"}),
    "by rounds of a fixpoint": (SAMPLES / "silero_vad.onnx", {}),
    "in another tool": (OCR, {"passes": ["onnxslim"]}),
}


@pytest.fixture(scope="module", params=CHOICES.values(), ids=CHOICES)
def history(request):
    model, how = request.param
    return wb.optimize(wb.load(model), **how)


@pytest.mark.slow_after(1)
def test_the_kind_of_a_place_is_found(history):
    digest = change_digest(history)
    for kind in digest.kinds:
        step, rewrite = kind.places[-1][:2]
        assert digest.kind_at(step, rewrite) is kind
    assert digest.kind_at(0, 0) is None, "nothing was rewritten as it was loaded"


def test_each_rewrite_is_in_one_kind_and_their_nodes_sum_to_the_difference(history):
    digest = change_digest(history)
    places = [place for kind in digest.kinds for place in kind.places]
    rewrites = {(i, j): r for i, step in enumerate(history.steps) for j, r in enumerate(step.rewrites)}
    assert sorted(place[:2] for place in places) == sorted(rewrites)
    assert all(place.sentence == rewrites[place[:2]].sentence for place in places)
    before, after = history[0].before["nodes"], history[-1].after["nodes"]  # bodies included
    assert digest.nodes == (before, after)
    assert sum(kind.nodes for kind in digest.kinds) == after - before
    assert digest.changes == len(rewrites) and 0 < len(digest.kinds) < len(rewrites)


def test_a_change_in_a_body_is_told_by_what_changed_in_it():
    body = "b(int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity(c)  k = Neg(s)  m = Neg(k)  t = Mul(m, a) }"
    graph = typed(f"g (float[4] x, int64 n, bool p, float[4] a) => (float[4] y) {{ y = Loop(n, p, x)<body = {body}> }}")
    (kind,) = change_digest(wb.optimize(graph, ["algebra_inverse"])).kinds
    assert (kind.operators, kind.nodes, len(kind.places)) == ("Neg -> nothing", -1, 1)


def test_kinds_have_one_rule_and_one_result_and_the_largest_comes_first(history):
    digest = change_digest(history)
    assert len({kind.title for kind in digest.kinds}) == len(digest.kinds)
    sizes = [max(abs(kind.nodes), len(kind.places)) for kind in digest.kinds]
    assert sizes == sorted(sizes, reverse=True)
    for kind in digest.kinds:
        rewrites = [history[place.step].rewrites[place.rewrite] for place in kind.places]
        assert {"" if r.rule is None else r.rule.name for r in rewrites} == {kind.rule}
        after = {tuple(sorted(node.op for node in r.edit.insert)) for r in rewrites}
        in_body = any(node.bodies for r in rewrites for node in r.edit.insert)  # of which the kind has the operators
        assert in_body or after == {tuple(sorted(op for op, number, _ in kind.after for _ in range(number)))}
        assert kind.exactness in {r.exactness for r in rewrites}


def test_the_bytes_are_those_of_values_that_nodes_write():
    graph = typed("g (float[4,8] x) => (float[4,8] y) { a = Transpose<perm = [1, 0]>(x)  b = Relu(a)"
                  "  y = Transpose<perm = [1, 0]>(b) }")  # fmt: skip
    (kind,) = change_digest(wb.optimize(graph, passes=["push_transposes"])).kinds
    assert (kind.nodes, kind.bytes, kind.exactness) == (-2, -2 * 4 * 8 * 4, Exactness.BIT_EXACT)
    assert kind.operators == "Transpose, Relu, Transpose -> Relu"


def test_operators_have_the_layout_in_which_they_run():
    digest = change_digest(wb.optimize(wb.load(NARROW), layout="record-then-insert", target="cuda"))
    layouts = {one.layout for kind in digest.kinds for one in kind.after if one.op == "workbench.Conv_NHWC"}
    assert layouts == {"NHWC"}


def test_smaller_kinds_share_a_row(history):
    digest = change_digest(history)
    header, *rows = digest_rows(digest, most=1)
    assert header[0] == "what changed" and len(rows) == 2
    assert rows[1][0] == f"{len(digest.kinds) - 1} smaller kinds"
    assert sum(int(row[1].replace(",", "")) for row in rows) == digest.changes
    nodes = [0 if row[3] == "-" else int(row[3].replace(",", "")) for row in rows]
    assert sum(nodes) == digest.nodes[1] - digest.nodes[0]


def test_markdown_and_html_have_a_row_for_each_kind(history):
    digest = change_digest(history)
    all_ = len(digest.kinds)
    text = digest_markdown(digest, all_)
    assert text.startswith(f"{digest.sentence}.") and text.count("\n| ") == 2 + all_
    assert digest_html(digest, all_).count("<tr>") == 1 + all_ == digest_details(digest).count("<tr>")
    assert all(kind.short_title in text for kind in digest.kinds)


def test_nothing_changed_is_said():
    history = wb.optimize(from_text("g (float[4] x) => (float[4] y) { y = Relu(x) }"))
    digest = change_digest(history)
    assert digest.kinds == () and digest.sentence == "g: 1 node, nothing changed"
    assert digest_details(digest) == "" and digest_markdown(digest) == f"{digest.sentence}.\n"


def test_the_command_prints_kinds_and_steps_where_they_are_asked_for(done, tmp_path):
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    said = done("optimize", NARROW, "-o", out, "--report", report)
    assert "fold_batchnorm: after a convolution" in said and " # " not in said
    assert "resnet50_narrow.onnx: 176 nodes to 123" in said
    assert "as loaded" in done("optimize", NARROW, "-o", out, "--steps")
    kinds = json.loads(report.read_text())["digest"]
    assert kinds[0]["rule"] == "after a convolution" and kinds[0]["times"] == len(kinds[0]["places"]) == 53


@pytest.mark.slow
def test_the_report_as_markdown_and_as_a_page(done, tmp_path):
    text, page = tmp_path / "changes.md", tmp_path / "changes.html"
    done("report", NARROW, "-o", text)
    assert text.read_text().startswith("Nodes 176 → 123; result equal")
    done("report", NARROW, "-o", page, "--no-verify")
    assert "<summary>What changed: resnet50_narrow.onnx: 176 nodes to 123" in page.read_text()


def test_a_notebook_shows_it_above_the_graph():
    history = wb.optimize(wb.load(NARROW))
    shown = history._repr_html_()
    assert shown.index("176 nodes to 123") < shown.index("<iframe")


@pytest.mark.slow
def test_the_time_is_that_of_the_operators_of_each_kind():
    """On a busy machine, where the card compares nothing, a kind has none."""
    history = wb.optimize(wb.load(OCR))
    measured = wb.measure({BEFORE: history.initial, AFTER: history.graph}, backend="onnxruntime", repeat=2)
    for is_busy in (False, True):
        after = measured.ran[AFTER]
        after = replace(after, ratio=replace(after.ratio, ratio_busy=is_busy))
        gain = gain_of(history, replace(measured, variants={**measured.variants, AFTER: after}))
        labels = {change.label: change.ms for change in gain.by_change.changes}
        for kind in gain.digest.kinds:
            assert kind.ms == (None if is_busy else labels.get(kind.title, 0.0))
        assert ("ms" in digest_rows(gain.digest)[0]) is not is_busy
        if not is_busy:
            assert gain.digest.by_time().kinds[0].ms == min(kind.ms for kind in gain.digest.kinds)


def test_two_files_have_a_digest_of_what_lies_between_them(done, refused, tmp_path):
    """As for a pull request with another version of a model: nothing is known of how it came about."""
    other, text = tmp_path / "other.onnx", tmp_path / "changes.md"
    wb.export(wb.optimize(wb.load(NARROW)).graph, other)
    digest = digest_of_difference(wb.load(NARROW), wb.load(other))
    assert digest.nodes == (176, 123) and sum(kind.nodes for kind in digest.kinds) == 123 - 176
    assert digest.kinds[0].title == "Conv, BatchNormalization -> Conv" and len(digest.kinds[0].places) == 53
    assert {kind.exactness for kind in digest.kinds} == {None}
    assert "176 nodes to 123, by 53 changes of 1 kind" in done("report", NARROW, "-o", text, "--against", other)
    assert "| Conv, BatchNormalization -> Conv | 53 |" in text.read_text()
    same = done("report", NARROW, "-o", text, "--against", NARROW)
    assert "nothing changed" in same and text.read_text() == "resnet50_narrow.onnx: 176 nodes, nothing changed.\n"
    assert "has the outputs" in refused("report", NARROW, "-o", text, "--against", OCR)


@pytest.mark.slow
def test_the_difference_of_two_files_has_the_times_of_its_kinds(capsys):
    first = wb.load(NARROW)
    second = wb.optimize(first).graph
    measured = wb.measure({"a": first, "b": second}, backend="torch", repeat=2)
    before, after = measured.ran.values()
    (kind,) = difference_with_times(before, after, (first, second), digest_of_difference(first, second)).kinds
    scales = [one.latency.median_ms / sum(op.time_ms for op in one.operators) for one in (before, after)]
    folded = [op for op in before.operators if op.op in ("Conv", "BatchNormalization")]
    convs = [op for op in after.operators if op.op == "Conv"]
    assert (len(folded), len(convs)) == (106, 53)
    expected = scales[1] * sum(op.time_ms for op in convs) - scales[0] * sum(op.time_ms for op in folded)
    assert kind.ms == pytest.approx(expected)

    for is_busy in (False, True):
        ran = replace(after, ratio=replace(after.ratio, ratio_busy=is_busy))
        print_difference(replace(measured, variants={"a": before, "b": ran}), first, second)
        said = capsys.readouterr().out
        assert ("Conv, BatchNormalization" in said and f"{kind.ms:+,.3f}" in said) is not is_busy
    print_difference(measured, first, wb.load(OCR))
    assert capsys.readouterr().out == "", "other inputs: nothing corresponds"
