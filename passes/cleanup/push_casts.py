"""Remove and move Casts around operators that give the same elements in any element type."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import DataType, Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.between_casts import across_operators
from workbench.rewrite.analyses.casts import require_plain, target_of, type_name
from workbench.rewrite.analyses.element_types import MOVERS
from workbench.rewrite.analyses.moved_casts import REPEATING, after_siblings, before_pieces, before_repeating
from workbench.rewrite.core.guards import require_producer, require_single_use


def match_through(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return across_operators(graph, node, rounds_float16=False)


def match_sibling_casts(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return after_siblings(graph, node, rounds_float16=False)


def match_pieces(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return before_pieces(graph, node, rounds_float16=False)


def match_repeated(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return before_repeating(graph, node, rounds_float16=False)


def match_float16(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """What the four rules refuse since ONNX Runtime may then round to float16 at another place."""
    if node.op == "Split":
        return before_pieces(graph, node, rounds_float16=True)
    if node.op == "Cast":
        above = graph.producer(node.inputs[0])
        try:
            return across_operators(graph, node, rounds_float16=True)
        except NoMatch:
            if above is None or above.op not in REPEATING:
                raise
            return before_repeating(graph, node, rounds_float16=True)
    return after_siblings(graph, node, rounds_float16=True)


def match_indices(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """A Gather, whose indices may be of either type."""
    cast = require_producer(graph, node.inputs[1], ("Cast",), node)
    source, target = require_plain(graph, cast.inputs[0]), target_of(cast)
    if (source, target) != (DataType.INT32, DataType.INT64):
        raise NoMatch(f"{cast} is from {type_name(source)} to {type_name(target)}, not from int32 to int64")
    require_single_use(graph, node, cast)
    edit = Edit(remove=(cast.name,), replace={cast.outputs[0]: cast.inputs[0]})
    return Rewrite(edit, f"{node} takes int32 indices as well; {cast} is removed", (cast.name, node.name))


def _follows_mover(graph: Graph, node: Node) -> bool:
    producer = graph.producer(node.inputs[0])
    return producer is not None and producer.op in MOVERS


@dataclass(frozen=True)
class PushCasts(Pass):
    """Transpose, Reshape, Slice, Gather, Concat, Where, Pad and the like move elements of any type alike. Abs and Neg
    of floats, Relu, and Max and Min of integers give the same in each type that represents them. Five cases:

    - a Cast to a type that represents every number, such operators, and a Cast back: the operators run on the first
      type, both Casts vanish, and constants are stored in that type; if the last Cast is to a third type, one is left;
    - Casts of one type before all operands of a Concat or Where become one after it;
    - Casts of all pieces of a Split become one before it;
    - a Cast moves before an Expand, Tile or Gather that repeats elements;
    - a Gather reads int32 indices that were cast to int64.

    ONNX Runtime's CPU provider has no kernel for float16 of Where, Pad and some others. It computes them in float, and
    leaves out a Cast before them that rounds to float16. A rewrite that may change where is equal up to rounding.

    Casts move down through Concat and Where alone, up through Split, Expand, Tile and Gather alone. Each rewrite leaves
    fewer Casts, or fewer elements to cast.

    Does not apply:

    - to a Cast that loses numbers and a Cast back, as of float by way of float16;
    - to constants with numbers that the type does not represent;
    - to Max and Min of floats, which may give the other of 0 and -0 in another type;
    - if anything else reads an intermediate value, or an operator would move more bytes;
    - to types for which ONNX or ONNX Runtime's CPU provider lack the operator.

    Source: moving elements commutes with what computes each by itself; PropagateCastOps in ONNX Runtime.
    """

    title = "Fewer Casts around operators that move elements"

    rules = (
        Rule(
            "through",
            ("Cast",),
            match_through,
            Example(
                before="""g (float16[N,3] x) => (float16[3,N] y) {
                    a = Cast<to=1>(x)
                    t = Transpose<perm=[1,0]>(a)
                    y = Cast<to=10>(t)
                }""",
                after="g (float16[N,3] x) => (float16[3,N] y) { y = Transpose<perm=[1,0]>(x) }",
                sentences=(
                    "Cast 'Cast_a' and Cast 'Cast_y' cancel across Transpose 'Transpose_t': float represents every"
                    " float16",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[3,N] y)"
                    " { a = Cast<to=10>(x)  t = Transpose<perm=[1,0]>(a)  y = Cast<to=1>(t) }",
                    "float16, to which Cast 'Cast_a' casts, does not represent every float",
                ),
                Refusal(
                    "g (float16[N,2] x) => (float16[M,2] y) <float[1,2] z = {0.1, 65504}>"
                    " { a = Cast<to=1>(x)  c = Concat<axis=0>(a, z)  y = Cast<to=10>(c) }",
                    "float16 does not represent every number of 'z', an operand of Concat 'Concat_c'",
                ),
                Refusal(
                    "g (float16[N,3] x) => (float16[3,N] y, float[3,N] t)"
                    " { a = Cast<to=1>(x)  t = Transpose<perm=[1,0]>(a)  y = Cast<to=10>(t) }",
                    "'t' of Transpose 'Transpose_t' is an output of the graph",
                ),
                Refusal(
                    "g (float16[N] x) => (float16[M] y) <int64[2] p = {1, 0}>"
                    " { a = Cast<to=1>(x)  b = Pad(a, p)  y = Cast<to=10>(b) }",
                    "ONNX Runtime computes Pad 'Pad_b' of float16 in float, and a rounding before it may be lost",
                ),
                Refusal(
                    "g (bool[N] x, bool[N] z, bool[N] c) => (bool[N] y)"
                    " { a = Cast<to=2>(x)  b = Cast<to=2>(z)  w = Where(c, a, b)  y = Cast<to=9>(w) }",
                    "ONNX Runtime has no kernel on the CPU for Where 'Where_w' of bool",
                ),
                Refusal(
                    "g (bool[N] x) => (bool[N] y) { a = Cast<to=1>(x)  r = Relu(a)  y = Cast<to=9>(r) }",
                    "ONNX defines no Relu 'Relu_r' of bool",
                ),
                Refusal(
                    "g (float16[N] x, float16[N] z) => (float16[N] y)"
                    " { a = Cast<to=1>(x)  b = Cast<to=1>(z)  m = Max(a, b)  y = Cast<to=10>(m) }",
                    "Max 'Max_m' may give the other of 0 and -0 in float16",
                ),
                Refusal(
                    "g (int8[N] x) => (int8[N] y) { a = Cast<to=6>(x)  n = Neg(a)  y = Cast<to=3>(n) }",
                    "Neg 'Neg_n' of the smallest int8 is not an int8",
                ),
                Refusal(
                    "g (float16[N] x, int8[N] z) => (float16[M] y)"
                    " { a = Cast<to=1>(x)  b = Cast<to=1>(z)  c = Concat<axis=0>(a, b)  y = Cast<to=10>(c) }",
                    "the Casts before Cast 'Cast_y' are from float16 and int8",
                ),
                Refusal(
                    "g (float16[N,2] x) => (float[N,2] a, double[2,N] y)"
                    " { a = Cast<to=1>(x)  t = Transpose<perm=[1,0]>(a)  y = Cast<to=11>(t) }",
                    "Cast 'Cast_a' and Cast 'Cast_y' do not cancel, and are not known to become one Cast",
                ),
                Refusal(
                    "g (int32[N] x) => (int32[M] y)"
                    " { a = Cast<to=7>(x)  i = Identity(a)  g = Gather(i, i)  y = Cast<to=6>(g) }",
                    "'i' of Identity 'Identity_i' is a shape, an index or a condition too",
                ),
                Refusal(
                    "g (float[N,2] x) => (float16[2,N] y) { t = Transpose<perm=[1,0]>(x)  y = Cast<to=10>(t) }",
                    "'x', which Transpose 'Transpose_t' reads, is neither a constant nor cast or moved",
                ),
            ),
            may_match=_follows_mover,
            exactness=Exactness.BIT_EXACT,
            law="for integers and floats: narrow(widen(x)) == x",
        ),
        Rule(
            "siblings",
            ("Concat", "Where"),
            match_sibling_casts,
            Example(
                before="""g (float16[N,2] x, float16[N,3] z) => (float[N,5] y) {
                    a = Cast<to=1>(x)
                    b = Cast<to=1>(z)
                    y = Concat<axis=1>(a, b)
                }""",
                after="""g (float16[N,2] x, float16[N,3] z) => (float[N,5] y) {
                    y_float16 = Concat<axis=1>(x, z)
                    y = Cast<to=1>(y_float16)
                }""",
                sentences=("2 Casts from float16 to float before Concat 'Concat_y' become one after it",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x, float[N] z) => (float16[M] y)"
                    " { a = Cast<to=10>(x)  b = Cast<to=10>(z)  y = Concat<axis=0>(a, b) }",
                    "Concat 'Concat_y' would move elements of float, which are larger than float16",
                ),
                Refusal(
                    "g (float16[N] x, float[N] z) => (float[M] y) { a = Cast<to=1>(x)  y = Concat<axis=0>(a, z) }",
                    "Concat 'Concat_y' does not combine the results of two or more Casts alone",
                ),
                Refusal(
                    "g (float16[1] x, float16[1] z, bool[N] c) => (float[N] y)"
                    " { a = Cast<to=1>(x)  b = Cast<to=1>(z)  y = Where(c, a, b) }",
                    "Where 'Where_y' is not known to give as few elements as the Casts before it",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "pieces",
            ("Split",),
            match_pieces,
            Example(
                before="""g (double[N,4] x) => (float[N,2] y) {
                    a, b = Split<axis=1, num_outputs=2>(x)
                    c = Cast<to=1>(a)
                    d = Cast<to=1>(b)
                    y = Sub(c, d)
                }""",
                after="""g (double[N,4] x) => (float[N,2] y) {
                    x_float = Cast<to=1>(x)
                    c, d = Split<axis=1, num_outputs=2>(x_float)
                    y = Sub(c, d)
                }""",
                sentences=("2 Casts to float of the pieces of Split 'Split_a' become one before it",),
            ),
            refusals=(
                Refusal(
                    "g (float16[N,4] x) => (float[N,2] c, float[N,2] d)"
                    " { a, b = Split<axis=1, num_outputs=2>(x)  c = Cast<to=1>(a)  d = Cast<to=1>(b) }",
                    "Split 'Split_a' would move elements of float, which are larger than float16",
                ),
                Refusal(
                    "g (float[N,4] x) => (float16[N,2] c, float[N,2] b)"
                    " { a, b = Split<axis=1, num_outputs=2>(x)  c = Cast<to=10>(a) }",
                    "no two pieces of Split 'Split_a' are cast, or to different types",
                ),
                Refusal(
                    "g (float[N,4] x) => (float16[N,2] c, float[N,2] d)"
                    " { a, b = Split<axis=1, num_outputs=2>(x)  c = Cast<to=10>(a)  d = Neg(b) }",
                    "'b' of Split 'Split_a' is not read by one Cast alone",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "repeated",
            ("Cast",),
            match_repeated,
            Example(
                before="""g (int64[3,1] x) => (float[3,4] y) <int64[2] s = {1, 4}> {
                    e = Expand(x, s)
                    y = Cast<to=1>(e)
                }""",
                after="""g (int64[3,1] x) => (float[3,4] y) <int64[2] s = {1, 4}> {
                    x_float = Cast<to=1>(x)
                    y = Expand(x_float, s)
                }""",
                sentences=(
                    "Cast 'Cast_y' is moved before Expand 'Expand_e', which repeats elements: 3 elements are cast,"
                    " not 12",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x, int64[2] i) => (float16[2] y) { g = Gather(x, i)  y = Cast<to=10>(g) }",
                    "Gather 'Gather_g' is not known to give more elements than it reads",
                ),
                Refusal(
                    "g (bool[N] x) => (float[M] y) <int64[1] r = {3}> { t = Tile(x, r)  y = Cast<to=1>(t) }",
                    "Tile 'Tile_t' would move more bytes of float than Cast 'Cast_y' would save",
                ),
                Refusal(
                    "g (float[N] x) => (float16[M] y) <int64[1] r = {3}> { t = Tile(x, r)  y = Cast<to=10>(t) }",
                    "ONNX Runtime computes Tile 'Tile_t' of float16 in float, and a rounding before it may be lost",
                ),
                Refusal(
                    "g (float[1] x) => (float16[4] y) <int64[1] s = {4}> { e = Expand(x, s)  y = Cast<to=10>(e) }",
                    "Cast 'Cast_y' rounds to float16, which ONNX Runtime leaves out before some operators",
                ),
                Refusal(
                    "g (float[1] x, int64[1] s) => (bfloat16[M] y) { e = Expand(x, s)  y = Cast<to=16>(e) }",
                    "ONNX Runtime has no kernel on the CPU for Expand 'Expand_e' of bfloat16",
                ),
            ),
            may_match=_follows_mover,
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "in float16",
            ("Cast", "Concat", "Where", "Split"),
            match_float16,
            Example(
                before="""g (float16[2] x) => (float16[3] y) <int64[2] p = {1, 0}> {
                    a = Cast<to=1>(x)
                    b = Pad(a, p)
                    y = Cast<to=10>(b)
                }""",
                after="g (float16[2] x) => (float16[3] y) <int64[2] p = {1, 0}> { y = Pad(x, p) }",
                sentences=(
                    "Cast 'Cast_a' and Cast 'Cast_y' cancel across Pad 'Pad_b': float represents every float16",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[M] y) <int64[2] p = {1, 0}>"
                    " { a = Cast<to=10>(x)  b = Pad(a, p)  y = Cast<to=1>(b) }",
                    "float16, to which Cast 'Cast_a' casts, does not represent every float",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="for integers and floats: narrow(widen(x)) == x",
        ),
        Rule(
            "indices",
            ("Gather",),
            match_indices,
            Example(
                before="g (float[4] x, int32[N] i) => (float[N] y) { j = Cast<to=7>(i)  y = Gather(x, j) }",
                after="g (float[4] x, int32[N] i) => (float[N] y) { y = Gather(x, i) }",
                sentences=("Gather 'Gather_y' takes int32 indices as well; Cast 'Cast_j' is removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[4] x, int64[N] i) => (float[N] y) { j = Cast<to=6>(i)  y = Gather(x, j) }",
                    "Cast 'Cast_j' is from int64 to int32, not from int32 to int64",
                ),
                Refusal(
                    "g (float[4] x, int32[N] i) => (float[N] y, int64[N] j) { j = Cast<to=7>(i)  y = Gather(x, j) }",
                    "'j' of Cast 'Cast_j' is an output of the graph",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )

    extra_examples = (
        Example(
            title="Several operators, and a constant that is stored in the first type",
            before="""g (int32[N,4] x, bool[N,4] c) => (int32[4,N] y) <int64 z = {-1}> {
                a = Cast<to=7>(x)
                w = Where(c, a, z)
                t = Transpose<perm=[1,0]>(w)
                y = Cast<to=6>(t)
            }""",
            after="""g (int32[N,4] x, bool[N,4] c) => (int32[4,N] y) <int32 z_int32 = {-1}> {
                w_int32 = Where(c, x, z_int32)
                y = Transpose<perm=[1,0]>(w_int32)
            }""",
            sentences=("Cast 'Cast_a' and Cast 'Cast_y' cancel across 2 operators: int64 represents every int32",),
        ),
        Example(
            title="A third type, and a Cast with another reader",
            before="""g (int8[N,4] x, int8[N,4] z) => (int32[N,8] y, int16[N,4] b) {
                a = Cast<to=5>(x)
                b = Cast<to=5>(z)
                c = Concat<axis=1>(a, b)
                y = Cast<to=6>(c)
            }""",
            after="""g (int8[N,4] x, int8[N,4] z) => (int32[N,8] y, int16[N,4] b) {
                b = Cast<to=5>(z)
                c_int8 = Concat<axis=1>(x, z)
                y = Cast<to=6>(c_int8)
            }""",
            sentences=(
                "2 Casts to int16 and Cast 'Cast_y' become one Cast to int32 across Concat 'Concat_c': int16 represents"
                " every int8; Cast 'Cast_b' stays for other readers",
            ),
        ),
        Example(
            title="To float16, up to rounding",
            before="g (float[1] x) => (float16[4] y) <int64[1] s = {4}> { e = Expand(x, s)  y = Cast<to=10>(e) }",
            after="""g (float[1] x) => (float16[4] y) <int64[1] s = {4}> {
                x_float16 = Cast<to=10>(x)
                y = Expand(x_float16, s)
            }""",
            sentences=(
                "Cast 'Cast_y' is moved before Expand 'Expand_e', which repeats elements: 1 element is cast, not 4",
            ),
        ),
        Example(
            title="A constant alone",
            before="g (int64[N] i) => (int32[N] y) <int64[3] w = {5, -1, 2}> { g = Gather(w, i)  y = Cast<to=6>(g) }",
            after="g (int64[N] i) => (int32[N] y) <int32[3] w_int32 = {5, -1, 2}> { y = Gather(w_int32, i) }",
            sentences=("Cast 'Cast_y' is not needed across Gather 'Gather_g': int32 represents all numbers of 'w'",),
        ),
    )
