"""Graph Workbench: see, check and measure every rewrite of a neural-network graph.

The folders in the order in which data passes through them:

    io        loading a file or program as a graph, and exporting a graph
    ir        the graph: nodes, values, edits, text
    ops       the operator contracts: torch function, permutations, fusion kinds, costs
    inference types, shapes, elements of small values, constants
    metrics   counts of a graph: nodes, transposes, elements that they move
    rewrite   rules, the driver, the history         (the passes themselves: `passes/`)
    external  optimizers of other projects, as passes
    layout    the layout of every value, target profiles, costs, choices
    fusion    groups of operators, their memory traffic
    memory    lifetimes of values, shared memory, plans of one arena
    streams   operators side by side
    pipeline  a sequence of passes as a value and as text, and its run
    run       executors, measurement, the worker process
    registry  the available passes, presets and strategies by name
    verification  whether two graphs are equal, and which rewrite broke it
    certification the evidence of a history as a file; `checker` re-checks it and imports none of these folders
    view      the picture of a graph and its history; `charts` has the other pictures
    api       the verbs below
    study     sweeps, tuning, other tools compared
    cli, ui   the command line, and one Streamlit page per stage

The verbs are imported when they are first used.
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
        gain,
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
    "gain",
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
    """The verbs, for completion."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from workbench.support.version import version

        return version()
    if name not in __all__:
        raise AttributeError(f"module 'workbench' has no attribute '{name}'")
    from workbench import api

    return getattr(api, name)
