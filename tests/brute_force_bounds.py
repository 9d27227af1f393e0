"""What is least, by trying everything: an own reading of small models, against which the checker's proofs are held.

It shares no line with the checker. Shapes and types are those of a run by onnx's reference evaluator, functions are
inlined by onnx, and every alternative is tried: every order of axes and every type of each operator, every grouping,
every order of nodes, every place in an arena.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, inliner, numpy_helper
from onnx.reference import ReferenceEvaluator

ELEMENTWISE = ("Relu", "Neg", "Exp", "Abs", "Sigmoid", "Add", "Mul", "Sub", "Sum", "Max", "Cast")
IN_ANY_ORDER = (*ELEMENTWISE, "Softmax", "ReduceSum", "Concat", "Identity")
PRODUCTS, SELECTIONS, REDUCTIONS = ("MatMul", "Softmax"), ("Transpose", "Concat", "Slice", "Reshape"), ("ReduceSum",)
VIEWS = ("Identity", "Reshape")


class Model:
    """A model of operators of ONNX alone, with what it computes for one input."""

    def __init__(self, model: ModelProto) -> None:
        self.proto = inliner.inline_local_functions(model) if model.functions else model
        graph = self.proto.graph
        held = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        given = {value.name for value in graph.input}
        self.constants = {name: array for name, array in held.items() if name not in given}
        random = np.random.default_rng(0)
        self.fed = {
            value.name: held[value.name]
            if value.name in held
            else random.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(np.float32)
            for value in graph.input
        }
        self.outputs = [value.name for value in graph.output]
        self.nodes = [node for node in graph.node if node.op_type != "Constant"]
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """Every value, computed node by node."""
        values = {**self.constants, **self.fed}
        for node in self.nodes:
            values |= self.run(node, values)
        return values

    def run(self, node: NodeProto, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        reads = dict.fromkeys(filter(None, node.input))
        given = [
            helper.make_tensor_value_info(v, helper.np_dtype_to_tensor_dtype(values[v].dtype), None) for v in reads
        ]
        graph = helper.make_graph(
            [node], "one", given, [helper.make_empty_tensor_value_info(v) for v in node.output if v]
        )
        model = helper.make_model(graph, opset_imports=self.proto.opset_import)
        results = ReferenceEvaluator(model).run(None, {value: values[value] for value in reads})
        return dict(zip(filter(None, node.output), map(np.asarray, results), strict=True))

    @property
    def fixed(self) -> set[str]:
        """The values that depend on constants alone."""
        fixed = set(self.constants)
        for node in self.nodes:
            if fixed.issuperset(filter(None, node.input)):
                fixed.update(node.output)
        return fixed

    @property
    def computed(self) -> list[NodeProto]:
        fixed = self.fixed
        return [node for node in self.nodes if not fixed.issuperset(node.output)]


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def moves(model: Model, node: NodeProto) -> bool:
    """Whether a Transpose changes the place of an element."""
    shape = model.values[node.input[0]].shape
    perm = [axis for axis in attribute(node, "perm") if shape[axis] != 1]
    return perm != sorted(perm)


def is_view(model: Model, node: NodeProto) -> bool:
    return node.op_type in VIEWS or (node.op_type == "Transpose" and not moves(model, node))


def bytes_of(array: np.ndarray) -> int:
    return array.size * array.dtype.itemsize


# ---- Transposes ----------------------------------------------------------------------------------------------------


def least_transposed(model: Model) -> int:
    """The fewest bytes of all choices of one order of axes for each operator that runs in any; the others, inputs and
    outputs stay. All values have one number of axes."""
    root, order, fixed = {}, {}, model.fixed
    operators = [node for node in model.computed if node.op_type != "Transpose"]

    def place(value: str) -> tuple[str, tuple[int, ...]]:
        if value not in root:
            root[value], order[value] = value, tuple(range(model.values[value].ndim))
        return root[value], order[value]

    for node in model.computed:
        if node.op_type == "Transpose":
            source, axes = place(node.input[0])
            perm = attribute(node, "perm") or list(reversed(range(len(axes))))
            root[node.output[0]], order[node.output[0]] = source, tuple(axes[axis] for axis in perm)
    free = [node for node in operators if node.op_type in IN_ANY_ORDER]
    ranks = [model.values[node.output[0]].ndim for node in free]
    best = None
    for choice in itertools.product(*(itertools.permutations(range(rank)) for rank in ranks)):
        chosen = {id(node): perm for node, perm in zip(free, choice, strict=True)}
        given: dict[str, set[tuple[int, ...]]] = {}
        needed: dict[str, set[tuple[int, ...]]] = {}

        def use(where: dict[str, set[tuple[int, ...]]], value: str, perm: tuple[int, ...] | None) -> None:
            if value in fixed:
                return
            name, axes = place(value)
            axes = axes if perm is None else tuple(axes[axis] for axis in perm)
            lengths = model.values[name].shape
            where.setdefault(name, set()).add(tuple(axis for axis in axes if lengths[axis] != 1))

        for value in model.fed:
            use(given, value, None)
        for value in model.outputs:
            use(needed, value, None)
        for node in operators:
            for value in node.input:
                use(needed, value, chosen.get(id(node)))
            for value in node.output:
                use(given, value, chosen.get(id(node)))
        cost = sum(
            bytes_of(model.values[name]) * len(orders - given.get(name, set())) for name, orders in needed.items()
        )
        best = cost if best is None else min(best, cost)
    return best or 0


# ---- Casts -----------------------------------------------------------------------------------------------------------


def least_cast(model: Model, held: Sequence[str]) -> int:
    """The fewest bytes of all choices of float32 or float16 for each operator but those that are held."""
    root, fixed = {}, model.fixed
    for node in model.computed:
        if node.op_type == "Cast":
            root[node.output[0]] = root.get(node.input[0], node.input[0])
    operators = [node for node in model.computed if node.op_type != "Cast"]
    free = [node for node in operators if node.output[0] not in held]
    best = None
    for choice in itertools.product((False, True), repeat=len(free)):
        chosen = {id(node): narrow for node, narrow in zip(free, choice, strict=True)}
        uses = [(value, None) for value in (*model.fed, *model.outputs)]
        uses += [(value, chosen.get(id(node))) for node in operators for value in (*node.input, *node.output)]
        sides: dict[str, set[bool]] = {}
        for value, narrow in uses:
            if value not in fixed:
                own = model.values[value].dtype == np.float16 if narrow is None else narrow
                sides.setdefault(root.get(value, value), set()).add(bool(own))
        cost = sum(6 * model.values[name].size for name, both in sides.items() if len(both) > 1)
        best = cost if best is None else min(best, cost)
    return best or 0


# ---- Transposes and Casts --------------------------------------------------------------------------------------------


def least_moved(model: Model, held: Sequence[str]) -> int:
    """The fewest bytes that Casts and Transposes read and write, of all choices of one order of axes and of float32 or
    float16 for each operator. Those that do not run in any order keep theirs; those that are held keep their types."""
    root, order, fixed = {}, {}, model.fixed
    operators = [node for node in model.computed if node.op_type not in ("Transpose", "Cast")]
    for node in model.computed:
        if node.op_type in ("Transpose", "Cast"):
            source = node.input[0]
            axes = order.get(source, tuple(range(model.values[source].ndim)))
            turned = axes if node.op_type == "Cast" else tuple(axes[axis] for axis in attribute(node, "perm"))
            root[node.output[0]], order[node.output[0]] = root.get(source, source), turned
    choices = []
    for node in operators:
        own = model.values[node.output[0]].dtype == np.float16
        rank = model.values[node.output[0]].ndim
        orders = itertools.permutations(range(rank)) if node.op_type in IN_ANY_ORDER else [tuple(range(rank))]
        choices.append(list(itertools.product([bool(own)] if node.output[0] in held else (False, True), orders)))
    best = None
    for choice in itertools.product(*choices):
        given: dict[str, set[tuple[bool, tuple[int, ...]]]] = {}
        needed: dict[str, set[tuple[bool, tuple[int, ...]]]] = {}
        uses = [(given, value, None) for value in model.fed] + [(needed, value, None) for value in model.outputs]
        for node, chosen in zip(operators, choice, strict=True):
            uses += [(needed, value, chosen) for value in node.input] + [(given, v, chosen) for v in node.output]
        for where, value, chosen in uses:
            if value in fixed:
                continue
            axes = order.get(value, tuple(range(model.values[value].ndim)))
            narrow = bool(model.values[value].dtype == np.float16) if chosen is None else chosen[0]
            axes = axes if chosen is None else tuple(axes[axis] for axis in chosen[1])
            lengths = model.values[root.get(value, value)].shape
            form = (narrow, tuple(axis for axis in axes if lengths[axis] != 1))
            where.setdefault(root.get(value, value), set()).add(form)
        cost = sum(_converted(given[v], needed.get(v, set())) * model.values[v].size for v in given)
        best = cost if best is None else min(best, cost)
    return best or 0


@cache
def _cheapest(forms: frozenset[Any], needed: frozenset[Any]) -> int:
    """Bytes for each element, to have all forms of a value that are needed from those that there are: 6 for another
    type, 8 or 4 for another order."""
    if needed <= forms:
        return 0
    orders = {axes for _, axes in forms | needed}
    makes = []
    for narrow, axes in forms:
        makes += [((not narrow, axes), 6)] + [((narrow, other), 4 if narrow else 8) for other in orders]
    return min(bytes_ + _cheapest(forms | {form}, needed) for form, bytes_ in makes if form not in forms)


def _converted(given: set[Any], needed: set[Any]) -> int:
    return _cheapest(frozenset(given), frozenset(needed))


# ---- groups ----------------------------------------------------------------------------------------------------------


def partitions(items: Sequence[Any]) -> Iterator[list[list[Any]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for groups in partitions(rest):
        yield [[first], *groups]
        for number, group in enumerate(groups):
            yield [*groups[:number], [first, *group], *groups[number + 1 :]]


def traffic(model: Model, groups: Sequence[Sequence[int]]) -> int:
    """The bytes that groups of nodes, by number, read and write."""
    nodes, source = model.computed, {}
    for node in nodes:
        if is_view(model, node):
            source[node.output[0]] = source.get(node.input[0], node.input[0])
    group_of = {number: name for name, members in enumerate(groups) for number in members}
    producer = {v: n for n, node in enumerate(nodes) if not is_view(model, node) for v in node.output}
    users: dict[str, set[int]] = {}
    for number, node in enumerate(nodes):
        if not is_view(model, node):
            shown = [v for i, v in enumerate(node.input) if not (i and node.op_type in ("Slice", "ReduceSum"))]
            for value in shown:
                users.setdefault(source.get(value, value), set()).add(number)
    leaving = {source.get(value, value) for value in model.outputs}
    total = 0
    for value in {*users, *producer, *leaving}:
        own = group_of.get(producer[value]) if value in producer else None
        readers = {group_of[user] for user in users.get(value, ())} - {own}
        written = value in producer and (bool(readers) or value in leaving)
        total += bytes_of(model.values[value]) * (len(readers) + written)
    return total


def least_traffic(model: Model, rules: str) -> int:
    """The fewest bytes of all groupings that the rules allow."""
    nodes = model.computed
    allowed = (groups for groups in partitions(range(len(nodes))) if _is_allowed(model, nodes, groups, rules))
    return min(traffic(model, groups) for groups in allowed)


def _is_allowed(model: Model, nodes: Sequence[NodeProto], groups: Sequence[Sequence[int]], rules: str) -> bool:
    producer = {value: number for number, node in enumerate(nodes) for value in node.output}
    edges = [(producer[v], user, v) for user, node in enumerate(nodes) for v in node.input if v in producer]
    group_of = {number: name for name, members in enumerate(groups) for number in members}
    for members in groups:
        own = set(members)
        inside = [(a, b) for a, b, _ in edges if a in own and b in own]
        if sum(nodes[number].op_type in PRODUCTS for number in members) > 1 or not _is_connected(own, inside):
            return False
        last = {a for a, b, _ in edges if a in own and b not in own}
        last |= {n for n in members if set(nodes[n].output) & set(model.outputs)}
        last |= {n for n in members if not any(a == n for a, _, _ in edges)}
        if rules != "several" and len(last) > 1:
            return False
    for a, b, value in edges:
        if group_of[a] == group_of[b] and not _may_follow(model, nodes[a], nodes[b], value, rules):
            return False
    order = {(group_of[a], group_of[b]) for a, b, _ in edges if group_of[a] != group_of[b]}
    reached = set(order)
    for _ in groups:
        reached |= {(a, d) for a, b in reached for c, d in order if b == c}
    return all(a != b for a, b in reached)


def _is_connected(own: set[int], edges: Sequence[tuple[int, int]]) -> bool:
    seen = {min(own)}
    for _ in own:
        seen |= {b for a, b in edges if a in seen} | {a for a, b in edges if b in seen}
    return seen == own


def _may_follow(model: Model, source: NodeProto, user: NodeProto, value: str, rules: str) -> bool:
    if user.op_type in PRODUCTS:
        return False
    if source.op_type in REDUCTIONS:
        return rules != "same"
    if source.op_type in PRODUCTS:
        in_place = user.op_type in (*ELEMENTWISE, "Identity")
        same = in_place and model.values[value].shape == model.values[user.output[0]].shape
        return same or (rules != "same" and (in_place or user.op_type in SELECTIONS))
    return True


# ---- memory ----------------------------------------------------------------------------------------------------------


def peaks(model: Model) -> Iterator[int]:
    """The peak of each order of nodes, the file's first: views in place, elementwise results over an operand."""
    nodes = model.nodes
    for order in itertools.permutations(range(len(nodes))):
        done = {*model.constants, *model.fed}
        if all(done.issuperset(filter(None, nodes[n].input)) and not done.update(nodes[n].output) for n in order):
            yield _peak(model, [nodes[number] for number in order])


