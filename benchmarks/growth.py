"""How the engine's time grows with the graph.

CPU seconds (user and system) of `optimize --preset simplify --no-verify`, and of `report` with the same options, a
process each, on graphs of eight kinds in growing sizes: BERTs; a chain of Adds, each of a constant; a chain in which
every other node is the same Exp; functions nested by two calls each; a chain whose nodes the file lists from the last
to the first; a sum of many inputs; many outputs; a Split into many parts. "growth" is the growth of the CPU seconds
over the growth of the nodes, both against the row above: 1 is linear. A report inspects graphs of at most a few
thousand nodes, so it is measured on smaller ones.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

from benchmarks.shared.benchmark import Benchmark, Item, Row, option, table
from benchmarks.shared.bert import bert_of
from benchmarks.shared.processes import compile_modules, graph_workbench, ran

TABLE = table("graph", "nodes", "left", "CPU s", "growth")
COMMANDS = ("optimize", "report")
FUNCTIONS = ("Exp", "Tanh", "Abs", "Sigmoid", "Softsign")
SIZES = (1_000, 10_000, 100_000)
REPORT_SIZES = (512, 1_024, 2_048)
CALLS = (2**10, 2**13, 2**16)


def chain_of_adds(nodes: int) -> ModelProto:
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    protos = [helper.make_node("Add", [f"v{i}", "one"], [f"v{i + 1}"], f"n{i}") for i in range(nodes)]
    return _model(protos, "v0", f"v{nodes}", [one])


def equal_nodes(nodes: int) -> ModelProto:
    protos = [helper.make_node("Neg", ["x"], ["s0"], "start")]
    for i in range(nodes // 2):
        protos.append(helper.make_node("Exp", ["x"], [f"e{i}"], f"e{i}"))
        protos.append(helper.make_node("Sub", [f"s{i}", f"e{i}"], [f"s{i + 1}"], f"s{i}"))
    return _model(protos, "x", f"s{nodes // 2}", [])


def nested_calls(calls: int) -> ModelProto:
    depth = calls.bit_length() - 1
    bodies = ["f0 (a) => (b) { b = Neg(a) }"]
    bodies += [f"f{i} (a) => (b) {{ c = own.f{i - 1}(a)  b = own.f{i - 1}(c) }}" for i in range(1, depth + 1)]
    imports = '<domain: "own", opset_import: ["": 21, "own": 1]>\n'
    head = '<ir_version: 10, opset_import: ["": 21, "own": 1]>\n'
    graph = f"g (float[1] x) => (float[1] y) {{ y = own.f{depth}(x) }}\n"
    return parser.parse_model(head + graph + "\n".join(imports + body for body in bodies))


def from_last_to_first(nodes: int) -> ModelProto:
    protos = [helper.make_node(FUNCTIONS[i % 5], [f"v{i}"], [f"v{i + 1}"], f"n{i}") for i in range(nodes)]
    return _model(protos[::-1], "v0", f"v{nodes}", [])


def many_inputs(nodes: int) -> ModelProto:
    protos = [helper.make_node("Add", [f"s{i}", f"x{i}"], [f"s{i + 1}"], f"n{i}") for i in range(nodes)]
    return _model(protos, ["s0", *(f"x{i}" for i in range(nodes))], f"s{nodes}", [])


def many_outputs(nodes: int) -> ModelProto:
    protos = [
        helper.make_node(FUNCTIONS[i % 5], [f"y{i - 5}" if i >= 5 else "x"], [f"y{i}"], f"n{i}") for i in range(nodes)
    ]
    return _model(protos, "x", [f"y{i}" for i in range(nodes)], [])


def many_parts(nodes: int) -> ModelProto:
    count = nodes - 2
    protos = [helper.make_node("Split", ["x"], [f"p{i}" for i in range(count)], "split", axis=0, num_outputs=count)]
    protos += [helper.make_node(FUNCTIONS[i % 5], [f"p{i}"], [f"q{i}"], f"n{i}") for i in range(count)]
    protos.append(helper.make_node("Concat", [f"q{i}" for i in range(count)], ["y"], "concat", axis=0))
    return _model(protos, "x", "y", [], count)


def _model(
    nodes: list[onnx.NodeProto],
    inputs: str | list[str],
    outputs: str | list[str],
    constants: list[TensorProto],
    size: int = 1,
) -> ModelProto:
    input_infos, output_infos = (
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])
            for name in ([names] if isinstance(names, str) else names)
        ]
        for names in (inputs, outputs)
    )
    graph = helper.make_graph(nodes, "g", input_infos, output_infos, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


KINDS: dict[str, tuple[Callable[[int], ModelProto], tuple[int, ...]]] = {
    "BERT": (bert_of, SIZES),
    "chain of Adds": (chain_of_adds, SIZES),
    "equal nodes": (equal_nodes, SIZES),
    "nested calls": (nested_calls, CALLS),
    "from last to first": (from_last_to_first, SIZES),
    "many inputs": (many_inputs, SIZES),
    "many outputs": (many_outputs, SIZES),
    "many parts": (many_parts, SIZES),
}


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    compile_modules()
    for command in chosen.commands or COMMANDS:
        yield f"`{command}`"
        yield TABLE
        for kind, (make, sizes) in KINDS.items():
            yield from rows(command, kind, make, sizes if command == "optimize" else REPORT_SIZES)


def rows(command: str, kind: str, make: Callable[[int], ModelProto], sizes: tuple[int, ...]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        model, written, page = (Path(folder) / name for name in ("model.onnx", "out.onnx", "report.html"))
        previous: tuple[int, float] | None = None
        for size in sizes:
            onnx.save(make(size), model)
            seconds = cpu_seconds("optimize", model, written)
            if command == "report":
                seconds = cpu_seconds("report", model, page)
            growth = "-" if previous is None else f"{seconds / previous[1] / (size / previous[0]):.2f}"
            left = len(onnx.load(written).graph.node)
            yield kind, f"{size:,}", f"{left:,}", f"{seconds:.2f}", growth
            previous = size, seconds


def cpu_seconds(command: str, model: Path, out: Path) -> float:
    """Not verified, which exit code 3 says."""
    command_line = graph_workbench(command, "--preset", "simplify", "--no-verify", model, "-o", out)
    return ran(command_line, allowed=(0, 3)).cpu_seconds


BENCHMARK = Benchmark(measure, (TABLE,), (option("commands", nargs="*", help="optimize, report; else both"),))
