"""The graph before a step and at a moment of it, for the panes; cached, since every click needs them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from workbench.interfaces.ui.state.lru import Recent
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import Opened, OtherModel
from workbench.interfaces.ui.state.strategies import ComparedLayouts
from workbench.ir import Graph, graph_text
from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.layout.infer import infer_layouts
from workbench.presentation.explanations.digest import Digest, digest_of_difference
from workbench.presentation.view.diff import Diff, diff
from workbench.presentation.view.text import TextRow, one_constant_per_line, side_by_side
from workbench.presentation.view.why_not import graphs_after
from workbench.rewrite import History

_MAX_SNAPSHOTS = 6


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


@dataclass
class Snapshots(ModelState):
    """The most recent snapshots; the graphs after each step of a history; digests of differences to other models.

    A new history drops them.
    """

    snapshots: Recent[Snapshot] = field(default_factory=lambda: Recent(_MAX_SNAPSHOTS))
    steps: Recent[Sequence[Graph]] = field(default_factory=lambda: Recent(1))
    digests: Recent[Digest] = field(default_factory=lambda: Recent(1))


def moment_of(opened: Opened, history: History, step: int, rewrites: int) -> Snapshot:
    """The graphs before `step` and after its first `rewrites` rewrites; the most recent results are cached."""
    cache = opened.state(Snapshots).snapshots
    return cache.get((step, rewrites), lambda: Snapshot(history.before(step), history.at(step, rewrites)))


def moment_of_whole(opened: Opened, history: History) -> Snapshot:
    """The original and the result of the history; cached."""
    return _of_graphs(opened, history.initial, history.graph)


def graphs_of_steps(opened: Opened, history: History) -> Sequence[Graph]:
    """The graph after each step of the history; cached."""
    return opened.state(Snapshots).steps.get(id(history), lambda: graphs_after(history))


def moment_of_pair(opened: Opened, compared: ComparedLayouts, first: str, second: str) -> Snapshot:
    """The results of two strategies, one as the graph before and the other as the graph after."""
    return _of_graphs(opened, compared.results[first].history.graph, compared.results[second].history.graph)


def difference_digest(opened: Opened, other: OtherModel) -> Digest:
    """The kinds of difference between the open model and the other one; cached. Raises ToolError if they have other
    inputs or outputs.
    """
    cache = opened.state(Snapshots).digests
    return cache.get(other.number, lambda: digest_of_difference(opened.graph, other.graph))


def moment_of_files(opened: Opened, other: OtherModel) -> Snapshot:
    """The open model, and the other one with its nodes renamed to match."""
    return _of_graphs(opened, opened.graph, other.renamed_graph)


def _of_graphs(opened: Opened, before: Graph, after: Graph) -> Snapshot:
    """The snapshot of two graphs; cached. It holds them, so that no other graph has their ids while it is cached."""
    return opened.state(Snapshots).snapshots.get((id(before), id(after), "graphs"), lambda: Snapshot(before, after))
