"""Graph Workbench: see, check and measure every rewrite of a neural-network graph.

The folders stand in the order in which the data goes through them:

    io        a file or a program becomes a graph, a graph a file
    ir        the graph: nodes, values, edits, text
    ops       the operator contracts: torch function, permutations, figures
    inference types, shapes, small numbers, constants
    layout    the layout of every value, target profiles, costs, choices
    rewrite   rules, the driver, the history         (the passes themselves: `passes/`)
    pipeline  passes one after the other
    verification  are two graphs equal; which rewrite broke it
    run       executors, measurement, the worker process
    view      graph and history to the picture; charts beside it
    api       the verbs below
    cli, ui   the command line, and one Streamlit page a stage

The verbs are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.api import dot, explain, export, inspect, layouts, load, measure, optimize, report, verify

__all__ = ["dot", "explain", "export", "inspect", "layouts", "load", "measure", "optimize", "report", "verify"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'workbench' has no attribute '{name}'")
    from workbench import api

    return getattr(api, name)
