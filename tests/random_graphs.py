"""Random well-typed graphs: the examples of the rules as fragments, grown together by operators of the contracts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import numpy as np

from tests.running import typed
from workbench.analysis.inference.shapes import infer_types
from workbench.evidence.verification.pass_files.example_graphs import with_types_of_values
from workbench.ir import DataType, Graph, Node, TensorType, from_text
from workbench.ir.types import constant

OPSET = 23
LARGEST = 512  # elements of a value that grows further
FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE)
UNARY = (
    *("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Softplus", "Softsign", "Erf", "Gelu", "HardSwish", "Sqrt"),
    *("HardSigmoid", "LeakyRelu", "Elu", "Selu", "Floor", "Reciprocal", "Identity", "Sin", "Mish", "Log", "Sign"),
)
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu")
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd", "ReduceLogSumExp")
NUMBERS = (0.5, 1.0, 2.0, -1.0, 0.0, -0.5, 3.0)  # of constants


class Growing:
    """A graph that grows at its end: nodes, constants, and the types of all values that operators can read."""

    def __init__(self, draw: random.Random, opset_imports: Mapping[str, int]) -> None:
        self.draw = draw
        self.numbers = np.random.default_rng(draw.getrandbits(32))
        self.opset_imports = dict(opset_imports)
        self.functions: dict = {}
        self.nodes: list[Node] = []
        self.constants: dict = {}
        self.inputs: dict[str, TensorType] = {}
        self.types: dict = {}
        self.hidden: set[str] = set()  # values that nothing else reads, so that rules that ask for that fire
        self.made = 0

    def name(self, stem: str) -> str:
        self.made += 1
        return f"{stem}{self.made}"

    def input(self, type_: TensorType) -> str:
        name = self.name("x")
        self.inputs[name] = self.types[name] = type_
        return name

    def constant(self, array: np.ndarray) -> str:
        name = self.name("c")
        self.constants[name] = constant(array, name)
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def floats(self, dtype: DataType, *shape: int) -> str:
        """A constant: neutral and plain numbers, or normal ones, or one number everywhere."""
        kind = self.draw.randrange(3)
        if kind == 0:
            array = np.full(shape, self.draw.choice(NUMBERS))
        elif kind == 1:
            array = self.numbers.choice(NUMBERS, shape)
        else:
            array = self.numbers.standard_normal(shape)
        return self.constant(np.asarray(array).astype(dtype.numpy()))

    def emit(self, op: str, inputs: list[str], outputs: int = 1, **attributes) -> tuple[str, ...]:
        names = tuple(self.name("v") for _ in range(outputs))
        node = Node(op, tuple(inputs), names, attributes, name=self.name("n"))
        self.nodes.append(node)
        self.infer()
        return names

    def infer(self) -> None:
        """The types of all values anew."""
        read = {v for node in self.nodes for v in node.operands}
        made = [v for node in self.nodes for v in node.outputs if v]
        graph = self.graph([v for v in made if v not in read])
        self.types = {**self.inputs, **infer_types(graph, {})}

    def graph(self, outputs: list[str]) -> Graph:
        return Graph(
            name="g",
            inputs=tuple(self.inputs),
            outputs=outputs,
            nodes=self.nodes,
            constants=self.constants,
            types={**self.inputs},
            opset_imports=self.opset_imports,
            functions=self.functions,
        )

    def value(self, fits: Callable[[TensorType], bool]) -> tuple[str, TensorType] | None:
        """A value that operators can read, the later the likelier; None where none fits."""
        known = [(v, t) for v, t in self.types.items() if isinstance(t, TensorType) and t.shape is not None]
        fitting = [(v, t) for v, t in known if not (v in self.constants or v in self.hidden or _large(t)) and fits(t)]
        return None if not fitting else self.draw.choice(fitting[-6:])

    def float_value(self, least_rank: int = 0, rank: int | None = None) -> tuple[str, TensorType] | None:
        """One of floats, of that rank, whose dims are numbers but for the first."""

        def fits(type_: TensorType) -> bool:
            good = type_.dtype in FLOATS and all(isinstance(d, int) and d for d in type_.shape[1:])
            return good and len(type_.shape) >= least_rank and rank in (None, len(type_.shape))

        return self.value(fits)


def _large(type_: TensorType) -> bool:
    return type_.elements is not None and type_.elements > LARGEST


# ---- operators ----------------------------------------------------------------------------


def _unary(g: Growing) -> None:
    if found := g.float_value():
        g.emit(g.draw.choice(UNARY), [found[0]])


def _binary(g: Growing) -> None:
    """The other operand: the value itself, another of its shape, a constant or an input of lower rank or of axes of 1."""
    if not (found := g.float_value()):
        return
    value, type_ = found
    op = g.draw.choice(BINARY)
    shape = tuple(d if isinstance(d, int) and g.draw.random() < 0.6 else 1 for d in type_.shape)
    shape = shape[g.draw.randrange(len(shape) + 1) :]
    kind = g.draw.randrange(5)
    if kind == 0 and (other := g.value(lambda t: t == type_)):
        operands = [value, other[0]]
    elif kind == 1:
        operands = [value, g.input(TensorType(type_.dtype, shape))]
    else:
        operands = [value, g.floats(type_.dtype, *shape)]
    g.emit(op, operands[::-1] if op != "PRelu" and g.draw.random() < 0.3 else operands)


def _reduce(g: Growing) -> None:
    if found := g.float_value(least_rank=1):
        axes = g.draw.sample(range(len(found[1].shape)), g.draw.randint(1, len(found[1].shape)))
        g.emit(g.draw.choice(REDUCTIONS), [found[0], g.ints(*sorted(axes))], keepdims=g.draw.randrange(2))


def _transpose(g: Growing) -> None:
    if found := g.float_value(least_rank=2):
        rank = len(found[1].shape)
        usual = [(0, 2, 3, 1), (0, 3, 1, 2)] if rank == 4 else []
        perm = g.draw.choice([*usual, *usual, tuple(g.draw.sample(range(rank), rank))])
        g.emit("Transpose", [found[0]], perm=perm)


def _reshape(g: Growing) -> None:
    if found := g.float_value(least_rank=1):
        value, type_ = found
        rank = len(type_.shape)
        kind = g.draw.randrange(4)
        if kind == 0:
            g.emit("Reshape", [value, g.ints(0, -1) if rank > 1 else g.ints(-1)])
        elif kind == 1:
            g.emit("Unsqueeze", [value, g.ints(g.draw.randint(0, rank))])
        elif kind == 2 and 1 in type_.shape:
            g.emit("Squeeze", [value, g.ints(type_.shape.index(1))])
        else:
            g.emit("Flatten", [value], axis=g.draw.randint(0, rank))


def _cut(g: Growing) -> None:
    if not (found := g.float_value(least_rank=2)):
        return
    value, type_ = found
    axis = g.draw.randrange(1, len(type_.shape))
    dim = type_.shape[axis]
    kind = g.draw.randrange(4)
    if kind == 0:
        step = g.draw.choice([1, 1, 2, -1])
        ends = (-1, -dim - 1) if step < 0 else (g.draw.randrange(dim), dim)
        g.emit("Slice", [value, g.ints(ends[0]), g.ints(ends[1]), g.ints(axis), g.ints(step)])
    elif kind == 1 and dim > 1:
        first = g.draw.randrange(1, dim)
        g.emit("Split", [value, g.ints(first, dim - first)], 2, axis=axis)
    elif kind == 2:
        g.emit("Gather", [value, g.ints(*(g.draw.randrange(dim) for _ in range(2)))], axis=axis)
    else:
        g.emit("Pad", [value, g.ints(*(g.draw.randrange(2) for _ in range(2 * len(type_.shape))))])


def _join(g: Growing) -> None:
    if found := g.float_value(least_rank=1):
        value, type_ = found
        other = g.value(lambda t: t == type_)
        axis = g.draw.randrange(len(type_.shape))
        if g.draw.random() < 0.7:
            g.emit("Concat", [value, other[0]], axis=axis)
        else:
            g.emit("Expand", [value, g.ints(2, *(1 for _ in type_.shape))])


def _image(g: Growing) -> None:
    """What reads images; where there is none, an image."""
    found = g.float_value(rank=4)
    if not found or min(found[1].shape[2:]) < 2 or g.draw.random() < 0.2:
        found = (x := g.input(TensorType(DataType.FLOAT, (1, 4, 5, 6))), g.inputs[x])
    value, type_ = found
    channels, dtype = type_.shape[1], type_.dtype
    window = {"kernel_shape": (2, 2), "strides": (2, 2), "pads": (0, 0, g.draw.randrange(2), 0)}
    op = g.draw.choice(["Conv", "Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", *LATER])
    if op == "Conv":
        bias = [g.floats(dtype, 4)] if g.draw.random() < 0.5 else []
        side = g.draw.choice([1, 1, 3])
        g.emit("Conv", [value, g.floats(dtype, 4, channels, side, side), *bias], pads=(side // 2,) * 4)
    elif op == "ConvTranspose":
        g.emit(op, [value, g.floats(dtype, channels, 2, 1, 1)])
    elif op in ("MaxPool", "AveragePool"):
        g.emit(op, [value], **window)
    elif op == "BatchNormalization":
        variance = g.constant((0.5 + np.abs(g.numbers.standard_normal(channels))).astype(dtype.numpy()))
        g.emit(op, [value, *(g.floats(dtype, channels) for _ in range(3)), variance])
    elif op == "InstanceNormalization":
        g.emit(op, [value, g.floats(dtype, channels), g.floats(dtype, channels)])
    elif op == "Resize":
        sizes = g.constant(np.array([1, 1, 2, 2], np.float32))
        g.emit(
            op, [value, "", sizes], mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
        )
    else:
        g.emit(op, [value])


LATER = ("BatchNormalization", "InstanceNormalization", "Resize")


def _matrix(g: Growing) -> None:
    if found := g.float_value(least_rank=2):
        value, type_ = found
        width, dtype = type_.shape[-1], type_.dtype
        op = g.draw.choice(["MatMul", "Gemm", "Softmax", "LogSoftmax", "LayerNormalization", "ArgMax", "CumSum"])
        if op == "MatMul":
            g.emit(op, [value, g.floats(dtype, width, 3)])
        elif op == "Gemm" and len(type_.shape) == 2:
            g.emit(op, [value, g.floats(dtype, 3, width), g.floats(dtype, 3)], transB=1)
        elif op == "LayerNormalization":
            g.emit(op, [value, g.floats(dtype, width), g.floats(dtype, width)], axis=-1)
        elif op == "CumSum":
            g.emit(op, [value, g.constant(np.array(1, np.int64))])
        elif op != "Gemm":
            g.emit(op, [value], axis=len(type_.shape) - 1)


def _choose(g: Growing) -> None:
    """Where, Clip, Cast to and fro, Shape, and a branch that is taken when it runs."""
    if not (found := g.float_value()):
        return
    value, type_ = found
    kind = g.draw.randrange(5)
    if kind == 0:
        (mask,) = g.emit("Greater", [value, g.floats(type_.dtype)])
        g.emit("Where", [mask, value, g.floats(type_.dtype)])
    elif kind == 1:
        low, high = g.constant(np.array(-1, type_.dtype.numpy())), g.constant(np.array(2, type_.dtype.numpy()))
        g.emit("Clip", [value, low, high])
    elif kind == 2:
        (wide,) = g.emit("Cast", [value], to=int(DataType.DOUBLE))
        g.emit("Cast", [wide], to=int(type_.dtype))
    elif kind == 3:
        g.emit("Shape", [value])
    else:
        taken = g.input(TensorType(DataType.BOOL, ()))
        branches = {f"{word}_branch": _branch(value, g.draw.choice(UNARY[:4]), type_) for word in ("then", "else")}
        g.emit("If", [taken], **branches)


def _branch(captured: str, op: str, type_: TensorType) -> Graph:
    return Graph(
        name=op, outputs=("inner",), nodes=[Node(op, (captured,), ("inner",), name=op)], types={"inner": type_}
    )


OPERATORS = (_unary, _unary, _binary, _binary, _reduce, _transpose, _transpose, _reshape, _cut, _join, _image, _image)
OPERATORS = (*OPERATORS, _matrix, _choose)


# ---- fragments -----------------------------------------------------------------------------


def _embed(g: Growing, fragment: Graph) -> None:
    """The fragment's nodes under new names; some of its inputs read values that there are."""
    names: dict[str, str] = {}
    for value in fragment.inputs:
        type_ = fragment.tensor_type(value)
        there = g.value(lambda t, wanted=type_: t == wanted)
        names[value] = there[0] if there and g.draw.random() < 0.7 else g.input(type_)
    for value, tensor in fragment.constants.items():
        names[value] = g.name("c")
        g.constants[names[value]] = tensor
    names |= {v: g.name("v") for node in fragment.nodes for v in node.outputs if v}
    for node in fragment.nodes:
        renamed = node.with_values_renamed(names)
        g.nodes.append(renamed.replace(outputs=tuple(names.get(v, "") for v in node.outputs), name=g.name("n")))
    if g.draw.random() < 0.7:
        g.hidden |= {names[v] for node in fragment.nodes for v in node.outputs if v and v not in fragment.outputs}
    g.functions.update(fragment.functions)
    g.opset_imports.update(fragment.opset_imports)
    g.infer()


