"""The fusion kind of every operator's contract, against its torch function.

One element of an operand is changed; the elements of the results that change with it are those that depend on it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from onnx import TensorProto

import tests.carrying_elementwise
import tests.carrying_images
import tests.carrying_remapped  # noqa: F401  (they enter their rows)
from tests.carrying import ROWS, Case, Draw, Fixed, Row, graph_of
from tests.ort_operators import NATIVE
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.ir import Node
from workbench.ops import contract_of, contracts, fusion_kind_of
from workbench.ops.blocked import parse_blocked
from workbench.ops.channels_last import parse_channels_last, plain_op
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FUSABLE, INJECTIVE, OPAQUE, REDUCTION, FusionKind

AMOUNTS = [pytest.param(4, 6, id="some"), pytest.param(16, 40, id="many", marks=pytest.mark.slow)]
NEWEST = 28


def _of_newest(draw: Draw, op: str) -> Case:
    x = draw.normal(2, 3)
    return Case([x, draw.normal(2, 3)] if op == "SwiGLU" else [x], {"to": TensorProto.INT32} if op == "BitCast" else {})


def _rotary(draw: Draw, op: str) -> Case:
    return Case([draw.normal(1, 2, 3, 4), draw.normal(1, 3, 2), draw.normal(1, 3, 2)])


def _deform(draw: Draw, op: str) -> Case:
    return Case([draw.normal(1, 2, 4, 4), draw.normal(2, 2, 2, 2), draw.between(-0.4, 0.4, 1, 8, 3, 3)])


def _roi(draw: Draw, op: str) -> Case:
    boxes = np.array([[0, 0, 3, 3], [1, 1, 3, 2]], np.float32)
    return Case([draw.normal(1, 2, 4, 4), Fixed(boxes), Fixed(np.zeros(2, np.int64))], {"output_height": 2})


def _columns(draw: Draw, op: str) -> Case:
    return Case([draw.normal(1, 8, 9), Fixed(np.array([4, 4])), Fixed(np.array([2, 2]))])


def _grid(draw: Draw, op: str) -> Case:
    return Case([draw.normal(2, 2, 3), Fixed(np.array([2, 3, 4, 5]))])


def _reversed(draw: Draw, op: str) -> Case:
    return Case([draw.normal(4, 3), Fixed(np.array([2, 4, 1]))])


# Operators through which no permutation is propagated, or that are newer than the opset to which models are brought.
OTHERS = {
    **dict.fromkeys(("Swish", "SwiGLU", "BitCast"), Row(_of_newest, opset=NEWEST)),
    "RotaryEmbedding": Row(_rotary),
    "DeformConv": Row(_deform),
    "RoiAlign": Row(_roi),
    "Col2Im": Row(_columns),
    "AffineGrid": Row(_grid),
    "ReverseSequence": Row(_reversed),
    **{
        op: Row(lambda draw, op: NATIVE[op](draw))
        for op in NATIVE
        if contracts()[op].fusion != OPAQUE and op not in ROWS
    },
}
TESTED = {**ROWS, **OTHERS}


@dataclass(frozen=True)
class Dependence:
    """What one draw of an operator shows.

    operand: its index.
    shape:   of the operand.
    changed: element of the operand -> for each result, where it changes with that element.
    """

    node: Node
    operand: int
    shape: tuple[int, ...]
    changed: dict[tuple[int, ...], list[np.ndarray]]


def dependences(op: str, draws: int, elements: int) -> Iterator[Dependence]:
    """Of each operand whose elements are computed with, in some random calls of the operator."""
    row = TESTED[op]
    for number in range(draws):
        draw = Draw(zlib.crc32(f"{op} fusion {number}".encode()))
        graph, feeds = graph_of(op, row.make(draw, op), row.opset)
        (node,) = graph.nodes
        executor = TorchExecutor(graph)
        expected = executor.run(feeds)
        assert executor.fallbacks == {}, op
        for index, name in enumerate(node.inputs):
            if name not in feeds or index in contract_of(node).host_inputs:
                continue
            places = list(np.ndindex(feeds[name].shape))
            chosen = draw.random.permutation(len(places))[:elements]
            changed = {places[i]: _changed(executor, feeds, name, places[i], expected) for i in sorted(chosen.tolist())}
            yield Dependence(node, index, feeds[name].shape, changed)


def _changed(executor, feeds, name, place, expected) -> list[np.ndarray]:
    """Where the results differ if this element is another one."""
    found = [np.zeros(array.shape, bool) for array in expected.values()]
    for other in _others(feeds[name], place):
        array = feeds[name].copy()
        array[place] = other
        results = executor.run({**feeds, name: array})
        for mask, (result, before) in zip(found, expected.items(), strict=True):
            mask |= ~((results[result] == before) | ((results[result] != results[result]) & (before != before)))
    return found


def _others(array: np.ndarray, place: tuple[int, ...]) -> list:
    """Elements to put in its place: indices are others of the same column, which are in range."""
    one = array[place]
    if array.dtype == bool:
        return [not one]
    if array.dtype.kind in "iu":
        return [other for other in np.unique(array[..., place[-1]] if place else array) if other != one][:4]
    return [0.25, 0.75, -one, 1.5 + abs(one)]


def apart(changed: dict[tuple[int, ...], list[np.ndarray]]) -> bool:
    """Whether no element of a result depends on two elements of the operand."""
    return all((np.sum(masks, axis=0) <= 1).all() for masks in zip(*changed.values(), strict=True))


def broadcasts(found: Dependence) -> bool:
    """Whether elements are where broadcasting takes them; operands after the first may belong to an axis, as scales."""
    for place, (mask, *_) in found.changed.items():
        own = np.zeros(found.shape, bool)
        own[place] = True
        try:
            taken = np.broadcast_to(own, mask.shape)
        except ValueError:
            if found.operand == 0:
                return False
            continue
        if (mask & ~taken).any() and (found.operand == 0 or own.ndim == mask.ndim):
            return False
    return apart(found.changed)


def elementwise(found: Dependence) -> bool:
    return found.operand > 0 or (
        all(mask.shape == found.shape for masks in found.changed.values() for mask in masks[:1]) and broadcasts(found)
    )


def reduces(found: Dependence) -> bool:
    return all(mask.sum() <= 1 for masks in found.changed.values() for mask in masks)


HOLDS = {
    ELEMENTWISE: elementwise,
    BROADCAST: broadcasts,
    INJECTIVE: lambda found: apart(found.changed),
    REDUCTION: reduces,
}


@pytest.mark.parametrize(("draws", "elements"), AMOUNTS)
@pytest.mark.parametrize("op", [op for op in TESTED if contracts()[op].fusion != OPAQUE])
def test_elements_depend_on_what_the_kind_says(op, draws, elements):
    shown = list(dependences(op, draws, elements))
    for found in shown:
        kind = fusion_kind_of(found.node)
        said = f"{op} {found.node.attributes}, operand {found.operand} of {found.shape}, is not {kind.name}"
        assert kind not in HOLDS or HOLDS[kind](found), said
    assert shown


@pytest.mark.parametrize("op", [op for op in TESTED if contracts()[op].fusion in (INJECTIVE, REDUCTION, FUSABLE)])
def test_no_kind_that_fuses_more_easily_holds(op):
    """Some operand of some draw shows that the operator is of no lower kind."""
    kind = contracts()[op].fusion
    lower = BROADCAST if kind == INJECTIVE else INJECTIVE
    assert not all(HOLDS[lower](found) for found in dependences(op, 16, 40)), f"{op} is {lower.name}"


def test_every_operator_of_a_kind_that_fuses_is_tested():
    plain = {op for op, contract in contracts().items() if contract.fusion != OPAQUE and not _is_form(op)}
    assert plain - set(TESTED) == set()


def test_a_form_has_the_kind_of_its_operator():
    forms = [op for op in contracts() if _is_form(op)]
    assert len(forms) > 80
    for op in forms:
        domain, _, op_type = op.rpartition(".")
        node = Node(op_type, ("x",), ("y",), {}, name="n", domain=domain)
        found = parse_blocked(domain, op_type)
        plain = plain_op(node) if found is None else found.op_type
        assert contracts()[op].fusion == contracts()[plain].fusion, op


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        (Node("Resize", ("x",), ("y",), {"mode": "linear"}), FUSABLE),
        (Node("Resize", ("x",), ("y",), {}), INJECTIVE),
        (Node("Dropout", ("x",), ("y",), {}), ELEMENTWISE),
        (Node("Dropout", ("x", "r", "t"), ("y",), {}), OPAQUE),
        (Node("BatchNormalization", tuple("xsbmv"), ("y",), {}), BROADCAST),
        (Node("BatchNormalization", tuple("xsbmv"), ("y", "m", "v"), {"training_mode": 1}), OPAQUE),
        (Node("Unknown", ("x",), ("y",), {}, domain="com.example"), OPAQUE),
    ],
)
def test_a_kind_may_depend_on_the_node(node: Node, kind: FusionKind):
    assert fusion_kind_of(node) == kind


def _is_form(op: str) -> bool:
    domain, _, op_type = op.rpartition(".")
    return parse_channels_last(domain, op_type) is not None or parse_blocked(domain, op_type) is not None
