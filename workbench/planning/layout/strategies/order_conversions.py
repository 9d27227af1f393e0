"""The rewrites that run operators on permuted operands, as chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, permuted
from workbench.planning.layout.conversion.convert import convert, why_there
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import TENSOR, case_of, infer_layouts, is_cnn
from workbench.planning.layout.problem.orders import reshape_problem
from workbench.planning.layout.problem.transpose_classes import one_transpose_per_order
from workbench.planning.layout.profile import Profile
from workbench.planning.solvers.solving import solve_integer_program
from workbench.rewrite.core.rule import Rewrite, rewrite_each

Reason = Callable[[Node, str], str]  # why a node runs somewhere ("in NHWC", "on axes [0, 2, 1]"), as a clause


def order_conversions(
    graph: Graph,
    perms: Mapping[str, Permutation],
    layouts: dict[str, str],
    target: Profile,
    reason: Reason | None = None,
) -> Iterator[Rewrite]:
    """One rewrite for each operator, by name; each must be applied before the next is asked for.

    perms: how the operands are permuted. layouts: of the values of the graph before the first.
    """
    for name, perm in perms.items():
        node = graph.node(name)
        case = case_of(node, layouts)
        layout = _layout_name(node, perm, layouts)
        conversion = convert(graph, node, perm, layout or "".join(map(str, perm)), target)
        where = f"on axes {list(perm)}" if layout is None else f"in {layout}"
        why = why_there(node, where, target) if reason is None else reason(node, where)
        sentence = f"{case}: {node} {why}; {conversion.operands_text()}"
        yield Rewrite(conversion.edit, sentence, (name,), case)


def relayout(
    graph: Graph,
    perms: Mapping[str, Permutation],
    layouts: dict[str, str],
    target: Profile,
    weigh: str,
    reason: Reason,
) -> Iterator[Rewrite]:
    """The conversions, and one Transpose for each order in which a value is then read; views that meet become one."""
    yield from order_conversions(graph, perms, layouts, target, reason)
    yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
    yield from rewrite_each(one_transpose_per_order(graph, weigh), "tidied")
    yield from rewrite_each(tidy_transposes(graph), "tidied")


def fewest_reshapes(graph: Graph, target: Profile, weigh: str) -> Iterator[Rewrite]:
    """Convert operators between Transposes that move no element, so that the fewest of those are left.

    Searches that treat orders of axes that are equal in memory as one miss these.
    """
    layouts = infer_layouts(graph, through_reshapes=True)
    stated = reshape_problem(graph, layouts, target, weigh)
    solution = solve_integer_program(stated.problem)
    if solution.cost < stated.problem.cost((0,) * len(stated.nodes)):
        yield from order_conversions(graph, stated.chosen(solution.forms), layouts, target)


def _layout_name(node: Node, perm: Permutation, layouts: dict[str, str]) -> str | None:
    """The layout of the permuted operands, "NHWC"; None if they are Tensors."""
    operand_layouts = (layouts.get(value, TENSOR) for value in (*node.inputs, *node.outputs))
    image_layout = next((layout for layout in operand_layouts if is_cnn(layout) and len(layout) == len(perm)), None)
    return None if image_layout is None else "".join(permuted(image_layout, perm))
