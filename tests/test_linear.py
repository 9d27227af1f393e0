"""What passes do grows with the graph, not with its square: counted in calls, not in seconds."""

import sys

import pytest

import passes
from tests.running import typed
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

SMALL = 150
FACTOR = 4  # so many times larger; of something quadratic there are 16 times as many calls


def chain_of_constants(count):
    lines = [f"v{i + 1} = Add(v{i}, shared)" for i in range(count)]
    return f"g (float[1] v0) => (float[1] v{count}) <float shared = {{1}}> {{ {' '.join(lines)} }}"


def equal_nodes_in_one_sum(count):
    names = [f"v{i}" for i in range(count)]
    lines = [f"{name} = Exp(x)" for name in names]
    return f"g (float[1] x) => (float[1] y) {{ {' '.join(lines)} y = Sum({', '.join(names)}) }}"


def equal_nodes_in_a_chain(count):
    lines = [f"v{i} = Exp(x)  s{i + 1} = Sub(s{i}, v{i})" for i in range(count)]
    return f"g (float[1] x) => (float[1] s{count}) {{ s0 = Neg(x) {' '.join(lines)} }}"


def nodes_of_one_value_and_other_attributes(count):
    lines = [f"v{i} = LeakyRelu<alpha={i}.5>(x)" for i in range(count)]
    names = [f"v{i}" for i in range(count)]
    return f"g (float[1] x) => (float[M] y) {{ {' '.join(lines)} y = Concat<axis=0>({', '.join(names)}) }}"


def calls(name, text):
    """How many functions the pass calls, and how many rewrites it makes."""
    graph, pass_, count = typed(text), passes.find_pass(name)(), 0

    def counting(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        step = run_pass(pass_, graph, PassContext(load_profile("cuda")))
    finally:
        sys.setprofile(None)
    return count, len(step.rewrites)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "acts"),
    [
        ("algebra_constants", chain_of_constants, True),
        ("common_subexpressions", equal_nodes_in_one_sum, True),
        ("common_subexpressions", equal_nodes_in_a_chain, True),
        ("common_subexpressions", nodes_of_one_value_and_other_attributes, False),
    ],
)
def test_work_grows_with_the_graph_not_with_its_square(name, make, acts):
    few, _ = calls(name, make(SMALL))
    many, rewrites = calls(name, make(FACTOR * SMALL))
    assert many < 1.5 * FACTOR * few
    assert bool(rewrites) == acts


def test_one_rewrite_takes_all_nodes_that_compute_the_same():
    graph = typed(equal_nodes_in_one_sum(4))
    (rewrite,) = run_pass(
        passes.find_pass("common_subexpressions")(), graph, PassContext(load_profile("cuda"))
    ).rewrites
    assert rewrite.sentence == "Exp 'Exp_v1' and 2 others compute the same as Exp 'Exp_v0'; computed once"
    assert [node.op for node in graph.nodes] == ["Exp", "Sum"]
