"""Minimum data movement with blocked channels: NCHW, NHWC or NCHW8c for each operator."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir import Edit, Graph, Node
from workbench.ir.permutation import channels_first
from workbench.ops import NotPermutable
from workbench.ops.blocked import BLOCKS, DEFAULT_BLOCK, block_of
from workbench.ops.channels_last import LAYOUT_NAMES, parse_channels_last, plain_op
from workbench.planning.layout.conversion.convert import REASON, convert, store_weights, why_there
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import case_of, infer_layouts
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.problem.blocked import BLOCK, OperandLayout, block_problem
from workbench.planning.layout.problem.blocked_conversion import convert_to_blocks, one_conversion_per_layout
from workbench.planning.layout.problem.cost_model import BYTES, COUNT
from workbench.planning.layout.problem.image_layouts import layout_of_images, orders_beyond, other_layout
from workbench.planning.layout.problem.orders import proof
from workbench.planning.layout.problem.transpose_classes import one_transpose_per_order
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.order_conversions import fewest_reshapes
from workbench.planning.solvers.solving import solve_integer_program
from workbench.rewrite import Example, PassContext, Rewrite, option, rewrite_each

_AUTO = "auto"


@dataclass(frozen=True)
class LayoutBlocked(LayoutStrategy):
    """Chooses NCHW, NHWC or blocked channels (NCHW8c: [N, C/8, H, W, 8]) for each operator, at the least total cost.

    - Convolutions, pools and BatchNormalization have a blocked form, functions of the domain "workbench";
      elementwise operators and Concat run on blocks unchanged, with constants reshaped to match.
    - A convolution of images whose channels are not a multiple of the block reads them in NCHW and
      returns blocks; any other operator on such an image has no blocked form.
    - A layout that the target demands is fixed; if it demands blocks that are impossible, NCHW is kept.
    - A value is converted once for each layout in which it is read, whatever the number of readers.
    - A conversion is a Transpose, which has a cost, and a Reshape, which is free; if the image has
      one element or one block of channels, it may be a Reshape alone.
    - Of choices with the same cost, the one that changes the fewest operators is taken; then operators
      between Reshapes that move no element are converted too, where that leaves fewer Reshapes.

    The bound of the result is the solver's; the gap is the part of the cost that is left to prove. A result is
    certified if it has no gap and moves exactly the bound.

    Source: oneDNN's nChw8c and nChw16c; ONNX Runtime's NchwcTransformer; the search, Liu et al.,
    "Optimizing CNN Model Inference on CPUs" (NeoCPU), USENIX ATC 2019; HiGHS (Huangfu and Hall 2018).
    """

    strategy = "blocked"
    title = "Layout: proven minimum with channels in blocks"

    block: str = option(
        _AUTO,
        "Channels of a block; auto: as the target demands, else 8.",
        choices=(_AUTO, *map(str, BLOCKS)),
    )
    weigh: str = option(BYTES, "What is minimized: bytes moved, or the number of transposes.", choices=(BYTES, COUNT))
    seconds: int = option(60, "Time limit of the search, in seconds; then the best found, with its gap.", least=1)

    extra_examples = (
        Example(
            title="In blocks from the first convolution on; converted back once, at the smallest image",
            target="blocked",
            before="""g (float[1,3,4,4] x, float[8,3,3,3] w, float[16,8,1,1] v) => (float[1,24,2,2] y)
                <float[8,1,1] c = {1, 2, 3, 4, 5, 6, 7, 8}> {
                a = Conv<pads=[1,1,1,1]>(x, w)
                b = Mul(a, c)
                d = Conv(b, v)
                e = Concat<axis=1>(b, d)
                y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(e)
            }""",
            after="""g (float[1,3,4,4] x, float[8,3,3,3] w, float[16,8,1,1] v) => (float[1,24,2,2] y)
                <float[1,1,1,1,8] c_nchw8c = {1, 2, 3, 4, 5, 6, 7, 8}, int64[4] y_shape = {1, 24, 2, 2}> {
                a_nchw8c = workbench.Conv_NCHW_NCHW8c<pads=[1,1,1,1]>(x, w)
                b_nchw8c = Mul(a_nchw8c, c_nchw8c)
                d_nchw8c = workbench.Conv_NCHW8c(b_nchw8c, v)
                e_nchw8c = Concat<axis=1>(b_nchw8c, d_nchw8c)
                y_nchw8c = workbench.MaxPool_NCHW8c<kernel_shape=[2,2], strides=[2,2]>(e_nchw8c)
                y_apart = Transpose<perm=[0,1,4,2,3]>(y_nchw8c)
                y = Reshape(y_apart, y_shape)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_a' must run in NCHW8c on this target; 'x' has 3 channels, which 8 "
                "does not divide, and is read in NCHW; nothing moved",
                "case 1, CNN to CNN: Mul 'Mul_b' runs in NCHW8c, which costs least; nothing moved",
                "case 1, CNN to CNN: Conv 'Conv_d' must run in NCHW8c on this target; nothing moved",
                "case 1, CNN to CNN: Concat 'Concat_e' runs in NCHW8c, which costs least; nothing moved",
                "case 1, CNN to CNN: MaxPool 'MaxPool_y' must run in NCHW8c on this target; nothing moved",
            ),
        ),
        Example(
            title="Four channels are not a block: that convolution and its reader stay",
            target="blocked",
            before="""g (float[1,8,2,2] x, float[8,8,1,1] w, float[4,8,1,1] v) => (float[1,4,2,2] y) {
                a = Relu(x)
                b = Conv(a, w)
                c = Conv(b, v)
                y = Relu(c)
            }""",
            after="""g (float[1,8,2,2] x, float[8,8,1,1] w, float[4,8,1,1] v) => (float[1,4,2,2] y)
                <int64[5] a_nchw8c_apart_shape = {1, 1, 8, 2, 2}, int64[4] b_shape = {1, 8, 2, 2}> {
                a = Relu(x)
                a_nchw8c_apart = Reshape(a, a_nchw8c_apart_shape)
                a_nchw8c = Transpose<perm=[0,1,3,4,2]>(a_nchw8c_apart)
                b_nchw8c = workbench.Conv_NCHW8c(a_nchw8c, w)
                b_apart = Transpose<perm=[0,1,4,2,3]>(b_nchw8c)
                b = Reshape(b_apart, b_shape)
                c = Conv(b, v)
                y = Relu(c)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_b' must run in NCHW8c on this target; 'a' is transposed, 32 elements",
                "Conv 'Conv_c' must run in NCHW8c on this target but does not: 'c' has 4 channels, which 8 does not "
                "divide",
            ),
        ),
        Example(
            title="Sixteen channels last are one block of 16: both Transposes are removed",
            target="blocked",
            options={"block": "16"},
            before="""g (float[1,4,4,16] x) => (float[1,2,2,16] y) {
                a = Transpose<perm=[0,3,1,2]>(x)
                b = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)
                y = Transpose<perm=[0,2,3,1]>(b)
            }""",
            after="""g (float[1,4,4,16] x) => (float[1,2,2,16] y)
                <int64[5] a_nchw16c_shape = {1, 1, 4, 4, 16}, int64[4] y_shape = {1, 2, 2, 16}> {
                a_nchw16c = Reshape(x, a_nchw16c_shape)
                b_nchw16c = workbench.MaxPool_NCHW16c<kernel_shape=[2,2], strides=[2,2]>(a_nchw16c)
                y = Reshape(b_nchw16c, y_shape)
            }""",
            sentences=(
                "case 1, CNN to CNN: MaxPool 'MaxPool_b' must run in NCHW16c on this target; 'a' is transposed, 256 "
                "elements",
                "'x' is read in no other layout and converted 2 times; 512 elements no longer moved",
                "'b_nchw16c' is read in no other layout and converted 2 times; 128 elements no longer moved",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        target = context.get(Profile)
        block = (target.block or DEFAULT_BLOCK) if self.block == _AUTO else int(self.block)
        yield from _channels_first(graph, target)
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        yield from rewrite_each(store_weights(graph, target), "weights")
        layouts = infer_layouts(graph, through_reshapes=True)
        problem = block_problem(graph, layouts, target, block, self.weigh)
        solution = solve_integer_program(problem.problem, self.seconds)
        blocked: dict[str, str] = {}
        for name, operand_layouts, form in zip(problem.nodes, problem.operand_layouts, solution.forms, strict=True):
            if name is not None and operand_layouts[form] is not None:
                yield _converted(graph, graph.node(name), operand_layouts[form], layouts, target, block, blocked)
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        made = infer_layouts(graph) | dict.fromkeys(blocked.values(), f"NCHW{block}c")
        yield from rewrite_each(one_conversion_per_layout(graph, made, block, self.weigh), "tidied")
        yield from rewrite_each(one_transpose_per_order(graph, self.weigh), "tidied")
        yield from fewest_reshapes(graph, target, self.weigh)
        yield from rewrite_each(tidy_transposes(graph), "tidied")
        yield from _refused(graph, problem.refused, block, layouts)
        over = f"no choice among NCHW, NHWC and NCHW{block}c for the operators that have those forms"
        beyond = orders_beyond(graph)
        return proof(count_transposes(graph), self.weigh, solution, problem.always, target, over=over, beyond=beyond)


def _converted(
    graph: Graph,
    node: Node,
    operand_layout: OperandLayout,
    layouts: dict[str, str],
    target: Profile,
    block: int,
    blocked: dict[str, str],
) -> Rewrite:
    """The conversion of the node to the chosen layout."""
    current = layout_of_images(node, layouts)
    assert current is not None and operand_layout is not None
    case, note = case_of(node, layouts), ""
    if operand_layout == BLOCK:
        layout = f"NCHW{block}c"
        conversion, note = convert_to_blocks(graph, node, current, block, blocked)
    else:
        layout, perm = other_layout(current)
        conversion = convert(graph, node, perm, layout, target)
    reason = why_there(node, f"in {layout}", target)
    message = f"{note}; {conversion.operands_text()}" if note else conversion.operands_text()
    return Rewrite(conversion.edit, f"{case}: {node} {reason}; {message}", (node.name,), case)


def _channels_first(graph: Graph, target: Profile) -> Iterator[Rewrite]:
    """Bring channels-last operators that must run in blocks to channels first, of which there is a blocked form."""
    for name in [node.name for node in graph.nodes]:
        node = graph.node(name)
        parts = parse_channels_last(node.domain, node.op_type)
        if parts is None or block_of(target.required_layouts.get(plain_op(node), "")) is None:
            continue
        layouts = infer_layouts(graph, through_reshapes=True)
        try:
            conversion = convert(graph, node, channels_first(parts.rank), LAYOUT_NAMES[parts.rank][0], target)
        except NotPermutable:
            continue
        case = case_of(node, layouts)
        sentence = f"{case}: {node} has a blocked form with channels first only; {conversion.operands_text()}"
        yield Rewrite(conversion.edit, sentence, (name,), case)


def _refused(graph: Graph, refused: dict[str, str], block: int, layouts: dict[str, str]) -> Iterator[Rewrite]:
    """Notes the reason in each operator that keeps its layout although it must run in blocks."""
    for name, reason in refused.items():
        node = graph.node(name)
        prefix = f"{node} must run in NCHW{block}c on this target but does not"
        if node.metadata.get(REASON, "").startswith(prefix):
            continue
        sentence = f"{prefix}: {reason}"
        edit = Edit(remove=(name,), insert=(node.replace(metadata={**node.metadata, REASON: sentence}),))
        yield Rewrite(edit, sentence, (name,), case_of(node, layouts))
