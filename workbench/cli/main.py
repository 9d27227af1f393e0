"""The command line: `graph-workbench COMMAND` where it is installed, else `python -m workbench COMMAND`.

The same engine and the same terms as in the app. A command is a module of this folder with `HELP`, `add_arguments` and
`run`, which returns an exit code (`exit_codes.py`).
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from workbench.support.imports import import_onnx_ir

import_onnx_ir()

from workbench.cli.exit_codes import BAD_INPUT, DONE, STOPPED  # noqa: E402
from workbench.errors import UserError, one_sentence, printable, with_short_names  # noqa: E402
from workbench.ir import EditError, IllFormedError, TextError  # noqa: E402
from workbench.pipeline.command_text import program_name, program_words  # noqa: E402

COMMANDS = (
    "passes",
    "explain",
    "inspect",
    "optimize",
    "package",
    "report",
    "layouts",
    "groups",
    "memory",
    "lanes",
    "lesson",
    "reduce",
    "extract",
    "verify",
    "check",
    "bench",
    "matrix",
    "tune",
    "rivals",
    "runs",
    "app",
)


def program() -> NoReturn:
    """The entry point of the command `graph-workbench`."""
    gc.set_threshold(1_000_000)  # objects live until the command ends, so collecting garbage only takes time
    try:
        code = main()
    except Exception as error:  # ours to mend: whoever meets it is told what to report, not shown the stack
        _tell(_fault(error))
        code = BAD_INPUT
    gc.freeze()  # the end of the process frees them all; Python would look through each before
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; what it prints goes to stdout, an error as one sentence to stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal cannot show is written as its code
            stream.reconfigure(errors="backslashreplace")
    try:
        words = sys.argv[1:] if arguments is None else arguments
        chosen = _parser(words[:1]).parse_args(words)
        return int(chosen.run(chosen))
    except (UserError, EditError, IllFormedError, TextError) as error:
        _tell(_one_line(error))
        return BAD_INPUT
    except MemoryError:
        _tell("there is not enough memory; close other programs or use a smaller model")
        return BAD_INPUT
    except KeyboardInterrupt:
        _tell("stopped")
        return STOPPED
    except BrokenPipeError:
        return DONE
    except RecursionError:
        _tell("the model is nested too deep for this program; export it with fewer levels")
        return BAD_INPUT
    except OSError as error:  # the disk is full, no more files may be opened
        place = "" if error.filename is None else f" ({error.filename})"
        _tell(f"the system refused: {error.strerror or error}{place}")
        return BAD_INPUT


def _tell(sentence: str) -> None:
    print(f"{program_name()}: {sentence}", file=sys.stderr)


def _fault(error: Exception) -> str:
    """What is unforeseen, and where, as one sentence."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}, line {place.lineno}"
    message = one_sentence(f"{type(error).__name__}: {error}", 120)
    return one_sentence(
        f"this is a fault of the program ({message}; {where}); report it with the command and its files"
    )


def _one_line(error: Exception) -> str:
    return with_short_names(printable(" ".join(str(error).split())))


class _Parser(argparse.ArgumentParser):
    """Reports a wrong argument like other bad input, in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; `{self.prog} --help` tells more")


def _parser(asked: Sequence[str]) -> argparse.ArgumentParser:
    """The parser with all commands, or with the requested one only, which avoids the imports of the others."""
    words = "See, check and measure every rewrite of a neural-network graph."
    parser = _Parser(prog=" ".join(program_words()), description=words)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in [name for name in COMMANDS if name in asked] or COMMANDS:
        module = importlib.import_module(f"workbench.cli.{name}")
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser
