"""Streams: the fewest chains against brute force, bounds on real models, and memory when operators run side by side."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import onnx
import pytest

import workbench as wb
from sample_models.light import random_light
from tests.memory_replay import Wrong, replay
from tests.running import typed
from tests.slow import thorough_unless
from tests.test_memory_sharing import random_graph
from workbench.planning.memory.planning import plan_memory, sharing_of
from workbench.planning.solvers.path_cover import fewest_chains
from workbench.planning.streams.analysis import StreamsAnalysis, analyze_streams
from workbench.planning.streams.dependencies import Dependencies, closure
from workbench.planning.streams.scheduling import launch_order, schedule

BRANCHES = "sample_models/memory/branches.onnx"


def random_after(seed: int, most: int = 9) -> tuple[tuple[int, ...], ...]:
    rng = random.Random(seed)
    return tuple(tuple(sorted(rng.sample(range(i), min(i, rng.randint(0, 3))))) for i in range(rng.randint(1, most)))


def widest(after) -> int:
    """The most operators of which none must run before another, by trying all sets."""
    before = closure(after)
    sets = range(1 << len(after))
    return max(m.bit_count() for m in sets if not any(m >> i & 1 and before[i] & m for i in range(len(after))))


def test_chains_are_as_few_as_can_be():
    for seed in range(400):
        after = random_after(seed)
        chains, before = fewest_chains(after), closure(after)
        assert sorted(number for chain in chains for number in chain) == list(range(len(after)))
        assert all(before[b] >> a & 1 for chain in chains for a, b in pairwise(chain))
        assert len(chains) == widest(after), seed


def test_five_thousand_operators():
    rng = random.Random(0)
    after = tuple((i - 1 if rng.random() < 0.4 else max(0, i - 4),) if i else () for i in range(5000))
    chains = fewest_chains(after)
    assert sorted(number for chain in chains for number in chain) == list(range(5000)) and len(chains) < 2500


def test_launches_and_schedules_keep_the_dependencies():
    for seed in range(200):
        rng, after = random.Random(seed), random_after(seed, 14)
        times = tuple(rng.choice([0.0, 1.0, 2.0, 5.0]) for _ in after)
        dependencies = Dependencies(after, times, tuple(rng.random() < 0.5 for _ in after))
        place = {number: i for i, number in enumerate(launch_order(dependencies))}
        assert all(place[one] < place[number] for number, earlier in enumerate(after) for one in earlier)
        made = schedule(dependencies)
        runs = {run.operator: run for run in made.runs}
        for number, run in runs.items():
            assert all(runs[one].end_us <= run.start_us for one in after[number])
            beside = [other for other in made.runs if other.stream == run.stream and other.operator != number]
            assert all(other.end_us <= run.start_us or run.end_us <= other.start_us for other in beside)
        assert dependencies.critical_path <= made.makespan_us <= dependencies.total + 1e-9
        assert dependencies.bound >= 1.0 or not dependencies.total


def test_of_equal_operators_kinds_alternate():
    free = Dependencies(((),) * 4, (1.0,) * 4, (True, True, False, False))
    kinds = [free.computing[number] for number in launch_order(free)]
    assert kinds == [True, False, True, False]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("name", "streams", "low", "high"), [("inception_v2", 4, 1.8, 2.1), ("resnet50", 2, 1.0, 1.1)])
def test_light_models(name, streams, low, high, tmp_path):
    onnx.save(random_light(name), tmp_path / "m.onnx")
    found = analyze_streams(wb.load(tmp_path / "m.onnx"))
    assert len(found.schedule.streams) == streams and low < found.schedule.dependencies.bound < high


def random_interleaving(found: StreamsAnalysis, rng: random.Random):
    """An order of the nodes that the streams and their waits allow."""
    number = {node.name: i for i, node in enumerate(found.problem.operators)}
    done_nodes, done, left, order = set(), 0, list(found.graph.nodes), []
    while left:
        ready = [
            node
            for node in left
            if all((maker := found.graph.producer(v)) is None or maker.name in done_nodes for v in node.operands)
            and (node.name not in number or not found.schedule.before[number[node.name]] & ~done)
        ]
        at_once = [node for node in ready if node.name not in number]  # views touch no memory, whenever they are made
        node = rng.choice(at_once or ready)
        left.remove(node)
        order.append(node)
        done_nodes.add(node.name)
        done |= 1 << number[node.name] if node.name in number else 0
    return order


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("block", [thorough_unless(block < 2, block) for block in range(6)])
def test_no_interleaving_reads_what_was_overwritten(block):
    refused = 0
    for seed in range(60 * block, 60 * block + 60):
        found, rng = analyze_streams(typed(random_graph(seed))), random.Random(seed)
        refused += bool(found.conflict)
        for _ in range(4):
            replay(found.graph, found.concurrent, random_interleaving(found, rng))
    assert refused


def test_a_sequential_plan_is_refused_on_branches():
    found = analyze_streams(wb.load(BRANCHES))
    assert "'left2'" in found.conflict and "are in use at the same time" in found.conflict
    assert found.sequential.packed.total == 3 * 16_384 and found.concurrent.packed.total == 4 * 16_384
    sequential = plan_memory(sharing_of(found.graph))
    with pytest.raises(Wrong):
        for seed in range(40):
            replay(found.graph, sequential, random_interleaving(found, random.Random(seed)))


@pytest.mark.slow
def test_the_command(done):
    found = json.loads(done("lanes", BRANCHES, "--json"))
    assert found == json.loads(done("streams", BRANCHES, "--json"))
    assert found["streams"] == [["left1", "left2", "left3", "y"], ["right1", "right2", "right3"]]
    assert sorted(found["launch_order"]) == sorted(run["node"] for run in found["schedule"]) and found["bound"] > 1.7
    text = done("streams", BRANCHES)
    assert "streams: 2, as many as operators of which none waits for another; waits between streams: 1" in text
    assert "a model, not measured: an H100 with 3 TB/s" in text
    measured = done("streams", BRANCHES, "--measure")
    assert "each operator measured alone" in measured and "measured on cpu: " in measured
    as_json = json.loads(done("streams", BRANCHES, "--measure", "--json"))["measured"]
    assert as_json["device"] == "cpu" and ("CUDA device only" in as_json["reason"] and as_json["streams"] is None)


def fewest_skips(after, chains: int) -> int:
    """The fewest places where a chain skips operators, of all covers by so many chains, by trying all."""
    before = closure(after)

    def fewest(number: int, ends: tuple[int, ...]) -> int:
        if number == len(after):
            return 0
        new = [(fewest(number + 1, (*ends, number)))] if len(ends) < chains else []
        behind = [end for end in ends if before[number] >> end & 1]
        rest = [
            (end not in after[number]) + fewest(number + 1, (*(e for e in ends if e != end), number)) for end in behind
        ]
        return min([*new, *rest], default=99)

    return fewest(0, ())


def test_chains_follow_edges_where_they_can():
    for seed in range(400):
        after = random_after(seed, 7)
        chains = fewest_chains(after)
        skips = sum(first not in after[second] for chain in chains for first, second in pairwise(chain))
        assert skips == fewest_skips(after, len(chains)), seed


def test_what_a_stream_does_not_wait_for_has_ended():
    for seed in range(200):
        after = random_after(seed, 14)
        made = schedule(Dependencies(after, (1.0,) * len(after), (False,) * len(after)))
        kept = [list(waits) for waits in made.waits_for]
        for chain in made.streams:
            for first, second in pairwise(chain):
                kept[second].append(first)
        assert tuple(closure(kept)) == made.before
