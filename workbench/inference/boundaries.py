"""Types of values at which ONNX's shape inference promises more than holds.

ONNX has one element type for all tensors of a sequence, so inference gives two elements of different sizes the same
symbol; a Loop whose state is a sequence, or that runs no turn, keeps what inference says of its first state or of its
body. A symbol must name one size of one value. So such a result is cut off from its node for inference: `Cut`, an
operator that inference does not know, stands after the node, and the type declared for its result is what is proven.

That is found from below: at first only the element type is declared, then what inference gives for the node under the
former declarations, until nothing changes. Numbers and symbols of the inputs are kept, other symbols are made new.

A state of a Loop keeps its sizes if the body, given these sizes, returns them: by induction over the turns. All states
of all Loops are first assumed to keep theirs, and those that do not are dropped until the rest holds together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

from workbench.ir.from_proto import bodies

ROUNDS_OF_PROOF = 64  # each passes on what the one before has proven, through one more level of sequences
MADE_UP = "unk__"  # prefix that ONNX's inference gives to unknown sizes
_CUT = "workbench.inference"  # domain of `Cut`
_RAW = "workbench.raw:"  # prefix of the name of a result before it is cut off
_ELEMENTS = ("SequenceAt", "OptionalGetElement", "ConcatFromSequence")
_REPEATED = ("Loop", "SequenceMap")  # their bodies run any number of times, on operands of any sizes
_FIRST_STATE = {"Loop": 2, "SequenceMap": 0}  # the input of the body from which on sizes may change
_NUMBERS = itertools.count()


def cut_boundaries(model: ModelProto) -> bool:
    """Put a Cut after each such result, in bodies too, in place; whether there is any."""
    functions = {(f.domain, f.name) for f in model.functions if _holds_boundary(f)}
    if not functions and not _holds_boundary(model.graph):
        return False
    model.opset_import.add(domain=_CUT, version=1)
    for value in model.graph.input:
        _without_elements(value.type)
    _cut(model.graph, functions)
    return True


def declare_proven(model: ModelProto, typed: ModelProto, assumed: Sequence[Assumed] = ()) -> bool:
    """Declare for each Cut what `typed`, the model after inference, proves of its operand; whether anything is new.

    assumed: what is declared already, and stays.
    """
    stay = {name for one in assumed for name in (one.value, one.state)}
    given = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    changed = False
    for graph, result in zip(_every_graph(model.graph), _every_graph(typed.graph), strict=True):
        changed |= _declare(graph, result, given, stay)
    return changed


class Assumed(NamedTuple):
    """A state of a Loop with the sizes that it has before the first turn, in the messages of the model.

    graph, value: where it is a result of the Loop. body, state, result: inside, as an input and as an output.
    """

    graph: GraphProto
    value: str
    body: GraphProto
    state: str
    result: str
    type: TypeProto


def assume_states(model: ModelProto, typed: ModelProto, already: Sequence[Assumed]) -> list[Assumed]:
    """Declare for every other state of a Loop that it keeps its sizes, if these are numbers or symbols of inputs.

    typed: the model after inference.
    """
    given = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    known = {tensor.name: _type_of(tensor) for tensor in model.graph.initializer}
    states = {one.state for one in already}
    return [one for one in _assumed(model.graph, typed.graph, known, given) if one.state not in states]


def drop_wrong(assumed: list[Assumed], model: ModelProto, typed: ModelProto) -> list[Assumed]:
    """Those that hold in `typed`, the model inferred under all of them.

    If some do not, they are no longer declared, and neither is what was proven under them.
    """
    inferred = {
        id(own): result for own, result in zip(_every_graph(model.graph), _every_graph(typed.graph), strict=True)
    }
    kept = []
    for one in assumed:
        body = inferred[id(one.body)]
        results = {info.name: info.type for info in (*body.output, *body.value_info)}
        if _agrees(results.get(one.result), one.type):
            kept.append(one)
    if len(kept) < len(assumed):
        stay = {name for one in kept for name in (one.value, one.state)}
        for graph in _every_graph(model.graph):
            cut = {node.output[0] for node in graph.node if node.domain == _CUT} - stay
            for info in (*graph.value_info, *graph.output):
                if info.name in cut and info.type.HasField("tensor_type"):
                    info.type.tensor_type.ClearField("shape")
    return kept


def without_cuts(typed: ModelProto) -> ModelProto:
    """The model without the Cuts and the values before them, in place."""
    for graph in _every_graph(typed.graph):
        if not any(node.domain == _CUT for node in graph.node):
            continue
        real = {node.input[0]: node.output[0] for node in graph.node if node.domain == _CUT}
        nodes = [node for node in graph.node if node.domain != _CUT]
        for node in nodes:
            node.output[:] = [real.get(value, value) for value in node.output]
        infos = [info for info in graph.value_info if info.name not in real]
        after = {info.name: info.type for info in infos}
        for value in graph.input:
            if value.name in real:
                value.name = real[value.name]
                value.type.CopyFrom(after.get(value.name, value.type))
        for value in graph.output:
            if value.name in real.values():
                value.type.CopyFrom(after.get(value.name, value.type))
        kept = GraphProto(node=nodes, value_info=infos)
        del graph.node[:], graph.value_info[:]
        graph.MergeFrom(kept)
    return typed


def _holds_boundary(owner: GraphProto | FunctionProto) -> bool:
    for node in owner.node:
        if node.op_type in _ELEMENTS or node.op_type in _REPEATED:
            return True
        if any(_holds_boundary(body) for attribute in node.attribute for body in bodies(attribute)):
            return True
    return False


def _every_graph(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in bodies(attribute):
                yield from _every_graph(body)


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
    kept = GraphProto(node=nodes)
    del graph.node[:]
    graph.MergeFrom(kept)


def _cut_inputs(body: GraphProto, first: int) -> None:
    cuts = []
    for value in body.input[first:]:
        cuts.append(_cut_of(value.name))
        value.name = _RAW + value.name
    kept = GraphProto(node=[*cuts, *body.node])
    del body.node[:]
    body.MergeFrom(kept)


def _cut_of(value: str) -> NodeProto:
    return helper.make_node("Cut", [_RAW + value], [value], domain=_CUT)


def _declare(graph: GraphProto, typed: GraphProto, given: set[str], stay: set[str]) -> bool:
    infos = {info.name: info.type for info in (*typed.input, *typed.value_info)}
    declarations = _Declarations(graph)
    producers = {value: node.op_type for node in graph.node for value in node.output}
    changed = False
    for node in graph.node:
        value = node.output[0] if node.output else ""
        result = infos.get(node.input[0]) if node.domain == _CUT and value not in stay else None
        if result is None:
            continue
        known = declarations.type_of(value)
        proven = _proven(result, producers.get(node.input[0], ""), given, first=known is None)
        if known is not None and _numbers(known, given) == _numbers(proven, given):
            continue
        declarations.declare(value, proven)
        changed = True
    return changed


class _Declarations:
    """The declared types of a graph's values, which are looked up for each of many."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._values = {info.name: info for info in graph.value_info}
        self._outputs = {info.name: info for info in graph.output}

    def type_of(self, value: str) -> TypeProto | None:
        return self._values[value].type if value in self._values else None

    def declare(self, value: str, type_: TypeProto) -> None:
        """An output has a second declaration: inference reads either."""
        if value not in self._values:
            self._values[value] = self._graph.value_info.add(name=value)
        self._values[value].type.CopyFrom(type_)
        if value in self._outputs:
            self._outputs[value].type.CopyFrom(type_)


