"""The graph before a step and at a moment of it, as the panes show them. Cached, since every click needs them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.fusion.opened_groups import OpenedGroups
from workbench.ir import Graph, graph_text
from workbench.layout.infer import infer_layouts
from workbench.rewrite import History
from workbench.ui.state.session import Compared, Opened, Other
from workbench.view.diff import Diff, diff
from workbench.view.text import TextRow, a_line_each, side_by_side
from workbench.view.why_not import graphs_after


@dataclass
class Snapshot:
    """Two graphs of a history; what is derived from them is computed once."""

    before: Graph
    after: Graph

    @cached_property
    def changes(self) -> Diff:
        return diff(self.before, self.after)

    @cached_property
    def groups(self) -> tuple[OpenedGroups, OpenedGroups]:
        """The graphs with fused groups open, before and after."""
        return OpenedGroups(self.before), OpenedGroups(self.after)

    @cached_property
    def layouts(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """By value, before and after, with fused groups open."""
        before, after = self.groups
        return infer_layouts(before.opened), infer_layouts(after.opened)

    @cached_property
    def texts(self) -> tuple[str, str]:
        before = a_line_each(graph_text(self.before))
        return before, before if self.changes.is_empty else a_line_each(graph_text(self.after))

    @cached_property
    def lines(self) -> list[TextRow]:
        return side_by_side(*self.texts)


def moment_of(opened: Opened, history: History, step: int, rewrites: int) -> Snapshot:
    """The graph before `step` and after its first `rewrites` rewrites; the most recent results are cached."""
    key = (step, rewrites)
    result: Snapshot = opened.moments.get(key, lambda: Snapshot(history.before(step), history.at(step, rewrites)))
    return result


def graphs_of_steps(opened: Opened, history: History) -> Sequence[Graph]:
    """The graph after each step of the history; cached."""
    result: Sequence[Graph] = opened.moments.get(("behind", id(history)), lambda: graphs_after(history))
    return result


def moment_of_pair(opened: Opened, compared: Compared, first: str, second: str) -> Snapshot:
    """The results of two strategies, one as the graph before and the other as the graph after."""
    graphs = compared.found[first].history.graph, compared.found[second].history.graph
    result: Snapshot = opened.moments.get((compared.profile.name, first, second), lambda: Snapshot(*graphs))
    return result


def moment_of_files(opened: Opened, other: Other) -> Snapshot:
    """The open model, and the other one with its nodes renamed to match."""
    result: Snapshot = opened.moments.get(("files", other.number), lambda: Snapshot(opened.graph, other.named))
    return result
