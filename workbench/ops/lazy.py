"""torch, imported on first use, so that reading the contracts does not import it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any


class _Late:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """The module's attribute. It is set on this object too, where later accesses find it at once."""
        result = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, result)
        return result


if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
else:
    torch = _Late("torch")
    F = _Late("torch.nn.functional")

__all__ = ["F", "torch"]
