"""Types and shapes of a file's values, inferred by onnx from its nodes, inputs and constants alone.

Declared types of inner values and outputs are removed first; they are only compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx.external_data_helper import load_external_data_for_tensor

from workbench.checker.folding import fold_arithmetic, small_constants
from workbench.checker.outcome import Unreadable, in_quotes
from workbench.checker.plain import PlainModel
from workbench.checker.tensors import ELEMENT_BITS
from workbench.checker.types import PlainType, declared_type, sizes_of, symbol_of, with_numbers

MAX_EXPANDED = 50_000  # nodes that expanding all functions adds
_ROUNDS, _VISITS = 30, 400_000  # rounds of shape arithmetic, each of which may find sizes on which others depend: at
# least so many, and more while all of them visit fewer nodes
_INFERRED_SIZE = "workbench.checker: the size that follows from the others"
_SMALL = 4_096  # elements of a constant that inference may read


@dataclass(frozen=True)
class Inferred:
    """types: by value of the main graph, with numbers for symbols. proto: the message with all inferred types.

    why: if nothing could be inferred, the reason as a phrase.
    """

    types: Mapping[str, PlainType] = field(default_factory=dict)
    proto: ModelProto = field(default_factory=ModelProto)
    why: str = ""

    def shape(self, value: str) -> tuple[int, ...] | None:
        return sizes_of(self.types.get(value))

    def element_bits(self, value: str) -> int | None:
        type_ = self.types.get(value)
        return None if type_ is None else ELEMENT_BITS.get(type_[0])

    def bytes(self, value: str) -> int | None:
        return size_in_bytes(self.types.get(value))


def size_in_bytes(type_: PlainType) -> int | None:
    """The bytes of a value of the type; None if they are not known, or not fixed."""
    shape = sizes_of(type_)
    if shape is None or type_[0] not in ELEMENT_BITS:
        return None
    bits: int = ELEMENT_BITS[type_[0]]
    for size in shape:
        bits *= size
    return (bits + 7) // 8


def inferred(model: PlainModel, dims: Mapping[str, int], nodes: Sequence[NodeProto] | None = None) -> Inferred:
    """Infers types and shapes. dims: numbers for symbols. nodes: those of the main graph, if not as in the file."""
    why = _refusal(model.proto)
    if why:
        return Inferred(why=why)
    prepared = _prepared(model, dims, model.proto.graph.node if nodes is None else nodes)
    try:
        result = onnx.shape_inference.infer_shapes(prepared, data_prop=True)
        for _ in range(max(_ROUNDS, _VISITS // max(len(prepared.graph.node), 1))):
            types = types_in(result.graph, dims)
            if _all_known(result.graph, types) or not fold_arithmetic(prepared, types):
                break
            result = onnx.shape_inference.infer_shapes(prepared, data_prop=True)
    except Exception as error:  # of many classes, from onnx's C++
        return Inferred(why=f"onnx's shape inference says: {' '.join(str(error).split())[:160]}")
    return Inferred(types_in(result.graph, dims), result)


def _all_known(graph: GraphProto, types: Mapping[str, PlainType]) -> bool:
    return all(sizes_of(types.get(value)) is not None for node in graph.node for value in node.output if value)


def types_in(graph: GraphProto, dims: Mapping[str, int]) -> dict[str, PlainType]:
    """The types of one graph's values, without those of its bodies. dims: numbers for symbols.

    An input may be an output too, whose declared type was removed.
    """
    values = (*graph.value_info, *graph.output, *graph.input)
    results = {value.name: with_numbers(declared_type(value), dims) for value in values}
    return results | {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}


def bodies_of(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The bodies of a node, each with the name of its attribute."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        yield from ((f"{attribute.name}[{i}]", body) for i, body in enumerate(attribute.graphs))


def nodes_within(graph: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of all bodies in it."""
    waiting = [graph]
    while waiting:
        for node in waiting.pop().node:
            yield node
            waiting += [body for _, body in bodies_of(node)]


