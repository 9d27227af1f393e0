"""A Loop that always runs the same few times is its body, so many times over."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule, option

_OPERANDS_BEFORE = 2  # of a Loop, and inputs of its body: trip count and condition, iteration and condition


@dataclass
class _Unrolled:
    """What stands in the place of the Loop, as it grows."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Constant | None] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)

    def value(self, graph: Graph, base: str) -> str:
        name = graph.fresh(base, self.taken)
        self.taken.add(name)
        return name

    def add(self, graph: Graph, node: Node) -> None:
        name = graph.fresh(node.name, self.named)
        self.named.add(name)
        self.nodes.append(node.replace(name=name))


def _trips(graph: Graph, node: Node, options: UnrollLoops) -> int:
    count, going = node.inputs[0], node.inputs[1]
    trips = graph.constant(count) if count else None
    if trips is None:
        raise NoMatch(f"how often {node} runs is not known")
    condition = graph.constant(going) if going else None
    if going and (condition is None or not condition.numpy().all()):
        raise NoMatch(f"{node} may stop before it begins")
    body = node.bodies["body"]
    goes_on = body.outputs[0]
    kept = body.constant(goes_on)
    maker = body.producer(goes_on)
    passes_on = maker is not None and maker.op == "Identity" and maker.inputs[0] == body.inputs[1]
    if not (passes_on or goes_on == body.inputs[1] or (kept is not None and kept.numpy().all())):
        raise NoMatch(f"{node} decides in each turn whether it goes on")
    times = int(trips.numpy().reshape(-1)[0])
    if times < 1:
        raise NoMatch(f"{node} runs {times} times, and what it would give then is another matter")
    if times * len(body) > options.most_nodes:
        raise NoMatch(f"{times} times the {len(body)} nodes of {node} exceed the bound of {options.most_nodes:,}")
    return times


def _turn(graph: Graph, body: Graph, number: int, carried: list[str], made: _Unrolled) -> list[str]:
    """One more turn of the body; the values that it gives, without the condition."""
    iteration, condition = (
        made.value(graph, f"{body.inputs[0]}_{number}"),
        made.value(graph, f"{body.inputs[1]}_{number}"),
    )
    made.constants |= {iteration: constant(np.array(number, dtype=np.int64)), condition: constant(np.array(True))}
    names = dict(zip(body.inputs, (iteration, condition, *carried), strict=True))
    for value in body.values():
        if value not in names:
            names[value] = made.value(graph, f"{value}_{number}")
    made.constants |= {names[value]: tensor for value, tensor in body.constants.items()}
    for inner in body.nodes:
        outputs = tuple(names.get(v, v) for v in inner.outputs)
        made.add(graph, inner.with_values_renamed(names).replace(name=f"{inner.name}_{number}", outputs=outputs))
    return [names.get(value, value) for value in body.outputs[1:]]


def match_few_trips(graph: Graph, node: Node, options: UnrollLoops) -> Rewrite:
    times = _trips(graph, node, options)
    body, made = node.bodies["body"], _Unrolled()
    carried = list(node.inputs[_OPERANDS_BEFORE:])
    collected: list[list[str]] = []
    for number in range(times):
        results = _turn(graph, body, number, carried, made)
        collected.append(results[len(carried) :])
        carried = results[: len(carried)]
    replace = dict(zip(node.outputs, carried, strict=False))
    for place, value in enumerate(node.outputs[len(carried) :]):
        replace[value] = _stacked(graph, node, [turn[place] for turn in collected], made)
    edit = Edit(
        remove=(node.name,),
        insert=tuple(made.nodes),
        replace={old: new for old, new in replace.items() if old},
        constants=made.constants,
    )
    sentence = f"{node} always runs {times} times; its {len(body)} nodes stand there {times} times over"
    return Rewrite(edit, sentence, (node.name,))


def _stacked(graph: Graph, node: Node, values: list[str], made: _Unrolled) -> str:
    """What a scan output is: the values of all turns along a new first axis."""
    axis = made.value(graph, f"{node.name}_axis")
    made.constants[axis] = constant(np.array([0], dtype=np.int64))
    parts = []
    for value in values:
        parts.append(made.value(graph, f"{value}_part"))
        made.add(graph, Node("Unsqueeze", (value, axis), (parts[-1],), name=f"Unsqueeze_{parts[-1]}"))
    stacked = made.value(graph, f"{node.name}_stacked")
    made.add(graph, Node("Concat", tuple(parts), (stacked,), {"axis": 0}, name=f"Concat_{stacked}"))
    return stacked


@dataclass(frozen=True)
class UnrollLoops(Pass):
    """One case: a Loop with a constant number of turns that never stops before becomes its nodes, turn by turn;
    what it collects of each turn is stacked along a new first axis.

    Must not act where the turns are counted or ended while the model runs, where there is none, nor where the
    nodes together exceed `most_nodes`.

    Source: ONNX's definition of Loop; loop unrolling.
    """

    title = "Unroll short loops"

    most_nodes: int = option(64, "The most nodes that take the place of one Loop.", least=1)

    rules = (
        Rule(
            "few turns",
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
                sentences=("Loop 'Loop_y' always runs 2 times; its 3 nodes stand there 2 times over",),
            ),
            refusals=(
                Refusal(
                    """g (float[3] x, int64 m) => (float[3] y) <bool go = {1}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Identity(c)  w = Add(v, v) }>
                    }""",
                    "how often Loop 'Loop_y' runs is not known",
                ),
                Refusal(
                    """g (float[3] x, bool go) => (float[3] y) <int64 m = {2}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Identity(c)  w = Add(v, v) }>
                    }""",
                    "Loop 'Loop_y' may stop before it begins",
                ),
                Refusal(
                    """g (float[3] x) => (float[3] y) <int64 m = {2}, bool go = {1}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Not(c)  w = Add(v, v) }>
                    }""",
                    "Loop 'Loop_y' decides in each turn whether it goes on",
                ),
                Refusal(
                    """g (float[3] x) => (float[3] y) <int64 m = {0}, bool go = {1}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Identity(c)  w = Add(v, v) }>
                    }""",
                    "Loop 'Loop_y' runs 0 times, and what it would give then is another matter",
                ),
                Refusal(
                    """g (float[3] x) => (float[3] y) <int64 m = {9}, bool go = {1}> {
                        y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w)
                            { d = Identity(c)  w = Add(v, v) }>
                    }""",
                    "9 times the 2 nodes of Loop 'Loop_y' exceed the bound of 10",
                    options={"most_nodes": 10},
                ),
            ),
            exactness=Exactness.BITS,
        ),
    )
