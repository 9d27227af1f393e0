"""The command `test-pass`: whether the file of a pass does what it says."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.exit_codes import DONE, FAILED
from workbench.cli.printing import say
from workbench.errors import counted
from workbench.rewrite.core.own_passes import load_pass

HELP = "test the file of a pass: examples, laws, refusals, graphs close to its examples; runs the file"
_MARKS = {True: "ok", False: "FAILED", None: "open"}


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="a Python file with one pass, which is run as you")
    help_text = "write the graphs `after` of the examples as the pass makes them, then test"
    command.add_argument("--update", action="store_true", help=help_text)


def run(chosen: argparse.Namespace) -> int:
    from workbench.verification.pass_files.checks import checks_of
    from workbench.verification.pass_files.updating import update_examples

    file = chosen.file.resolve()
    cls = load_pass(file)
    if chosen.update:
        for subject in update_examples(cls, file):
            say(f"wrote the graph `after` of the {subject}")
        cls = load_pass(file)
    failed, undecided = 0, 0
    for check in checks_of(cls, file):
        failed += check.ok is False
        undecided += check.ok is None
        say(f"{_MARKS[check.ok]:<7} {check.subject}: {check.sentence}")
        for line in check.details:
            say(f"{'':<10}{line}")
    open_too = f", {undecided} could not be decided" if undecided else ""
    say(f"{file.name}: {counted(failed, 'check')} failed{open_too}" if failed else f"{file.name}: all passed{open_too}")
    return FAILED if failed else DONE
