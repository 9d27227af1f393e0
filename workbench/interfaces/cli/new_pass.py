"""The command `new-pass`: writes the file of a new pass, which passes its tests."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.evidence.verification.pass_files.pass_template import check_pass_name, new_pass_text, write_new_pass
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import say
from workbench.pipeline.command_text import command_text
from workbench.rewrite.core.own_passes import own_passes_folder

HELP = "write the file of a new pass, to be changed"
EXAMPLES = ("my_pass --folder .",)
DETAILS = """
The file is complete and its tests pass. Change its rule, its example and its refusals, then run `test-pass`. The folder
of your passes is `~/.config/graph-workbench/passes`, or the one that WORKBENCH_PASSES names.
`optimize MODEL -o OUT.onnx --passes my_pass` runs a pass that lies there, and it is verified, played and left out like
the others. A pass is code that runs as you.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the name of the pass: small letters, digits and _")
    help_text = "where the file is written (default: the folder of your passes, which is read for every pipeline)"
    command.add_argument("--folder", type=Path, metavar="DIR", help=help_text)


def run(chosen: argparse.Namespace) -> int:
    from workbench.pipeline.registry.pass_registry import library

    check_pass_name(chosen.name, {*library.all_names(), *library.presets(), *library.RESERVED})
    file = write_new_pass(chosen.name, new_pass_text(chosen.name), chosen.folder or own_passes_folder())
    say(f"wrote {file}; test it with `{command_text('test-pass', str(file))}`")
    return DONE
