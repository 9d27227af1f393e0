"""Planners of memory on random blocks: no overlap, never below the bound, the exact one against all placements."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest

from workbench.errors import UserError
from workbench.planning.memory.blocks.gaps import place_in_order
from workbench.planning.memory.blocks.packing import MemoryBlock, OverlapError, Packing, check_offsets
from workbench.planning.memory.planners import pack, planner_of, planners

NAMES = sorted(planners())
FREE = [name for name in NAMES if not planners()[name].needs_total_order]


def random_packing(seed: int, most: int = 14) -> Packing:
    rng = random.Random(seed)
    blocks = []
    for number in range(rng.randint(0, most)):
        born = rng.randrange(10)
        blocks.append(MemoryBlock(f"b{number}", rng.choice([0, 1, 4, 6, 16, 40]), born, born + rng.randint(1, 5)))
    return Packing(tuple(sorted(blocks, key=lambda block: block.born)))


def random_partial_order(seed: int) -> Packing:
    packing, rng = random_packing(seed), random.Random(seed + 1)
    pairs = itertools.combinations(range(len(packing.blocks)), 2)
    together = {(i, j) for i, j in pairs if overlap_in_time(packing, i, j) or rng.random() < 0.3}
    return dataclasses.replace(packing, partial_order=frozenset(together))


def overlap_in_time(packing: Packing, i: int, j: int) -> bool:
    one, other = packing.blocks[i], packing.blocks[j]
    return one.born < one.dies and other.born < other.dies and one.born < other.dies and other.born < one.dies


def shares_bytes(packing: Packing, offsets, i: int, j: int) -> bool:
    one, other = packing.blocks[i], packing.blocks[j]
    return bool(one.bytes and other.bytes) and max(offsets[i], offsets[j]) < min(
        offsets[i] + one.bytes, offsets[j] + other.bytes
    )


def together(packing: Packing, i: int, j: int) -> bool:
    return overlap_in_time(packing, i, j) if packing.partial_order is None else (i, j) in packing.partial_order


def check(packing: Packing, packed) -> None:
    for i, j in itertools.combinations(range(len(packing.blocks)), 2):
        assert not (together(packing, i, j) and shares_bytes(packing, packed.offsets, i, j)), (packed.planner, i, j)
    ends = [begin + block.bytes for begin, block in zip(packed.offsets, packing.blocks, strict=True)]
    assert packed.total == max(ends, default=0) >= packed.lower_bound and min(packed.offsets, default=0) >= 0
    if packing.partial_order is None:  # test_antichain has the bound of the others
        assert packed.lower_bound == max(
            (sum(b.bytes for b in packing.blocks if b.born <= step < b.dies) for step in range(16)), default=0
        )


@pytest.mark.parametrize("name", NAMES)
def test_no_overlap_and_the_same_again(name):
    for seed in range(400):
        packing = random_packing(seed)
        packed = pack(packing, planner_of(name), 1)
        check(packing, packed)
        again = pack(packing, planner_of(name), 1)
        # omnimalloc's threads may find another placement of the same size first
        assert again.total == packed.total if name == "exact" else again.offsets == packed.offsets
        played = {action.block: action.offset for action in packed.actions if action.does != "free"}
        assert not packed.actions or played == dict(enumerate(packed.offsets))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", FREE)
def test_no_overlap_where_operators_run_side_by_side(name):
    for seed in range(400):
        packing = random_partial_order(seed)
        check(packing, pack(packing, planner_of(name), 0.02))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FREE])
def test_a_planner_that_follows_the_order_refuses_a_partial_one(name):
    with pytest.raises(UserError, match=f"The planner '{name}' follows operators one after the other"):
        pack(random_partial_order(3), planner_of(name))


def test_exact_is_the_smallest_of_all():
    """An arena as small as possible is found by first fit in some order of the blocks."""
    for seed in range(150):
        packing = random_packing(seed, 6)
        orders = itertools.permutations(range(len(packing.blocks)))
        least = min(
            max((o + b.bytes for o, b in zip(first_fit(packing, order), packing.blocks, strict=True)), default=0)
            for order in orders
        )
        exact = pack(packing, planner_of("exact"), 5)
        assert exact.certified and exact.total == least, seed
        assert all(exact.total <= pack(packing, planner, 1).total for planner in planners().values())


def first_fit(packing: Packing, order):
    offsets = [0] * len(packing.blocks)
    placed: list[int] = []
    for i in order:
        others = [j for j in placed if overlap_in_time(packing, *sorted((i, j)))]
        ends = sorted({0, *(offsets[j] + packing.blocks[j].bytes for j in others)})
        for offset in ends:
            offsets[i] = offset
            if not any(shares_bytes(packing, offsets, *sorted((i, j))) for j in others):
                break
        placed.append(i)
    return offsets


def test_the_pool_is_not_the_minimum():
    """Its peak is called the least memory in the founding document; free bytes may be in pieces that are too small."""
    blocks = (MemoryBlock("two", 2, 0, 2), MemoryBlock("one", 1, 1, 3), MemoryBlock("three", 3, 2, 3))
    packing = Packing(blocks)
    assert [pack(packing, planner_of(name)).total for name in ("pool_first_fit", "pool_best_fit", "exact")] == [6, 6, 4]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "exact"])
def test_eight_thousand_short_blocks(name):
    rng = random.Random(0)
    packing = Packing(
        tuple(MemoryBlock(f"b{i}", rng.randrange(1, 9) * 64, i, i + rng.randint(1, 6)) for i in range(8000))
    )
    packed = pack(packing, planner_of(name), 5)
    assert packed.lower_bound <= packed.total <= sum(block.bytes for block in packing.blocks)


def test_wrong_offsets_are_caught():
    packing = Packing((MemoryBlock("a", 8, 0, 2), MemoryBlock("b", 8, 1, 3)))
    check_offsets(packing, (0, 8))
    with pytest.raises(OverlapError, match="'a' at bytes 0 to 8 and 'b' at 4 to 12 are in use at the same time"):
        check_offsets(packing, (0, 4))


def test_every_planner_explains_itself():
    for name, planner in planners().items():
        assert planner.name == name and planner.title and len(planner.explanation) > 60
    assert place_in_order(Packing(()), ()) == ()
