"""Replace calls of model-local functions by their bodies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.ir import AttrRef, Function, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, PassContext, Refusal, Rewrite, Rule
from workbench.rewrite.inlining import in_place, inlined_call

_OWN = "workbench"  # this project's domain; its operators are functions, so that any runtime can run them


def _with_values(node: Node, given: Mapping[str, Any]) -> Node:
    """The node with references replaced by the call's attributes; one that is not given is omitted."""
    attributes = {}
    for key, value in node.attributes.items():
        if isinstance(value, AttrRef):
            if value.name in given:
                attributes[key] = given[value.name]
        elif isinstance(value, Graph):
            attributes[key] = _body_with_values(value, given)
        else:
            attributes[key] = value
    return node.replace(attributes=attributes)


def _body_with_values(body: Graph, given: Mapping[str, Any]) -> Graph:
    return Graph(
        name=body.name,
        inputs=body.inputs,
        outputs=body.outputs,
        nodes=[_with_values(node, given) for node in body.nodes],
        constants=body.constants,
        types=body.types,
    )


def match_call(graph: Graph, node: Node, options: Pass) -> Rewrite:
    function = graph.functions.get((node.domain, node.op_type, node.overload))
    if function is None:
        raise NoMatch(f"{node} is not a call of a model-local function")
    if node.domain == _OWN:
        raise NoMatch(f"{node} is an operator of domain '{_OWN}', which runs faster than its body")
    other = _other_version(graph, function)
    if other is not None:
        raise NoMatch(f"{node} is written for version {other[1]} of {other[0] or 'ONNX'}, the model imports another")
    body = _body_of(_unfolded(graph, function, {}), function, node)
    edit = inlined_call(graph, node, body, _operands(function, node))
    return Rewrite(edit, f"{node} calls a function of the model; replaced by its {len(body):,} nodes", (node.name,))


def _is_call(graph: Graph, node: Node) -> bool:
    return (node.domain, node.op_type, node.overload) in graph.functions


def _other_version(graph: Graph, function: Function) -> tuple[str, int] | None:
    """A domain of which the model imports another version than the function, and the function's version."""
    for domain, version in function.graph.opset_imports.items():
        if graph.opset_imports.get(domain, version if domain == function.domain else None) != version:
            return domain, version
    return None


def _body_of(body: Graph, function: Function, call: Node) -> Graph:
    given = {**{key: value for key, value in function.attributes.items() if value is not None}, **call.attributes}
    return _body_with_values(body, given)


def _operands(function: Function, call: Node) -> dict[str, str]:
    """The operand of each input of the function, "" if omitted."""
    operands = (*call.inputs, *("",) * (len(function.graph.inputs) - len(call.inputs)))
    return dict(zip(function.graph.inputs, operands, strict=True))


def _unfolded(graph: Graph, function: Function, known: dict[tuple[str, str, str], Graph]) -> Graph:
    """The function's body with the calls in it inlined, each function once."""
    if function.key in known:
        return known[function.key]
    body = function.graph.copy()
    for name in [node.name for node in body.nodes]:
        node = body.node(name)  # its operands may have been replaced
        called = graph.functions.get((node.domain, node.op_type, node.overload))
        if called is None or node.domain == _OWN or _other_version(graph, called) is not None:
            continue
        inner = _body_of(_unfolded(graph, called, known), called, node)
        body.apply(in_place(body, node, inner, _operands(called, node)))
    return known.setdefault(function.key, body)


@dataclass(frozen=True)
class InlineFunctions(Pass):
    """One case: a call of a model-local function is replaced by the function's nodes, with the attributes and
    operands of the call. Functions that it calls are inlined with it.

    Must not act on functions of the domain "workbench", nor if the function imports another version of a domain
    than the model.

    Source: ONNX's definition of model-local functions; onnx.inliner does the same.
    """

    title = "Inline functions of the model"

    def run(self, graph: Graph, context: PassContext, leave_out: Collection[str] = ()) -> Iterator[Rewrite]:
        return super().run(graph, context, leave_out) if graph.functions else iter(())

    rules = (
        Rule(
            "call",
            ("*",),
            match_call,
            Example(
                before="""<ir_version: 10, opset_import: ["": 23, "own": 1]>
                    g (float[N] x) => (float[N] y) {
                        a = own.leak<slope=0.5>(x)
                        y = Neg(a)
                    }
                    <domain: "own", opset_import: ["": 23]>
                    leak <slope> (z) => (r) {
                        t = LeakyRelu<alpha: float = @slope>(z)
                        r = Exp(t)
                    }""",
                after="""<ir_version: 10, opset_import: ["": 23, "own": 1]>
                    g (float[N] x) => (float[N] y) {
                        t = LeakyRelu<alpha=0.5>(x)
                        r = Exp(t)
                        y = Neg(r)
                    }""",
                sentences=("own.leak 'leak_a' calls a function of the model; replaced by its 2 nodes",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) { y = Neg(x) }",
                    "Neg 'Neg_y' is not a call of a model-local function",
                ),
                Refusal(
                    """<ir_version: 10, opset_import: ["": 23, "own": 1]>
                    g (float[N] x) => (float[N] y) { y = own.twice(x) }
                    <domain: "own", opset_import: ["": 18]>
                    twice (z) => (r) { r = Add(z, z) }""",
                    "own.twice 'twice_y' is written for version 18 of ONNX, the model imports another",
                ),
            ),
            may_match=_is_call,
            exactness=Exactness.BITS,
        ),
    )
