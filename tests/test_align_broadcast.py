"""What is written in full rank are operands that broadcast, and no others."""

import numpy as np
import pytest

from passes.cleanup.align_broadcast import AlignBroadcast
from tests.running import outputs, random_inputs, typed
from workbench.ir import to_text
from workbench.ops import contract_of
from workbench.ops.permutation.kinds import AGNOSTIC
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

NOT_BROADCAST = {
    "Clip": "<float[1] low = {-1}, float[1] high = {1}> { a = Conv(x, w)  y = Clip(a, low, high) }",
    "CastLike": "<float[1] like = {0}> { a = Conv(x, w)  y = CastLike(a, like) }",
    "Dropout": "<float[1] ratio = {0.5}> { a = Conv(x, w)  y = Dropout(a, ratio) }",
}


@pytest.mark.parametrize("operator", NOT_BROADCAST)
def test_operands_that_broadcast_to_nothing_keep_their_rank(operator):
    text = f"g (float[1,2,3] x, float[2,2,1] w) => (float[1,2,3] y) {NOT_BROADCAST[operator]}"
    graph = typed(text)
    before = to_text(graph)
    assert not run_pass(AlignBroadcast(), graph, PassContext(load_profile("cuda")), check_each=True).rewrites
    assert to_text(graph) == before
    assert contract_of(graph.nodes[-1]).layout.kind == "agnostic", "or the test shows nothing"


def test_a_slope_that_broadcasts_is_still_written_in_full_rank():
    text = """g (float[1,2,3] x, float[2,2,1] w) => (float[1,2,3] y) <float[2,1] slope = {2, 3}>
        { a = Conv(x, w)  y = PRelu(a, slope) }"""
    graph, original = typed(text), typed(text)
    assert len(run_pass(AlignBroadcast(), graph, PassContext(load_profile("cuda")), check_each=True).rewrites) == 1
    assert contract_of(graph.nodes[-1]).layout is AGNOSTIC
    inputs = random_inputs(original)
    np.testing.assert_array_equal(outputs(graph, inputs)["y"], outputs(original, inputs)["y"])
