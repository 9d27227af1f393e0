"""The words of the command line: every command with its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from workbench.errors import UserError

Handler = Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    """A wrong word is told like all other bad input: in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; `{self.prog} --help` tells more")


def parser_of(run: Mapping[str, Handler]) -> argparse.ArgumentParser:
    """The words of every command; `run` has what each does."""
    words = "See, check and measure every rewrite of a neural-network graph."
    parser = _Parser(prog="python -m workbench", description=words)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    command = _command(commands, run, "passes", "list every pass with its options")
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, run, "explain", "say what a pass does, with its examples")
    command.add_argument("pass_name", metavar="PASS")

    command = _command(commands, run, "inspect", "say what a model is")
    _model_arguments(command)
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, run, "optimize", "run passes over a model and write the result")
    _model_arguments(command)
    command.add_argument("-o", "--output", required=True, metavar="OUT.onnx", help="the file to write")
    _pipeline_arguments(command)
    command.add_argument("--fix-dims", action="store_true", help="write the bound dims into the file as numbers")
    command.add_argument("--report", metavar="R.json", help="write what each step did")

    command = _command(commands, run, "report", "write the graph before and after every rewrite as one HTML file")
    _model_arguments(command)
    command.add_argument("-o", "--output", required=True, metavar="R.html", help="the file to write")
    _pipeline_arguments(command)
    command.add_argument("--against", metavar="OTHER.onnx", help="show what differs in another file; runs no pass")

    command = _command(commands, run, "layouts", "run every layout strategy and compare them")
    _model_arguments(command)
    command.add_argument("--target", default="cuda", metavar="NAME", help="target profile (default: cuda)")
    _input_arguments(command)
    command.add_argument("--no-verify", action="store_true", help="do not compare with the original")
    command.add_argument("--measure", action="store_true", help="measure the latency of each result too")
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to measure (default: cpu)")
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, run, "verify", "compare two models on the same inputs")
    command.add_argument("a", metavar="A.onnx", help="the original")
    command.add_argument("b", metavar="B.onnx", help="the other")
    _dims_argument(command)
    _input_arguments(command)
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, run, "bench", "measure latency and memory")
    command.add_argument("models", nargs="+", metavar="MODEL", help="one or several, measured in turns")
    _dims_argument(command)
    _input_arguments(command)
    _measure_arguments(command)
    command.add_argument("--json", metavar="R.json", help="write every number")

    command = _command(commands, run, "matrix", "measure models x steps x batches x precisions x backends in one go")
    command.add_argument("models", nargs="*", metavar="MODEL", help="one or several, each at every batch")
    command.add_argument("--plan", metavar="NAME", help="a matrix by name instead of models: oneflow")
    _dims_argument(command)
    command.add_argument("--batches", default="", metavar="1,8", help="sizes of the batch dimension, in turn")
    command.add_argument("--batch-dim", metavar="NAME", help="which one (default: the first input's first axis)")
    command.add_argument(
        "--preset", default="default", metavar="NAME", help="passes of every variant (default: default)"
    )
    command.add_argument("--target", default="cuda", metavar="NAME", help="target profile (default: cuda)")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--layouts", type=_names, metavar="a,b", help="the passes with each of these strategies too")
    which.add_argument(
        "--steps", action="store_true", help="the graph after each step that changes it, beside the model as loaded"
    )
    _measure_arguments(command)
    command.add_argument("--seed", type=_seed, default=0, help="seed of the inputs (default: 0)")
    command.add_argument("--record", metavar="R.jsonl", help="write each block when it is done, and skip those in it")
    command.add_argument("--csv", metavar="R.csv", help="write the table")
    command.add_argument("--json", metavar="R.json", help="write every number")

    command = _command(commands, run, "runs", "print the measurements that were kept")
    command.add_argument("--model", metavar="MODEL", help="only those of this file, or of the SHA-256 that begins so")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, with the whole records")
    form.add_argument("--csv", action="store_true", help="print CSV")
    command.add_argument("--url", metavar="URL", help="the database (default: WORKBENCH_RUNS_URL, or a file of yours)")
    return parser


def _measure_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    command.add_argument(
        "--backend",
        type=_names,
        default=("torch",),
        metavar="a,b",
        help="torch (default), cuda-graphs, torch-compile, onnxruntime",
    )
    command.add_argument("--dtype", type=_names, metavar="a,b", help="float32 (default), mixed, float16, bfloat16")
    command.add_argument(
        "--repeat", type=_runs, metavar="N", help="repetitions of each (default: until each median is known to 1 %%)"
    )
    command.add_argument("--cold", action="store_true", help="time runs on an emptied cache too")
    command.add_argument(
        "--time-limit", type=_positive, default=600.0, metavar="S", help="seconds that a job may take (default: 600)"
    )
    command.add_argument(
        "--memory-limit", type=_positive, metavar="GB", help="that a job may take (default: what there is)"
    )


def _command(commands: Any, run: Mapping[str, Handler], name: str, help: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=help, description=help)
    command.set_defaults(run=run[name])
    return command


def _pipeline_arguments(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group()
    which.add_argument("--passes", metavar="a,b,c", help="passes in order")
    which.add_argument("--preset", metavar="NAME", help="a list of passes by name (default: default)")
    command.add_argument("--target", default="cuda", metavar="NAME", help="target profile (default: cuda)")
    command.add_argument("--layout", metavar="STRATEGY", help="layout strategy, such as greedy or record-then-insert")
    command.add_argument("--feed-inputs", action="store_true", help="take inputs in the layout that is used")
    command.add_argument("--give-outputs", action="store_true", help="give outputs in the layout that they are made in")
    words = (
        "how exact rewrites are: exact (to the last bit), ieee (up to rounding, and what overflows on the way; "
        "default), fast (not for NaN and -0.0)"
    )
    command.add_argument("--mode", choices=("exact", "ieee", "fast"), default="ieee", help=words)
    command.add_argument("--option", action="append", default=[], metavar="pass.field=value", help="a pass's option")
    _input_arguments(command)
    how = command.add_mutually_exclusive_group()
    how.add_argument(
        "--verify",
        choices=("end", "each", "off"),
        default="end",
        help="compare with the original: the end, and only a failure further (default), each step, or not at all",
    )
    how.add_argument("--no-verify", action="store_const", const="off", dest="verify", help="the same as --verify off")
    command.add_argument(
        "--on-failure",
        choices=("stop", "skip"),
        default="stop",
        help="a rewrite that changes results: write no model (default), or leave it out and go on",
    )


def _model_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", nargs="?", metavar="MODEL", help=".onnx, .pt2 or ONNX text")
    command.add_argument("--torch", metavar="package.module:factory", help="a torch program instead of a file")
    _dims_argument(command)
    words = "the layout of an input where the file does not tell it: NCHW, NHWC, HWOI, ...; once for each input"
    command.add_argument("--input-layout", action="append", default=[], metavar="x=NHWC", help=words)


def _dims_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument("--dims", default="", metavar="N=1,H=320", help="symbolic dims, for running and measuring")


def _input_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--inputs", metavar="I.npz", help="inputs of your own (default: seeded)")
    command.add_argument("--seed", type=_seed, default=0, help="seed of the inputs (default: 0)")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise argparse.ArgumentTypeError("the list is empty; name at least one")
    return names


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not '{text}'")
    return number


def _runs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1, not {text}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 up, not '{text}'")
    return int(text)
