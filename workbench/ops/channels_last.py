"""Channels-last forms of the layout-sensitive operators, as ONNX functions of our own domain.

`workbench.Conv_NHWC(x, w, b)` means Transpose, Conv, Transpose; that is its
body in an exported file, so any runtime can run it. Ours runs it natively, in
torch's channels-last memory format, where the transposes are views. A second
suffix names the order of the weights where it is not ONNX's own:
`Conv_NHWC_HWOI`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import onnx.defs

from workbench.ir import AttrRef, Function, Graph, Node
from workbench.ir.permutation import Permutation, channels_first, channels_last, inverse, is_identity

DOMAIN = "workbench"
LAYOUT_NAMES = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
_RANKS = {last: rank for rank, (_, last) in LAYOUT_NAMES.items()}
WEIGHT_AXES = "OIHW"  # ONNX's own order; 3 and 5 dims have OIW and OIDHW


@dataclass(frozen=True)
class ChannelsLast:
    """The parts of a channels-last operator's name.

    weight_perm takes the operator's stored weight back to ONNX's order.
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
    """From ONNX's order of a convolution's weight to `weights` ("OHWI", "HWIO", "HWOI")."""
    spatial = {3: "W", 4: "HW", 5: "DHW"}[rank]
    own = "OI" + spatial
    return tuple(own.index(axis) for axis in weights.replace("HW", spatial))


def channels_last_op(op_type: str, rank: int, weights: str | None = None) -> tuple[str, str]:
    """(domain, operator) of the channels-last form; `weights` only where they are not in ONNX's order."""
    suffix = f"_{weights}" if weights and weights != WEIGHT_AXES else ""
    return DOMAIN, f"{op_type}_{LAYOUT_NAMES[rank][1]}{suffix}"


@cache
def parse_channels_last(domain: str, op_type: str) -> ChannelsLast | None:
    """The parts of a channels-last operator, None for any other."""
    if domain != DOMAIN:
        return None
    parts = op_type.split("_")
    if len(parts) not in (2, 3) or parts[1] not in _RANKS:
        return None
    return ChannelsLast(parts[0], _RANKS[parts[1]], parts[2] if len(parts) == 3 else None)


def channels_last_function(op_type: str, opset: int) -> Function:
    """The function whose body says what `workbench.<op_type>` computes, valid at `opset`.

    Raises ValueError for a name that is not a channels-last operator's.
    """
    parts = parse_channels_last(DOMAIN, op_type)
    if parts is None:
        raise ValueError(f"{DOMAIN}.{op_type} is not a channels-last operator")
    to_first, to_last = channels_first(parts.rank), channels_last(parts.rank)
    if parts.op_type in OWN_BODIES:
        inputs, attributes, outputs = OWN_BODIES[parts.op_type]
        inner_domain = DOMAIN
    else:
        schema = onnx.defs.get_schema(parts.op_type, opset, "")
        inputs = tuple(i.name for i in schema.inputs)
        outputs = (schema.outputs[0].name,)
        attributes = {name: int(a.type) for name, a in sorted(schema.attributes.items())}
        inner_domain = ""
    body_inputs = [f"{inputs[0]}_first", *inputs[1:]]
    nodes = [Node("Transpose", (inputs[0],), (body_inputs[0],), {"perm": to_first}, name="to_channels_first")]
    weight_perm = parts.weight_perm
    if weight_perm is not None and not is_identity(weight_perm):
        body_inputs[1] = f"{inputs[1]}_onnx"
        nodes.append(Node("Transpose", (inputs[1],), (body_inputs[1],), {"perm": weight_perm}, name="weights"))
    result = f"{outputs[0]}_first"
    references = {name: AttrRef(name, kind) for name, kind in attributes.items()}
    nodes.append(
        Node(parts.op_type, tuple(body_inputs), (result,), references, name=parts.op_type.lower(), domain=inner_domain)
    )
    nodes.append(Node("Transpose", (result,), (outputs[0],), {"perm": to_last}, name="to_channels_last"))
    imports = {"": opset, **({DOMAIN: 1} if inner_domain else {})}
    graph = Graph(name=op_type, inputs=inputs, outputs=outputs[:1], nodes=nodes, opset_imports=imports)
    return Function(op_type, DOMAIN, graph, dict.fromkeys(attributes))


# Operators of our own that have channels-last forms; filled by npu.py: inputs, attributes (name -> type), outputs.
OWN_BODIES: dict[str, tuple[tuple[str, ...], dict[str, int], tuple[str, ...]]] = {}
