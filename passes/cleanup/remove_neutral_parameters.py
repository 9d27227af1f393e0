"""Remove activations, Max, Min, Clip and normalizations whose parameters change nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import DataType, Graph, Node, constant_shape
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.affine import normalization
from workbench.rewrite.analyses.zeros import holds_no_negative_zero
from workbench.rewrite.core.guards import broadcasts_into, replace_with_operand, require_constant, require_floating

_UNIT_TOLERANCE = 1e-6  # how far a factor may be from 1 that is 1 up to the rounding of float32
_AT_MOST_32_BITS = (DataType.FLOAT, DataType.FLOAT16)


def _require_no_broadcast(graph: Graph, node: Node, constant: str, source: str) -> None:
    """Raises NoMatch if broadcasting with the constant may enlarge `source`."""
    shape = constant_shape(graph.constants[constant])
    if shape and not broadcasts_into(shape, graph.shape(source)):
        raise NoMatch(f"'{constant}' of {node} may enlarge '{source}' by broadcasting")


def match_slope(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    if node.op == "LeakyRelu" and node.attr("alpha") != 1:
        raise NoMatch(f"{node} multiplies negative numbers by {node.attr('alpha'):g}")
    if node.op == "PRelu":
        if (require_constant(graph, node.inputs[1], node) != 1).any():
            raise NoMatch(f"{node} multiplies negative numbers by '{node.inputs[1]}', which is not 1")
        _require_no_broadcast(graph, node, node.inputs[1], node.inputs[0])
    return replace_with_operand(graph, node, node.inputs[0], f"{node} multiplies negative numbers by 1; removed")


def _lowest(array: np.ndarray) -> float | int:
    """The lowest number of its element type, -infinity if there is one."""
    return -np.inf if array.dtype.kind == "f" else np.iinfo(array.dtype).min


def _largest(array: np.ndarray) -> float | int:
    return np.inf if array.dtype.kind == "f" else np.iinfo(array.dtype).max


def match_noop_max_min(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """A Max or Min of two operands; NaN stays NaN in ONNX Runtime."""
    constants = [value for value in node.inputs if graph.constant(value) is not None]
    if len(node.inputs) != 2 or len(constants) != 1:
        raise NoMatch(f"{node} does not combine one constant and one computed value")
    source = node.inputs[0] if node.inputs[1] == constants[0] else node.inputs[1]
    array = require_constant(graph, constants[0], node)
    extreme, limit_of = ("lowest", _lowest) if node.op == "Max" else ("largest", _largest)
    if array.dtype.kind not in "fiu" or (array != limit_of(array)).any():
        raise NoMatch(f"'{constants[0]}' of {node} is not the {extreme} number")
    _require_no_broadcast(graph, node, constants[0], source)
    sentence = f"{node} has no effect, since '{constants[0]}' is the {extreme} number; removed"
    return replace_with_operand(graph, node, source, sentence)


def _bounds_of_clip(graph: Graph, node: Node) -> list[np.ndarray | None]:
    """The constants of both bounds of a Clip, None for one that is omitted."""
    return [require_constant(graph, value, node) if value else None for value in (*node.inputs[1:], "", "")[:2]]


def match_unbounded_clip(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """Without a bound, ONNX Runtime clips infinities to the largest finite number."""
    type_ = graph.tensor_type(node.inputs[0])
    low, high = _bounds_of_clip(graph, node)
    if (low is None or high is None) and (type_ is None or not type_.dtype.is_integer()):
        raise NoMatch(f"{node} lacks a bound, and then clips infinity to the largest finite number")
    return _not_clipped(graph, node, low, high)


def match_unbounded_clip_fast(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_floating(graph, node.inputs[0], node)
    return _not_clipped(graph, node, *_bounds_of_clip(graph, node))


def _not_clipped(graph: Graph, node: Node, low: np.ndarray | None, high: np.ndarray | None) -> Rewrite:
    if (low is not None and (low != _lowest(low)).any()) or (high is not None and (high != _largest(high)).any()):
        raise NoMatch(f"{node} has a bound")
    return replace_with_operand(graph, node, node.inputs[0], f"{node} has no bounds; removed")


def match_normalization(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    if not holds_no_negative_zero(graph, node.inputs[0]):
        raise NoMatch(f"'{node.inputs[0]}' may hold -0.0, which {node} turns into 0.0")
    return match_normalization_fast(graph, node, pass_)


def match_normalization_fast(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    type_ = graph.tensor_type(node.inputs[0])
    if type_ is None or type_.dtype not in _AT_MOST_32_BITS:
        raise NoMatch(f"'{node.inputs[0]}' of {node} is not known to have 32 or fewer bits")
    factor, shift = normalization(graph, node)
    if (np.abs(factor - 1) > _UNIT_TOLERANCE).any() or shift.any():
        raise NoMatch(f"{node} scales or shifts a channel")
    return replace_with_operand(graph, node, node.inputs[0], f"{node} multiplies by 1 and adds 0; removed")


@dataclass(frozen=True)
class RemoveNeutralParameters(Pass):
    """An operator is removed if its parameters make it return its operand:

    - LeakyRelu and PRelu with slope 1;
    - Max with -infinity or the lowest integer, and Min with infinity or the largest integer;
    - Clip with both of these bounds, or an integer Clip without bounds. A float Clip without bounds only in mode
      "fast": ONNX Runtime clips infinity to the largest finite number;
    - BatchNormalization that multiplies by 1, up to the rounding of float32, and adds 0, if its operand holds no
      -0.0; otherwise in mode "fast" only.

    Does not apply if a constant may enlarge the result by broadcasting, nor if epsilon makes the factor of a
    normalization differ from 1, as with variance 1: 1 / sqrt(1 + 1e-5) is not 1.

    Source: ONNX's definitions of these operators; eliminate_nop_* of onnx-optimizer, the simplifications of Max and
    Min by LLVM's InstSimplify.
    """

    title = "Remove operators with neutral parameters"

    rules = (
        Rule(
            "slope of one",
            ("LeakyRelu", "PRelu"),
            match_slope,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <float[3] s = {1, 1, 1}> {
                    a = LeakyRelu<alpha=1.0>(x)
                    b = PRelu(a, s)
                    y = Neg(b)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }",
                sentences=(
                    "LeakyRelu 'LeakyRelu_a' multiplies negative numbers by 1; removed",
                    "PRelu 'PRelu_b' multiplies negative numbers by 1; removed",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) { a = LeakyRelu(x)  y = Neg(a) }",
                    "LeakyRelu 'LeakyRelu_a' multiplies negative numbers by 0.01",
                ),
                Refusal(
                    "g (float[N,2] x) => (float[N,2] y) <float[2] s = {1, 2}> { a = PRelu(x, s)  y = Neg(a) }",
                    "PRelu 'PRelu_a' multiplies negative numbers by 's', which is not 1",
                ),
                Refusal(
                    "g (float[N,D] x) => (float[N,E] y) <float[2] s = {1, 1}> { a = PRelu(x, s)  y = Neg(a) }",
                    "'s' of PRelu 'PRelu_a' may enlarge 'x' by broadcasting",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="where(x < 0, x * 1, x) == x",
        ),
        Rule(
            "max with the lowest or min with the largest number",
            ("Max", "Min"),
            match_noop_max_min,
            Example(
                before="""g (int8[N,2] x) => (int8[N,2] y) <int8[2] l = {-128, -128}, int8 h = {127}> {
                    a = Max(x, l)
                    b = Min(h, a)
                    y = Neg(b)
                }""",
                after="g (int8[N,2] x) => (int8[N,2] y) { y = Neg(x) }",
                sentences=(
                    "Max 'Max_a' has no effect, since 'l' is the lowest number; removed",
                    "Min 'Min_b' has no effect, since 'h' is the largest number; removed",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int8[N] x) => (int8[N] y) <int8 l = {-127}> { a = Max(x, l)  y = Neg(a) }",
                    "'l' of Max 'Max_a' is not the lowest number",
                ),
                Refusal(
                    "g (float[N] x) => (float[N] y) <float h = {3.4e38}> { a = Min(x, h)  y = Neg(a) }",
                    "'h' of Min 'Min_a' is not the largest number",
                ),
                Refusal(
                    "g (int8[N] x, int8[N] z) => (int8[N] y) { a = Max(x, z)  y = Neg(a) }",
                    "Max 'Max_a' does not combine one constant and one computed value",
                ),
                Refusal(
                    "g (int8[N] x) => (int8[M] y) <int8[2] l = {-128, -128}> { a = Max(x, l)  y = Neg(a) }",
                    "'l' of Max 'Max_a' may enlarge 'x' by broadcasting",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="max(x, z) == x if x > z; min(x, z) == x if x < z",
        ),
        Rule(
            "clip without bounds",
            ("Clip",),
            match_unbounded_clip,
            Example(
                before="""g (int8[N] x) => (int8[N] y) <int8 l = {-128}> {
                    a = Clip(x)
                    b = Clip(a, l)
                    y = Neg(b)
                }""",
                after="g (int8[N] x) => (int8[N] y) { y = Neg(x) }",
                sentences=("Clip 'Clip_a' has no bounds; removed", "Clip 'Clip_b' has no bounds; removed"),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) { a = Clip(x)  y = Neg(a) }",
                    "Clip 'Clip_a' lacks a bound, and then clips infinity to the largest finite number",
                ),
                Refusal(
                    "g (int8[N] x) => (int8[N] y) <int8 h = {100}> { a = Clip(x, , h)  y = Neg(a) }",
                    "Clip 'Clip_a' has a bound",
                ),
                Refusal(
                    "g (int8[N] x, int8 h) => (int8[N] y) { a = Clip(x, , h)  y = Neg(a) }",
                    "'h', an operand of Clip 'Clip_a', is not a constant",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "clip of floats without bounds",
            ("Clip",),
            match_unbounded_clip_fast,
            Example(
                before="g (float[N] x) => (float[N] y) { a = Clip(x)  y = Neg(a) }",
                after="g (float[N] x) => (float[N] y) { y = Neg(x) }",
                sentences=("Clip 'Clip_a' has no bounds; removed",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) <float l = {0}> { a = Clip(x, l)  y = Neg(a) }",
                    "Clip 'Clip_a' has a bound",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": np.inf}, float(-np.finfo(np.float32).max), -np.inf, "ONNX Runtime clips infinity"
            ),
        ),
        Rule(
            "neutral normalization of a value without -0.0",
            ("BatchNormalization",),
            match_normalization,
            Example(
                before="""g (float[N,2,4] x) => (float[N,2,4] y)
                    <float[2] o = {1, 1}, float[2] z = {0, 0}, float[2] v = {0.99999, 0.99999}> {
                    e = Exp(x)
                    a = BatchNormalization(e, o, z, z, v)
                    y = Neg(a)
                }""",
                after="g (float[N,2,4] x) => (float[N,2,4] y) { e = Exp(x)  y = Neg(e) }",
                sentences=("BatchNormalization 'BatchNormalization_a' multiplies by 1 and adds 0; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,1,4] x) => (float[N,1,4] y) <float[1] o = {1}, float[1] z = {0}>"
                    " { e = Exp(x)  a = BatchNormalization(e, o, z, z, o)  y = Neg(a) }",
                    "BatchNormalization 'BatchNormalization_a' scales or shifts a channel",
                ),
                Refusal(
                    "g (float[N,1,4] x) => (float[N,1,4] y) <float[1] o = {1}, float[1] z = {0}>"
                    " { a = BatchNormalization<epsilon=0.0>(x, o, z, z, o)  y = Neg(a) }",
                    "'x' may hold -0.0, which BatchNormalization 'BatchNormalization_a' turns into 0.0",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="x * 1 + 0 == x",
        ),
        Rule(
            "neutral normalization",
            ("BatchNormalization",),
            match_normalization_fast,
            Example(
                before="""g (float[N,2,4] x) => (float[N,2,4] y) <float[2] o = {1, 1}, float[2] z = {0, 0}> {
                    a = BatchNormalization<epsilon=0.0>(x, o, z, z, o)
                    y = Neg(a)
                }""",
                after="g (float[N,2,4] x) => (float[N,2,4] y) { y = Neg(x) }",
                sentences=("BatchNormalization 'BatchNormalization_a' multiplies by 1 and adds 0; removed",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (double[N,1,4] x) => (double[N,1,4] y) <double[1] o = {1}, double[1] z = {0}>"
                    " { a = BatchNormalization<epsilon=0.0>(x, o, z, z, o)  y = Neg(a) }",
                    "'x' of BatchNormalization 'BatchNormalization_a' is not known to have 32 or fewer bits",
                ),
                Refusal(
                    "g (float[N,1,4] x) => (float[N,1,4] y) <float[1] o = {1}, float[1] z = {0}>"
                    " { a = BatchNormalization<epsilon=0.0>(x, o, o, z, o)  y = Neg(a) }",
                    "BatchNormalization 'BatchNormalization_a' scales or shifts a channel",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": -0.0}, -0.0, 0, "-0 + 0 is 0"),
            law="x * 1 + 0 == x",
        ),
    )
