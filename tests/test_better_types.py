"""Types that say more, since a pass made more known."""

from tests.running import typed
from workbench.ir import DataType, Edit, TensorType
from workbench.rewrite.analyses.better_types import better_types


def test_a_size_that_is_known_for_one_value_is_known_for_what_is_cut_from_it():
    graph = typed("""g (float[N,24] x, int64[3] s) => (float[K,6,2] y)
        <int64[1] b = {0}, int64[1] e = {6}, int64[1] one = {1}> {
        r = Reshape(x, s)
        cut = Slice(r, b, e, one)
        y = Neg(cut)
    }""")
    known = {"r": ("N", 12, 2), "cut": ("unk__5", 6, 2)}
    graph.apply(Edit(types={value: TensorType(DataType.FLOAT, shape) for value, shape in known.items()}))
    assert better_types(graph)["cut"].shape == ("N", 6, 2)
