"""Lifetimes and shared memory: the founding document's figures, every trap, and random graphs played byte by byte."""

from __future__ import annotations

import random

import pytest

from tests.memory_replay import Wrong, replay
from tests.running import typed
from tests.slow import thorough_unless
from workbench.planning.memory.lifetimes import Kind, lifetimes
from workbench.planning.memory.orders import ORDERS, ordered
from workbench.planning.memory.planners import planners
from workbench.planning.memory.planning import plan_memory, sharing_of

CHAIN = "a = Sqrt(x)  b = Relu(a)  {first} c = Exp(b)  e = Neg(c) {last}"
SUM = "f = ReduceSum<keepdims=0>(b)"


def shared(text: str, **how):
    return sharing_of(typed(text), **how)


def refusals(text: str) -> list[str]:
    return [decision.sentence for decision in shared(text).decisions if not decision.accepted]


def ways(text: str) -> dict[str, str]:
    return {one.value: str(one.how) for one in shared(text).decisions if one.accepted}


@pytest.mark.parametrize(
    ("body", "outputs", "total"),
    [
        (CHAIN.format(first="", last=""), "float[1024] e", 4_096),
        (CHAIN.format(first="", last=SUM), "float[1024] e, float f", 8_196),
        (CHAIN.format(first=SUM, last=""), "float[1024] e, float f", 4_100),
    ],
    ids=["chain", "trap", "sum first"],
)
def test_the_document_s_graph(body, outputs, total):
    sharing = shared(f"g (float[1024] x) => ({outputs}) {{ {body} }}")
    for planner in planners():
        assert plan_memory(sharing, planner).packed.total == total
    said = [decision.sentence for decision in sharing.decisions]
    assert ("Exp 'Exp_c' cannot overwrite 'b': ReduceSum 'ReduceSum_f' reads it later" in said) == (total == 8_196)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "g (float[2,3] x, float[3] r) => (float[2,3] y) { a = Neg(r)  y = Add(a, x) }",
            "Add 'Add_y' cannot overwrite 'a': it has 12 bytes, and is broadcast to the 24 bytes of 'y'",
        ),
        (
            "g (float[4] x) => (double[4] y) { a = Neg(x)  y = Cast<to=11>(a) }",
            "Cast 'Cast_y' cannot overwrite 'a': an element of it has 32 bits, and one of 'y' 64",
        ),
        ("g (float[4] x) => (float[4] y) { y = Neg(x) }", "Neg 'Neg_y' cannot overwrite 'x': it lies in the input 'x'"),
        (
            "g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { a = Reshape(w, s) y = Mul(a, x) }".replace(
                "4}>", "4}, int64[1] s = {4}>"
            ),
            "Mul 'Mul_y' cannot overwrite 'a': it lies in the weight 'w'",
        ),
        (
            "g (float[4] x) => (float[4] a, float[4] y) { a = Neg(x)  y = Exp(a) }",
            "Exp 'Exp_y' cannot overwrite 'a': it is a result of the graph",
        ),
        (
            "g (float[1,4] x) => (float[1,4] y, float[4] z) <int64[1] s = {4}> {"
            " a = Neg(x)  b = Reshape(a, s)  y = Exp(a)  z = Softmax(b) }",
            "Exp 'Exp_y' cannot overwrite 'a': Softmax 'Softmax_z' reads 'b', which lies in the same memory",
        ),
        (
            "g (float[1,4] x, float[1,4] w) => (float[1,8] y) { a = Neg(w) y = Concat<axis=1>(a, x) }",
            "'x' lies in the input 'x'; it is copied",
        ),
        (
            "g (float[2,4] x) => (float[2,8] y) { a = Neg(x)  b = Exp(x)  y = Concat<axis=1>(a, b) }",
            "the operands of Concat 'Concat_y' are not contiguous in 'y'; they are copied",
        ),
        (
            "g (float[1,4] x) => (float[1,8] y) { a = Neg(x)  y = Concat<axis=1>(a, a) }",
            "'a' shares memory with an operand already placed in the result; it is copied",
        ),
        (
            "g (float[1,4] x) => (float[4] y) <int64[1] s = {4}> { y = Reshape(x, s) }",
            "'y' is a result of the graph, and 'x' lies in the input 'x'; it is copied",
        ),
    ],
)
def test_refusals(text, sentence):
    assert sentence in refusals(text)


