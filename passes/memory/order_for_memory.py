"""Run operators in the order in which the fewest bytes are in use at once."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from workbench.ir import Edit, Graph
from workbench.planning.memory.order import lowest_peak
from workbench.planning.memory.order_facts import OrderFacts
from workbench.planning.memory.scheduling import UnknownSizeError, scheduling_problem
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite, option


@dataclass(frozen=True)
class OrderForMemory(Pass):
    """Chooses an execution order with the lowest peak of memory over all orders. Counted are the values that operators
    compute, outputs included: an elementwise operator overwrites an operand that nothing reads later, a view shares its
    operand's memory, and a Concat copies. A node with bodies is one operator.

    The order of the file is the first to beat; it stays if none is lower, if the time is over before one is found, or
    if a size is unknown. Nothing but the order of nodes changes.

    Source: Ahn et al., "Ordering Chaos: Memory-Aware Scheduling of Irregularly Wired Neural Networks for Edge Devices",
    MLSys 2020, https://arxiv.org/abs/2003.02369.
    """

    seconds: int = option(
        20, "Time limit of the search, in seconds; then the best order known, with its bound.", least=1
    )

    title = "Execution order: lowest peak of memory"
    cleans_up = True
    exactness = Exactness.BIT_EXACT

    extra_examples = (
        Example(
            title="The reader that keeps an operand alive runs first",
            before="""g (float[1024] x) => (float[1024] e, float f) {
                a = Sqrt(x)
                b = Relu(a)
                c = Exp(b)
                e = Neg(c)
                f = ReduceSum<keepdims=0>(b)
            }""",
            after="""g (float[1024] x) => (float[1024] e, float f) {
                a = Sqrt(x)
                b = Relu(a)
                f = ReduceSum<keepdims=0>(b)
                c = Exp(b)
                e = Neg(c)
            }""",
            sentences=(
                "3 of 5 operators run at another place: the most in use at once falls from 8,196 to 4,100 bytes",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, OrderFacts]:
        nodes = graph.nodes
        try:
            problem = scheduling_problem(graph)
        except UnknownSizeError as unknown:
            return OrderFacts(unknown=str(unknown))
        found_order = lowest_peak(problem, self.seconds)
        if found_order.peak < found_order.incumbent:
            moved = tuple(nodes[i].name for place, i in enumerate(found_order.order) if place != i)
            ranks = {nodes[i].name: float(place) for place, i in enumerate(found_order.order)}
            sentence = (
                f"{len(moved):,} of {len(nodes):,} operators run at another place: the most in use at once falls from"
                f" {found_order.incumbent:,} to {found_order.peak:,} bytes"
            )
            yield Rewrite(Edit(ranks=ranks), sentence, moved)
        return OrderFacts(found_order.incumbent, found_order.peak, found_order.lower_bound, found_order.states)