def fragment(text: str, draw: random.Random) -> Graph:
    """The example as a graph; its symbolic dims are sometimes numbers."""
    if draw.random() < 0.6:
        return typed(text)
    graph = from_text(text)
    dims = {v: graph.tensor_type(v) for v in graph.inputs}
    bound = {v: t.with_shape(tuple(d if isinstance(d, int) else 2 for d in t.shape)) for v, t in dims.items()}
    return Graph(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        nodes=graph.nodes,
        constants=graph.constants,
        types=bound,
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )


def random_graph(seed: int, texts: list[str], operators: int = 6) -> Graph:
    """A graph that holds these fragments and up to that many operators before, between and behind them.

    A fragment of another opset stands alone.
    """
    draw = random.Random(seed)
    fragments = [fragment(text, draw) for text in texts]
    fragments = [f for f in fragments if f.opset_imports[""] == fragments[0].opset_imports[""]]
    g = Growing(draw, fragments[0].opset_imports if fragments else {"": OPSET})
    grows = g.opset_imports[""] == OPSET
    if grows:
        draw.choice([_image, lambda g: g.input(TensorType(DataType.FLOAT, ("N", 4, 6)))])(g)
    for one in fragments:
        _embed(g, one)
        for _ in range(draw.randint(0, operators) if grows else 0):
            draw.choice(OPERATORS)(g)
    return _finished(g)


def _finished(g: Growing) -> Graph:
    """Outputs are what nothing reads, and one value in eight beside them."""
    read = {v for node in g.nodes for v in node.operands}
    made = [v for node in g.nodes for v in node.outputs if v]
    graph = g.graph([v for v in made if v not in read or (v not in g.hidden and g.draw.random() < 0.125)])
    return with_types_of_values(graph)
