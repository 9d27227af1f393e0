"""The graph: nodes in topological order, constants, types, and the producer and users of each value.

Only `apply` changes a graph; its cost depends on the size of the edit, not on that of the graph.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.ir.display import notebook_html
from workbench.ir.edit import Edit, EditError, check_values, restoring, update
from workbench.ir.node import Body, Function, Node
from workbench.ir.order import check_order, rank_between, rank_bounds, sorted_among, topological
from workbench.ir.preserved_metadata import PassthroughFields
from workbench.ir.provenance import Provenance
from workbench.ir.types import Constant, Dim, TensorType, ValueType, constant_type

if TYPE_CHECKING:
    from networkx import MultiDiGraph


class Graph(Body):
    """A network, or the body of a control-flow node or function."""

    def __init__(
        self,
        *,
        name: str = "graph",
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        nodes: Iterable[Node] = (),
        constants: Mapping[str, Constant] | None = None,
        types: Mapping[str, ValueType] | None = None,
        opset_imports: Mapping[str, int] | None = None,
        functions: Mapping[tuple[str, str, str], Function] | None = None,
        metadata: Mapping[str, str] | None = None,
        provenance: Mapping[str, Provenance] | None = None,
        source: str | None = None,
        file_opset: int | None = None,
        kept: PassthroughFields | None = None,
        dims: Mapping[str, int] | None = None,
        bound_types: Mapping[str, TensorType] | None = None,
        warnings: Sequence[str] = (),
        reserved: frozenset[str] = frozenset(),
    ) -> None:
        """Loading sets `source` (the user's file), `file_opset`, `kept`, `dims` (numbers for symbols), `bound_types`
        (for costs) and `warnings`. reserved: names that no new value may take; for a body, names of outer values.
        provenance: by node that a pass made or changed, what made it."""
        self.name, self.inputs, self.outputs = name, inputs, outputs
        self.opset_imports, self.functions = dict(opset_imports or {}), dict(functions or {})
        self.metadata, self.provenance = dict(metadata or {}), dict(provenance or {})
        self.source, self.file_opset, self.kept = source, file_opset, kept or PassthroughFields()
        self.dims, self.bound_types = dict(dims or {}), dict(bound_types or {})
        self.warnings, self.reserved = tuple(warnings), reserved
        self._constants: dict[str, Constant] = dict(constants or {})
        self._types: dict[str, ValueType] = dict(types or {})
        self._nodes: dict[str, Node] = {}
        self._rank, self._ranks = dict[str, float](), list[float]()
        self._producer: dict[str, str] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._with_bodies: dict[str, None] = {}
        self._by_op: dict[str, dict[str, None]] = {}
        self._suffixes: dict[str, int] = {}  # by base, the last suffix that `fresh` tried
        self._sorted: tuple[Node, ...] | None = None
        for rank, node in enumerate(nodes):
            self._link(node, float(rank))

    # ---- reading -------------------------------------------------------------

    @property
    def inputs(self) -> tuple[str, ...]:
        return self._inputs

    @inputs.setter
    def inputs(self, inputs: Sequence[str]) -> None:
        self._inputs, self._input_set = tuple(inputs), frozenset(inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        return self._outputs

    @outputs.setter
    def outputs(self, outputs: Sequence[str]) -> None:
        self._outputs, self._output_set = tuple(outputs), frozenset(outputs)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in topological order."""
        if self._sorted is None:
            self._sorted = tuple(self._in_order(self._nodes))
        return self._sorted

    def nodes_of(self, operators: Collection[str]) -> list[Node]:
        """The nodes of these operators, in topological order."""
        return self._in_order(name for op in self._by_op.keys() & set(operators) for name in self._by_op[op])

    @property
    def with_bodies(self) -> list[Node]:
        """The nodes that have bodies, in topological order."""
        return self._in_order(self._with_bodies)

    def _in_order(self, names: Iterable[str]) -> list[Node]:
        return [self._nodes[name] for name in sorted(names, key=self._rank.__getitem__)]

    @property
    def constants(self) -> Mapping[str, Constant]:
        return self._constants

    @property
    def types(self) -> Mapping[str, ValueType]:
        """Types of inputs and computed values; constants have their own types."""
        return self._types

    def node(self, name: str) -> Node:
        return self._nodes[name]

    def find(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def position(self, node_name: str) -> float:
        """The node's position in topological order; comparable only among nodes of one state of the graph."""
        return self._rank[node_name]

    def __contains__(self, node_name: str) -> bool:
        return node_name in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def producer(self, value: str) -> Node | None:
        """The node that computes `value`; None for inputs, constants and unknown names."""
        name = self._producer.get(value)
        return None if name is None else self._nodes[name]

    def users(self, value: str) -> tuple[Node, ...]:
        """The nodes that use `value`, in topological order, including those whose bodies capture it."""
        return tuple(self._in_order(self._users.get(value, ())))

    def count_users(self, value: str) -> int:
        return len(self._users.get(value, ()))

    def is_input(self, value: str) -> bool:
        return value in self._input_set

    def is_output(self, value: str) -> bool:
        return value in self._output_set

    def has_value(self, value: str) -> bool:
        return value in self._producer or value in self._constants or value in self._input_set

    def constant(self, value: str) -> Constant | None:
        return self._constants.get(value)

    def type(self, value: str) -> ValueType | None:
        tensor = self._constants.get(value)
        return constant_type(tensor) if tensor is not None else self._types.get(value)

    def tensor_type(self, value: str) -> TensorType | None:
        """The type if it is a tensor type, else None."""
        result = self.type(value)
        return result if isinstance(result, TensorType) else None

    def shape(self, value: str) -> tuple[Dim, ...] | None:
        tensor_type = self.tensor_type(value)
        return None if tensor_type is None else tensor_type.shape

    def rank_of(self, value: str) -> int | None:
        shape = self.shape(value)
        return None if shape is None else len(shape)

    def values(self) -> Iterator[str]:
        """The name of every value: inputs, constants, outputs of nodes."""
        yield from self.inputs
        yield from self._constants
        yield from self._producer

    @property
    def captured(self) -> tuple[str, ...]:
        """For a body: the values of enclosing graphs that it uses."""
        read = [*(value for node in self.nodes for value in node.operands), *self.outputs]
        return tuple(dict.fromkeys(value for value in read if not self.has_value(value)))

    def fresh(self, base: str, taken: Collection[str] = ()) -> str:
        """A name that is unused by values and nodes, bodies included: `base`, or `base` with a numeric suffix."""
        names = (taken, self.reserved, self._nodes, *(self._nodes[node].inner_values for node in self._with_bodies))
        name, count = base, self._suffixes.get(base, 0)
        while any(name in known for known in names) or self.has_value(name):
            self._suffixes[base] = count
            count += 1
            name = f"{base}_{count}"
        return name

    def to_networkx(self) -> MultiDiGraph:
        from workbench.ir.networkx_graph import networkx_graph

        return networkx_graph(self)  # networkx.ancestors(graph.to_networkx(), "Conv_0")

    def __repr__(self) -> str:
        return f"<Graph '{self.name}': {len(self):,} nodes>"

    _repr_html_ = notebook_html

    def copy(self) -> Graph:
        """An independent copy; nodes and constants are immutable and shared."""
        return self.with_nodes(self.nodes)

    def with_captures_renamed(self, names: Mapping[str, str]) -> Graph:
        """The body with each captured value v replaced by `names[v]`."""
        outside = {old: new for old, new in names.items() if not self.has_value(old)}
        nodes = (node.with_values_renamed(outside) for node in self.nodes)
        return self.with_nodes(nodes, [outside.get(v, v) for v in self.outputs]) if outside else self

    def with_nodes(self, nodes: Iterable[Node], outputs: Sequence[str] = ()) -> Graph:
        """A copy with these nodes in place of its own, and these outputs, if any are given."""
        return Graph(**self.constructor_arguments | {"outputs": outputs or self.outputs, "nodes": nodes})

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor, without the nodes."""
        public = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return {
            **public,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "constants": self._constants,
            "types": self._types,
        }

    # ---- writing -------------------------------------------------------------

    def apply(self, edit: Edit) -> Edit:
        """Apply the edit and return its inverse.

        Raises EditError, with the graph unchanged, for a missing node or value, one defined twice, or a cycle.
        """
        removed, inserted = self._lowered(edit)
        check_values(edit, removed, inserted, self)
        # In an order that does not depend on hashes, so that the inverse is the same in each process.
        of_nodes = (v for n in (*removed.values(), *inserted.values()) for v in (*n.operands, *n.outputs) if v)
        touched = dict.fromkeys((*of_nodes, *edit.constants, *edit.types))
        constants_before = {v: self._constants.get(v) for v in touched}
        unused_before = frozenset(v for v in touched if v in self._constants and self._is_unused(v))
        types_before = {v: self._types.get(v) for v in touched}
        ranks_before = {name: self._rank[name] for name in removed}
        if not removed and not inserted:
            ranks_before = check_order(self._nodes, self._producer, self._rank, edit.ranks)

        for node in removed.values():
            self._unlink(node)
        self._set_ranks({name: rank for name, rank in edit.ranks.items() if name in self._nodes})
        preferred_ranks = {**{name: rank for name, rank in ranks_before.items() if name in inserted}, **edit.ranks}
        moved = self._place(inserted, preferred_ranks)
        if moved is None:
            for node in removed.values():
                self._link(node, ranks_before[node.name])
            raise EditError(f"the edit would create a cycle through {next(iter(inserted.values()))}")
        update(self._constants, edit.constants)
        update(self._types, edit.types)
        metadata, functions = update(self.metadata, edit.metadata), update(self.functions, edit.functions)
        self._drop_unused(touched.keys() - edit.unused)
        return Edit(
            remove=tuple(inserted),
            insert=tuple(removed.values()),
            constants=restoring(constants_before, self._constants),
            types=restoring(types_before, self._types),
            metadata=metadata,
            functions=functions,
            ranks={**moved, **ranks_before},
            unused=unused_before,
        )

    def _lowered(self, edit: Edit) -> tuple[dict[str, Node], dict[str, Node]]:
        """The edit with `replace` expanded: nodes to remove and nodes to insert, by name."""
        for name in edit.remove:
            if name not in self._nodes:
                raise EditError(f"there is no node '{name}' to remove")
        removed = {name: self._nodes[name] for name in edit.remove}
        inserted: dict[str, Node] = {}
        for node in edit.insert:
            if not node.name:
                raise EditError(f"a new {node.op_type} has no name")
            if node.name in inserted or (node.name in self._nodes and node.name not in removed):
                raise EditError(f"there is a node '{node.name}' already")
            inserted[node.name] = node
        followed = edit.followed
        self._rename({old: new for old, new in followed.items() if old not in self._output_set}, removed, inserted)
        renamed: dict[str, str] = {}
        for old, new in ((old, new) for old, new in followed.items() if old in self._output_set):
            renamed[new] = self._replace_output(old, renamed.get(new, new), removed, inserted)
        return removed, inserted

    def _replace_output(self, old: str, new: str, removed: dict[str, Node], inserted: dict[str, Node]) -> str:
        """Replace uses of the graph output `old` by `new`; returns the name that `new` has afterwards."""
        existing_producer = self.producer(new) if self._producer.get(new) not in removed else None
        new_producer = next((n for n in inserted.values() if new in n.outputs), existing_producer)
        if new_producer is None or new in self._output_set:
            identity = Node("Identity", (new,), (old,), name=self.fresh(f"{old}_is", inserted))
            inserted[identity.name] = identity
            return new
        renamed = new_producer.replace(outputs=tuple(old if v == new else v for v in new_producer.outputs))
        self._stage(renamed, removed, inserted)
        self._rename({new: old}, removed, inserted)
        return old

    def _rename(self, names: Mapping[str, str], removed: dict[str, Node], inserted: dict[str, Node]) -> None:
        """Stage a changed copy of every node that uses one of the renamed values."""
        readers = dict.fromkeys(n for old in names for n in self._users.get(old, ()) if n not in removed)
        for node in [inserted.get(name) or self._nodes[name] for name in (*readers, *inserted)]:
            if (changed := node.with_values_renamed(names)) is not node:
                self._stage(changed, removed, inserted)

    def _stage(self, node: Node, removed: dict[str, Node], inserted: dict[str, Node]) -> None:
        if node.name not in inserted:
            removed[node.name] = self._nodes[node.name]
        inserted[node.name] = node

    def _link(self, node: Node, rank: float) -> None:
        name, users = node.name, self._users
        self._nodes[name] = node
        if node.bodies:
            self._with_bodies[name] = None
        self._by_op.setdefault(node.op, {})[name] = None
        self._rank[name] = rank
        insort(self._ranks, rank)
        self._producer.update(dict.fromkeys(filter(None, node.outputs), name))
        for value in node.operands:
            users.setdefault(value, {})[name] = None
        self._sorted = None

    def _unlink(self, node: Node) -> None:
        del self._nodes[node.name]
        self._with_bodies.pop(node.name, None)
        same_operator = self._by_op[node.op]
        del same_operator[node.name]
        if not same_operator:
            del self._by_op[node.op]
        self._ranks.pop(bisect_left(self._ranks, self._rank.pop(node.name)))
        for value in filter(None, node.outputs):
            del self._producer[value]
        for value in node.operands:
            readers = self._users[value]
            del readers[node.name]
            if not readers:
                del self._users[value]
        self._sorted = None

    def _place(self, inserted: Mapping[str, Node], preferred_ranks: Mapping[str, float]) -> dict[str, float] | None:
        """Insert nodes in topological order, each just before its first user or at its preferred rank.

        Returns the former ranks of nodes that had to move; None, with nothing inserted, if there is a cycle.
        """
        if (nodes := sorted_among(inserted)) is None:
            return None
        for kept_ranks in (preferred_ranks, dict[str, float]()):  # a changed node keeps its rank if the order allows it
            for node in nodes:
                if node.name in kept_ranks:
                    self._link(node, kept_ranks[node.name])
            self._link_between([node for node in nodes if node.name not in kept_ranks])
            if all(map(self._fits, nodes)):
                return {}
            for node in nodes:
                self._unlink(node)
        self._link_between(nodes)
        order = topological(self._nodes, self._producer, self._rank)
        if order is None:
            for node in nodes:
                self._unlink(node)
            return None
        moved = {name: rank for name, rank in self._rank.items() if name not in inserted}
        self._set_ranks({name: float(i) for i, name in enumerate(order)})
        return moved

    def _link_between(self, nodes: Sequence[Node]) -> None:
        highest = rank_bounds(nodes, self._users, self._rank)
        for node in nodes:
            low = max(map(self._rank.__getitem__, self._producer_names(node)), default=-math.inf)
            self._link(node, rank_between(self._ranks, low, highest[node.name]))

    def _producer_names(self, node: Node) -> Iterator[str]:
        return (self._producer[v] for v in node.operands if v in self._producer)

    def _fits(self, node: Node) -> bool:
        rank = self._rank[node.name]
        follows_producers = all(self._rank[producer] < rank for producer in self._producer_names(node))
        return follows_producers and all(
            rank < self._rank[reader] for value in node.outputs for reader in self._users.get(value, ())
        )

    def _set_ranks(self, ranks: Mapping[str, float]) -> None:
        if ranks:
            self._rank.update(ranks)
            self._ranks = sorted(self._rank.values())
            self._sorted = None

    def _is_unused(self, value: str) -> bool:
        return value not in self._users and value not in self._output_set

    def _drop_unused(self, values: Iterable[str]) -> None:
        for value in values:
            if self._is_unused(value):
                self._constants.pop(value, None)
            if value not in self._producer and value not in self._input_set:
                self._types.pop(value, None)
