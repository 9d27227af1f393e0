"""A proven minimum says over which choices, beside ONNX Runtime's own removal of Transposes (its basic level)."""

from __future__ import annotations

import json
import random
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, parser

import passes
from benchmarks.minimum import left_by_onnx_runtime
from tests.conftest import ROOT
from workbench.analysis.metrics.transpose_cost import Counts, count_transposes
from workbench.formats.io import load_model
from workbench.interfaces import api
from workbench.planning.layout.problem.orders import BELOW_BOUND, proof
from workbench.planning.layout.profile import load_profile
from workbench.planning.layout.strategies.strategy_facts import layout_facts, layout_step
from workbench.planning.solvers.integer_program import IntegerSolution

SEARCHES_ON = "other orders of axes, which optimal searches, may move less"
HEADER = '<ir_version: 8, opset_import: ["": 17]>\n'
# With channels first and last alone, more is moved than ONNX Runtime's rules leave: in the first a Transpose turns what
# is channels first further, 2,688 bytes; in the second one before a reduction moves more than one behind it, 768.
ANY_ORDER = {
    "turned further": (
        """g (float[1,4,4,6] x) => (float[1,4,6,4] v5, float[1,12,4,4] v6, float[1,12,4,4] v7) {
            v1 = Transpose <perm = [0, 3, 1, 2]> (x)
            v2 = Mul (v1, v1)
            v3 = Transpose <perm = [0, 2, 3, 1]> (v2)
            v4 = Concat <axis = 3> (v3, v3)
            v5 = Transpose <perm = [0, 3, 1, 2]> (v1)
            v6 = Transpose <perm = [0, 3, 1, 2]> (v4)
            v7 = Transpose <perm = [0, 3, 1, 2]> (v4)
        }""",
        768,
    ),
    "before a reduction": (
        """g (float[1,4,4,6] x, float[1,4,6,4] z) => (float[1,4,1,6] v8, float[1,4,6,1] v9) {
            v1 = Transpose <perm = [0, 2, 3, 1]> (z)
            v2 = Add (v1, v1)
            v3 = Transpose <perm = [0, 3, 1, 2]> (v1)
            v4 = Mul (v2, v2)
            v5 = Relu (v3)
            v6 = Transpose <perm = [0, 2, 3, 1]> (v4)
            v7 = Add (v6, v6)
            v8 = ReduceMean <axes = [2], keepdims = 1> (v7)
            v9 = ReduceMean <axes = [3], keepdims = 1> (v5)
        }""",
        96,
    ),
}


def laid_out(path: Path, strategy: str):
    """Bytes that the strategy's Transposes move, and its facts."""
    history = api.optimize(load_model(path), preset="none", layout=strategy, target="cuda")
    return count_transposes(history.graph).bytes_moved, layout_facts(layout_step(history))


def random_transposes(seed: int) -> onnx.ModelProto:
    """Images of 96 elements through Transposes, elementwise operators, Concats and reductions."""
    draw = random.Random(seed)
    shapes = {f"x{i}": draw.choice([(1, 4, 4, 6), (1, 4, 6, 4), (1, 6, 4, 4)]) for i in range(draw.randint(1, 2))}
    inputs, nodes = list(shapes), []

    def add(op: str, operands: list[str], shape: tuple[int, ...], **attributes: object) -> None:
        name = f"v{len(nodes)}"
        shapes[name] = shape
        nodes.append(helper.make_node(op, operands, [name], **attributes))

    for _ in range(draw.randint(4, 11)):
        value = draw.choice(list(shapes)[-4:])
        shape, axis = shapes[value], draw.choice([1, 2, 3])
        kind = draw.choice(["Transpose", "Transpose", "Relu", "Add", "Concat", "ReduceMean"])
        if kind == "Transpose":
            perm = draw.choice([(0, 3, 1, 2), (0, 2, 3, 1)])
            add(kind, [value], tuple(shape[i] for i in perm), perm=perm)
        elif kind == "Add":
            add(kind, [value, draw.choice([v for v, other in shapes.items() if other == shape])], shape)
        elif kind == "Concat":
            add(kind, [value, value], tuple(2 * d if i == axis else d for i, d in enumerate(shape)), axis=axis)
        elif kind == "ReduceMean":
            add(kind, [value], tuple(1 if i == axis else d for i, d in enumerate(shape)), axes=[axis], keepdims=1)
        else:
            add(kind, [value], shape)
    read = {value for node in nodes for value in node.input}
    infos = {value: helper.make_tensor_value_info(value, TensorProto.FLOAT, shape) for value, shape in shapes.items()}
    ends = [infos[node.output[0]] for node in nodes if node.output[0] not in read]
    graph = helper.make_graph(nodes, "g", [infos[value] for value in inputs if value in read], ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", ANY_ORDER)
def test_the_minimum_is_over_every_order_in_use(name, tmp_path):
    text, moved = ANY_ORDER[name]
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(HEADER + text), path)
    found, facts = laid_out(path, "optimal")
    assert found == moved <= left_by_onnx_runtime(path).bytes_moved
    assert facts.certified and facts.sentence.startswith(f"{facts.over} moves less than {moved:,} bytes, ")


