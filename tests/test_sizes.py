"""Numbers that follow from shapes are those that ONNX Runtime computes; a long chain costs no more than its nodes."""

import math
import random

import numpy as np
import onnx
import pytest
from onnx import parser

from passes import find_pass
from passes.fold.fold_shapes import FoldShapes
from tests.running import outputs, typed
from workbench.analysis.inference import propagation
from workbench.analysis.inference.sizes import Size, symbolic_value_of
from workbench.formats.io import load_model
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass


def _chain(op: str) -> str:
    """Sixty nodes, each of which reads the one before twice."""
    return "\n".join(["v0 = Shape(x)", *(f"v{i + 1} = {op}(v{i}, v{i})" for i in range(60))])


@pytest.mark.parametrize("op", ["Concat<axis=0>", "Add", "Mul"])
def test_values_that_are_read_twice_over_and_over_are_followed_once(op):
    """Followed operand by operand this chain is 2 ** 60 walks; multiplied out it is a term of 2 ** 60 symbols."""
    graph = typed(f"g (float[N,3] x) => (int64[M] y) {{ {_chain(op)}\ny = Neg(v60) }}")
    assert symbolic_value_of(graph, "v60") is None
    run_pass(FoldShapes(), graph, PassContext(load_profile("cuda")))


@pytest.mark.parametrize("attribute", ["", "<onesided=1>", "<onesided=0>"])
@pytest.mark.parametrize("body", [False, True])
def test_an_stft_gives_half_a_spectrum_unless_it_says_otherwise(attribute, body):
    """ONNX's inference takes an omitted attribute for 0."""
    window = ", ".join(["1"] * 16)
    call = f"s = STFT{attribute}(x, step, w, l)"
    text = f"z = Identity(x)  {call}  y = Shape(s)"
    if body:
        text = f"y = If(c)<then_branch = t() => (int64[4] a) {{ {call}  a = Shape(s) }}, else_branch = e() => (int64[4] b) {{ b = Identity(o) }}>"
    graph = typed(f"""g (float[1,128,1] x, bool c) => (int64[4] y)
        <int64 step = {{8}}, float[16] w = {{{window}}}, int64 l = {{16}}, int64[4] o = {{1, 1, 1, 1}}> {{ {text} }}""")
    before = outputs(graph, {"x": np.zeros((1, 128, 1), np.float32), "c": np.array(True)})
    run_pass(FoldShapes(), graph, PassContext(load_profile("cuda")))
    after = outputs(graph, {"x": np.zeros((1, 128, 1), np.float32), "c": np.array(True)})
    assert list(before["y"]) == list(after["y"]) == [1, 15, 16 if "0" in attribute else 9, 2]


def test_types_of_a_chain_in_a_body_are_inferred_without_its_numbers():
    """ONNX's inference would hold 2 ** 60 of them."""
    graph = typed(f"""g (float[N,3] x, bool c) => (int64[M] y) {{
        y = If (c) <then_branch = t () => (int64[M] z) {{ {_chain("Concat<axis=0>")}\nz = Neg(v60) }},
                    else_branch = e () => (int64[M] w) {{ w = Shape(x) }}> }}""")
    assert graph.tensor_type("y").dtype.name == "INT64"


def test_types_of_a_chain_in_a_function_are_inferred_without_its_numbers(tmp_path):
    path = tmp_path / "m.onnx"
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["": 22, "l": 1]>
        g (float[N,3] x) => (int64[M] y) {{ y = l.f(x) }}
        <domain: "l", opset_import: ["": 22, "l": 1]> f (a) => (b) {{ s = Shape(a)  b = l.double(s) }}
        <domain: "l", opset_import: ["": 22]> double (v0) => (b) {{ {_chain("Concat<axis=0>").partition(chr(10))[2]}
            b = Neg(v60) }}""")
    path.write_bytes(model.SerializeToString())
    assert load_model(path).tensor_type("y").dtype.name == "INT64"


def test_operators_that_propagate_numbers_are_those_that_are_counted():
    """Another version of onnx may have more of them, and then `propagation._count` has to know how they grow."""
    schemas = [s for s in onnx.defs.get_all_schemas() if s.domain == "" and s.has_data_propagation_function]
    assert {schema.name for schema in schemas} == propagation._FOLLOWED


@pytest.mark.parametrize(
    "text",
    [
        "g (float[100000000000] x) => (float[N] y) { y = Mul(x, x) }",
        "g (float[N] x, int64[100000000000] c) => (float[N] y) { d = Cast<to=1>(c)  y = Add(x, d) }",
        "g (float[300000,300000] x) => (float[N] y) <int64[1] s = {-1}> { f = Reshape(x, s)  y = Mul(f, f) }",
    ],
)
def test_the_types_of_a_long_list_are_inferred_without_its_numbers(text, tmp_path):
    """ONNX's data propagation would hold a number for each of its elements."""
    path = tmp_path / "m.onnx"
    path.write_bytes(parser.parse_model(f'<ir_version: 10, opset_import: ["": 22]> {text}').SerializeToString())
    assert load_model(path).tensor_type("y").rank == 1


@pytest.mark.parametrize(
    "lines, size",
    [
        ("s = Shape<start=2>(x)  p = ReduceProd(s)", 1),
        ("s = Shape<start=1, end=2>(x)  p = Div(s, m)  q = Abs(p)", 3),
        ('s = Shape<end=1>(x)  p = ScatterND<reduction="none">(s, i, i)', 0),
    ],
)
def test_lengths_are_followed_through(lines, size):
    """The product of no sizes, a division by a negative number, an attribute that is a text."""
    last = "q" if "q =" in lines else "p"
    graph = typed(
        "g (float[2,3] x) => (float[N,M] y) <int64[1] m = {-1}, int64[1,1] i = {0}, int64[1] o = {1}, float[1] v = {0}>"
        f" {{ {lines.replace('i, i', 'i, k')}  r = Concat<axis=0>(o, {last})  y = Expand(v, r) }}".replace(
            "<int64[1] m", "<int64[1] k = {0}, int64[1] m"
        )
    )
    assert graph.shape("y") == (1, size)


