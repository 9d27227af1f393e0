"""What the checker proves of random models is true: held against everything that there is to try.

The models have what others would hide in: functions of all kinds of names, inputs with a default, nodes without
results, every order of nodes, and Constants here and there."""

import random
import re

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.brute_force_bounds import (
    Arena,
    Model,
    bytes_of,
    least_cast,
    least_moved,
    least_traffic,
    least_transposed,
    moves,
    peaks,
    traffic,
)
from tests.forging import forged
from tests.slow import thorough_unless
from workbench.checker.outcome import DoesNotHold
from workbench.checker.output import Output

UNARY, BINARY = ("Relu", "Neg", "Exp", "Abs", "Sigmoid"), ("Add", "Mul", "Sub", "Max")
NAMES = ("Hide", "Relu_NHWC", "Conv_NHWC", "group_1", "Silu", "ConvRelu_NHWC__pads", "MaxPool_NCHW8c")
OPSET = 17


class Drawn:
    """A random model: nodes by nodes, and the shapes of what they compute."""

    def __init__(self, seed, inputs):
        self.draw = random.Random(seed)
        self.nodes, self.constants = [], []
        self.shapes = dict(inputs)
        self.inputs = tuple(inputs)
        self.computed = []

    def add(self, op, reads, shape, domain="", **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, reads, [name], domain=domain, **attributes))
        self.shapes[name] = tuple(shape)
        self.computed.append(name)
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def value(self):
        return self.draw.choice([*self.inputs, *self.computed])

    def alike(self, value):
        return self.draw.choice([v for v in (*self.inputs, *self.computed) if self.shapes[v] == self.shapes[value]])

    def elementwise(self):
        value = self.value()
        if self.draw.random() < 0.5:
            return self.add(self.draw.choice(UNARY), [value], self.shapes[value])
        return self.add(self.draw.choice(BINARY), [value, self.alike(value)], self.shapes[value])

    def model(self, types=None, outputs=None):
        """types: of values that are not float32. Unread values are outputs, and others by chance."""
        read = {value for node in self.nodes for value in node.input}
        leaving = (
            [v for v in self.computed if v not in read or self.draw.random() < 0.15] if outputs is None else outputs
        )
        types = types or {}

        def info(value):
            return helper.make_tensor_value_info(value, types.get(value, 1), self.shapes[value])

        graph = helper.make_graph(
            self.nodes, "g", [info(v) for v in self.inputs], [info(v) for v in leaving], self.constants
        )
        opsets = [helper.make_opsetid(domain, OPSET if not domain else 1) for domain in ("", "d", "workbench")]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def with_functions(model, draw):
    """The model with runs of nodes in functions, so that each is called once."""
    nodes, result = list(model.graph.node), []
    producers = {value: node for node in nodes for value in node.output}
    kept = {value.name for value in model.graph.output}
    while nodes:
        many = draw.choice((1, 1, 2, 3))
        body, nodes = nodes[:many], nodes[many:]
        if many == 1 and draw.random() < 0.7:
            result += body
            continue
        made = [value for node in body for value in node.output]
        reads = list(dict.fromkeys(v for node in body for v in node.input if v not in made))
        later = {value for node in nodes for value in node.input} | kept
        gives = [value for value in made if value in later]
        if not gives or not all(v in producers or v in {i.name for i in model.graph.input} for v in reads):
            result += body
            continue
        domain, name = (
            draw.choice(("workbench", "d")),
            f"{draw.choice(NAMES)}{'__' if draw.random() < 0.5 else '_'}{len(result)}",
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model.functions.append(helper.make_function(domain, name, reads, gives, body, opsets))
        result.append(helper.make_node(name, reads, gives, domain=domain))
    del model.graph.node[:]
    model.graph.node.extend(result)
    return model


def in_another_order(model, draw):
    waiting, done, result = list(model.graph.node), {v.name for v in model.graph.input}, []
    done |= {tensor.name for tensor in model.graph.initializer}
    while waiting:
        ready = [node for node in waiting if done.issuperset(filter(None, node.input))]
        node = draw.choice(ready)
        waiting.remove(node)
        result.append(node)
        done.update(node.output)
    del model.graph.node[:]
    model.graph.node.extend(result)
    return model


def proven_and_told(folder, model, bound):
    found = forged(folder, model, model, bounds=[bound])
    result = found.check()
    return "bounds" in result.holds, [one.sentence for one in result.statements]


def is_rightly_proven(seed, cost, least, is_proven, told):
    """Whether the cost is proven to be the least; what is proven otherwise is not more than the least."""
    assert not is_proven or cost == least, (seed, cost, least, told)
    assert is_proven or only_proven(told) <= least, (seed, least, told)
    return is_proven


def only_proven(told):
    """The bytes that are proven to be needed where the model has more."""
    (found,) = (
        re.search(r"proven is only that no alternative [a-z ]+ less than ([\d,]+) bytes", s)
        for s in told
        if "only" in s
    )
    return int(found[1].replace(",", ""))


MANY = [thorough_unless(seeds.stop <= 40, seeds) for seeds in (range(40), range(1000, 2000))]


# ---- Transposes ----------------------------------------------------------------------------------------------------


def turning(seed):
    side = random.Random(seed).choice(((3, 3), (2, 2, 2), (1, 3, 3), (2, 1, 2)))
    drawn = Drawn(seed, {"x": side})
    for _ in range(drawn.draw.choice((3, 4, 5, 6))):
        roll, value = drawn.draw.random(), drawn.value()
        shape = drawn.shapes[value]
        if roll < 0.4:
            perm = drawn.draw.sample(range(len(shape)), len(shape))
            drawn.add("Transpose", [value], [shape[axis] for axis in perm], perm=perm)
        elif roll < 0.5 and shape[-1] == shape[-2]:
            weight = drawn.constant(np.ones((shape[-1], shape[-1]), np.float32))
            drawn.add("MatMul", [value, weight], shape)
        elif roll < 0.6:
            drawn.add("Softmax", [value], shape, axis=drawn.draw.randrange(len(shape)))
        elif roll < 0.7:
            axis = drawn.draw.randrange(len(shape))
            reduced = [1 if number == axis else size for number, size in enumerate(shape)]
            drawn.add("ReduceSum", [value, drawn.constant(np.array([axis]))], reduced, keepdims=1)
        else:
            drawn.elementwise()
    return in_another_order(drawn.model(), drawn.draw), drawn.draw


@pytest.mark.slow
@pytest.mark.parametrize("seeds", MANY)
def test_no_order_of_axes_moves_less_than_what_is_proven(tmp_path, seeds):
    proven = 0
    for seed in seeds:
        model, draw = turning(seed)
        own = Model(model)
        moved = sum(
            bytes_of(own.values[node.input[0]])
            for node in own.computed
            if node.op_type == "Transpose" and moves(own, node)
        )
        least = least_transposed(own)
        shown = with_functions(model, draw) if seed % 2 else model
        is_proven, told = proven_and_told(tmp_path, shown, {"kind": "transposes", "weigh": "bytes", "in_order": []})
        assert any(f"which moves {moved:,} bytes" in s or f"which move {moved:,} bytes" in s for s in told), seed
        proven += is_rightly_proven(seed, moved, least, is_proven, told) and moved > 0
    assert proven > len(seeds) // 20


# ---- Casts -----------------------------------------------------------------------------------------------------------


def casting(seed):
    drawn = Drawn(seed, {"x": (2, 3)})
    types = {"x": 1}
    for _ in range(drawn.draw.choice((3, 4, 5, 6))):
        value = drawn.value()
        if drawn.draw.random() < 0.5:
            to = 10 if types[value] == 1 else 1
            types[drawn.add("Cast", [value], (2, 3), to=to)] = to
            continue
        other = drawn.draw.choice([v for v in types if types[v] == types[value]])
        two = drawn.draw.random() < 0.5
        made = drawn.add(drawn.draw.choice(BINARY if two else UNARY), [value, other][: 1 + two], (2, 3))
        types[made] = types[value]
    return drawn.model(types), drawn


@pytest.mark.parametrize("seeds", MANY)
def test_no_types_read_and_write_less_than_what_is_proven(tmp_path, seeds):
    proven = 0
    for seed in seeds:
        model, drawn = casting(seed)
        own = Model(model)
        casts = [node for node in own.computed if node.op_type == "Cast"]
        cost = sum(6 * own.values[node.input[0]].size for node in casts)
        held = [n.output[0] for n in own.computed if n.op_type != "Cast" and drawn.draw.random() < 0.4]
        least = least_cast(own, held)
        shown = with_functions(model, drawn.draw) if seed % 2 and not held else model
        is_proven, told = proven_and_told(tmp_path, shown, {"kind": "casts", "weigh": "bytes", "in_type": held})
        assert any(f"{cost:,} bytes" in sentence for sentence in told), seed
        proven += is_rightly_proven(seed, cost, least, is_proven, told) and cost > 0
    assert proven > len(seeds) // 20


# ---- Transposes and Casts ------------------------------------------------------------------------------------------


def turning_and_casting(seed):
    drawn = Drawn(seed, {"x": (3, 3)})
    types = {"x": 1}
    for _ in range(drawn.draw.choice((4, 5, 6, 7))):
        value, roll = drawn.value(), drawn.draw.random()
        if roll < 0.25:
            to = 10 if types[value] == 1 else 1
            types[drawn.add("Cast", [value], (3, 3), to=to)] = to
            continue
        if roll < 0.45:
            made = drawn.add("Transpose", [value], (3, 3), perm=[1, 0])
        else:
            op = drawn.draw.choice((*UNARY, *BINARY, "MatMul"))
            other = drawn.draw.choice([v for v in types if types[v] == types[value]])
            made = drawn.add(op, [value, other][: 1 + (op not in UNARY)], (3, 3))
        types[made] = types[value]
    return drawn.model(types), drawn


@pytest.mark.parametrize("seeds", MANY)
def test_no_orders_and_types_read_and_write_less_than_what_is_proven(tmp_path, seeds):
    proven = 0
    for seed in seeds:
        model, drawn = turning_and_casting(seed)
        own = Model(model)
        cost = sum(
            sum(bytes_of(own.values[value]) for value in (*node.input, *node.output))
            for node in own.computed
            if node.op_type in ("Cast", "Transpose")
        )
        held = [n.output[0] for n in own.computed if n.op_type not in ("Cast", "Transpose")]
        held = [value for value in held if drawn.draw.random() < 0.6]
        least = least_moved(own, held)
        bound = {"kind": "traffic", "in_order": [], "in_type": held}
        is_proven, told = proven_and_told(tmp_path, model, bound)
        assert any(f"read and write {cost:,} bytes" in sentence for sentence in told), (seed, told)
        proven += is_rightly_proven(seed, cost, least, is_proven, told) and cost > 0
    assert proven > len(seeds) // 20


# ---- groups ----------------------------------------------------------------------------------------------------------


def grouping(seed):
    """Every other one with long chains."""
    drawn = Drawn(seed, {"x": (3, 3), "z": (3, 3)})
    for _ in range(drawn.draw.choice((4, 5, 6, 7))):
        roll, value = drawn.draw.random(), drawn.value()
        if seed % 2 and drawn.computed and drawn.draw.random() < 0.6:
            value = drawn.computed[-1]
        shape = drawn.shapes[value]
        if roll < 0.25 and shape == (3, 3):
            drawn.add("MatMul", [value, drawn.alike(value)], shape)
        elif roll < 0.35:
            drawn.add("ReduceSum", [value, drawn.constant(np.array([1]))], (shape[0], 1), keepdims=1)
        elif roll < 0.45:
            drawn.add("Transpose", [value], shape[::-1], perm=[1, 0])
        elif roll < 0.5:
            drawn.add("Identity", [value], shape)
        elif roll < 0.6:
            drawn.add("Concat", [value, drawn.alike(value)], (2 * shape[0], shape[1]), axis=0)
        elif roll < 0.7 and shape[0] > 1:
            ends = [drawn.constant(np.array([number])) for number in (0, shape[0] - 1, 0)]
            drawn.add("Slice", [value, *ends], (shape[0] - 1, shape[1]))
        else:
            drawn.elementwise()
    return drawn.model(), drawn.draw


@pytest.mark.parametrize("rules", ["same", "wider", "several"])
@pytest.mark.parametrize(
    "seeds", [thorough_unless(seeds.stop <= 40, seeds) for seeds in (range(20), range(1000, 1300))]
)
def test_no_groups_read_and_write_less_than_what_is_proven(tmp_path, seeds, rules):
    tight = 0
    for seed in seeds:
        model, draw = grouping(seed)
        own = Model(model)
        least = least_traffic(own, rules)
        alone = traffic(own, [[number] for number in range(len(own.computed))])
        is_proven, told = proven_and_told(tmp_path, model, {"kind": "groups", "rules": rules})
        assert any(f"read and write {alone:,} bytes" in sentence for sentence in told), (seed, alone, told)
        assert not is_proven or alone == least, seed
        bound = alone if is_proven else only_proven(told)
        assert bound <= least, (seed, bound, least)
        tight += bound == least
        shown = with_functions(model, draw)
        is_proven, told = proven_and_told(tmp_path, shown, {"kind": "groups", "rules": rules})
        if is_proven:
            assert any(f"read and write {least:,} bytes" in sentence for sentence in told), seed
    assert tight > len(seeds) * 0.9


# ---- memory ----------------------------------------------------------------------------------------------------------


def remembering(seed):
    """No two values have the same numbers, unless one is a piece of the other."""
    drawn = Drawn(seed, {"x": (2, 2)})
    numbers = np.random.default_rng(seed)
    for _ in range(drawn.draw.choice((2, 3, 4))):
        roll, value = drawn.draw.random(), drawn.value()
        shape = drawn.shapes[value]
        if roll < 0.2 and shape[0] > 1:
            cut = drawn.draw.randrange(1, shape[0])
            first, last = drawn.draw.choice(((0, cut), (cut, shape[0])))
            ends = [drawn.constant(np.array([number])) for number in (first, last, 0)]
            drawn.add("Slice", [value, *ends], (last - first, shape[1]))
        elif roll < 0.35:
            reads = [value, drawn.alike(value)]
            if not any(node.op_type == "Concat" and list(node.input) == reads for node in drawn.nodes):
                drawn.add("Concat", reads, (2 * shape[0], shape[1]), axis=0)
        elif roll < 0.45:
            drawn.add("Reshape", [value, drawn.constant(np.array([-1, 2]))], shape)
        elif roll < 0.55 and shape[0] == shape[1] and not any(node.op_type == "Transpose" for node in drawn.nodes):
            drawn.add("Transpose", [value], shape, perm=[1, 0])
        elif roll < 0.75:
            drawn.add("Add", [value, drawn.constant(numbers.standard_normal(shape).astype(np.float32))], shape)
        else:
            scaled = drawn.constant(numbers.standard_normal(shape).astype(np.float32))
            drawn.add("Sum", [value, drawn.alike(value), scaled], shape)
    return in_another_order(drawn.model(), drawn.draw), drawn


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds", [thorough_unless(seeds.stop <= 60, seeds) for seeds in (range(60), range(1000, 1600))]
)
def test_no_plan_that_is_accepted_overwrites_what_is_read(tmp_path, seeds):
    """And where an arena is proven, no smaller one runs, whatever lies where."""
    accepted = proven = 0
    for seed in seeds:
        model, drawn = remembering(seed)
        own = Model(model)
        arena = Arena(own)
        values = [value for node in own.nodes for value in node.output]
        most = sum(bytes_of(own.values[value]) for value in values)
        for _ in range(8):
            offsets = {
                value: 8 * drawn.draw.randrange(most // 8 if drawn.draw.random() < 0.3 else 4) for value in values
            }
            try:
                is_proven, told = proven_and_told(tmp_path, model, {"kind": "plan", "offsets": offsets})
            except DoesNotHold:
                continue
            accepted += 1
            assert arena.runs(offsets), (seed, offsets)
            total = max(offsets[value] + bytes_of(own.values[value]) for value in values)
            assert any(f"an arena of {total:,} bytes" in sentence for sentence in told)
            if is_proven:
                proven += 1
                assert arena.smallest(8, total) is None, (seed, offsets)
    assert accepted > len(seeds) and proven > len(seeds) // 20


@pytest.mark.parametrize("seeds", MANY)
def test_no_order_takes_less_than_what_is_proven(tmp_path, seeds):
    proven = 0
    for seed in seeds:
        model, _ = remembering(seed)
        own = Model(model)
        first, *others = peaks(own)
        is_proven, told = proven_and_told(tmp_path, model, {"kind": "order"})
        assert any(f"take {first:,} bytes at most" in sentence for sentence in told), (seed, first, told)
        assert not is_proven or first == min((first, *others)), seed
        proven += is_proven
    assert proven > len(seeds) // 10


# ---- inputs with a default -------------------------------------------------------------------------------------------


def test_sizes_that_are_known_are_those_of_every_call(tmp_path):
    """Whatever a caller gives in place of a default, values have the sizes that the checker infers."""
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[8] x, int64[1] k) => (float[n] y, float[m] w)
    <int64[1] zero = {0}, int64[1] four = {4}> {
        a = Slice(x, zero, k) b = Shape(a) c = Concat<axis=0>(b) d = ConstantOfShape(c) y = Add(a, d)
        s = Slice(x, zero, four) t = Relu(s) h = Shape(t) w = Reshape(t, h)
    }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.array([3]), "k"))
    found = forged(tmp_path, model, model)
    found.check()
    from workbench.checker.files import plain_model, read_proto

    output = Output(plain_model(read_proto(found.output), tmp_path, "m"), {}, "'m'")
    for given in (3, 5):
        own = Model(model)
        own.fed["k"] = np.array([given])
        for value, array in own.values.items():
            size = output.inferred.bytes(value)
            assert size is None or size == bytes_of(array), (value, given)
    assert output.inferred.bytes("t") == 16 and output.inferred.bytes("a") is None
