"""Random graphs of small matrices in float32 and float16, some with Casts already, some quantized, for the precision
strategies."""

from __future__ import annotations

import numpy as np

from tests.running import typed
from workbench.ir import Graph

_ROWS, _COLUMNS = 3, 8
_UNARY = ("Relu", "Neg", "Sigmoid", "Identity", "Tanh", "Abs")
_FLOAT32 = ("Exp", "Softplus")  # torch's autocast runs them in float32
_BINARY = ("Add", "Sub", "Max")


def random_mixed_graph(seed: int, nodes: int = 12) -> Graph:
    """A graph of so many operators or a few more, with inferred types."""
    random = np.random.default_rng(seed)
    wide, narrow = ["x", "z"], []
    lines: list[str] = []

    def add(call: str, to_wide: bool = True) -> None:
        value = f"v{len(lines)}"
        lines.append(f"{value} = {call}")
        (wide if to_wide else narrow).append(value)

    while len(lines) < nodes:
        kind = random.integers(8)
        first, second = random.choice(wide[-4:]), random.choice(wide)
        if kind == 0:
            add(f"MatMul({first}, w)")
        elif kind == 1:
            add(f"{random.choice(_FLOAT32)}({first})")
        elif kind == 2:
            add(f"{random.choice(_BINARY)}({first}, {second})")
        elif kind == 3:
            lines.append(f"t{len(lines)} = Transpose({first})")
            add(f"Transpose(t{len(lines) - 1})")
        elif kind == 4:
            lines.append(f"c{len(lines)} = Concat<axis=0>({first}, {second})")
            add(f"Slice(c{len(lines) - 1}, starts, ends)")
        elif kind == 5:
            add(f"Cast<to=10>({first})", to_wide=False)
        elif kind == 6 and narrow:
            value = random.choice(narrow)
            if random.integers(2):
                add(f"Relu({value})", to_wide=False)
            else:
                add(f"Cast<to=1>({value})")
        else:
            add(f"{random.choice(_UNARY)}({first})")
    outputs = list(dict.fromkeys([wide[-1], random.choice(wide[2:] or wide[-1:]), *narrow[-1:]]))
    types = {**dict.fromkeys(wide, "float"), **dict.fromkeys(narrow, "float16")}
    weights = (random.standard_normal(_COLUMNS * _COLUMNS) / 4).round(3)
    declared = ", ".join(f"{types[value]}[{_ROWS},{_COLUMNS}] {value}_out" for value in outputs)
    ends = "".join(f"  {value}_out = Identity({value})\n" for value in outputs)
    head = (
        f"g (float[{_ROWS},{_COLUMNS}] x, float[{_ROWS},{_COLUMNS}] z) => ({declared})"
        f" <float[{_COLUMNS},{_COLUMNS}] w = {{{', '.join(map(str, weights))}}},"
        f" int64[1] starts = {{0}}, int64[1] ends = {{{_ROWS}}}> {{\n"
    )
    return typed(head + "".join(f"  {line}\n" for line in lines) + ends + "}")


def random_image_graph(seed: int, nodes: int = 10) -> Graph:
    """A graph of so many operators on images of 1x4x6x6, in NCHW and some in NHWC, in float32 and float16."""
    random = np.random.default_rng(seed)
    values = {"x": ("nchw", "float"), "z": ("nhwc", "float")}
    lines: list[str] = []
    while len(lines) < nodes:
        value = str(random.choice(list(values)[-5:]))
        order, dtype = values[value]
        alike = [other for other, known in values.items() if known == (order, dtype)]
        result, kind = f"v{len(lines)}", random.integers(7)
        if kind == 0 and order == "nchw" and dtype == "float":
            lines.append(f"{result} = Conv<pads=[1,1,1,1]>({value}, w)")
        elif kind == 1:
            perm, order = ("[0,2,3,1]", "nhwc") if order == "nchw" else ("[0,3,1,2]", "nchw")
            lines.append(f"{result} = Transpose<perm={perm}>({value})")
        elif kind == 2:
            to, dtype = (10, "float16") if dtype == "float" else (1, "float")
            lines += [f"c{result} = Cast<to={to}>({value})", f"{result} = Tanh(c{result})"]
        elif kind == 3 and order == "nchw":
            lines.append(f"{result} = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>({value})")
        elif kind == 4:
            lines.append(f"{result} = Add({value}, {random.choice(alike)})")
        elif kind == 5 and dtype == "float":
            lines.append(f"{result} = Softplus({value})")
        else:
            lines.append(f"{result} = {random.choice(('Relu', 'Tanh', 'Neg'))}({value})")
        values[result] = order, dtype
    shapes = {"nchw": "1,4,6,6", "nhwc": "1,6,6,4"}
    outputs = list(dict.fromkeys([list(values)[-1], str(random.choice(list(values)[2:]))]))
    declared = ", ".join(f"{values[v][1]}[{shapes[values[v][0]]}] {v}" for v in outputs)
    weights = (random.standard_normal(4 * 4 * 9) / 6).round(3)
    head = f"g (float[1,4,6,6] x, float[1,6,6,4] z) => ({declared}) <float[4,4,3,3] w = {{{', '.join(map(str, weights))}}}>"
    return typed(f"{head} {{\n" + "".join(f"  {line}\n" for line in lines) + "}")


