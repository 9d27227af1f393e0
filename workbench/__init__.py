"""Graph Workbench: see, check and measure every rewrite of a neural-network graph.

The folders, from the ground floor up. Each imports some of those above it; `tests/test_architecture.py` says which:

    ir            the graph: nodes, values, edits, text
    ops           operator contracts: torch function, permutations, fusion kinds, costs
    analysis      what follows from a graph: types, shapes, elements of small values; metrics
    formats       files: reading, writing, operators in the forms of other opsets
    rewrite       rules, patterns, the driver, the history; optimizers of other projects
    planning      what is chosen for a whole graph: layouts, element types, groups, memory, streams; solvers
    (passes)      one optimization a file, beside this package
    backends      what runs a graph: ONNX Runtime, torch
    run           inputs, the worker process, comparison of numbers, timing, kept runs
    pipeline      passes in order, as a value and as text; the passes, presets and strategies that are there
    evidence      verification, the smallest part that shows a fault, certificates
    checker       re-checks a certificate, and imports none of the others
    presentation  the picture of a graph and its history, charts, explanations
    interfaces    the verbs below, the command line, the app, lessons, studies of many runs

`errors` and `support` are for all of them but the checker.

The verbs are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.interfaces.api import (
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
    from workbench.interfaces import api

    return getattr(api, name)
