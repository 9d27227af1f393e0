"""Whether ONNX Runtime, as it is installed here, runs what a rewrite inserts: with kernels, or by operators' bodies.

ONNX defines operators before ONNX Runtime has kernels for them (Swish of opset 25), and for more element types. It is
asked by opening the nodes alone as a model, unless they are of operators that it has long had in their element types.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from workbench.formats.opsets.lowering import NotWritable, lowered_to, opset_of_edit
from workbench.ir import Edit, Graph, Node, TensorType, constant_shape, constant_type
from workbench.ir.function_calls import function_key
from workbench.ir.to_proto import to_proto
from workbench.ir.types import DataType, ValueType
from workbench.ir.versioned import fixed_opset, opset_of_domain
from workbench.ops.own_functions import with_own_functions

# What ONNX Runtime 1.31 has no kernel for in float32, each since an opset; `tests/test_kernels_of_results.py` asks it.
LACKING = {
    **dict.fromkeys(("Bernoulli", "GlobalLpPool", "MaxRoiPool", "Multinomial", "RoiAlign"), 22),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), 22),
    "ImageDecoder": 20,
    "Swish": 25,
}
_FLOATS = {DataType.FLOAT, DataType.FLOAT16}
# Kernels of these are for any element type.
MOVES = frozenset(
    "Cast Concat Flatten Gather Identity Reshape Shape Slice Split Squeeze Transpose Unsqueeze".split()  # noqa: SIM905
)
_LARGEST_SHAPE = 16  # elements of a constant that may be a shape, axes or sizes, which ONNX Runtime may want to know
_MAX_NODES = 64  # inserted by one rewrite; more come from a function or a branch, which ran before
_MAX_KNOWN = 4096


def without_kernel(graph: Graph, edit: Edit) -> str:
    """A sentence if ONNX Runtime runs the nodes that the edit removes, and not those that it inserts; else "".

    Inserted nodes must run at the opset at which the graph is written, and at its own.
    """
    removed = [graph.node(name) for name in edit.remove]
    known = {_signature(graph, edit, node) for node in removed}
    new = [node for node in edit.insert if _signature(graph, edit, node) not in known]
    if not new or len(edit.insert) > _MAX_NODES or not all(_is_plain(graph, edit, node) for node in (*removed, *new)):
        return ""
    present, fixed = graph.opset_imports.get("", 0), fixed_opset(graph.opset_imports)
    if all(has_long_been_run(*_signature(graph, edit, node), present) for node in new):
        return ""
    before = min(fixed or graph.file_opset or present, present)
    for opset in dict.fromkeys((opset_of_edit(graph, edit, before), present)):
        if not _runs(graph, edit, edit.insert, opset) and _runs(graph, Edit(), removed, before):
            operators = ", ".join(dict.fromkeys(node.op for node in new))
            return f"ONNX Runtime has no kernel for {operators} of opset {opset}, and runs what that would replace"
    return ""


def has_long_been_run(op: str, types: Sequence[DataType | None], opset: int) -> bool:
    """Whether ONNX Runtime is known to run a call with operands of these element types, and need not be asked."""
    if op in MOVES:
        return True
    if "." in op or opset >= LACKING.get(op, opset + 1):
        return False
    known = {dtype for dtype in types if dtype is not None}
    floats = {dtype for dtype in known if dtype.is_floating_point()}
    return floats <= _FLOATS and (not types or types[0] in (None, *_FLOATS))


def _is_plain(graph: Graph, edit: Edit, node: Node) -> bool:
    """Whether the node is a call that can be opened alone."""
    is_function = function_key(node) in graph.functions or function_key(node) in edit.functions
    return not (node.bodies or is_function or opset_of_domain(node.domain) is not None)


def _signature(graph: Graph, edit: Edit, node: Node) -> tuple[str, tuple[DataType | None, ...]]:
    """The operator with the element types of its operands."""
    types = (_type(graph, edit, value) for value in node.inputs)
    return node.op, tuple(type_.dtype if isinstance(type_, TensorType) else None for type_ in types)


def _type(graph: Graph, edit: Edit, value: str) -> ValueType | None:
    tensor = edit.constants.get(value)
    if tensor is not None:
        return constant_type(tensor)
    return edit.types.get(value) or graph.type(value)


def _runs(graph: Graph, edit: Edit, nodes: Sequence[Node], opset: int) -> bool:
    """Whether ONNX Runtime opens the nodes; True where that is not known."""
    names: dict[str, str] = {"": ""}
    renamed = []
    for index, node in enumerate(nodes):  # by their places, so that the next such rewrite has the same model
        for value in (*node.inputs, *node.outputs):
            names.setdefault(value, f"v{len(names)}")
        inputs, outputs = (tuple(names[value] for value in values) for values in (node.inputs, node.outputs))
        renamed.append(node.replace(name=f"n{index}", inputs=inputs, outputs=outputs, metadata={}))
    computed = {value for node in renamed for value in node.outputs}
    types: dict[str, ValueType] = {}
    constants = {}
    for value, name in names.items():
        type_ = _type(graph, edit, value)
        if not name or name in computed:
            continue
        if not isinstance(type_, TensorType):
            return True
        types[name] = TensorType(type_.dtype)
        tensor = edit.constants.get(value) or graph.constant(value)
        if tensor is not None and tensor.dtype.is_integer() and math.prod(constant_shape(tensor)) <= _LARGEST_SHAPE:
            constants[name] = tensor
    part = Graph(
        inputs=[name for name in types if name not in constants],
        outputs=[value for value in computed if value],
        nodes=renamed,
        constants=constants,
        types=types,
        opset_imports={domain: v for domain, v in graph.opset_imports.items() if opset_of_domain(domain) is None},
    )
    try:
        model = to_proto(lowered_to(with_own_functions(part), opset), metadata=False)
    except NotWritable:
        return True  # at this opset nothing is written that needs the shapes of operands
    return _is_opened(bytes(model.SerializeToString(deterministic=True)))


@lru_cache(_MAX_KNOWN)
def _is_opened(model: bytes) -> bool:
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except NoKernel:
        return False
    except Exception:  # onnxruntime's exceptions have no common base; of another fault of the part nothing is known
        return True
    return True
