"""Put a part that was extracted from a model and changed back into the model, in place of the region."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from workbench.evidence.reduction.regions import Region, RegionError, Whole
from workbench.formats.io.checks import check_model, every_node, every_tensor, opset_of, reads
from workbench.formats.io.errors import LoadError
from workbench.formats.io.opset import at_opset
from workbench.formats.io.proto_file import ProtoFile, known_types
from workbench.formats.io.value_types import check_types
from workbench.ir import Constant, TensorType
from workbench.ir.from_proto import bodies, value_type

_PART_PREFIX = "<part>"  # begins the locations of weights that are in the part's file


def with_part(whole: ProtoFile, part: ProtoFile, find: Callable[[Whole], Region]) -> ProtoFile:
    """The whole with the part in place of the region that `find` gives.

    Nodes of the region stay if others read more of them than the region's outputs. The older of the two files is
    converted to the opset of the newer. Values, nodes and weights of the part get new names where theirs are taken.
    Raises RegionError if the part does not fit.
    """
    whole, part = _at_one_opset(whole, part)
    source = Whole(whole)
    region = find(source)
    _require_same_interface(source, region, part.model)
    model = ModelProto()
    model.CopyFrom(whole.model)
    del model.graph.node[:]
    model.graph.node.extend(_nodes_without(source, region))
    _drop_unread(model)
    boundary = source.boundary(region)
    inner = _renamed(part.model, _names_of(model), {*boundary, *region.outputs})
    others = list(model.graph.node)
    position = max(
        (index + 1 for index, node in enumerate(others) if not set(boundary).isdisjoint(node.output)), default=0
    )
    nodes = [
        NodeProto.FromString(n.SerializeToString()) for n in (*others[:position], *inner.graph.node, *others[position:])
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(inner.graph.initializer)
    model.ir_version = max(model.ir_version, inner.ir_version)
    _add_imports(model, inner)
    _add_functions(model, inner.functions)
    try:
        check_model(model)  # it also sorts nodes: one that reads a result of the part may come before it
    except LoadError as error:
        raise RegionError(f"the part cannot be put back: {error}") from None
    return ProtoFile(model, _reader_of_both(whole, part), (*whole.sparse, *part.sparse))


def _at_one_opset(whole: ProtoFile, part: ProtoFile) -> tuple[ProtoFile, ProtoFile]:
    """Both files, the older one converted to the opset of the newer. Raises RegionError if it cannot be."""
    whole_opset, part_opset = opset_of(whole.model), opset_of(part.model)
    if whole_opset == part_opset or not whole_opset or not part_opset:
        return whole, part
    older, target = (whole, part_opset) if whole_opset < part_opset else (part, whole_opset)
    try:
        nodes = list(every_node(older.model))
        converted = ProtoFile(
            at_opset(older.model, nodes, target, check_types(older.model, nodes)), older.read_weight, older.sparse
        )
    except LoadError as error:
        name = "model" if older is whole else "part"
        raise RegionError(
            f"the model has opset {whole_opset}, the part of {part_opset}, and the {name} cannot be "
            f"converted to {target}: {error}"
        ) from None
    return (converted, part) if older is whole else (whole, converted)


def _require_same_interface(whole: Whole, region: Region, part: ModelProto) -> None:
    """Raise RegionError unless the part's inputs and outputs are those of the region, with their element types."""
    constants = {tensor.name for tensor in part.graph.initializer}
    inputs = [info.name for info in part.graph.input if info.name not in constants]
    outputs = [info.name for info in part.graph.output]
    sides = (("input", inputs, whole.boundary(region)), ("output", outputs, region.outputs))
    for kind, part_names, region_names in sides:
        surplus = next((name for name in part_names if name not in region_names), None)
        if surplus is not None:
            listed = ", ".join(f"'{name}'" for name in region_names)
            raise RegionError(f"the part has an {kind} '{surplus}', which the region does not have; it has {listed}")
    missing = next((name for name in region.outputs if name not in outputs), None)
    if missing is not None:
        raise RegionError(f"the part has no output '{missing}', which the region has")
    types = known_types(part)
    for name in (*inputs, *outputs):
        a, b = (value_type(table.get(name, TypeProto())) for table in (whole.types, types))
        if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype != b.dtype:
            raise RegionError(f"'{name}' is {a.dtype.name.lower()} in the model and {b.dtype.name.lower()} in the part")


