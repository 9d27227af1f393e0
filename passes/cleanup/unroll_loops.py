"""Replace a Loop with a small constant trip count by copies of its body."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule, option

_OPERANDS_BEFORE = 2  # leading operands that are not loop-carried: trip count and condition


@dataclass
class _Unrolled:
    """The nodes and constants that replace the Loop, while they are collected."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Constant | None] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def value(self, graph: Graph, base: str) -> str:
        name = graph.fresh(base, self.values)
        self.values.add(name)
        return name

    def add(self, graph: Graph, node: Node) -> None:
        name = graph.fresh(node.name, self.names)
        self.names.add(name)
        self.nodes.append(node.replace(name=name))


def _trips(graph: Graph, node: Node, pass_: UnrollLoops) -> int:
    count, start = node.inputs[0], node.inputs[1]
    constant_count = graph.constant(count) if count else None
    if constant_count is None:
        raise NoMatch(f"the trip count of {node} is not known")
    condition = graph.constant(start) if start else None
    if start and (condition is None or not condition.numpy().all()):
        raise NoMatch(f"{node} may run no iteration")
    body = node.bodies["body"]
    next_condition = body.outputs[0]
    constant_condition = body.constant(next_condition)
    producer = body.producer(next_condition)
    is_unchanged = producer is not None and producer.op == "Identity" and producer.inputs[0] == body.inputs[1]
    if not (
        is_unchanged
        or next_condition == body.inputs[1]
        or (constant_condition is not None and constant_condition.numpy().all())
    ):
        raise NoMatch(f"{node} computes in each iteration whether it continues")
    times = int(constant_count.numpy().reshape(-1)[0])
    if times < 1:
        raise NoMatch(f"{node} runs {times} times, so that there is no iteration to copy")
    if times * len(body) > pass_.most_nodes:
        raise NoMatch(f"{times} times the {len(body)} nodes of {node} exceed the limit of {pass_.most_nodes:,}")
    return times


def _add_iteration(graph: Graph, body: Graph, number: int, carried: list[str], unrolled: _Unrolled) -> list[str]:
    """Add an iteration of the body. Returns its results, without the condition."""
    iteration, condition = (
        unrolled.value(graph, f"{body.inputs[0]}_{number}"),
        unrolled.value(graph, f"{body.inputs[1]}_{number}"),
    )
    unrolled.constants |= {iteration: constant(np.array(number, dtype=np.int64)), condition: constant(np.array(True))}
    names = dict(zip(body.inputs, (iteration, condition, *carried), strict=True))
    for value in body.values():
        if value not in names:
            names[value] = unrolled.value(graph, f"{value}_{number}")
    unrolled.constants |= {names[value]: tensor for value, tensor in body.constants.items()}
    for inner in body.nodes:
        outputs = tuple(names.get(v, v) for v in inner.outputs)
        unrolled.add(graph, inner.with_values_renamed(names).replace(name=f"{inner.name}_{number}", outputs=outputs))
    return [names.get(value, value) for value in body.outputs[1:]]


def match_few_trips(graph: Graph, node: Node, pass_: UnrollLoops) -> Rewrite:
    times = _trips(graph, node, pass_)
    body, unrolled = node.bodies["body"], _Unrolled()
    carried = list(node.inputs[_OPERANDS_BEFORE:])
    collected: list[list[str]] = []
    for number in range(times):
        results = _add_iteration(graph, body, number, carried, unrolled)
        collected.append(results[len(carried) :])
        carried = results[: len(carried)]
    replace = dict(zip(node.outputs, carried, strict=False))
    for index, value in enumerate(node.outputs[len(carried) :]):
        replace[value] = _stacked(graph, node, [iteration[index] for iteration in collected], unrolled)
    edit = Edit(
        remove=(node.name,),
        insert=tuple(unrolled.nodes),
        replace={old: new for old, new in replace.items() if old},
        constants=unrolled.constants,
    )
    sentence = f"{node} always runs {times} times; replaced by {times} copies of its {len(body)} nodes"
    return Rewrite(edit, sentence, (node.name,))


