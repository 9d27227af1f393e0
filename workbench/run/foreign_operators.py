"""Stand-ins for operators that nothing here runs, so that two models with them can be compared.

A call of an operator without kernel and without function becomes, in a copy of the file, a seeded function of its
operands that ONNX defines, in bodies too. Two calls of one operator with the same attributes become the same function.
If a result has the sizes of the first operand it is computed element by element, so that any order of axes gives the
same. Where its sizes are not known, it is taken to have them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, defs, helper, numpy_helper

from workbench.formats.io.checks import nodes_and_inner
from workbench.ir import DataType, TensorType
from workbench.ir.from_proto import bodies
from workbench.ir.to_proto import LARGE
from workbench.rewrite.external.files import MAX_INSIDE

_DEFAULT_DOMAINS = ("", "ai.onnx")
_PREFIX = "workbench_stand_in"
_FLOATS = TensorType(DataType.FLOAT, None)
TypeOf = Callable[[str], TensorType | None]


def foreign_operators(file: Path) -> tuple[str, ...]:
    """The names of operators that ONNX Runtime cannot run here, of the file's graph and of bodies, each once."""
    model = onnx.load(file, load_external_data=False)
    functions = _functions(model)
    return tuple(dict.fromkeys(_name(node) for node in nodes_and_inner(model.graph) if _is_foreign(node, functions)))


def with_stand_ins(file: Path, folder: Path, type_of: TypeOf) -> Path:
    """A copy of the model in `folder`, in which functions stand for operators that cannot be run.

    type_of: a value's type in the main graph, with numbers for sizes. A result whose type is unknown gets that of the
             first operand. Of values in bodies only the element type counts, which the body declares.
    """
    model = onnx.load(file)
    _replace_calls(model.graph, _functions(model), type_of)
    copy = folder / "stand_ins.onnx"
    onnx.save(model, copy, save_as_external_data=model.ByteSize() > MAX_INSIDE, size_threshold=LARGE)
    return copy


def _replace_calls(graph: onnx.GraphProto, functions: Collection[tuple[str, str]], type_of: TypeOf) -> None:
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        if _is_foreign(node, functions):
            graph.node.extend(_stand_in(node, type_of, graph))
            continue
        for body in (body for attribute in node.attribute for body in bodies(attribute)):
            _replace_calls(body, functions, _types_in(body, type_of))
        graph.node.append(node)


def _types_in(body: onnx.GraphProto, outside: TypeOf) -> TypeOf:
    """Types in a body without sizes, since these may differ between iterations, and from what is declared."""
    declared = {value.name: value.type.tensor_type.elem_type for value in (*body.input, *body.value_info, *body.output)}
    declared |= {tensor.name: tensor.data_type for tensor in body.initializer}

    def type_of(value: str) -> TensorType | None:
        outer = outside(value)
        element = declared.get(value) or (None if outer is None else outer.dtype)
        return None if element is None else TensorType(DataType(element), None)

    return type_of


def _functions(model: onnx.ModelProto) -> frozenset[tuple[str, str]]:
    return frozenset((function.domain, function.name) for function in model.functions)


def _is_foreign(node: NodeProto, functions: Collection[tuple[str, str]]) -> bool:
    domain = "" if node.domain in _DEFAULT_DOMAINS else node.domain
    if (node.domain, node.op_type) in functions or defs.has(node.op_type, domain):
        return False
    return (domain, node.op_type) not in _kernels()


@cache
def _kernels() -> frozenset[tuple[str, str]]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return frozenset((known.domain, known.op_name) for known in state.get_all_opkernel_def())


def _name(node: NodeProto) -> str:
    return node.op_type if node.domain in _DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}"


# ---- the function ------------------------------------------------------------------------


