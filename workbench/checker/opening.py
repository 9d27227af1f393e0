"""Puts the nodes of functions in place of their calls, so that no function hides what it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto

from workbench.checker.inference import bodies_of, called_operator, expands_too_far, nodes_within
from workbench.checker.outcome import Unreadable, in_quotes
from workbench.checker.plain import FunctionKey


@dataclass(frozen=True)
class OpenedNodes:
    """nodes: of the main graph. call_of: for each value that a call computed, itself or within, a number of that call
    of the main graph. A value within has the same name, whichever functions are kept."""

    nodes: list[NodeProto] = field(default_factory=list)
    call_of: dict[str, int] = field(default_factory=dict)


def opened(model: ModelProto, kept: Collection[FunctionKey] = ()) -> OpenedNodes:
    """The nodes of the main graph with every call of a function opened, at any depth, but those of `kept`.

    Raises Unreadable if there would be too many, or if a function has another opset than the model, whose operators
    then mean something else.
    """
    if expands_too_far(model):
        raise Unreadable("expanding its functions adds too many nodes")
    opening = _Opening(model, kept)
    result = OpenedNodes()
    for number, node in enumerate(model.graph.node):
        nodes = list(opening.nodes(node))
        result.nodes.extend(nodes)
        if called_operator(node) in opening.functions:
            result.call_of.update((value, number) for inner in nodes for value in inner.output if value)
    return result


class _Opening:
    def __init__(self, model: ModelProto, kept: Collection[FunctionKey]) -> None:
        self.opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
        functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.functions = {key: function for key, function in functions.items() if key not in kept}
        self._without_results = 0
        self._inside = _unused_prefix(model)

    def nodes(self, node: NodeProto) -> Iterator[NodeProto]:
        """The node with the calls in its bodies opened, or if it is a call itself, what it calls."""
        function = self.functions.get(called_operator(node))
        if function is None:
            yield self._with_open_bodies(node)
            return
        for inner in self._body(function, node):
            yield from self.nodes(inner)

    def _with_open_bodies(self, node: NodeProto) -> NodeProto:
        result = NodeProto()
        result.CopyFrom(node)
        for _, body in bodies_of(result):
            inside = [inner for call in body.node for inner in self.nodes(call)]
            del body.node[:]
            body.node.extend(inside)
        return result

    def _body(self, function: FunctionProto, call: NodeProto) -> Iterator[NodeProto]:
        """The nodes of a function with the operands, results and attributes of a call."""
        for entry in function.opset_import:
            domain = entry.domain or "ai.onnx"
            if self.opsets.get(domain, 0 if domain == "ai.onnx" else entry.version) != entry.version:
                raise Unreadable(f"the function {in_quotes(function.name)} has another opset than its model")
        prefix = self._prefix(call)
        inside = list(nodes_within(function))
        own = {value for node in inside for value in node.output if value}
        own.update(v.name for node in inside for _, body in bodies_of(node) for v in (*body.input, *body.initializer))
        names = {value: f"{prefix}{value}" for value in own}
        names |= dict.fromkeys(function.input, "") | dict(zip(function.input, call.input, strict=False))
        again = []  # results that the body does not compute under a name of their own
        for formal, result in zip(function.output, call.output, strict=False):
            if result and (formal in function.input or names.get(formal) in call.output):
                again.append((formal, result))
            elif result:
                names[formal] = result
        attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
        for node in function.node:
            yield _with(node, names, attributes)
        for formal, result in again:
            yield NodeProto(op_type="Identity", input=[names[formal]], output=[result])

    def _prefix(self, call: NodeProto) -> str:
        """What the names within a call begin with: its first result, which no other has, with its length."""
        result = next(filter(None, call.output), "")
        self._without_results += not result
        return f"{self._inside}{len(result)} {result or self._without_results}:"


def _with(node: NodeProto, names: Mapping[str, str], attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """A copy of a node of a function, with names of values and attributes of the call, in its bodies too."""
    result = NodeProto()
    result.CopyFrom(node)
    result.input[:] = [names.get(value, value) for value in node.input]
    result.output[:] = [names.get(value, value) for value in node.output]
    del result.attribute[:]
    for attribute in node.attribute:
        given = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if given is None:  # an attribute that the call omits
            continue
        copy = result.attribute.add()
        copy.CopyFrom(given)
        copy.name = attribute.name
    for _, body in bodies_of(result):
        inside = [_with(inner, names, attributes) for inner in body.node]
        del body.node[:]
        body.node.extend(inside)
        for value in (*body.input, *body.initializer, *body.output):
            value.name = names.get(value.name, value.name)
    return result


def _unused_prefix(model: ModelProto) -> str:
    """What no name of a value in the main graph and its bodies begins with."""
    graphs = [model.graph, *(body for node in nodes_within(model.graph) for _, body in bodies_of(node))]
    names = {value.name for graph in graphs for value in (*graph.input, *graph.initializer)}
    names.update(value for graph in graphs for node in graph.node for value in (*node.input, *node.output))
    prefix = "inside "
    while any(name.startswith(prefix) for name in names):
        prefix += "."
    return prefix
