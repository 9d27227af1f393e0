"""The checker's bounds on small files: the axes of operators, what Transposes, Casts and groups cost at least, and how
that is said."""

from pathlib import Path

import pytest
from onnx import TensorProto, helper, parser

from workbench.checker.axes import AxisUses
from workbench.checker.bounds import checked_bound
from workbench.checker.cast_bound import cast_bound, narrowest_bits, narrowest_bytes
from workbench.checker.cast_traffic import Converted, converted_by_casts, is_float_cast
from workbench.checker.computed import fixed_values
from workbench.checker.files import plain_model
from workbench.checker.grouping_bound import bytes_of_groups, grouping_bound
from workbench.checker.grouping_problem import GROUPING_RULES, grouping_problem
from workbench.checker.kernels import LayoutKernel
from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.output import Output
from workbench.checker.records import Fields
from workbench.checker.transpose_traffic import Moved

FLOAT, HALF, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
IN_FUNCTION = '\n<domain: "f", opset_import: ["": 17]> F (a) => (c) { b = Relu(a) c = Exp(b) }'


def read(text, opset=17, functions="", **dims):
    header = f'<ir_version: 8, opset_import: ["": {opset}, "f": 1]> main '
    return Output(plain_model(parser.parse_model(header + text + functions), Path(), "m.onnx"), dims, "'m.onnx'")


def bound(output, kind, **fields):
    return checked_bound(Fields({"kind": kind} | fields, "bound 1"), output)


def said(output, kind, **fields):
    """The sentences, those that are not proven with a question mark before them."""
    return [("" if s.proven else "? ") + s.sentence for s in bound(output, kind, **fields).statements]


# ---- axes --------------------------------------------------------------------------------------


def slots(text, value="y", held=(), **words):
    output = read(text, **words)  # words: the opset, and sizes
    graph, types = output.inferred.proto.graph, output.inferred.types
    uses = AxisUses(graph, types, output.version, {}, held)
    (node,) = (node for node in graph.node if value in node.output)
    return {use.value: use.slots for use in uses.of(node)}


@pytest.mark.parametrize(
    ("call", "result", "expected"),
    [
        ("Add(x, b)", "2, 3, 4", {"y": (0, 1, 2), "x": (0, 1, 2), "b": (2,)}),
        ("CastLike(x, b)", "2, 3, 4", {"y": (0, 1, 2), "x": (0, 1, 2)}),
        ("Where(c, x, b)", "2, 3, 4", {"y": (0, 1, 2), "c": (1, 2), "x": (0, 1, 2), "b": (2,)}),
        ("Reshape(x, r)", "6, 4", {"x": (6, 6, 24), "y": (6, 24)}),
        ("Flatten(x)", "2, 12", {"x": (2, 24, 24), "y": (2, 24)}),
        ("ReduceMean <axes = [1]> (x)", "2, 1, 4", {"x": (0, 1, 2), "y": (0, 1, 2)}),
        ("ReduceMean <axes = [1], keepdims = 0> (x)", "2, 4", {"x": (0, 1, 2), "y": (0, 2)}),
        ("ReduceMean <axes = [-1], keepdims = 0> (x)", "2, 3", {"x": (0, 1, 2), "y": (0, 1)}),
        ("ReduceMean <keepdims = 0> (x)", "", {"x": (0, 1, 2), "y": ()}),
        ("ReduceSum <keepdims = 0> (x, one)", "2, 4", {"x": (0, 1, 2), "y": (0, 2)}),
        ("ArgMax <axis = 1, keepdims = 0> (x)", "2, 4", {"x": (0, 1, 2), "y": (0, 2)}),
        ("ArgMax <keepdims = 0> (x)", "3, 4", {"x": (0, 1, 2), "y": (1, 2)}),
        ("Gather <axis = 1> (x, i)", "2, 5, 6, 4", {"x": (0, 1, 2), "y": (0, "index 0", "index 1", 2)}),
        ("Gather <axis = -1> (x, one)", "2, 3, 1", {"x": (0, 1, 2), "y": (0, 1, "index 0")}),
        ("Gather(x, one)", "1, 3, 4", {"x": (0, 1, 2), "y": ("index 0", 1, 2)}),
        ("Softmax(x)", "2, 3, 4", {"x": (0, 1, 2), "y": (0, 1, 2)}),
        ("Concat <axis = 1> (x, x2)", "2, 6, 4", {"x": (0, 1, 2), "x2": (0, 1, 2), "y": (0, 1, 2)}),
        ("Conv(x, w)", "2, 1, 4", {"x": (0, 1, 2), "y": (0, 1, 2)}),
        ("MatMul(x, m)", "2, 3, 5", {"x": None, "m": None, "y": None}),
        ("Shape(x)", "3", {}),
    ],
)
def test_which_axes_of_operands_and_results_belong_together(call, result, expected):
    inputs = "float[2, 3, 4] x, float[2, 3, 4] x2, float[4] b, bool[3, 4] c, int64[5, 6] i, float[4, 5] m"
    constants = "int64[2] r = {6, 4}, int64[1] one = {1}, float[1, 3, 1] w = {1, 2, 3}"
    kind = "int64" if call.startswith(("ArgMax", "Shape")) else "float"
    assert slots(f"({inputs}) => ({kind}[{result}] y) <{constants}> {{ y = {call} }}") == expected


