"""What the minimum cuts of layouts and element types state: the cost of a graph as it is written is what it moves."""

from dataclasses import replace

import pytest

from tests.precision_graphs import random_image_graph, random_mixed_graph, random_quantized_graph
from tests.running import typed
from workbench.analysis.inference.bound_shapes import infer_sizes
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir import DataType, Graph, Node
from workbench.ir.permutation import perm_of
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.problem.cost_model import BYTES, COUNT, DECIDES, in_unit
from workbench.planning.layout.problem.image_layouts import (
    converts_layout,
    layout_of_images,
    orders_beyond,
    other_layout,
    required_side,
    side_of,
)
from workbench.planning.layout.problem.orders import order_problem, reshape_problem
from workbench.planning.layout.profile import load_profile
from workbench.planning.layout.strategies.order_conversions import fewest_reshapes
from workbench.planning.precision.cast_cost import count_casts, start_of_chain
from workbench.planning.precision.element_types import NotConvertible, float_call
from workbench.planning.precision.joint import orders_and_types
from workbench.planning.precision.joint.orders_and_types import order_and_type_problem
from workbench.planning.precision.problem import precision_problem, type_side, written_side
from workbench.planning.precision.strategies.precision_strategy import TypeChoices
from workbench.planning.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE
from workbench.planning.solvers.solving import solve_integer_program
from workbench.rewrite.core.dead_code import dead_node_removals

FLOAT16 = DataType.FLOAT16
GRAPHS = (random_image_graph, random_mixed_graph, random_quantized_graph)
WEIGHT = "<float[4,4,1,1] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}>"


def sized(graph: Graph) -> Graph:
    for rewrite in dead_node_removals(graph):
        graph.apply(rewrite.edit)
    infer_sizes(graph)
    return graph


def choices_of(graph: Graph, free=(), fixed=()) -> TypeChoices:
    calls = {}
    for node in graph.nodes:
        try:
            calls[node.name] = float_call(graph, node, FLOAT16)
        except NotConvertible:
            continue
    return TypeChoices(graph, FLOAT16, load_profile("cuda"), calls, dict(fixed), {}, None, frozenset(free))


@pytest.mark.parametrize("weigh", [BYTES, COUNT])
@pytest.mark.parametrize("make", GRAPHS[:2])
def test_a_graph_as_it_is_written_costs_what_its_transposes_move(make, weigh):
    compared = 0
    for seed in range(30):
        graph = sized(make(seed))
        stated = order_problem(graph, infer_layouts(graph), load_profile("nchw"), weigh)
        if not all(None in perms for perms in stated.perms):
            continue  # the target demands another layout of an operator
        cost = stated.problem.cost([perms.index(None) for perms in stated.perms])
        counts = count_transposes(graph)
        shared = {(node.inputs[0], perm_of(graph, node)) for node in graph.nodes_of(["Transpose"])}
        chained = any(graph.producer(value).op == "Transpose" for value, _ in shared if graph.producer(value))
        wanted = (counts.bytes_moved, counts.transposes) if weigh == BYTES else (counts.transposes, counts.bytes_moved)
        assert cost[0] + stated.always <= wanted[0]
        if len(shared) == len(graph.nodes_of(["Transpose"])) and not chained:  # else one Transpose does for several
            assert cost[0] + stated.always == wanted[0], seed
            compared += counts.transposes > 0
    assert compared > 4 or make is random_mixed_graph


@pytest.mark.parametrize("weigh", [BYTES, COUNT])
@pytest.mark.parametrize("make", GRAPHS)
def test_a_graph_as_it_is_written_costs_what_its_casts_move(make, weigh):
    compared = 0
    for seed in range(30):
        graph = sized(make(seed))
        choices = choices_of(graph)
        stated = precision_problem(graph, choices.calls, {}, FLOAT16, weigh)
        sides = [0, 1, *(type_side(choices.calls[name].dtype) for name in stated.nodes[2:])]
        cost, counts = stated.problem.cost(tuple(sides)), count_casts(graph, FLOAT16)
        casts = [node.inputs[0] for node in graph.nodes_of(["Cast"])]
        chained = any(producer.op == "Cast" for producer in filter(None, map(graph.producer, casts)))
        if len({*casts}) == len(casts) and not chained:  # else the problem has one Cast for several
            assert in_unit(cost) == (counts.bytes if weigh == BYTES else counts.casts), seed
            compared += counts.casts > 0
        assert in_unit(cost) <= (counts.bytes if weigh == BYTES else counts.casts)
    assert compared > 4 or make is random_quantized_graph


