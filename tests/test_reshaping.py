"""Reshape on permuted operands: against numpy on random shapes, and where it refuses."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.running import typed
from workbench.ir.permutation import channels_last
from workbench.ops import NotPermutable, layout_of
from workbench.ops.permutation.reshaping import axis_groups


@st.composite
def reshapes(draw):
    """Operand and result of one Reshape: dims of 1 to 4 split and merged at random places."""
    dims = draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    assume(np.prod(dims) > 1)

    def joined() -> list[int]:
        shape = [dims[0]]
        for dim in dims[1:]:
            if draw(st.booleans()):
                shape[-1] *= dim
            else:
                shape.append(dim)
        return shape

    operand, result = joined(), joined()
    return operand, result, tuple(draw(st.permutations(range(len(operand)))))


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(reshapes())
def test_a_permuted_operand_gives_the_permuted_result(case):
    operand, result, perm = case
    graph = typed(
        f"g (float{operand} x) => (float{result} y) <int64[{len(result)}] s = {{{', '.join(map(str, result))}}}> "
        "{ y = Reshape(x, s) }"
    )
    node = graph.node("Reshape_y")
    try:
        carried = layout_of(node).propagate_permutation(graph, node, perm)
    except NotPermutable:
        return
    x = np.arange(np.prod(operand)).reshape(operand)
    expected = x.reshape(result)
    if carried.outputs[0] is not None:
        expected = expected.transpose(carried.outputs[0])
    np.testing.assert_array_equal(x.transpose(perm).reshape(carried.constants[1].numpy()), expected)


@pytest.mark.parametrize(
    ("operand", "result", "groups"),
    [
        ((2, 6, 4), (2, 3, 2, 4), [([0], [0]), ([1], [1, 2]), ([2], [3])]),
        ((2, 6, 4, 5), (2, 6, 20), [([0], [0]), ([1], [1]), ([2, 3], [2])]),
        ((2, 6, 1, 1), (2, 6), [([0], [0]), ([1, 2, 3], [1])]),
        (("N", 6, 4), ("N", 24), [([0], [0]), ([1, 2], [1])]),
        (("N", 6), (6, "N"), [([0, 1], [0, 1])]),
        (("N", 6), ("M", 6), None),
        ((4, 6), (5, 5), None),
    ],
)
def test_groups_of_axes(operand, result, groups):
    found = axis_groups(operand, result)
    assert (None if found is None else [(g.operand, g.result) for g in found]) == groups


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "g (float[1,2,4,4] x) => (float[32] y) <int64[1] s = {-1}> { y = Reshape(x, s) }",
            "not adjacent in the other order",
        ),
        (
            "g (float[1,6,4,4] x) => (float[1,2,48] y) <int64[3] s = {1, 2, 48}> { y = Reshape(x, s) }",
            "are not adjacent",
        ),
        ("g (float[N,2,M,4] x) => (y) <int64[2] s = {0, -1}> { y = Reshape(x, s) }", "Reshape"),
    ],
)
def test_refusals(text, words):
    graph = typed(text)
    node = graph.node("Reshape_y")
    with pytest.raises(NotPermutable, match=words):
        layout_of(node).propagate_permutation(graph, node, channels_last(4))


def test_a_symbolic_batch_stays_symbolic():
    graph = typed("g (float[N,6,4,5] x) => (float[N,2,3,4,5] y) <int64[5] s = {-1, 2, 3, 4, 5}> { y = Reshape(x, s) }")
    node = graph.node("Reshape_y")
    carried = layout_of(node).propagate_permutation(graph, node, channels_last(4))
    assert carried.outputs == ((0, 3, 4, 1, 2),)
    assert list(carried.constants[1].numpy()) == [0, 4, 5, 2, 3]
