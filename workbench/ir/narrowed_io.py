"""Inputs and outputs in a narrower element type than in the loaded model, stored as metadata of the graph.

The metadata is exported with the model, so that a caller knows which type the
loaded model has, and comparing converts inputs and results.
"""

from __future__ import annotations

from workbench.ir.graph import Graph
from workbench.ir.types import DataType, numpy_name

INPUT_TYPE = "workbench.fed_type."  # prefix of the metadata key, before the input's name; the value: "float32"
OUTPUT_TYPE = "workbench.given_type."  # the same for an output
IN_FLOAT32 = numpy_name(DataType.FLOAT)
_NARROWER = (DataType.FLOAT16, DataType.BFLOAT16)


def is_narrowed(graph: Graph, value: str, prefix: str) -> bool:
    """Whether an input or output is in float32 in the loaded model, and in a narrower type in this graph.

    prefix: INPUT_TYPE or OUTPUT_TYPE. Metadata that does not fit the type of the value is ignored.
    """
    type_ = graph.tensor_type(value)
    return type_ is not None and type_.dtype in _NARROWER and graph.metadata.get(prefix + value) == IN_FLOAT32


def loaded_type(graph: Graph, value: str, prefix: str) -> DataType | None:
    """The element type that an input or output has in the loaded model; None if it is not known."""
    type_ = graph.tensor_type(value)
    if is_narrowed(graph, value, prefix):
        return DataType.FLOAT
    return None if type_ is None else type_.dtype


def type_between(first: Graph, second: Graph, value: str, prefix: str) -> DataType | None:
    """The element type to which a value of `first` is cast for `second`; None if there is nothing to cast.

    Types that differ in the loaded models too are not cast. prefix: INPUT_TYPE or OUTPUT_TYPE.
    """
    of_first, of_second = first.tensor_type(value), second.tensor_type(value)
    if of_first is None or of_second is None or of_first.dtype == of_second.dtype:
        return None
    same_before = loaded_type(first, value, prefix) == loaded_type(second, value, prefix)
    return of_second.dtype if same_before else None
