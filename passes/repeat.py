"""Run the passes before this one again until none of them changes anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.rewrite import Example, Pass, PassContext, Rewrite

ROUNDS = 10  # at most; passes that still change the graph then undo each other


@dataclass(frozen=True)
class Repeat(Pass):
    """Runs the passes before this one again, in their order, until a whole round changes nothing: a second run of the
    same list then has nothing to do. Ten rounds at most.

    Passes before a layout strategy are not repeated, since the strategy has chosen for their result.

    Source: fixpoint iteration, as in LLVM's "instcombine" and XLA's pass pipelines.
    """

    title = "Repeat until nothing changes"

    earlier: tuple[Pass, ...] = ()

    own_examples = (
        Example(
            title="A product that turns out to be by 1",
            before="""g (float[N] x) => (float[N] y) <float a = {2}, float b = {0.5}> {
                p = Mul(x, a)
                q = Mul(p, b)
                y = Neg(q)
            }""",
            after="g (float[N] x) => (float[N] y) { y = Neg(x) }",
            sentences=(
                "algebra_constants, round 1: the constants of Mul 'Mul_p' and Mul 'Mul_q' become one, 1; 1 node less",
                "remove_neutral, round 2: Mul 'Mul_q' multiplies by 'q_mul', which is neutral; replaced by 'x'",
            ),
            behind=("remove_neutral", "algebra_constants"),
        ),
    )

    def behind(self, earlier: Sequence[Pass]) -> Pass:
        start = max((index + 1 for index, pass_ in enumerate(earlier) if pass_.is_layout), default=0)
        repeated = [pass_ for pass_ in earlier[start:] if not isinstance(pass_, Repeat)]
        return dataclasses.replace(self, earlier=tuple(repeated))

    def run(self, graph: Graph, context: PassContext, leave_out: Collection[str] = ()) -> Iterator[Rewrite]:
        rewrites = 0
        idle_since: dict[Pass, int] = {}  # the number of rewrites when the pass had found nothing more to do
        for round_ in range(1, ROUNDS + 1):
            before = rewrites
            for pass_ in self.earlier:
                if idle_since.get(pass_) == rewrites:
                    continue
                idle_since[pass_] = rewrites
                where = f"{pass_.name}, round {round_}: "
                inner = [*leave_out, *_of_rounds(pass_.name, leave_out)]
                for found in pass_.run(graph, context, inner):
                    rewrites += 1
                    exactness = found.exactness or pass_.exactness
                    yield dataclasses.replace(found, sentence=where + found.sentence, exactness=exactness)
            if rewrites == before:
                return


def _of_rounds(name: str, sentences: Collection[str]) -> list[str]:
    """The sentences that the pass of that name must not do, in any round: rounds shift if a rewrite is left out."""
    return [sentence.partition(": ")[2] for sentence in sentences if sentence.startswith(f"{name}, round ")]
