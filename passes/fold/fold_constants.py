"""Compute at compile time what does not depend on the model's inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workbench.analysis.inference.evaluate import RANDOM, CannotEvaluate, evaluate
from workbench.analysis.inference.exact import ENLARGING, enlarged
from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.ir.permutation import permuted_constant
from workbench.ops import contract_of
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule, option

from ..cleanup.inline_if import InlineIf
from .fold_shapes import FoldShapes

_MOST_BYTES_COPIED = 2**12  # transposed constants of up to so many bytes are copied; a larger one is a view


def _folded(graph: Graph, node: Node, results: tuple[np.ndarray | None, ...]) -> Edit:
    named = zip(node.outputs, results, strict=True)
    constants = {name: _stored(graph, node, array, name) for name, array in named if array is not None}
    return Edit(remove=(node.name,), constants=constants)


def _stored(graph: Graph, node: Node, result: np.ndarray, name: str) -> Constant:
    """The result as a constant; a transposed weight is a view, which takes no additional memory."""
    if node.op != "Transpose" or result.nbytes < _MOST_BYTES_COPIED:
        return constant(result, name)
    perm = node.attr("perm", tuple(reversed(range(result.ndim))))
    return permuted_constant(graph.constants[node.inputs[0]], perm)


def _size(graph: Graph, node: Node) -> int | None:
    """Bytes of the results as known before they are computed, from the operands or from types; None if unknown."""
    if node.op not in ENLARGING:
        sizes = [None if (t := graph.tensor_type(v)) is None else t.bytes for v in node.outputs if v]
        return None if any(s is None for s in sizes) else sum(s for s in sizes if s is not None)
    numbers = [graph.constants[v].numpy() for v in node.inputs if v]
    elements = enlarged(node.op, numbers)
    element = node.attr("value") if node.op == "ConstantOfShape" else numbers[0]
    itemsize = 4 if element is None else math.ceil(element.dtype.itemsize)  # zeros of a ConstantOfShape are floats
    return None if elements is None else elements * itemsize


def _quantized_reader(graph: Graph, node: Node) -> Node | None:
    """A reader of a dequantized constant that can compute on integers: either another of its operands is dequantized
    from a computed value, or it is a Gather whose result is quantized. None if there is none."""
    if node.op != "DequantizeLinear":
        return None
    for reader in graph.users(node.outputs[0]):
        producers = (graph.producer(value) for value in reader.operands)
        quantized = any(m is not None and m.op == node.op and m.inputs[0] not in graph.constants for m in producers)
        if quantized or (
            reader.op == "Gather" and any(u.op == "QuantizeLinear" for u in graph.users(reader.outputs[0]))
        ):
            return reader
    return None


def match_constant(graph: Graph, node: Node, pass_: FoldConstants) -> Rewrite:
    if any(v not in graph.constants for v in node.operands):
        missing = next(v for v in node.operands if v not in graph.constants)
        raise NoMatch(f"'{missing}', an operand of {node}, is not a constant")
    if node.op in RANDOM:
        raise NoMatch(f"{node} gives different numbers each time")
    if node.bodies or contract_of(node) is None:
        raise NoMatch(f"{node} has a body or is an unknown operator")
    if any(graph.is_output(v) for v in node.outputs):
        raise NoMatch(f"{node} produces an output of the graph")
    quantized = _quantized_reader(graph, node)
    if quantized is not None:
        raise NoMatch(f"{quantized} can compute on the integers that {node} reads")
    size = _size(graph, node)
    if size is not None and size > pass_.max_bytes:
        raise NoMatch(f"the result of {node} would take {size:,} bytes; the limit is {pass_.max_bytes:,}")
    try:
        operands = [graph.constants[v].numpy() if v else None for v in node.inputs]
        results = evaluate(node, operands, graph.opset_imports)
    except CannotEvaluate as error:
        raise NoMatch(str(error)) from None
    for value, result in zip(node.outputs, results, strict=True):
        if result is None:
            continue
        declared = graph.tensor_type(value)
        if declared is not None and declared.dtype.numpy() != result.dtype:
            raise NoMatch(f"'{value}' of {node} is {declared.dtype.name.lower()}, which is not computed here")
    total = sum(r.nbytes for r in results if r is not None)
    if total > pass_.max_bytes:
        raise NoMatch(f"the result of {node} would take {total:,} bytes; the limit is {pass_.max_bytes:,}")
    sentence = f"{node} depends on constants only; computed once, {total:,} bytes"
    return Rewrite(_folded(graph, node, results), sentence, (node.name,))


def _has_constants_alone(graph: Graph, node: Node) -> bool:
    return all(v in graph.constants for v in node.operands)


def match_shape(graph: Graph, node: Node, pass_: FoldConstants) -> Rewrite:
    type_ = graph.tensor_type(node.inputs[0])
    shape = None if type_ is None else type_.static_shape
    if shape is None:
        raise NoMatch(f"the shape of '{node.inputs[0]}', which {node} reads, is not fixed")
    sizes = np.array(math.prod(shape) if node.op == "Size" else shape[node.attr("start") : node.attr("end")])
    sentence = f"{node} reads the shape of '{node.inputs[0]}', which is always {list(shape)}"
    return Rewrite(_folded(graph, node, (sizes.astype(np.int64),)), sentence, (node.name,))


def match_cast_like(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    like = graph.tensor_type(node.inputs[1])
    if like is None:
        raise NoMatch(f"the type of '{node.inputs[1]}', to which {node} casts, is not known")
    attributes = {key: value for key, value in node.attributes.items() if key != "to"}
    cast = node.replace(op_type="Cast", inputs=node.inputs[:1], attributes={**attributes, "to": like.dtype.value})
    sentence = f"{node} casts to the type of '{node.inputs[1]}', which is {like.dtype.name.lower()}; written as Cast"
    return Rewrite(Edit(remove=(node.name,), insert=(cast,)), sentence, (node.name,))


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Five cases:

    - a node whose operands are all constants is computed once, at compile time;
    - Shape and Size of a value with a static shape become a constant, also as outputs of the graph;
    - CastLike to the type of a value whose type is known becomes Cast;
    - arithmetic on symbolic shapes is folded, by the rules of `fold_shapes`;
    - an If whose condition is known becomes its branch, by the rule of `inline_if`.

    Each enables the others: after an If is replaced by its branch, more shapes are known.

    Does not apply:

    - to random operators;
    - to other nodes that make an output of the graph;
    - if the result takes more than `max_bytes`, so that a small file that generates large weights stays small;
    - to the DequantizeLinear of a constant whose reader runtimes can give integers: beside that of a computed value, or
      a Gather that is quantized.

    Source: the unpublished plan of graph optimizations for buddy-compiler, "constant folding", first and
    second kind (docs/references.md, "buddy plan").
    """

    title = "Fold constants"

    max_bytes: int = option(
        16 * 2**20, "The largest result that is stored in place of a node, in bytes.", least=0, unit="bytes"
    )

    rules = (
        *InlineIf.rules,
        Rule(
            "constant operands",
            ("*",),
            match_constant,
            Example(
                before="""g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> {
                    c = Add(a, b)
                    y = Mul(x, c)
                }""",
                after="g (float[2] x) => (float[2] y) <float[2] c = {4, 6}> { y = Mul(x, c) }",
                sentences=("Add 'Add_c' depends on constants only; computed once, 8 bytes",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { y = Mul(a, x) }",
                    "'x', an operand of Mul 'Mul_y', is not a constant",
                ),
                Refusal(
                    "g (float[1] x) => (float[4] y) <int64[1] s = {4}> { c = ConstantOfShape(s)  y = Add(x, c) }",
                    "the result of ConstantOfShape 'ConstantOfShape_c' would take 16 bytes; the limit is 8",
                    options={"max_bytes": 8},
                ),
                Refusal(
                    "g (int64[N] x) => (int64[M] y) <int64 a = {0}, int64 b = {1000000000000}, int64 d = {1}>"
                    " { c = Range(a, b, d)  y = Add(x, c) }",
                    "the result of Range 'Range_c' would take 8,000,000,000,000 bytes; the limit is 16,777,216",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y) { c = RandomNormal<shape=[2]>()  y = Add(x, c) }",
                    "RandomNormal 'RandomNormal_c' gives different numbers each time",
                ),
                Refusal(
                    "g (int32[1] x) => (int32[1] y)"
                    " <int32[1] a = {-2147483648}, int32[1] b = {-1}> { c = Div(a, b)  y = Add(x, c) }",
                    "Div 'Div_c' divides the smallest integer by -1, which has no result",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y, float[2] z) <float[2] a = {1, 2}> { z = Neg(a)  y = Add(x, z) }",
                    "Neg 'Neg_z' produces an output of the graph",
                ),
                Refusal(
                    """g (uint8[2] x) => (float[2] y) <uint8[2] w = {1, 2}, float s = {0.1}> {
                        a = DequantizeLinear(x, s)  b = DequantizeLinear(w, s)  y = Mul(a, b)
                    }""",
                    "Mul 'Mul_y' can compute on the integers that DequantizeLinear 'DequantizeLinear_b' reads",
                ),
                Refusal(
                    """g (int64[N] i) => (uint8[N] y) <uint8[3] w = {1, 2, 3}, float s = {0.1}> {
                        a = DequantizeLinear(w, s)  b = Gather(a, i)  y = QuantizeLinear(b, s)
                    }""",
                    "Gather 'Gather_b' can compute on the integers that DequantizeLinear 'DequantizeLinear_a' reads",
                ),
            ),
            may_match=_has_constants_alone,
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "fixed shape",
            ("Shape", "Size"),
            match_shape,
            Example(
                before="g (float[2,3] x) => (int64[2] y) { s = Shape(x)  y = Neg(s) }",
                after="g (float[2,3] x) => (int64[2] y) <int64[2] s = {2, 3}> { y = Neg(s) }",
                sentences=("Shape 'Shape_s' reads the shape of 'x', which is always [2, 3]",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (int64[2] y) { s = Shape(x)  y = Neg(s) }",
                    "the shape of 'x', which Shape 'Shape_s' reads, is not fixed",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "type of another value",
            ("CastLike",),
            match_cast_like,
            Example(
                before="g (float[N] x) => (float[N] y) <int64[1] a = {4}> { c = CastLike(a, x)  y = Add(x, c) }",
                after="g (float[N] x) => (float[N] y) <float[1] c = {4}> { y = Add(x, c) }",
                sentences=(
                    "CastLike 'CastLike_c' casts to the type of 'x', which is float; written as Cast",
                    "Cast 'CastLike_c' depends on constants only; computed once, 4 bytes",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int64[1] a, float[N] x) => (float[N] y) { z = com.example.Own(x)  y = CastLike(a, z) }",
                    "the type of 'z', to which CastLike 'CastLike_y' casts, is not known",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        *FoldShapes.rules,
    )

    extra_examples = (
        Example(
            title="A -1 that always stands for one number leaves it to another axis",
            before="""g (float[N,4,6,2] x) => (float[6,2] y)
                <int64[1] four = {4}, int64[1] six = {6}, int64[1] rest = {-1}, int64[1] i = {0}> {
                n = Shape<start=0, end=1>(x)
                m = Mul(n, four)
                s = Concat<axis=0>(m, six, rest)
                r = Reshape(x, s)
                y = ReduceSum<keepdims=0>(r, i)
            }""",
            after="""g (float[N,4,6,2] x) => (float[6,2] y)
                <int64[1] four = {4}, int64[1] six = {6}, int64[1] rest = {-1}, int64[1] i = {0},
                int64[3] r_shape = {-1, 6, 2}> {
                n = Shape<start=0, end=1>(x)
                m = Mul(n, four)
                s = Concat<axis=0>(m, six, rest)
                r = Reshape(x, r_shape)
                y = ReduceSum<keepdims=0>(r, i)
            }""",
            sentences=("the shape of Reshape 'Reshape_r' is computed from that of 'x'; written as [-1, 6, 2]",),
        ),
    )
