"""The times of operators and transposes of one graph: requested first, then measured together.

Source: the unpublished plan of graph optimizations for buddy-compiler, "layout conversion" (docs/references.md,
"buddy plan"): an operator is timed with and without the conversion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ir import Graph, Node, TensorType
from workbench.ir.permutation import Permutation, permuted
from workbench.planning.layout.layout_facts import OperatorTime
from workbench.planning.layout.problem.operator_benchmark import (
    OperatorBenchmark,
    OperatorTimer,
    Time,
    benchmark_of,
    distinguishable,
    permuted_benchmark,
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
        self._written: dict[str, OperatorBenchmark] = {}  # by node
        self._permuted: dict[str, dict[Permutation, OperatorBenchmark | None]] = {}  # by node; None: cannot be timed
        self._transpose_counts: dict[OperatorBenchmark, int] = {}
        self._times: Mapping[OperatorBenchmark, Time] = {}

    def request_transpose(self, value: str, perm: Permutation, applied: Permutation | None = None) -> None:
        """Request a Transpose by `perm` of `value`, which was already transposed by `applied`."""
        benchmark = self._transpose_benchmark(value, perm, applied)
        if benchmark is not None:
            self._transpose_counts[benchmark] = self._transpose_counts.get(benchmark, 0) + 1

    def request_operator(self, node: Node, perm: Permutation) -> None:
        """Request the node as written, and on operands transposed by `perm`."""
        written = benchmark_of(self.graph, node)
        if written is not None:
            self._written[node.name] = written
            permuted_one = permuted_benchmark(written, perm, self.target)
            self._permuted.setdefault(node.name, {})[perm] = permuted_one

    def measure(self, device: str, dtype: str) -> None:
        """Measure what was requested. Raises UserError if there is no timer, or its device cannot be used."""
        permuted_ones = filter(None, (found for of_node in self._permuted.values() for found in of_node.values()))
        benchmarks = (*self._written.values(), *permuted_ones, *self._transpose_counts)
        result = require_operator_timer(self.timer, self.target).times(benchmarks, device, dtype)
        self.device, self._times = result.device, result.by_benchmark

    def transpose(self, value: str, perm: Permutation, applied: Permutation | None = None) -> int | None:
        """The time of a Transpose; 0 if it moves nothing, None if it could not be timed."""
        benchmark = self._transpose_benchmark(value, perm, applied)
        if benchmark is None:
            return None if bound_shape(self.graph, value) is None else 0
        return self._times[benchmark].best if benchmark in self._times else None

    def operator(self, name: str, perm: Permutation) -> tuple[int, int] | None:
        """The times as written and on permuted operands, equal if the difference is noise; None if not timed."""
        pair = self._written.get(name), self._permuted.get(name, {}).get(perm)
        times = [self._times.get(benchmark) for benchmark in pair if benchmark is not None]
        return None if len(times) < 2 or times[0] is None or times[1] is None else distinguishable(times[0], times[1])

    def forms(self, name: str) -> dict[Permutation | None, int] | None:
        """The time by permutation of the operands, None for the node as written; None if one of them is not timed."""
        pairs = {perm: self.operator(name, perm) for perm in self._permuted.get(name, {})}
        timed = {perm: pair for perm, pair in pairs.items() if pair is not None}
        if not timed or len(timed) < len(pairs):
            return None
        written = max(as_written for as_written, _ in timed.values())
        return {None: written, **{perm: written + other - as_written for perm, (as_written, other) in timed.items()}}

    def rows(self, converted: Mapping[str, Permutation]) -> tuple[OperatorTime, ...]:
        """A row for each operator and shape, then for each Transpose, those with the longest total time first.

        converted: the nodes that run on permuted operands. Of others, the fastest permutation is shown.
        """
        operators = sorted(self._operators(converted), key=lambda row: -row.nodes * row.us)
        return (*operators, *sorted(self._transposes(), key=lambda row: -row.us))

    def _operators(self, converted: Mapping[str, Permutation]) -> Iterator[OperatorTime]:
        counts: Counter[tuple[OperatorBenchmark, OperatorBenchmark]] = Counter()
        converted_counts: Counter[tuple[OperatorBenchmark, OperatorBenchmark]] = Counter()
        for name, permuted_ones in self._permuted.items():
            timed = {perm: one for perm, one in permuted_ones.items() if one is not None and one in self._times}
            if self._written[name] not in self._times or not timed:
                continue
            fastest = min(timed, key=lambda perm: self._times[timed[perm]].best)
            pair = self._written[name], timed.get(converted.get(name, fastest), timed[fastest])
            counts[pair] += 1
            converted_counts[pair] += name in converted
        for pair, nodes in counts.items():
            written, other = (self._times[benchmark] for benchmark in pair)
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
