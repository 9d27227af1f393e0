"""Sound types at nodes for which ONNX's shape inference is unsound: sequences, Loops and functions with them.

ONNX has one element type for all tensors of a sequence, so inference gives two elements of different sizes the same
symbol. A Loop whose state is a sequence, or that runs zero iterations, gets the inferred type of its first state or of
its body. But a symbol must name one size of one value. So inference sees such a result through a `Cut`: an operator
that inference does not know, inserted after the node. The type declared for the Cut's result is the proven type.

Proven types are a least fixpoint: at first only the element type is declared, then the type that inference gives the
node under the earlier declarations, until nothing changes. Numbers and symbols of inputs are kept; other symbols are
replaced by new ones.

A state of a Loop keeps its sizes if the body, given these sizes, returns them: by induction over the iterations. All
states of all Loops are first assumed to keep their sizes. Wrong assumptions are dropped until all others hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

from workbench.ir.from_proto import bodies

ROUNDS_OF_PROOF = 64  # each propagates proven types through one more level of sequences
MADE_UP = "unk__"  # prefix of symbols that ONNX's inference generates
_CUT = "workbench.inference"  # domain of `Cut`
_RAW = "workbench.raw:"  # prefix of the name of a result before its Cut
_ELEMENTS = ("SequenceAt", "OptionalGetElement", "ConcatFromSequence")
_REPEATED = ("Loop", "SequenceMap")  # their bodies run any number of times, on operands of any size
_FIRST_STATE = {"Loop": 2, "SequenceMap": 0}  # the first input of the body whose size may change
_NUMBERS = itertools.count()


def cut_boundaries(model: ModelProto) -> bool:
    """Insert a Cut after each unsound result, in bodies too, in place; returns whether there is any."""
    functions = {(f.domain, f.name) for f in model.functions if _has_boundary(f)}
    if not functions and not _has_boundary(model.graph):
        return False
    model.opset_import.add(domain=_CUT, version=1)
    for value in model.graph.input:
        _without_elements(value.type)
    _cut(model.graph, functions)
    return True


def declare_proven(model: ModelProto, typed: ModelProto, assumed: Sequence[Assumed] = ()) -> bool:
    """Declare for each Cut the type that `typed`, the model after inference, proves; returns whether any is new.

    assumed: declarations that stay.
    """
    assumed_values = {name for assumption in assumed for name in (assumption.value, assumption.state)}
    input_symbols = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    changed = False
    for graph, typed_graph in zip(_graphs_within(model.graph), _graphs_within(typed.graph), strict=True):
        changed |= _declare(graph, typed_graph, input_symbols, assumed_values)
    return changed


class Assumed(NamedTuple):
    """An assumption that a state of a Loop keeps the sizes that it has before the first iteration.

    graph, value: the result of the Loop. body, state, result: the body, and its input and output for the state.
    """

    graph: GraphProto
    value: str
    body: GraphProto
    state: str
    result: str
    type: TypeProto


def assume_states(model: ModelProto, typed: ModelProto, already: Sequence[Assumed]) -> list[Assumed]:
    """Declare new assumptions for states of Loops whose sizes are numbers or symbols of inputs; returns them.

    typed: the model after inference. already: earlier assumptions.
    """
    input_symbols = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    known = {tensor.name: _type_of(tensor) for tensor in model.graph.initializer}
    states = {assumption.state for assumption in already}
    return [
        assumption
        for assumption in _assumed(model.graph, typed.graph, known, input_symbols)
        if assumption.state not in states
    ]


def drop_wrong(assumed: list[Assumed], model: ModelProto, typed: ModelProto) -> list[Assumed]:
    """The assumptions that hold in `typed`, the model inferred under all of them.

    If some do not hold, their declarations are removed, and so is everything that was proven under them.
    """
    inferred = {
        id(graph): result
        for graph, result in zip(_graphs_within(model.graph), _graphs_within(typed.graph), strict=True)
    }
    valid = []
    for assumption in assumed:
        body = inferred[id(assumption.body)]
        results = {info.name: info.type for info in (*body.output, *body.value_info)}
        if _agrees(results.get(assumption.result), assumption.type):
            valid.append(assumption)
    if len(valid) < len(assumed):
        assumed_values = {name for assumption in valid for name in (assumption.value, assumption.state)}
        for graph in _graphs_within(model.graph):
            cut = {node.output[0] for node in graph.node if node.domain == _CUT} - assumed_values
            for info in (*graph.value_info, *graph.output):
                if info.name in cut and info.type.HasField("tensor_type"):
                    info.type.tensor_type.ClearField("shape")
    return valid


def without_cuts(typed: ModelProto) -> ModelProto:
    """Remove the Cuts and the values before them, in place; returns the model."""
    for graph in _graphs_within(typed.graph):
        if not any(node.domain == _CUT for node in graph.node):
            continue
        final_names = {node.input[0]: node.output[0] for node in graph.node if node.domain == _CUT}
        nodes = [node for node in graph.node if node.domain != _CUT]
        for node in nodes:
            node.output[:] = [final_names.get(value, value) for value in node.output]
        infos = [info for info in graph.value_info if info.name not in final_names]
        final_types = {info.name: info.type for info in infos}
        for value in graph.input:
            if value.name in final_names:
                value.name = final_names[value.name]
                value.type.CopyFrom(final_types.get(value.name, value.type))
        for value in graph.output:
            if value.name in final_names.values():
                value.type.CopyFrom(final_types.get(value.name, value.type))
        rebuilt = GraphProto(node=nodes, value_info=infos)
        del graph.node[:], graph.value_info[:]
        graph.MergeFrom(rebuilt)
    return typed


def _has_boundary(owner: GraphProto | FunctionProto) -> bool:
    for node in owner.node:
        if node.op_type in _ELEMENTS or node.op_type in _REPEATED:
            return True
        if any(_has_boundary(body) for attribute in node.attribute for body in bodies(attribute)):
            return True
    return False


def _graphs_within(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in bodies(attribute):
                yield from _graphs_within(body)


def _cut(graph: GraphProto, functions: set[tuple[str, str]]) -> None:
    nodes: list[NodeProto] = []
    for node in graph.node:
        nodes.append(node)
        for attribute in node.attribute:
            for body in bodies(attribute):
                _cut(body, functions)
                if node.op_type in _FIRST_STATE:
                    _cut_inputs(body, _FIRST_STATE[node.op_type])
        if node.op_type not in (*_ELEMENTS, *_REPEATED) and (node.domain, node.op_type) not in functions:
            continue
        for index, value in enumerate(node.output):
            if value:
                node.output[index] = _RAW + value
                nodes.append(_cut_of(value))
    rebuilt = GraphProto(node=nodes)
    del graph.node[:]
    graph.MergeFrom(rebuilt)


def _cut_inputs(body: GraphProto, first: int) -> None:
    cuts = []
    for value in body.input[first:]:
        cuts.append(_cut_of(value.name))
        value.name = _RAW + value.name
    rebuilt = GraphProto(node=[*cuts, *body.node])
    del body.node[:]
    body.MergeFrom(rebuilt)


def _cut_of(value: str) -> NodeProto:
    return helper.make_node("Cut", [_RAW + value], [value], domain=_CUT)


def _declare(graph: GraphProto, typed: GraphProto, input_symbols: set[str], assumed_values: set[str]) -> bool:
    infos = {info.name: info.type for info in (*typed.input, *typed.value_info)}
    declarations = _Declarations(graph)
    producers = {value: node.op_type for node in graph.node for value in node.output}
    changed = False
    for node in graph.node:
        value = node.output[0] if node.output else ""
        inferred = infos.get(node.input[0]) if node.domain == _CUT and value not in assumed_values else None
        if inferred is None:
            continue
        known = declarations.type_of(value)
        proven = _proven(inferred, producers.get(node.input[0], ""), input_symbols, first=known is None)
        if known is not None and _input_sizes(known, input_symbols) == _input_sizes(proven, input_symbols):
            continue
        declarations.declare(value, proven)
        changed = True
    return changed


class _Declarations:
    """The declared types of a graph's values, indexed by name."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._values = {info.name: info for info in graph.value_info}
        self._outputs = {info.name: info for info in graph.output}

    def type_of(self, value: str) -> TypeProto | None:
        return self._values[value].type if value in self._values else None

    def declare(self, value: str, type_: TypeProto) -> None:
        """Declare the type of a value; of an output at both places, since inference reads either."""
        if value not in self._values:
            self._values[value] = self._graph.value_info.add(name=value)
        self._values[value].type.CopyFrom(type_)
        if value in self._outputs:
            self._outputs[value].type.CopyFrom(type_)


