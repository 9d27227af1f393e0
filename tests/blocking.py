"""What the tests of blocked channels share: the strategy run on a graph that must keep what it computes."""

import numpy as np

from passes.layout.layout_blocked import LayoutBlocked
from tests.running import outputs, random_inputs
from workbench.ir import Graph
from workbench.planning.layout.profile import Profile, load_profile
from workbench.rewrite import PassContext, Step, run_pass, with_options

BLOCKED = load_profile("blocked")


def least(graph: Graph, target: Profile = BLOCKED, **options: str) -> Step:
    """The graph becomes the one that moves least, and computes what it computed."""
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    step = run_pass(with_options(LayoutBlocked, options), graph, PassContext(target), check_each=True)
    assert_same(graph, inputs, expected)
    return step


def assert_same(graph: Graph, inputs: dict, expected: dict) -> None:
    for name, numbers in outputs(graph, inputs).items():
        np.testing.assert_allclose(numbers, expected[name], rtol=1e-3, atol=1e-4)


def operators(graph: Graph) -> list[str]:
    return [node.op.removeprefix("workbench.") for node in graph.nodes]
