"""Channels-last forms of the layout-sensitive operators, as ONNX functions in the domain "workbench".

The body of `workbench.Conv_NHWC(x, w, b)` is Transpose, Conv, Transpose, and
is exported with the model, so a runtime of functions can run it. The workbench's executor
uses torch's channels-last memory format, in which the transposes are views. A
second suffix gives the order of the weights if it is not ONNX's:
`Conv_NHWC_HWOI`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import onnx.defs

from workbench.ir import AttrRef, Function, Graph, Node
from workbench.ir.permutation import Permutation, channels_first, channels_last, inverse, is_identity, then
from workbench.ops.fused_activations import OF_CONVOLUTIONS, FusedActivation

DOMAIN = "workbench"
LAYOUT_NAMES = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
_RANKS = {last: rank for rank, (_, last) in LAYOUT_NAMES.items()}
WEIGHT_AXES = "OIHW"  # ONNX's order; OIW and OIDHW for 3 and 5 dims
# Operators with more images than the first operand; MaxUnpool's indices keep ONNX's numbering, but are channels last.
IMAGES: dict[str, tuple[int, ...]] = {"MaxUnpool": (0, 1)}
# The form with a second image as a result has another name, since a function has a fixed number of results.
WITH_SECOND = {"MaxPool": "MaxPoolWithIndices"}
PLAIN_FORM = {form: plain for plain, form in WITH_SECOND.items()}


@dataclass(frozen=True)
class ChannelsLast:
    """The parts of a channels-last operator's name.

    weight_perm: from the stored order of the weight to ONNX's.
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
    own = "OI" + spatial
    return tuple(own.index(axis) for axis in weights.replace("HW", spatial))


def weight_way(stored: str, wanted: str, rank: int) -> Permutation:
    """The permutation from one order of a convolution's weight to another."""
    return then(inverse(weight_permutation(stored, rank)), weight_permutation(wanted, rank))


def channels_last_op(op_type: str, rank: int, weights: str | None = None) -> tuple[str, str]:
    """(domain, operator) of the channels-last form; `weights` is given if it is not ONNX's order."""
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
class OwnBody:
    """The signature of an operator of the domain "workbench" that has a channels-last form.

    attributes:  name -> ONNX's AttributeType.
    images:      the inputs that are CNN values, which the channels-last form reads channels last.
    gives_image: whether its results are CNN values.
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
FUSED_CONVOLUTIONS: Mapping[str, OwnBody] = {
    fused_conv_op(activation, adds): OwnBody(
        ("x", "w", "bias", "residual") if adds else ("x", "w", "bias"),
        {**_CONV_ATTRIBUTES, **dict(activation.attributes)},
        images=(0, 3) if adds else (0,),
    )
    for activation in OF_CONVOLUTIONS
    for adds in (False, True)
}
IMAGES |= {name: own.images for name, own in FUSED_CONVOLUTIONS.items()}

# Operators whose channels-last forms name the order of a weight: the second operand, or for BPW the result.
KERNELS = ("Conv", f"{DOMAIN}.BPA", *(f"{DOMAIN}.{name}" for name in FUSED_CONVOLUTIONS))
GIVES_KERNEL = f"{DOMAIN}.BPW"

OWN_BODIES: Mapping[str, OwnBody] = {
    "BPA": OwnBody(
        ("dy", "w"), {"dilations": _INTS, "group": _INT, "output_padding": _INTS, "pads": _INTS, "strides": _INTS}
    ),
    "BPW": OwnBody(
        ("x", "dy"),
        {"dilations": _INTS, "kernel_shape": _INTS, "pads": _INTS, "strides": _INTS},
        images=(0, 1),
        gives_image=False,
    ),
    "img2col": OwnBody(
        ("x",), {"dilations": _INTS, "kernel_shape": _INTS, "pads": _INTS, "strides": _INTS}, gives_image=False
    ),
    "unpool": OwnBody(("x",), {"factor": _INT}),
    "maskunpool": OwnBody(("x", "mask"), {"factor": _INT}, images=(0, 1)),
    "mirror": OwnBody(("x",), {}),
    "rotate": OwnBody(("x",), {}),
    "tensornorm": OwnBody(("x",), {"epsilon": _FLOAT}),
    "bilinear": OwnBody(("x",), {"size": _INTS}),
    **FUSED_CONVOLUTIONS,
}  # their bodies are in npu.py and fused_convolution.py


def plain_op(node: Node) -> str:
    """The node's operator, for a channels-last form the plain one: "Conv" for Conv_NHWC_HWIO."""
    parts = parse_channels_last(node.domain, node.op_type)
    if parts is None:
        return node.op
    plain = PLAIN_FORM.get(parts.op_type, parts.op_type)
    return f"{DOMAIN}.{plain}" if plain in OWN_BODIES else plain