def random_quantized_graph(seed: int, nodes: int = 12) -> Graph:
    """A graph of so many operators or a few more, with weights stored as integers and pairs of QuantizeLinear and
    DequantizeLinear, as quantizers write them, and with other operators whose type no computed operand decides."""
    random = np.random.default_rng(seed)
    wide = ["x", "z"]
    lines: list[str] = []

    def given(call: str) -> str:
        lines.append(f"v{len(lines)} = {call}")
        return f"v{len(lines) - 1}"

    def weight() -> str:
        return given(f"DequantizeLinear<axis=0>(wq, {random.choice(('ws', 's'))})")

    def of_integers() -> str:
        return given(random.choice(("Gather(table, ids)", "Cast<to=1>(id)", "ConstantOfShape(shape)")))

    while len(lines) < nodes:
        kind = random.integers(9)
        first, second = random.choice(wide[-4:]), random.choice(wide)
        if kind == 0:
            call = f"MatMul({first}, {weight()})"
        elif kind == 1:
            call = f"MatMul({first}, {given(f'Transpose({weight()})')})"
        elif kind == 2:
            call = f"DequantizeLinear({given(f'QuantizeLinear({first}, s, zero)')}, s, zero)"
        elif kind == 3:
            call = f"Add({first}, {given('DequantizeLinear(bq, bs)')})"
        elif kind == 4:
            call = f"Softplus({first})"
        elif kind == 5:
            call = f"MatMul({first}, {given(f'Exp({weight()})')})"
        elif kind == 6:
            call = f"Add({first}, {of_integers()})"
        elif kind == 7:
            call = f"{random.choice(_BINARY)}({first}, {second})"
        else:
            call = f"{random.choice(_UNARY)}({first})"
        wide.append(given(call))
    outputs = list(dict.fromkeys([wide[-1], str(random.choice(wide[2:]))]))
    declared = ", ".join(f"float[{_ROWS},{_COLUMNS}] {value}_out" for value in outputs)
    ends = "".join(f"  {value}_out = Identity({value})\n" for value in outputs)
    integers = ", ".join(map(str, random.integers(-100, 100, _COLUMNS * _COLUMNS)))
    table = ", ".join(map(str, random.standard_normal(4 * _COLUMNS).round(3)))
    scales = ", ".join(map(str, (random.random(_COLUMNS) / 200 + 0.001).round(5)))
    bias = ", ".join(map(str, random.integers(-200_000, 200_000, _COLUMNS)))
    head = (
        f"g (float[{_ROWS},{_COLUMNS}] x, float[{_ROWS},{_COLUMNS}] z, int64[{_ROWS},1] id) => ({declared})"
        f" <int8[{_COLUMNS},{_COLUMNS}] wq = {{{integers}}}, float[{_COLUMNS}] ws = {{{scales}}}, float s = {{0.031}},"
        f" uint8 zero = {{128}}, int32[{_COLUMNS}] bq = {{{bias}}}, float bs = {{4e-6}},"
        f" float[4,{_COLUMNS}] table = {{{table}}}, int64 four = {{4}}, int64[1] one = {{1}}> {{\n"
    )
    before = "  ids2 = Mod(id, four)\n  ids = Squeeze(ids2, one)\n  shape = Shape(z)\n"
    return typed(head + before + "".join(f"  {line}\n" for line in lines) + ends + "}")
