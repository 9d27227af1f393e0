"""What other passes left to do is done: the passes before run again until none of them changes anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.rewrite import Example, Pass, PassContext, Rewrite

ROUNDS = 10  # at most; what still changes then are passes that undo each other


@dataclass(frozen=True)
class Repeat(Pass):
    """The passes before this one, in their order, again and again until a whole round changes nothing: after it, a
    second run of the same list has nothing to do. Ten rounds at most.

    What stands before a layout strategy is not repeated: the strategy was given what that left.

    Source: a fixpoint, as the pass managers of LLVM ("instcombine" runs to one) and XLA have it.
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
                "remove_neutral, round 2: Mul 'Mul_q' multiplies by 'q_mul', which is neutral; 'x' passed on",
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
        idle_since: dict[Pass, int] = {}  # how many rewrites there were when the pass found nothing to do
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
                    yield dataclasses.replace(found, sentence=where + found.sentence)
            if rewrites == before:
                return


def _of_rounds(name: str, sentences: Collection[str]) -> list[str]:
    """What the pass of that name is not to do, said of any round: rounds shift where something is left out."""
    return [sentence.partition(": ")[2] for sentence in sentences if sentence.startswith(f"{name}, round ")]
