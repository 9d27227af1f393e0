"""Whether an example's results are as exact as its rule says, on hostile inputs and at more sizes than its own.

Kernels compute the elements that fill a vector otherwise than the rest, so an example of two elements shows nothing
of what happens at 16. Each size of an input is therefore also replaced by a larger one, where the pass still acts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from math import prod

import numpy as np
from onnx.shape_inference import InferenceError

from workbench.backends.onnxruntime.eight_bit_sums import in_7_bits, multiplies_8_bits, saturates_here
from workbench.evidence.verification.pass_files.example_graphs import rebuilt, shaped_input, typed
from workbench.evidence.verification.pass_files.example_runs import (
    ORDINARY_FLOATS,
    Arrays,
    concrete_shape,
    difference_beyond,
    runner_of,
)
from workbench.evidence.verification.pass_files.numeric_faults import rounding_explains
from workbench.ir import Constant, DataType, Graph, TensorType
from workbench.ir.types import constant
from workbench.planning.layout.strategies.layout_strategy import example_context
from workbench.rewrite import Exactness, Example, Pass, run_pass, with_options

_NOT_FINITE = (np.nan, np.inf, -np.inf)
_EXTREME = (1e-45, -1e-45, 3.4e38, -3.4e38, 1.17549435e-38)  # at the limits of float32, where one rounding loses all
_DIMS = (0, 1, 2, 3)  # of symbolic dims
_LARGER = (67, 19)  # sizes that fill vectors of 16 and leave a rest; the first that gives few enough elements
_ELEMENTS = 2**14  # of an input at a larger size, at most
_LARGER_SEEDS = 2
_SPREADS = 12  # sets of inputs with one large element


@dataclass(frozen=True)
class SizedExample:
    """An example before and after its pass. size: how it differs from the example in the file, "" if it does not."""

    size: str
    before: Graph
    after: Graph


def at_sizes(cls: type[Pass], example: Example) -> Iterator[SizedExample]:
    """The example as it is, then with larger sizes, where ONNX Runtime takes its graph and the pass acts."""

    def carried_out(before: Graph) -> tuple[Graph, bool]:
        after = before.copy()
        after.dims = dict(example.dims)
        return after, bool(run_pass(with_options(cls, example.options), after, example_context(example)).rewrites)

    own = typed(example.before)
    yield SizedExample("", own, carried_out(own)[0])
    for size, before in _enlarged(own):
        if not _is_taken(before):
            continue
        after, acts = carried_out(before)
        if acts:
            yield SizedExample(size, before, after)


def _is_taken(graph: Graph) -> bool:
    """Whether ONNX Runtime takes the graph; a pass need not handle those that it refuses."""
    try:
        runner_of(graph)
    except Exception:  # of whatever kind
        return False
    return True


def _enlarged(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """The graph with one size of its inputs replaced everywhere, also in constants of floats, whose numbers repeat."""
    inputs = {value: shaped_input(graph, value) for value in graph.inputs}
    sizes = list(dict.fromkeys(d for _, shape in inputs.values() for d in shape if isinstance(d, int)))
    for was in [size for size in sizes if size > 1] or [size for size in sizes if size == 1]:
        for size in _LARGER:
            types = {
                value: TensorType(dtype, tuple(size if d == was else d for d in shape))
                for value, (dtype, shape) in inputs.items()
            }
            if all(prod(concrete_shape(type_.shape or (), 2)) <= _ELEMENTS for type_ in types.values()):
                constants = {v: _repeated(tensor, was, size) for v, tensor in graph.constants.items()}
                with suppress(InferenceError):
                    yield f"{size} in place of {was}", rebuilt(graph, graph.nodes, graph.outputs, types, constants)
                break


def _repeated(tensor: Constant, was: int, size: int) -> Constant:
    array = tensor.numpy()
    if not np.issubdtype(array.dtype, np.floating) or was not in array.shape:
        return tensor
    for axis, length in enumerate(array.shape):
        if length == was:
            array = np.take(array, np.arange(size) % was, axis)
    return constant(array, tensor.name)


# ---- inputs ----------------------------------------------------------------------------


def hostile_inputs(
    graph: Graph, exactness: Exactness, seed: int, dim: int, ordinary: Sequence[float] = ORDINARY_FLOATS
) -> Arrays:
    """Inputs with NaN, infinities, -0.0 and the limits of types, as far as a rule of this exactness answers for them.

    dim: the size of symbolic dims. ordinary: the floats that are drawn for every exactness.
    """
    random = np.random.default_rng(seed)
    extreme = _EXTREME if exactness is Exactness.BIT_EXACT else ()
    not_finite = () if exactness is Exactness.FAST_MATH else _NOT_FINITE
    floats = np.array([*ordinary, *not_finite, *extreme])
    divides = any(node.op in ("Div", "Mod") for node in graph.nodes)
    result = {}
    for name in graph.inputs:
        element_type, dims = shaped_input(graph, name)
        shape, dtype = concrete_shape(dims, dim), element_type.numpy()
        if element_type == DataType.BOOL:
            result[name] = random.integers(0, 2, shape).astype(bool)
        elif np.issubdtype(dtype, np.floating):
            with np.errstate(over="ignore"):
                result[name] = random.choice(floats, shape).astype(dtype)
        else:
            info = np.iinfo(dtype)
            pool = [1, 2, 3, 7, info.max] + ([] if divides else [0, info.min, info.min + 1])
            result[name] = random.choice(np.array(pool, dtype=dtype), shape)
    return result


def spread_inputs(graph: Graph, seed: int, dim: int) -> Arrays:
    """Inputs of zeros, or of standard normal numbers, but for one element of each, which is large.

    It is 1e3, or where exp of its type overflows or becomes 0, or the negative of these: a sum of exponentials along
    any axis then has parts that vanish. Integers are 0 and 1. dim: the size of symbolic dims.
    """
    random = np.random.default_rng(seed)
    result = {}
    for name in graph.inputs:
        element_type, dims = shaped_input(graph, name)
        shape, dtype = concrete_shape(dims, dim), element_type.numpy()
        if not np.issubdtype(dtype, np.floating):
            result[name] = random.integers(0, 2, shape).astype(dtype)
            continue
        limits = np.finfo(dtype)
        ends = (1e3, np.floor(np.log(limits.max)), np.ceil(-np.log(limits.smallest_subnormal)))
        array = np.asarray(random.standard_normal(shape) if seed // 6 % 2 else np.zeros(shape)).astype(dtype)
        if array.size:
            array.flat[random.integers(array.size)] = (-1 if seed % 2 else 1) * ends[seed // 2 % 3]
        result[name] = array
    return result


# ---- runs ------------------------------------------------------------------------------


def inexact_result(sized: SizedExample, exactness: Exactness, seeds: Iterable[int]) -> tuple[int, str]:
    """On how many sets of inputs both graphs ran, and the first result that is less exact, in words; "" for none.

    Inputs that the first graph itself does not take are left out: an index, a shape.
    """
    ran, run_before, run_after = 0, runner_of(sized.before), None
    for words, inputs, may_round in _sets(sized, exactness, seeds):
        try:
            expected = run_before(inputs)
        except Exception:  # of whatever kind: ONNX Runtime or ONNX's evaluator refuses these numbers
            continue
        ran += 1
        run_after = run_after or runner_of(sized.after)
        found = run_after(inputs)
        arrays = {name: array for name, array in found.items() if isinstance(array, np.ndarray)}
        wrong = {name: difference_beyond(exactness, expected[name], array) for name, array in arrays.items()}
        name = next((name for name in wrong if wrong[name]), "")
        if name and not (may_round and rounding_explains(sized.before, inputs, expected, arrays)):
            return ran, f"in output '{name}' {wrong[name]} ({words})"
    return ran, ""


def _sets(sized: SizedExample, exactness: Exactness, seeds: Iterable[int]) -> Iterator[tuple[str, Arrays, bool]]:
    """How the inputs are made, in words, the inputs, and whether rounding may make a difference that is not small."""
    graph, place = sized.before, f", {sized.size}" if sized.size else ""
    narrow = multiplies_8_bits(sized.after) and saturates_here()
    for seed in list(seeds)[: _LARGER_SEEDS if sized.size else None]:
        for dim in symbolic_dims(graph, seed) or (1,):
            at = f"dim {dim}, seed {seed}" if symbolic_dims(graph) else f"seed {seed}"
            inputs = hostile_inputs(graph, exactness, seed, dim)
            yield f"hostile inputs, {at}{place}", in_7_bits(inputs) if narrow else inputs, False
    if exactness is Exactness.FAST_MATH:
        return
    for seed in range(_SPREADS):
        may_round = exactness is not Exactness.BIT_EXACT
        yield f"one large element, seed {seed}{place}", spread_inputs(graph, seed, 3), may_round


def symbolic_dims(graph: Graph, seed: int = 0) -> tuple[int, ...]:
    """The sizes that its symbolic dims have in runs with this seed; () if it has none."""
    shapes = [shaped_input(graph, value)[1] for value in graph.inputs]
    if all(isinstance(d, int) for shape in shapes for d in shape):
        return ()
    if seed >= _LARGER_SEEDS:
        return _DIMS
    fits = (size for size in _LARGER if all(prod(concrete_shape(shape, size)) <= _ELEMENTS for shape in shapes))
    return (*_DIMS, *islice(fits, 1))
