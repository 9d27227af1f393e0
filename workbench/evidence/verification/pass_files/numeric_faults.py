"""Whether two graphs give the same numbers on ordinary and hostile inputs, but for what rounding alone does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.inference.evaluate import RANDOM
from workbench.backends.randomness import is_random
from workbench.evidence.verification.pass_files.example_graphs import shaped_input, with_outputs
from workbench.evidence.verification.pass_files.example_runs import ORDINARY_FLOATS, Arrays, concrete_shape
from workbench.formats.io.exporting import to_bytes
from workbench.ir import DataType, Graph, Node, TensorType
from workbench.ir.types import constant
from workbench.run.compare import compare
from workbench.run.inputs import fed_inputs, in_forms, output_forms
from workbench.run.tolerances import BITS, tolerances_for

if TYPE_CHECKING:
    import onnxruntime

OriginalRun = tuple[Arrays, Arrays]  # inputs with the outputs of the original

_MILD = np.array([*ORDINARY_FLOATS, np.nan, np.inf, -np.inf])
_HOSTILE = np.array([*_MILD, 1e-45, 3.4e38, -3.4e38])
_NOISE = 1e-6  # by which every value and input is moved, to see what rounding alone does
_AMPLIFIED = 100  # times what the noise does is still rounding
_EXTREMA = ("ReduceMin", "ReduceMax", "MaxPool", "GlobalMaxPool")


def runs_of_original(graph: Graph, mode: str, seed: int = 0) -> list[OriginalRun] | None:
    """Inputs on which the graph runs, with its outputs; None if it does not run, or gives other numbers each time."""
    try:
        session = session_of_graph(graph)
    except Exception:  # ONNX Runtime does not run it
        return None
    compared = list(_runs(graph, session, mode, seed))
    if is_random(graph) and not all(compare(e, _run(_anew(session, graph), graph, i), BITS).ok for i, e in compared):
        return None  # it draws other numbers each time
    return compared


def numeric_fault(
    graph: Graph, result: Graph, mode: str, compared: list[OriginalRun], *, moves_layouts: bool = False
) -> str:
    """What is wrong with the numbers of `result`, its kind first ("numbers: ..."); "" if nothing is.

    compared:      runs of the original `graph`. moves_layouts: whether a layout strategy made the result.
    """
    if not compared:
        return ""
    try:
        candidate = session_of_graph(result)
    except Exception as error:
        return f"refused by ONNX Runtime: {error}"
    forms = output_forms(graph, result)
    for inputs, expected in compared:
        try:
            own = fed_inputs(inputs, graph, result)
            numbers = in_forms(_run(_anew(candidate, result), result, own), forms)
        except Exception as error:
            return f"does not run: {error}"
        wrong = _difference(graph, mode, expected, numbers)
        if wrong and not (mode != "exact" and _is_excused(graph, mode, inputs, expected, numbers, moves_layouts)):
            return f"numbers: {wrong}"
    return ""


def session_of_graph(graph: Graph) -> onnxruntime.InferenceSession:
    """An unoptimized session of the graph's export, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(to_bytes(graph), options)


def _anew(session: onnxruntime.InferenceSession, graph: Graph) -> onnxruntime.InferenceSession:
    """The session; a new one if the graph draws numbers, of which a seed determines only those of the first run."""
    return session_of_graph(graph) if any(node.op in RANDOM for node in graph.nodes) else session


def _run(session: onnxruntime.InferenceSession, graph: Graph, inputs: Arrays) -> Arrays:
    found = zip(graph.outputs, session.run(list(graph.outputs), inputs), strict=True)
    return {name: array for name, array in found if isinstance(array, np.ndarray)}