def parts(stated):
    """Choices and shared values, with costs in units: bytes, and what is left of each below one."""
    choices = [
        tuple(None if cost is None else (in_unit(cost), cost % 2**32) for cost in c.costs)
        for c in stated.problem.choices
    ]
    values = [
        (v.producer, v.readers, in_unit(v.paid(FIRST_SIDE)), in_unit(v.paid(LAST_SIDE))) for v in stated.problem.values
    ]
    return choices, values


FIXED = [((0, 0), None), (None, (0, 0))]
FREE = ((0, 0), (0, 1))


def orders_of(text, target="npu", weigh=BYTES):
    graph = sized(typed(text))
    return order_problem(graph, infer_layouts(graph), load_profile(target), weigh)


def test_operators_and_values_of_two_layouts():
    stated = orders_of(f"""g (float[1,4,6,6] x) => (float[1,4,6,6] y, float[1,144] z) {WEIGHT} {{
        a = Conv(x, w)  b = Relu(a)  y = MaxPool<kernel_shape = [1,1]>(b)  z = Flatten(b) }}""")
    last = (0, 2, 3, 1)
    assert stated.nodes == (None, None, "Conv_a", "Relu_b", "MaxPool_y", "Flatten_z")
    assert stated.perms == ((None,), (None,), (last,), (None, last), (None, last), (None,))
    assert (stated.always, stated.kept, stated.incomplete) == (0, 1, "")  # Flatten keeps its order
    assert stated.problem.conversion_costs == ((576, 1, 0, 0),) * 5
    written, turned = stated.problem.choices[3]
    assert (written.cost, turned.cost) == ((0, 0, 0, 0), (0, 0, 0, 1))
    assert written.gives == ((2, (1, 2, 3)),) and turned.gives == ((2, (2, 3, 1)),)  # a batch of 1 does not count
    assert stated.chosen((0, 0, 0, 1, 0, 0)) == {"Conv_a": last, "Relu_b": last}
    assert stated.problem.cost((0, 0, 0, 0, 0, 0)) == (2 * 576, 2, 0, 1)
    solution = solve_integer_program(stated.problem)
    assert stated.chosen(solution.forms) == {"Conv_a": last} and solution.cost == (2 * 576, 2, 0, 1)


def test_a_broadcast_operand_is_turned_once_and_never_moved_where_it_is_thin():
    stated = orders_of(f"""g (float[1,4,6,8] x, float[4,6,8] k, float[4,1,1] thin) => (float[1,4,6,8] y) {WEIGHT} {{
        a = Conv(x, w)  b = Mul(a, k)  c = Add(b, k)  y = Sub(c, thin) }}""")
    both = [0] * len(stated.nodes)
    for name in ("Mul_b", "Add_c", "Sub_y"):
        both[stated.nodes.index(name)] = stated.perms[stated.nodes.index(name)].index((0, 2, 3, 1))
    assert stated.problem.cost(both)[:2] == (2 * 768 + 768, 3)  # x, y, and k once
    assert stated.problem.cost([0] * len(both))[:2] == (2 * 768, 2)


