"""Remove replacements of NaN where there can be none."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.finite import why_not_finite
from workbench.rewrite.core.guards import require_producer


def match_check(graph: Graph, node: Node, options: Pass) -> Rewrite:
    check = require_producer(graph, node.inputs[0], ("IsNaN",), node)
    value = check.inputs[0]
    if node.inputs[2] != value:
        raise NoMatch(f"{node} does not take '{value}' where that is no NaN")
    shape = graph.shape(value)
    if shape is None or shape != graph.shape(node.outputs[0]):
        raise NoMatch(f"'{node.inputs[1]}' of {node} may enlarge '{value}' by broadcasting")
    reason = why_not_finite(graph, value)
    if reason is not None:
        raise NoMatch(f"'{value}' may hold NaN: {reason}")
    alone = len(graph.users(check.outputs[0])) == 1 and not graph.is_output(check.outputs[0])
    removed = (check.name, node.name) if alone else (node.name,)
    return Rewrite(
        Edit(remove=removed, replace={node.outputs[0]: value}),
        f"{check} finds none: '{value}' is computed from finite constants and integers; {len(removed)} less",
        removed,
    )


@dataclass(frozen=True)
class RemoveNanChecks(Pass):
    """One case: Where(IsNaN(x), other, x) becomes x, if all floating-point numbers from which x is computed are finite
    constants, and every operator on the way makes finite numbers of finite ones, unless they overflow. PyTorch's
    exporter writes it after each Softmax, for rows in which a mask of minus infinity hides every key.

    Must not act if an input of the graph holds floating-point numbers, if a constant holds NaN or an infinity, or if an
    operator may make one, as Div or Log.

    Source: IEEE 754-2019, section 7.2, which lists the operations of finite numbers that give NaN.
    """

    title = "Remove checks for NaN"

    rules = (
        Rule(
            "no nan",
            ("Where",),
            match_check,
            Example(
                before="""g (int64[2,3] i) => (float[2,3] y) <float z = {0}> {
                    e = Cast<to=1>(i)
                    s = Softmax<axis=-1>(e)
                    n = IsNaN(s)
                    y = Where(n, z, s)
                }""",
                after="""g (int64[2,3] i) => (float[2,3] y) {
                    e = Cast<to=1>(i)
                    y = Softmax<axis=-1>(e)
                }""",
                sentences=("IsNaN 'IsNaN_n' finds none: 's' is computed from finite constants and integers; 2 less",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) <float z = {0}> { s = Relu(x)  n = IsNaN(s)  y = Where(n, z, s) }",
                    "'s' may hold NaN: 'x' is given, and may hold NaN or an infinity",
                ),
                Refusal(
                    """g (int64[2] i) => (float[2] y) <float z = {0}> {
                        x = Cast<to=1>(i)  s = Log(x)  n = IsNaN(s)  y = Where(n, z, s)
                    }""",
                    "'s' may hold NaN: Log 'Log_s' may make NaN or an infinity of finite numbers",
                ),
                Refusal(
                    """g (int64[2] i) => (float[2,2] y) <float[2] z = {0, 1}, float[2,1] o = {0, 1}> {
                        s = Gather(z, i)  n = IsNaN(s)  y = Where(n, o, s)
                    }""",
                    "'o' of Where 'Where_y' may enlarge 's' by broadcasting",
                ),
                Refusal(
                    """g (int64[2] i) => (float[2] y) <float[2] z = {0, 1}> {
                        s = Gather(z, i)  n = IsNaN(s)  y = Where(n, s, z)
                    }""",
                    "Where 'Where_y' does not take 's' where that is no NaN",
                ),
                Refusal(
                    "g (bool[2] n, float[2] x, float[2] z) => (float[2] y) { y = Where(n, z, x) }",
                    "Where 'Where_y' does not follow an IsNaN",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
    )
