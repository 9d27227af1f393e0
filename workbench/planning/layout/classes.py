"""TVM's three classes of operators, by how much they depend on the layout of their operands."""

from __future__ import annotations

from workbench.ir import Node
from workbench.ops import contracts
from workbench.ops.blocked import parse_blocked
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.profile import Profile

LAYOUT_AGNOSTIC, LIGHTLY, HEAVILY = "layout-agnostic", "lightly layout-sensitive", "heavily layout-sensitive"


def class_of(node: Node, target: Profile) -> str:
    """The class of the node's operator; "" for an operator that can run in one layout only.

    Heavily layout-sensitive: convolutions, and operators whose layout the target demands. Lightly: operators
    whose attributes name axes (Concat, Pad, pools). Layout-agnostic: operators that accept any order (Relu, Add).
    """
    blocked = parse_blocked(node.domain, node.op_type)
    op = plain_op(node) if blocked is None else blocked.op_type
    contract = contracts().get(op)
    kind = "barrier" if contract is None else contract.layout.kind
    if op in target.required_layouts or (contract is not None and contract.category == "convolution"):
        return HEAVILY
    if kind == "agnostic":
        return LAYOUT_AGNOSTIC
    return LIGHTLY if kind in ("remapped", "sensitive") else ""
