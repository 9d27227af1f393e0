"""Compute equal nodes once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from workbench.analysis.inference.evaluate import RANDOM
from workbench.ir import Edit, Graph, Node
from workbench.ir.function_calls import function_key
from workbench.ops import is_pure
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.content import attribute_key


def match_same(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """Match one node by a table of its own; a run of the pass keeps one table."""
    table = _Table()
    for other in graph.users(node.inputs[0]) if node.inputs else ():
        table.enter(graph, other)
    return table.match(graph, node, pass_)


@dataclass(frozen=True)
class _Table:
    """The nodes of a graph, hashed by what they compute, so that no node is compared with all others."""

    by_graph: WeakKeyDictionary[Graph, dict[Hashable, dict[str, None]]] = field(default_factory=WeakKeyDictionary)

    def enter(self, graph: Graph, node: Node) -> None:
        """Add the node to the table."""
        if _is_determined(graph, node) and is_pure(node):
            self.by_graph.setdefault(graph, {}).setdefault(_key(node), {})[node.name] = None

    def equals(self, graph: Graph, node: Node, key: Hashable) -> list[Node]:
        """The nodes that compute the same as this one, itself included, in the order of their entry."""
        if graph not in self.by_graph:
            for other in graph.nodes:
                self.enter(graph, other)
        names = self.by_graph[graph].setdefault(key, {})
        names[node.name] = None
        nodes = (graph.find(name) for name in names)
        return [other for other in nodes if other is node or (other is not None and _key(other) == key)]

    def match(self, graph: Graph, node: Node, pass_: Pass) -> Rewrite:
        if node.op in RANDOM:
            raise NoMatch(f"{node} gives different numbers each time")
        if not _is_determined(graph, node):
            raise NoMatch(f"{node} is not determined by operator, operands and attributes alone")
        if not is_pure(node):
            raise NoMatch(f"{node} may give other numbers each time: nothing declares that it is pure")
        key = _key(node)
        first, *others = self.equals(graph, node, key)
        without_all = [other for other in others if not _has_all_results(first, other)]
        self.by_graph[graph][key] = dict.fromkeys(other.name for other in (first, *without_all))
        same = [other for other in others if _has_all_results(first, other)]
        removed = [other for other in same if not any(map(graph.is_output, other.outputs))]
        if removed:
            return _computed_once(first, removed)
        if node not in same:
            raise NoMatch(f"no node before {node} computes the same")
        output = next(value for value in node.outputs if graph.is_output(value))
        raise NoMatch(f"{first} computes the same, but '{output}' is an output of the graph")


def _is_determined(graph: Graph, node: Node) -> bool:
    """Whether operator, operands and attributes determine what the node computes."""
    is_call = function_key(node) in graph.functions
    return bool(node.inputs) and not (node.bodies or is_call or node.op in RANDOM)


def _computed_once(first: Node, removed: list[Node]) -> Rewrite:
    replace = {old: new for node in removed for old, new in zip(node.outputs, first.outputs, strict=True) if old}
    names = tuple(node.name for node in removed)
    subject = f"{removed[0]} computes" if len(removed) == 1 else f"{removed[0]} and {len(removed) - 1:,} others compute"
    return Rewrite(
        Edit(remove=names, replace=replace), f"{subject} the same as {first}; computed once", (first.name, *names)
    )


def _has_all_results(a: Node, b: Node) -> bool:
    """Whether `a` has every result that `b` has."""
    return all(of_a or not of_b for of_a, of_b in zip(a.outputs, b.outputs, strict=True))


def _key(node: Node) -> Hashable:
    """Equal for nodes that compute the same: operator, operands and attributes."""
    attributes = tuple([(key, attribute_key(node.attributes[key])) for key in sorted(node.attributes)])
    return node.op, node.overload, node.inputs, len(node.outputs), attributes


@dataclass(frozen=True)
class CommonSubexpressions(Pass):
    """A node with the operator, operands and attributes of an earlier one is removed; its readers read the results of
    that one. All nodes that are equal to it are removed in one rewrite.

    Nodes after it may then be equal too, so that repeated chains are removed as a whole.

    Does not apply:

    - to random operators, nor to operators that nothing defines and no declaration calls pure;
    - to nodes with bodies;
    - if the result is an output of the graph.

    Source: common-subexpression elimination; ONNX Runtime's basic level has it.
    """

    title = "Eliminate common subexpressions"

    def rules_of_run(self) -> tuple[Rule, ...]:
        table = _Table()
        return tuple(replace(rule, match=table.match) for rule in self.rules)

    rules = (
        Rule(
            "same node",
            ("*",),
            match_same,
            Example(
                before="""g (float[N] x) => (float[N] y) {
                    a = Exp(x)
                    b = Neg(a)
                    c = Exp(x)
                    d = Neg(c)
                    y = Add(b, d)
                }""",
                after="g (float[N] x) => (float[N] y) { a = Exp(x)  b = Neg(a)  y = Add(b, b) }",
                sentences=(
                    "Exp 'Exp_c' computes the same as Exp 'Exp_a'; computed once",
                    "Neg 'Neg_d' computes the same as Neg 'Neg_b'; computed once",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) { a = Exp(x)  b = Neg(x)  y = Add(a, b) }",
                    "no node before Exp 'Exp_a' computes the same",
                ),
                Refusal(
                    "g (float[N] x) => (float[N] y, float[N] z) { y = Exp(x)  z = Exp(x) }",
                    "Exp 'Exp_y' computes the same, but 'z' is an output of the graph",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y) { a = RandomNormalLike(x)  y = Add(a, a) }",
                    "RandomNormalLike 'RandomNormalLike_a' gives different numbers each time",
                ),
                Refusal(
                    """<ir_version: 10, opset_import: ["": 23, "my": 1]>
                    g (float[2] x) => (float[2] y) { a = my.Op(x)  b = my.Op(x)  y = Add(a, b) }""",
                    "my.Op 'Op_a' may give other numbers each time: nothing declares that it is pure",
                ),
                Refusal(
                    """<ir_version: 10, opset_import: ["": 23, "own": 1]>
                    g (float[2] x) => (float[2] y) { y = own.noisy(x) }
                    <domain: "own", opset_import: ["": 23]>
                    noisy (z) => (r) { r = RandomNormalLike(z) }""",
                    "own.noisy 'noisy_y' is not determined by operator, operands and attributes alone",
                ),
                Refusal(
                    """g (float[N] x, bool c) => (float[N] y) {
                        y = If(c) <
                            then_branch = t () => (float[N] r) { r = Exp(x) },
                            else_branch = e () => (float[N] q) { q = Abs(x) }
                        >
                    }""",
                    "If 'If_y' is not determined by operator, operands and attributes alone",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
