"""Rules inside the bodies of If, Loop and Scan."""

import numpy as np

from passes.cleanup.cancel_transposes import CancelTransposes
from passes.fold.fold_constants import FoldConstants
from tests.running import outputs, typed
from workbench.ir import check, to_text
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

NESTED = """g (float[2,3] x, bool c) => (float[3,2] y) <float[2] k = {1, 2}, int64[2] s = {3, 2}> {
    y = If(c) <
        then_branch = t () => (float[3,2] r) {
            a = Transpose<perm=[1,0]>(x)
            b = Transpose<perm=[1,0]>(a)
            r = If(c) <
                then_branch = tt () => (float[3,2] q) { n = Neg(k)  m = Add(n, k)  p = Reshape(b, s)  q = Add(p, m) },
                else_branch = te () => (float[3,2] q2) { q2 = Reshape(b, s) }
            >
        },
        else_branch = e () => (float[3,2] r2) { r2 = Reshape(x, s) }
    >
}"""


def run(pass_, text):
    graph = typed(text)
    before = to_text(graph)
    step = run_pass(pass_, graph, PassContext(load_profile("cuda")), check_each=True)
    after = to_text(graph)
    for rewrite in reversed(step.rewrites):
        graph.apply(rewrite.inverse)
        check(graph)
    assert to_text(graph) == before
    for rewrite in step.rewrites:
        graph.apply(rewrite.edit)
    assert to_text(graph) == after
    return graph, [rewrite.sentence for rewrite in step.rewrites]


def test_rules_work_inside_bodies_and_say_where():
    graph, sentences = run(CancelTransposes(), NESTED)
    assert sentences == [
        "in then_branch of If 'If_y': perm [1, 0] then [1, 0] is the identity; 12 elements no longer moved"
    ]
    assert "Transpose" not in to_text(graph)


def test_rules_work_in_bodies_of_bodies_and_with_constants_from_outside():
    graph, sentences = run(FoldConstants(), NESTED)
    assert [sentence.partition(": ")[0] for sentence in sentences] == ["in then_branch of If 'If_y'"] * 2
    assert all("in then_branch of If 'If_r'" in sentence for sentence in sentences)
    inner = graph.node("If_y").bodies["then_branch"].node("If_r").bodies["then_branch"]
    assert [node.op for node in inner.nodes] == ["Reshape", "Add"]
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    for condition in (True, False):
        given = {**inputs, "c": np.array(condition)}
        np.testing.assert_array_equal(outputs(graph, given)["y"], outputs(typed(NESTED), given)["y"])
