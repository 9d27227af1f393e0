"""Channels-last forms of the layout-sensitive operators, as ONNX functions in the domain "workbench".

The body of `workbench.Conv_NHWC(x, w, b)` is Transpose, Conv, Transpose. It is exported with the model, so that every
runtime of ONNX functions can run it. The workbench's executor uses torch's channels-last memory format, in which the
transposes are views. A second suffix gives the order of the weight's axes if it is not ONNX's: `Conv_NHWC_HWOI`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import onnx.defs

from workbench.ir import AttrRef, Function, Graph, Node
from workbench.ir.permutation import Permutation, channels_first, channels_last, compose, inverse, is_identity
from workbench.ops.fused_activations import OF_CONVOLUTIONS, FusedActivation

DOMAIN = "workbench"
LAYOUT_NAMES = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
_RANKS = {last: rank for rank, (_, last) in LAYOUT_NAMES.items()}
WEIGHT_AXES = "OIHW"  # ONNX's order; OIW and OIDHW for 3 and 5 dims
# Operators with more images than the first operand. MaxUnpool's indices are channels last; their numbers are ONNX's.
IMAGES: dict[str, tuple[int, ...]] = {"MaxUnpool": (0, 1)}
# The form that has a second image as a result has another name, since a function has a fixed number of results.
WITH_SECOND = {"MaxPool": "MaxPoolWithIndices"}
PLAIN_FORM = {form: plain for plain, form in WITH_SECOND.items()}


@dataclass(frozen=True)
class ChannelsLast:
    """The parts of a channels-last operator's name.

    weights:     the order of the weight's axes; None: ONNX's.
    weight_perm: the permutation from that order to ONNX's.
    """

    op_type: str
    rank: int
    weights: str | None = None

    @property
    def weight_perm(self) -> Permutation | None:
        if self.weights is None:
            return None
        return inverse(weight_permutation(self.weights, self.rank))


def weight_permutation(weights: str, rank: int) -> Permutation:
    """The permutation from ONNX's order of a convolution's weight to `weights` ("OHWI", "HWIO", "HWOI")."""
    spatial = {3: "W", 4: "HW", 5: "DHW"}[rank]
    onnx_order = "OI" + spatial
    return tuple(onnx_order.index(axis) for axis in weights.replace("HW", spatial))


def weight_reordering(stored: str, required: str, rank: int) -> Permutation:
    """The permutation from one order of a convolution's weight to another."""
    return compose(inverse(weight_permutation(stored, rank)), weight_permutation(required, rank))


def channels_last_op(op_type: str, rank: int, weights: str | None = None) -> tuple[str, str]:
    """(domain, operator) of the channels-last form. weights: the order of the weight; None: ONNX's."""
    suffix = f"_{weights}" if weights and weights != WEIGHT_AXES else ""
    return DOMAIN, f"{op_type}_{LAYOUT_NAMES[rank][1]}{suffix}"


@cache
def parse_channels_last(domain: str, op_type: str) -> ChannelsLast | None:
    """The parts of a channels-last operator's name; None for any other operator."""
    if domain != DOMAIN:
        return None
    parts = op_type.split("_")
    if len(parts) not in (2, 3) or parts[1] not in _RANKS:
        return None
    return ChannelsLast(parts[0], _RANKS[parts[1]], parts[2] if len(parts) == 3 else None)


@dataclass(frozen=True)
class Signature:
    """The signature of an operator of the domain "workbench" that has a channels-last form.

    attributes:  name -> ONNX's AttributeType.
    images:      indices of the inputs that are images, which the channels-last form reads channels last.
    gives_image: whether its results are images.
    results:     the number of results, all with the same axes.
    """

    inputs: tuple[str, ...]
    attributes: Mapping[str, int]
    images: tuple[int, ...] = (0,)
    gives_image: bool = True
    results: int = 1


def fused_conv_op(activation: FusedActivation, adds: bool) -> str:
    """The operator of the domain "workbench" that convolves, adds a residual if `adds`, and applies the activation."""
    return f"Conv{'Add' if adds else ''}{activation.name}"


_INT, _FLOAT, _STRING, _INTS = 2, 1, 3, 7  # ONNX's AttributeType
_CONV_ATTRIBUTES = {
    "auto_pad": _STRING,
    "dilations": _INTS,
    "group": _INT,
    "kernel_shape": _INTS,
    "pads": _INTS,
    "strides": _INTS,
}
FUSED_CONVOLUTIONS: Mapping[str, Signature] = {
    fused_conv_op(activation, adds): Signature(
        ("x", "w", "bias", "residual") if adds else ("x", "w", "bias"),
        {**_CONV_ATTRIBUTES, **dict(activation.attributes)},
        images=(0, 3) if adds else (0,),
    )
    for activation in OF_CONVOLUTIONS
    for adds in (False, True)
}
IMAGES |= {name: signature.images for name, signature in FUSED_CONVOLUTIONS.items()}

# Operators whose channels-last forms name the order of a weight: the second operand, or for BPW the result.
KERNELS = ("Conv", f"{DOMAIN}.BPA", *(f"{DOMAIN}.{name}" for name in FUSED_CONVOLUTIONS))
WEIGHT_GRADIENT_OP = f"{DOMAIN}.BPW"

