"""When each value of a graph is in use, from the order in which its operators run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from workbench.analysis.inference.shapes import infer_types
from workbench.errors import UserError
from workbench.ir import Constant, Function, Graph, Node, ValueType
from workbench.ir.function_calls import function_key
from workbench.ops import contract_of
from workbench.planning.fusion.traffic import size_of
from workbench.planning.memory.blocks.packing import MemoryBlock, Packing

_LARGEST = 2**46  # bytes of a value that is planned; a process can address 2**47


class Kind(StrEnum):
    """What memory is used for: inputs and results, weights, activations, and the workspace of operators."""

    INPUT = "input"
    OUTPUT = "output"
    WEIGHT = "weight"
    ACTIVATION = "activation"
    WORKSPACE = "workspace"

    @property
    def lies_in_arena(self) -> bool:
        """Whether it lies in the arena: inputs belong to the caller, and weights must stay for the next run."""
        return self not in (Kind.INPUT, Kind.WEIGHT)


@dataclass(frozen=True, eq=False)
class ValueScope:
    """A graph or body whose nodes are steps.

    prefix: what its names begin with: the names of the containing node and of the body, which may contain slashes.
    outer:  the scope around it; None for the whole graph.
    holder: the node of the whole graph that contains it; "" for that graph.
    names:  by value of this scope, its name in `Lifetimes.values`.
    """

    prefix: str = ""
    outer: ValueScope | None = None
    holder: str = ""
    names: dict[str, str] = field(default_factory=dict)

    def find(self, value: str) -> str | None:
        """The name in `Lifetimes.values` of a value that is visible here; None if there is none."""
        scope: ValueScope | None = self
        while scope is not None and value not in scope.names:
            scope = scope.outer
        return None if scope is None else scope.names[value]


@dataclass(frozen=True)
class ExecutionStep:
    """One operator of the execution order. graph: the graph or body that holds it.

    label: its name, with the prefix of its scope. outermost: the node of the whole graph that contains it, or itself.
    """

    node: Node
    label: str
    graph: Graph
    outermost: str


@dataclass
class ValueLifetime:
    """A value in memory.

    name:     unique, with the prefix of its scope.
    bytes:    None if its size is unknown, or more than any memory holds, or if it is not a tensor.
    born, dies: the steps, half-open, in which its memory is in use.
    producer: the step that computes it; None for inputs, weights, workspaces and inputs of bodies.
    reads:    the steps that read it, in order.
    """

    name: str
    kind: Kind
    bytes: int | None
    born: int
    dies: int = 0
    producer: int | None = None
    reads: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Lifetimes:
    """The steps of an execution order, and the values that they compute and read, in order of their birth.

    scopes: for each step, the graph or body that it is in.
    """

    steps: tuple[ExecutionStep, ...]
    values: Mapping[str, ValueLifetime]
    scopes: tuple[ValueScope, ...]

    def operand(self, step: int, value: str) -> str:
        """The name in `values` of a value that a step reads or computes as `value`."""
        name = self.scopes[step].find(value)
        assert name is not None, f"{self.steps[step].node} reads '{value}', which nothing computes"
        return name


def lifetimes(graph: Graph, order: Sequence[Node] | None = None, inner: bool = True) -> Lifetimes:
    """The lifetimes of all values, half-open, in numbers of steps.

    Operands and results are in use together at the step of their operator. The nodes of a body are steps before the
    node that contains it. What they capture is in use until that node ends, since a body may run again. So are the
    values that a loop carries and the results that it collects. Results of the graph are in use to the end. A function
    that no kernel computes as a whole has a workspace: the most that the values within it occupy at once.

    order: the nodes of the graph in another topological order. inner: whether bodies and workspaces are included.

    Raises UserError if `order` is not such an order.
    """
    nodes = graph.nodes if order is None else tuple(order)
    _check_order(graph, nodes)
    walk = _Walk(graph, inner)
    walk.walk_scope(ValueScope(), graph, nodes)
    end = len(walk.steps)
    for value in walk.values.values():
        value.dies = max([value.born, *value.reads]) + 1
    for name in (*graph.inputs, *graph.constants, *graph.outputs):
        walk.values[name].dies = end
    return Lifetimes(tuple(walk.steps), walk.values, tuple(walk.scopes))


def _check_order(graph: Graph, nodes: Sequence[Node]) -> None:
    if len(nodes) != len(graph) or {node.name for node in nodes} != {node.name for node in graph.nodes}:
        raise UserError("The order does not list each node of the graph once; give every node's name once.")
    known = {*graph.inputs, *graph.constants}
    for node in nodes:
        missing = [value for value in node.operands if value not in known and graph.has_value(value)]
        if missing:
            raise UserError(f"In the order, {node} runs before '{missing[0]}' is computed; move it after that.")
        known.update(node.outputs)


class _Walk:
    """Steps and values of a graph, in order."""

    def __init__(self, graph: Graph, inner: bool) -> None:
        self.graph = graph
        self.inner = inner
        self.steps: list[ExecutionStep] = []
        self.scopes: list[ValueScope] = []
        self.values: dict[str, ValueLifetime] = {}
        self._names_of_graph = {*graph.values(), *(node.name for node in graph.nodes)}

    def walk_scope(self, scope: ValueScope, graph: Graph, nodes: Sequence[Node]) -> None:
        outermost = scope.outer is None
        for name in graph.inputs:
            self._add(scope, graph, name, Kind.INPUT if outermost else Kind.ACTIVATION)
        for name in graph.constants:
            if (
                scope.outer is None or scope.outer.find(name) is None
            ):  # typed bodies contain the constants that they capture
                self._add(scope, graph, name, Kind.WEIGHT)
        for node in nodes:
            self._node(scope, graph, node)

    def _node(self, scope: ValueScope, graph: Graph, node: Node) -> None:
        begin = len(self.steps)
        bodies = list(self._bodies(scope, graph, node)) if self.inner else []
        for inner_scope, body in bodies:
            self.walk_scope(inner_scope, body, body.nodes)
        number = len(self.steps)
        self.steps.append(ExecutionStep(node, self._unique(scope, node.name), graph, scope.holder or node.name))
        self.scopes.append(scope)
        for inner_scope, body in bodies:
            for name in (*body.inputs, *body.outputs):
                self._read(inner_scope, name, number)
        for name in dict.fromkeys(node.operands):
            self._read(scope, name, number)
        born = begin if node.op in ("Loop", "Scan") else number
        for name in filter(None, node.outputs):
            kind = Kind.OUTPUT if graph is self.graph and graph.is_output(name) else Kind.ACTIVATION
            value = self._add(scope, graph, name, kind)
            value.born, value.producer = born, number
        function = self._function(node)
        if function is not None and self.inner:
            size = workspace(self.graph, graph, node, function)
            label = self._unique(ValueScope(f"{scope.prefix}{node.name}/", scope), "workspace")
            self.values[label] = ValueLifetime(label, Kind.WORKSPACE, size, number)

    def _bodies(self, scope: ValueScope, graph: Graph, node: Node) -> Iterator[tuple[ValueScope, Graph]]:
        for attribute, body in node.bodies.items():
            inner_scope = ValueScope(f"{scope.prefix}{node.name}/{attribute}/", scope, scope.holder or node.name)
            yield inner_scope, _typed_body(self.graph, graph, node, body)

    def _add(self, scope: ValueScope, graph: Graph, name: str, kind: Kind) -> ValueLifetime:
        unique = scope.names[name] = self._unique(scope, name)
        value = ValueLifetime(unique, kind, _bytes(self.graph, graph, name), len(self.steps))
        self.values[unique] = value
        return value

    def _unique(self, scope: ValueScope, name: str) -> str:
        """The name with the prefix of its scope, and a number if another value has that name."""
        if scope.outer is None:
            return name
        unique = base = scope.prefix + name
        number = 2
        while unique in self._names_of_graph or unique in self.values:
            unique, number = f"{base} ({number})", number + 1
        return unique

    def _read(self, scope: ValueScope, name: str, number: int) -> None:
        unique = scope.find(name)
        if unique is not None:
            self.values[unique].reads.append(number)

    def _function(self, node: Node) -> Function | None:
        """The function that the node calls, if it runs operator by operator."""
        if contract_of(node) is not None:
            return None
        return self.graph.functions.get(function_key(node))


def _typed_body(main: Graph, outside: Graph, holder: Node, body: Graph) -> Graph:
    """A body with types for its values, and the constants that it captures."""
    captured = body.captured
    constants = {value: outside.constants[value] for value in captured if value in outside.constants}
    types = {value: type_ for value in captured if (type_ := outside.type(value)) is not None}
    carried = holder.inputs[len(holder.inputs) - len(body.inputs) :] if holder.op in ("Loop", "Scan") else ()
    for formal, actual in zip(body.inputs, carried, strict=False):
        actual_type = outside.type(actual) if actual and holder.op == "Loop" else None
        if body.shape(formal) is None and actual_type is not None:
            types[formal] = actual_type
    return _graph_with_types(main, body, {**body.types, **types}, {**body.constants, **constants})


def workspace(main: Graph, graph: Graph, call: Node, function: Function) -> int | None:
    """The most bytes that values within a function occupy at once, besides its operands and results; None if a size is
    unknown. Operators run in the order of its body. main: the graph whose functions and dims are used."""
    body: Graph = function.graph
    operand_types = {
        formal: graph.type(actual) for formal, actual in zip(body.inputs, call.inputs, strict=False) if actual
    }
    types = {**body.types, **{name: type_ for name, type_ in operand_types.items() if type_ is not None}}
    inner = lifetimes(_graph_with_types(main, body, types, body.constants))
    inner_values = [value for value in inner.values.values() if value.kind in (Kind.ACTIVATION, Kind.WORKSPACE)]
    if any(value.bytes is None for value in inner_values):
        return None
    return Packing(
        tuple(MemoryBlock(value.name, value.bytes or 0, value.born, value.dies) for value in inner_values)
    ).lower_bound


def _graph_with_types(
    main: Graph, body: Graph, types: Mapping[str, ValueType], constants: Mapping[str, Constant]
) -> Graph:
    """A body, or that of a function, with types for its values as far as they can be inferred."""

    def typed(by_name: Mapping[str, ValueType], inputs: Sequence[str]) -> Graph:
        return Graph(
            inputs=inputs,
            outputs=body.outputs,
            nodes=body.nodes,
            constants=constants,
            types=by_name,
            opset_imports=body.opset_imports or main.opset_imports,
            functions=main.functions,
            dims=main.dims,
        )

    graph = typed(types, body.inputs)
    if all(graph.type(value) is not None for node in graph.nodes for value in node.outputs if value):
        return graph
    outer = [value for value in body.captured if value not in constants]
    return typed({**types, **infer_types(typed(types, (*body.inputs, *outer)))}, body.inputs)


def _bytes(main: Graph, graph: Graph, value: str) -> int | None:
    """Bytes of a tensor, with the dims of the main graph bound; None if unknown, or more than any memory holds."""
    size = size_of(main, value) if graph is main else _bytes_inside(main, graph, value)
    return None if size is None or size > _LARGEST else size


def _bytes_inside(main: Graph, graph: Graph, value: str) -> int | None:
    tensor_type = graph.tensor_type(value)
    if tensor_type is None or tensor_type.shape is None:
        return None
    return tensor_type.with_shape(
        tuple(main.dims.get(d, d) if isinstance(d, str) else d for d in tensor_type.shape)
    ).bytes
