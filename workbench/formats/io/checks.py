"""Validation of a loaded model. Each error is one sentence; what can still be displayed is only a warning."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from workbench.analysis.inference.stand_ins import ONNX_RUNTIME
from workbench.formats.io.errors import LoadError
from workbench.formats.opsets.versions import OLDEST_OPSET
from workbench.ir.from_proto import bodies
from workbench.ir.versioned import opset_of_domain
from workbench.ops import contracts
from workbench.ops.channels_last import DOMAIN
from workbench.ops.declared import DeclaredOperator
from workbench.ops.npu import is_own

EARLY = {"LayerNormalization": 17}  # accepted by ONNX Runtime before the opset that introduced them
ONE_PROCESSOR = "com.microsoft.nchwc"
SHOWN_NOT_RUN = "the model can be shown, not run"
MAX_NODES = 1_000_000  # the most nodes of a function with all calls inlined, which shape inference visits
SCHEMA_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training")


def check_model(model: ModelProto) -> None:
    """Raise LoadError unless the model has a graph, a known opset, and values defined once, before their uses.

    Nodes that are out of order, without a cycle, are sorted topologically.
    """
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise LoadError("the file contains no graph; check that it is an ONNX model")
    broken = None if _is_text(model) else _broken_text(model)
    if broken is not None:
        raise LoadError(f"the file is damaged: the text {broken[:80]!r} in it is not UTF-8; export or copy it again")
    _check_opset(model)
    _check_graph(model.graph, model.graph.name, [i.name for i in model.graph.input], set())
    table = {(f.domain, f.name): f for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    for function in model.functions:
        _check_graph(function, function.name, list(function.input), set())
        if _expanded_size(function, table, (), sizes) > MAX_NODES:
            raise LoadError(f"function '{function.name}' expands to more than {MAX_NODES:,} nodes")


def _is_text(model: ModelProto) -> bool:
    """Whether every text is UTF-8, that is, whether a parser that checks it reads the model."""
    try:
        _strict_model().FromString(model.SerializeToString())
    except DecodeError:
        return False
    return True


@cache
def _strict_model() -> Any:
    """ModelProto of proto3, whose parser refuses other text; onnx uses proto2, whose parser does not."""
    file = FileDescriptorProto()
    onnx.onnx_ml_pb2.DESCRIPTOR.CopyToProto(file)
    file.syntax = "proto3"
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(ModelProto.DESCRIPTOR.full_name))


def _broken_text(message: Message) -> bytes | None:
    """The first text that is not UTF-8, which protobuf returns as bytes; None if there is none."""
    for field, value in message.ListFields():
        items = value if field.is_repeated else (value,)
        if field.type == FieldDescriptor.TYPE_STRING:
            result = next((item for item in items if isinstance(item, bytes)), None)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            result = next((text for text in map(_broken_text, items) if text is not None), None)
        else:
            continue
        if result is not None:
            return result
    return None


def opset_of(model: ModelProto | onnx.FunctionProto) -> int:
    """The version of ONNX's default domain that the model imports; 0 if it imports none."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)


def _check_opset(model: ModelProto) -> None:
    own = next((node for node in every_node(model) if opset_of_domain(node.domain) is not None), None)
    if own is not None:
        raise LoadError(
            f"{node_text(own)} is of the domain '{own.domain}', which stands for ONNX's of that opset in memory alone; "
            "export the model again"
        )
    version, newest = opset_of(model), onnx.defs.onnx_opset_version()
    if version == 0 and not any(node.domain in ("", "ai.onnx") for node in model.graph.node):
        return
    if version == 0:
        raise LoadError("the model does not import an opset; export it again with an opset import")
    if version < OLDEST_OPSET:
        raise LoadError(f"the model has opset {version}; opset {OLDEST_OPSET} to {newest} can be opened")
    if version > newest:
        raise LoadError(f"the model has opset {version}, newer than {newest}, the newest that can be opened")


