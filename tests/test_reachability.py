"""What is reached from some places, each once, the nearest first."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from workbench.support.reachability import reachable


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_what_networkx_finds_the_nearest_first(seed):
    rng = random.Random(seed)
    graph = nx.gnp_random_graph(12, rng.choice([0.05, 0.15, 0.4]), seed=seed, directed=True)
    start = rng.sample(range(12), 2)
    found = list(reachable(start, graph.successors))
    assert sorted(found) == sorted({*start}.union(*(nx.descendants(graph, one) for one in start)))
    distance = {
        n: min(d.get(n, 99) for d in (nx.single_source_shortest_path_length(graph, s) for s in start)) for n in found
    }
    assert found[:2] == start and [distance[one] for one in found] == sorted(distance.values())


def test_nothing_is_asked_before_it_is_needed():
    asked = []

    def following(number):
        asked.append(number)
        return [number + 1]

    first = next(number for number in reachable([0], following) if number == 3)
    assert first == 3 and asked == [0, 1, 2]
