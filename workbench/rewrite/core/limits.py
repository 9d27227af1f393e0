"""Limits that the user sets for the rules of one run, in addition to their own refusals."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.formats.opsets.lowering import newer_in_edit
from workbench.ir import Edit, Graph, Node
from workbench.ir.versioned import fixed_opset
from workbench.rewrite.core.runtime_kernels import without_kernel

GROW = 1.1  # by default a file grows at most by a tenth
_SMALL = 1024  # bytes; constants of this size, such as shapes, take about as much as the nodes that they replace
_NODE_BYTES = 64  # about the bytes of a node in a file


@dataclass(frozen=True)
class BodyParent:
    """The node that holds a body: its graph, its name, and the body's key in `Node.bodies`."""

    graph: Graph
    name: str
    key: str

    def shared_constants(self) -> set[str]:
        """The constants that the body captures and that others read too, so that they stay."""
        graph, node = self.graph, self.graph.node(self.name)
        others = {value for key, body in node.bodies.items() if key != self.key for value in body.captured}
        captured = [value for value in node.bodies[self.key].captured if value in graph.constants]
        return {value for value in captured if value in others or graph.users(value) != (node,)}


# of a body, innermost first, so that the last is in the main graph; none for the main graph
Parents = tuple[BodyParent, ...]


@dataclass(frozen=True)
class RuleLimits:
    """What rules must not do; None is no limit.

    opset:          the graph must remain writable at this opset.
    constant_bytes: the most bytes of all constants together.
    keep:           names of nodes that stay, and of constants that stay operands.
    kernels:        whether what is inserted must have kernels in ONNX Runtime if what it replaces has.
    """

    opset: int | None = None
    constant_bytes: int | None = None
    keep: frozenset[str] = frozenset()
    kernels: bool = False

    def refusal(self, graph: Graph, edit: Edit, grows_freely: bool = False, parents: Parents = ()) -> str:
        """Why the edit must not be made; "" if it may.

        grows_freely: constants may take any size. parents: of the graph, if it is a body.
        """
        removed = self._removed_name(graph, edit)
        if removed:
            return f"'{removed}' is to be kept"
        limited = self.constant_bytes is not None and not grows_freely
        growth = _growth(graph, edit, parents) if limited else 0
        if self.constant_bytes is not None and growth > _SMALL:
            after = constant_bytes(parents[-1].graph if parents else graph) + growth
            if after > self.constant_bytes and after + _growth_to_come(graph, edit) > self.constant_bytes:
                return f"constants would take {after:,} bytes, and may take {self.constant_bytes:,}; --grow sets that"
        return self.opset_refusal(graph, edit) or (without_kernel(graph, edit) if self.kernels else "")

    def opset_refusal(self, graph: Graph, edit: Edit) -> str:
        """Why the graph would not be writable at the opset after the edit; "" if it would."""
        opsets = [opset for opset in (self.opset, fixed_opset(graph.opset_imports)) if opset is not None]
        newer = newer_in_edit(graph, edit, min(opsets)) if opsets else None
        return "" if newer is None else f"opset {min(opsets)}, which is kept, has no such {newer}"

    def _removed_name(self, graph: Graph, edit: Edit) -> str | None:
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
    before = constant_bytes(graph)
    return int(before + (grow - 1) * (before + _NODE_BYTES * _nodes(graph)))


def constant_bytes(graph: Graph) -> int:
    """The bytes of the graph's constants and of those in its bodies."""
    inner = (constant_bytes(body) for node in graph.with_bodies for body in node.bodies.values())
    return sum(tensor.nbytes for tensor in graph.constants.values()) + sum(inner)


def _nodes(graph: Graph) -> int:
    """The number of the graph's nodes and of those in its bodies."""
    inner = (_nodes(body) for node in graph.with_bodies for body in node.bodies.values())
    return len(graph) + sum(inner)


def _growth(graph: Graph, edit: Edit, parents: Parents) -> int:
    """The bytes of new constants, minus those of constants that nothing reads any more."""
    new = sum(tensor.nbytes for tensor in edit.constants.values() if tensor is not None)
    if new <= _SMALL:
        return new
    removed = {*edit.remove}
    shared = {value for parent in parents for value in parent.shared_constants()}
    read = {value for node in edit.insert for value in node.operands}
    operands = {value for name in edit.remove for value in graph.node(name).operands}
    return new - sum(
        graph.constants[value].nbytes
        for value in operands - read
        if value in graph.constants and value not in shared and all(user.name in removed for user in graph.users(value))
    )


def _growth_to_come(graph: Graph, edit: Edit) -> int:
    """If the edit computes a node that reads constants alone: the growth once all others are computed, mostly negative.

    The parts of a weight are then there, and the weight is not.
    """
    if all(_bytes_computed(graph, graph.node(name)) is None for name in edit.remove):
        return 0
    computed = {node.name: bytes_ for node in graph.nodes if (bytes_ := _bytes_computed(graph, node)) is not None}
    gone = {*edit.remove}
    unread = (
        tensor.nbytes
        for value, tensor in graph.constants.items()
        if (users := {user.name for user in graph.users(value)} - gone) and users <= computed.keys()
    )
    return sum(bytes_ for name, bytes_ in computed.items() if name not in gone) - sum(unread)


def _bytes_computed(graph: Graph, node: Node) -> int | None:
    """The bytes of the node's results if it reads constants alone; None if not, or if their size is unknown."""
    if node.bodies or not node.operands or not all(value in graph.constants for value in node.operands):
        return None
    total = 0
    for value in filter(None, node.outputs):
        type_ = graph.tensor_type(value)
        if type_ is None or type_.bytes is None or graph.is_output(value):
            return None
        total += type_.bytes
    return total
