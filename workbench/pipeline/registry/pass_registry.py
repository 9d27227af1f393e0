"""The folder of the passes: `passes/` of the repository, or `workbench/passes/` if the workbench is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import passes as library
else:
    _INSTALLED = "workbench.passes"
    library = importlib.import_module(_INSTALLED if importlib.util.find_spec(_INSTALLED) else "passes")

__all__ = ["library"]
