"""Runs of small graphs by ONNX Runtime in this process, and how their results may differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from workbench.analysis.inference.evaluate import RANDOM
from workbench.evidence.verification.pass_files.example_graphs import shaped_input
from workbench.formats.io.exporting import to_bytes
from workbench.ir import Graph
from workbench.ir.types import Dim
from workbench.rewrite import Exactness
from workbench.run.tolerances import FLOAT16, INT8, Tolerance

Arrays = dict[str, np.ndarray]

ORDINARY_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -3.25, 7.0)
_RELATIVE, _ABSOLUTE = 1e-5, 1e-6


def outputs(graph: Graph, inputs: Mapping[str, np.ndarray]) -> Arrays:
    """What ONNX Runtime, unoptimized, gives for the graph's export; ONNX's own evaluator where it has no kernel."""
    return runner_of(graph)(inputs)


def runner_of(graph: Graph) -> Callable[[Mapping[str, np.ndarray]], Arrays]:
    """A function of inputs that gives the `outputs` of the graph, which is read once."""
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    exported = to_bytes(graph)
    is_random = any(node.op in RANDOM for node in graph.nodes)  # a seed determines the first run of a session only

    def session() -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(exported, options)

    def run(inputs: Mapping[str, np.ndarray]) -> Arrays:
        try:
            results = (session() if is_random or first is None else first).run(list(graph.outputs), dict(inputs))
        except NoKernel:  # such as for sums of unsigned integers
            from onnx.reference import ReferenceEvaluator

            evaluator = ReferenceEvaluator(onnx.load_from_string(exported))
            results = evaluator.run(list(graph.outputs), dict(inputs))
        return dict(zip(graph.outputs, results, strict=True))

    try:
        first = session()
    except NoKernel:
        first = None
    return run


def random_inputs(graph: Graph, seed: int = 0) -> Arrays:
    """Standard normal numbers, or integers 0 and 1, of each input's type; a symbolic dim is 2."""
    random = np.random.default_rng(seed)
    result = {}
    for name in graph.inputs:
        element_type, dims = shaped_input(graph, name)
        shape, dtype = concrete_shape(dims, 2), element_type.numpy()
        floating = np.issubdtype(dtype, np.floating)
        result[name] = (random.standard_normal(shape) if floating else random.integers(0, 2, shape)).astype(dtype)
    return result


def concrete_shape(dims: Sequence[Dim], size: int) -> list[int]:
    """The dims with `size` for every symbolic one."""
    return [dim if isinstance(dim, int) else size for dim in dims]


def difference_beyond(exactness: Exactness, expected: np.ndarray, found: np.ndarray) -> str:
    """How the result differs by more than a rule of this exactness may change; "" if it does not."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"it is {found.dtype}{list(found.shape)} and {expected.dtype}{list(expected.shape)} before the rewrite"
    return _first_difference(expected, found, ~_is_allowed(exactness, expected, found))


def _is_allowed(exactness: Exactness, expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Element by element, whether the result may stand for the expected one."""
    if exactness is Exactness.STEP and expected.dtype in (np.int8, np.uint8):
        return np.asarray(np.abs(found.astype(int) - expected.astype(int)) <= 1)
    if not np.issubdtype(expected.dtype, np.floating):
        return np.asarray(found == expected)
    is_nan = np.isnan(found) & np.isnan(expected)
    same_sign = np.signbit(found) == np.signbit(expected)
    if exactness is Exactness.BIT_EXACT:
        return np.asarray(is_nan | ((found == expected) & same_sign))
    if exactness is Exactness.NARROWED:
        return np.asarray(_is_within(FLOAT16, expected, found) | is_nan)
    if exactness is Exactness.QUANTIZED:
        return _is_within(INT8, expected, found)
    is_close: np.ndarray = np.isclose(found, expected, rtol=_RELATIVE, atol=_ABSOLUTE) | is_nan
    if exactness is Exactness.FAST_MATH:
        return is_close
    return np.asarray(is_close & (same_sign | (found != 0) | (expected != 0)))


def _is_within(tolerance: Tolerance, expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Within the tolerance, of the largest element; infinities are equal only to themselves."""
    finite = np.abs(expected[np.isfinite(expected)])
    bound = tolerance.relative * finite.max(initial=0.0) + tolerance.absolute
    with np.errstate(invalid="ignore"):
        return np.asarray((found == expected) | (np.abs(found - expected) <= bound))


def _first_difference(expected: np.ndarray, found: np.ndarray, wrong: np.ndarray) -> str:
    if not wrong.any():
        return ""
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    return f"element {list(place)} is {found[place]} and {expected[place]} before the rewrite"
