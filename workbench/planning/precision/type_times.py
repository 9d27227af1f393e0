"""The times of operators in float32 and in a narrower type, and of Casts: requested first, then measured together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ir import DataType, Graph, Node, TensorType
from workbench.ir.types import numpy_name
from workbench.planning.layout.layout_facts import OperatorTime
from workbench.planning.layout.problem.operator_benchmark import (
    OperatorBenchmark,
    OperatorTimer,
    Time,
    benchmark_of,
    distinguishable,
    require_operator_timer,
)
from workbench.planning.layout.profile import Profile
from workbench.planning.precision.conversion import cast_node, change_type
from workbench.planning.precision.element_types import WIDE, NotConvertible, float_call


class TypeTimes:
    """Times in nanoseconds; None where an operator could not be timed. narrow: the type besides float32."""

    def __init__(self, graph: Graph, narrow: DataType, names: Collection[str], values: Collection[str]) -> None:
        """names: of operators that run in both types. values: that may be cast."""
        self.graph, self.narrow, self.device = graph, narrow, ""
        pairs = ((name, _in_both_types(graph, graph.node(name), narrow)) for name in names)
        self._pairs = {name: pair for name, pair in pairs if pair is not None}
        casts = (((value, to), _cast(graph, value, to, narrow)) for value in values for to in (narrow, WIDE))
        self._casts = {cast: benchmark for cast, benchmark in casts if benchmark is not None}
        self._times: Mapping[OperatorBenchmark, Time] = {}

    def measure(self, timer: OperatorTimer | None, target: Profile, device: str) -> None:
        """Measure all of them. Raises UserError if there is no timer, or its device cannot be used."""
        benchmarks = (*(benchmark for pair in self._pairs.values() for benchmark in pair), *self._casts.values())
        result = require_operator_timer(timer, target).times(benchmarks, device)
        self.device, self._times = result.device, result.by_benchmark

    def operator(self, name: str) -> tuple[int, int] | None:
        """In float32 and in the narrower type, equal if the difference is noise."""
        wide, narrow = self._pair(name)
        return None if wide is None or narrow is None else distinguishable(wide, narrow)

    def text(self, name: str, dtype: DataType) -> str:
        """What the operator alone takes in the type and in the other one, as a clause; "" if it was not timed."""
        wide, narrow = self._pair(name)
        if wide is None or narrow is None:
            return ""
        here, there = (wide, narrow) if dtype == WIDE else (narrow, wide)
        other = self.narrow if dtype == WIDE else WIDE
        return f"alone it takes {here.best / 1e3:,.1f} us there and {there.best / 1e3:,.1f} us in {numpy_name(other)}"

    def cast(self, value: str, to: DataType) -> int | None:
        """Of a Cast of the value, or of its other form, to the type."""
        time = self._times.get(self._casts[value, to]) if (value, to) in self._casts else None
        return None if time is None else time.best

    def rows(self, narrowed: Collection[str]) -> tuple[OperatorTime, ...]:
        """A row for each operator and its operands, those with the longest total time first; the other type is the
        narrower one. narrowed: the operators that run there."""
        return tuple(sorted(self._rows(narrowed), key=lambda row: -row.nodes * row.us))

    def _pair(self, name: str) -> tuple[Time | None, Time | None]:
        if name not in self._pairs:
            return None, None
        wide, narrow = self._pairs[name]
        return self._times.get(wide), self._times.get(narrow)

    def _rows(self, narrowed: Collection[str]) -> Iterator[OperatorTime]:
        counts, there = Counter(self._pairs.values()), Counter(self._pairs[n] for n in narrowed if n in self._pairs)
        for pair, nodes in counts.items():
            wide, narrow = (self._times.get(benchmark) for benchmark in pair)
            if wide is not None and narrow is not None:
                us = wide.best / 1e3, wide.spread / 1e3, narrow.best / 1e3
                yield OperatorTime(pair[0].operator, pair[0].signature, nodes, *us, there[pair])


def _in_both_types(graph: Graph, node: Node, narrow: DataType) -> tuple[OperatorBenchmark, OperatorBenchmark] | None:
    """The operator alone in float32 and in the narrower type."""
    written = benchmark_of(graph, node)
    if written is None:
        return None
    single = written.graph.copy()
    try:
        is_wide = float_call(single, single.node("op"), narrow).dtype == WIDE
        single.apply(change_type(single, single.node("op"), narrow if is_wide else WIDE, narrow).edit)
    except NotConvertible:
        return None
    other = benchmark_of(single, single.node("op"))
    return None if other is None else (written, other) if is_wide else (other, written)


def _cast(graph: Graph, value: str, to: DataType, narrow: DataType) -> OperatorBenchmark | None:
    shape = bound_shape(graph, value)
    if shape is None:
        return None
    source = narrow if to == WIDE else WIDE
    types = {"x": TensorType(source, shape), "y": TensorType(to, shape)}
    node = cast_node("x", "y", to, "op")
    alone = Graph(inputs=("x",), outputs=("y",), nodes=(node,), types=types, opset_imports=graph.opset_imports)
    return benchmark_of(alone, node)
