"""Every field of models and certificates, changed in turn: nothing false is accepted."""

import json
import re

import numpy as np
import onnxruntime
import pytest

from tests.certifying import certified, certified_plan, small_network
from tests.commands import NHWC, SAMPLES
from tests.forging import (
    changed_contents,
    changed_files,
    forged,
    model_of,
)
from tests.slow import thorough_unless
from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.records import content_digest

EVERYTHING = """
g (float[2,3] x, bool c, float[4] w) => (float[2,3] y, float[2] a, seq(float[2]) q, float[3] k)
   <float[3] s = {1, 2, 3}, float[4] w = {1, 2, 3, 4}, bool[1] b = {1}, int64[1] i = {1}, float[2,3] r>
{
   r = d.F<alpha = 0.5>(x)
   t = Where(b, r, s)
   y = If (c) <then_branch = t () => (float[2,3] ot) { u = Constant<value = float[1] {2}>() ot = Mul (t, u) },
               else_branch = e () => (float[2,3] oe) { oe = Add (t, s) }>
   a, z = Split (w)
   q = SequenceConstruct (a, z)
   h = Gather (s, i)
   k = Add(s, h)
}
<domain: "d", opset_import: ["": 17]>
F <alpha>(p) => (o) { o = LeakyRelu<alpha: float = @alpha>(p) }
"""
GIVEN = {"x": np.array([[1, -2, 3], [-4, 5, -6]], np.float32), "w": np.array([4, 3, 2, 1], np.float32)}


def results(model, given=tuple(GIVEN)):
    """Names and bits of what ONNX Runtime computes without its optimizations, with both branches; None if it does not
    run."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feeds = [{name: GIVEN[name] for name in given} | {"c": np.array(c)} for c in (True, False)]
        return [one.name for one in session.get_outputs()], [bits(session.run(None, feed)) for feed in feeds]
    except Exception:
        return None


def bits(held):
    return [bits(item) for item in held] if isinstance(held, list) else (str(held.dtype), held.shape, held.tobytes())


@pytest.mark.parametrize("side", [pytest.param("output", marks=pytest.mark.slow), thorough_unless(False, "model")])
def test_a_file_that_computes_something_else_is_not_accepted(tmp_path, side):
    """Whichever field of either file is changed, left out, set or doubled: it is refused, or ONNX Runtime computes the
    same, or does not run it."""
    honest = model_of(EVERYTHING)
    assert "checked: it has the same nodes" in forged(tmp_path, honest, honest).check().answer
    right = results(honest)
    assert right is not None
    refused = same = 0
    for what, other in changed_files(honest):
        found = forged(tmp_path, *((honest, other) if side == "output" else (other, honest)))
        try:
            told = found.told()
        except (DoesNotHold, Unreadable) as sentence:
            assert "following it failed" not in str(sentence), what
            refused += 1
            continue
        given = ("x",) if "that are constants in the output: 'w'" in told else tuple(GIVEN)
        assert results(other, given) in (None, right if given == tuple(GIVEN) else results(honest, given)), what
        same += 1
    assert refused > 600 and same > 100


KINDS = {
    "layout": lambda folder: certified(
        small_network(folder / "small.onnx"), folder, passes=["sum_to_add", "layout_optimal"], target="cuda"
    ),
    "blocked": lambda folder: certified(NHWC, folder, layout="blocked", target="blocked"),
    "groups": lambda folder: certified(NHWC, folder, passes=["fuse_minimum"]),
    "types": lambda folder: certified(
        small_network(folder / "small.onnx"), folder, passes=["precision_optimal_with_layout", "precision_optimal"]
    ),
    "order": lambda folder: certified(small_network(folder / "small.onnx"), folder, passes=["order_for_memory"]),
    "plan": lambda folder: certified_plan(SAMPLES / "memory" / "in_place_trap.onnx", folder),
}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("kind", [thorough_unless(kind in ("order", "plan"), kind) for kind in KINDS])
def test_a_changed_certificate_proves_no_more(tmp_path, kind):
    """Whichever value is changed, left out or doubled: it is refused, or what is checked is what was checked before,
    but for what it counts, and for a premise of what is held, which each sentence says itself."""
    honest = KINDS[kind](tmp_path)
    right = honest.check()
    checked = {stable(one.sentence) for one in right.statements if one.proven}
    refused = 0
    for what, content in changed_contents(honest.content):
        content["digest"] = content_digest(content)
        try:
            found = honest.written(json.dumps(content)).check()
        except (DoesNotHold, Unreadable) as sentence:
            assert "following it failed" not in str(sentence), what
            refused += 1
            continue
        assert {stable(one.sentence) for one in found.statements if one.proven} <= checked, what
        assert found.holds <= right.holds, what
    assert refused > 60


def stable(sentence):
    """Without what it counts of the certificate, and without the premises of a proof."""
    sentence = re.sub(r"passes: [\d,]+", "passes", sentence)
    sentence = re.sub(r"[\d,]+ of the [\d,]+ values that (.*) an arena of [\d,]+ bytes", r"\1", sentence)
    sentence = re.sub(r"(proven: no alternative [a-z ]+ [\d,]+[A-Za-z ]*), .*", r"\1", sentence)
    return re.sub(r"; proven: .*", "", sentence)
