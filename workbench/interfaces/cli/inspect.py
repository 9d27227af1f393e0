"""The command `inspect`: a summary of a model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection

from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import load_chosen, model_arguments
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import megabytes, say, warn
from workbench.ir import Graph
from workbench.ir.text import OPSET

HELP = "say what a model is"
EXAMPLES = (
    "model.onnx",
    "model.onnx --json",
)
DETAILS = """
What opens, here and in every other command:

- ONNX files of opset 7 and newer, with external data, functions, If, Loop and Scan
- the same packed (.onnx.gz), as protobuf's text (.textproto, .pbtxt, .prototxt), as JSON (.json), and as ONNX's own
text (.onnxtxt)
- programs saved by torch.export (.pt2)

While a model is open it has opset 23, or the newest at which ONNX Runtime has kernels for it. Operators that nothing
here knows are left as they are; they can be declared in ~/.config/graph-workbench/operators, or in the folder that
WORKBENCH_OPERATORS names. A model whose external data is missing is opened as a graph.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    graph = load_chosen(chosen)
    code = inspect_command(graph, parse_dims(chosen.dims), as_json=chosen.json)
    warn(graph.warnings)
    return code


def inspect_command(graph: Graph, given: Collection[str] = (), *, as_json: bool) -> int:
    """Print the summary, as lines or as JSON. given: dims that the user bound."""
    from workbench.interfaces.api import inspect

    summary = inspect(graph, given=given)
    if as_json:
        print(json.dumps(summary.as_dict(), indent=1))
        return DONE
    weights = f"{summary.parameters:,} parameters in {megabytes(summary.weight_bytes)}"
    converted = f" (converted from the file's {summary.file_opset})" if summary.file_opset != summary.opset else ""
    if converted and summary.opset < OPSET:
        converted = converted[:-1] + ", the newest at which ONNX Runtime has its kernels)"
    say(f"{summary.name}: {summary.nodes:,} nodes, opset {summary.opset}{converted}, {weights}")
    unknown = f" (and {summary.unknown_flops:,} operators of unknown cost)" if summary.unknown_flops else ""
    say(f"one run: {summary.flops / 1e9:,.3f} GFLOP{unknown}")
    say(f"transposes: {summary.transposes:,}, moving {summary.elements_moved:,} elements")
    say(f"values: {summary.cnn_values:,} CNN, {summary.tensor_values:,} Tensor")
    for kind, values in (("input", summary.inputs), ("output", summary.outputs)):
        for value in values:
            bound = f", run with {value.bound}" if value.bound != value.type else ""
            say(f"{kind} {value.name}: {value.type} {value.layout}{bound}")
    if summary.dims:
        dims = ", ".join(f"{name}={size}" for name, size in summary.dims.items())
        say(f"dims: {dims}  (bind others with --dims)")
    say("operators: " + ", ".join(f"{op} {count:,}" for op, count in summary.operators.items()))
    if summary.not_native:
        say("left to ONNX Runtime by the torch executor: " + ", ".join(summary.not_native))
    return DONE
