"""A quantizer that others wrote as a pass: each operator that it quantized is a rewrite, which can be left out."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.ir import Graph, Node
from workbench.rewrite.analyses.quantized_values import (
    quantized_value,
    values_of_each_run,
    weight_error_text,
)
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.passes import option
from workbench.rewrite.external.files import read_whole
from workbench.rewrite.external.tool_pass import ToolPass, balance_of, named
from workbench.support.name_patterns import matching_names, name_patterns

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from workbench.rewrite.external.difference import Change

CALIBRATION = "calibration"  # the folder beside the model that has the inputs
_MAX_NAMED = 3  # values in a sentence
_SUFFIX = "_quant"  # of ONNX Runtime's name of an integer product, behind that of the float one


@dataclass(frozen=True)
class QuantizerPass(ToolPass):
    """Base of the quantizers in `passes/tools/`. They keep the names of values, so that values are matched by name."""

    exactness: ClassVar[Exactness] = Exactness.QUANTIZED
    keeps_names: ClassVar[bool] = True

    keep: str = option("", "Patterns of names of nodes that stay in float, separated by commas: /head/*,Conv_12.")

    def read(self, source: Path) -> ModelProto:
        """The model, without the declared types of constants: the quantizers change those and keep the types."""
        model = read_whole(source)
        constants = {tensor.name for tensor in model.graph.initializer}
        declared = [value for value in model.graph.value_info if value.name not in constants]
        del model.graph.value_info[:]
        model.graph.value_info.extend(declared)
        return model

    def kept(self, model: ModelProto) -> list[str]:
        """The names of the nodes that stay in float."""
        return matching_names((node.name for node in model.graph.node), name_patterns(self.keep))

    def sentence(self, graph: Graph, change: Change) -> str:
        """Which operator is quantized, each number type with its scale, and how far weights are off."""
        parts = [*_parts(graph, change)]
        if not parts:
            return super().sentence(graph, change)
        more = [f"{len(parts) - _MAX_NAMED:,} more"] if len(parts) > _MAX_NAMED else []
        values = "; ".join([*parts[:_MAX_NAMED], *more])
        is_ = "is" if len(change.removed) == 1 else "are"
        return f"{named(change.removed)} {is_} quantized: {values}{balance_of(change)}"


class CalibrationFiles:
    """Gives the inputs in a folder's .npz files one after the other, as ONNX Runtime's calibration asks for them."""

    def __init__(self, folder: Path) -> None:
        self._files = sorted(folder.glob("*.npz"), key=lambda file: int(file.stem))
        self._rest = iter(self._files)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next file's arrays by name; None after the last."""
        file = next(self._rest, None)
        return None if file is None else _arrays(file)

    def get_first(self) -> dict[str, np.ndarray]:
        """The first file's arrays by name, for the one run before calibration in which ModelOpt asks for shapes."""
        return _arrays(self._files[0])


def _arrays(file: Path) -> dict[str, np.ndarray]:
    import numpy as np

    with zipfile.ZipFile(file) as archive:
        return {name.removesuffix(".npy"): _array(np, archive, name) for name in archive.namelist()}


def _array(np: Any, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)  # type: ignore[no-any-return]


def _parts(graph: Graph, change: Change) -> Iterator[str]:
    """Each value that the change quantizes, with its number type."""
    for node in change.inserted:
        if node.op == "DynamicQuantizeLinear":
            yield values_of_each_run(node.inputs[0])
            continue
        value = quantized_value(graph, node, change.edit.constants, change.inserted)
        if value is None or (node.op == "DequantizeLinear" and value.integers is None):
            continue
        name = _name(graph, change, value.name) if value.integers is None else _float_name(change, node)
        weight = None if value.integers is None else graph.constant(name)
        error = "" if weight is None else weight_error_text(weight.numpy(), value)
        yield f"'{name}' as {value.text}{', ' * bool(error)}{error}"


def _name(graph: Graph, change: Change, value: str) -> str:
    """The value, or if the quantizer made its name, that of the model's value which the integers of it become."""
    results = [value]
    for node in change.inserted:
        if results[-1] in node.inputs[:1] and node.op in ("QuantizeLinear", "DequantizeLinear"):
            results.append(node.outputs[0])
    return next((one for one in results if graph.has_value(one)), value)


def _float_name(change: Change, node: Node) -> str:
    """The weight that the removed operator read where the inserted one reads integers, or what `node` makes of them."""
    removed = {one.name: one for one in change.removed}
    if node.op != "DequantizeLinear":
        product = removed.get(node.name.removesuffix(_SUFFIX))
        return node.inputs[1] if product is None else product.inputs[1]
    for user in change.inserted:
        before = removed.get(user.name)
        operand = user.inputs.index(node.outputs[0]) if node.outputs[0] in user.inputs else len(user.inputs)
        if before is not None and operand < len(before.inputs):
            return before.inputs[operand]
    return node.outputs[0]
