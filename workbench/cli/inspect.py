"""The command `inspect`: a summary of a model."""

from __future__ import annotations

import argparse
import json

from workbench.cli.arguments import load_chosen, model_arguments
from workbench.cli.exit_codes import DONE
from workbench.cli.printing import megabytes, say, warn
from workbench.ir import Graph
from workbench.ir.text import OPSET

HELP = "say what a model is"


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    graph = load_chosen(chosen)
    code = inspect_command(graph, as_json=chosen.json)
    warn(graph.warnings)
    return code


def inspect_command(graph: Graph, *, as_json: bool) -> int:
    from workbench.api import inspect

    found = inspect(graph)
    if as_json:
        print(json.dumps(found.as_dict(), indent=1))
        return DONE
    weights = f"{found.parameters:,} parameters in {megabytes(found.weight_bytes)}"
    brought = f" (brought to it from the file's {found.file_opset})" if found.file_opset != found.opset else ""
    if brought and found.opset < OPSET:
        brought = brought[:-1] + ", the newest at which ONNX Runtime has its kernels)"
    say(f"{found.name}: {found.nodes:,} nodes, opset {found.opset}{brought}, {weights}")
    more = f" (and {found.unknown_flops:,} operators of unknown cost)" if found.unknown_flops else ""
    say(f"one run: {found.flops / 1e9:,.3f} GFLOP{more}")
    say(f"transposes: {found.transposes:,}, moving {found.elements_moved:,} elements")
    say(f"values: {found.cnn_values:,} CNN, {found.tensor_values:,} Tensor")
    for kind, values in (("input", found.inputs), ("output", found.outputs)):
        for value in values:
            bound = f", run with {value.bound}" if value.bound != value.type else ""
            say(f"{kind} {value.name}: {value.type} {value.layout}{bound}")
    if found.dims:
        dims = ", ".join(f"{name}={size}" for name, size in found.dims.items())
        say(f"dims: {dims}  (bind others with --dims)")
    say("operators: " + ", ".join(f"{op} {count:,}" for op, count in found.operators.items()))
    if found.not_native:
        say("left to ONNX Runtime by the torch executor: " + ", ".join(found.not_native))
    return DONE
