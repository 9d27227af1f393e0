"""The layout part of a contract: what becomes of an operator when its input arrives permuted.

`carry` answers: if the operands in `inputs` come permuted by `perm`, which
node computes the same, and how are its results permuted? This is the four
methods of OneFlow's NCHWCompatible interface, and the three classes of TVM's
ConvertLayout, in one function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.ir import Constant, Graph, Node, constant, constant_shape, lazy_constant
from workbench.ir.permutation import Permutation, channels_last, inverse, is_identity, permuted
from workbench.ops.channels_last import LAYOUT_NAMES, channels_last_op


class CannotCarry(ValueError):
    """The operator keeps its layout here; the message says why."""


@dataclass(frozen=True)
class Carried:
    """The node that works on permuted operands.

    inputs:     operands that must arrive permuted by the permutation asked for.
    outputs:    permutation of each result (None: as it was).
    constants:  operands to be replaced by these constants.
    """

    inputs: tuple[int, ...]
    outputs: tuple[Permutation | None, ...]
    attributes: Mapping[str, Any] | None = None
    constants: Mapping[int, Constant] = field(default_factory=dict)
    op_type: str | None = None
    domain: str | None = None


Carry = Callable[[Graph, Node, Permutation], Carried]


@dataclass(frozen=True)
class Layout:
    """kind: agnostic, remapped, sensitive, reshape-like or barrier (see docs/architecture.md)."""

    kind: str
    carry: Carry


# ---- barrier and reshape-like ---------------------------------------------------


def _refuse(graph: Graph, node: Node, perm: Permutation) -> Carried:
    raise CannotCarry(f"{node} was written for one order of its axes")


BARRIER = Layout("barrier", _refuse)
RESHAPE_LIKE = Layout("reshape-like", _refuse)


# ---- agnostic ---------------------------------------------------------------------


def _carry_elementwise(graph: Graph, node: Node, perm: Permutation) -> Carried:
    """Any permutation passes; operands of lower rank are lined up where they are constants."""
    rank = len(perm)
    inputs, constants = [], {}
    for index, value in enumerate(node.inputs):
        if not value:
            continue
        tensor = graph.constant(value)
        if tensor is not None:
            aligned = _aligned(tensor, perm)
            if aligned is not None:
                constants[index] = aligned
            continue
        own = graph.rank_of(value)
        if own is None:
            raise CannotCarry(f"the rank of '{value}', an operand of {node}, is not known")
        if own == rank:
            inputs.append(index)
        elif own != 0:
            raise CannotCarry(f"operand '{value}' of {node} has rank {own}, and broadcasts by position")
    return Carried(tuple(inputs), (perm,) * len(node.outputs), constants=constants)


def _aligned(tensor: Constant, perm: Permutation) -> Constant | None:
    """A broadcast constant for permuted neighbours; None where it serves as it is."""
    shape = constant_shape(tensor)
    if len(shape) > len(perm):
        raise CannotCarry(f"a constant of rank {len(shape)} raises the rank of the result")
    full = (1,) * (len(perm) - len(shape)) + shape
    if all(d == 1 for d in full):
        return None
    return lazy_constant(
        lambda: np.ascontiguousarray(tensor.numpy().reshape(full).transpose(perm)), tensor.dtype, permuted(full, perm)
    )


def _carry_first(graph: Graph, node: Node, perm: Permutation) -> Carried:
    """Only the first operand has axes; the others are scalars (Clip's bounds, CastLike's type)."""
    return Carried((0,), (perm,) * len(node.outputs))


AGNOSTIC = Layout("agnostic", _carry_elementwise)
AGNOSTIC_FIRST = Layout("agnostic", _carry_first)


# ---- remapped -----------------------------------------------------------------------


def _with(node: Node, **attributes: Any) -> dict[str, Any]:
    return {**node.attributes, **attributes}


def _carry_axis(default: int, every_input: bool = False) -> Carry:
    """The attribute `axis` follows its axis (Concat, Softmax, ...)."""

    def carry(graph: Graph, node: Node, perm: Permutation) -> Carried:
        axis = node.attr("axis", default) % len(perm)
        inputs = tuple(i for i, v in enumerate(node.inputs) if v) if every_input else (0,)
        attributes = _with(node, axis=inverse(perm)[axis])
        return Carried(inputs, (perm,) * len(node.outputs), attributes)

    return carry


def _carry_quantize(graph: Graph, node: Node, perm: Permutation) -> Carried:
    axis = node.attr("axis", 1)
    if node.attr("block_size", 0):
        raise CannotCarry(f"{node} is quantized by blocks along an axis")
    scale_rank = graph.rank_of(node.inputs[1])
    if scale_rank == 0:
        return Carried((0,), (perm,))
    return Carried((0,), (perm,), _with(node, axis=inverse(perm)[axis % len(perm)]))


def _constant_numbers(graph: Graph, node: Node, index: int) -> list[int] | None:
    """A small integer operand as numbers; None where it is left out."""
    if index >= len(node.inputs) or not node.inputs[index]:
        return None
    tensor = graph.constant(node.inputs[index])
    if tensor is None:
        raise CannotCarry(f"operand '{node.inputs[index]}' of {node} is computed while the model runs")
    return [int(v) for v in np.asarray(tensor.numpy()).reshape(-1)]


def _int64(values: list[int]) -> Constant:
    return constant(np.array(values, dtype=np.int64))


def _carry_reduce(graph: Graph, node: Node, perm: Permutation) -> Carried:
    axes = _constant_numbers(graph, node, 1)
    rank, place = len(perm), inverse(perm)
    if not axes and node.attr("noop_with_empty_axes", 0):
        return Carried((0,), (perm,))
    reduced = {a % rank for a in axes} if axes else set(range(rank))
    constants = {1: _int64(sorted(place[a] for a in reduced))} if axes else {}
    if node.attr("keepdims", 1):
        return Carried((0,), (perm,), constants=constants)
    return Carried((0,), (_without_axes(perm, reduced),), constants=constants)


def _without_axes(perm: Permutation, gone: set[int]) -> Permutation | None:
    """What remains of `perm` when the original axes `gone` disappear."""
    kept = [axis for axis in perm if axis not in gone]
    order = sorted(kept)
    rest = tuple(order.index(axis) for axis in kept)
    return None if is_identity(rest) else rest


def _carry_squeeze(graph: Graph, node: Node, perm: Permutation) -> Carried:
    axes = _constant_numbers(graph, node, 1)
    if not axes:
        raise CannotCarry(f"{node} names no axes")
    gone = {a % len(perm) for a in axes}
    place = inverse(perm)
    return Carried((0,), (_without_axes(perm, gone),), constants={1: _int64(sorted(place[a] for a in gone))})


def _carry_arg(graph: Graph, node: Node, perm: Permutation) -> Carried:
    axis = node.attr("axis", 0) % len(perm)
    out = perm if node.attr("keepdims", 1) else _without_axes(perm, {axis})
    return Carried((0,), (out,), _with(node, axis=inverse(perm)[axis]))


def _carry_pad(graph: Graph, node: Node, perm: Permutation) -> Carried:
    pads = _constant_numbers(graph, node, 1)
    axes = _constant_numbers(graph, node, 3)
    if pads is None:
        raise CannotCarry(f"{node} has no pads")
    if axes is not None:
        return Carried((0,), (perm,), constants={3: _int64([inverse(perm)[a % len(perm)] for a in axes])})
    rank = len(perm)
    begins, ends = permuted(pads[:rank], perm), permuted(pads[rank:], perm)
    return Carried((0,), (perm,), constants={1: _int64([*begins, *ends])})


def _carry_slice(graph: Graph, node: Node, perm: Permutation) -> Carried:
    axes = _constant_numbers(graph, node, 3)
    if axes is None:
        raise CannotCarry(f"{node} names no axes")
    place = inverse(perm)
    moved = np.array([place[a % len(perm)] for a in axes], graph.constants[node.inputs[3]].dtype.numpy())
    return Carried((0,), (perm,), constants={3: constant(moved)})  # of the type of starts and ends


def _carry_transpose(graph: Graph, node: Node, perm: Permutation) -> Carried:
    """An existing transpose is taken as it is: it reads the permuted axes and gives what it gave."""
    own = node.attr("perm", tuple(reversed(range(len(perm)))))
    place = inverse(perm)
    return Carried((0,), (None,), _with(node, perm=tuple(place[axis] for axis in own)))


def _carry_resize(graph: Graph, node: Node, perm: Permutation) -> Carried:
    if node.attr("axes") is not None:
        raise CannotCarry(f"{node} resizes named axes")
    constants = {}
    for index in (1, 2, 3):
        if index >= len(node.inputs) or not node.inputs[index]:
            continue
        tensor = graph.constant(node.inputs[index])
        if tensor is None:
            raise CannotCarry(f"operand '{node.inputs[index]}' of {node} is computed while the model runs")
        numbers = tensor.numpy()
        if numbers.size == len(perm):
            constants[index] = constant(numbers[list(perm)])
        elif numbers.size == 2 * len(perm):
            constants[index] = constant(
                np.concatenate([numbers[: len(perm)][list(perm)], numbers[len(perm) :][list(perm)]])
            )
    _check_interpolated(graph, node, perm)
    return Carried((0,), (perm,), constants=constants)


def _check_interpolated(graph: Graph, node: Node, perm: Permutation) -> None:
    """ONNX Runtime interpolates over the last two axes, linearly also over the two before the last."""
    mode = node.attr("mode", "nearest")
    if mode == "nearest" or len(perm) < 3:
        return
    able = [{len(perm) - 2, len(perm) - 1}]
    if mode == "linear" and len(perm) == 4:
        able.append({1, 2})
    resized = _resized_axes(graph, node, len(perm))
    places = {place for place, axis in enumerate(perm) if axis in resized}
    if not any(places <= axes for axes in able):
        raise CannotCarry(f"{node} interpolates over axes {sorted(places)} then, which ONNX Runtime does not do")


def _resized_axes(graph: Graph, node: Node, rank: int) -> set[int]:
    """Axes whose length changes, or may."""
    scales, sizes = (graph.constant(node.inputs[i]) if i < len(node.inputs) else None for i in (2, 3))
    if scales is not None and scales.size == rank:
        return {axis for axis, scale in enumerate(scales.numpy()) if scale != 1}
    type_ = graph.tensor_type(node.inputs[0])
    if sizes is None or type_ is None or type_.shape is None:
        return set(range(rank))
    return {axis for axis, (now, then) in enumerate(zip(type_.shape, sizes.numpy(), strict=True)) if now != then}


def _carry_expand(graph: Graph, node: Node, perm: Permutation) -> Carried:
    shape = _constant_numbers(graph, node, 1)
    if shape is None or len(shape) != len(perm) or graph.rank_of(node.inputs[0]) != len(perm):
        raise CannotCarry(f"{node} changes the rank")
    return Carried((0,), (perm,), constants={1: _int64(list(permuted(shape, perm)))})


def _carry_tile(graph: Graph, node: Node, perm: Permutation) -> Carried:
    repeats = _constant_numbers(graph, node, 1)
    if repeats is None:
        raise CannotCarry(f"{node} has no repeats")
    return Carried((0,), (perm,), constants={1: _int64(list(permuted(repeats, perm)))})


CONCAT = Layout("remapped", _carry_axis(0, every_input=True))
SOFTMAX = Layout("remapped", _carry_axis(-1))
SPLIT = Layout("remapped", _carry_axis(0))
QUANTIZE = Layout("remapped", _carry_quantize)
REDUCE = Layout("remapped", _carry_reduce)
SQUEEZE = Layout("remapped", _carry_squeeze)
ARG = Layout("remapped", _carry_arg)
PAD = Layout("remapped", _carry_pad)
SLICE = Layout("remapped", _carry_slice)
TRANSPOSE = Layout("remapped", _carry_transpose)
RESIZE = Layout("remapped", _carry_resize)
EXPAND = Layout("remapped", _carry_expand)
TILE = Layout("remapped", _carry_tile)


# ---- sensitive -----------------------------------------------------------------------


def _carry_channels_last(graph: Graph, node: Node, perm: Permutation) -> Carried:
    """The operator's channels-last form, a function of our own domain."""
    rank = len(perm)
    if perm != channels_last(rank) or rank not in LAYOUT_NAMES:
        raise CannotCarry(f"{node} knows channels first and channels last, not axes {list(perm)}")
    if len([v for v in node.outputs if v]) > 1:
        raise CannotCarry(f"{node} also gives indices, which count in its own layout")
    domain, op_type = channels_last_op(node.op_type, rank)
    return Carried((0,), (perm,), op_type=op_type, domain=domain)


SENSITIVE = Layout("sensitive", _carry_channels_last)
