"""What the Transposes of a graph move, which a choice of layouts promises to be the least."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.plain import PlainModel, PlainNode
from workbench.checker.records import Fields
from workbench.checker.replay import Replay
from workbench.checker.sizes import ELEMENT_BITS


@dataclass(frozen=True)
class Moved:
    """transposes, bytes: of the main graph's. confirmed: those of which OUT declares type and all sizes. inside:
    transposes in bodies and functions, and their bytes, which are the engine's word."""

    transposes: int
    bytes: int
    confirmed: int
    inside: tuple[int, int]


def checked_moves(record: Fields, graph: Replay, written: PlainModel, last: bool) -> Moved:
    """Checks that the listed Transposes are all that the graph has behind computed values, and adds up what they move.

    Sizes are compared with what OUT declares, where it has the value and numbers. last: whether OUT is of the same
    graph, so that they must be the same. Raises DoesNotHold.
    """
    fixed = graph.fixed()
    left = {
        key: call
        for key, call in graph.nodes.items()
        if call.operator == "Transpose" and call.inputs and call.inputs[0] not in fixed
    }
    total = confirmed = count = 0
    for told in record.records("transposes", "transpose"):
        key, shape, element = told.text("result"), told.wholes("shape"), told.whole("element_bytes")
        call = left.pop(key, None)
        if call is None:
            raise DoesNotHold(f"{told.where} is '{key}', which no Transpose of a computed value gives")
        perm = _perm(call, len(shape))
        if sorted(perm) != list(range(len(shape))) or any(size < 0 for size in shape) or element < 1:
            raise DoesNotHold(f"{told.where}, of '{key}', has a shape of {len(shape)} axes that does not fit its perm")
        confirmed += _compared(told, call.inputs[0], shape, element, written, last)
        kept = [axis for axis in perm if shape[axis] != 1]
        total += math.prod(shape) * element if kept != sorted(kept) else 0
        count += 1
    if left:
        raise DoesNotHold(f"{record.where} leaves out the Transpose that computes '{min(left)}'")
    inside = record.wholes("inside")
    if len(inside) != 2 or min(inside) < 0:
        raise Unreadable(f"the certificate's {record.where}, inside must be two numbers from 0 up")
    return Moved(count, total, confirmed, (inside[0], inside[1]))


def _perm(call: PlainNode, rank: int) -> tuple[int, ...]:
    kind, perm = call.attributes.get("perm", ("ints", tuple(reversed(range(rank)))))
    return perm if kind == "ints" else ()


def _compared(told: Fields, value: str, shape: tuple[int, ...], element: int, written: PlainModel, last: bool) -> bool:
    """Whether OUT declares the value's type and all its sizes as these."""
    declared = written.inner_types.get(value)
    if declared is None or len(declared) != 2 or declared[1] is None or len(declared[1]) != len(shape):
        return False
    sizes = list(zip(declared[1], shape, strict=True))
    same_type = declared[0] in ELEMENT_BITS and max(ELEMENT_BITS[declared[0]] // 8, 1) == element
    if last and any(isinstance(dim, int) and dim != size for dim, size in sizes):
        raise DoesNotHold(f"{told.where} says that '{value}' is {list(shape)}, and the output declares another shape")
    if last and declared[0] in ELEMENT_BITS and not same_type:
        raise DoesNotHold(f"{told.where} says that an element of '{value}' has {element} bytes; it has another type")
    return same_type and all(dim == size for dim, size in sizes)
