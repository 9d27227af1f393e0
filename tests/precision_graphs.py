"""Random graphs of small matrices in float32 and float16, some with Casts already, for the precision strategies."""

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
