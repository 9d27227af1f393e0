"""Whether a rewrite that a rule proposes may be made, beyond what its match asks.

The pass asks it before the rewrite is made, and whoever says why a rule did not act asks the same.
"""

from __future__ import annotations

from workbench.ir import Graph
from workbench.rewrite.core.amplified_rounding import amplifier_of_edit
from workbench.rewrite.core.exactness import EXACT, ROUNDS_ANEW
from workbench.rewrite.core.limits import Parents
from workbench.rewrite.core.packing import newly_prepacked
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.rule import Rewrite


def why_not_allowed(
    graph: Graph,
    proposed: Rewrite,
    context: PassContext,
    grows_freely: bool = False,
    parents: Parents = (),
) -> str:
    """Why the rewrite that a rule proposes must not be made, completing "would act here, but"; "" if it may.

    graph: before the rewrite; of a rewrite in a body, the body. grows_freely: as in `Pass`.
    parents: of a body.
    """
    if proposed.by is not None and not proposed.by.exactness.runs_in(context.mode):
        return f"not in mode {context.mode}, since its results are {proposed.by.results}"
    packed = newly_prepacked(graph, proposed.edit) if context.mode == EXACT else None
    if packed is not None:
        return f"in mode exact {packed} must keep its operand computed, or its last bit changes"
    amplifier = amplifier_of_edit(graph, proposed.edit, parents) if proposed.exactness in ROUNDS_ANEW else None
    if amplifier is not None:
        return amplifier.sentence
    return context.limits.refusal(graph, proposed.edit, grows_freely, parents)
