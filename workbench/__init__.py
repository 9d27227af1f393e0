"""Graph Workbench: see, check and measure every rewrite of a neural-network graph.

The folders stand in the order in which the data goes through them:

    load     a file or a program becomes a graph
    ir       the graph: nodes, values, edits, text
    ops      the operator contracts: torch function, layout, figures
    layout   the layout of every value, target profiles, costs
    rewrite  rules, passes, the driver, the history
    pipeline passes one after the other         (the passes themselves: `passes/`)
    verify   are two graphs equal; which rewrite broke it
    run      executors, measurement, the worker process
    view     graph and history to the picture
    export   ONNX for any runtime
    api      the verbs below
    ui       one Streamlit panel a stage

The verbs are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.api import explain, export, inspect, layouts, load, measure, optimize, report, verify

__all__ = ["explain", "export", "inspect", "layouts", "load", "measure", "optimize", "report", "verify"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'workbench' has no attribute '{name}'")
    from workbench import api

    return getattr(api, name)
