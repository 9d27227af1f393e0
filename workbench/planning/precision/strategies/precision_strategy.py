"""A precision strategy: a pass that chooses float32 or a narrower type for each operator, and inserts the Casts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from workbench.analysis.inference.bound_shapes import infer_sizes
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.errors import UserError
from workbench.ir import DataType, Graph, Node
from workbench.ir.permutation import Permutation
from workbench.ir.types import numpy_name
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.problem.cost_model import BYTES, COUNT, TIME
from workbench.planning.layout.problem.operator_benchmark import OperatorTimer
from workbench.planning.layout.profile import Profile
from workbench.planning.precision.cast_cost import bytes_read_and_written, count_casts
from workbench.planning.precision.conversion import change_type, operands_text, tidy_casts
from workbench.planning.precision.element_types import (
    NARROW_TYPES,
    WIDE,
    FloatCall,
    NotConvertible,
    float_call,
    is_float,
)
from workbench.planning.precision.fitting import Fitted, fit
from workbench.planning.precision.kernel_types import KERNEL_RUNTIMES, KernelLists, RuntimeKernels
from workbench.planning.precision.narrow_io import AS_COMPUTED, AS_IN_MODEL, free_border, narrow_io
from workbench.planning.precision.pinned import pinning_constraint
from workbench.planning.precision.precision_facts import TRAFFIC, KeptWide, PrecisionFacts
from workbench.planning.precision.problem import type_side
from workbench.planning.precision.recorded import Magnitudes, NotRecordedError, ValueRecorder
from workbench.planning.precision.type_times import TypeTimes
from workbench.planning.precision.wanted_types import NARROW, WIDE_ONLY, wanted_type
from workbench.planning.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.limits import NO_LIMITS, RuleLimits
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.passes import Pass, option
from workbench.rewrite.core.rule import Rewrite, rewrite_each
from workbench.support.name_patterns import name_patterns, unmatched_patterns


@dataclass(frozen=True)
class TypeChoices:
    """The operators of a graph that run in both types, and what is known of them before a strategy chooses.

    calls:   of these operators, by node. fixed: the side of those without a choice. reasons: why they have none; for
             the others, what prevents the other type. timer: for strategies that weigh time.
    free_border: inputs and outputs in float32 whose type is free.
    """

    graph: Graph
    narrow: DataType
    target: Profile
    calls: Mapping[str, FloatCall]
    fixed: Mapping[str, int]
    reasons: Mapping[str, str]
    timer: OperatorTimer | None = None
    free_border: frozenset[str] = frozenset()

    def may_choose(self, node: str) -> bool:
        """Whether the operator runs in either type."""
        return node in self.calls and node not in self.fixed

    def keeping(self, reasons: Mapping[str, str]) -> TypeChoices:
        """The same with these operators in float32, each for its reason."""
        fixed = {**self.fixed, **dict.fromkeys(reasons, FIRST_SIDE)}
        return replace(self, fixed=fixed, reasons={**self.reasons, **reasons})


@dataclass(frozen=True)
class ChosenTypes:
    """The side of each operator that runs in both types and is chosen, and what the choice proves, as in
    `PrecisionFacts`.

    perms:   by operator that changes its layout, how its operands are permuted.
    reached: the cost, if it is measured time: that of operators and Casts. times: what was measured.
    """

    sides: Mapping[str, int]
    inexact: str = ""
    weigh: str | None = None
    bound: int | None = None
    perms: Mapping[str, Permutation] = field(default_factory=dict)
    reached: int | None = None
    times: TypeTimes | None = None


@dataclass(frozen=True)
class PrecisionStrategy(Pass):
    """Base of the precision strategies. strategy: its name for `--precision`."""

    strategy: ClassVar[str] = ""
    shares_casts: ClassVar[bool] = True
    exactness: ClassVar[Exactness] = Exactness.NARROWED
    cleans_up: ClassVar[bool] = True

    type: str = option("float16", "The narrower type.", choices=tuple(NARROW_TYPES))
    keep: str = option("", "Patterns of names of nodes that stay in float32, separated by commas: /head/*,Pow_12.")
    max_error: float = option(0.0, "The largest relative error of an output; 0: any that the type allows.", least=0.0)
    io: str = option(
        AS_IN_MODEL,
        "Element types of inputs and outputs: float32, as in the model, or as-computed, without Casts where the model "
        "computes in the narrower type only.",
        choices=(AS_IN_MODEL, AS_COMPUTED),
    )
    runtime: str = option(
        "", "Operators of which this runtime has no kernel in the type stay in float32.", choices=("", *KERNEL_RUNTIMES)
    )

    @abstractmethod
    def choose(self, choices: TypeChoices) -> ChosenTypes:
        """The type of each operator that runs in both."""

    def considered(self, choices: TypeChoices) -> TypeChoices:
        """The choices without the constraints that the strategy decides itself."""
        return choices

    def prepare(self, graph: Graph) -> bool:
        """Costs need the sizes of values that earlier passes created."""
        return infer_sizes(graph)

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, PrecisionFacts]:
        narrow = NARROW_TYPES[self.type]
        yield from self.tidied(graph, narrow, context)
        recorded, note = _recorded(graph, context, narrow)
        kernels = context.get(KernelLists).of(self.runtime) if self.runtime else None
        patterns = name_patterns(self.keep)
        by_list = not self.max_error  # else the error decides
        target, limits = context.get(Profile), context.limits
        choices = type_choices(graph, narrow, target, patterns, recorded, kernels, limits, by_list)
        free = free_border(graph, narrow) if self.io == AS_COMPUTED else frozenset()
        choices = self.considered(replace(choices, timer=context.find(OperatorTimer), free_border=free))
        chosen, fitted = self.choose(choices), None
        if self.max_error:
            fitted = self._fitted(choices, chosen, context.get(ValueRecorder))
            choices = choices.keeping(self._reasons(graph, fitted, choices.target))
            chosen = self.choose(choices)
        yield from self.conversions(graph, choices, chosen)
        if self.io == AS_COMPUTED:
            yield from rewrite_each(narrow_io(graph), "at the border")
        return self._facts(graph, choices, chosen, fitted, note)

    def tidied(self, graph: Graph, narrow: DataType, context: PassContext) -> Iterator[Rewrite]:
        """Cleanups before types are chosen."""
        if self.shares_casts:
            yield from rewrite_each(tidy_casts(graph, narrow), "tidied")

    def _facts(
        self, graph: Graph, choices: TypeChoices, chosen: ChosenTypes, fitted: Fitted | None, unrecorded: str
    ) -> PrecisionFacts:
        """What the strategy states of its result."""
        sized = graph.copy()
        infer_sizes(sized)  # of the values that the pass made
        counts, transposes = count_casts(sized, choices.narrow), count_transposes(sized)
        traffic = counts.bytes + 2 * transposes.bytes_moved
        costs = {COUNT: counts.casts, BYTES: counts.bytes, TRAFFIC: traffic, TIME: chosen.reached}
        cost = costs.get(chosen.weigh or "")
        unknown = f"the size of {counts.unknown:,} Casts is not known" if counts.unknown else ""
        if chosen.weigh == TRAFFIC and transposes.unknown:
            unknown = f"the size of {transposes.unknown:,} Transposes is not known"
        below = chosen.bound is not None and cost is not None and cost < chosen.bound
        inexact = unknown or ("a Cast of rounded numbers went too, which no choice has" if below else chosen.inexact)
        bound = None if inexact else chosen.bound
        return PrecisionFacts(
            strategy=self.strategy,
            type=self.type,
            casts=counts.casts,
            bytes_converted=counts.bytes,
            transposes=transposes,
            choices=sum(name not in choices.fixed for name in chosen.sides),
            weigh=chosen.weigh,
            bound=bound,
            certified=bound is not None and bound == cost,
            inexact=inexact,
            kept=tuple(self._kept(graph, choices, chosen)),
            unmatched=unmatched_patterns((node.name for node in graph.nodes), name_patterns(self.keep)),
            unrecorded=unrecorded,
            fitted=fitted,
            held=frozenset(node.name for node in graph.nodes if not choices.may_choose(node.name)),
            demanded=tuple(choices.target.required_layouts),
            device="" if chosen.times is None else chosen.times.device,
            times=() if chosen.times is None else chosen.times.rows(_on(chosen, LAST_SIDE)),
        )

    def conversions(self, graph: Graph, choices: TypeChoices, chosen: ChosenTypes) -> Iterator[Rewrite]:
        """One for each operator that changes its type; each must be applied before the next is asked for."""
        narrow = choices.narrow
        for name in [node.name for node in graph.nodes if node.name in chosen.sides]:
            side = chosen.sides[name]
            if side == type_side(choices.calls[name].dtype):
                continue
            node, dtype = graph.node(name), narrow if side == LAST_SIDE else WIDE
            conversion = change_type(graph, node, dtype, narrow, self.shares_casts)
            reason = choices.reasons.get(name) or self.why_chosen(dtype)
            timed = "" if chosen.times is None else chosen.times.text(name, dtype)
            clauses = "; ".join(filter(None, (reason, timed, operands_text(graph, conversion, dtype))))
            sentence = f"{node} runs in {numpy_name(dtype)}: {clauses}"
            yield Rewrite(conversion.edit, sentence, (name,))
        if self.shares_casts:
            yield from rewrite_each(tidy_casts(graph, narrow), "tidied")

    def _fitted(self, choices: TypeChoices, chosen: ChosenTypes, recorder: ValueRecorder) -> Fitted:
        """The operators that must stay in float32 for `max_error`."""

        def convert(kept: Collection[str]) -> Graph:
            trial, kept_choices = choices.graph.copy(), choices.keeping(dict.fromkeys(kept, "tried"))
            for rewrite in self.conversions(trial, kept_choices, self.choose(kept_choices)):
                trial.apply(rewrite.edit)
            return trial

        error = recorder.output_error(choices.graph, self.type)
        narrowed = [name for name in _on(chosen, LAST_SIDE) if choices.calls[name].dtype == WIDE]
        if not narrowed and (now := error.of(choices.graph, math.inf)) > self.max_error:
            raise UserError(
                f"no operator of '{choices.graph.name}' runs in float32 and may run in {self.type}, and outputs are "
                f"off by {now:.1e} as they are; bring it back with precision_undo first, or allow more"
            )
        listed: dict[str, list[str]] = {}
        for name in narrowed:
            node = choices.graph.node(name)
            if wanted_type(node, choices.target)[0] == WIDE_ONLY:
                listed.setdefault(plain_op(node), []).append(name)
        alone = partial(recorder.errors_alone, choices.graph, self.type)
        return fit(convert, error, alone, narrowed, self.max_error, listed, bytes_read_and_written)

    def _reasons(self, graph: Graph, fitted: Fitted, target: Profile) -> dict[str, str]:
        """Why each of the operators that were fitted stays in float32."""
        allowed = f"outputs may be off by {self.max_error:g}"
        by_list = {
            name: f"{wanted_type(graph.node(name), target)[1]} runs {graph.node(name).op} in float32; {allowed}"
            for name in fitted.listed
        }
        alone = {
            name: f"{graph.node(name)} alone {_loss_text(error)} in {self.type}; {allowed}"
            for name, error in fitted.kept.items()
        }
        return by_list | alone

    def why_chosen(self, dtype: DataType) -> str:
        """Why an operator without a reason of its own runs in that type, as a clause."""
        return f"its operands are in {numpy_name(dtype)}"

    def _kept(self, graph: Graph, choices: TypeChoices, chosen: ChosenTypes) -> Iterator[KeptWide]:
        for node in graph.nodes:
            if _runs_in_float32(graph, node, choices):
                yield KeptWide(node.name, choices.reasons.get(node.name) or self.why_chosen(WIDE))


def type_choices(
    graph: Graph,
    narrow: DataType,
    target: Profile,
    patterns: tuple[str, ...],
    recorded: Mapping[str, Magnitudes],
    kernels: RuntimeKernels | None = None,
    limits: RuleLimits = NO_LIMITS,
    by_list: bool = True,
) -> TypeChoices:
    """What is known of the operators of a graph before types are chosen.

    limits: an operator stays in float32 if the opset that is kept does not have it in the narrower type. by_list: as in
    `pinning_constraint`.
    """
    calls: dict[str, FloatCall] = {}
    fixed: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for node in graph.nodes:
        try:
            call = float_call(graph, node, narrow)
        except NotConvertible as error:
            reasons[node.name] = str(error)
            continue
        calls[node.name] = call
        why = pinning_constraint(graph, node, call, narrow, target, patterns, recorded, kernels, by_list)
        if not why and limits.opset is not None and call.dtype == WIDE:
            why = limits.opset_refusal(graph, change_type(graph, node, narrow, narrow).edit)
        wanted, by = wanted_type(node, target)
        if why:
            fixed[node.name], reasons[node.name] = FIRST_SIDE, why
        elif wanted == NARROW:
            fixed[node.name], reasons[node.name] = LAST_SIDE, f"{by} runs {node.op} in {numpy_name(narrow)}"
    return TypeChoices(graph, narrow, target, calls, fixed, reasons)


def _on(chosen: ChosenTypes, side: int) -> list[str]:
    return [name for name, of_node in chosen.sides.items() if of_node == side]


def _loss_text(error: float) -> str:
    return f"is off by {error:.1e}" if math.isfinite(error) else "overflows or gives NaN"


def _recorded(graph: Graph, context: PassContext, narrow: DataType) -> tuple[Mapping[str, Magnitudes], str]:
    """The magnitudes of the graph's floats in a run, and why there are none, a sentence."""
    recorder = context.find(ValueRecorder)
    if recorder is None:
        return {}, "no values were recorded"
    values = [v for v in graph.values() if v not in graph.constants and is_float(graph, v, narrow)]
    try:
        return (recorder.record(graph, values) if values else {}), ""
    except NotRecordedError as error:
        return {}, str(error)


def _runs_in_float32(graph: Graph, node: Node, choices: TypeChoices) -> bool:
    """Whether the operator, which is no Cast, gives floats of float32."""
    if node.op == "Cast":
        return False
    types = [graph.tensor_type(value) for value in node.outputs if value]
    return any(type_ is not None and type_.dtype == WIDE for type_ in types)