def read_in_bodies(node: NodeProto) -> set[str]:
    """The values of the graphs around that the bodies of a node read."""
    result: set[str] = set()
    for _, body in bodies_of(node):
        own = {value.name for value in (*body.input, *body.initializer)}
        own.update(value for inner in body.node for value in inner.output)
        read = {value.name for value in body.output}
        read.update(*(inner.input for inner in body.node), *(read_in_bodies(inner) for inner in body.node))
        result |= read - own
    return result - {""}


def called_operator(node: NodeProto) -> tuple[str, str, str]:
    """Domain, name and overload of the function that a node calls, if there is one."""
    return (_domain(node.domain), node.op_type, node.overload)


def expanded_nodes(model: ModelProto) -> int:
    """The number of nodes with all calls of functions expanded. Raises Unreadable if a function calls itself."""
    functions = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}
    known: dict[tuple[str, str, str], int | None] = {}

    def of(graph: GraphProto | FunctionProto) -> int:
        return sum(1 + called(called_operator(node)) for node in nodes_within(graph))

    def called(key: tuple[str, str, str]) -> int:
        if key not in functions:
            return 0
        if key not in known:
            known[key] = None
            known[key] = of(functions[key])
        count = known[key]
        if count is None:
            raise Unreadable(f"the function {in_quotes('.'.join(filter(None, key)))} calls itself")
        return count

    return of(model.graph)


def expands_too_far(model: ModelProto) -> bool:
    """Whether expanding all functions adds too many nodes."""
    graphs = (model.graph, *model.functions)
    return expanded_nodes(model) > MAX_EXPANDED + sum(1 for graph in graphs for _ in nodes_within(graph))


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _refusal(model: ModelProto) -> str:
    """Why inference would not end, or would crash the process (onnx 1.23: EyeLike, LabelEncoder, Split, GatherND)."""
    if expands_too_far(model):
        return f"expanding its functions adds more than {MAX_EXPANDED:,} nodes"
    for node in (n for graph in (model.graph, *model.functions) for n in nodes_within(graph)):
        if _INFERRED_SIZE in (*node.input, *node.output):
            return f"{in_quotes(_INFERRED_SIZE)} is a name of the checker's own"
        if not (node.input and node.input[0]) and _needs_first(node):
            return f"a {in_quotes(node.op_type)} has no first operand"
        numbers = {attribute.name: attribute.i for attribute in node.attribute}
        if node.op_type == "Split" and numbers.get("num_outputs", len(node.output)) != len(node.output):
            return "a Split has another number of results than its num_outputs"
        if node.op_type == "GatherND" and numbers.get("batch_dims", 0) < 0:
            return "a GatherND has a negative number of batch dims"
    return ""


def _needs_first(node: NodeProto) -> bool:
    domain = _domain(node.domain)
    if not onnx.defs.has(node.op_type, domain=domain):
        return False
    inputs = onnx.defs.get_schema(node.op_type, domain=domain).inputs
    return bool(inputs) and inputs[0].option == onnx.defs.OpSchema.FormalParameterOption.Single


def _prepared(model: PlainModel, dims: Mapping[str, int], nodes: Iterable[NodeProto]) -> ModelProto:
    """A copy without declared types and names of nodes, with numbers for symbols. Large constants are inputs of their
    type, and so are constants in place of which a caller may give something else."""
    result = ModelProto()
    unread = [t for t in model.proto.graph.initializer if _elements(t) > _SMALL or t.name in model.overridable]
    for name in ("ir_version", "opset_import", "functions"):
        _copy_field(model.proto, result, name)
    unread_names = {tensor.name for tensor in unread}
    for value in model.proto.graph.input:
        if value.name not in unread_names or value.name in model.overridable:
            result.graph.input.add().CopyFrom(value)
    for tensor in unread:
        if tensor.name not in model.overridable:
            result.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    result.graph.name = "graph"
    result.graph.node.extend(nodes)
    for node in nodes_within(result.graph):
        if node.op_type == "STFT" and not node.domain and not node.attribute:  # onnx 1.23 forgets its default
            node.attribute.append(onnx.helper.make_attribute("onesided", 1))
    for value in model.proto.graph.output:
        result.graph.output.add().name = value.name
    for tensor in model.proto.graph.initializer:
        if tensor.name not in unread_names:
            result.graph.initializer.add().CopyFrom(_with_data(tensor, str(model.folder)))
    for value in result.graph.input:
        if value.type.WhichOneof("value") == "tensor_type":
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                symbol = symbol_of(value.name, axis, getattr(dim, dim.WhichOneof("value") or "", None))
                if symbol in dims:
                    dim.dim_value = dims[symbol]
    for graph in (result.graph, *result.functions):
        _infer_quotients(graph)
        for node in nodes_within(graph):
            node.ClearField("name")
            for _, body in bodies_of(node):
                _undeclare(body)
    for function in result.functions:
        del function.value_info[:]
    return result


