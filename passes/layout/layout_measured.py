"""Convert an operator only if it saves more time than its Transposes take, as measured."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, inverse
from workbench.ops import NotPermutable
from workbench.planning.layout.conversion.convert import Conversion, convert
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.problem.operator_benchmark import OperatorTimer
from workbench.planning.layout.problem.times import AUTO, DEVICES, TIMED_IN, OperatorTimes
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.npu_strategy import (
    preferred_operand_layout,
    reshapes,
    restored_operands,
    restored_outputs,
)
from workbench.rewrite import Example, PassContext, Rewrite, option, rewrite_each

PAYS, FOLLOWS, STAYS = "it pays", "it follows", "it does not pay"

_ONE_BY_ONE = "operators are timed and decided one by one"


@dataclass(frozen=True)
class LayoutMeasured(LayoutStrategy):
    """Every operator that has a form for the target's layout is timed on the device in both, and every Transpose.

    One walk from inputs to outputs:

    - an operator is converted if it saves more than its Transposes take: one before each operand that does not
      exist in the target's layout and one after each result, minus those that are removed;
    - one whose operand exists in the target's layout and that takes no longer there follows;
    - every other keeps its layout.

    Times are cached on disk by operator, types, device and versions. A difference within the noise counts as none.

    It decides on one operator at a time: a chain that saves time only as a whole is not converted. The strategy
    "optimal" finds it if it minimizes time.

    Source: buddy-compiler's unpublished plan, "layout conversion" (docs/references.md).
    """

    strategy = "measured"
    times_operators = True
    title = "Layout: where measured time is saved"
    packages = ("torch",)

    device: str = option(AUTO, "Where operators are timed; auto: a CUDA device if there is one.", choices=DEVICES)
    dtype: str = option(
        "float32",
        "The element type in which operators are timed: that of the run to be fast.",
        choices=TIMED_IN,
    )

    extra_examples = (
        Example(
            title="The first convolution saves more than its Transposes take, and what follows is converted with it",
            target="cuda",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                y = Relu(a)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                x_nhwc = Transpose<perm=[0,2,3,1]>(x)
                a_nhwc = workbench.Conv_NHWC(x_nhwc, w)
                y_nhwc = Relu(a_nhwc)
                y = Transpose<perm=[0,3,1,2]>(y_nhwc)
            }""",
            sentences=(
                "it pays: Conv 'Conv_a' takes 900.0 us as written and 500.0 us in NHWC, its transposes 200.0 us; "
                "200.0 us gained; 'x' is transposed, 32 elements",
                "it follows: Relu 'Relu_y' takes 50.0 us as written and 50.0 us in NHWC, its transposes 0.0 us; "
                "0.0 us gained; nothing moved",
                "output 'y' is NCHW by its declaration; transposed back, 32 elements",
            ),
            times_us={"Conv": 900, "workbench.Conv_NHWC": 500, "Relu": 50, "Transpose": 100},
        ),
        Example(
            title="The Transposes would take more than the convolution saves",
            target="cuda",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                y = Conv(x, w)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                y = Conv(x, w)
            }""",
            sentences=(),
            times_us={"Conv": 900, "workbench.Conv_NHWC": 500, "Transpose": 250},
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        target = context.get(Profile)
        layouts = infer_layouts(graph)
        preferred = _preferred_layouts(graph, layouts, target)
        timer = context.find(OperatorTimer)
        transposes = _TransposeTimes.filled(preferred, OperatorTimes(graph, target, timer), self.device, self.dtype)
        converted: dict[str, Permutation] = {}
        for name in [node.name for node in graph.nodes if node.op != "Transpose"]:
            rewrite = _converted(graph, graph.node(name), preferred.get(name), transposes, target)
            if rewrite is not None:
                converted[name] = preferred[name][1]
                yield rewrite
                continue
            reason = f"{STAYS}: {graph.node(name)} keeps {{layout}}"
            yield from rewrite_each(restored_operands(graph, graph.node(name), layouts, reason), STAYS)
        yield from rewrite_each(restored_outputs(graph, layouts), STAYS)
        yield from rewrite_each(tidy_transposes(graph), "tidied")
        times = transposes.times
        return LayoutFacts(inexact=_ONE_BY_ONE, device=times.device, times=times.rows(converted))


_Preferred = tuple[str, Permutation]


def _preferred_layouts(graph: Graph, layouts: Mapping[str, str], target: Profile) -> dict[str, _Preferred]:
    """Layout and permutation of every node that might be converted to the target's layout."""
    candidates = (node for node in graph.nodes if node.op != "Transpose" and not reshapes(node))
    pairs = ((node.name, preferred_operand_layout(node, layouts, target)) for node in candidates)
    return {name: preferred for name, preferred in pairs if preferred is not None}


