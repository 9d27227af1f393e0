"""Group operators so that groups read and write the fewest bytes, with a proven bound."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.planning.fusion.fusion_facts import FusionFacts, Traffic
from workbench.planning.fusion.group_calls import call_edit
from workbench.planning.fusion.grouping import MAX_OPERATORS, Groups, merges
from workbench.planning.fusion.minimum_traffic import least_traffic
from workbench.planning.fusion.naming import fused_groups, group_names, operators_by_group
from workbench.planning.fusion.problem import fusion_problem
from workbench.planning.fusion.rules import RULES, SAME
from workbench.planning.fusion.traffic import stored_values, traffic
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite, option


@dataclass(frozen=True)
class FuseMinimum(Pass):
    """Chooses groups with the least memory traffic:

    - a group has one operator whose results leave it, at most one convolution, matrix product, pool or normalization
      (out-elementwise-fusable), which is first, and nothing opaque;
    - with rules "same", as in `fuse_groups`, only elementwise operators follow that one directly, and none follows a
      reduction; with rules "wider", broadcasting operators and those that select elements follow it too, and any
      operator follows a reduction;
    - with rules "several", the widest, the results of any of its operators may leave a group;
    - a group reads each value that others compute once, and writes its result; views are not counted.

    The search starts from the groups of `fuse_groups`. The bound is the solver's; a result is certified if it reaches
    the bound. Sizes are those to which symbolic dims are bound; if one is unknown, the groups are those of
    `fuse_groups`, and nothing is proved. The least traffic is not always the least time.

    Source: integer programs, solved by HiGHS (Huangfu and Hall 2018); that for several outputs gets its constraints
    against cycles of groups as solutions violate them. Kinds: Chen et al., "TVM: An Automated End-to-End Optimizing
    Compiler for Deep Learning", OSDI 2018, section 3.
    """

    grouped_by: str = option(SAME, "Which operators may be in one group.", choices=tuple(RULES), called="rules")
    max_operators: int = option(MAX_OPERATORS, "The most operators in a group.", least=1)
    seconds: int = option(60, "Time limit of the search, in seconds; then the best found, with its bound.", least=1)

    title = "Fuse operators: proven minimum of memory traffic"
    cleans_up = True
    exactness = Exactness.BIT_EXACT

    extra_examples = (
        Example(
            title="Operators up to a reduction",
            before="""g (float[4,1] x, float[4,64] z) => (float[4] y) <int64[1] a = {1}> {
                s = Sqrt(x)
                m = Mul(s, z)
                r = ReduceSum<keepdims=0>(m, a)
                y = Neg(r)
            }""",
            after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                g (float[4,1] x, float[4,64] z) => (float[4] y) {
                    r = workbench.group_1_Sqrt_Mul_ReduceSum(x, z)
                    y = Neg(r)
                }
                <domain: "workbench", opset_import: ["": 23]>
                group_1_Sqrt_Mul_ReduceSum (x, z) => (r) {
                    a = Constant<value = int64[1] {1}>()
                    s = Sqrt(x)
                    m = Mul(s, z)
                    r = ReduceSum<keepdims=0>(m, a)
                }""",
            sentences=("3 operators, from Sqrt 'Sqrt_s' to ReduceSum 'ReduceSum_r', become group_1",),
        ),
        Example(
            title="With wider rules an operator may follow a reduction",
            before="""g (float[4,1] x, float[4,64] z) => (float[4] y) <int64[1] a = {1}> {
                m = Mul(x, z)
                r = ReduceSum<keepdims=0>(m, a)
                y = Neg(r)
            }""",
            after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                g (float[4,1] x, float[4,64] z) => (float[4] y) {
                    y = workbench.group_1_Mul_ReduceSum_Neg(x, z)
                }
                <domain: "workbench", opset_import: ["": 23]>
                group_1_Mul_ReduceSum_Neg (x, z) => (y) {
                    a = Constant<value = int64[1] {1}>()
                    m = Mul(x, z)
                    r = ReduceSum<keepdims=0>(m, a)
                    y = Neg(r)
                }""",
            sentences=("3 operators, from Mul 'Mul_m' to Neg 'Neg_y', become group_1",),
            options={"rules": "wider"},
        ),
        Example(
            title="Several results may leave a group",
            before="""g (float[64] x) => (float[64] y, float[64] z) {
                s = Sqrt(x)
                y = Neg(s)
                z = Abs(s)
            }""",
            after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                g (float[64] x) => (float[64] y, float[64] z) {
                    y, z = workbench.group_1_Sqrt_Neg_Abs(x)
                }
                <domain: "workbench", opset_import: ["": 23]>
                group_1_Sqrt_Neg_Abs (x) => (y, z) {
                    s = Sqrt(x)
                    y = Neg(s)
                    z = Abs(s)
                }""",
            sentences=("3 operators, from Sqrt 'Sqrt_s' to Abs 'Abs_z', become group_1",),
            options={"rules": "several"},
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, FusionFacts]:
        unfused_graph = graph.copy()
        operators, values = fusion_problem(unfused_graph), stored_values(unfused_graph)
        for _ in merges(groups := Groups(operators), self.max_operators, past_products=True):
            pass
        group, bound = tuple(groups.group), None
        if all(value.size is not None for value in values):
            minimum_grouping = least_traffic(
                operators, values, RULES[self.grouped_by], self.max_operators, group, self.seconds
            )
            group, bound = minimum_grouping.group, minimum_grouping.lower_bound
        names = group_names(unfused_graph, group)
        for key, members in operators_by_group(group).items():
            if len(members) > 1:
                nodes = [unfused_graph.nodes[i] for i in members]
                remove = tuple(node.name for node in nodes)
                sentence = f"{len(nodes)} operators, from {nodes[0]} to {nodes[-1]}, become {names[key]}"
                yield Rewrite(call_edit(graph, unfused_graph, nodes, names[key], remove), sentence, remove)
        grouped_traffic = traffic(values, group)
        certified = None if bound is None else grouped_traffic == bound
        unfused_traffic = traffic(values, range(len(operators)))
        return FusionFacts(
            fused_groups(unfused_graph, operators, group),
            Traffic(unfused_traffic, grouped_traffic, bound, certified),
            over=self.grouped_by,
        )
