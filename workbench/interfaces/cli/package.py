"""The command `package`: compile a model into a package that torch runs without this program."""

from __future__ import annotations

import argparse

from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import check_writes, input_arguments, load_chosen, model_arguments, verifier_of
from workbench.interfaces.cli.exit_codes import DONE, FAILED
from workbench.interfaces.cli.printing import megabytes, say, warn
from workbench.interfaces.cli.progress_line import ProgressLine
from workbench.run.packages import PACKAGE_DTYPES, package_graph

HELP = "compile a model for a device into a package that torch alone runs"
EXAMPLES = ("ppocr_cls_v2.onnx -o cls.pt2 --dims x_2=48,x_3=192",)
DETAILS = """
A process that imports torch alone loads the package and runs it. The outputs are compared with ONNX Runtime's, and the
file is written if they are equal. Shapes, device and element types are fixed. It is made for this machine's processor
or GPU and this version of torch, and needs a C++ compiler. A model that draws random numbers, one in which numbers of
the inputs decide what runs, and one of which ONNX Runtime runs a part are refused with a sentence.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    command.add_argument("-o", "--output", required=True, metavar="OUT.pt2", help="the file to write")
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="what it runs on (default: cpu)")
    command.add_argument("--dtype", choices=PACKAGE_DTYPES, default="float32", help="default: float32")
    input_arguments(command)


def run(chosen: argparse.Namespace) -> int:
    check_writes([chosen.output], [chosen.model], [chosen.inputs])
    graph = load_chosen(chosen)
    with (
        ProgressLine() as line,
        verifier_of(graph, chosen.inputs, chosen.seed, parse_dims(chosen.dims), patient=True) as verifier,
    ):
        package = package_graph(
            graph,
            chosen.output,
            verifier,
            device=chosen.device,
            dtype=chosen.dtype,
            on_progress=lambda event: line.comparing(event["stage"]),
        )
    warn(graph.warnings)
    say(package.sentence)
    if not package.comparison.ok:
        say(f"'{chosen.output}' was not written, since it would not compute what the model computes")
        return FAILED
    say(f"wrote {chosen.output}, {megabytes(package.bytes)}")
    for line_of_call in package.call:
        say(line_of_call)
    return DONE