def _runs(graph: Graph, session: onnxruntime.InferenceSession, mode: str, seed: int) -> Iterator[tuple[Arrays, Arrays]]:
    """Inputs on which the original runs, ordinary ones first, with its outputs."""
    pools = {"exact": (None, _HOSTILE, _HOSTILE), "ieee": (None, _MILD, _MILD), "fast": (None, None)}[mode]
    for turn, pool in enumerate(pools):
        inputs = _inputs(graph, np.random.default_rng((seed, turn)), pool, (2, 3, 1)[turn % 3])
        try:
            yield inputs, _run(_anew(session, graph), graph, inputs)
        except Exception:  # the original does not take these numbers: an index, a shape
            continue


def _inputs(graph: Graph, draw: np.random.Generator, pool: np.ndarray | None, dim: int) -> Arrays:
    """Floats from the pool, or standard normal; integers 0 and 1, which are indices and sizes too."""
    made = {}
    for name in graph.inputs:
        element_type, dims = shaped_input(graph, name)
        shape, dtype = concrete_shape(dims, dim), element_type.numpy()
        if not np.issubdtype(dtype, np.floating):
            made[name] = draw.integers(0, 2, shape).astype(dtype)
            continue
        with np.errstate(over="ignore"):
            made[name] = np.asarray(draw.standard_normal(shape) if pool is None else draw.choice(pool, shape)).astype(
                dtype
            )
    return made


def _difference(graph: Graph, mode: str, expected: Arrays, found: Arrays) -> str:
    """What differs more than the mode lets it; "" where nothing does."""
    tolerance = BITS if mode == "exact" else tolerances_for(graph)
    comparison = compare(expected, found, tolerance)
    if not comparison.ok:
        return comparison.sentence
    if mode != "ieee":
        return ""
    for name, wanted in expected.items():
        if _has_zeros_of_another_sign(wanted, found[name]):
            return f"output '{name}' has zeros of another sign"
    return ""


def _has_zeros_of_another_sign(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype.kind == "f" and bool(((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))).any())


# ---- what rounding may do ------------------------------------------------------------------


def _is_excused(graph: Graph, mode: str, inputs: Arrays, expected: Arrays, found: Arrays, moves_layouts: bool) -> bool:
    """Do values that come near an overflow, or are no ordinary numbers in fast mode, a NaN whose place decides, or
    noise in every value (which cancellation or a threshold amplifies) explain the difference?"""
    try:
        numbers = _numbers_of_values(graph, inputs)
        if any(_beyond(array, mode) for array in (*numbers.values(), *(inputs.values() if mode == "fast" else ()))):
            return True
        if moves_layouts and _order_decides(graph, {**inputs, **numbers}):
            return True
        if not _difference(graph, "fast", expected, found) and _place_decides(graph, inputs, numbers):
            return True
        return any(_as_far(graph, seed, numbers, inputs, expected, found) for seed in range(3))
    except Exception:  # the graph with all its values as outputs is none that runs
        return False


def rounding_explains(graph: Graph, inputs: Arrays, expected: Arrays, found: Arrays) -> bool:
    """Whether rounding may make the difference: a value overflows, or noise in every value does as much.

    inputs:   finite numbers. expected, found: outputs of the graph and of its rewritten form for these.
    """
    try:
        numbers = _numbers_of_values(graph, inputs)
        known = {**_constants(graph), **inputs, **numbers}
        return any(_overflows(node, known) for node in graph.nodes) or any(
            _as_far(graph, seed, numbers, inputs, expected, found) for seed in range(3)
        )
    except Exception:  # the graph with all its values as outputs is none that runs
        return False


def _overflows(node: Node, numbers: Arrays) -> bool:
    """Whether the node makes an infinity of finite numbers, and no pole does: a division by 0, a logarithm of 0."""
    operands = [numbers[v] for v in node.operands if v in numbers]
    if node.op == "Log" or not all(np.isfinite(array).all() for array in operands if array.dtype.kind == "f"):
        return False
    infinite = [np.isinf(numbers[v]) for v in node.outputs if v in numbers and numbers[v].dtype.kind == "f"]
    if node.op in ("Div", "Reciprocal", "Pow"):
        base = operands[0] if node.op == "Pow" else operands[-1]
        infinite = [array & (base != 0) for array in infinite]
    return any(array.any() for array in infinite)


