"""A residual sum, the bias before it and LayerNormalization become ONNX Runtime's SkipLayerNormalization."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.analyses.residual import has_shape_of
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32


def refuse_other_operands(match: Match) -> None:
    """Raises NoMatch unless there are three axes and parameters of the last one, as ONNX Runtime requires."""
    shape = match.graph.shape(match["x"])
    if shape is None or len(shape) != 3:
        raise NoMatch(f"'{match['x']}' of {match.node('s')} is not known to have three axes")
    if not match.data["epsilon"] >= 0:
        raise NoMatch(
            f"{match.root} has epsilon={match.data['epsilon']:g}, which ONNX Runtime's kernel does not accept"
        )
    if shape[-1] == 0 or any(match.graph.shape(v) != shape[-1:] for v in (match["scale"], match.get("bias")) if v):
        raise NoMatch(f"a parameter of {match.root} is not known to be a vector of the last axis")


def refuse_other_biases(match: Match) -> None:
    shape = match.graph.shape(match["x"])
    if shape is None or match.graph.shape(match["added"]) != shape[-1:]:
        raise NoMatch(f"'{match['added']}' of {match.node('b')} is not known to be a vector of the last axis")


@dataclass(frozen=True)
class OrtSkipLayerNorm(Pass):
    """Two cases: LayerNormalization over the last of three axes, of a sum of two values of one shape, in float32,
    becomes com.microsoft.SkipLayerNormalization; with a bias, a constant vector, that is added to one of them too.

    Does not apply if anything else reads the sum, nor if an operand is broadcast. The file then runs in ONNX Runtime
    only.

    Source: ONNX Runtime's SkipLayerNormalization,
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
    """

    title = "ONNX Runtime: residual sum and LayerNormalization in one kernel"

    rules = (
        graph_rule(
            "bias too",
            """
                b = Add(x, added)
                s = Add(b, skip)
                y = LayerNormalization(s, scale, bias | None, axis=-1, epsilon=epsilon)
            """,
            "y = com.microsoft.SkipLayerNormalization(x, skip, scale, bias, added, epsilon=epsilon)",
            "{nodes[0]}, {nodes[1]} and {root} become one kernel of ONNX Runtime, {new} of '{x}' and '{skip}'; {fewer}"
            " fewer",
            Example(
                before="""g (float[2,3,4] a, float[2,3,4] b) => (float[2,3,4] y)
                    <float[4] w = {0.5, 1, -1, 2}, float[4] v = {0, 1, 2, 3}, float[4] c = {4, 3, 2, 1}> {
                    d = Add(c, a)
                    s = Add(d, b)
                    y = LayerNormalization<axis=-1, epsilon=0.001>(s, w, v)
                }""",
                after="""g (float[2,3,4] a, float[2,3,4] b) => (float[2,3,4] y)
                    <float[4] w = {0.5, 1, -1, 2}, float[4] v = {0, 1, 2, 3}, float[4] c = {4, 3, 2, 1}> {
                    y = com.microsoft.SkipLayerNormalization<epsilon=0.001>(a, b, w, v, c)
                }""",
                sentences=(
                    "Add 'Add_d', Add 'Add_s' and LayerNormalization 'LayerNormalization_y' become one kernel of ONNX"
                    " Runtime, com.microsoft.SkipLayerNormalization of 'a' and 'b'; 2 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] a, float[2,3,4] b, float[4] c) => (float[2,3,4] y)
                        <float[4] w = {0.5, 1, -1, 2}> {
                        d = Add(a, c)  s = Add(d, b)  y = LayerNormalization<axis=-1>(s, w)
                    }""",
                    "'c', an operand of Add 'Add_d', is not a constant",
                ),
                Refusal(
                    """g (float[2,3,4] a, float[2,3,4] b) => (float[2,3,4] y)
                        <float[4] w = {0.5, 1, -1, 2}, float[1] c = {4}> {
                        d = Add(c, a)  s = Add(d, b)  y = LayerNormalization<axis=-1>(s, w)
                    }""",
                    "'c' of Add 'Add_d' is not known to be a vector of the last axis",
                ),
            ),
            constants=("added",),
            where=(has_shape_of("skip", "x"), refuse_other_operands, refuse_other_biases, is_float32("x")),
            exactness=Exactness.ROUNDING,
        ),
        graph_rule(
            "layer",
            "s = Add(x, skip)\ny = LayerNormalization(s, scale, bias | None, axis=-1, epsilon=epsilon)",
            "y = com.microsoft.SkipLayerNormalization(x, skip, scale, bias, epsilon=epsilon)",
            "{nodes[0]} and {root} become one kernel of ONNX Runtime, {new} of '{x}' and '{skip}'; {fewer} fewer",
            Example(
                before="""g (float[2,3,4] a, float[2,3,4] b) => (float[2,3,4] y)
                    <float[4] w = {0.5, 1, -1, 2}, float[4] v = {0, 1, 2, 3}> {
                    s = Add(a, b)
                    y = LayerNormalization<axis=-1, epsilon=0.001>(s, w, v)
                }""",
                after="""g (float[2,3,4] a, float[2,3,4] b) => (float[2,3,4] y)
                    <float[4] w = {0.5, 1, -1, 2}, float[4] v = {0, 1, 2, 3}> {
                    y = com.microsoft.SkipLayerNormalization<epsilon=0.001>(a, b, w, v)
                }""",
                sentences=(
                    "Add 'Add_s' and LayerNormalization 'LayerNormalization_y' become one kernel of ONNX Runtime,"
                    " com.microsoft.SkipLayerNormalization of 'a' and 'b'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] a, float[4] b) => (float[2,3,4] y) <float[4] w = {0.5, 1, -1, 2}> {
                        s = Add(a, b)  y = LayerNormalization<axis=-1>(s, w)
                    }""",
                    "'b' is not known to have the shape of 'a', to which it is added",
                ),
                Refusal(
                    """g (float[2,3,4] a, float[2,3,4] b) => (float[2,3,4] y) <float[4] w = {0.5, 1, -1, 2}> {
                        s = Add(a, b)  y = LayerNormalization<axis=-1, epsilon=-0.001>(s, w)
                    }""",
                    "LayerNormalization 'LayerNormalization_y' has epsilon=-0.001, which ONNX Runtime's kernel does not"
                    " accept",
                ),
                Refusal(
                    """g (float[3,4] a, float[3,4] b) => (float[3,4] y) <float[4] w = {0.5, 1, -1, 2}> {
                        s = Add(a, b)  y = LayerNormalization<axis=-1>(s, w)
                    }""",
                    "'a' of Add 'Add_s' is not known to have three axes",
                ),
                Refusal(
                    """g (float[2,3,4] a, float[2,3,4] b) => (float[2,3,4] y) <float[1] w = {0.5}> {
                        s = Add(a, b)  y = LayerNormalization<axis=-1>(s, w)
                    }""",
                    "a parameter of LayerNormalization 'LayerNormalization_y' "
                    "is not known to be a vector of the last axis",
                ),
                Refusal(
                    """g (float[2,3,4] a, float[2,3,4] b) => (float[2,3,4] y, float[2,3,4] s)
                        <float[4] w = {0.5, 1, -1, 2}> {
                        s = Add(a, b)  y = LayerNormalization<axis=-1>(s, w)
                    }""",
                    "'s' of Add 'Add_s' is an output of the graph",
                ),
            ),
            where=(has_shape_of("skip", "x"), refuse_other_operands, is_float32("x")),
            exactness=Exactness.ROUNDING,
        ),
    )
