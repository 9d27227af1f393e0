"""The time of the default preset grows with the graph, not with its square, whatever its shape is.

CPU seconds of one process on a graph and on one that is four times as large. The exponent is 1 for work on each node; a
search of all operands for each operand of a wide node has 2, and took 223 s on 4,096 nodes that take one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import pytest

import workbench as wb
from tests.running import typed

SIZES = 1000, 4000
MOST = 1.5  # 1.0 to 1.1 where the machine is idle
OPERATORS = ("Relu", "Tanh", "Sigmoid", "Neg", "Abs")


def graph_of(lines: Iterator[str], inputs: str = "float[1,8] x", results: str = "y", constants: str = ""):
    outputs = ", ".join(f"float[A{i},8] {name}" for i, name in enumerate(results.split()))
    return typed(f"g ({inputs}) => ({outputs}) {constants} {{ {' '.join(lines)} }}")


def wide_concat(n: int):
    """x into many branches of two operators, and those into one Concat."""
    lines = (f"m{i} = Mul(x, c{i})  t{i} = Tanh(m{i})" for i in range(n // 2))
    constants = ", ".join(f"float c{i} = {{{i + 2}}}" for i in range(n // 2))
    operands = ", ".join(f"t{i}" for i in range(n // 2))
    return graph_of((*lines, f"y = Concat<axis=0>({operands})"), constants=f"<{constants}>")


def wide_split(n: int):
    pieces, operands = (", ".join(f"{name}{i}" for i in range(n)) for name in "sr")
    lines = (f"r{i} = Relu(s{i})" for i in range(n))
    split = f"{pieces} = Split<axis=0, num_outputs={n}>(x)"
    return graph_of((split, *lines, f"y = Concat<axis=0>({operands})"), f"float[{n},8] x")


def chain(n: int):
    lines = (f"v{i + 1} = {OPERATORS[i % 5]}({f'v{i}' if i else 'x'})" for i in range(n))
    return graph_of(lines, results=f"v{n}")


def residual_chain(n: int):
    lines = (f"t{i} = Tanh({(x := f'a{i}' if i else 'x')})  a{i + 1} = Add({x}, t{i})" for i in range(n // 2))
    return graph_of(lines, results=f"a{n // 2}")


def fan_out(n: int):
    lines = (f"t{i} = {OPERATORS[i % 5]}(x)" for i in range(n))
    return graph_of(lines, results=" ".join(f"t{i}" for i in range(n)))


def fan_in(n: int):
    lines = (f"t{i} = {OPERATORS[i % 5]}(x)" for i in range(n // 2))
    sums = (f"a{i + 1} = Add({f'a{i}' if i else 't0'}, t{i + 1})" for i in range(n // 2 - 1))
    return graph_of((*lines, *sums), results=f"a{n // 2 - 1}")


def transposes(n: int):
    x = ["x", *(f"q{i}" for i in range(n // 3))]
    lines = (
        f"p{i} = Transpose<perm=[1,0]>({x[i]})  r{i} = {OPERATORS[i % 5]}(p{i})  q{i} = Transpose<perm=[1,0]>(r{i})"
        for i in range(n // 3)
    )
    return graph_of(lines, results=x[-1])


def seconds(make: Callable, n: int) -> float:
    graph = make(n)
    begun = time.process_time()
    wb.optimize(graph)
    return time.process_time() - begun


@pytest.mark.slow
@pytest.mark.parametrize("make", [wide_concat, wide_split, chain, residual_chain, fan_out, fan_in, transposes])
def test_the_time_grows_with_the_graph(make):
    seconds(chain, 10)  # modules are imported
    small, large = (min(seconds(make, n) for _ in range(2)) for n in SIZES)
    assert math.log(large / small) / math.log(SIZES[1] / SIZES[0]) <= MOST, (small, large)
