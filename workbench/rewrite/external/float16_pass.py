"""A converter to float16 that others wrote as a pass: each part of the model that it converted is a rewrite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from workbench.ir import DataType, Graph, Node, TensorType
from workbench.ir.types import numpy_name
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.passes import option
from workbench.rewrite.external.files import write_whole
from workbench.rewrite.external.tool_pass import ToolPass, balance_of, named
from workbench.support.name_patterns import matching_names, name_patterns

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.rewrite.external.difference import Change


@dataclass(frozen=True)
class Float16Pass(ToolPass):
    """Base of the converters to float16 in `passes/tools/`. They keep names of values and change their types; inputs
    and outputs stay in float32. Operators that exchange a value in float16 are one rewrite."""

    exactness: ClassVar[Exactness] = Exactness.NARROWED
    keeps_names: ClassVar[bool] = True

    keep: str = option("", "Patterns of names of nodes that stay in float32, separated by commas: /head/*,Pow_12.")

    def kept(self, model: ModelProto) -> list[str]:
        """The names of the nodes that stay in float32."""
        return matching_names((node.name for node in model.graph.node), name_patterns(self.keep))

    def write(self, model: ModelProto, target: Path) -> None:
        """Write what the converter made, without the types that it declares: some are those from before."""
        del model.graph.value_info[:]
        write_whole(model, target)

    @property
    def narrow_type(self) -> DataType:
        """The element type to which it converts."""
        return DataType.FLOAT16

    def sentence(self, graph: Graph, change: Change) -> str:
        """Which operators are converted, and how many nodes that takes."""
        narrow = self.narrow_type
        converted = [node for node in change.inserted if node.op != "Cast" and _is_in(narrow, graph, change, node)]
        if not converted:
            return super().sentence(graph, change)
        verb = "runs" if len(converted) == 1 else "run"
        return f"{named(converted)} {verb} in {numpy_name(narrow)}{balance_of(change)}"


def _is_in(dtype: DataType, graph: Graph, change: Change, node: Node) -> bool:
    """Whether a result of the node, which the change inserts, is of the type."""
    types = (change.edit.types.get(value) or graph.type(value) for value in node.outputs if value)
    return any(isinstance(type_, TensorType) and type_.dtype == dtype for type_ in types)
