"""What rules must not do in one run, besides what they themselves refuse: limits that the user sets."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph
from workbench.opsets.lowering import newer_in_edit

GROW = 1.1  # by default a file grows at most by a tenth
_SMALL = 1024  # bytes; constants of this size, such as shapes, take about as much as the nodes that they replace
_NODE = 64  # bytes of a node in a file, about


@dataclass(frozen=True)
class RuleLimits:
    """opset: the newest at which what is written must be writable. constant_bytes: of all constants together.
    keep: nodes that stay, and constants that stay operands. None: no limit."""

    opset: int | None = None
    constant_bytes: int | None = None
    keep: frozenset[str] = frozenset()

    def refusal(self, graph: Graph, edit: Edit) -> str:
        """Why the edit must not be made; "" if it may."""
        kept = self._kept(graph, edit)
        if kept:
            return f"'{kept}' is to be kept"
        grows = 0 if self.constant_bytes is None else _growth(graph, edit)
        if self.constant_bytes is not None and grows > _SMALL:
            after = constant_bytes(graph) + grows
            if after > self.constant_bytes:
                return f"constants would take {after:,} bytes, and may take {self.constant_bytes:,}; --grow sets that"
        newer = None if self.opset is None else newer_in_edit(graph, edit, self.opset)
        return "" if newer is None else f"opset {self.opset}, which is kept, has no such {newer}"

    def _kept(self, graph: Graph, edit: Edit) -> str | None:
        if not self.keep:
            return None
        stay = {node.name for node in edit.insert}
        removed = next((name for name in edit.remove if name in self.keep and name not in stay), None)
        lost = {value for name in edit.remove for value in graph.node(name).operands if value in self.keep}
        read = {value for node in edit.insert for value in node.operands}
        return removed or next(iter(sorted(lost - read)), None)


NO_LIMITS = RuleLimits()


def largest_constants(graph: Graph, grow: float) -> int:
    """The bytes that constants may take so that the file grows at most by this factor."""
    has = constant_bytes(graph)
    return int(has + (grow - 1) * (has + _NODE * len(graph)))


def constant_bytes(graph: Graph) -> int:
    return sum(tensor.nbytes for tensor in graph.constants.values())


def _growth(graph: Graph, edit: Edit) -> int:
    """The bytes of new constants, less those of constants that nothing reads any more."""
    new = sum(tensor.nbytes for tensor in edit.constants.values() if tensor is not None)
    if new <= _SMALL:
        return new
    removed = {*edit.remove}
    read = {value for node in edit.insert for value in node.operands}
    operands = {value for name in edit.remove for value in graph.node(name).operands}
    return new - sum(
        graph.constants[value].nbytes
        for value in operands - read
        if value in graph.constants and all(user.name in removed for user in graph.users(value))
    )