def _peak(model: Model, nodes: Sequence[NodeProto]) -> int:
    source: dict[str, str] = {}
    for node in nodes:
        if is_view(model, node):
            source[node.output[0]] = source.get(node.input[0], node.input[0])
    own = {v for node in nodes for v in node.output if v not in source}
    last = {source.get(v, v): step for step, node in enumerate(nodes) for v in (*node.input, *node.output)}
    last |= {source.get(v, v): len(nodes) for v in model.outputs}
    living, peak = set(), 0
    for step, node in enumerate(nodes):
        living |= {source.get(v, v) for v in node.output} & own
        over = []
        if node.op_type in ELEMENTWISE:
            result = model.values[node.output[0]]
            read = [v for v in node.input if source.get(v, v) in own and last[source.get(v, v)] == step]
            alike = [v for v in read if _form(model.values[v]) == _form(result)]
            over = [bytes_of(model.values[v]) for v in alike]
        peak = max(peak, sum(bytes_of(model.values[v]) for v in living) - max(over, default=0))
        living = {value for value in living if last[value] > step}
    return peak


def _form(array: np.ndarray) -> tuple[Any, ...]:
    return (array.shape, array.dtype.itemsize)


class Arena:
    """Runs a model in an arena, byte by byte, in the order of the file."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.data = {name: np.frombuffer(array.tobytes(), np.uint8) for name, array in model.values.items()}
        self.last = {v: step for step, node in enumerate(model.nodes) for v in node.input}
        self.last |= {v: len(model.nodes) for v in model.outputs}

    def runs(self, offsets: Mapping[str, int]) -> bool:
        """Whether each operator reads what was computed, and results lie over operands only where that is possible."""
        arena = np.zeros(max(offsets[v] + len(self.data[v]) for v in offsets), np.uint8) if offsets else np.zeros(0)
        for step, node in enumerate(self.model.nodes):
            for value in filter(None, node.input):
                if not self._is_right(value, offsets, arena):
                    return False
            for value in filter(None, node.output):
                if value in offsets:
                    if not self._may_write(step, node, value, offsets, arena):
                        return False
                    arena[offsets[value] : offsets[value] + len(self.data[value])] = self.data[value]
        return all(self._is_right(value, offsets, arena) for value in self.model.outputs)

    def _is_right(self, value: str, offsets: Mapping[str, int], arena: np.ndarray) -> bool:
        if value not in offsets:
            return True
        data = self.data[value]
        return bool(np.array_equal(arena[offsets[value] : offsets[value] + len(data)], data))

    def _may_write(self, step: int, node: NodeProto, value: str, offsets: Mapping[str, int], arena: np.ndarray) -> bool:
        begin, data = offsets[value], self.data[value]
        for operand in filter(None, node.input):
            if operand not in offsets:
                continue
            first, size = offsets[operand], len(self.data[operand])
            if first >= begin + len(data) or begin >= first + size:
                continue
            common = slice(max(first, begin), min(first + size, begin + len(data)))
            unchanged = np.array_equal(arena[common], data[common.start - begin : common.stop - begin])
            over = node.op_type in ELEMENTWISE and first == begin and self.last.get(operand) == step
            alike = _form(self.model.values[operand]) == _form(self.model.values[value])
            if not unchanged and not (over and alike):
                return False
        return True

    def smallest(self, unit: int, below: int) -> int | None:
        """The bytes of the smallest arena below so many, with places that are multiples of a unit; None if none is."""
        names = [value for node in self.model.nodes for value in node.output if value]
        for total in range(unit, below, unit):
            places = [range(0, total - len(self.data[name]) + 1, unit) for name in names]
            if any(self.runs(dict(zip(names, chosen, strict=True))) for chosen in itertools.product(*places)):
                return total
        return None
