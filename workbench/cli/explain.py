"""The command `explain`: what a pass does, with its examples."""

from __future__ import annotations

import argparse

from workbench.cli.exit_codes import DONE

HELP = "say what a pass does, with its examples"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("pass_name", metavar="PASS")


def run(chosen: argparse.Namespace) -> int:
    from workbench.api import explain

    print(explain(chosen.pass_name), end="")
    return DONE