def test_a_softmax_before_opset_13_runs_in_one_order_only():
    text = "(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax(x) }"
    assert slots(text, opset=11) == {"x": None, "y": None}


def test_values_of_unknown_shape_are_left_out():
    text = "(float[n, 3] x, float[3] b) => (float[n, 3] y) { y = Add(x, b) }"
    assert slots(text) == {}
    gathered = "(float[2, 3, 4] x, int64[n] i) => (float[2, n, 4] y) {{ y = Gather <axis = {}> (x, i) }}"
    assert slots(gathered.format(1)) == {}
    assert slots(gathered.format(-3), n=5) == {"x": (0, 1, 2), "y": ("index 0", 1, 2)}


def test_what_a_body_reads_has_the_order_in_which_it_stands():
    text = """(float[2, 3] x, bool c) => (float[2, 3] y) {
        y = If (c) <then_branch = t () => (float[2, 3] p) { p = Neg(x) }, else_branch = e () => (float[2, 3] q) { q = Exp(x) }>
    }"""
    assert slots(text) == {"c": None, "y": None, "x": None}


def test_an_operator_that_a_target_holds_stands_as_it_is():
    text = "(float[1, 3, 4] x) => (float[1, 1, 4] y) <float[1, 3, 1] w = {1, 2, 3}> { y = Conv(x, w) }"
    assert slots(text, held=("Conv",)) == {"x": None, "w": None, "y": None}
    assert slots(text, held=("MaxPool",)) == {"x": (0, 1, 2), "y": (0, 1, 2)}