def _proven(result: TypeProto, producer: str, given: set[str], *, first: bool) -> TypeProto:
    """What holds of the value. first: nothing that it depends on is proven yet."""
    proven = TypeProto()
    proven.CopyFrom(result)
    if not result.HasField("tensor_type"):
        _without_elements(proven)
        return proven
    if first or producer not in (*_ELEMENTS, *_REPEATED, ""):  # a call of a function is not looked into
        proven.tensor_type.ClearField("shape")
        return proven
    kept = given if producer in _ELEMENTS else set()  # a Loop of no turns gives sizes of 0 where its body has a symbol
    for dim in proven.tensor_type.shape.dim:
        if not dim.HasField("dim_value") and dim.dim_param not in kept:
            dim.dim_param = f"{MADE_UP}{next(_NUMBERS)}_cut"
    return proven


def _without_elements(type_: TypeProto) -> None:
    """Take away the shapes of the tensors in a sequence, an optional or a map, in place."""
    kind = type_.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        inner = type_.sequence_type.elem_type if kind == "sequence_type" else type_.optional_type.elem_type
        if inner.HasField("tensor_type"):
            inner.tensor_type.ClearField("shape")
        _without_elements(inner)


def _assumed(
    graph: GraphProto, typed: GraphProto, known: Mapping[str, TypeProto], given: set[str]
) -> Iterator[Assumed]:
    """known: the types of values around the graph."""
    known = {**known, **{info.name: info.type for info in (*typed.input, *typed.output, *typed.value_info)}}
    known |= {tensor.name: _type_of(tensor) for tensor in graph.initializer}
    for node, seen in zip(graph.node, typed.node, strict=True):
        for attribute, inferred in zip(node.attribute, seen.attribute, strict=True):
            for body, inside in zip(bodies(attribute), bodies(inferred), strict=True):
                if node.op_type == "Loop":
                    yield from _states(graph, node, body, known, given)
                yield from _assumed(body, inside, known, given)


def _states(
    graph: GraphProto, node: NodeProto, body: GraphProto, known: Mapping[str, TypeProto], given: set[str]
) -> Iterator[Assumed]:
    first = _FIRST_STATE["Loop"]
    for place, operand in enumerate(node.input[first:]):
        value = node.output[place].removeprefix(_RAW) if place < len(node.output) else ""
        type_ = known.get(operand)
        if not value or type_ is None or not type_.tensor_type.HasField("shape"):
            continue
        sizes = TypeProto()
        sizes.CopyFrom(type_)
        for dim in sizes.tensor_type.shape.dim:
            if not dim.HasField("dim_value") and dim.dim_param not in given:
                dim.Clear()
        state = body.input[first + place].name.removeprefix(_RAW)
        for owner, name in ((graph, value), (body, state)):
            _Declarations(owner).declare(name, sizes)
        yield Assumed(graph, value, body, state, body.output[1 + place].name, sizes)


def _agrees(result: TypeProto | None, assumed: TypeProto) -> bool:
    if result is None or not result.tensor_type.HasField("shape"):
        return False
    ours, theirs = result.tensor_type.shape.dim, assumed.tensor_type.shape.dim
    if len(ours) != len(theirs):
        return False
    pairs = zip(ours, theirs, strict=True)
    return all(want.WhichOneof("value") is None or own == want for own, want in pairs)


def _type_of(tensor: TensorProto) -> TypeProto:
    return helper.make_tensor_type_proto(tensor.data_type, tensor.dims)


def _numbers(type_: TypeProto, given: set[str]) -> tuple[int | str | None, ...] | None:
    """The sizes but for symbols that were made new; None if the rank is not known."""
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        d.dim_value if d.HasField("dim_value") else d.dim_param * (d.dim_param in given) for d in tensor.shape.dim
    )
