"""Conversions to integers around what moves elements: the same bits with fewer of them, on random chains."""

import numpy as np
import pytest

from tests.running import outputs, typed
from workbench.interfaces.api import optimize

MEETING = ["push_quantization", "cancel_pairs", "dead_nodes"]
SCALES = "float s = {0.1}, float t = {0.07}, uint8 z = {3}"


def chain(seed):
    """A random chain of operators that move elements, as text, and the shapes of its operand and result."""
    random = np.random.default_rng(seed)
    shape = first = tuple(int(size) for size in random.integers(1, 5, 3))
    lines, constants, value = [], [], "a"
    for index in range(int(random.integers(1, 5))):
        result, kind = f"m{index}", random.choice(["Transpose", "Reshape", "Unsqueeze", "Flatten", "Slice"])
        operands, attributes = value, ""
        if kind == "Transpose":
            perm = random.permutation(len(shape))
            attributes = f"<perm=[{','.join(map(str, perm))}]>"
            shape = tuple(shape[axis] for axis in perm)
        elif kind == "Flatten":
            shape = (shape[0], int(np.prod(shape[1:])))
        else:
            numbers = {"Reshape": [[-1]], "Unsqueeze": [[1]], "Slice": [[0], [max(1, shape[0] - 1)], [0]]}[kind]
            names = [f"k{index}_{operand}" for operand in range(len(numbers))]
            constants += [f"int64[1] {n} = {{{v[0]}}}" for n, v in zip(names, numbers, strict=True)]
            operands = ", ".join([value, *names])
            if kind == "Reshape":
                shape = (int(np.prod(shape)),)
            elif kind == "Unsqueeze":
                shape = (shape[0], 1, *shape[1:])
            else:
                shape = (max(1, shape[0] - 1), *shape[1:])
        lines.append(f"{result} = {kind}{attributes}({operands})")
        value = result
    return lines, constants, value, first, shape


def dims(shape):
    return ",".join(map(str, shape))


@pytest.mark.parametrize("second", ["s", "t"])
@pytest.mark.parametrize("seed", range(6))
def test_a_random_chain_between_conversions_gives_the_same_bits(seed, second):
    lines, constants, value, first, last = chain(seed)
    declared = ", ".join([SCALES, *constants])
    graph = typed(
        f"g (uint8[{dims(first)}] x) => (uint8[{dims(last)}] y) <{declared}> {{"
        f" a = DequantizeLinear(x, s, z)  {'  '.join(lines)}  y = QuantizeLinear({value}, {second}, z) }}"
    )
    history = optimize(graph, MEETING, mode="exact")
    left = [node.op for node in history.graph.nodes if node.op in ("QuantizeLinear", "DequantizeLinear")]
    assert left == ([] if second == "s" else ["DequantizeLinear", "QuantizeLinear"])
    inputs = {"x": np.random.default_rng(seed).integers(0, 256, first).astype(np.uint8)}
    expected = outputs(graph, inputs)["y"]
    for moment in range(len(history[1].rewrites) + 1):
        assert np.array_equal(outputs(history.at(1, moment), inputs)["y"], expected)
    assert np.array_equal(outputs(history.graph, inputs)["y"], expected)


def test_every_integer_and_floats_between_them_are_converted_alike_on_both_sides_of_a_transpose():
    graph = typed(
        "g (float[2,256] x, uint8[2,256] u) => (uint8[256,2] y, float[256,2] v) <float s = {0.037}, uint8 z = {131}> {"
        " a = Transpose<perm=[1,0]>(x)  y = QuantizeLinear(a, s, z)"
        " b = DequantizeLinear(u, s, z)  v = Transpose<perm=[1,0]>(b) }"
    )
    steps = np.arange(-140, 116, dtype=np.float32) * np.float32(0.037)
    halves = np.nextafter(steps + np.float32(0.0185), np.float32(np.inf))
    inputs = {"x": np.stack([steps, halves]), "u": np.stack([np.arange(256)] * 2).astype(np.uint8)}
    after = optimize(graph, ["push_quantization"], mode="exact")
    assert len(after[1].rewrites) == 2
    expected, found = outputs(graph, inputs), outputs(after.graph, inputs)
    assert all(expected[name].tobytes() == found[name].tobytes() for name in expected)
