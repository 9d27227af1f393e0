"""Replace calls of model-local functions by their bodies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import Function, Graph, Node
from workbench.ir.function_calls import body_of_call, function_key, inlined_body, operands_of_call
from workbench.rewrite import Exactness, Example, NoMatch, Pass, PassContext, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.inlining import inlined_call
from workbench.rewrite.core.exclusion import NOTHING_EXCLUDED, ExcludedRewrites

_WORKBENCH_DOMAIN = "workbench"  # this project's domain; its operators are functions, which run faster as a whole here


def match_call(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    function = graph.functions.get(function_key(node))
    if function is None:
        raise NoMatch(f"{node} is not a call of a model-local function")
    if node.domain == _WORKBENCH_DOMAIN:
        raise NoMatch(f"{node} is an operator of domain '{_WORKBENCH_DOMAIN}', which runs faster than its body")
    other = _other_version(graph, function)
    if other is not None:
        raise NoMatch(f"{node} is written for version {other[1]} of {other[0] or 'ONNX'}, the model imports another")

    def stays(call: Node, called: Function) -> bool:
        return call.domain == _WORKBENCH_DOMAIN or _other_version(graph, called) is not None

    body = body_of_call(inlined_body(graph.functions, function, {}, stays), function, node)
    edit = inlined_call(graph, node, body, operands_of_call(function, node))
    return Rewrite(edit, f"{node} calls a function of the model; replaced by its {len(body):,} nodes", (node.name,))


def _is_call(graph: Graph, node: Node) -> bool:
    return function_key(node) in graph.functions


def _other_version(graph: Graph, function: Function) -> tuple[str, int] | None:
    """A domain of which the model imports another version than the function, and the function's version."""
    for domain, version in function.graph.opset_imports.items():
        if graph.opset_imports.get(domain, version if domain == function.domain else None) != version:
            return domain, version
    return None


@dataclass(frozen=True)
class InlineFunctions(Pass):
    """One case: a call of a model-local function is replaced by the function's nodes, with the attributes and
    operands of the call. Functions that it calls are inlined with it.

    Does not apply to functions of the domain "workbench", nor if the function imports another version of a domain
    than the model.

    Source: ONNX's definition of model-local functions; onnx.inliner does the same.
    """

    title = "Inline functions of the model"

    def run(
        self, graph: Graph, context: PassContext, exclude: ExcludedRewrites = NOTHING_EXCLUDED
    ) -> Iterator[Rewrite]:
        return super().run(graph, context, exclude) if graph.functions else iter(())

    rules = (
        Rule(
            "call",
            ("*",),
            match_call,
            Example(
                before="""<ir_version: 10, opset_import: ["": 23, "local": 1]>
                    g (float[N] x) => (float[N] y) {
                        a = local.leak<slope=0.5>(x)
                        y = Neg(a)
                    }
                    <domain: "local", opset_import: ["": 23]>
                    leak <slope> (z) => (r) {
                        t = LeakyRelu<alpha: float = @slope>(z)
                        r = Exp(t)
                    }""",
                after="""<ir_version: 10, opset_import: ["": 23, "local": 1]>
                    g (float[N] x) => (float[N] y) {
                        t = LeakyRelu<alpha=0.5>(x)
                        r = Exp(t)
                        y = Neg(r)
                    }""",
                sentences=("local.leak 'leak_a' calls a function of the model; replaced by its 2 nodes",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) { y = Neg(x) }",
                    "Neg 'Neg_y' is not a call of a model-local function",
                ),
                Refusal(
                    """<ir_version: 10, opset_import: ["": 23, "local": 1]>
                    g (float[N] x) => (float[N] y) { y = local.twice(x) }
                    <domain: "local", opset_import: ["": 18]>
                    twice (z) => (r) { r = Add(z, z) }""",
                    "local.twice 'twice_y' is written for version 18 of ONNX, the model imports another",
                ),
            ),
            may_match=_is_call,
            exactness=Exactness.BIT_EXACT,
        ),
    )
