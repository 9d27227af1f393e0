"""The graph before a step and at a moment of it, for the panes; cached, since every click needs them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.interfaces.ui.state.session import ComparedLayouts, Opened, OtherModel
from workbench.ir import Graph, graph_text
from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.layout.infer import infer_layouts
from workbench.presentation.explanations.digest import Digest, digest_of_difference
from workbench.presentation.view.diff import Diff, diff
from workbench.presentation.view.text import TextRow, one_constant_per_line, side_by_side
from workbench.presentation.view.why_not import graphs_after
from workbench.rewrite import History


@dataclass
class Snapshot:
    """Two graphs of a history, with values derived from them, each computed once."""

    before: Graph
    after: Graph

    @cached_property
    def changes(self) -> Diff:
        return diff(self.before, self.after)

    @cached_property
    def groups(self) -> tuple[OpenedGroups, OpenedGroups]:
        """The graphs before and after, with fused groups opened."""
        return OpenedGroups(self.before), OpenedGroups(self.after)

    @cached_property
    def layouts(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The layouts by value, before and after, with fused groups opened."""
        before, after = self.groups
        return infer_layouts(before.opened), infer_layouts(after.opened)

    @cached_property
    def texts(self) -> tuple[str, str]:
        before = one_constant_per_line(graph_text(self.before))
        return before, before if self.changes.is_empty else one_constant_per_line(graph_text(self.after))

    @cached_property
    def lines(self) -> list[TextRow]:
        return side_by_side(*self.texts)


def moment_of(opened: Opened, history: History, step: int, rewrites: int) -> Snapshot:
    """The graphs before `step` and after its first `rewrites` rewrites; the most recent results are cached."""
    key = (step, rewrites)
    result: Snapshot = opened.moments.get(key, lambda: Snapshot(history.before(step), history.at(step, rewrites)))
    return result


def moment_of_whole(opened: Opened, history: History) -> Snapshot:
    """The original and the result of the history; cached."""
    result: Snapshot = opened.moments.get(("whole", id(history)), lambda: Snapshot(history.initial, history.graph))
    return result


def graphs_of_steps(opened: Opened, history: History) -> Sequence[Graph]:
    """The graph after each step of the history; cached."""
    result: Sequence[Graph] = opened.moments.get(("behind", id(history)), lambda: graphs_after(history))
    return result


def moment_of_pair(opened: Opened, compared: ComparedLayouts, first: str, second: str) -> Snapshot:
    """The results of two strategies, one as the graph before and the other as the graph after."""
    graphs = compared.results[first].history.graph, compared.results[second].history.graph
    result: Snapshot = opened.moments.get((compared.profile.name, first, second), lambda: Snapshot(*graphs))
    return result


def difference_digest(opened: Opened, other: OtherModel) -> Digest:
    """The kinds of difference between the open model and the other one; cached. Raises ToolError if they have other
    inputs or outputs.
    """
    result: Digest = opened.moments.get(
        ("difference", other.number), lambda: digest_of_difference(opened.graph, other.graph)
    )
    return result


def moment_of_files(opened: Opened, other: OtherModel) -> Snapshot:
    """The open model, and the other one with its nodes renamed to match."""
    result: Snapshot = opened.moments.get(("files", other.number), lambda: Snapshot(opened.graph, other.renamed_graph))
    return result
