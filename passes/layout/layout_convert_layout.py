"""Convert by class of operator: those that are named get the layout, the others follow their operands."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from workbench.ir import Graph, Node
from workbench.ops import NotPermutable
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.classes import class_of
from workbench.planning.layout.conversion.convert import convert, restoring_transpose_of, store_weights
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.profile import WEIGHTS, Profile, ProfileError, check_profile, parse_demand
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.npu_strategy import preferred_operand_layout, reshapes
from workbench.rewrite import Example, PassContext, Rewrite, option, rewrite_each

FROM_TARGET = "target"


@dataclass(frozen=True)
class LayoutConvertLayout(LayoutStrategy):
    """One walk from inputs to outputs, in either direction (to NHWC or back to NCHW):

    - a heavily layout-sensitive operator (a convolution) that is named gets the layout named for
      it, or the target's;
    - a lightly sensitive one (whose attributes name axes: Concat, Pad, pools) and an agnostic
      one (Relu, Add) take the layout in which an operand arrives; their other operands are transposed to it;
    - all others keep their layout, which a Transpose before them restores.

    Existing Transposes pass the layout on; those that are no longer needed are removed.

    It does not consider cost: where branches join, it may move more than before.

    A convolution that is channels last in the file (`Conv_NHWC_HWIO`) returns to channels first, and its weight
    with it.

    Source: TVM's ConvertLayout, its three classes and its map of desired layouts. There an elementwise operator
    follows the operand of lower rank; here constants are reshaped to match.
    """

    strategy = "convert-layout"
    title = "Layout: convert by class"

    operators: str = option(
        "",
        "Operators that get a layout, separated by spaces: each with its own, as in Conv=NHWC MaxPool=NCHW, "
        "or else the target's; after a comma the kernel's order, as in Conv=NHWC,HWIO or Conv=NCHW,default; "
        "empty: what the target demands.",
    )
    weights: str = option(
        FROM_TARGET,
        "Order of a convolution's weights.",
        choices=(FROM_TARGET, *WEIGHTS),
    )

    extra_examples = (
        Example(
            title="A TensorFlow export, two convolutions on NHWC values, brought to NCHW: one transpose at each end",
            target="nchw",
            before="""g (float[1,4,4,2] x) => (float[1,4,4,2] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Transpose<perm=[0,3,1,2]>(x)
                b = Conv(a, w)
                c = Transpose<perm=[0,2,3,1]>(b)
                d = Relu(c)
                e = Transpose<perm=[0,3,1,2]>(d)
                f = Conv(e, w)
                y = Transpose<perm=[0,2,3,1]>(f)
            }""",
            after="""g (float[1,4,4,2] x) => (float[1,4,4,2] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Transpose<perm=[0,3,1,2]>(x)
                b = Conv(a, w)
                d_nchw = Relu(b)
                f = Conv(d_nchw, w)
                y = Transpose<perm=[0,2,3,1]>(f)
            }""",
            sentences=(
                "layout-agnostic: Relu 'Relu_d' takes NCHW from its operands; nothing moved",
                "perm [0, 2, 3, 1] then [0, 3, 1, 2] is the identity; 64 elements no longer moved",
            ),
        ),
        Example(
            title="Weights in another order than the target's",
            target="cuda",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                y = Relu(a)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,1,1,2] w_ohwi = {1, 2, 3, 4}> {
                x_nhwc = Transpose<perm=[0,2,3,1]>(x)
                a_nhwc = workbench.Conv_NHWC_OHWI(x_nhwc, w_ohwi)
                y_nhwc = Relu(a_nhwc)
                y = Transpose<perm=[0,3,1,2]>(y_nhwc)
            }""",
            sentences=(
                "heavily layout-sensitive: Conv 'Conv_a' gets NHWC; 'x' is transposed, 32 elements; "
                "weight converted from OIHW to OHWI",
                "layout-agnostic: Relu 'Relu_y' takes NHWC from its operands; nothing moved",
            ),
            options={"weights": "OHWI"},
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        profile = self.aim(context.get(Profile))
        yield from rewrite_each(store_weights(graph, profile), "weights")
        layouts = infer_layouts(graph)
        for name in [node.name for node in graph.nodes if node.op != "Transpose"]:
            yield from _visit(graph, graph.node(name), layouts, profile)
        yield from rewrite_each(tidy_transposes(graph), "tidied")
        return LayoutFacts(inexact="it decides operator by operator, in the order of the graph")

    def aim(self, target: Profile) -> Profile:
        """The target as changed by the options. Raises ProfileError for unknown names."""
        weights = target.weights if self.weights == FROM_TARGET else self.weights
        entries = [entry.partition("=") for entry in self.operators.split()]
        if not entries:
            return replace(target, weights=weights)
        operators = [operator for operator, _, _ in entries]
        repeated = next((operator for operator in operators if operators.count(operator) > 1), None)
        if repeated is not None:
            raise ProfileError(f"option {self.name}.operators names {repeated} twice; give each operator one layout")
        option_name = f"option {self.name}.operators"
        parsed = {op: parse_demand(op, (layout or target.layout).split(","), option_name) for op, _, layout in entries}
        demands = {operator: data for operator, (data, _) in parsed.items()}
        kernels = {operator: kernel for operator, (_, kernel) in parsed.items() if kernel is not None}
        data_layouts = set(demands.values())
        layout = (
            data_layouts.pop() if len(data_layouts) == 1 else target.layout
        )  # other operators follow the named ones
        profile = replace(target, layout=layout, required_layouts=demands, weights=weights, kernels=kernels)
        check_profile(profile, option_name)
        return profile


def _visit(graph: Graph, node: Node, layouts: dict[str, str], profile: Profile) -> Iterator[Rewrite]:
    preferred = preferred_operand_layout(node, layouts, profile)
    if preferred is None or reshapes(node):
        return
    layout, perm = preferred
    is_named = plain_op(node) in profile.required_layouts
    if not is_named and not any(
        value and restoring_transpose_of(graph, value, perm) is not None for value in node.inputs
    ):
        return
    try:
        conversion = convert(graph, node, perm, layout, profile)
    except NotPermutable:
        return
    class_ = class_of(node, profile)
    verb = f"gets {layout}" if is_named else f"takes {layout} from its operands"
    yield Rewrite(conversion.edit, f"{class_}: {node} {verb}; {conversion.operands_text()}", (node.name,), class_)
