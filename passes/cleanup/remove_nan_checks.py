"""Remove replacements of NaN where there can be none."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import counted
from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.finite import why_not_finite
from workbench.rewrite.core.guards import require_producer


def match_check(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    check = require_producer(graph, node.inputs[0], ("IsNaN",), node)
    value = check.inputs[0]
    if node.inputs[2] != value:
        raise NoMatch(f"{node} does not select '{value}' where it is not NaN")
    shape = graph.shape(value)
    if shape is None or shape != graph.shape(node.outputs[0]):
        raise NoMatch(f"'{node.inputs[1]}' of {node} may enlarge '{value}' by broadcasting")
    reason = why_not_finite(graph, value)
    if reason is not None:
        raise NoMatch(f"'{value}' may hold NaN: {reason}")
    removes_check = len(graph.users(check.outputs[0])) == 1 and not graph.is_output(check.outputs[0])
    removed = (check.name, node.name) if removes_check else (node.name,)
    fewer = f"{counted(len(removed), 'node')} fewer"
    sentence = f"'{value}' holds no NaN, since it is computed from finite constants and integers; {fewer}"
    return Rewrite(Edit(remove=removed, replace={node.outputs[0]: value}), sentence, removed)


@dataclass(frozen=True)
class RemoveNanChecks(Pass):
    """One case: Where(IsNaN(x), other, x) becomes x, if all floating-point numbers from which x is computed are finite
    constants, and every operator on the path maps finite inputs to finite outputs, overflow aside. PyTorch's exporter
    writes it after each Softmax, for rows in which a mask of minus infinity hides every key.

    Does not apply:

    - if an input of the graph holds floating-point numbers;
    - if a constant holds NaN or an infinity;
    - if an operator, such as Div or Log, may compute NaN or infinity from finite inputs.

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
                sentences=("'s' holds no NaN, since it is computed from finite constants and integers; 2 nodes fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) <float z = {0}> { s = Relu(x)  n = IsNaN(s)  y = Where(n, z, s) }",
                    "'s' may hold NaN: 'x' is an input, and may hold NaN or an infinity",
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
                    "Where 'Where_y' does not select 's' where it is not NaN",
                ),
                Refusal(
                    "g (bool[2] n, float[2] x, float[2] z) => (float[2] y) { y = Where(n, z, x) }",
                    "Where 'Where_y' does not follow an IsNaN",
                ),
            ),
            exactness=Exactness.ROUNDING,  # nothing rounds, but an overflow of finite numbers could still make NaN
        ),
    )
