"""Rows of the inspector on one node: its contract, its cost, and why rules do not match it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from workbench.analysis.inference.bound_shapes import bound_type, bytes_of_value
from workbench.analysis.metrics.transpose_cost import element_bytes, elements, known_sum, moved_by_node
from workbench.ir import Constant, Graph, Node, TensorType, constant_shape
from workbench.ir.function_calls import function_key
from workbench.ir.permutation import perm_of
from workbench.ops import contract_of
from workbench.planning.layout.classes import class_of
from workbench.planning.layout.profile import Profile
from workbench.rewrite import Pass, PassContext
from workbench.rewrite.core.refusing import sentence_at

_KINDS = {
    "agnostic": "agnostic: it runs in any order of axes",
    "remapped": "remapped: attributes and small operands follow the order of axes",
    "sensitive": "sensitive: it is written for one order of axes, and may have a channels-last form",
    "reshape-like": "reshape-like: a permutation passes if the dims factor",
    "barrier": "barrier: no permutation passes",
}
UNKNOWN = "not known"


def contract_rows(graph: Graph, node: Node, target: Profile | None) -> list[list[str]]:
    """The node's category, layout behaviour, class for the target, and executor."""
    contract = contract_of(node)
    if contract is not None:
        rows = [["category", contract.category], ["layout", _KINDS[contract.layout.kind]]]
        runs = "the torch executor, natively"
    elif function_key(node) in graph.functions:
        rows = [["layout", "barrier: a function of the model keeps its order of axes"]]
        runs = "the torch executor, by the function's body"
    else:
        rows = [["layout", "barrier: the operator has no contract"]]
        runs = "ONNX Runtime, since the torch executor lacks the operator"
    if target is not None:
        rows.append([f"class for {target.name}", class_of(node, target) or "keeps its order of axes"])
    return [*rows, ["run by", runs]]


def cost_rows(graph: Graph, node: Node) -> list[list[str]]:
    """FLOPs, bytes read and written, FLOPs per byte; of a Transpose also what it moves. Symbolic dims are bound."""
    flops = flops_of(graph, node)
    read = known_sum(bytes_of_value(graph, value) for value in node.operands)
    written = known_sum(bytes_of_value(graph, value) for value in node.outputs if value)
    rows = [
        ["FLOPs", _count_text(flops)],
        ["bytes read", _count_text(read)],
        ["bytes written", _count_text(written)],
    ]
    if flops is not None and read is not None and written is not None and read + written:
        rows.append(["arithmetic intensity", f"{flops / (read + written):.3g} FLOP/byte"])
    if node.op == "Transpose":
        moved_elements = moved_by_node(graph, node)
        rows.append(["moves", elements(moved_elements)])
        if moved_elements is not None:
            rows.append(["bytes moved", f"{moved_elements * element_bytes(graph, node.inputs[0]):,}"])
        perm = perm_of(graph, node)
        rows.append(["permutation", UNKNOWN if perm is None else str(list(perm))])
    return rows


def refusal_rows(graph: Graph, node: Node, passes: Sequence[Pass], context: PassContext) -> list[list[str]]:
    """For each rule of the node's operator: the pass, the rule, and why the rule does not match."""
    return [
        [pass_.title, rule.name, sentence_at(rule, graph, node, pass_, context)]
        for pass_ in passes
        for rule in pass_.rules
        if node.op in rule.operators or "*" in rule.operators
    ]


def flops_of(graph: Graph, node: Node) -> int | None:
    """FLOPs of the call with symbolic dims bound; None if a shape or the operator is unknown."""
    contract = contract_of(node)
    if contract is None:
        return None
    return contract.count_flops(node, _types(graph, node.inputs), _types(graph, node.outputs))


def numbers_in(constants: Iterable[Constant]) -> int:
    return sum(math.prod(constant_shape(tensor)) for tensor in constants)


def _count_text(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _types(graph: Graph, values: Sequence[str]) -> list[TensorType | None]:
    return [bound_type(graph, value) if value else None for value in values]
