"""The rewrites that run operators in the layouts of a minimum cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir import Graph, Node
from workbench.planning.layout.conversion.convert import convert, why_there
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import case_of, infer_layouts
from workbench.planning.layout.problem.cost_model import BYTES
from workbench.planning.layout.problem.two_layouts import LayoutProblem, layout_of_images, layout_problem, other_layout
from workbench.planning.layout.profile import Profile
from workbench.planning.solvers.minimum_cut import CutSolution, solve_cut
from workbench.rewrite.core.rule import Rewrite


def converted_by(problem: LayoutProblem, solution: CutSolution) -> list[str]:
    """The operators whose layout the solution changes."""
    chosen = zip(problem.nodes, problem.written_sides, solution.sides, strict=True)
    return [name for name, own, side in chosen if name is not None and own != side]


def cut_conversions(
    graph: Graph, names: Iterable[str], layouts: dict[str, str], target: Profile, reason: Callable[[Node, str], str]
) -> Iterator[Rewrite]:
    """One rewrite for each operator, which then runs in the other of its two layouts; each must be applied before the
    next is asked for.

    layouts: of the values of the graph before the first. reason: why an operator runs in a layout, as a clause.
    """
    for name in names:
        node = graph.node(name)
        case = case_of(node, layouts)
        own = layout_of_images(node, layouts)
        assert own is not None  # otherwise there is no choice
        layout, perm = other_layout(own)
        conversion = convert(graph, node, perm, layout, target)
        sentence = f"{case}: {node} {reason(node, layout)}; {conversion.operands_text()}"
        yield Rewrite(conversion.edit, sentence, (name,), case)


def remove_transposes_that_move_nothing(graph: Graph, target: Profile, weigh: str) -> Iterator[Rewrite]:
    """Convert operators between Transposes that move no element, so that the fewest of those are left.

    Searches treat orders of axes that are equal in memory as one, and so miss these. The trial below ensures that what
    is minimized gets no worse.
    """
    layouts = infer_layouts(graph, through_reshapes=True)
    problem = layout_problem(graph, layouts, target, weigh)
    as_written = problem.problem.cost(problem.written_sides)
    solution = solve_cut(problem.problem)
    if as_written is None or solution.cost >= as_written:
        return

    def conversions(of: Graph) -> Iterator[Rewrite]:
        names = converted_by(problem, solution)
        return cut_conversions(of, names, layouts, target, lambda node, where: why_there(node, f"in {where}", target))

    trial = graph.copy()
    for rewrite in conversions(trial):
        trial.apply(rewrite.edit)
    for edit, _, _ in tidy_transposes(trial, reshape=False):
        trial.apply(edit)
    if _transpose_cost(trial, weigh) < _transpose_cost(graph, weigh):  # it may not be, since a problem may be inexact
        yield from conversions(graph)


def _transpose_cost(graph: Graph, weigh: str) -> tuple[int, int]:
    """What a strategy minimizes, and what breaks ties; Transposes that move nothing count too."""
    counts = count_transposes(graph)
    return (counts.bytes_moved, counts.transposes) if weigh == BYTES else (counts.transposes, counts.bytes_moved)
