"""The least memory traffic of a grouping: against all groupings of small graphs, and on graphs made by hand."""

import json
import random

import numpy as np
import pytest

from passes.fuse.fuse_minimum import FuseMinimum
from tests.commands import OCR, SAMPLES
from tests.random_graphs import random_graph
from tests.running import outputs, random_inputs, typed
from tests.slow import thorough_unless
from workbench.__main__ import main
from workbench.ir.text import to_text
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FUSABLE, INJECTIVE, OPAQUE, REDUCTION
from workbench.planning.fusion.grouping import Groups, merges
from workbench.planning.fusion.minimum_traffic import least_traffic
from workbench.planning.fusion.problem import FusionEdge, Operator
from workbench.planning.fusion.rules import RULES
from workbench.planning.fusion.traffic import StoredValue, traffic
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

KINDS = (ELEMENTWISE, ELEMENTWISE, BROADCAST, BROADCAST, INJECTIVE, INJECTIVE, REDUCTION, FUSABLE, FUSABLE, OPAQUE)


def random_problem(seed, count):
    """Operators with one result each, of random kinds, edges and sizes; some are views of an operand."""
    draw = random.Random(seed)
    kinds = [draw.choice(KINDS) for _ in range(count)]
    edges = [[] for _ in range(count)]
    weight = StoredValue(draw.randint(1, 9), None)
    values, stored = [weight], []
    for i, kind in enumerate(kinds):
        operands = sorted(draw.sample(range(i), min(i, draw.choice((1, 1, 2, 2, 3)))))
        for j in operands:
            edge = draw.choice((ELEMENTWISE, kind)) if kind == BROADCAST else kind
            edges[j].append(FusionEdge(i, edge))
        if kind == INJECTIVE and len(operands) == 1 and draw.random() < 0.5:  # a view
            stored.append(stored[operands[0]])
            stored[i].views.append(i)
            continue
        for value in {id(stored[j]): stored[j] for j in operands}.values():
            value.users.append(i)
        if draw.random() < 0.4:
            weight.users.append(i)
        stored.append(StoredValue(draw.randint(1, 9), i))
        values.append(stored[i])
    leaves = [not edges[i] or draw.random() < 0.15 for i in range(count)]
    for i in range(count):
        stored[i].leaves = stored[i].leaves or leaves[i]
    return [Operator(str(i), f"Op '{i}'", kinds[i], tuple(edges[i]), leaves[i]) for i in range(count)], values


def partitions(count):
    """Every grouping of that many operators: the number of the group of each."""
    groupings = [[]]
    for _ in range(count):
        groupings = [[*g, number] for g in groupings for number in range(max(g, default=-1) + 2)]
    return groupings


def is_allowed(operators, rules, group, most):
    """The rules, as `FusionRules` states them."""
    for number in set(group):
        members = {i for i in range(len(group)) if group[i] == number}
        leaving = [
            i for i in members if operators[i].is_output or any(edge.user not in members for edge in operators[i].edges)
        ]
        if len(members) == 1:
            continue
        if len(members) > most or (len(leaving) != 1 and not rules.multi_output):
            return False
        if sum(operators[i].kind == FUSABLE for i in members) > 1:
            return False
        inside = [(i, edge) for i in members for edge in operators[i].edges if edge.user in members]
        if not all(rules.allow(operators[i].kind, edge.kind, operators[edge.user].kind) for i, edge in inside):
            return False
        if not is_connected(members, [(i, edge.user) for i, edge in inside]):
            return False
    return has_no_cycle({(group[i], group[edge.user]) for i in range(len(group)) for edge in operators[i].edges})


def is_connected(members, edges):
    reached, before = {min(members)}, set()
    while reached != before:
        before = set(reached)
        reached |= {end for edge in edges if reached & set(edge) for end in edge}
    return reached == members


def has_no_cycle(edges):
    edges = {(a, b) for a, b in edges if a != b}
    while starts := {a for a, _ in edges} - {b for _, b in edges}:
        edges = {(a, b) for a, b in edges if a not in starts}
    return not edges


def greedy(operators, most):
    groups = Groups(operators)
    for _ in merges(groups, most):
        pass
    return groups.group