def _nodes_without(whole: Whole, region: Region) -> list[NodeProto]:
    """The nodes outside the region, and nodes of the region that these need.

    Results of the latter that are outputs of the region get other names.
    """
    inside, outputs = set(region.nodes), set(region.outputs)
    needed = set(whole.outputs) - outputs
    nodes = []
    for index in reversed(range(len(whole.nodes))):
        node = whole.nodes[index]
        if index in inside and needed.isdisjoint(node.output):
            continue
        needed.update(value for value in whole.operands[index] if value not in outputs)
        copy = NodeProto()
        copy.CopyFrom(node)
        for position, value in enumerate(copy.output):
            if value in outputs:
                copy.output[position] = _free_name(f"{value}_before", whole.producers)
        nodes.append(copy)
    return nodes[::-1]


def _drop_unread(model: ModelProto) -> None:
    """Drop weights that no node reads any more, and declared types of values that no node computes any more."""
    graph = model.graph
    read = {value for node in graph.node for value in reads(node)} | {output.name for output in graph.output}
    computed = {value for node in graph.node for value in node.output}
    unread = {tensor.name for tensor in graph.initializer} - read
    for field, removed in (
        (graph.initializer, unread),
        (graph.input, unread),
        (graph.value_info, {info.name for info in graph.value_info} - computed),
    ):
        remaining = [entry for entry in field if entry.name not in removed]
        del field[:]
        field.extend(remaining)


# ---- names -------------------------------------------------------------------------------------


def _renamed(part: ModelProto, taken: set[str], shared: Collection[str]) -> ModelProto:
    """A copy of the part with new names for values and nodes whose names are taken, except shared values.

    Locations of its external weights get the prefix of the part.
    """
    copy = ModelProto()
    copy.CopyFrom(part)
    names: dict[str, str] = {}
    for value in _defined(copy.graph):
        if value not in shared and value in taken:
            names[value] = _free_name(value, {*taken, *names.values(), *_defined(copy.graph)})
    _rename_graph(copy.graph, names)
    for node in copy.graph.node:
        if node.name and node.name in taken:
            node.name = _free_name(node.name, taken)
        taken.add(node.name)
    for tensor in every_tensor(copy):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = _PART_PREFIX + entry.value
    return copy


def _free_name(name: str, taken: Collection[str]) -> str:
    """`name_1`, or the next number that is not taken."""
    return next(free for count in itertools.count(1) if (free := f"{name}_{count}") not in taken)


def _names_of(model: ModelProto) -> set[str]:
    """The names of all values and nodes."""
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
            for position, value in enumerate(operands):
                operands[position] = names.get(value, value)
        for body in _bodies(node):
            _rename_graph(body, names)


# ---- imports, functions, weights -----------------------------------------------------------------


def _add_imports(model: ModelProto, part: ModelProto) -> None:
    versions = {_domain(entry.domain): entry.version for entry in model.opset_import}
    for entry in part.opset_import:
        domain = _domain(entry.domain)
        if versions.setdefault(domain, entry.version) != entry.version:
            raise RegionError(
                f"the model imports version {versions[domain]} of '{domain or 'ai.onnx'}' and the part "
                f"{entry.version}; convert both to one version"
            )
    del model.opset_import[:]
    for domain, version in versions.items():
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


def _reader_of_both(whole: ProtoFile, part: ProtoFile) -> Callable[[TensorProto], Constant]:
    """Reads external weights of the part from its file, and all others from the file of the whole."""

    def read(tensor: TensorProto) -> Constant:
        if not any(entry.value.startswith(_PART_PREFIX) for entry in tensor.external_data):
            return whole.read_weight(tensor)
        unprefixed = TensorProto()
        unprefixed.CopyFrom(tensor)
        for entry in unprefixed.external_data:
            entry.value = entry.value.removeprefix(_PART_PREFIX)
        return part.read_weight(unprefixed)

    return read
