"""Fuse a product with the bias and the activation after it."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ops.fused_activations import GELU, RELU, SIGMOID, SILU, TANH, FusedActivation
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32

_SENTENCE = (
    "{count} nodes, from {nodes[0]} to {root}, become {new} of '{x}', which stores the product once, with its bias and "
    "activated; {fewer} fewer"
)
_HEADER = '<ir_version: 11, opset_import: ["": 23, "workbench": 1]>'


def is_bias_of_columns(match: Match) -> None:
    """Raises NoMatch unless b is a vector of the columns of w. A Gemm has its own bias, of any shape."""
    if match.node("p").op == "Gemm":
        return
    graph, bias, product = match.graph, match["b"], match.node("p")
    weight, shape = graph.shape(match["w"]), graph.shape(bias)
    if weight is None or len(weight) != 2:
        raise NoMatch(f"'{match['w']}', the second operand of {product}, is not known to be a matrix")
    if shape is None or len(shape) != 1 or shape != weight[1:] or None in shape:
        raise NoMatch(f"'{bias}' is not known to have a number for each column of '{match['w']}'")


def _rule(
    activation: FusedActivation, ending: str, written: str, refusals: tuple[Refusal, ...], attributes_text: str = ""
) -> Rule:
    """ending: y of s. written: the same in the example. attributes_text: of the activation, in the pattern."""
    name = activation.name
    last = "Mul" if "Mul" in ending else name
    matched = 4 if "Mul" in ending else 3
    attributes = '<approximate="tanh">' if attributes_text else ""
    return graph_rule(
        name,
        f"p = MatMul(x, w)\ns = Add(p, b)\ny = {ending}",
        f"y = workbench.MatMulAdd{name}(x, w, b{attributes_text})",
        _SENTENCE,
        Example(
            before=f"""g (float[2,3,4] x, float[4,5] w, float[5] b) => (float[2,3,5] y) {{
                p = MatMul(x, w)
                s = Add(b, p)
                {written}
            }}""",
            after=f"""{_HEADER}
                g (float[2,3,4] x, float[4,5] w, float[5] b) => (float[2,3,5] y) {{
                    y = workbench.MatMulAdd{name}{attributes}(x, w, b)
                }}""",
            sentences=(
                f"{matched} nodes, from MatMul 'MatMul_p' to {last} '{last}_y', become workbench.MatMulAdd{name} of "
                f"'x', which stores the product once, with its bias and activated; {matched - 1} nodes fewer",
            ),
        ),
        refusals,
        further=(
            (
                f"p = Gemm(x, w, b | None, **others)\ns = p\ny = {ending}",
                f"y = workbench.Gemm{name}(x, w, b{attributes_text}, **others)",
            ),
        ),
        where=(is_float32("x"), is_bias_of_columns),
        exactness=Exactness.BIT_EXACT,
    )


def _biased(lines: str, bias: str = "float[5] b", weight: str = "float[4,5] w", results: str = "") -> str:
    return f"""g (float[2,3,4] x, {weight}, {bias}) => (float[2,3,5] y{results}) {{
        p = MatMul(x, w)  s = Add(p, b)  {lines}
    }}"""


@dataclass(frozen=True)
class FuseLinear(Pass):
    """activation(x @ w + bias), with a matrix w and a bias of its columns, becomes one operator of the workbench,
    MatMulAddRelu; activation(Gemm(a, b, c)) becomes GemmRelu. Activations, one rule each:

    - Relu; Gelu, by erf or by tanh; Tanh; Sigmoid; x * sigmoid(x), which is SiLU.

    The product is then stored once, with its bias and activated. The operators are functions of standard operators in
    an exported file. Gelu that is written out becomes ONNX's operator by recompose_gelu, if it runs before;
    fuse_bias_gelu takes the bias and Gelu alone, so of the two the one that runs first acts.

    Does not apply:

    - if anything else reads the product or the sum;
    - if either is an output of the graph;
    - if the bias is not a vector of the columns;
    - if both operands have batches;
    - to other elements than float32.

    Source: cuBLASLt's epilogues, https://docs.nvidia.com/cuda/cublas/#cublasltepilogue-t; ONNX Runtime's FusedGemm.
    """

    title = "Fuse product, bias and activation"

    rules = (
        _rule(
            RELU,
            "Relu(s)",
            "y = Relu(s)",
            (
                Refusal(
                    _biased("y = Relu(s)", results=", float[2,3,5] s"), "'s' of Add 'Add_s' is an output of the graph"
                ),
                Refusal(
                    _biased("y = Relu(s)  z = Neg(p)", results=", float[2,3,5] z"),
                    "Neg 'Neg_z' reads 'p' of MatMul 'MatMul_p' too",
                ),
                Refusal(
                    _biased("y = Relu(s)", "float[3,1] b"),
                    "'b' is not known to have a number for each column of 'w'",
                ),
                Refusal(
                    _biased("y = Relu(s)", "float[1] b"),
                    "'b' is not known to have a number for each column of 'w'",
                ),
                Refusal(
                    _biased("y = Relu(s)", weight="float[2,4,5] w"),
                    "'w', the second operand of MatMul 'MatMul_p', is not known to be a matrix",
                ),
                Refusal(
                    "g (double[3,4] x, double[4,5] w) => (double[3,5] y) { p = Gemm(x, w)  y = Relu(p) }",
                    "'x' is not known to be float32 of a known rank",
                ),
            ),
        ),
        _rule(
            GELU,
            "Gelu(s, approximate=approximate)",
            'y = Gelu<approximate="tanh">(s)',
            (
                Refusal(
                    _biased("y = Gelu(s)  z = Neg(s)", results=", float[2,3,5] z"),
                    "Neg 'Neg_z' reads 's' of Add 'Add_s' too",
                ),
            ),
            ", approximate=approximate",
        ),
        _rule(
            TANH,
            "Tanh(s)",
            "y = Tanh(s)",
            (
                Refusal(
                    "g (float[3,4] x, float[4,5] w) => (float[3,5] y) { p = MatMul(x, w)  y = Tanh(p) }",
                    "Tanh 'Tanh_y' does not follow an Add or Gemm",
                ),
            ),
        ),
        _rule(
            SIGMOID,
            "Sigmoid(s)",
            "y = Sigmoid(s)",
            (
                Refusal(
                    _biased("y = Sigmoid(s)", results=", float[2,3,5] p"),
                    "'p' of MatMul 'MatMul_p' is an output of the graph",
                ),
            ),
        ),
        _rule(
            SILU,
            "Mul(s, Sigmoid(s))",
            "g = Sigmoid(s)  y = Mul(s, g)",
            (
                Refusal(
                    _biased("g = Sigmoid(s)  y = Mul(p, g)"),
                    "Mul 'Mul_y' does not follow an Add or Gemm",
                ),
            ),
        ),
    )

    extra_examples = (
        Example(
            title="A Gemm keeps its attributes",
            before="""g (float[4,3] x, float[5,4] w, float[3,5] b) => (float[3,5] y) {
                p = Gemm<transA=1, transB=1, alpha=0.5>(x, w, b)
                y = Relu(p)
            }""",
            after=f"""{_HEADER}
                g (float[4,3] x, float[5,4] w, float[3,5] b) => (float[3,5] y) {{
                    y = workbench.GemmRelu<transA=1, transB=1, alpha=0.5>(x, w, b)
                }}""",
            sentences=(
                "2 nodes, from Gemm 'Gemm_p' to Relu 'Relu_y', become workbench.GemmRelu of 'x', which stores the "
                "product "
                "once, with its bias and activated; 1 node fewer",
            ),
        ),
    )
