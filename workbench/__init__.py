"""Graph Workbench: see, check and measure every rewrite of a neural-network graph.

Its folders are rooms, each of which imports only rooms below it. The docstring of a room says what it has, and
docs/architecture.md, whose tables are made of these docstrings, which rooms it may import.

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
