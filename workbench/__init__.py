"""Graph Workbench: see, check and measure every rewrite of a neural-network graph.

The folders in the order in which data passes through them:

    io        loading a file or program as a graph, and exporting a graph
    ir        the graph: nodes, values, edits, text
    ops       the operator contracts: torch function, permutations, fusion kinds, costs
    inference types, shapes, elements of small values, constants
    metrics   what is counted of a graph: nodes, transposes, what they move
    rewrite   rules, the driver, the history         (the passes themselves: `passes/`)
    external  optimizers that others wrote, as passes
    layout    the layout of every value, target profiles, costs, choices
    fusion    groups of operators, their memory traffic
    memory    lifetimes of values, shared memory, plans of one arena
    streams   operators side by side
    pipeline  passes in order, as a value and as text, and run
    run       executors, measurement, the worker process
    registry  the passes that were found, as users name them
    verification  whether two graphs are equal, and which rewrite broke it
    certification the evidence of a history as a file; `checker` re-checks it and imports nothing of these
    view      the picture of a graph and its history; charts beside it
    api       the verbs below
    study     sweeps, tuning, other tools compared
    cli, ui   the command line, and one Streamlit page per stage

The verbs are imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.api import (
        Fixpoint,
        Pipeline,
        certificate,
        check_certificate,
        compile,
        dot,
        explain,
        export,
        groupings,
        inspect,
        layouts,
        load,
        measure,
        memory_plan,
        optimize,
        package,
        reduce,
        report,
        verify,
    )

__all__ = [
    "Fixpoint",
    "Pipeline",
    "certificate",
    "check_certificate",
    "compile",
    "dot",
    "explain",
    "export",
    "groupings",
    "inspect",
    "layouts",
    "load",
    "measure",
    "memory_plan",
    "optimize",
    "package",
    "reduce",
    "report",
    "verify",
]


def __dir__() -> list[str]:
    """The verbs, which completion offers."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'workbench' has no attribute '{name}'")
    from workbench import api

    return getattr(api, name)
