"""A memory plan step by step: what is allocated, reused, overwritten and freed, with reasons."""

from __future__ import annotations

import streamlit as st

from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.planning.memory.blocks.actions import free_labels
from workbench.planning.memory.planning import MemoryPlan
from workbench.presentation.charts.memory import arena_chart

_INTERVAL_S = 1.2  # between steps while playing


def play_steps(number: int, plan: MemoryPlan) -> None:
    """Draw the player of the steps. number: of the open model."""
    steps = len(plan.sharing.lifetimes.steps)
    if not steps:
        st.caption("This graph has no operators.")
        return
    key = f"memory_step_{number}_{plan.packed.planner}_{plan.sharing.order}"
    playing = st.toggle("Play", key=f"{key}_play")

    @st.fragment(run_every=_INTERVAL_S if playing else None)
    def player() -> None:
        now = st.session_state.get(key, 0)
        if playing and st.session_state.get(f"{key}_started"):
            now = (now + 1) % steps
        st.session_state[f"{key}_started"] = playing
        st.session_state[key] = now
        back, choose, ahead = st.columns([2, 12, 2], vertical_alignment="bottom")
        if back.button("Back", key=f"{key}_back", width="stretch") and now:
            now -= 1
        if ahead.button("Next", key=f"{key}_next", width="stretch") and now < steps - 1:
            now += 1
        st.session_state[key] = now
        if steps > 1:
            choose.slider("Step", 0, steps - 1, key=key)
        _moment(plan, st.session_state[key])
        st.plotly_chart(
            arena_chart(plan, _marked(plan, st.session_state[key]), st.session_state[key]), key=f"{key}_chart"
        )

    player()


def _marked(plan: MemoryPlan, step: int) -> set[str]:
    return {value.name for value in plan.values if value.born == step}


def _moment(plan: MemoryPlan, step: int) -> None:
    """Draw the sentences on what happens at the step."""
    label = plan.sharing.lifetimes.steps[step]
    st.markdown(markdown_escaped(f"Step {step:,}: {label.node}") + f", {_in_use(plan, step):,} bytes in use")
    sentences = [d.sentence for d in plan.sharing.decisions if d.step == step]
    sentences += [action.sentence for action in plan.packed.actions if action.step == step]
    for sentence in sentences:
        st.caption(markdown_escaped(sentence))
    free = free_labels(plan.packed, step)
    if free:
        st.caption(f"Recycle box, labels free for reuse: {', '.join(map(str, free))}")


def _in_use(plan: MemoryPlan, step: int) -> int:
    in_use = plan.sharing.packing.in_use
    return in_use[step] if step < len(in_use) else 0
