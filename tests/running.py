"""Small helpers of the tests: a graph's outputs by ONNX Runtime, random inputs for it, random numbers."""

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from workbench.inference.shapes import infer_types
from workbench.io.exporting import to_bytes
from workbench.ir import Edit, Graph, from_text, to_text


def typed(text: str) -> Graph:
    """A graph from text, with the types of its values as loading finds them."""
    graph = from_text(text)
    found = {v: t for v, t in infer_types(graph, {}).items() if v not in graph.constants}
    graph.apply(Edit(types=found))
    return graph


def outputs(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What ONNX Runtime, unoptimized, gives for the graph's export; ONNX's own evaluator where it has no kernel."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    exported = to_bytes(graph)
    try:
        found = onnxruntime.InferenceSession(exported, options).run(list(graph.outputs), inputs)
    except NoKernel:  # such as for sums of unsigned integers
        found = ReferenceEvaluator(onnx.load_from_string(exported)).run(list(graph.outputs), inputs)
    return dict(zip(graph.outputs, found, strict=True))


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Standard normal numbers, or integers 0 and 1, of each input's type; a symbolic dim is 2."""
    random = np.random.default_rng(seed)
    made = {}
    for name in graph.inputs:
        type_ = graph.tensor_type(name)
        shape = [d if isinstance(d, int) else 2 for d in type_.shape]
        dtype = type_.dtype.numpy()
        floating = np.issubdtype(dtype, np.floating)
        made[name] = (random.standard_normal(shape) if floating else random.integers(0, 2, shape)).astype(dtype)
    return made


def normal(*shape):
    """Standard normal numbers, the same for the same shape."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def plays_both_ways(graph: Graph, rewrites, before: str) -> None:
    """Undone one by one, the rewrites of a graph lead to the text before, and done again to the graph."""
    after = to_text(graph)
    for rewrite in reversed(rewrites):
        graph.apply(rewrite.inverse)
    assert to_text(graph) == to_text(from_text(before))
    for rewrite in rewrites:
        graph.apply(rewrite.edit)
    assert to_text(graph) == after