def stored_weights(node: Node) -> str:
    """The order of a convolution's weight: that of the channels-last form's name, else ONNX's."""
    parts = parse_channels_last(node.domain, node.op_type)
    return WEIGHT_AXES if parts is None or parts.weights is None else parts.weights


def channels_last_function(op_type: str, opset: int) -> Function:
    """The function that defines `workbench.<op_type>`, valid at `opset`.

    Raises ValueError for a name that is not a channels-last operator's.
    """
    parts = parse_channels_last(DOMAIN, op_type)
    if parts is None:
        raise ValueError(f"{DOMAIN}.{op_type} is not a channels-last operator")
    own = form_of(parts.op_type, opset)
    domain = DOMAIN if parts.op_type in OWN_BODIES else ""
    to_first = {"perm": channels_first(parts.rank)}
    operands, nodes = list(own.inputs), []
    for index in own.images:
        operands[index] = f"{own.inputs[index]}_first"
        name = f"{own.inputs[index]}_to_channels_first"
        nodes.append(Node("Transpose", (own.inputs[index],), (operands[index],), to_first, name=name))
    weight_perm = parts.weight_perm
    gives_kernel = f"{domain}.{parts.op_type}" == GIVES_KERNEL
    if weight_perm is not None and not is_identity(weight_perm) and not gives_kernel:
        operands[1] = f"{own.inputs[1]}_onnx"
        nodes.append(Node("Transpose", (own.inputs[1],), (operands[1],), {"perm": weight_perm}, name="weights"))
    results = ("result", "second")[: own.results]
    transposed = channels_last(parts.rank) if own.gives_image else None
    if gives_kernel and parts.weights is not None:
        transposed = weight_permutation(parts.weights, parts.rank)
    given = results if transposed is None else tuple(f"{result}_first" for result in results)
    references = {name: AttrRef(name, kind) for name, kind in own.attributes.items()}
    plain = PLAIN_FORM.get(parts.op_type, parts.op_type)
    nodes.append(Node(plain, tuple(operands), given, references, name=plain.lower(), domain=domain))
    for first, result in zip(given, results, strict=True) if transposed is not None else ():
        nodes.append(Node("Transpose", (first,), (result,), {"perm": transposed}, name=f"{result}_turned"))
    imports = {"": opset, **({DOMAIN: 1} if domain else {})}
    graph = Graph(name=op_type, inputs=own.inputs, outputs=results, nodes=nodes, opset_imports=imports)
    return Function(op_type, DOMAIN, graph, dict.fromkeys(own.attributes))


def form_of(op_type: str, opset: int) -> OwnBody:
    """Inputs and attributes of the channels-first operator, in ONNX or in the domain "workbench"."""
    if op_type in OWN_BODIES:
        return OWN_BODIES[op_type]
    schema = onnx.defs.get_schema(PLAIN_FORM.get(op_type, op_type), opset, "")
    attributes = {name: int(a.type) for name, a in sorted(schema.attributes.items())}  # type: ignore[call-overload]
    inputs = tuple(i.name for i in schema.inputs)
    return OwnBody(inputs, attributes, IMAGES.get(op_type, (0,)), results=2 if op_type in PLAIN_FORM else 1)
