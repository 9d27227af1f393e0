"""Functions of the domain "workbench" in a file: known at every opset, they are not converted to one.

One that has the name of an operator of ours and computes by other operators is not ours. It gets another domain, and is
a function of the model like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from onnx import FunctionProto, ModelProto, NodeProto

from workbench.formats.io.checks import opset_of
from workbench.formats.opsets.lowering import NotWritable, lowered_to
from workbench.ir import Graph, Node
from workbench.ir.text import OPSET
from workbench.ir.to_proto import function_proto
from workbench.ops.channels_last import DOMAIN
from workbench.ops.own_functions import is_own_function, own_definition, own_variant, plain_name

OF_FILE = f"{DOMAIN}.of_file"  # the domain of functions that only have the name of one of ours
# Operators on shapes and types, which differ between opsets, and between versions of this program.
_PLUMBING = {"Cast", "CastLike", "Concat", "Constant", "Gather", "Identity", "Reshape", "Shape", "Slice"}
_PLUMBING |= {"Squeeze", "Unsqueeze"}


def take_own_bodies(model: ModelProto, nodes: Iterable[NodeProto]) -> list[FunctionProto]:
    """Remove the functions of ours from the model, and return them. nodes: all nodes of the model."""
    if not any(is_own_function(function.domain, function.name) for function in model.functions):
        return []
    _rename_foreign(model, nodes)
    copies = ModelProto(functions=model.functions).functions
    own = [function for function in copies if is_own_function(function.domain, function.name)]
    del model.functions[:]
    model.functions.extend(function for function in copies if not is_own_function(function.domain, function.name))
    return own


def add_own_bodies(model: ModelProto, functions: Sequence[FunctionProto], opset: int) -> None:
    """Add the functions, as they are for type inference at the model's opset."""
    for function in functions:
        variant = own_variant(function.name, _attributes(function), len(function.input), opset)
        model.functions.append(function_proto(variant))


def _attributes(function: FunctionProto) -> tuple[str, ...]:
    return (*function.attribute, *(default.name for default in function.attribute_proto))


def _rename_foreign(model: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Move functions that only have the name of one of ours, and those that call them, to a domain of their own."""
    named = {f.name: f for f in model.functions if is_own_function(f.domain, f.name)}
    foreign = {name for name, function in named.items() if not _computes_as_ours(function, opset_of(model))}
    while callers := {
        name
        for name, function in named.items()
        if name not in foreign and any(n.domain == DOMAIN and n.op_type in foreign for n in function.node)
    }:
        foreign |= callers
    if not foreign:
        return
    for node in nodes:
        if node.domain == DOMAIN and node.op_type in foreign:
            node.domain = OF_FILE
    for name in foreign:
        named[name].domain = OF_FILE
    for message in (model, *model.functions):
        message.opset_import.add(domain=OF_FILE, version=1)


def _computes_as_ours(function: FunctionProto, opset: int) -> bool:
    """Whether the function has the operators of ours of this name at that opset."""
    ours = own_definition(function.name, _attributes(function), len(function.input))
    try:
        written = lowered_to(Graph(functions={ours.key: ours}, opset_imports={"": OPSET}), opset)
    except NotWritable:
        return False
    return _operators(function.node) == _operators(written.functions[ours.key].graph.nodes)


def _operators(nodes: Iterable[NodeProto | Node]) -> Counter[tuple[str, str]]:
    """How many of each operator compute; functions of ours by their plain names."""
    called = ((node.domain.removeprefix("ai.onnx"), plain_name(node.op_type)) for node in nodes)
    return Counter((domain, op_type) for domain, op_type in called if op_type not in _PLUMBING)
