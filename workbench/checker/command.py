"""The command: its arguments, what it prints, its exit code."""

from __future__ import annotations

import argparse

from workbench.checker.checking import BOUNDS, LOG, RUN, check_files, report_lines
from workbench.checker.outcome import DoesNotHold

HOLDS, DOES_NOT, CANNOT = 0, 1, 2
_MEANINGS = {
    LOG: "the log leads from the model to the output",
    BOUNDS: "every bound in the certificate is proven for the output, and there is at least one",
    RUN: "both gave equal results in ONNX Runtime",
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="the file that was optimized")
    command.add_argument("output", metavar="OUT.onnx", help="the result")
    command.add_argument("certificate", metavar="C.json", help="what optimize --certificate wrote")
    run_help = "run both on N random inputs in ONNX Runtime, without its optimizations, and compare every result"
    command.add_argument("--run", metavar="N", dest="runs", type=_count, default=0, help=run_help)
    meanings = "; ".join(f"{name}: {meaning}" for name, meaning in _MEANINGS.items())
    command.add_argument(
        "--require", metavar="WHAT,...", type=_required, default=[LOG], help=f"exit code 0 only with these ({meanings})"
    )


def checked_command(chosen: argparse.Namespace) -> tuple[list[str], int]:
    """The lines to print and the exit code. Raises Unreadable for a file that cannot be read."""
    if RUN in chosen.require and not chosen.runs:
        raise argparse.ArgumentTypeError("--require run needs --run N, with the number of random inputs")
    try:
        checked = check_files(chosen.model, chosen.output, chosen.certificate, chosen.runs)
    except DoesNotHold as failed:
        return [f"does not hold: {failed}"], DOES_NOT
    missing = [what for what in chosen.require if what not in checked.holds]
    lines = [*report_lines(checked), *(f"required and not met: {what} ({_MEANINGS[what]})" for what in missing)]
    return lines, DOES_NOT if missing else HOLDS


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a number of runs from 1 to 10,000")
    return int(text)


def _required(text: str) -> list[str]:
    results = [name.strip() for name in text.split(",")]
    unknown = next((name for name in results if name not in _MEANINGS), None)
    if unknown is not None:
        raise argparse.ArgumentTypeError(f"'{unknown[:40]}' cannot be required; there are {', '.join(_MEANINGS)}")
    return results
