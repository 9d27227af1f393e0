"""The times of operators and transposes of one graph: requested first, then measured together.

Source: the unpublished plan of graph optimizations for buddy-compiler, "layout conversion" (docs/references.md,
"buddy plan"): an operator is timed with and without the conversion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ir import Graph, Node, TensorType
from workbench.ir.permutation import Permutation, permuted
from workbench.planning.layout.layout_facts import OperatorTime
from workbench.planning.layout.problem.operator_benchmark import (
    OperatorBenchmark,
    OperatorTimer,
    Time,
    benchmark_of,
    converted_benchmark,
    distinguishable,
    require_operator_timer,
    transpose_benchmark,
)
from workbench.planning.layout.profile import Profile

AUTO, DEVICES = "auto", ("auto", "cpu", "cuda")
TIMED_IN = ("float32", "tf32", "mixed", "float16", "bfloat16")  # the types in which operators can be timed


class OperatorTimes:
    """`request_*` requests times, `measure` measures them, `transpose` and `operator` return them, in nanoseconds."""

    def __init__(self, graph: Graph, target: Profile, timer: OperatorTimer | None) -> None:
        self.graph = graph
        self.target = target
        self.timer = timer
        self.device = ""
        self._pairs: dict[
            str, tuple[OperatorBenchmark, OperatorBenchmark]
        ] = {}  # by node: as written, and in the other layout
        self._transpose_counts: dict[OperatorBenchmark, int] = {}
        self._times: Mapping[OperatorBenchmark, Time] = {}

    def request_transpose(self, value: str, perm: Permutation, applied: Permutation | None = None) -> None:
        """Request a Transpose by `perm` of `value`, which was already transposed by `applied`."""
        benchmark = self._transpose_benchmark(value, perm, applied)
        if benchmark is not None:
            self._transpose_counts[benchmark] = self._transpose_counts.get(benchmark, 0) + 1

    def request_operator(self, node: Node, perm: Permutation, layout: str) -> None:
        """Request the node as written, and on operands transposed by `perm`, which gives `layout`."""
        written = benchmark_of(self.graph, node)
        other = None if written is None else converted_benchmark(written, perm, layout, self.target)
        if written is not None and other is not None:
            self._pairs[node.name] = (written, other)

    def measure(self, device: str, dtype: str) -> None:
        """Measure what was requested. Raises UserError if there is no timer, or its device cannot be used."""
        benchmarks = (*(benchmark for pair in self._pairs.values() for benchmark in pair), *self._transpose_counts)
        result = require_operator_timer(self.timer, self.target).times(benchmarks, device, dtype)
        self.device, self._times = result.device, result.by_benchmark

    def transpose(self, value: str, perm: Permutation, applied: Permutation | None = None) -> int | None:
        """The time of a Transpose; 0 if it moves nothing, None if it could not be timed."""
        benchmark = self._transpose_benchmark(value, perm, applied)
        if benchmark is None:
            return None if bound_shape(self.graph, value) is None else 0
        return self._times[benchmark].best if benchmark in self._times else None

    def operator(self, name: str) -> tuple[int, int] | None:
        """The times as written and in the other layout, equal if the difference is noise; None if not timed."""
        pair = self._pairs.get(name)
        if pair is None or any(benchmark not in self._times for benchmark in pair):
            return None
        return distinguishable(self._times[pair[0]], self._times[pair[1]])

    def rows(self, converted: Collection[str]) -> tuple[OperatorTime, ...]:
        """A row for each operator and shape, then for each Transpose, those with the longest total time first.

        converted: names of the nodes that run in the other layout.
        """
        operators = sorted(self._operators(converted), key=lambda row: -row.nodes * row.us)
        return (*operators, *sorted(self._transposes(), key=lambda row: -row.us))

    def _operators(self, converted: Collection[str]) -> Iterator[OperatorTime]:
        counts, converted_counts = (
            Counter(self._pairs.values()),
            Counter(self._pairs[n] for n in converted if n in self._pairs),
        )
        for pair, nodes in counts.items():
            written, other = (self._times.get(benchmark) for benchmark in pair)
            if written is not None and other is not None:
                yield _row(pair[0], nodes, written, other.best / 1e3, converted_counts[pair])

    def _transposes(self) -> Iterator[OperatorTime]:
        for benchmark, values in self._transpose_counts.items():
            if benchmark in self._times:
                yield _row(benchmark, values, self._times[benchmark])

    def _transpose_benchmark(
        self, value: str, perm: Permutation, applied: Permutation | None
    ) -> OperatorBenchmark | None:
        type_, shape = self.graph.tensor_type(value), bound_shape(self.graph, value)
        if type_ is None or shape is None or len(shape) != len(perm):
            return None
        permuted_shape = shape if applied is None else permuted(shape, applied)
        return transpose_benchmark(self.graph, TensorType(type_.dtype, tuple(permuted_shape)), perm)


def _row(
    benchmark: OperatorBenchmark, nodes: int, time: Time, other_us: float | None = None, converted: int | None = None
) -> OperatorTime:
    us, spread_us = time.best / 1e3, time.spread / 1e3
    return OperatorTime(benchmark.operator, benchmark.signature, nodes, us, spread_us, other_us, converted)
