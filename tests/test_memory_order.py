"""Execution orders with the lowest peak: against brute force, on real models, as a pass that can be undone."""

from __future__ import annotations

import itertools
import json
import random

import pytest

import workbench as wb
from sample_models.light import random_light
from tests.running import typed
from tests.slow import thorough_unless
from workbench.ir import Edit, EditError
from workbench.planning.memory.order import OrderedOperator, SchedulingProblem, lowest_peak
from workbench.planning.memory.planning import sharing_of
from workbench.planning.memory.scheduling import scheduling_problem

TRAP = "sample_models/memory/in_place_trap.onnx"


def random_problem(seed: int) -> SchedulingProblem:
    rng = random.Random(seed)
    count = rng.randint(1, 7)
    operators, made = [], []
    for number in range(count):
        before = rng.sample(range(number), rng.randint(0, min(number, 2)))
        reads = tuple(dict.fromkeys(made[one] for one in before))
        made.append(number)
        over = tuple(memory for memory in reads if rng.random() < 0.4)
        operators.append(OrderedOperator(tuple(before), reads, (number,), over))
    sizes = [rng.choice([0, 1, 2, 3, 5, 8]) for _ in range(count)]
    for number, operator in enumerate(operators):  # only a memory of the same size is overwritten
        over = tuple(memory for memory in operator.overwritable if sizes[memory] == sizes[number])
        operators[number] = OrderedOperator(operator.after, operator.reads, operator.writes, over)
    read = {memory for operator in operators for memory in operator.reads}
    kept = frozenset(number for number in range(count) if number not in read or rng.random() < 0.1)
    return SchedulingProblem(tuple(operators), tuple(sizes), kept)


def peak(problem: SchedulingProblem, order) -> int:
    """The most bytes in use at once, counted from scratch."""
    most, users = 0, {}
    for number, operator in enumerate(problem.operators):
        for memory in {*operator.reads, *operator.writes}:
            users.setdefault(memory, set()).add(number)
    for place, number in enumerate(order):
        done, operator = set(order[: place + 1]), problem.operators[number]
        dying = {m for m, who in users.items() if who <= done and number in who and m not in problem.outputs}
        begun = {m for m, who in users.items() if any(m in problem.operators[i].writes for i in done)}
        alive = {m for m in begun if m in problem.outputs or not users[m] <= done or m in dying}
        over = max((problem.sizes[m] for m in operator.overwritable if m in dying), default=0)
        most = max(most, sum(problem.sizes[m] for m in alive) - over)
    return most


def topological(problem: SchedulingProblem):
    for order in itertools.permutations(range(len(problem.operators))):
        place = {number: i for i, number in enumerate(order)}
        if all(place[a] < place[n] for n, one in enumerate(problem.operators) for a in one.after):
            yield order


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("block", [thorough_unless(block < 3, block) for block in range(6)])
def test_it_is_the_lowest_of_all_orders(block):
    for seed in range(60 * block, 60 * block + 60):
        problem = random_problem(seed)
        found = lowest_peak(problem)
        least = min(peak(problem, order) for order in topological(problem))
        assert found.peak == found.lower_bound == least == peak(problem, found.order), seed
        assert found.incumbent == peak(problem, range(len(problem.operators)))


def test_without_time_the_order_stays_and_the_bound_holds():
    problem = next(p for p in map(random_problem, range(1000)) if lowest_peak(p).peak < lowest_peak(p).incumbent)
    best, found = lowest_peak(problem), lowest_peak(problem, states=0)
    assert found.order == tuple(range(len(problem.operators))) and not found.certified
    assert found.lower_bound <= best.peak < found.peak == found.incumbent


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("name", "gains"),
    [("resnet50", False), ("densenet121", False), ("inception_v2", False), ("squeezenet", False), ("shufflenet", True)],
)
def test_light_models_are_certified(name, gains, tmp_path):
    import onnx

    onnx.save(random_light(name), tmp_path / "m.onnx")
    graph = wb.load(tmp_path / "m.onnx")
    found = lowest_peak(scheduling_problem(graph))
    assert found.certified and (found.peak < found.incumbent) == gains
    nodes = [graph.nodes[number] for number in found.order]
    assert sharing_of(graph, "found", nodes).packing.lower_bound <= sharing_of(graph).packing.lower_bound
    if gains:
        assert (found.incumbent, found.peak) == (3_110_912, 2_885_120)


def test_the_pass_reports_is_undone_and_changes_nothing_twice(done, tmp_path):
    text = done("optimize", TRAP, "--passes", "order_for_memory,order_for_memory", "-o", tmp_path / "o.onnx",
                "--report", tmp_path / "r.json")  # fmt: skip
    assert "equal" in text
    first, second = json.loads((tmp_path / "r.json").read_text())["steps"]
    assert first["order"]["after_bytes"] == first["order"]["bound_bytes"] == 4100 and first["rewrites"] == 1
    assert second["rewrites"] == 0 and second["order"]["before_bytes"] == 4100
    assert [node.name for node in wb.load(tmp_path / "o.onnx").nodes] == ["A", "B", "F", "C", "E"]
    history = wb.optimize(wb.load(TRAP), ["order_for_memory"])
    assert [node.name for node in history.at(1, 0).nodes] == ["A", "B", "C", "E", "F"]
    assert [node.name for node in history.at(1, 1).nodes] == ["A", "B", "F", "C", "E"]


def test_sizes_that_are_unknown_are_a_sentence():
    graph = typed("g (float[4] x) => (int64[1,?] y) { y = NonZero(x) }")
    step = wb.optimize(graph, ["order_for_memory"])[1]
    assert not step.rewrites and step.facts.sentence.startswith("the order stays: the size of 'y' is not known")


def test_an_order_that_is_none_is_refused():
    graph = typed("g (float[4] x) => (float[4] y) { a = Neg(x)  y = Exp(a) }")
    first, second = (node.name for node in graph.nodes)
    with pytest.raises(EditError, match="runs before"):
        graph.apply(Edit(ranks={first: 5.0, second: 1.0}))
    with pytest.raises(EditError, match="no node 'nope'"):
        graph.apply(Edit(ranks={"nope": 1.0}))
    assert [node.name for node in graph.nodes] == [first, second]