def _constants(graph: Graph) -> Arrays:
    return {value: tensor.numpy() for value, tensor in graph.constants.items()}


def _numbers_of_values(graph: Graph, inputs: Arrays) -> Arrays:
    """The floats that each node makes, and the outputs."""
    values = [v for node in graph.nodes for v in node.outputs if _is_float(graph.type(v))]
    seen = with_outputs(graph, list(dict.fromkeys((*graph.outputs, *values))))
    return _run(session_of_graph(seen), seen, inputs)


def _order_decides(graph: Graph, numbers: Arrays) -> bool:
    """Whether an extremum is taken over a NaN: ONNX Runtime's result then depends on the order of the elements."""
    read = {value for node in graph.nodes_of(_EXTREMA) for value in node.inputs if value in numbers}
    return any(numbers[value].dtype.kind == "f" and np.isnan(numbers[value]).any() for value in read)


def _place_decides(graph: Graph, inputs: Arrays, numbers: Arrays) -> bool:
    """Whether an extremum takes zeros of both signs: which one ONNX Runtime gives depends on the element's place."""
    known = {**_constants(graph), **inputs, **numbers}
    for node in graph.nodes_of(("Max", "Min", *_EXTREMA)):
        zeros = [array[array == 0] for array in (known[v] for v in node.operands if v in known)]
        signs = {bool(sign) for array in zeros if array.dtype.kind == "f" for sign in np.signbit(array)}
        if len(signs) == 2:
            return True
    return False


def _is_float(type_: object) -> bool:
    return isinstance(type_, TensorType) and type_.dtype in (DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE)


def _beyond(array: np.ndarray, mode: str) -> bool:
    if array.dtype.kind != "f":
        return False
    if mode == "fast" and not (np.isfinite(array) & (array != 0)).all():
        return True
    size = np.abs(array[np.isfinite(array) & (array != 0)]).astype(np.float64)
    limit = float(np.finfo(array.dtype).max) ** 0.4
    return bool((size > limit).any() or (size < 1 / limit).any())


def _as_far(graph: Graph, seed: int, numbers: Arrays, inputs: Arrays, expected: Arrays, found: Arrays) -> bool:
    """Is each difference at most _AMPLIFIED times that which noise in every value makes?"""
    draw = np.random.default_rng(seed)
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        names = {v: f"{v}_still" for v in node.outputs if v in numbers and numbers[v].dtype.kind == "f"}
        nodes.append(node.replace(outputs=tuple(names.get(v, v) for v in node.outputs)))
        for value, still in names.items():
            noise = 1 + max(_NOISE, float(np.finfo(numbers[value].dtype).eps)) * draw.uniform(
                -1, 1, numbers[value].shape
            )
            constants[f"{value}_noise"] = constant(noise.astype(numbers[value].dtype), f"{value}_noise")
            nodes.append(Node("Mul", (still, f"{value}_noise"), (value,), name=f"{value}_noisy"))
    noisy = with_outputs(graph, graph.outputs, nodes, constants)
    moved = _run(session_of_graph(noisy), noisy, {v: _moved(array, draw) for v, array in inputs.items()})
    return all(_far(expected[v], found[v]) <= _AMPLIFIED * _far(expected[v], moved[v]) for v in found)


def _moved(array: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """The array with noise, if it holds floats."""
    if array.dtype.kind != "f":
        return array
    noise = max(_NOISE, float(np.finfo(array.dtype).eps)) * draw.uniform(-1, 1, array.shape)
    return np.asarray(array * (1 + noise)).astype(array.dtype)


def _far(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference; infinite where shapes, NaN, infinities, integers or signs of zeros differ."""
    comparison = compare({"a": a}, {"a": b})
    if comparison.max_abs_error is None or (a.dtype.kind != "f" and comparison.max_abs_error):
        return np.inf
    if _has_zeros_of_another_sign(a, b):
        return np.inf
    return comparison.max_abs_error


# ---- many graphs ---------------------------------------------------------------------------
