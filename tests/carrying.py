"""Helpers of the layout contracts' tests: one random node of an operator, and the same node on permuted operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.running import outputs
from workbench.analysis.inference.shapes import infer_types
from workbench.ir import Edit, Graph, Node, TensorType, check, constant, constant_type
from workbench.ir.permutation import Permutation, is_identity
from workbench.ir.text import OPSET
from workbench.ops import NotPermutable
from workbench.planning.layout.conversion.convert import convert
from workbench.planning.layout.profile import load_profile


class Draw:
    """Random dims, numbers and axes, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def one_of(self, *choices: Any) -> Any:
        return choices[self.random.integers(len(choices))]

    def dims(self, least: int = 1, most: int = 5) -> list[int]:
        """Of a random rank; every third dim is 1."""
        return [self.one_of(1, 2, 3, 4, 5, 1) for _ in range(self.random.integers(least, most + 1))]

    def normal(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(np.float32)

    def between(self, low: float, high: float, *shape: int) -> np.ndarray:
        return self.random.uniform(low, high, shape).astype(np.float32)

    def integers(self, low: int, high: int, *shape: int, dtype: Any = np.int64) -> np.ndarray:
        return self.random.integers(low, high, shape).astype(dtype)

    def flags(self, *shape: int) -> np.ndarray:
        return self.random.integers(0, 2, shape).astype(bool)

    def axis(self, rank: int) -> int:
        """From the front or, negative, from the end."""
        return int(self.random.integers(-rank, rank))

    def axes(self, rank: int, least: int = 1) -> list[int]:
        """Different ones in random order, some negative."""
        count = self.random.integers(least, rank + 1)
        return [int(a) - rank * self.one_of(0, 1) for a in self.random.permutation(rank)[:count]]

    def permutation(self, rank: int) -> Permutation:
        """Not the identity."""
        while rank > 1:
            perm = tuple(int(axis) for axis in self.random.permutation(rank))
            if not is_identity(perm):
                return perm
        return (0,)


@dataclass(frozen=True)
class Fixed:
    """An operand that is a constant."""

    array: np.ndarray


@dataclass(frozen=True)
class Case:
    """One node: operands that are computed, Fixed or left out (None).

    rank: of the permutations to try; None: that of the first operand.
    """

    operands: Sequence[np.ndarray | Fixed | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    rank: int | None = None

    @property
    def perm_rank(self) -> int:
        first = self.operands[0]
        return self.rank or (first.array if isinstance(first, Fixed) else first).ndim


@dataclass(frozen=True)
class Row:
    """How an operator's layout is tested.

    exact:    are the results bit-equal?
    refusals: parts of the sentences with which it may refuse, beside accepting.
    opset:    an older one where ONNX Runtime lacks the operator of ours.
    """

    make: Callable[[Draw, str], Case]
    exact: bool = True
    refusals: tuple[str, ...] = ()
    opset: int = OPSET


ROWS: dict[str, Row] = {}


def row(operators: str, *refusals: str, exact: bool = True, opset: int = OPSET) -> Callable:
    """Enter the decorated function as what makes cases of these operators."""

    def enter(make: Callable[[Draw, str], Case]) -> Callable[[Draw, str], Case]:
        for op in operators.split():
            assert op not in ROWS, op
            ROWS[op] = Row(make, exact, refusals, opset)
        return make

    return enter


def graph_of(op: str, case: Case, opset: int = OPSET) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph of the one node, and the numbers for its inputs."""
    names, feeds, constants = [], {}, {}
    for index, operand in enumerate(case.operands):
        names.append("" if operand is None else f"v{index}")
        if isinstance(operand, Fixed):
            constants[names[-1]] = constant(operand.array)
        elif operand is not None:
            feeds[names[-1]] = operand
    results = tuple(f"y{index}" for index in range(case.outputs))
    types = {name: constant_type(constant(array)) for name, array in feeds.items()}
    domain, _, op_type = op.rpartition(".")
    attributes = {k: _plain(v) if isinstance(v, list | tuple) else v for k, v in case.attributes.items()}
    node = Node(op_type, tuple(names), results, attributes, name="node", domain=domain)
    imports = {"": opset, **({domain: 1} if domain else {})}
    graph = Graph(
        inputs=tuple(feeds), outputs=results, nodes=[node], constants=constants, types=types, opset_imports=imports
    )
    found = {v: t for v, t in infer_types(graph, {}).items() if v not in constants and isinstance(t, TensorType)}
    graph.apply(Edit(types=found))
    return graph, feeds


def _plain(numbers: Sequence[Any]) -> tuple[int | float, ...]:
    return tuple(float(n) if isinstance(n, float) else int(n) for n in numbers)


def on_permuted(graph: Graph, name: str, perm: Permutation, target: str = "cuda") -> str | None:
    """Bring the node to permuted operands, in the graph; the sentence with which it refuses, if it does."""
    try:
        conversion = convert(graph, graph.node(name), perm, "OTHER", load_profile(target))
    except NotPermutable as refusal:
        return str(refusal)
    graph.apply(conversion.edit)
    check(graph)
    return None


def assert_same(
    graph: Graph, feeds: dict[str, np.ndarray], expected: dict[str, np.ndarray], exact: bool, said: str
) -> None:
    """The graph's outputs by ONNX Runtime are the expected ones."""
    for name, array in outputs(graph, feeds).items():
        assert array.dtype == expected[name].dtype and array.shape == expected[name].shape, said
        if exact:
            np.testing.assert_array_equal(array, expected[name], said)
        else:
            assert_near(array, expected[name], said)


def assert_near(array: np.ndarray, expected: np.ndarray, said: str) -> None:
    """To rounding: integers may be one apart."""
    if array.dtype.kind in "iu":
        np.testing.assert_allclose(array.astype(np.int64), expected, rtol=0, atol=1, err_msg=said)
    else:
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5, err_msg=said)
