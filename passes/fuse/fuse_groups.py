"""Group operators that one kernel can compute, by their fusion kinds."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.planning.fusion.fusion_facts import FusionFacts, Traffic
from workbench.planning.fusion.group_calls import call_edit
from workbench.planning.fusion.group_times import GroupTime, group_times
from workbench.planning.fusion.grouping import MAX_OPERATORS, Groups, Merge, merges
from workbench.planning.fusion.naming import fused_groups, group_names, operators_by_group
from workbench.planning.fusion.problem import fusion_problem
from workbench.planning.fusion.traffic import stored_values, traffic
from workbench.planning.layout.problem.operator_benchmark import OperatorTimer, require_operator_timer
from workbench.planning.layout.problem.times import AUTO, DEVICES, TIMED_IN
from workbench.planning.layout.profile import Profile
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite
from workbench.rewrite.core.passes import option


@dataclass(frozen=True)
class FuseGroups(Pass):
    """An operator joins the group of its immediate post-dominator, the first operator into which all its results flow:

    - a convolution, matrix product, pool or normalization, if all edges on the way are elementwise and every operator
      there is elementwise or broadcasting: Conv, Add and Relu become one group;
    - an elementwise or broadcasting operator, if its post-dominator is none of these and what lies between only
      selects elements: a reduction is a group with the operators before it;
    - then an operator that selects elements, such as Transpose or Concat, if the others do no more than that.

    No pattern is written down: a new operator joins groups by the fusion kind in its contract. A group becomes a call
    of an ONNX function that holds its operators, so that a runtime of functions computes the same.

    Does not apply:

    - to an operator with a result that is an output of the graph or whose users do not meet;
    - to opaque operators (control flow, random numbers);
    - after a reduction;
    - beyond `max_operators`.

    With `measured` a group is kept only if its kernel in the backend `fused` takes less time than its operators, each
    by its own kernel.

    Source: Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning", OSDI 2018, section 3;
    Apache TVM, src/relax/analysis/graph_partitioner.cc.
    """

    max_operators: int = option(MAX_OPERATORS, "The most operators in a group.", least=1)
    past_products: bool = option(
        False,
        "Operators in the group of a product join further ones, as a Concat, by their own kind, which TVM's do not: "
        "from 14 % less memory traffic (SqueezeNet) to 13 % more (a text detector), none on a ResNet.",
    )
    measured: bool = option(False, "Keep only groups that take less time than their operators alone.")
    device: str = option(AUTO, "Where groups are timed; auto: a CUDA device if there is one.", choices=DEVICES)
    dtype: str = option(
        "float32", "The element type in which groups are timed: that of the run to be fast.", choices=TIMED_IN
    )

    title = "Fuse operators into groups"
    cleans_up = True
    exactness = Exactness.BIT_EXACT

    extra_examples = (
        Example(
            title="A convolution, what is computed on its elements, and a pool",
            before="""g (float[1,4,8,8] x, float[4,4,3,3] w, float[4,1,1] b) => (float[1,4,1,1] y) {
                c = Conv<pads=[1,1,1,1]>(x, w)
                a = Add(c, b)
                s = Sigmoid(a)
                m = Mul(a, s)
                y = GlobalAveragePool(m)
            }""",
            after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                g (float[1,4,8,8] x, float[4,4,3,3] w, float[4,1,1] b) => (float[1,4,1,1] y) {
                    m = workbench.group_1_Conv_Add_Sigmoid_Mul(x, w, b)
                    y = GlobalAveragePool(m)
                }
                <domain: "workbench", opset_import: ["": 23]>
                group_1_Conv_Add_Sigmoid_Mul (x, w, b) => (m) {
                    c = Conv<pads=[1,1,1,1]>(x, w)
                    a = Add(c, b)
                    s = Sigmoid(a)
                    m = Mul(a, s)
                }""",
            sentences=(
                "Conv 'Conv_c' (out-elementwise-fusable) joins its post-dominator Add 'Add_a' (broadcast); the edges "
                "are elementwise; group_1 has 2 operators",
                "Add 'Add_a' (broadcast) joins its post-dominator Mul 'Mul_m' (broadcast), with 1 operator between; "
                "the edges are elementwise; group_1 has 4 operators",
            ),
        ),
        Example(
            title="Elementwise operators before a reduction, and a Transpose after it",
            before="""g (float[2,3,4] x, float[4] z) => (float[4,3,2] y) {
                a = Sub(x, z)
                b = Mul(a, a)
                c = ReduceMean<keepdims=1>(b)
                d = Transpose<perm=[2,1,0]>(x)
                y = Add(d, c)
            }""",
            after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                g (float[2,3,4] x, float[4] z) => (float[4,3,2] y) {
                    c = workbench.group_1_Sub_Mul_ReduceMean(x, z)
                    y = workbench.group_2_Transpose_Add(x, c)
                }
                <domain: "workbench", opset_import: ["": 23]>
                group_1_Sub_Mul_ReduceMean (x, z) => (c) {
                    a = Sub(x, z)
                    b = Mul(a, a)
                    c = ReduceMean<keepdims=1>(b)
                }
                <domain: "workbench", opset_import: ["": 23]>
                group_2_Transpose_Add (x, c) => (y) {
                    d = Transpose<perm=[2,1,0]>(x)
                    y = Add(d, c)
                }""",
            sentences=(
                "Sub 'Sub_a' (broadcast) joins its post-dominator Mul 'Mul_b' (broadcast); the edges are elementwise; "
                "group_1 has 2 operators",
                "Mul 'Mul_b' (broadcast) joins its post-dominator ReduceMean 'ReduceMean_c' (reduction); the edges are "
                "reduction; group_1 has 3 operators",
                "Transpose 'Transpose_d' (injective) joins its post-dominator Add 'Add_y' (broadcast); the edges are "
                "elementwise; group_2 has 2 operators",
            ),
        ),
        Example(
            title="Measured: one group takes less time than its operators, the other does not",
            options={"measured": True},
            times_us={"Exp": 20, "Neg": 20, "Exp + Neg": 25, "Mul": 9, "Sub": 9, "Mul + Sub": 18},
            before="""g (float[8] x, float[8] z) => (float[8] y, float[8] w) {
                b = Mul(x, z)
                w = Sub(b, z)
                a = Exp(x)
                y = Neg(a)
            }""",
            after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                g (float[8] x, float[8] z) => (float[8] y, float[8] w) {
                    b = Mul(x, z)
                    w = Sub(b, z)
                    y = workbench.group_1_Exp_Neg(x)
                }
                <domain: "workbench", opset_import: ["": 23]>
                group_1_Exp_Neg (x) => (y) {
                    a = Exp(x)
                    y = Neg(a)
                }""",
            sentences=(
                "Exp 'Exp_a' (elementwise) joins its post-dominator Neg 'Neg_y' (elementwise); the edges are "
                "elementwise; group_1 has 2 operators",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, FusionFacts]:
        unfused = graph.copy()
        operators = fusion_problem(unfused)
        merged_groups = list(merges(groups := Groups(operators), self.max_operators, past_products=self.past_products))
        times = self._times(unfused, groups, context) if self.measured else {}
        group = [
            i if number in times and not times[number].is_faster else number for i, number in enumerate(groups.group)
        ]
        names = group_names(unfused, group)
        node_of_operator = {operator.name: operator.name for operator in operators}
        for merge in merged_groups:
            if group[merge.operator] != groups.group[merge.operator]:
                continue
            yield self._rewrite(graph, unfused, merge, names[groups.group[merge.operator]], node_of_operator)
        values = stored_values(unfused)
        slower = {
            i: f"its group of {len(groups.members[number]):,} operators is not kept: {times[number].clause}"
            for i, number in enumerate(groups.group)
            if number in times and not times[number].is_faster
        }
        return FusionFacts(
            fused_groups(unfused, operators, group),
            Traffic(traffic(values, range(len(operators))), traffic(values, group)),
            {operators[i].name: sentence for i, sentence in (groups.refusals | slower).items()},
        )

    def _times(self, unfused: Graph, groups: Groups, context: PassContext) -> dict[int, GroupTime]:
        timer = require_operator_timer(context.find(OperatorTimer), context.get(Profile))
        return group_times(unfused, operators_by_group(groups.group), timer, self.device, self.dtype)

    def _rewrite(
        self, graph: Graph, unfused: Graph, merge: Merge, name: str, node_of_operator: dict[str, str]
    ) -> Rewrite:
        """node_of_operator: for each operator, the node that computes it now; it is updated."""
        members = [unfused.nodes[i] for i in merge.members]
        remove = tuple(dict.fromkeys(node_of_operator[node.name] for node in members))
        if name in graph and name not in remove:  # the name of a part of this group that joins it later
            name = graph.fresh(name)
        edit = call_edit(graph, unfused, members, name, remove)
        node_of_operator.update((node.name, name) for node in members)
        return Rewrite(edit, f"{merge.sentence}; {name} has {len(members)} operators", remove)