def test_orders_that_are_equal_in_memory_differ_by_a_reshape():
    """Of a value that has them in one graph, and of no other."""
    stated = orders_of(f"""g (float[1,4,6,6] x) => (float[1,4,1,1] y) {WEIGHT} {{
        a = Conv(x, w)  b = GlobalAveragePool(a)  y = Relu(b) }}""")
    written, pool, both = [0] * 5, [0, 0, 0, 1, 0], [0, 0, 0, 1, 1]
    assert stated.nodes[2:] == ("Conv_a", "GlobalAveragePool_b", "Relu_y")
    assert [stated.problem.cost(forms) for forms in (written, pool, both)] == [
        (2 * 576, 2, 0, 1),  # x to the Conv, and back
        (576, 1, 1, 2),  # x, and the pool's result reshaped
        (576, 1, 1, 3),  # x, and the output reshaped
    ]
    assert stated.problem.conversion_costs[4:] == ((0, 0, 1, 0),) * 2  # b and y


def test_only_reshapes_are_chosen_where_nothing_else_may_change():
    text = f"""g (float[1,4,6,6] x) => (float[1,4,1,1] y) {WEIGHT} {{
        a = Exp(x)  b = GlobalAveragePool(a)  c = Transpose<perm=[0,2,3,1]>(b)  d = Relu(c)
        y = Transpose<perm=[0,3,1,2]>(d) }}"""
    graph = sized(typed(text))
    stated = reshape_problem(graph, infer_layouts(graph), load_profile("npu"), BYTES)
    assert all(perms in ((None,), (None, (0, 3, 1, 2))) for perms in stated.perms)  # Relu alone
    solution = solve_integer_program(stated.problem)
    assert stated.chosen(solution.forms) == {"Relu_d": (0, 3, 1, 2)} and solution.cost == (0, 0, 0, 1)


def test_a_transpose_to_neither_layout_may_take_either():
    stated = orders_of(
        f"g (float[1,4,6,8] x) => (float[1,8,4,6] y) {WEIGHT} {{ a = Conv(x, w)  y = Transpose<perm=[0,3,1,2]>(a) }}"
    )
    assert stated.nodes == (None, None, "Conv_a")  # a Transpose is no operator
    assert stated.problem.cost((0, 0, 0)) == (2 * 768, 2, 0, 1)


def test_transposes_that_no_choice_affects_cost_always():
    stated = orders_of(
        """g (bool c, float[2,3] x) => (float[3,2] y, float[3,2] z) {
        z = Transpose(x)
        y = If(c) <then_branch = t () => (float[3,2] p) { p = Transpose(x) }, else_branch = e () => (float[3,2] q) { q = Identity(z) }> }""",
        weigh=COUNT,
    )
    assert stated.always == 1 and stated.problem.cost((0, 0, 0)) == (1, 24, 0, 0)  # the one in the body, and z


def test_operators_that_keep_their_order_are_counted():
    stated = orders_of("""g (float[2,3,4] x) => (float[4,2,3] y, float[2,12] f) {
        t = Transpose<perm=[2,0,1]>(x)  y = Relu(t)  f = Flatten(x) }""")
    assert stated.kept == 1 and stated.over.endswith("target name, where 1 operator keeps its own,")
    assert replace(stated, kept=2_000).over.endswith(", where 2,000 operators keep their own,")
    assert not replace(stated, kept=0).over.endswith(",")


def test_sides_and_layouts():
    assert [side_of(layout) for layout in ("NCHW", "NHWC", "NCW", "NWC", "Tensor", None, "NWCH")] == [
        0,
        1,
        0,
        1,
        None,
        None,
        None,
    ]
    assert other_layout("NCHW") == ("NHWC", (0, 2, 3, 1)) and other_layout("NHWC") == ("NCHW", (0, 3, 1, 2))
    node = Node("F", ("a", "b"), ("c", "d"), name="f")
    assert layout_of_images(node, {"b": "Tensor", "c": "NHWC", "d": "NCHW"}) == "NHWC"
    assert layout_of_images(node, {"b": "OIHW"}) is None
    assert (
        required_side(load_profile("npu"), "Conv") == LAST_SIDE
        and required_side(load_profile("cpu"), "Conv") == FIRST_SIDE
    )
    assert required_side(load_profile("cpu"), "Relu") is None


