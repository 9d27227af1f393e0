"""The command `check`: checks a result's certificate against the model and the result, without the engine."""

from __future__ import annotations

import argparse

from workbench.errors import UserError
from workbench.interfaces.cli.printing import say

HELP = "re-check a result with its certificate, by a small checker that shares no code with the engine"
EXAMPLES = (
    "model.onnx model.opt.onnx c.json",
    "model.onnx model.opt.onnx c.json --run 3 --require log,bounds,run",
)
DETAILS = """
Code 1: what a file says does not hold, or what --require names is missing. Code 2: a file cannot be read.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    from workbench.checker.command import add_arguments as add_checker_arguments

    add_checker_arguments(command)


def run(chosen: argparse.Namespace) -> int:
    from workbench.checker.command import checked_command
    from workbench.checker.outcome import Unreadable

    try:
        lines, code = checked_command(chosen)
    except Unreadable as error:
        raise UserError(f"'{chosen.certificate}' cannot be checked: {error}") from None
    except argparse.ArgumentTypeError as error:
        raise UserError(str(error)) from None
    for line in lines:
        say(line)
    return code
