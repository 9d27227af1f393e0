"""What Casts between float32 and narrower types read and write at least, in whichever types operators run.

Values that differ by Casts are one value. An operator has all its floats in 32 bits or all in fewer, so that it is on
one side of a minimum cut; if not all that write and read a value are on the same side, it is cast once. Inputs, outputs
and the operators that are held are on the side on which they stand. An operator that has floats of both kinds may have
each of them on either side.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from workbench.checker.cast_traffic import FLOATS, IN_EACH_RUN, is_float_cast
from workbench.checker.computed import fixed_values
from workbench.checker.inference import read_in_bodies
from workbench.checker.minimum_cut import Network
from workbench.checker.operators import operator_name
from workbench.checker.tensors import ELEMENT_BITS
from workbench.checker.transpose_traffic import stored_bytes
from workbench.checker.types import PlainType, sizes_of

_WIDE = 32  # bits of an element


@dataclass(frozen=True)
class CastBound:
    """least: what Casts cost at least. narrowest: bits of a float below 32 that are taken to be the fewest. held: how
    many operators of each kind count as they stand, by operator and by which floats they have: of 32 bits or more, of
    fewer, or both."""

    least: int
    narrowest: int
    held: Mapping[tuple[str, frozenset[bool]], int]


def cast_bound(
    graph: GraphProto,
    types: Mapping[str, PlainType],
    fixed: Collection[str],
    held: Collection[str],
    cost: Callable[[int, int], int],
    through_transposes: bool = False,
) -> CastBound:
    """The bound over the main graph, without bodies.

    fixed: constants that no caller can replace. held: first results of the operators that run only in the types in
    which they stand. cost: of a Cast of so many elements that reads and writes so many bits for each.
    through_transposes: whether Transposes may be elsewhere too, so that values that differ by them are one.
    """
    known = fixed_values(graph.node, fixed, IN_EACH_RUN)
    nodes = [node for node in graph.node if not known.issuperset(filter(None, node.output))]
    wide = {value: _is_wide(type_) for value, type_ in types.items() if value not in known and _is_float(type_)}
    root: dict[str, str] = {}
    narrowest = narrowest_bits(types)
    for node in nodes:
        is_between = is_float_cast(node, types) or (through_transposes and operator_name(node) == "Transpose")
        if is_between and node.input[0] in wide:
            root[node.output[0]] = root.get(node.input[0], node.input[0])
    members: dict[str, list[object]] = {}
    held_count: Counter[tuple[str, frozenset[bool]]] = Counter()
    for number, node in enumerate(nodes):
        if node.output[0] in root or operator_name(node) == "Constant":  # of sizes, which are known
            continue
        values = [value for value in _values(node) if value in wide]
        sides = frozenset(wide[value] for value in values)
        is_held = next(filter(None, node.output), "") in held
        if sides and is_held:
            held_count[operator_name(node), sides] += 1
        for value in values:
            side: object = Network.SOURCE if wide[value] else Network.SINK
            if not is_held:
                side = number if len(sides) == 1 else (number, value)
            members.setdefault(root.get(value, value), []).append(side)
    for value in (*graph.input, *graph.output):
        if value.name in wide:
            members.setdefault(root.get(value.name, value.name), []).append(
                Network.SOURCE if wide[value.name] else Network.SINK
            )
    network = Network()
    for value, sides_of in members.items():
        elements = math.prod(sizes_of(types[value]) or (0,))
        network.add(sides_of, cost(elements, _WIDE + narrowest) if elements else 0)
    return CastBound(network.minimum_cut(), narrowest, held_count)


def narrowest_bits(types: Mapping[str, PlainType]) -> int:
    """Of the floats that a graph has, or of float16 if it has none below 32."""
    bits = {ELEMENT_BITS.get(type_[0], 0) for type_ in types.values() if _is_float(type_)}
    return min((number for number in bits if 0 < number < _WIDE), default=_WIDE // 2)


def narrowest_bytes(type_: PlainType, bits: int) -> int:
    """The bytes of a tensor, with so many bits for each element if it has floats of more."""
    size = stored_bytes(type_) or 0
    own: int = ELEMENT_BITS.get(type_[0], 8)
    return size * bits // own if _is_float(type_) and own > bits else size


def _values(node: NodeProto) -> list[str]:
    return [value for value in (*node.input, *node.output, *read_in_bodies(node)) if value]


def _is_float(type_: PlainType) -> bool:
    return type_ is not None and type_[0] in FLOATS


def _is_wide(type_: PlainType) -> bool:
    return ELEMENT_BITS.get(type_[0], 0) >= _WIDE
