"""The HTML file of a history, and that of the differences of two graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workbench.ir import Graph
from workbench.planning.layout.profile import Profile
from workbench.presentation.view.matching import match_graphs, with_names_of
from workbench.presentation.view.report import inspected, report_html
from workbench.presentation.view.scene import View
from workbench.presentation.view.timeline import timeline_of, timeline_of_pair
from workbench.rewrite import History, Pass


def report_page(history: History, profile: Profile, passes: Sequence[Pass] = (), above: str = "") -> str:
    """The page of a history. passes: the inspector says why each of them did not match a node. above: HTML."""
    view = View(timeline_of(history, profile), _file_name(history.initial), profile.layout)
    return report_html(view, inspected(history, view, profile, passes), above)


def pair_page(first: History, second: History, profile: Profile) -> tuple[str, str]:
    """A sentence that counts the matched nodes of two graphs, and the page of their differences.

    The histories must have no steps.
    """
    matched = match_graphs(first.graph, second.graph)
    titles = (_file_name(first.graph), _file_name(second.graph))
    second.initial = second.graph = with_names_of(first.graph, second.graph, matched.pairs)
    timeline = timeline_of_pair(first.graph, second.graph, titles, matched.sentence, profile)
    view = View(timeline, " and ".join(titles), profile.layout)
    texts = inspected(first, view, profile) | inspected(second, view, profile)
    return matched.sentence, report_html(view, texts)


def _file_name(graph: Graph) -> str:
    return graph.name if graph.source is None else Path(graph.source).name
