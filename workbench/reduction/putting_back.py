"""A model in place of the region of another, from which it was extracted and then changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from workbench.io.checks import check_model, check_types, every_node, every_tensor, opset_of, reads
from workbench.io.errors import LoadError
from workbench.io.opset import at_opset
from workbench.io.proto_file import ProtoFile, declared_types
from workbench.ir import Constant, TensorType
from workbench.ir.from_proto import bodies, value_type
from workbench.reduction.regions import Region, RegionError, Whole

_OF_PART = "<part>"  # before the location of a weight that the part's file holds


def with_part(whole: ProtoFile, part: ProtoFile, find: Callable[[Whole], Region]) -> ProtoFile:
    """The whole with the part in place of the region that `find` gives.

    Nodes of the region stay if others read more of them than the region's outputs. The older of both is brought to the
    opset of the newer. Values, nodes and weights of the part whose names are taken get others. Raises RegionError if
    the part does not fit.
    """
    whole, part = _at_one_opset(whole, part)
    source = Whole(whole)
    region = find(source)
    _require_same_interface(source, region, part.model)
    model = ModelProto()
    model.CopyFrom(whole.model)
    del model.graph.node[:]
    model.graph.node.extend(_kept_nodes(source, region))
    _drop_unread(model)
    boundary = source.boundary(region)
    inner = _renamed(part.model, _names_of(model), {*boundary, *region.outputs})
    kept = list(model.graph.node)
    at = max((place + 1 for place, node in enumerate(kept) if not set(boundary).isdisjoint(node.output)), default=0)
    nodes = [NodeProto.FromString(n.SerializeToString()) for n in (*kept[:at], *inner.graph.node, *kept[at:])]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(inner.graph.initializer)
    model.ir_version = max(model.ir_version, inner.ir_version)
    _add_imports(model, inner)
    _add_functions(model, inner.functions)
    try:
        check_model(model)  # it sorts the nodes if others read results of the part before all that it reads is there
    except LoadError as error:
        raise RegionError(f"the part cannot be put back: {error}") from None
    return ProtoFile(model, _reading_both(whole, part))


def _at_one_opset(whole: ProtoFile, part: ProtoFile) -> tuple[ProtoFile, ProtoFile]:
    ours, theirs = opset_of(whole.model), opset_of(part.model)
    if ours == theirs or not ours or not theirs:
        return whole, part
    older, target = (whole, theirs) if ours < theirs else (part, ours)
    try:
        nodes = list(every_node(older.model))
        brought = ProtoFile(at_opset(older.model, nodes, target, check_types(older.model, nodes)), older.read)
    except LoadError as error:
        name = "model" if older is whole else "part"
        raise RegionError(
            f"the model is of opset {ours}, the part of {theirs}, and the {name} cannot be brought to {target}: {error}"
        ) from None
    return (brought, part) if older is whole else (whole, brought)


def _require_same_interface(whole: Whole, region: Region, part: ModelProto) -> None:
    constants = {tensor.name for tensor in part.graph.initializer}
    inputs = [info.name for info in part.graph.input if info.name not in constants]
    outputs = [info.name for info in part.graph.output]
    sides = (("input", inputs, whole.boundary(region)), ("output", outputs, region.outputs))
    for what, theirs, ours in sides:
        surplus = next((name for name in theirs if name not in ours), None)
        if surplus is not None:
            listed = ", ".join(f"'{name}'" for name in ours)
            raise RegionError(f"the part has an {what} '{surplus}' that the region has not; the region's are {listed}")
    missing = next((name for name in region.outputs if name not in outputs), None)
    if missing is not None:
        raise RegionError(f"the part has no output '{missing}', which the region has")
    types = declared_types(part)
    for name in (*inputs, *outputs):
        a, b = (value_type(result.get(name, TypeProto())) for result in (whole.types, types))
        if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype != b.dtype:
            raise RegionError(f"'{name}' is {a.dtype.name.lower()} in the model and {b.dtype.name.lower()} in the part")


def _kept_nodes(whole: Whole, region: Region) -> list[NodeProto]:
    """The nodes outside, and those of the region that they read; these compute the region's outputs no more."""
    inside, ends = set(region.nodes), set(region.outputs)
    wanted = set(whole.outputs) - ends
    kept = []
    for place in reversed(range(len(whole.nodes))):
        node = whole.nodes[place]
        if place in inside and wanted.isdisjoint(node.output):
            continue
        wanted.update(value for value in whole.operands[place] if value not in ends)
        copy = NodeProto()
        copy.CopyFrom(node)
        for at, value in enumerate(copy.output):
            if value in ends:
                copy.output[at] = _free(f"{value}_before", whole.made_by)
        kept.append(copy)
    return kept[::-1]


