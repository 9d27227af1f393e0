"""Random graphs through presets, strategies and modes give what ONNX Runtime gives; and the fuzzer finds what is wrong."""

import random
from dataclasses import dataclass

import numpy as np
import pytest

import passes
from passes.layout.layout_wrong_on_purpose import LayoutWrongOnPurpose
from tests.cutting_down import cut_down
from tests.fuzz import Fuzzer, Plan, failure, fragments, main, preset
from tests.random_graphs import random_graph
from tests.running import outputs, random_inputs, typed
from workbench.backends.randomness import is_random
from workbench.ir import Edit, check, graph_text
from workbench.rewrite import Exactness, NoMatch, Pass, Rewrite

SMALL, LARGE = range(30), range(1000, 2000)

NEVER_FIRES = {
    "algebra_reduce.shifted to the left": "ONNX Runtime sums no unsigned integers, and runs no such graph",
    "fix_dims": "no dim of a random graph is bound, since each graph runs at several sizes",
}  # rules that fire on no random graph, and why


@dataclass(frozen=True)
class TanhOfSigmoid(Pass):
    """Wrong: a Sigmoid becomes a Tanh."""

    def rewrites(self, graph, context):
        for node in graph.nodes:
            if node.op == "Sigmoid":
                yield Rewrite(Edit(remove=(node.name,), insert=(node.replace(op_type="Tanh"),)), "wrong", (node.name,))


@dataclass(frozen=True)
class Scaled(Pass):
    """Equal up to rounding, and says that it is equal to the last bit: x * 0.7 * 0.3 becomes x * (0.7 * 0.3)."""

    exactness = Exactness.BIT_EXACT

    def rewrites(self, graph, context):
        yield from passes.find_pass("algebra_constants")().run(graph, context.in_mode("ieee"))


@pytest.mark.slow
def test_random_graphs_give_what_onnx_runtime_gives():
    fuzzer = Fuzzer()
    assert [str(found) for found in fuzzer.failures(SMALL)] == []
    assert fuzzer.graphs > 20 and sum(fuzzer.fired.values()) > fuzzer.graphs


@pytest.mark.thorough
def test_a_thousand_random_graphs_give_what_onnx_runtime_gives_and_every_rule_fires():
    fuzzer = Fuzzer()
    assert [str(found) for found in fuzzer.failures(LARGE)] == []
    assert {one.key for one in fragments() if not fuzzer.fired[one.key]} == set(NEVER_FIRES)


def test_most_random_graphs_run_and_are_the_same_for_the_same_seed():
    text = "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"
    ran = 0
    for seed in range(12):
        graph = random_graph(seed, [text])
        check(graph)
        assert graph_text(graph) == graph_text(random_graph(seed, [text]))
        assert not is_random(graph) and len(graph) >= 1
        ran += bool(outputs(graph, random_inputs(graph)))
    assert ran == 12


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("seed", range(8))
def test_a_quick_look_misses_no_match(seed):
    """A rule whose quick look says no is not asked: on random graphs around the examples of all rules."""
    every = [cls() for cls in passes.all_passes().values()]
    rules = [(pass_, rule) for pass_ in every for rule in pass_.rules if rule.may_match is not None]
    draw, found, skipped = random.Random(seed), 0, 0
    for pass_, rule in draw.sample(rules, 32):
        graph = random_graph(draw.randrange(1_000), [rule.example.before])
        for node in (node for node in graph.nodes if not {node.op, "*"}.isdisjoint(rule.operators)):
            try:
                rule.match(graph, node, pass_)
            except NoMatch:
                skipped += not rule.may_match(graph, node)
            else:
                found += 1
                assert rule.may_match(graph, node), f"{rule.name} matches {node}"
    assert found > 5 and skipped > 5


WRONG = """g (float[2,3] x, float[3] z) => (float[2,3] y, float[2,3] u) {
    a = Neg(x)  b = Add(a, z)  s = Sigmoid(b)  c = Exp(s)  y = Mul(c, z)  u = Abs(a)
}"""


@pytest.mark.parametrize("mode", ["ieee", "fast"])
def test_a_wrong_rewrite_is_found_and_cut_down_to_its_node(mode):
    plan = Plan("wrong", (TanhOfSigmoid(),), mode)
    graph = typed(WRONG)
    assert failure(graph, plan).startswith("numbers: Output")
    small = cut_down(graph, lambda g: failure(g, plan) != "")
    assert [node.op for node in small.nodes] == ["Sigmoid"]


def test_what_is_equal_up_to_rounding_fails_in_exact_mode_alone():
    graph = typed(
        "g (float[64] x) => (float[64] y) <float a = {0.7}, float b = {0.3}> { p = Mul(x, a)  y = Mul(p, b) }"
    )
    assert "allowed: nothing" in failure(graph, Plan("scaled", (Scaled(),), "exact"))
    assert failure(graph, Plan("scaled", (Scaled(),), "ieee")) == ""


def test_what_noise_explains_is_no_failure():
    """Two roundings of one number, subtracted and magnified."""
    graph = typed("""g (float[64] x) => (float[64] y) <float a = {0.7}, float b = {0.3}, float ab = {0.21}, float big = {1e7}> {
        p = Mul(x, a)  q = Mul(p, b)  r = Mul(x, ab)  d = Sub(q, r)  y = Mul(d, big)
    }""")
    assert failure(graph, Plan("scaled", (Scaled(),), "ieee")) == ""
    found = Plan("scaled", (Scaled(),), "ieee").run(graph).graph
    x = random_inputs(graph)
    assert np.abs(outputs(graph, x)["y"] - outputs(found, x)["y"]).max() > 0.01


def test_the_strategy_that_is_wrong_on_purpose_is_found():
    example = LayoutWrongOnPurpose.extra_examples[0]
    wrong = failure(typed(example.before), Plan("wrong", (LayoutWrongOnPurpose(),), "ieee", example.target))
    assert wrong.startswith("numbers: ")


def test_the_folder_for_graphs_that_fail_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fuzz", "--models", "0", "--folder", str(tmp_path / "new" / "folder")])
    assert main() == 0
    assert (tmp_path / "new" / "folder").is_dir()


def test_what_onnx_runtime_rounds_or_not_in_float16_is_no_failure_in_exact_mode():
    """Without the ReduceMax over single elements it leaves out the Cast to float16 and back behind the Conv."""
    graph = typed("""g (float16[1,2,4,4] x) => (float[1,2,4,4] y, float16[2,2,4,4] z)
        <float16[2,2,1,1] w = {1, 2, 3, 4}, int64[4] s = {2, 1, 1, 1}, int64[1] a = {0}> {
        c = Conv(x, w)  f = Cast<to = 1>(c)  z = Expand(c, s)  y = ReduceMax(f, a)
    }""")
    assert failure(graph, preset("simplify", "exact")) == ""
    assert "ReduceMax" not in {node.op for node in preset("simplify", "exact").run(graph).graph.nodes}