def _stacked(graph: Graph, node: Node, values: list[str], unrolled: _Unrolled) -> str:
    """A scan output: the values of all iterations along a new first axis."""
    axis = unrolled.value(graph, f"{node.name}_axis")
    unrolled.constants[axis] = constant(np.array([0], dtype=np.int64))
    parts = []
    for value in values:
        parts.append(unrolled.value(graph, f"{value}_part"))
        unrolled.add(graph, Node("Unsqueeze", (value, axis), (parts[-1],), name=f"Unsqueeze_{parts[-1]}"))
    stacked = unrolled.value(graph, f"{node.name}_stacked")
    unrolled.add(graph, Node("Concat", tuple(parts), (stacked,), {"axis": 0}, name=f"Concat_{stacked}"))
    return stacked


@dataclass(frozen=True)
class UnrollLoops(Pass):
    """One case: a Loop with a constant trip count that never stops early becomes the nodes of its iterations; scan
    outputs are stacked along a new first axis.

    Does not apply:

    - if the trip count or the condition is computed at runtime;
    - if there is no iteration;
    - if the nodes together exceed `most_nodes`.

    Source: ONNX's definition of Loop; loop unrolling.
    """

    title = "Unroll short loops"

    most_nodes: int = option(64, "The most nodes that may replace one Loop.", least=1)

    rules = (
        Rule(
            "small trip count",
            ("Loop",),
            match_few_trips,
            Example(
                before="""g (float[3] x) => (float[3] y, float[2,3] all) <int64 m = {2}, bool go = {1}> {
                    y, all = Loop(m, go, x) <
                        body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] s)
                            { d = Identity(c)  w = Add(v, v)  s = Neg(w) }
                    >
                }""",
                after="""g (float[3] x) => (float[3] y, float[2,3] all)
                    <bool c_0 = {1}, int64[1] Loop_y_axis = {0}, bool c_1 = {1}> {
                    d_0 = Identity(c_0)
                    w_0 = Add(x, x)
                    y = Add(w_0, w_0)
                    s_1 = Neg(y)
                    s_1_part = Unsqueeze(s_1, Loop_y_axis)
                    s_0 = Neg(w_0)
                    s_0_part = Unsqueeze(s_0, Loop_y_axis)
                    all = Concat<axis=0>(s_0_part, s_1_part)
                    d_1 = Identity(c_1)
                }""",
                sentences=("Loop 'Loop_y' always runs 2 times; replaced by 2 copies of its 3 nodes",),
            ),
            refusals=(
                Refusal(
                    """g (float[3] x, int64 m) => (float[3] y) <bool go = {1}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Identity(c)  w = Add(v, v) }>
                    }""",
                    "the trip count of Loop 'Loop_y' is not known",
                ),
                Refusal(
                    """g (float[3] x, bool go) => (float[3] y) <int64 m = {2}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Identity(c)  w = Add(v, v) }>
                    }""",
                    "Loop 'Loop_y' may run no iteration",
                ),
                Refusal(
                    """g (float[3] x) => (float[3] y) <int64 m = {2}, bool go = {1}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Not(c)  w = Add(v, v) }>
                    }""",
                    "Loop 'Loop_y' computes in each iteration whether it continues",
                ),
                Refusal(
                    """g (float[3] x) => (float[3] y) <int64 m = {0}, bool go = {1}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Identity(c)  w = Add(v, v) }>
                    }""",
                    "Loop 'Loop_y' runs 0 times, so that there is no iteration to copy",
                ),
                Refusal(
                    """g (float[3] x) => (float[3] y) <int64 m = {9}, bool go = {1}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Identity(c)  w = Add(v, v) }>
                    }""",
                    "9 times the 2 nodes of Loop 'Loop_y' exceed the limit of 10",
                    options={"most_nodes": 10},
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