def _proven(inferred: TypeProto, producer: str, input_symbols: set[str], *, first: bool) -> TypeProto:
    """The part of an inferred type that is sound. first: whether nothing that it depends on is proven yet."""
    proven = TypeProto()
    proven.CopyFrom(inferred)
    if not inferred.HasField("tensor_type"):
        _without_elements(proven)
        return proven
    if first or producer not in (*_ELEMENTS, *_REPEATED, ""):  # calls of functions are opaque
        proven.tensor_type.ClearField("shape")
        return proven
    # A Loop with zero iterations returns sizes of 0 where its body has a symbol.
    sound_symbols = input_symbols if producer in _ELEMENTS else set()
    for dim in proven.tensor_type.shape.dim:
        if not dim.HasField("dim_value") and dim.dim_param not in sound_symbols:
            dim.dim_param = f"{MADE_UP}{next(_NUMBERS)}_cut"
    return proven


def _without_elements(type_: TypeProto) -> None:
    """Remove the shapes of the tensors in a sequence, an optional or a map, in place."""
    kind = type_.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        inner = type_.sequence_type.elem_type if kind == "sequence_type" else type_.optional_type.elem_type
        if inner.HasField("tensor_type"):
            inner.tensor_type.ClearField("shape")
        _without_elements(inner)


