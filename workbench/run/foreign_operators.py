"""Stand-ins for operators that nothing here runs, so that two models with them can be compared.

A call of an operator without kernel and without function becomes, in a copy of the file, a seeded function of its
operands that ONNX defines. Two calls of one operator with the same attributes become the same function. If a result has
the sizes of the first operand it is computed element by element, so that any order of axes gives the same.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, defs, helper, numpy_helper

from workbench.ir import DataType, TensorType
from workbench.ir.to_proto import LARGE
from workbench.rewrite.external.files import MAX_INSIDE

_DEFAULT_DOMAINS = ("", "ai.onnx")
_PREFIX = "workbench_stand_in"
TypeOf = Callable[[str], TensorType | None]


def foreign_operators(file: Path) -> tuple[str, ...]:
    """The names of operators of the file's main graph that ONNX Runtime cannot run here, each once."""
    model = onnx.load(file, load_external_data=False)
    return tuple(dict.fromkeys(_name(node) for node in _foreign_nodes(model)))


def with_stand_ins(file: Path, folder: Path, type_of: TypeOf) -> Path:
    """A copy of the model in `folder`, in which functions stand for operators that cannot be run.

    type_of: a value's type with numbers for sizes. A result whose type is unknown gets that of the first operand.
    """
    model = onnx.load(file)
    foreign = {value for node in _foreign_nodes(model) for value in node.output if value}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        is_foreign = not foreign.isdisjoint(node.output)
        model.graph.node.extend(_stand_in(node, type_of, model.graph) if is_foreign else [node])
    copy = folder / "stand_ins.onnx"
    onnx.save(model, copy, save_as_external_data=model.ByteSize() > MAX_INSIDE, size_threshold=LARGE)
    return copy


def _foreign_nodes(model: onnx.ModelProto) -> Iterator[NodeProto]:
    functions = {(function.domain, function.name) for function in model.functions}
    for node in model.graph.node:
        domain = "" if node.domain in _DEFAULT_DOMAINS else node.domain
        if (node.domain, node.op_type) in functions or defs.has(node.op_type, domain):
            continue
        if (domain, node.op_type) not in _kernels():
            yield node


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
    for number, result in enumerate(node.output):
        type_ = type_of(result) or first
        if type_ is not None and type_.static_shape is None and first is not None:
            type_ = type_.with_shape(first.shape)
        if result and type_ is not None and type_.static_shape is not None:
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
        """sin of a weighted sum: of elements where sizes are equal, else of sums over all elements, and of places."""
        shape = type_.static_shape or ()
        parts = [self._part(value, operand, shape) for value, operand in operands if _holds_numbers(operand)]
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
        assert type_ is not None
        numbers = self._add("Cast", value, to=TensorProto.FLOAT)
        if type_.static_shape == shape:
            return self._times(numbers, float(self._random.uniform(0.5, 1.5)))
        sizes = type_.static_shape or ()
        weights = self._random.uniform(0.5, 1.5, sizes) / math.sqrt(max(1, math.prod(sizes)))
        return self._add("ReduceSum", self._add("Mul", numbers, self._constant(weights)), keepdims=0)

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
    return type_ is not None and type_.dtype != DataType.STRING
