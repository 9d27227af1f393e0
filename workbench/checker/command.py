"""The command: its arguments, what it prints, its exit code."""

from __future__ import annotations

import argparse

from workbench.checker.checking import BOUNDS, LOG, RUN, check_files, report_lines
from workbench.checker.outcome import DoesNotHold

HOLDS, DOES_NOT, CANNOT = 0, 1, 2
_MEANS = {
    LOG: "the log leads from the model to the output",
    BOUNDS: "every bound that the certificate has is proven of the output, and there is one",
    RUN: "both gave equal results in ONNX Runtime",
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="the file that was optimized")
    command.add_argument("output", metavar="OUT.onnx", help="the result")
    command.add_argument("certificate", metavar="C.json", help="what optimize --certificate wrote")
    words = "run both on N random inputs in ONNX Runtime, without its optimizations, and compare every result"
    command.add_argument("--run", metavar="N", dest="runs", type=_count, default=0, help=words)
    words = "; ".join(f"{name}: {means}" for name, means in _MEANS.items())
    command.add_argument(
        "--require", metavar="WHAT,...", type=_required, default=[LOG], help=f"exit code 0 only with these ({words})"
    )


def checked_command(chosen: argparse.Namespace) -> tuple[list[str], int]:
    """The lines to print and the exit code. Raises Unreadable for a file that cannot be read."""
    if RUN in chosen.require and not chosen.runs:
        raise argparse.ArgumentTypeError("--require run needs --run N, with the number of random inputs")
    try:
        checked = check_files(chosen.model, chosen.output, chosen.certificate, chosen.runs)
    except DoesNotHold as first:
        return [f"does not hold: {first}"], DOES_NOT
    missing = [what for what in chosen.require if what not in checked.holds]
    lines = [*report_lines(checked), *(f"required and not so: {what} ({_MEANS[what]})" for what in missing)]
    return lines, DOES_NOT if missing else HOLDS


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is no number of runs from 1 to 10,000")
    return int(text)


def _required(text: str) -> list[str]:
    results = [word.strip() for word in text.split(",")]
    odd = next((word for word in results if word not in _MEANS), None)
    if odd is not None:
        raise argparse.ArgumentTypeError(f"'{odd[:40]}' cannot be required; there are {', '.join(_MEANS)}")
    return results
