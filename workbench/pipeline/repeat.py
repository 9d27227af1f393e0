"""Run passes again, in their order, until a whole round changes nothing: the last step of a fixpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workbench.ir import Graph
from workbench.rewrite import Example, Pass, PassContext, Rewrite
from workbench.rewrite.core.exclusion import NOTHING_EXCLUDED, ExcludedRewrites, ExcludedRewritesOfRounds

ROUNDS = 10  # the most rounds; passes that change the graph more often undo each other


@dataclass(frozen=True)
class Repeat(Pass):
    """The rounds of a `Fixpoint` after its first: its passes run again, in order, until a whole round changes nothing.

    Another run of the same passes then changes nothing. Of a fixpoint with a layout strategy, the passes before it are
    not repeated, since the strategy chose the layouts for their result; they run again behind all strategies, where
    they merge what these inserted with what was there.

    Source: fixpoint iteration, as in LLVM's "instcombine" and XLA's pass pipelines.

    passes: the repeated passes. rounds: at most.
    """

    title = "Repeat until nothing changes"

    passes: tuple[Pass, ...] = ()
    rounds: int = ROUNDS

    extra_examples = (  # with rules of remove_neutral and algebra_constants
        Example(
            title="A product that turns out to be by 1",
            before="""g (float[N] x) => (float[N] y) <float a = {2}, float b = {0.5}> {
                p = Mul(x, a)
                q = Mul(p, b)
                y = Neg(q)
            }""",
            after="g (float[N] x) => (float[N] y) { y = Neg(x) }",
            sentences=(
                "algebra_constants, round 1: the constants of Mul 'Mul_p' and Mul 'Mul_q' become one, 1; 1 node fewer",
                "remove_neutral, round 2: Mul 'Mul_q' multiplies by 'q_mul', which changes nothing; replaced by 'x'",
            ),
        ),
    )

    def run(
        self, graph: Graph, context: PassContext, exclude: ExcludedRewrites = NOTHING_EXCLUDED
    ) -> Iterator[Rewrite]:
        rewrites = 0
        idle_since: dict[int, int] = {}  # the number of rewrites when the pass had nothing more to do
        for round_ in range(1, self.rounds + 1):
            before = rewrites
            for index, pass_ in enumerate(self.passes):
                if idle_since.get(index) == rewrites:
                    continue
                idle_since[index] = rewrites
                for proposed in pass_.run(graph, context, ExcludedRewritesOfRounds(exclude, pass_.name)):
                    inner = proposed.within(pass_.name)
                    if inner in exclude:
                        break  # a pass without rules ends there, as in the driver
                    rewrites += 1
                    sentence = f"{pass_.name}, round {round_}: {proposed.sentence}"
                    yield replace(inner, sentence=sentence, exactness=proposed.exactness or pass_.exactness)
            if rewrites == before:
                return