def _assumed(
    graph: GraphProto, typed: GraphProto, known: Mapping[str, TypeProto], input_symbols: set[str]
) -> Iterator[Assumed]:
    """Yields the assumptions for Loops in the graph and its bodies. known: the types of values around the graph."""
    known = {**known, **{info.name: info.type for info in (*typed.input, *typed.output, *typed.value_info)}}
    known |= {tensor.name: _type_of(tensor) for tensor in graph.initializer}
    for node, typed_node in zip(graph.node, typed.node, strict=True):
        for attribute, typed_attribute in zip(node.attribute, typed_node.attribute, strict=True):
            for body, typed_body in zip(bodies(attribute), bodies(typed_attribute), strict=True):
                if node.op_type == "Loop":
                    yield from _states(graph, node, body, known, input_symbols)
                yield from _assumed(body, typed_body, known, input_symbols)


def _states(
    graph: GraphProto, node: NodeProto, body: GraphProto, known: Mapping[str, TypeProto], input_symbols: set[str]
) -> Iterator[Assumed]:
    first = _FIRST_STATE["Loop"]
    for index, operand in enumerate(node.input[first:]):
        value = node.output[index].removeprefix(_RAW) if index < len(node.output) else ""
        type_ = known.get(operand)
        if not value or type_ is None or not type_.tensor_type.HasField("shape"):
            continue
        sizes = TypeProto()
        sizes.CopyFrom(type_)
        for dim in sizes.tensor_type.shape.dim:
            if not dim.HasField("dim_value") and dim.dim_param not in input_symbols:
                dim.Clear()
        state = body.input[first + index].name.removeprefix(_RAW)
        for owner, name in ((graph, value), (body, state)):
            _Declarations(owner).declare(name, sizes)
        yield Assumed(graph, value, body, state, body.output[1 + index].name, sizes)


def _agrees(inferred: TypeProto | None, assumed: TypeProto) -> bool:
    if inferred is None or not inferred.tensor_type.HasField("shape"):
        return False
    dims, assumed_dims = inferred.tensor_type.shape.dim, assumed.tensor_type.shape.dim
    if len(dims) != len(assumed_dims):
        return False
    pairs = zip(dims, assumed_dims, strict=True)
    return all(assumed_dim.WhichOneof("value") is None or dim == assumed_dim for dim, assumed_dim in pairs)


def _type_of(tensor: TensorProto) -> TypeProto:
    return helper.make_tensor_type_proto(tensor.data_type, tensor.dims)


def _input_sizes(type_: TypeProto, input_symbols: set[str]) -> tuple[int | str | None, ...] | None:
    """The sizes, with "" for generated symbols; None if the rank is unknown."""
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        d.dim_value if d.HasField("dim_value") else d.dim_param * (d.dim_param in input_symbols)
        for d in tensor.shape.dim
    )
