"""A graph as text beside its picture: the expressions of its outputs, or a line for each node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from workbench.errors import UserError, closest
from workbench.ir import Graph, Node

_MAX_CHARACTERS = 60  # of an expression, which stands on one line of a pane
_MAX_NODES = 12  # that have a line each
_LOWEST, _HIGHEST = 0, 9
_BINARY = {"Add": ("+", 1), "Sub": ("-", 1), "Mul": ("*", 2), "Div": ("/", 2), "MatMul": ("@", 2), "Pow": ("**", 4)}
_NEGATION = 3  # the precedence of a minus sign in front
_RIGHT_FIRST = ("Pow",)  # a ** b ** c is a ** (b ** c)


@dataclass(frozen=True)
class StopText:
    """The lines of a graph before and after. before: None where the picture has one pane."""

    kind: str
    after: tuple[str, ...]
    before: tuple[str, ...] | None = None

    @property
    def equation_rows(self) -> int:
        """The rows that expressions take above the panes; without a graph before, they stand beside each other."""
        if self.kind != EXPRESSION:
            return 0
        return 1 if self.before is None else max(len(self.before), len(self.after))


def stop_text(kind: str, before: Graph | None, after: Graph) -> StopText | None:
    """The text that a stop names, "expression" or "nodes"; None for "". Raises UserError."""
    if not kind:
        return None
    if kind not in TEXTS:
        raise UserError(f"there is no text '{kind}'{closest(kind, TEXTS)}; there are: {', '.join(TEXTS)}")
    lines = TEXTS[kind]
    return StopText(kind, lines(after), None if before is None else lines(before))


def expressions(graph: Graph) -> tuple[str, ...]:
    """One equation for each output, such as "y = (x + z) * a", from inputs, constants and other outputs.

    Raises UserError if one is longer than a pane.
    """
    results = tuple(f"{value} = {_Expression(graph).of(value)}" for value in graph.outputs)
    for result in results:
        if len(result) > _MAX_CHARACTERS:
            name = result.partition(" ")[0]
            raise UserError(
                f"the expression of '{name}' has {len(result)} characters, and a pane has room for {_MAX_CHARACTERS}; "
                "take `beside: nodes`"
            )
    return results


def equation(graph: Graph, node: Node, named: Collection[str]) -> str:
    """What the node computes, such as "p = x * a"; values that are not in `named` are written out: "(x + z) * a"."""
    expression = _Expression(graph, named).call(node, _LOWEST)
    results = [value for value in node.outputs if value in named]
    return f"{', '.join(results)} = {expression}" if results else expression


def node_lines(graph: Graph) -> tuple[str, ...]:
    """One line for each node in execution order, such as "p = Mul(x, a)". Raises UserError if there are too many."""
    if len(graph.nodes) > _MAX_NODES:
        raise UserError(f"this graph has {len(graph.nodes):,} nodes, and beside the picture is room for {_MAX_NODES}")
    return tuple(
        f"{', '.join(node.outputs)} = {_op(node)}({', '.join([*_atoms(graph, node), *_attributes(node)])})"
        for node in graph.nodes
    )


def _atoms(graph: Graph, node: Node) -> list[str]:
    return [_atom(graph, value) for value in node.inputs]


def _attributes(node: Node) -> list[str]:
    """The attributes that are numbers or lists of numbers."""
    shown = {key: value for key, value in node.attributes.items() if isinstance(value, int | float | tuple)}
    return [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in shown.items()]


EXPRESSION, NODES = "expression", "nodes"
TEXTS: Mapping[str, Callable[[Graph], tuple[str, ...]]] = {EXPRESSION: expressions, NODES: node_lines}


@dataclass(frozen=True)
class _Expression:
    """named: values that are not written out, besides inputs, constants and outputs."""

    graph: Graph
    named: Collection[str] = ()

    def of(self, value: str) -> str:
        node = self.graph.producer(value)
        return _atom(self.graph, value) if node is None else self.call(node, _LOWEST)

    def _operand(self, value: str, precedence: int) -> str:
        """The operand; in parentheses if it binds less than `precedence`. An output has its own equation."""
        node = self.graph.producer(value)
        if node is None or value in self.named or self.graph.is_output(value) or len(node.outputs) > 1:
            return _atom(self.graph, value)
        return self.call(node, precedence)

    def call(self, node: Node, precedence: int) -> str:
        if node.op in _BINARY and len(node.inputs) == 2:
            sign, own = _BINARY[node.op]
            left, right = (own + 1, own) if node.op in _RIGHT_FIRST else (own, own + 1)
            text = f"{self._operand(node.inputs[0], left)} {sign} {self._operand(node.inputs[1], right)}"
        elif node.op == "Neg":
            own, text = _NEGATION, f"-{self._operand(node.inputs[0], _NEGATION + 1)}"
        else:
            own = _HIGHEST
            text = f"{_op(node)}({', '.join(self._operand(value, _LOWEST) for value in self._shown(node))})"
        return f"({text})" if own < precedence else text

    def _shown(self, node: Node) -> list[str]:
        """The inputs without axes and other constant settings, of which a reduction has one."""
        return [value for value in node.inputs if value and not (_is_reduction(node) and value != node.inputs[0])]


def _is_reduction(node: Node) -> bool:
    return node.op.startswith("Reduce")


def _op(node: Node) -> str:
    return node.op.rpartition(".")[2]


def _atom(graph: Graph, value: str) -> str:
    """The name of a value, or the number of a constant with one element."""
    constant = graph.constant(value)
    if constant is None or constant.size != 1:
        return value
    return f"{constant.numpy().item():g}"