def _check_graph(graph: GraphProto | onnx.FunctionProto, name: str, inputs: list[str], outside: set[str]) -> None:
    constants = {t.name for t in graph.initializer} if isinstance(graph, GraphProto) else set()
    outputs = [o if isinstance(o, str) else o.name for o in graph.output]
    duplicate = next((value for value, count in Counter(inputs).items() if count > 1), None)
    if duplicate is not None:
        raise LoadError(f"graph '{name}' has two inputs named '{duplicate}'")
    external_values, computed = constants | set(inputs), set[str]()
    for node in graph.node:
        for value in filter(None, node.output):
            if value in computed or value in external_values:
                raise LoadError(f"value '{value}' is defined twice, the second time by {node_text(node)}")
            computed.add(value)
    known = outside | external_values
    _sort_nodes(graph, name, known, computed)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.UNDEFINED:
                raise LoadError(f"attribute '{attribute.name}' of {node_text(node)} has no known type")
            for body in bodies(attribute):
                _check_graph(body, body.name, [i.name for i in body.input], set(known))
        known.update(node.output)
    for value in outputs:
        if value not in known:
            raise LoadError(f"output '{value}' of graph '{name}' is not defined")


def _sort_nodes(graph: GraphProto | onnx.FunctionProto, name: str, known: set[str], computed: Collection[str]) -> None:
    """Kahn's algorithm, only if some node uses a value defined later. computed: the values that the nodes define."""
    seen = set(known)
    is_sorted = True
    for node in graph.node:
        later = [value for value in reads(node) if value not in seen]
        for value in later:
            if value not in computed:
                raise LoadError(f"{node_text(node)} reads '{value}', which is not defined")
        is_sorted = is_sorted and not later
        seen.update(node.output)
    if is_sorted:
        return
    ordered = _sorted_nodes(list(graph.node), set(known), name)
    copies = [NodeProto.FromString(node.SerializeToString()) for node in ordered]
    del graph.node[:]
    graph.node.extend(copies)


def _sorted_nodes(nodes: Sequence[NodeProto], known: set[str], name: str) -> list[NodeProto]:
    """The nodes, each after those whose results it reads, as near to the original order as possible."""
    readers: dict[str, list[int]] = {}
    missing: list[int] = []
    for index, node in enumerate(nodes):
        undefined = {value for value in reads(node) if value not in known}
        missing.append(len(undefined))
        for value in undefined:
            readers.setdefault(value, []).append(index)
    ready = [index for index, count in enumerate(missing) if not count]
    ordered = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(nodes[index])
        for value in filter(None, nodes[index].output):
            for reader in readers.get(value, ()):
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(ready, reader)
    if len(ordered) < len(nodes):
        blocked = next(node for node, count in zip(nodes, missing, strict=True) if count)
        raise LoadError(f"graph '{name}' has a cycle through {node_text(blocked)}, so its nodes cannot be ordered")
    return ordered