@dataclass(frozen=True)
class _TransposeTimes:
    """The time of a Transpose of each value to the target's layout, and of one back, in nanoseconds."""

    times: OperatorTimes
    forward: dict[str, int | None] = field(default_factory=dict)
    back: dict[str, int | None] = field(default_factory=dict)

    @classmethod
    def filled(
        cls, preferred: Mapping[str, _Preferred], times: OperatorTimes, device: str, dtype: str
    ) -> _TransposeTimes:
        """Measures all times that the walk may need. Raises UserError if nothing can be timed."""
        graph, moves = times.graph, {}
        for name, (_, perm) in preferred.items():
            node = graph.node(name)
            times.request_operator(node, perm)
            values = (*node.operands, *filter(None, node.outputs))
            moves.update({v: perm for v in values if graph.rank_of(v) == len(perm) and v not in graph.constants})
        for value, perm in moves.items():
            times.request_transpose(value, perm)
            times.request_transpose(value, inverse(perm), perm)
        if preferred:
            times.measure(device, dtype)
        forward = {value: times.transpose(value, perm) for value, perm in moves.items()}
        back = {value: times.transpose(value, inverse(perm), perm) for value, perm in moves.items()}
        return cls(times, forward, back)

    def net_time(self, graph: Graph, node: Node, conversion: Conversion) -> int | None:
        """The time of inserted Transposes minus that of removed ones; None if one was not timed."""
        inserted = {value for transpose in conversion.edit.insert for value in transpose.outputs}
        added = [self.forward.get(value) for value in conversion.moved]
        added += [self.back.get(value) for value in node.outputs if value in inserted]
        removed = [graph.node(name).outputs[0] for name in conversion.edit.remove if name != node.name]
        saved = [self.back.get(value) for value in removed]
        if None in added or None in saved:
            return None
        return sum(filter(None, added)) - sum(filter(None, saved))


def _converted(
    graph: Graph, node: Node, preferred: _Preferred | None, transposes: _TransposeTimes, target: Profile
) -> Rewrite | None:
    if preferred is None:
        return None
    layout, perm = preferred
    timed = transposes.times.operator(node.name, perm)
    if timed is None:
        return None
    try:
        conversion = convert(graph, node, perm, layout, target)
    except NotPermutable:
        return None
    transpose_time = transposes.net_time(graph, node, conversion)
    if transpose_time is None:
        return None
    time_as_written, time_converted = timed
    saved = time_as_written - time_converted - transpose_time
    if saved < 0 or (saved == 0 and not conversion.reused):
        return None
    case = PAYS if saved > 0 else FOLLOWS
    sentence = (
        f"{case}: {node} takes {_us(time_as_written)} as written and {_us(time_converted)} in {layout}, "
        f"its transposes {_us_added(transpose_time)}; {_us(saved)} gained; {conversion.operands_text()}"
    )
    return Rewrite(conversion.edit, sentence, (node.name,), case)


def _us_added(nanoseconds: int) -> str:
    """The time of inserted Transposes minus that of removed ones, in words: it may be negative."""
    return _us(nanoseconds) if nanoseconds >= 0 else f"{_us(-nanoseconds)} less than before"


def _us(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e3:,.1f} us"
