"""Memory of a partial order: the heaviest antichain against brute force, plans that reach it, and orders of steps."""

from __future__ import annotations

import random

import onnx
import pytest

import workbench as wb
from sample_models.light import random_light
from tests.slow import thorough_unless
from tests.test_streams import random_after
from workbench.planning.memory.blocks.antichain import heaviest_antichain
from workbench.planning.memory.blocks.interval_order import interval_steps
from workbench.planning.memory.blocks.local_search import improved
from workbench.planning.memory.blocks.packing import MemoryBlock, Packing, check_offsets
from workbench.planning.memory.planners import pack, planner_of
from workbench.planning.streams.analysis import analyze_streams
from workbench.planning.streams.dependencies import closure


def random_together(seed: int) -> tuple[list[int], frozenset[tuple[int, int]]]:
    """Sizes, and the pairs that no order of a random graph separates."""
    before, rng = closure(random_after(seed)), random.Random(seed)
    count = len(before)
    pairs = frozenset((i, j) for j in range(count) for i in range(j) if not before[j] >> i & 1)
    return [rng.choice([0, 1, 2, 3, 7]) for _ in range(count)], pairs


def heaviest(sizes, together) -> int:
    """By trying all sets."""
    members = [[i for i in range(len(sizes)) if mask >> i & 1] for mask in range(1 << len(sizes))]
    together_all = (one for one in members if all((i, j) in together for j in one for i in one if i < j))
    return max(sum(sizes[i] for i in one) for one in together_all)


def packing_of(sizes, together) -> Packing:
    blocks = (MemoryBlock(str(i), size, i, len(sizes) + 1) for i, size in enumerate(sizes))
    return Packing(tuple(blocks), together)


def test_it_is_the_heaviest():
    for seed in range(300):
        sizes, together = random_together(seed)
        found = heaviest_antichain(sizes, together)
        assert all((i, j) in together for j in found for i in found if i < j)
        assert sum(sizes[i] for i in found) == heaviest(sizes, together), seed


def test_of_what_is_no_order_it_is_still_a_bound():
    for seed in range(200):
        rng = random.Random(seed)
        sizes = [rng.randint(0, 5) for _ in range(8)]
        together = frozenset((i, j) for j in range(8) for i in range(j) if rng.random() < 0.5)
        found = heaviest_antichain(sizes, together)
        assert all((i, j) in together for j in found for i in found if i < j)


def test_steps_say_the_same_where_there_are_some():
    ordered = 0
    for seed in range(300):
        sizes, together = random_together(seed)
        steps = interval_steps(packing_of(sizes, together))
        if steps is None:
            continue
        ordered += 1
        for j, (born, dies) in enumerate(steps):
            for i, (other_born, other_dies) in enumerate(steps[:j]):
                assert ((i, j) in together) == (born < other_dies and other_born < dies), seed
    assert 50 < ordered < 300


def test_small_changes_never_make_the_arena_larger():
    for seed in range(60):
        sizes, together = random_together(seed)
        packing = packing_of(sizes, together)
        start = tuple(sum(sizes[:i]) for i in range(len(sizes)))
        found = improved(packing, start, 0.02)
        check_offsets(packing, found)
        totals = [max((o + s for o, s in zip(one, sizes, strict=True)), default=0) for one in (start, found)]
        assert packing.lower_bound <= totals[1] <= totals[0]


def test_exact_is_certified_on_random_orders():
    certified = 0
    for seed in range(60):
        packing = packing_of(*random_together(seed))
        packed = pack(packing, planner_of("exact"), 0.05)
        certified += packed.certified
        assert packed.total >= packing.lower_bound
    assert certified >= 55


NETWORKS = ("inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "densenet121")


@pytest.mark.parametrize("name", [thorough_unless(name in ("shufflenet", "squeezenet"), name) for name in NETWORKS])
def test_plans_for_streams_of_light_networks_are_certified(name, tmp_path):
    onnx.save(random_light(name), tmp_path / "m.onnx")
    found = analyze_streams(wb.load(tmp_path / "m.onnx"))
    assert found.concurrent.certified and found.concurrent.packed.total >= found.sequential.packed.total
    assert any("the proven minimum" in sentence for sentence in found.sentences)