def _drop_unread(model: ModelProto) -> None:
    """Drop weights that no node reads any more, and declared types of values that are gone."""
    graph = model.graph
    read = {value for node in graph.node for value in reads(node)} | {output.name for output in graph.output}
    made = {value for node in graph.node for value in node.output}
    unread = {tensor.name for tensor in graph.initializer} - read
    for field, removed in (
        (graph.initializer, unread),
        (graph.input, unread),
        (graph.value_info, {info.name for info in graph.value_info} - made),
    ):
        kept = [entry for entry in field if entry.name not in removed]
        del field[:]
        field.extend(kept)


# ---- names -------------------------------------------------------------------------------------


def _renamed(part: ModelProto, taken: set[str], shared: Collection[str]) -> ModelProto:
    """A copy of the part in which all but the shared values have names that are not taken, in bodies too."""
    copy = ModelProto()
    copy.CopyFrom(part)
    names: dict[str, str] = {}
    for value in _defined(copy.graph):
        if value not in shared and value in taken:
            names[value] = _free(value, {*taken, *names.values(), *_defined(copy.graph)})
    _rename_graph(copy.graph, names)
    for node in copy.graph.node:
        if node.name and node.name in taken:
            node.name = _free(node.name, taken)
        taken.add(node.name)
    for tensor in every_tensor(copy):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = _OF_PART + entry.value
    return copy


def _free(name: str, taken: Collection[str]) -> str:
    return next(result for count in itertools.count(1) if (result := f"{name}_{count}") not in taken)


def _names_of(model: ModelProto) -> set[str]:
    """Of all values and nodes."""
    nodes = {node.name for node in model.graph.node}
    return {*_defined(model.graph), *(info.name for info in model.graph.output), *nodes}


def _defined(graph: GraphProto) -> Iterator[str]:
    """The values that the graph or a body in it defines."""
    yield from (info.name for info in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from filter(None, node.output)
        for body in _bodies(node):
            yield from _defined(body)


def _bodies(node: NodeProto) -> Iterator[GraphProto]:
    return (body for attribute in node.attribute for body in bodies(attribute))


def _rename_graph(graph: GraphProto, names: Mapping[str, str]) -> None:
    for entry in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        entry.name = names.get(entry.name, entry.name)
    for node in graph.node:
        for operands in (node.input, node.output):
            for at, value in enumerate(operands):
                operands[at] = names.get(value, value)
        for body in _bodies(node):
            _rename_graph(body, names)


# ---- what stands beside the graph ----------------------------------------------------------------


def _add_imports(model: ModelProto, part: ModelProto) -> None:
    ours = {_domain(entry.domain): entry.version for entry in model.opset_import}
    for entry in part.opset_import:
        domain = _domain(entry.domain)
        if ours.setdefault(domain, entry.version) != entry.version:
            raise RegionError(
                f"the model imports version {ours[domain]} of '{domain or 'ai.onnx'}' and the part {entry.version}; "
                "bring both to one"
            )
    del model.opset_import[:]
    for domain, version in ours.items():
        model.opset_import.add(domain=domain, version=version)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _add_functions(model: ModelProto, functions: Iterable[FunctionProto]) -> None:
    table = {(f.domain, f.name, f.overload): f for f in model.functions}
    for function in functions:
        same = table.get((function.domain, function.name, function.overload))
        if same is None:
            model.functions.append(function)
        elif same != function:
            raise RegionError(
                f"the model and the part have different functions '{function.domain}.{function.name}'; rename one"
            )


def _reading_both(whole: ProtoFile, part: ProtoFile) -> Callable[[TensorProto], Constant]:
    def read(tensor: TensorProto) -> Constant:
        if not any(entry.value.startswith(_OF_PART) for entry in tensor.external_data):
            return whole.read(tensor)
        own = TensorProto()
        own.CopyFrom(tensor)
        for entry in own.external_data:
            entry.value = entry.value.removeprefix(_OF_PART)
        return part.read(own)

    return read
