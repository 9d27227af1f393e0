"""The command `test-pass`: whether the file of a pass does what it says."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from workbench.errors import counted
from workbench.evidence.verification.pass_files.checks import PassCheck
from workbench.interfaces.cli.arguments import positive
from workbench.interfaces.cli.exit_codes import DONE, FAILED
from workbench.interfaces.cli.printing import say
from workbench.rewrite.core.own_passes import load_pass
from workbench.support.time_limit import OutOfTime, time_limit

HELP = "test the file of a pass: examples, laws, refusals, graphs close to its examples; runs the file"
EXAMPLES = ("my_pass.py",)
DETAILS = """
It prints a line for each check. Exit code 1 says that a check failed, 2 that the file does not run.
"""
_MARKS = {True: "ok", False: "FAILED", None: "open"}
_LIMIT_S = 600.0


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="a Python file with one pass, which is run as you")
    help_text = "write the graphs and sentences of examples and refusals as the pass gives them, then test"
    command.add_argument("--update", action="store_true", help=help_text)
    help_text = f"seconds that all of it may take, so that a loop without end is a failure (default: {_LIMIT_S:g})"
    command.add_argument("--timeout", type=positive, default=_LIMIT_S, metavar="S", help=help_text)
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    file, done = chosen.file.resolve(), list[PassCheck]()

    def add(check: PassCheck) -> None:
        done.append(check)
        if not chosen.json:
            _print(check)

    try:
        with time_limit(chosen.timeout):
            _test(file, chosen.update, add, (lambda _: None) if chosen.json else say)
    except OutOfTime:
        after = f"after '{done[-1].subject}'" if done else "before the first check"
        limit = f"the limit of {chosen.timeout:g} s was reached; look for a loop that does not end, or set --timeout"
        add(PassCheck(after, False, limit))
    failed, undecided = (sum(check.ok is ok for check in done) for ok in (False, None))
    if chosen.json:
        checks = [asdict(check) for check in done]
        print(json.dumps({"file": str(file), "ok": not failed, "failed": failed, "open": undecided, "checks": checks}))
        return FAILED if failed else DONE
    open_too = f", {undecided} could not be decided" if undecided else ""
    say(f"{file.name}: {counted(failed, 'check')} failed{open_too}" if failed else f"{file.name}: all passed{open_too}")
    return FAILED if failed else DONE


def _test(file: Path, update: bool, add: Callable[[PassCheck], None], report: Callable[[str], None]) -> None:
    """Run the file and its checks; each is added when it is done."""
    from workbench.evidence.verification.pass_files.checks import checks_of
    from workbench.evidence.verification.pass_files.updating import update_examples

    cls = load_pass(file)
    if update:
        for what in update_examples(cls, file):
            report(f"wrote {what}")
        cls = load_pass(file)
    for check in checks_of(cls, file):
        add(check)


def _print(check: PassCheck) -> None:
    say(f"{_MARKS[check.ok]:<7} {check.subject}: {check.sentence}")
    for line in check.details:
        say(f"{'':<10}{line}")