def test_two_transposes_around_what_is_no_image_cancel_through_an_operator(tmp_path):
    """`opt_relu.onnx`: values behind a MatMul are Tensors, and the two Transposes around the Relu after it went to no
    layout."""
    ones = ", ".join(["1"] * 64)
    weights = f"float[8,8,1,1] w = {{{ones}}}, float[8,8] m = {{{ones}}}"
    between = """a{i} = Transpose <perm = [0, 2, 3, 1]> ({x})  b{i} = MatMul (a{i}, m)  c{i} = Add (b{i}, b{i})
        d{i} = Transpose <perm = [0, 3, 1, 2]> (c{i})  r{i} = Relu (d{i})"""
    text = f"""g (float[1,8,8,8] x) => (float[1,8,8,8] y) <{weights}> {{
        x0 = Conv (x, w)  {between.format(i=1, x="x0")}  {between.format(i=2, x="r1")}  y = Conv (r2, w) }}"""
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(HEADER + text), path)
    history = api.optimize(load_model(path), preset="none", layout="optimal", target="nchw")
    assert count_transposes(history.graph).transposes == 2  # of 4
    assert (
        layout_facts(layout_step(history)).lower_bound
        == 2 * 8 * 8 * 8 * 4
        == count_transposes(history.graph).bytes_moved
    )


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 200), marks=pytest.mark.slow)], ids=str)
def test_onnx_runtime_moves_no_less_than_the_minimum(seeds, tmp_path):
    compared = 0
    for seed in seeds:
        path = tmp_path / f"{seed}.onnx"
        onnx.save(random_transposes(seed), path)
        least = left_by_onnx_runtime(path).bytes_moved
        moved, facts = laid_out(path, "optimal")
        assert facts.lower_bound is None or moved >= facts.lower_bound
        if facts.lower_bound is not None:
            compared += 1
            assert moved <= least, (seed, facts.sentence)
    assert compared > len(seeds) / 2


def test_blocks_say_that_another_order_may_move_less(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(HEADER + ANY_ORDER["turned further"][0]), path)
    assert laid_out(path, "blocked")[1].sentence.endswith(SEARCHES_ON)
    options = {"layout_blocked.weigh": "count"}
    history = api.optimize(load_model(path), preset="none", layout="blocked", target="cuda", options=options)
    sentence = layout_facts(layout_step(history)).sentence
    assert sentence.endswith("other orders of axes, which optimal searches, may leave fewer")


def test_every_title_says_of_what_the_minimum_is():
    titles = [cls.title for cls in passes.all_passes().values() if "proven minimum" in cls.title]
    assert len(titles) == 5
    assert all(title.partition("proven minimum")[2].startswith((" of ", " with ")) for title in titles)


def test_the_command_names_the_choices_beside_each_proof(done, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(HEADER + ANY_ORDER["turned further"][0]), path)
    said = done("layouts", path, "--target", "cuda", "--no-verify")
    for strategy in ("optimal", "blocked"):
        assert f"\n{strategy}: no choice " in said
    rows = json.loads(done("layouts", path, "--target", "cuda", "--no-verify", "--json"))["strategies"]
    assert rows["blocked"]["proof"].endswith(SEARCHES_ON) and not rows["optimal"]["proof"].endswith(SEARCHES_ON)


def test_a_transpose_of_a_weight_that_an_operator_computes_is_in_the_bound():
    history = api.optimize(load_model(ROOT / "sample_models" / "npu_three_inputs.onnx"), layout="optimal", target="npu")
    facts = layout_facts(layout_step(history))
    assert facts.certified and facts.lower_bound == layout_step(history).after["bytes_moved"]


def test_a_result_below_the_bound_has_none():
    """The problem then lacks a choice that a rewrite made all the same."""
    after, target = Counts(1, 6, 24, 0), load_profile("cpu")
    for bound, words in ((24, "moves less than 24 bytes, and this moves exactly that"), (25, BELOW_BOUND)):
        facts = proof(after, "bytes", IntegerSolution((), (bound,), bound), 0, target, over="no choice")
        assert words in facts.sentence and facts.certified is (bound == 24)
    assert facts.demanded == tuple(target.required_layouts)


def test_what_is_unknown_or_left_to_prove_is_not_certified():
    def facts_of(after, weigh, solution, **words):
        return proof(after, weigh, solution, 0, load_profile("cpu"), over="no choice", **words)

    exact, open_gap = IntegerSolution((), (24, 24), 24), IntegerSolution((), (24, 24), 20)
    unknown = facts_of(Counts(2, 6, 24, 1), "bytes", exact)
    assert (unknown.unknown, unknown.lower_bound, unknown.certified) == (1, None, False)
    counted = facts_of(Counts(24, 6, 24, 1), "count", exact)  # a Transpose of unknown size is one all the same
    assert (counted.unknown, counted.lower_bound, counted.certified) == (0, 24, True)
    found = facts_of(Counts(2, 6, 24, 0), "bytes", open_gap)
    assert (found.lower_bound, found.certified, found.gap) == (20, False, 4 / 24)
    assert not facts_of(Counts(2, 7, 28, 0), "bytes", exact).certified  # the rewrites made more than was chosen
    beyond = facts_of(Counts(2, 6, 24, 0), "bytes", exact, beyond="other orders")
    assert beyond.certified and beyond.sentence.endswith("; other orders may move less")
    timed = facts_of(Counts(2, 6, 24, 0), "time", exact)
    assert timed.certified and not facts_of(Counts(2, 6, 28, 0), "time", exact).certified