def test_a_value_read_twice_is_one_number():
    graph = typed("g (float[N,3] x) => (int64[2] y) { s = Shape(x)  t = Add(s, s)  u = Sub(t, s)  y = Neg(u) }")
    assert symbolic_value_of(graph, "u") == symbolic_value_of(graph, "s")


# ---- arithmetic of any kind ------------------------------------------------------------------


class Program:
    """Random shape arithmetic: `lists` are the lengths of values of rank 1, `numbers` the scalars."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lists, self.numbers = {"s": 3, "t": 1}, ["n"]
        self.lines = ["s = Shape(x)", "t = Shape<start=1>(z)", "n = Size(z)"]
        for number in range(14):
            self.random.choice([self._list, self._number])(f"v{number}")

    def _list(self, name: str) -> None:
        a, b = self.random.choices(list(self.lists), k=2)
        length, other = self.lists[a], self.lists[b]
        forms = {
            f"Concat<axis=0>({a}, {b})": length + other,
            f"Slice({a}, zero, one)": 1,
            f"Div({a}, two)": length,
            f"Mul({a}, two)": length,
            f"ReduceProd({a}, zero)": 1,
            f"Unsqueeze({self.random.choice(self.numbers)}, zero)": 1,
            f"Reshape({self.random.choice(self.numbers)}, one)": 1,
            f"Identity({a})": length,
        }
        if length == other or 1 in (length, other):
            forms |= {f"{op}({a}, {b})": max(length, other) for op in ("Add", "Sub", "Mul")}
        if length == other:
            self.lines.append(f"{name}_same = Equal({a}, {b})")
            forms[f"Where({name}_same, {b}, {a})"] = length
        form = self.random.choice([form for form, length in forms.items() if length <= 8])
        self.lists[name] = forms[form]
        self.lines.append(f"{name} = {form}")

    def _number(self, name: str) -> None:
        a = self.random.choice(list(self.lists))
        n, m = self.random.choices(self.numbers, k=2)
        forms = ["Size(x)", f"Gather({a}, first)", f"Add({n}, {m})", f"Sub({n}, {m})", f"ReduceProd<keepdims=0>({a})"]
        self.lines.append(f"{name} = {self.random.choice(forms)}")
        self.numbers.append(name)

    def text(self) -> str:
        outs = [f"int64[{length}] {v}" for v, length in self.lists.items()] + [f"int64[] {v}" for v in self.numbers]
        held = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64 first = {0}"
        return f"g (float[N,3,M] x, float[M,N] z) => ({', '.join(outs)}) <{held}> {{ {chr(10).join(self.lines)} }}"


def value_at(size: Size, dims: dict[str, int]) -> int:
    return sum(factor * math.prod(dims[symbol] for symbol in term) for term, factor in size.terms)


@pytest.mark.parametrize("seed", range(40))
def test_random_arithmetic_is_what_onnx_runtime_computes(seed):
    """For several sizes of the inputs, 0 and 1 too; what is not followed is left open, never wrong."""
    program = Program(seed)
    graph = typed(program.text())
    followed = {v: symbolic_value_of(graph, v) for v in (*program.lists, *program.numbers)}
    assert followed["s"] is not None
    for n, m in ((0, 2), (1, 1), (2, 5), (7, 3)):
        found = outputs(graph, {"x": np.zeros((n, 3, m), np.float32), "z": np.zeros((m, n), np.float32)})
        for value, contents in followed.items():
            if contents is None:
                continue
            expected = found[value]
            if np.abs(expected).max(initial=0) > 2**40:  # what wraps around is no size
                continue
            assert [value_at(size, {"N": n, "M": m}) for size in contents.sizes] == expected.reshape(-1).tolist(), value
            assert contents.is_scalar == (expected.ndim == 0), value


def test_random_arithmetic_is_followed():
    """The test above would show nothing if all were left open."""
    programs = [Program(seed) for seed in range(40)]
    values = [(typed(p.text()), v) for p in programs for v in (*p.lists, *p.numbers)]
    assert sum(symbolic_value_of(graph, v) is not None for graph, v in values) > 0.7 * len(values)


def test_what_a_model_declares_of_its_outputs_says_nothing_of_other_values(tmp_path):
    """As GPT-2's export has it: what is cached afterwards is declared as long as what was cached before."""
    text = """<ir_version: 10, opset_import: ["": 23]>
    g (float[P,2] past, float[S,2] x) => (float[P,2] present, int64[1] y, int64[1] z) {
        present = Concat<axis=0>(past, x)
        before = Shape<end=1>(past)
        after = Shape<end=1>(present)
        y = Neg(before)
        z = Neg(after)
    }"""
    onnx.save(parser.parse_model(text), tmp_path / "cached.onnx")
    graph = load_model(tmp_path / "cached.onnx")
    inputs = {"past": np.zeros((3, 2), np.float32), "x": np.zeros((2, 2), np.float32)}
    for name in ("fold_shapes", "common_sizes"):
        run_pass(find_pass(name)(), graph, PassContext(load_profile("cuda")), check_each=True)
    found = outputs(graph, inputs)
    assert (found["y"].tolist(), found["z"].tolist()) == ([-3], [-5])
