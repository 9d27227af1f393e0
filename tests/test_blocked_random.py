"""NCHW, NHWC or blocks for every operator of random networks: the strategy against brute force."""

import itertools
import random
from dataclasses import replace

import pytest

from passes.layout.layout_blocked import LayoutBlocked
from tests.blocking import BLOCKED, assert_same, least
from tests.running import outputs, random_inputs, typed
from workbench.rewrite import PassContext

PLAIN, LAST, CUT = "NCHW", "NHWC", "NCHW8c"
CHANNELS = (8, 12, 16, 24)
ONE_OPERAND = {
    "Relu": "Relu({})",
    "MaxPool": "MaxPool<kernel_shape=[1,1]>({})",
    "AveragePool": "AveragePool<kernel_shape=[1,1]>({})",
}
Operator = tuple[str, list[str], str, bool]  # operator, operands, result, does a blocked form read NCHW?


def random_network(seed: int) -> tuple[str, dict[str, int], list[Operator], list[str]]:
    """Its text, the channels of every value, its operators, its outputs."""
    draw = random.Random(seed)
    channels, found, lines, weights = {"x": draw.choice(CHANNELS)}, [], [], []
    for index in range(draw.randint(2, 6)):
        source, name = draw.choice(list(channels)[-3:]), f"v{index}"
        op = draw.choice(["Conv", "Conv", "Add", "Concat", "Sigmoid", *ONE_OPERAND] if index else ["Conv", "MaxPool"])
        others = [v for v, c in channels.items() if c == channels[source]] if op == "Add" else list(channels)
        operands = [source, draw.choice(others)] if op in ("Add", "Concat") else [source]
        made = channels[source] + (channels[operands[-1]] if op == "Concat" else 0)
        if op == "Conv":
            made = draw.choice(CHANNELS)
            weights.append(f"float[{made},{channels[source]},1,1] w{index}")
            lines.append(f"{name} = Conv({source}, w{index})")
        elif op == "Sigmoid":  # written channels last
            lines.append(f"{name}t = Transpose<perm=[0,2,3,1]>({source})\n{name}s = Sigmoid({name}t)")
            lines.append(f"{name} = Transpose<perm=[0,3,1,2]>({name}s)")
        elif op in ONE_OPERAND:
            lines.append(f"{name} = {ONE_OPERAND[op].format(source)}")
        else:
            lines.append(f"{name} = {op}{'<axis=1>' if op == 'Concat' else ''}({', '.join(operands)})")
        channels[name] = made
        found.append((op, operands, name, op == "Conv" and channels[source] % 8 != 0))
    results = [v for v in channels if v != "x" and not any(v in operands for _, operands, _, _ in found)]
    declared = ", ".join(f"float[1,{channels[v]},2,3] {v}" for v in results)
    inputs = ", ".join([f"float[1,{channels['x']},2,3] x", *weights])
    return f"g ({inputs}) => ({declared}) {{\n" + "\n".join(lines) + "\n}", channels, found, results


def by_brute_force(channels, found, results, demands) -> int:
    """The fewest bytes of all assignments. In blocks of 8, 8 channels in NHWC have the same order in memory."""

    def able(op, operands, result, reads_plain):
        whole = all(channels[v] % 8 == 0 for v in ([result] if reads_plain else [*operands, result]))
        every = [PLAIN, LAST, *([CUT] if whole else [])]
        return [demands[op] if demands[op] in every else PLAIN] if op in demands else every

    def order(value, layout):
        return LAST if layout == CUT and channels[value] == 8 else layout

    costs = []
    for taken in itertools.product(*(able(*operator) for operator in found)):
        given = {("x", order("x", PLAIN))}
        needed = {(value, order(value, PLAIN)) for value in results}
        for (_, operands, result, reads_plain), layout in zip(found, taken, strict=True):
            given.add((result, order(result, layout)))
            read = PLAIN if layout == CUT and reads_plain else layout
            needed |= {(value, order(value, read)) for value in operands}
        costs.append(sum(channels[value] * 6 * 4 for value, _ in needed - given))
    return min(costs)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_networks_reach_what_brute_force_finds(start):
    for seed in range(start, start + 20):
        text, channels, found, results = random_network(seed)
        draw = random.Random(seed)
        demands = {
            op: draw.choice([PLAIN, LAST, CUT, CUT]) for op in ("Conv", "MaxPool", "AveragePool") if draw.random() < 0.7
        }
        graph = typed(text)
        step = least(graph, replace(BLOCKED, required_layouts=demands))
        best = by_brute_force(channels, found, results, demands)
        assert (step.facts.lower_bound, step.facts.certified) == (best, True), seed
        assert step.after["bytes_moved"] == best, seed


@pytest.mark.parametrize("seed", range(60, 66))
def test_every_moment_computes_the_same(seed):
    graph = typed(random_network(seed)[0])
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    for found in LayoutBlocked().rewrites(graph, PassContext(BLOCKED)):
        graph.apply(found.edit)
        assert_same(graph, inputs, expected)
