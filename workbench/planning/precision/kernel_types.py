"""Whether a runtime has a kernel for an operator in a narrower type, as its own list of kernels says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.ir import DataType, Graph, Node
from workbench.ir.types import numpy_name
from workbench.ops.channels_last import plain_op
from workbench.planning.precision.element_types import WIDE, FloatCall, schema_of


@dataclass(frozen=True)
class KernelForm:
    """first, last: opset versions. types: by type parameter of the schema, "T", the types: "tensor(float16)"."""

    first: int
    last: int
    types: Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class RuntimeKernels:
    """The kernels of a runtime, by domain and operator, as ONNX names them; name: for sentences."""

    name: str
    kernels: Mapping[tuple[str, str], Sequence[KernelForm]]

    def why_none(self, graph: Graph, node: Node, call: FloatCall, narrow: DataType) -> str:
        """A sentence if there is a kernel of the operator in float32 and none in the narrower type, else "".

        An operator without any kernel is a function, which the runtime replaces by others.
        """
        if self._has(graph, node, call, narrow) or not self._has(graph, node, call, WIDE):
            return ""
        return f"{self.name} has no kernel for {plain_op(node)} in {numpy_name(narrow)}"

    def _has(self, graph: Graph, node: Node, call: FloatCall, dtype: DataType) -> bool:
        schema = schema_of(graph, node)
        if schema is None:
            return False
        domain, _, op_type = plain_op(node).rpartition(".")
        parameters = {schema.inputs[min(i, len(schema.inputs) - 1)].type_str for i in call.inputs}
        parameters |= {schema.outputs[min(i, len(schema.outputs) - 1)].type_str for i in call.outputs}
        wanted, version = f"tensor({dtype.name.lower()})", graph.opset_imports.get(domain, schema.since_version)
        return any(
            kernel.first <= version <= kernel.last
            and all(wanted in kernel.types.get(parameter, (wanted,)) for parameter in parameters)
            for kernel in self.kernels.get((domain, op_type), ())
        )


class KernelLists:
    """Reads the lists of runtimes; found in a PassContext."""

    def of(self, runtime: str) -> RuntimeKernels:
        """The kernels of "onnxruntime-cpu" or "onnxruntime-cuda". Raises UserError if they are not installed here."""
        raise NotImplementedError


KERNEL_RUNTIMES = ("onnxruntime-cpu", "onnxruntime-cuda")