OWN_SIGNATURES: Mapping[str, Signature] = {
    "BPA": Signature(
        ("dy", "w"), {"dilations": _INTS, "group": _INT, "output_padding": _INTS, "pads": _INTS, "strides": _INTS}
    ),
    "BPW": Signature(
        ("x", "dy"),
        {"dilations": _INTS, "kernel_shape": _INTS, "pads": _INTS, "strides": _INTS},
        images=(0, 1),
        gives_image=False,
    ),
    "img2col": Signature(
        ("x",), {"dilations": _INTS, "kernel_shape": _INTS, "pads": _INTS, "strides": _INTS}, gives_image=False
    ),
    "unpool": Signature(("x",), {"factor": _INT}),
    "maskunpool": Signature(("x", "mask"), {"factor": _INT}, images=(0, 1)),
    "mirror": Signature(("x",), {}),
    "rotate": Signature(("x",), {}),
    "tensornorm": Signature(("x",), {"epsilon": _FLOAT}),
    "bilinear": Signature(("x",), {"size": _INTS}),
    **FUSED_CONVOLUTIONS,
}  # their bodies are in npu.py and fused_convolution.py


def plain_op(node: Node) -> str:
    """The node's operator; for a channels-last form the channels-first one: "Conv" for Conv_NHWC_HWIO."""
    parts = parse_channels_last(node.domain, node.op_type)
    if parts is None:
        return node.op
    plain = PLAIN_FORM.get(parts.op_type, parts.op_type)
    return f"{DOMAIN}.{plain}" if plain in OWN_SIGNATURES else plain


def stored_weights(node: Node) -> str:
    """The order of a convolution's weight: as the name of a channels-last form says, else ONNX's."""
    parts = parse_channels_last(node.domain, node.op_type)
    return WEIGHT_AXES if parts is None or parts.weights is None else parts.weights


def channels_last_function(op_type: str, opset: int) -> Function:
    """The function that defines `workbench.<op_type>`, valid at `opset`.

    Raises ValueError for a name that is not a channels-last operator's.
    """
    parts = parse_channels_last(DOMAIN, op_type)
    if parts is None:
        raise ValueError(f"{DOMAIN}.{op_type} is not a channels-last operator")
    signature = signature_of(parts.op_type, opset)
    domain = DOMAIN if parts.op_type in OWN_SIGNATURES else ""
    to_first = {"perm": channels_first(parts.rank)}
    operands, nodes = list(signature.inputs), []
    for index in signature.images:
        operands[index] = f"{signature.inputs[index]}_first"
        name = f"{signature.inputs[index]}_to_channels_first"
        nodes.append(Node("Transpose", (signature.inputs[index],), (operands[index],), to_first, name=name))
    weight_perm = parts.weight_perm
    is_weight_gradient = f"{domain}.{parts.op_type}" == WEIGHT_GRADIENT_OP
    if weight_perm is not None and not is_identity(weight_perm) and not is_weight_gradient:
        operands[1] = f"{signature.inputs[1]}_onnx"
        nodes.append(Node("Transpose", (signature.inputs[1],), (operands[1],), {"perm": weight_perm}, name="weights"))
    results = ("result", "second")[: signature.results]
    result_perm = channels_last(parts.rank) if signature.gives_image else None
    if is_weight_gradient and parts.weights is not None:
        result_perm = weight_permutation(parts.weights, parts.rank)
    plain_results = results if result_perm is None else tuple(f"{result}_first" for result in results)
    references = {name: AttrRef(name, type_) for name, type_ in signature.attributes.items()}
    plain = PLAIN_FORM.get(parts.op_type, parts.op_type)
    nodes.append(Node(plain, tuple(operands), plain_results, references, name=plain.lower(), domain=domain))
    for first, result in zip(plain_results, results, strict=True) if result_perm is not None else ():
        nodes.append(Node("Transpose", (first,), (result,), {"perm": result_perm}, name=f"{result}_turned"))
    imports = {"": opset, **({DOMAIN: 1} if domain else {})}
    graph = Graph(name=op_type, inputs=signature.inputs, outputs=results, nodes=nodes, opset_imports=imports)
    return Function(op_type, DOMAIN, graph, dict.fromkeys(signature.attributes))


def signature_of(op_type: str, opset: int) -> Signature:
    """The signature of the channels-first operator, of ONNX or of the domain "workbench"."""
    if op_type in OWN_SIGNATURES:
        return OWN_SIGNATURES[op_type]
    schema = onnx.defs.get_schema(PLAIN_FORM.get(op_type, op_type), opset, "")
    # An enum of C++, which converts to int, as onnx's stubs do not say.
    attributes = {name: int(a.type) for name, a in sorted(schema.attributes.items())}  # type: ignore[call-overload]
    inputs = tuple(i.name for i in schema.inputs)
    return Signature(inputs, attributes, IMAGES.get(op_type, (0,)), results=2 if op_type in PLAIN_FORM else 1)
