"""What the pass of a step considered, where it acted, and why it did not act on other nodes.

This is not recorded while passes run: the rules are asked again on the graph after the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import streamlit as st

from workbench.interfaces.ui.state.graph_views import effective_profile, passes_of
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import Opened, Spec
from workbench.interfaces.ui.state.snapshots import graphs_of_steps
from workbench.interfaces.ui.widgets.parts import pane
from workbench.interfaces.ui.widgets.steps import STEP, go_to_node
from workbench.interfaces.ui.widgets.tables import table
from workbench.presentation.explanations.explanation import indented_graph, rule_source
from workbench.presentation.explanations.refusals import Considered, RefusalGroup, considered
from workbench.rewrite import History, Pass, PassContext, Rule

_SOURCE = 0.45  # the part of the height for the rule's example and source


def show_why_not(opened: Opened, history: History, spec: Spec, index: int, height: int) -> None:
    """Draw what the step considered; for step 0, a table of what all steps considered."""
    passes = passes_of(spec)
    if not index:
        _all_steps(opened, history, spec, passes, height)
        return
    result = _considered(opened, history, spec, passes, index)
    step = history[index]
    st.caption(markdown_escaped(f"{step.title} ran, in {step.seconds:.2f} s: {result.sentence}."))
    if not result.groups:
        return
    groups, nodes = st.columns([3, 2], gap="small")
    upper = round(height * (1 - _SOURCE))
    with groups:
        group = result.groups[_group_table(opened, result, index, upper)]
    with nodes:
        _node_table(opened, history, index, group, upper)
    rule = next((rule for rule in passes[index - 1].rules if rule.name == group.rule), None)
    if rule is not None:
        _rule(passes[index - 1], rule, group, height - upper)


@dataclass
class ConsideredSteps(ModelState):
    """What the steps of a history considered, by their index."""

    history: History | None = None
    by_step: dict[int, Considered] = field(default_factory=dict)

    def of(self, history: History) -> dict[int, Considered]:
        """What is known of that history."""
        if self.history is not history:
            self.history, self.by_step = history, {}
        return self.by_step


def _considered(opened: Opened, history: History, spec: Spec, passes: list[Pass], index: int) -> Considered:
    """What the step considered; cached."""
    by_step = opened.state(ConsideredSteps).of(history)
    if index not in by_step:
        context = PassContext(effective_profile(history, spec.profile), mode=history.mode, limits=history.limits)
        with st.spinner(f"Asking the rules of {passes[index - 1].title} again"):
            after = graphs_of_steps(opened, history)[index]
            by_step[index] = considered(history[index], passes[index - 1], after, context, history[index].excluded)
    return by_step[index]


def _all_steps(opened: Opened, history: History, spec: Spec, passes: list[Pass], height: int) -> None:
    """Draw a table of all passes with what each considered; a click chooses its step."""
    st.caption("Every pass of the list ran, also those that changed nothing. Click one to see its reason at each node.")
    rows = []
    for index, step in enumerate(history.steps[1:], 1):
        result = _considered(opened, history, spec, passes, index)
        refused = "-" if result.about or result.looks_at_all else f"{result.refused:,}"
        rows.append(
            {"#": index, "pass": step.title, "acted on": result.acted, "refused": refused, "in words": result.sentence}
        )
    key = f"why_not_steps_{opened.number}"

    def choose(row: int) -> None:
        st.session_state[STEP] = row + 1

    columns = {
        "#": st.column_config.NumberColumn(width=50),
        "pass": st.column_config.TextColumn(width=260),
        "refused": st.column_config.TextColumn(width=70, alignment="right"),
        "in words": st.column_config.TextColumn(width=600),
    }
    table(rows, columns, height=height, key=key, on_click=choose)


def _group_table(opened: Opened, result: Considered, index: int, height: int) -> int:
    """Draw the reasons with their numbers of nodes; returns the index of the chosen one, by default the first."""
    key = f"why_not_{opened.number}_{index}"
    columns = {
        "nodes": st.column_config.NumberColumn(width=60, format="localized"),
        "reason": st.column_config.TextColumn(width=440),
    }
    rows = [{"nodes": len(g.nodes), "reason": g.sentence, "rule": g.rule or "-"} for g in result.groups]
    state = table(rows, columns, height=height, key=key, on_select="rerun", selection_mode="single-cell")
    cells = state["selection"]["cells"]
    return min(cells[0][0], len(result.groups) - 1) if cells else 0


def _node_table(opened: Opened, history: History, index: int, group: RefusalGroup, height: int) -> None:
    """Draw the nodes of a group; a click shows one in the graph after the step."""
    key = f"why_not_nodes_{opened.number}_{index}_{group.rule}_{group.sentence}"

    def show(row: int) -> None:
        go_to_node(opened, history, index, group.reasons[row][0])

    columns = {"node (click to see it)": st.column_config.TextColumn(width=160)}
    rows = [{"node (click to see it)": name, "reason": sentence} for name, sentence in group.reasons]
    table(rows, columns, height=height, key=key, on_click=show)


def _rule(pass_: Pass, rule: Rule, group: RefusalGroup, height: int) -> None:
    """Draw the rule's sentence for the first node of the group, and the rule's example beside its source."""
    node, sentence = group.reasons[0]
    with pane("why_not_rule", height, border=True):
        st.caption(markdown_escaped(f"Rule {rule.name}, of {node}: {sentence}."))
        example, source = st.columns(2, gap="small")
        with example:
            st.caption("The rule's example, before and after")
            st.code(indented_graph(rule.example.before), language=None, wrap_lines=True)
            st.code(indented_graph(rule.example.after), language=None, wrap_lines=True)
        with source:
            for lines in rule_source(type(pass_), rule):
                st.caption(markdown_escaped(f"{lines.file}, line {lines.line}"))
                st.code(lines.text, language="python", wrap_lines=True)