def _stand_in(node: NodeProto, type_of: TypeOf, graph: onnx.GraphProto) -> Iterator[NodeProto]:
    """Nodes that compute the results of the call."""
    attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
    seed = zlib.crc32(b"".join([_name(node).encode(), *attributes]))
    operands = [(value, type_of(value)) for value in node.input if value]
    first = operands[0][1] if operands else None
    has_numbers = any(_holds_numbers(operand) for _, operand in operands)
    for number, result in enumerate(node.output):
        type_ = type_of(result) or first or _FLOATS
        if type_.static_shape is None:
            type_ = type_.with_shape(None if first is None else first.static_shape)
        if result and (type_.static_shape is not None or has_numbers):
            writer = _Writer(f"{_PREFIX}_{result}", np.random.default_rng([seed, number]), graph)
            yield from writer.result(result, type_, operands)


class _Writer:
    """Writes the nodes of one result. prefix: of its names. graph: gets its constants."""

    def __init__(self, prefix: str, random: np.random.Generator, graph: onnx.GraphProto) -> None:
        self._prefix, self._random, self._graph = prefix, random, graph
        self._nodes: list[NodeProto] = []

    def result(
        self, name: str, type_: TensorType, operands: Sequence[tuple[str, TensorType | None]]
    ) -> list[NodeProto]:
        """sin of a weighted sum: of elements where sizes are equal, else of sums over all elements, and of places.

        Without sizes: of the elements of the first operand and of the others' means.
        """
        shape = type_.static_shape
        numbers = [(value, operand) for value, operand in operands if _holds_numbers(operand)]
        if shape is None:
            parts = [self._scaled(value) if n == 0 else self._mean(value) for n, (value, _) in enumerate(numbers)]
        else:
            parts = [self._part(value, operand, shape) for value, operand in numbers]
            is_by_element = bool(operands) and operands[0][1] is not None and operands[0][1].static_shape == shape
            if not is_by_element or not parts:
                parts.append(self._constant(self._random.uniform(-3, 3, shape)))
        total = parts[0]
        for part in parts[1:]:
            total = self._add("Add", total, part)
        wave = self._add("Sin", total)
        if type_.dtype.is_floating_point():
            self._add("Cast", wave, into=name, to=int(type_.dtype))
        elif type_.dtype == DataType.BOOL:
            self._add("Greater", wave, self._constant(np.zeros(())), into=name)
        else:
            small = self._add("Floor", self._add("Abs", self._times(wave, 2.0)))
            self._add("Cast", small, into=name, to=int(type_.dtype))
        return self._nodes

    def _part(self, value: str, type_: TensorType | None, shape: tuple[int, ...]) -> str:
        """The operand times a number if it has that shape, else a weighted sum of its elements, which is a scalar."""
        sizes = None if type_ is None else type_.static_shape
        if sizes == shape:
            return self._scaled(value)
        if sizes is None:
            return self._mean(value)
        numbers = self._add("Cast", value, to=TensorProto.FLOAT)
        weights = self._random.uniform(0.5, 1.5, sizes) / math.sqrt(max(1, math.prod(sizes)))
        return self._add("ReduceSum", self._add("Mul", numbers, self._constant(weights)), keepdims=0)

    def _scaled(self, value: str) -> str:
        return self._times(self._add("Cast", value, to=TensorProto.FLOAT), float(self._random.uniform(0.5, 1.5)))

    def _mean(self, value: str) -> str:
        return self._add("ReduceMean", self._scaled(value), keepdims=0)

    def _times(self, value: str, factor: float) -> str:
        return self._add("Mul", value, self._constant(np.array(factor)))

    def _constant(self, array: np.ndarray) -> str:
        name = f"{self._prefix}_{len(self._graph.initializer)}"
        self._graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def _add(self, op: str, *operands: str, into: str = "", **attributes: int) -> str:
        result = into or f"{self._prefix}_n{len(self._nodes)}"
        node = helper.make_node(op, operands, [result])
        node.attribute.extend(helper.make_attribute(key, number) for key, number in attributes.items())
        self._nodes.append(node)
        return result


def _holds_numbers(type_: TensorType | None) -> bool:
    return type_ is None or type_.dtype != DataType.STRING
