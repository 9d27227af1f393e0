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