@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(i, marks=pytest.mark.slow) for i in range(40, 240))])
def test_no_grouping_has_less_traffic(seed):
    operators, values = random_problem(seed, 4 + seed % 4)
    most = (2, 3, 256)[seed % 3]
    start = greedy(operators, most)
    everything = partitions(len(operators))
    for rules in RULES.values():
        assert is_allowed(operators, rules, start, most)
        found = least_traffic(operators, values, rules, most, start, 60)
        assert is_allowed(operators, rules, found.group, most)
        least = min(traffic(values, group) for group in everything if is_allowed(operators, rules, group, most))
        assert found.lower_bound == traffic(values, found.group) == least <= traffic(values, start)


@pytest.mark.parametrize("seed", [thorough_unless(seed < 3, seed) for seed in range(12)])
def test_what_is_found_within_a_time_limit_is_allowed_and_has_a_bound(seed):
    """Of graphs too large to try every grouping, with a second for the groups with several outputs."""
    operators, values = random_problem(seed, 40)
    most = (4, 256)[seed % 2]
    reached = traffic(values, greedy(operators, most))
    for rules in RULES.values():
        found = least_traffic(operators, values, rules, most, greedy(operators, most), 1)
        assert is_allowed(operators, rules, found.group, most)
        assert found.lower_bound <= traffic(values, found.group) <= reached
        reached = traffic(values, found.group)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_search_without_time_has_the_bound_that_holds_for_every_grouping(rules):
    operators, values = random_problem(1, 40)
    found = least_traffic(operators, values, rules, 256, range(40), 0)
    alone = [value.size for value in values if (value.users if value.producer is None else value.leaves)]
    assert found.lower_bound >= sum(alone) > 0
    assert found.lower_bound <= least_traffic(operators, values, rules, 256, range(40), 5).lower_bound


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(i, marks=pytest.mark.slow) for i in range(4, 60))])
def test_a_random_graph_of_least_traffic_gives_the_same(seed):
    text = "g (float[2,4,6] x) => (float[2,4,6] y) { a = Relu(x)  y = Exp(a) }"
    graph = random_graph(seed, [text, text], operators=16)
    graph.dims["N"] = 2
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    for rules in RULES:
        after = graph.copy()
        step = run_pass(FuseMinimum(grouped_by=rules), after, PassContext(load_profile("cuda")), check_each=True)
        assert sorted(n for group in step.facts.groups for n in group.members) == sorted(n.name for n in graph.nodes)
        for name, array in outputs(after, inputs).items():
            np.testing.assert_array_equal(array, expected[name])
        for rewrite in reversed(step.rewrites):
            after.apply(rewrite.inverse)
        assert to_text(after) == to_text(graph)


def test_sizes_that_are_unknown_prove_nothing():
    graph = typed("g (float[N] x) => (float[N] y) { a = Neg(x)  y = Exp(a) }")
    step = run_pass(FuseMinimum(), graph, PassContext(load_profile("cuda")))
    assert len(graph) == 1
    assert (step.facts.traffic.bound_bytes, step.facts.traffic.certified) == (None, None)
    assert step.facts.sentence == (
        "2 operators in 1 group; the memory traffic is unknown, since sizes do not follow from the inputs"
    )


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["wider", pytest.param("same", marks=pytest.mark.slow)])
def test_the_report_has_the_bound(rules, tmp_path, capsys):
    report = tmp_path / "r.json"
    words = ["optimize", str(OCR), "--passes", "fuse_minimum", "--option", f"fuse_minimum.rules={rules}"]
    assert main([*words, "--report", str(report), "-o", str(tmp_path / "out.onnx")]) == 0
    assert f"no grouping under the {rules} rules has less" in capsys.readouterr().out
    (step,) = json.loads(report.read_text())["steps"]
    found = step["traffic"]
    assert found["certified"] is True and found["bound_bytes"] == found["bytes"] < found["unfused_bytes"] / 3
    assert step["verified"] is True and step["options"]["rules"] == rules


@pytest.mark.slow
def test_wider_rules_need_less_on_a_real_model(tmp_path):
    """And the groups of fuse_groups need no less than the minimum under the same rules."""
    sizes = {}
    for name, words in {
        "greedy": ["fuse_groups"],
        "same": ["fuse_minimum"],
        "wider": ["fuse_minimum", "--option", "fuse_minimum.rules=wider"],
    }.items():
        report = tmp_path / f"{name}.json"
        model, out = str(SAMPLES / "basic_pitch_nmp.onnx"), str(tmp_path / "out.onnx")
        assert main(["optimize", model, "--passes", *words, "--verify", "off", "--report", str(report), "-o", out]) == 0
        sizes[name] = json.loads(report.read_text())["steps"][0]["traffic"]["bytes"]
    assert sizes["wider"] < sizes["same"] < sizes["greedy"]