def test_a_value_that_a_body_reads_is_not_overwritten_before_the_loop_ends():
    text = """g (float[4] x, int64 n, bool c) => (float[4] y, float[4] z) {
        a = Neg(x)
        y = Loop(n, c, x) <body = b (int64 i, bool go, float[4] s) => (bool more, float[4] t) {
            more = Identity(go)  e = Exp(a)  t = Add(s, e) }>
        z = Sqrt(a)
    }"""
    sharing = shared(text)
    inner = next(one for one in sharing.decisions if one.value == "Loop_y/body/e" or one.value.endswith("/e"))
    assert not inner.accepted and "Loop 'Loop_y' reads it later" in inner.sentence
    values = sharing.lifetimes.values
    assert {"Loop_y/body/s", "Loop_y/body/t"} <= set(values)
    begin = next(i for i, step in enumerate(sharing.lifetimes.steps) if step.label.startswith("Loop_y/"))
    assert values["y"].born == begin and values["Loop_y/body/s"].born == begin  # carried through all turns
    assert ways(text)["z"] == "in place"


def test_views_and_places():
    text = """g (float[1,4,6] x) => (float[1,10,6] y, float[1,2,6] q) <int64[2] s = {4, 6}, int64[1] b = {1}, int64[1] e = {3},
            int64[1] axis = {1}, int64[2] halves = {2, 2}> {
        a = Neg(x)
        r = Reshape(a, s)
        w = Exp(r)
        t = Exp(x)
        l = Sqrt(x)
        first, second = Split<axis=1>(l, halves)
        u = Sigmoid(second)
        p = Add(u, first)
        y = Concat<axis=1>(a, t, p)
        q = Slice(t, b, e, axis)
    }"""
    found = ways(text)
    assert {name for name, how in found.items() if how == "view"} == {"r", "first", "second", "q"}
    assert found["a"] == "placed" and found["t"] == "placed" and found["u"] == "in place"
    plan = plan_memory(shared(text), "no_reuse")
    place = {value.name: value.offset for value in plan.values}
    assert place["a"] == place["y"] and place["t"] == place["y"] + 96 and place["q"] == place["t"] + 24


def test_a_view_that_keeps_a_large_value_alive_is_copied():
    text = """g (float[1,1024] x) => (float[1,4] y) <int64[1] b = {0}, int64[1] e = {4}, int64[1] axis = {1}> {
        a = Softmax(x)
        s = Slice(a, b, e, axis)
        c = Softmax(x)  d = Softmax(c)
        z = Slice(d, b, e, axis)
        y = MatMul(s, m)  } """.replace("y = MatMul(s, m)", "p = Softmax(z)  y = Add(p, s)")
    said = refusals(text)
    assert any("would keep the 4,096 bytes of 'a' in use" in sentence for sentence in said), said


def test_results_of_a_function_have_a_workspace():
    from workbench.interfaces.api import optimize

    graph = typed(
        "g (float[8] x, float[8] w) => (float[8] y) { a = Softmax(x) b = Mul(a, w) c = Add(b, a) y = Exp(c) }"
    )
    grouped = optimize(graph, ["fuse_groups"]).graph
    found = lifetimes(grouped)
    own = [value for value in found.values.values() if value.kind == Kind.WORKSPACE]
    assert [value.bytes for value in own] == [3 * 32] or own[0].bytes in (64, 96)


