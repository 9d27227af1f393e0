"""The graph: `Node`, `Graph`, `Edit`, types, permutations, text form, well-formedness check; conversion to and from
ONNX's messages.

Every other package imports this one; it imports none of them.
"""

from workbench.ir.check import IllFormedError, check, violations
from workbench.ir.edit import Edit, EditError
from workbench.ir.graph import Graph
from workbench.ir.node import AttrRef, Function, Node
from workbench.ir.text import TextError, from_text, graph_text, node_line, to_text
from workbench.ir.types import (
    Constant,
    DataType,
    OpaqueType,
    TensorType,
    ValueType,
    constant,
    constant_shape,
    constant_type,
    lazy_constant,
)

__all__ = [
    "AttrRef",
    "Constant",
    "DataType",
    "Edit",
    "EditError",
    "Function",
    "Graph",
    "IllFormedError",
    "Node",
    "OpaqueType",
    "TensorType",
    "TextError",
    "ValueType",
    "check",
    "constant",
    "constant_shape",
    "constant_type",
    "from_text",
    "graph_text",
    "lazy_constant",
    "node_line",
    "to_text",
    "violations",
]