def kernel_uses(channels, *kernels):
    """Of a Conv with so many channels, and of calls of kernels beside it, whether each runs in any order."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    nodes += [helper.make_node(f"Conv_{k.layout}", [f"x{n}"], [f"y{n}"], domain="workbench") for n, k in enumerate(kernels)]  # fmt: skip
    known = {("workbench", f"Conv_{kernel.layout}", ""): kernel for kernel in kernels}
    types = {"x": (FLOAT, (1, 3, 4, 4)), "w": (FLOAT, (channels, 3, 1, 1)), "y": (FLOAT, (1, channels, 4, 4))}
    types |= {f"{name}{n}": (FLOAT, (1, 4, 4, 8)) for n in range(len(kernels)) for name in "xy"}
    uses = AxisUses(helper.make_graph(nodes, "g", [], []), types, 17, known, ("Conv",))
    return [all(use.slots is not None for use in uses.of(node)) for node in nodes]


def test_an_operator_that_stands_in_both_layouts_runs_in_both():
    last, blocks = LayoutKernel("Conv", "NHWC"), LayoutKernel("Conv", "NCHW8c", 8)
    assert kernel_uses(16) == [False] and kernel_uses(16, last) == [True, True]
    assert kernel_uses(16, blocks) == [True, False] and kernel_uses(12, blocks) == [False, False]


# ---- Transposes --------------------------------------------------------------------------------

AROUND = "(float[1, 2, 3, 4] x) => (float[1, 2, 3, 4] y) {{ a = Transpose <perm = [0, 2, 3, 1]> (x) b = {} y = Transpose <perm = [0, 3, 1, 2]> (b) }}"


def test_transposes_around_what_runs_in_any_order_are_not_needed():
    found = said(read(AROUND.format("Relu(a)")), "transposes", weigh="bytes", in_order=[])
    assert found == [
        "? that no alternative moves less than 192 bytes; proven is only that no alternative moves less than 0 bytes, if"
        " the orders of axes of inputs and outputs stay, and any other operator has one order, whichever, for all that it"
        " reads and writes"
    ]
    count = said(read(AROUND.format("Relu(a)")), "transposes", weigh="count", in_order=[])
    assert "runs fewer than 2 Transposes; proven is only that no alternative runs fewer than 0 Transposes" in count[0]


def test_around_what_runs_in_one_order_only_they_are():
    output = read(
        "(float[2, 3] x) => (float[3, 5] y) <float[2, 5] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0}> { a = Transpose(x) y = MatMul(a, w) }"
    )
    found = bound(output, "transposes", weigh="bytes", in_order=[])
    assert found.proven and "proven: no alternative moves less than 24 bytes" in found.statements[0].sentence
    assert "if the orders of axes of inputs and 'MatMul' stay" in found.statements[0].sentence
    assert bound(output, "transposes", weigh="count", in_order=[]).proven


def test_a_transpose_from_input_to_output_is_needed():
    assert bound(read("(float[2, 3] x) => (float[3, 2] y) { y = Transpose(x) }"), "transposes", weigh="bytes").proven


def test_an_operator_in_both_orders_needs_one_transpose_for_its_two_readers():
    text = """(float[2, 3] x, float[3, 4] w) => (float[3, 3] y, float[2, 4] z) {
        r = Exp(x) t = Transpose(r) y = MatMul(t, r) z = MatMul(r, w)
    }"""
    assert bound(read(text), "transposes", weigh="bytes").proven


def test_what_a_target_holds_is_an_operator_that_it_may_hold():
    text = "(float[1, 3, 1, 4] x) => (float[1, 2, 1, 4] y) <float[2, 3, 1, 1] w = {{1, 2, 3, 4, 5, 6}}> {{ a = Transpose <perm = [0, 2, 3, 1]> (x) b = Neg(a) c = Transpose <perm = [0, 3, 1, 2]> (b) y = Conv(c, w) }}"
    output = read(text.format())
    for held in (["Conv"], ["Neg"]):
        found = said(output, "transposes", weigh="count", in_order=held)[0]
        assert ("'Conv'" in found) == (held == ["Conv"]) and "'Neg'" not in found


# ---- Casts -------------------------------------------------------------------------------------

CASTS = "(float[6] x) => (float[6] y) { a = Cast <to = 10> (x) b = Relu(a) y = Cast <to = 1> (b) }"


def test_casts_around_what_runs_in_32_bits_too_are_not_needed():
    found = said(read(CASTS), "casts", weigh="bytes", in_type=[])
    assert found == [
        "between types of floats 'm.onnx' runs 2 Casts, which read and write 72 bytes",
        "? that no alternative reads and writes less than 72 bytes; proven is only that no alternative reads and writes"
        " less than 0 bytes, if inputs and outputs keep their types, and any other operator has all its floats in 32 bits"
        " or more, or all in fewer, 16 at least",
    ]


def test_around_what_is_held_in_its_type_they_are():
    for weigh, least in (("bytes", "reads and writes less than 72 bytes"), ("count", "runs fewer than 2 Casts")):
        found = bound(read(CASTS), "casts", weigh=weigh, in_type=["b"])
        assert found.proven and f"proven: no alternative {least}, if" in found.statements[1].sentence
        assert ", 1 Relu run in fewer than 32 bits, and any other" in found.statements[1].sentence


def test_operators_are_held_by_the_floats_that_they_have():
    text = "(float[6] x, float16[6] h) => (float[6] y, float[6] z) { a = Neg(x) y = Exp(a) z = Cast <to = 1> (h) }"
    held = said(read(text), "casts", weigh="bytes", in_type=["a", "y"])[1]
    assert "if inputs and outputs keep their types, 1 Exp and 1 Neg run in 32 bits or more, and any" in held
    both = '(float16[6] h) => (float[6] y) { a = Exp(h) y = f.G(a) }\n<domain: "f", opset_import: ["": 17]> G (a) => (c) { c = Cast <to = 1> (a) }'
    assert "proven: no alternative" in said(read(both), "casts", weigh="count", in_type=[])[1]


def test_who_is_held_is_there_and_once():
    with pytest.raises(DoesNotHold, match="holds the node that computes 'c', which is not there"):
        bound(read(CASTS), "casts", weigh="bytes", in_type=["c"])
    with pytest.raises(DoesNotHold, match="holds a node twice"):
        bound(read(CASTS), "casts", weigh="bytes", in_type=["b", "b"])


def test_the_narrowest_floats_count():
    assert narrowest_bits({"a": (FLOAT, ()), "b": (HALF, ())}) == 16 == narrowest_bits({"a": (FLOAT, ())})
    assert narrowest_bits({"a": (TensorProto.FLOAT8E5M2, ()), "b": (HALF, ())}) == 8
    assert narrowest_bits({"a": (TensorProto.INT8, ()), "b": None, "c": (DOUBLE, ())}) == 16
    assert narrowest_bytes((FLOAT, (6,)), 16) == 12 == narrowest_bytes((HALF, (6,)), 16)
    assert narrowest_bytes((HALF, (6,)), 32) == 12 and narrowest_bytes((TensorProto.INT64, (6,)), 16) == 48
    assert narrowest_bytes((FLOAT, ("n",)), 16) == 0 == narrowest_bytes((TensorProto.INT64, ("n",)), 16)


def test_what_a_cast_between_floats_is():
    types = {"x": (FLOAT, (2,)), "h": (HALF, (2,)), "i": (TensorProto.INT64, (2,)), "u": None}
    for before, after, is_one in (("x", "h", True), ("h", "x", True), ("x", "x", False), ("i", "x", False),
                                  ("x", "i", False), ("u", "x", True), ("x", "u", True)):  # fmt: skip
        for name in ("Cast", "CastLike", "Relu"):
            node = helper.make_node(name, [before, "k"], [after])
            assert is_float_cast(node, types) == (is_one and name != "Relu"), (before, after, name)


def test_casts_of_computed_values_are_counted():
    text = """(float[6] x, bool c) => (float16[6] y) <float[6] w = {1, 2, 3, 4, 5, 6}> {
        k = Cast <to = 10> (w) a = Cast <to = 10> (x)
        y = If (c) <then_branch = t () => (float16[6] p) { p = Cast <to = 10> (x) }, else_branch = e () => (float16[6] q) { q = Add(a, k) }>
    }"""
    output = read(text)
    found = converted_by_casts(output.inferred, output.fixed, {})
    assert found == Converted(2, 72, 0, 1)
    assert str(found) == "2 Casts, which read and write 72 bytes if each body runs once"
    assert str(Converted(1, 4, 1)) == "1 Cast, which reads and writes 4 bytes, and 1 of them an unknown number"
    assert str(Moved(1, 1_000)) == "1 Transpose, which moves 1,000 bytes"
    assert str(Moved(3, 0, 2, 1)) == "3 Transposes, which move 0 bytes if each body runs once, and 2 of them an unknown number"  # fmt: skip


def test_a_value_that_is_read_in_both_kinds_is_cast_once():
    text = "(float[6] x) => (float16[6] y, float16[6] z, float[6] o) { a = Exp(x) h = Cast <to = 10> (a) y = Neg(h) z = Abs(h) o = Neg(a) }"
    output = read(text)
    found = cast_bound(
        output.inferred.proto.graph, output.inferred.types, (), ("y", "z", "o"), lambda n, bits: n * bits
    )
    assert found.least == 6 * 48 and found.narrowest == 16
    assert found.held == {("Neg", frozenset({False})): 1, ("Abs", frozenset({False})): 1, ("Neg", frozenset({True})): 1}


def test_traffic_is_what_casts_read_and_write_and_twice_what_transposes_move():
    text = "(float[2, 3] x) => (float16[3, 2] y) { a = Cast <to = 10> (x) y = Transpose(a) }"
    found = bound(read(text), "traffic", in_order=[], in_type=[])
    assert found.proven
    assert found.statements[0].sentence == "the Casts and Transposes of 'm.onnx' read and write 60 bytes"
    turned = "(float[2, 3] x) => (float16[3, 2] y) { a = Transpose(x) y = Cast <to = 10> (a) }"
    assert "read and write 84 bytes" in said(read(turned), "traffic")[0] and not bound(read(turned), "traffic").proven


def test_what_depends_on_constants_alone_is_computed_once():
    text = "(float[2] x) => (float[2] y) <float[2] w> { a = Exp(w) b = RandomNormalLike(w) c = f.F(w) d = Add(a, x) y = Sum(a, b, c, d) }"
    nodes = read(text, functions=IN_FUNCTION).model.proto.graph.node
    assert fixed_values(nodes, ("w",)) == {"w", "a"} and fixed_values(nodes, ()) == set()
    assert fixed_values(nodes, ("w",), ("Exp",)) == {"w"}
    own = [helper.make_node("Exp", ["w"], ["a"], domain=domain, overload=o) for domain, o in (("", "o"), ("d", ""))]
    assert fixed_values(own, ("w",)) == {"w"} and fixed_values([helper.make_node("Exp", [], ["a"])], ("w",)) == {"w"}


# ---- groups ------------------------------------------------------------------------------------

TWO = "(float[6] x) => (float[6] y) { a = Relu(x) y = Exp(a) }"
CALL = "(float[6] x) => (float[6] y) { y = f.F(x) }"


def test_each_call_of_a_function_is_a_group():
    apart, together = read(TWO), read(CALL, functions=IN_FUNCTION)
    assert (
        "with each call of a function as one group, read and write 96 bytes" in said(apart, "groups", rules="same")[0]
    )
    assert (
        "proven is only that no alternative reads and writes less than 48 bytes"
        in said(apart, "groups", rules="same")[1]
    )
    assert not any("in none" in sentence for sentence in said(apart, "groups", rules="same"))
    found = bound(together, "groups", rules="same")
    assert found.proven and "read and write 48 bytes" in found.statements[0].sentence


@pytest.mark.parametrize(
    ("nodes", "outputs", "least"),
    [
        ("y = Neg(x)", "y", {"same": 2, "wider": 2, "several": 2}),
        ("a = Neg(x) y = Exp(a)", "y", {"same": 2, "wider": 2, "several": 2}),
        ("a = Neg(x) y = Exp(a)", "y a", {"same": 4, "wider": 4, "several": 3}),
        ("a = Softmax(x) y = Exp(a)", "y", {"same": 2, "wider": 2, "several": 2}),
        ("a = Exp(x) y = Softmax(a)", "y", {"same": 4, "wider": 4, "several": 4}),
        ("a = Softmax(x) y = Transpose(a)", "y", {"same": 4, "wider": 2, "several": 2}),
        ("a = Softmax(x) b = Softmax(x) y = Add(a, b)", "y", {"same": 5, "wider": 5, "several": 5}),
        ("a = Exp(x) b = Neg(a) c = Abs(a) y = Mul(b, c)", "y", {"same": 2, "wider": 2, "several": 2}),
        ("a = Exp(x) b = Softmax(a) y = Mul(a, b)", "y", {"same": 4, "wider": 4, "several": 4}),
        ("a = CumSum(x, k) y = Exp(a)", "y", {"same": 4, "wider": 4, "several": 4}),
        ("a = Transpose(x) y = Exp(a)", "y", {"same": 2, "wider": 2, "several": 2}),
        ("a = Exp(x) b = Neg(a) s = Softmax(a) t = Softmax(s)", "b t", {"same": 8, "wider": 8, "several": 7}),
        ("a = Clip(x) y = Identity(a)", "y", {"same": 2, "wider": 2, "several": 2}),
    ],
)
def test_what_groups_read_and_write_at_least(nodes, outputs, least):
    """In times the bytes of a value."""
    declared = ", ".join(f"float[4, 4] {name}" for name in outputs.split())
    output = read(f"(float[4, 4] x) => ({declared}) <int64 k = {{0}}> {{ {nodes} }}")
    for name, expected in least.items():
        rules = GROUPING_RULES[name]
        problem = grouping_problem(
            output.opened.nodes, outputs.split(), output.inferred.types, output.fixed, 17, {}, rules
        )
        apart = list(range(len(problem.results)))
        found = grouping_bound(problem, apart, rules.multi_output)
        assert found.finished and found.least == 64 * expected, name
        assert found.least <= bytes_of_groups(problem, apart)


def test_what_reductions_allow():
    text = "(float[4, 4] x) => (float[4, 1] y) { a = ReduceMax <axes = [1]> (x) y = Exp(a) }"
    for name, least in (("same", 64 + 3 * 16), ("wider", 64 + 16)):
        output, rules = read(text), GROUPING_RULES[name]
        problem = grouping_problem(output.opened.nodes, ("y",), output.inferred.types, (), 17, {}, rules)
        assert grouping_bound(problem, [0, 1], rules.multi_output).least == least
        assert ("operators follow a reduction" in str(rules)) == (name == "wider")


def test_rules_in_words():
    begins = "a group begins with its only product, which operators follow directly that work element by element"
    assert str(GROUPING_RULES["same"]) == f"{begins}, nothing follows a reduction, and results of one operator leave it"
    several = (
        f"{begins}, or broadcast or select elements, operators follow a reduction, and results of any operator leave it"
    )
    assert str(GROUPING_RULES["several"]) == several


def test_nothing_but_elements_and_selections_follows_a_product():
    for last, joined in (("ReduceMax(a)", False), ("Transpose(a)", True), ("Softmax(a)", False), ("Add(a, row)", True)):
        nodes = parser.parse_graph(f"g (float[4, 4] x, float[4] row) => (float y) {{ a = Softmax(x) y = {last} }}").node
        types = {"x": (FLOAT, (4, 4)), "a": (FLOAT, (4, 4)), "row": (FLOAT, (4,)), "y": (FLOAT, (4, 4))}
        problem = grouping_problem(nodes, ("y",), types, (), 17, {}, GROUPING_RULES["wider"])
        assert bool(problem.joined) == joined, last


def test_what_is_computed_of_constants_is_in_no_group():
    nodes = parser.parse_graph("g (float[4] x) => (float[4] y) <float[4] w> { k = Exp(w) y = Mul(x, k) }").node
    types = dict.fromkeys("xwky", (FLOAT, (4,)))
    problem = grouping_problem(nodes, ("y",), types, ("w",), 17, {}, GROUPING_RULES["same"])
    assert problem.results == [["y"]] and bytes_of_groups(problem, [0]) == 48


def test_sizes_that_are_read_on_the_host_are_no_traffic():
    text = "(float[4, 4] x, int64[2] s) => (float[2, 8] y) { y = Reshape(x, s) }"
    expand = "(float[1, 4] x, int64[2] s) => (float[4, 4] y) { y = Expand(x, s) }"
    for source, moved in ((text, 0), (expand, 16 + 64)):
        output = read(source)
        types = output.inferred.types | {"y": (FLOAT, (4, 4))}
        problem = grouping_problem(output.opened.nodes, ("y",), types, (), 17, {}, GROUPING_RULES["same"])
        assert bytes_of_groups(problem, [0]) == moved


def test_a_resize_selects_or_computes():
    text = '(float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <float[4] s = {{1, 1, 2, 2}}> {{ a = Exp(x) y = Resize <coordinate_transformation_mode = "asymmetric", mode = "{}"> (a, , s) }}'
    for mode, joined in (("nearest", {(0, 1)}), ("linear", set())):
        output = read(text.format(mode))
        problem = grouping_problem(
            output.opened.nodes, ("y",), output.inferred.types, output.fixed, 17, {}, GROUPING_RULES["same"]
        )
        assert problem.joined == joined and problem.products == [False, mode == "linear"]


def test_operators_in_training_stand_alone():
    for call, alone in (
        ("Dropout(x)", set()),
        ("Dropout(x, r, t)", {"Dropout"}),
        ("BatchNormalization(x, v, v, v, v)", set()),
        ("BatchNormalization <training_mode = 1> (x, v, v, v, v)", {"BatchNormalization"}),
        ("NonZero(x)", {"NonZero"}),
        ("LSTM(x, x, x)", {"LSTM"}),
    ):
        nodes = parser.parse_graph(
            f"g (float[2, 2] x, float r, bool t, float[2] v) => (float[2, 2] y) {{ y = {call} }}"
        ).node
        problem = grouping_problem(nodes, ("y",), {}, (), 17, {}, GROUPING_RULES["same"])
        assert problem.alone == alone, call


# ---- what is not checked -------------------------------------------------------------------------


def test_a_bound_of_unknown_sizes_is_not_checked():
    text = "(float[n] x) => (float[n] y) { a = Relu(x) y = Exp(a) }"
    assert said(read(text, n=1), "order")[0].startswith("in the order of 'm.onnx' its 2") and "? its order: not checked, since its sizes are those with n=0" in (
        said(read(text, n=0), "order")[0]
    )  # fmt: skip
    assert said(read(text, n=0), "order")[0].endswith("with which nothing is computed")
    assert "1 values of unknown size" in said(read("(float[n] x) => (float[n] y) { y = Relu(x) }"), "order")[0]
    moved = said(read("(float[n, 2] x) => (float[2, n] y) { y = Transpose(x) }"), "transposes", weigh="bytes")
    assert moved == ["? that no alternative moves less, as some sizes are not known"]
    cast = said(read("(float[n] x) => (float16[n] y) { y = Cast <to = 10> (x) }"), "casts", weigh="bytes")
    assert len(cast) == 1 and cast[0].startswith("? between types")
    assert "without values of unknown size" in said(read(text), "groups", rules="same")[0]


def test_what_only_a_runtime_knows_is_not_checked():
    output = read(TWO)
    output.unknown = ("com.microsoft.Hide",)
    assert said(output, "order") == ["? its order: not checked, since only a runtime says what 'com.microsoft.Hide' do"]


def test_unknown_words_are_refused():
    for kind, fields in (
        ("Order", {}),
        ("transposes", {"weigh": "bits"}),
        ("casts", {"weigh": ""}),
        ("groups", {"rules": "x"}),
    ):
        with pytest.raises(Unreadable, match="unknown"):
            bound(read(TWO), kind, **fields)


def test_the_words_of_orders_and_plans():
    found = bound(read(TWO), "order")
    assert found.proven and [s.sentence for s in found.statements] == [
        "in the order of 'm.onnx' its 2 computed values take 24 bytes at most, with views in place, elementwise results"
        " over an operand, and Concats that copy; proven: one operator alone needs as much in any order"
    ]
    more = "(float[6] x) => (float[6] y) { a = Softmax(x) b = Softmax(a) c = Softmax(x) d = Exp(x) e = Softmax(d) f = Add(c, e) y = Add(b, f) }"
    found = bound(read(more), "order")
    assert not found.proven and [s.proven for s in found.statements] == [True, False]
    assert found.statements[1].sentence.startswith(
        "that no order takes less; proven is only that one operator alone needs"
    )
    plan = bound(read(TWO), "plan", offsets={"a": 0, "y": 24})
    assert not plan.proven and [(s.proven, s.sentence) for s in plan.statements] == [
        (
            True,
            "in the order of 'm.onnx', 2 of the 2 values that it computes lie in an arena of 48 bytes, and no two of them"
            " share bytes while in use, except as views, parts of a Concat, or elementwise results over an operand",
        ),
        (False, "that no arena is smaller; proven is only that the values need 24 bytes at one step"),
    ]
    over = bound(read(TWO), "plan", offsets={"a": 0, "y": 0})
    assert over.proven and over.statements[0].sentence.endswith(
        "; proven: in this order they need as much at one step, however they share bytes so"
    )
    assert [s.sentence for s in over.statements[1:]] == [
        "that kernels exist for the 1 pairs of values that share bytes"
    ]
    part = bound(read(TWO), "plan", offsets={"a": 0})
    assert [s.sentence for s in part.statements[1:]] == [
        "of the plan: 1 computed values have no place",
        "that no arena is smaller",
    ]


def test_sizes_of_symbols_are_said():
    text = "(float[n, m] x) => (float[n, m] y) { y = Relu(x) }"
    assert (
        "in the order of 'm.onnx' its 1 computed values take 24 bytes at most with m=3, n=2, with"
        in (said(read(text, n=2, m=3, other=4), "order")[0])
    )