def random_graph(seed: int) -> str:
    """Of values of [1,4,6], as text: elementwise operators, views, Concats and Splits along axes 1 and 2."""
    rng = random.Random(seed)
    lines, shapes = [], {"x": (1, 4, 6), "w": (1, 4, 6)}
    constants: dict[str, str] = {}

    def integers(numbers) -> str:
        text = f"int64[{len(numbers)}] i{len(constants)} = {{{', '.join(map(str, numbers))}}}"
        constants.setdefault(text, f"i{len(constants)}")
        return constants[text]

    def some(shape=None):
        names = [name for name, own in shapes.items() if shape is None or own == shape]
        return rng.choice(names[-6:])

    for number in range(rng.randint(3, 18)):
        name, kind = f"v{number}", rng.choice(["one", "two", "soft", "reshape", "concat", "split", "slice", "turn"])
        operand = some()
        shape = shapes[operand]
        if kind == "one":
            lines.append(f"{name} = {rng.choice(['Neg', 'Exp', 'Relu'])}({operand})")
        elif kind == "two":
            lines.append(f"{name} = Add({operand}, {some(shape)})")
        elif kind == "soft":
            lines.append(f"{name} = Softmax({operand})")
        elif kind == "reshape":
            rest = [size for size in shape if size != 1] or [1]
            shape = tuple(rng.choice([rest, [1, *rest], [*rest, 1]]))
            lines.append(f"{name} = Reshape({operand}, {integers(shape)})")
        elif kind == "turn":
            perm = list(range(len(shape)))
            rng.shuffle(perm)
            shape = tuple(shape[axis] for axis in perm)
            lines.append(f"{name} = Transpose<perm={perm}>({operand})")
        elif kind == "concat":
            axis = rng.randrange(len(shape))
            parts = [operand, *(some(shape) for _ in range(rng.randint(0, 2)))]
            lines.append(f"{name} = Concat<axis={axis}>({', '.join(parts)})")
            shape = tuple(size * len(parts) if i == axis else size for i, size in enumerate(shape))
        elif kind == "split" and any(size > 1 for size in shape):
            axis = rng.choice([i for i, size in enumerate(shape) if size > 1])
            cut = rng.randint(1, shape[axis] - 1)
            lines.append(f"{name}, {name}r = Split<axis={axis}>({operand}, {integers((cut, shape[axis] - cut))})")
            shapes[f"{name}r"] = tuple(shape[axis] - cut if i == axis else size for i, size in enumerate(shape))
            shape = tuple(cut if i == axis else size for i, size in enumerate(shape))
        else:
            axis = rng.randrange(len(shape))
            begin = rng.randrange(shape[axis])
            end = rng.randint(begin + 1, shape[axis])
            numbers = [integers([n]) for n in (begin, end, axis)]
            lines.append(f"{name} = Slice({operand}, {', '.join(numbers)})")
            shape = tuple(end - begin if i == axis else size for i, size in enumerate(shape))
        shapes[name] = shape
    made = [name for name in shapes if name not in "xw"]
    outputs = sorted({made[-1], *rng.sample(made, min(2, len(made)))})
    listed = ", ".join(f"float[{','.join(map(str, shapes[name]))}] {name}" for name in outputs)
    fixed = f"<{', '.join(constants)}>" if constants else ""
    return f"g (float[1,4,6] x, float[1,4,6] w) => ({listed}) {fixed} {{ {'  '.join(lines)} }}"


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("block", [thorough_unless(block < 2, block) for block in range(8)])
def test_no_operator_reads_what_was_overwritten(block):
    names = list(planners())
    for seed in range(100 * block, 100 * block + 100):
        graph = typed(random_graph(seed))
        for number, order in enumerate(ORDERS):
            sharing = sharing_of(graph, order, ordered(graph, order))
            assert sharing.packing.lower_bound <= sharing.unshared_bound
            for planner in names[(seed + number) % 3 :: 3]:  # each with every order, over three graphs
                replay(graph, plan_memory(sharing, planner))


def test_a_plan_made_wrong_is_caught():
    import dataclasses

    graph = typed("g (float[4] x) => (float[4] y) { a = Softmax(x)  b = Softmax(x)  y = Add(a, b) }")
    plan = plan_memory(sharing_of(graph), "no_reuse")
    values = [dataclasses.replace(value, offset=0) if value.name == "b" else value for value in plan.values]
    with pytest.raises(Wrong, match="reads 'a'"):
        replay(graph, dataclasses.replace(plan, values=tuple(values)))
