"""The command `check`: a result's certificate against the model and the result, without the engine."""

from __future__ import annotations

import argparse

from workbench.cli.exit_codes import DONE, FAILED
from workbench.cli.printing import say
from workbench.errors import UserError

HELP = "re-check a result with its certificate, by a small checker that shares no code with the engine"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="the file that was optimized")
    command.add_argument("output", metavar="OUT.onnx", help="the result")
    command.add_argument("certificate", metavar="C.json", help="what optimize --certificate wrote")


def run(chosen: argparse.Namespace) -> int:
    from workbench.checker.checking import check_files, report_lines
    from workbench.checker.outcome import DoesNotHold, Unreadable

    try:
        statements = check_files(chosen.model, chosen.output, chosen.certificate)
    except DoesNotHold as first:
        say(f"does not hold: {first}")
        return FAILED
    except Unreadable as error:
        raise UserError(f"'{chosen.certificate}' cannot be checked: {error}") from None
    for line in report_lines(statements):
        say(line)
    return DONE