def test_transposes_between_the_two_layouts_and_others():
    graph = typed(f"""g (float[1,4,6,8] x) => (float[1,6,8,4] y, float[1,8,4,6] z) {WEIGHT} {{
        a = Conv(x, w)  b = Transpose<perm=[0,2,3,1]>(a)  c = Transpose<perm=[0,3,1,2]>(b)  y = Transpose<perm=[0,2,3,1]>(c)
        z = Transpose<perm=[0,3,1,2]>(a) }}""")
    layouts = infer_layouts(graph)
    assert [converts_layout(graph, graph.producer(value), layouts) for value in "abcyz"] == [
        False,
        True,
        True,
        True,
        False,
    ]

    def converts(node):
        return converts_layout(graph, node, layouts)

    assert [start_of_chain(graph, value, converts) for value in "xabcyz"] == ["x", "a", "a", "a", "a", "z"]
    assert orders_beyond(graph) == "other orders of axes, which optimal searches,"
    same = typed(
        f"g (float[1,4,6,8] x) => (float[1,6,8,4] y) {WEIGHT} {{ a = Conv(x, w)  y = Transpose<perm=[0,2,3,1]>(a) }}"
    )
    assert orders_beyond(same) == ""


def test_the_fewest_reshapes_are_left_where_nothing_moves():
    text = f"""g (float[1,1,1,4] x) => (float[1,4,1,1] y) {WEIGHT} {{
        a = Transpose<perm=[0,3,1,2]>(x)  b = Relu(a)  c = Transpose<perm=[0,2,3,1]>(b)  d = Exp(c)  y = Transpose<perm=[0,3,1,2]>(d) }}"""
    graph = typed(text)
    for rewrite in fewest_reshapes(graph, load_profile("npu"), BYTES):
        graph.apply(rewrite.edit)
    assert count_transposes(graph).bytes_moved == 0


# ---- element types -----------------------------------------------------------


def types_of(text, weigh=BYTES, fixed=(), free=()):
    graph = typed(text)
    choices = choices_of(graph, free, fixed)
    return graph, precision_problem(graph, choices.calls, choices.fixed, FLOAT16, weigh, None, choices.free_border)


CASTS = """g (float[2,3] x) => (float16[2,3] y) {
    a = Relu(x)  b = Cast<to = 10>(a)  c = Exp(b)  d = Cast<to = 1>(c)  e = Neg(d)  y = Cast<to = 10>(e) }"""


def test_operators_and_values_of_two_types():
    graph, stated = types_of(CASTS)
    assert stated.nodes == (None, None, "Relu_a", "Exp_c", "Neg_e") and stated.complete
    choices, values = parts(stated)
    assert choices == [*FIXED, FREE, ((0, 1), (0, 0)), FREE]
    assert values == [(0, (2,), 36, 36), (2, (3,), 36, 36), (3, (4,), 36, 36), (4, (1,), 36, 36)]
    assert [written_side(graph, value) for value in "xabcdey"] == [0, 0, 1, 1, 0, 0, 1]
    assert (type_side(DataType.FLOAT), type_side(FLOAT16)) == (FIRST_SIDE, LAST_SIDE)
    _, counted = types_of(CASTS, COUNT, fixed={"Relu_a": FIRST_SIDE, "Exp_c": LAST_SIDE})
    choices, values = parts(counted)
    assert choices == [*FIXED, ((0, 0), None), (None, (0, 0)), FREE] and values[0] == (0, (2,), 1, 1)
    assert counted.problem.values[0].paid(FIRST_SIDE) % DECIDES == 36 * 2**32


def test_inputs_and_outputs_whose_type_is_free():
    """Such an input is a choice, and such an output needs no side."""
    text = "g (float[2] x, float[2] u) => (float[2] y, float[2] z) { y = Relu(x)  a = Cast<to = 10>(u)  b = Exp(a)  z = Cast<to = 1>(b) }"
    _, stated = types_of(text, free=("x", "u", "y"))
    choices, values = parts(stated)
    assert choices == [*FIXED, FREE, ((0, 1), (0, 0)), FREE, FREE]
    assert values == [(4, (2,), 12, 12), (5, (3,), 12, 12), (2, (), 12, 12), (3, (0,), 12, 12)]
    _, fixed = types_of(text)
    assert parts(fixed)[1] == [(0, (2,), 12, 12), (0, (3,), 12, 12), (2, (0,), 12, 12), (3, (0,), 12, 12)]
    _, only_output = types_of(text, free=("y",))
    assert parts(only_output)[1][0] == (0, (2,), 12, 12)


