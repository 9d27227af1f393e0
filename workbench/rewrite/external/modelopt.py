"""Base of the passes that are tools of NVIDIA's ModelOpt: what they need, and where their calibration comes from."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import ClassVar

from onnx import ModelProto, defs

from workbench.errors import quoted
from workbench.rewrite.core.passes import option
from workbench.rewrite.external.tool_call import ToolError
from workbench.rewrite.external.tool_pass import ToolPass

_PACKAGE = "nvidia-modelopt"
# What `modelopt.onnx` imports, by module, as in `pip install`. Its extra `onnx` names older versions of onnx and of
# ONNX Runtime than ours; without that extra it runs on ours.
_NEEDED = {
    "modelopt": _PACKAGE,
    "torch": "torch",
    "onnx_graphsurgeon": "onnx-graphsurgeon",
    "polygraphy": "polygraphy",
    "lief": "lief",
}


@dataclass(frozen=True)
class ModeloptPass(ToolPass):
    """Each defines `convert`; it finds the inputs of calibration beside the source."""

    packages: ClassVar[tuple[str, ...]] = tuple(_NEEDED)

    calibration: str = option("", "An .npz file of inputs, or a folder of them; else the inputs of the run, or seeded.")

    @classmethod
    def missing(cls) -> str:
        absent = [module for module in cls.packages if importlib.util.find_spec(module) is None]
        if not absent:
            return ""
        names = [_NEEDED.get(module, module) for module in absent]
        verb = "is" if len(names) == 1 else "are"
        return f"{', '.join(names)} {verb} not installed; pip install {' '.join(names)}"

    @classmethod
    def version(cls) -> str:
        return metadata.version(_PACKAGE)

    @property
    def calibration_files(self) -> str | None:
        return self.calibration


def patterns_of(names: Sequence[str]) -> list[str]:
    """Regular expressions that match these names alone: ModelOpt matches from the start of a node's name."""
    return [f"{re.escape(name)}$" for name in names]


def check_operators(model: ModelProto) -> None:
    """Raises ToolError for operators that ONNX does not define: ModelOpt runs a model with them by TensorRT alone."""
    standard = {schema.name for schema in defs.get_all_schemas()}  # it asks for names, whatever their domain
    others = dict.fromkeys(node.op_type for node in model.graph.node if node.op_type not in standard)
    if others:
        raise ToolError(f"it needs TensorRT for operators that ONNX does not define: {quoted(tuple(others))}")