def reads(node: NodeProto) -> Iterator[str]:
    """The values that a node uses, including those that its bodies capture."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for body in bodies(attribute):
            yield from _captured(body)


def _captured(body: GraphProto) -> Iterator[str]:
    defined = (
        {t.name for t in body.initializer} | {i.name for i in body.input} | {v for n in body.node for v in n.output}
    )
    yield from (v for node in body.node for v in reads(node) if v not in defined)
    yield from (o.name for o in body.output if o.name not in defined)


def _expanded_size(
    function: onnx.FunctionProto,
    table: Mapping[Any, onnx.FunctionProto],
    callers: tuple[Any, ...],
    sizes: dict[tuple[str, str], int],
) -> int:
    """The number of nodes of a call with all inner calls inlined. sizes: a cache by function."""
    key = (function.domain, function.name)
    if key in callers:
        raise LoadError(f"function '{function.name}' calls itself, which ONNX does not allow")
    if key not in sizes:
        called_functions = [table.get((node.domain, node.op_type)) for node in nodes_and_inner(function)]
        sizes[key] = sum(1 if f is None else _expanded_size(f, table, (*callers, key), sizes) for f in called_functions)
    return sizes[key]


def unknown_operators(
    model: ModelProto, nodes: Iterable[NodeProto], declared: Mapping[str, DeclaredOperator]
) -> list[str]:
    """A sentence for each operator that neither ONNX, a contract nor a function of the model defines.

    nodes: all nodes of the model. declared: by name, the operators that the user declares.
    """
    functions = {(f.domain, f.name) for f in model.functions}
    versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    known: set[tuple[str, str]] = set()
    results: dict[str, str] = {}
    for node in nodes:
        key = (node.domain, node.op_type)
        if key in known or key in functions:
            continue
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain == DOMAIN and is_own(node.op_type)) or is_early(node, versions.get("", 1)):
            continue
        known_domain = domain == "" or domain in SCHEMA_DOMAINS
        if known_domain and onnx.defs.has(node.op_type, max_inclusive_version=versions.get(domain, 1), domain=domain):
            known.add(key)
            continue
        op = f"{domain}.{node.op_type}" if domain else node.op_type
        if domain == ONNX_RUNTIME:
            if op not in contracts():
                results.setdefault(
                    op, f"operator '{op}' of {node_text(node)} belongs to ONNX Runtime; it is left unchanged"
                )
            continue
        if domain == ONE_PROCESSOR:
            results.setdefault(
                domain,
                f"operator '{op}' of {node_text(node)} is in ONNX Runtime's layout for the processor that saved the "
                "file; it is left unchanged, and its results have no types; save the model at the extended level, "
                "which has no such operators",
            )
            continue
        if op in declared:
            results.setdefault(
                op,
                f"{SHOWN_NOT_RUN}: operator '{op}' of {node_text(node)} is declared in '{declared[op].file.name}', and "
                "nothing here computes it",
            )
            continue
        results.setdefault(
            op,
            f"{SHOWN_NOT_RUN}: operator '{op}' of {node_text(node)} is unknown"
            + (f" in opset {versions.get(domain)}" if known_domain else f", and no function defines domain '{domain}'"),
        )
    return list(results.values())


def is_early(node: NodeProto, version: int) -> bool:
    """Whether ONNX Runtime accepts the operator at this opset, and ONNX only at a later one, in the same form."""
    if version >= EARLY.get(node.op_type, 0) or node.domain not in ("", "ai.onnx"):
        return False
    return len([value for value in node.output if value]) == 1


def every_node(model: ModelProto) -> Iterator[NodeProto]:
    """Every node, including those of bodies and functions."""
    for owner in (model.graph, *model.functions):
        yield from nodes_and_inner(owner)


def nodes_and_inner(owner: GraphProto | onnx.FunctionProto) -> Iterator[NodeProto]:
    """The nodes of a graph or function, each followed by those of its bodies."""
    for node in owner.node:
        yield node
        for attribute in node.attribute:
            for body in bodies(attribute):
                yield from nodes_and_inner(body)


def every_graph(model: ModelProto, nested: bool = True) -> Iterator[GraphProto]:
    """The main graph and every body, including those of functions. nested: False if no node has a body."""
    yield model.graph
    for owner in (model.graph, *model.functions) if nested else ():
        yield from _bodies(owner)


def _bodies(owner: GraphProto | onnx.FunctionProto) -> Iterator[GraphProto]:
    for node in owner.node:
        for attribute in node.attribute:
            for body in bodies(attribute):
                yield body
                yield from _bodies(body)


def every_tensor(model: ModelProto) -> Iterator[TensorProto]:
    """Every constant: initializers and tensors in attributes."""
    for owner in (model.graph, *model.functions):
        yield from _tensors(owner)


def _tensors(owner: GraphProto | onnx.FunctionProto) -> Iterator[TensorProto]:
    if isinstance(owner, GraphProto):
        yield from owner.initializer
    for node in owner.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for body in bodies(attribute):
                yield from _tensors(body)


def onnx_domain(domain: str) -> str:
    """The domain as imports compare it."""
    return "" if domain == "ai.onnx" else domain


def node_text(node: NodeProto) -> str:
    return (
        f"node '{node.name}' ({node.op_type})" if node.name else f"a {node.op_type} that computes {list(node.output)}"
    )