def test_rounded_numbers_and_constants_are_there_in_the_narrower_type():
    text = """g (float[2] x) => (float[2] y) <float[2] k = {1, 2}> {
        a = Cast<to = 10>(x)  b = Cast<to = 1>(a)  c = Relu(b)  d = Neg(k)  y = Add(c, d) }"""
    _, stated = types_of(text)
    values = parts(stated)[1]
    assert (LAST_SIDE, (2,), 12, 12) in values or values[0][0] == FIRST_SIDE
    assert any(value[2:] == (0, 0) for value in values), "what is computed before the run costs nothing"


class GivenTypeTimes:
    """Nanoseconds by operator, in float32 and float16, and by value of a Cast to each type."""

    def __init__(self, operators, casts):
        self.operators, self.casts = operators, casts

    def operator(self, name):
        return self.operators.get(name)

    def cast(self, value, to):
        return self.casts.get((value, to))


def test_measured_times_decide_before_bytes():
    graph = typed("g (float[2,3] x) => (float[2,3] y) { a = Relu(x)  y = Exp(a) }")
    both = {(value, to): number for number, value in enumerate("xay", 7) for to in (DataType.FLOAT, FLOAT16)}
    both["x", DataType.FLOAT] = 2
    calls = choices_of(graph).calls

    def stated(operators, casts):
        return precision_problem(graph, calls, {}, FLOAT16, BYTES, GivenTypeTimes(operators, casts))

    known = stated({"Relu_a": (50, 20), "Exp_y": (30, 40)}, both)
    assert known.complete and parts(known) == (
        [*FIXED, ((50, 0), (20, 1)), ((30, 0), (40, 1))],
        [(0, (2,), 7, 2), (2, (3,), 8, 8), (3, (0,), 9, 9)],
    )
    assert known.problem.values[0].paid(FIRST_SIDE) % 2**64 == 36 * 2**32  # then bytes
    no_operator, no_cast = stated({"Relu_a": (50, 20)}, both), stated({"Relu_a": (5, 2), "Exp_y": (3, 4)}, {})
    assert not no_operator.complete and parts(no_operator)[0][-1] == ((0, 0), (0, 1))
    assert not no_cast.complete and [value[2:] for value in parts(no_cast)[1]] == [(0, 0)] * 3