def _copy_field(source: ModelProto, target: ModelProto, name: str) -> None:
    if isinstance(getattr(source, name), int):
        setattr(target, name, getattr(source, name))
        return
    getattr(target, name).extend(getattr(source, name))


def _infer_quotients(graph: GraphProto | FunctionProto) -> None:
    """Write -1 for a size of a Reshape that is a quotient, so that inference finds it from the other sizes.

    onnx does not propagate quotients. In a model that runs, the size is the same. The sizes must be those of Reshapes
    alone, since -1 would be another number for any other reader.
    """
    producers = {value: node for node in graph.node for value in node.output if value}
    targets: set[str] = set()
    elsewhere = {output if isinstance(output, str) else output.name for output in graph.output}
    for node in graph.node:
        is_reshape = _is(node, "Reshape") and not any(a.name == "allowzero" and a.i for a in node.attribute)
        targets.update(node.input[1:2] if is_reshape else ())
        elsewhere.update(value for index, value in enumerate(node.input) if index != 1 or not is_reshape)
        elsewhere.update(read_in_bodies(node))
    numbers = small_constants(graph)
    for target in targets - elsewhere:
        concat = producers.get(target)
        if concat is None or not _is(concat, "Concat"):
            continue
        positions = [
            position
            for position, value in enumerate(concat.input)
            if (quotient := producers.get(value)) is not None
            and _is(quotient, "Div")
            and len(numbers.get(quotient.input[1], ())) == 1
            and _is_single_size(producers.get(quotient.input[0]), producers, numbers)
        ]
        if len(positions) == 1:
            concat.input[positions[0]] = _INFERRED_SIZE
    if any(_INFERRED_SIZE in node.input for node in graph.node):
        tensor = onnx.helper.make_tensor(_INFERRED_SIZE, TensorProto.INT64, [1], [-1])
        graph.node.insert(0, onnx.helper.make_node("Constant", [], [_INFERRED_SIZE], value=tensor))


def _is(node: NodeProto | None, op_type: str) -> bool:
    return node is not None and node.op_type == op_type and not _domain(node.domain)


def _is_single_size(
    node: NodeProto | None, producers: Mapping[str, NodeProto], numbers: Mapping[str, list[int]]
) -> bool:
    """Whether the node gives one size of a shape: a Shape with its first and last, a Slice or a Gather of one."""
    if node is None:
        return False
    attributes = {a.name: list(a.ints) or [a.i] for a in node.attribute}
    if _is(node, "Shape"):
        return attributes.get("end") == [attributes.get("start", [0])[0] + 1]
    if not any(_is(node, name) for name in ("Slice", "Gather")) or not _is(producers.get(node.input[0]), "Shape"):
        return False
    if _is(node, "Gather"):
        return len(numbers.get(node.input[1], ())) == 1
    starts, ends = (
        attributes.get(name) or numbers.get(node.input[index] if index < len(node.input) else "", [])
        for index, name in ((1, "starts"), (2, "ends"))
    )
    return len(node.input) <= 4 and len(starts) == len(ends) == 1 and starts[0] >= 0 and ends[0] == starts[0] + 1


def _undeclare(body: GraphProto) -> None:
    del body.value_info[:]
    for value in (*body.input, *body.output):
        value.ClearField("type")


def _elements(tensor: TensorProto) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
    return count


def _with_data(tensor: TensorProto, folder: str) -> TensorProto:
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    copy = TensorProto()
    copy.CopyFrom(tensor)
    load_external_data_for_tensor(copy, folder)
    return copy