def test_bytes_that_are_not_known_cost_nothing_and_a_cast_costs_itself():
    graph = typed("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    stated = precision_problem(graph, choices_of(graph).calls, {}, FLOAT16, BYTES)
    assert [value.paid(FIRST_SIDE) for value in stated.problem.values] == [2**32] * 2
    stated = precision_problem(graph, choices_of(graph).calls, {}, FLOAT16, COUNT)
    assert [in_unit(value.paid(FIRST_SIDE)) for value in stated.problem.values] == [1, 1]


def test_what_reads_the_rounded_numbers_of_a_free_input_reads_the_input():
    text = "g (float[2,3] x) => (float[2,3] y) { a = Cast<to=10>(x)  b = Cast<to=1>(a)  c = Exp(b)  d = Neg(x)  y = Add(c, d) }"
    with_free, without = types_of(text, free=("x",))[1], types_of(text)[1]
    readers_with, readers_without = ([v[1] for v in parts(stated)[1]] for stated in (with_free, without))
    assert readers_with != readers_without and len(readers_with[0]) == len(readers_without[0]) + 1
    computed = types_of(text.replace("Cast<to=10>(x)", "Cast<to=10>(e)").replace("{ a =", "{ e = Relu(x)  a ="))[1]
    assert [v[1] for v in parts(computed)[1]] == [
        v[1]
        for v in parts(
            types_of(
                text.replace("Cast<to=10>(x)", "Cast<to=10>(e)").replace("{ a =", "{ e = Relu(x)  a ="), free=("e",)
            )[1]
        )[1]
    ]


# ---- orders and types together --------------------------------------------------


def joint(text, free=()):
    graph = sized(typed(text))
    return order_and_type_problem(choices_of(graph, free), infer_layouts(graph), load_profile("npu"))


def test_transposes_of_values_without_a_choice_of_types_are_weights():
    """They are read and written: twice their bytes."""
    stated = joint(
        "g (int32[2,3] x, float[2,3] u) => (int32[2,3] y, float[2,3] z) { a = Transpose(x)  b = Neg(a)  y = Transpose(b)  z = Relu(u) }"
    )
    assert stated.problem.conversion_costs == ((48, 1, 0), None, (48, 1, 0), None)
    assert (stated.nodes, stated.start, stated.always, stated.complete) == (
        (None, None, "Neg_b", "Relu_z", None, None),
        (0,) * 6,
        0,
        True,
    )
    assert stated.problem.cost(stated.start) == (96, 2, 0)
    assert [form.cost for form in stated.problem.choices[2]] == [(0, 0, 0), (0, 0, 1)]
    assert [form.perm for form in stated.forms[2]] == [None, (1, 0)] and [form.side for form in stated.forms[3]] == [
        0,
        1,
    ]


def test_conversions_of_orders_and_types_cost_what_they_read_and_write():
    text = "g (float[2,3] x) => (float[3,2] y) { a = Relu(x)  b = Transpose(a)  c = Cast<to=10>(b)  d = Exp(c)  y = Cast<to=1>(d) }"
    stated = joint(text)
    assert stated.problem.cost(stated.start) == (36 + 24 + 36, 3, 0) and stated.always == 0
    assert {form.cost for choice in stated.problem.choices[4:] for form in choice} == {
        (0, 0, 0),
        (48, 1, 0),
        (24, 1, 0),
        (36, 1, 0),
    }
    assert [form.cost[2] for form in stated.problem.choices[2]] == [0, 1, 1, 2]
    unknown = joint(text.replace("float[2,3] x", "float[N,3] x").replace("float[3,2] y", "float[3,N] y"))
    assert {form.cost for choice in unknown.problem.choices[4:] for form in choice} == {(0, 0, 0), (0, 1, 0)}
    assert solve_integer_program(stated.problem, start=stated.start).cost[0] <= 96


def test_a_free_input_is_taken_in_float32_where_its_rounded_numbers_are_read_so():
    text = "g (float[2,3] x) => (float[2,3] y) { a = Cast<to=10>(x)  b = Cast<to=1>(a)  c = Exp(b)  d = Neg(x)  y = Add(c, d) }"
    label = orders_and_types._Builder.IN_FLOAT32
    free, fixed = joint(text, free=("x",)), joint(text)

    def uses(stated):
        forms = [form for choice in stated.problem.choices for form in choice]
        return sum(use[1] == label for form in forms for use in form.gives), sum(
            use[1] == label for form in forms for use in form.needs
        )

    assert uses(free) == (1, 1) and uses(fixed) == (0, 0)
    assert free.problem.cost(free.start) == (72, 2, 0)


def test_transposes_in_bodies_and_casts_outside_the_choice_cost_always():
    text = """g (bool c, float[2,3] x) => (float[3,2] y) {
        y = If(c) <then_branch = t () => (float[3,2] p) { q = Neg(x)  p = Transpose(q) },
                   else_branch = e () => (float[3,2] r) { s = Abs(x)  r = Transpose(s) }> }"""
    graph = sized(typed(text))
    for body in graph.node("If_y").bodies.values():
        body._types[body.nodes[0].outputs[0]] = graph.types["x"]
    stated = order_and_type_problem(choices_of(graph), infer_layouts(graph), load_profile("npu"))
    assert stated.always == 2 * count_transposes(graph).bytes_moved == 2 * 48
