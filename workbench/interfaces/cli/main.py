"""The command line: `graph-workbench COMMAND` where it is installed, else `python -m workbench COMMAND`.

A command is a module of this folder with `HELP`, `add_arguments` and `run`, which returns an exit code
(`exit_codes.py`). Its help has its `EXAMPLES` and `DETAILS` below the options (`help_text.py`).
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from workbench.support.imports import import_onnx_ir

import_onnx_ir()

from workbench.errors import UserError, one_sentence, printable, with_short_names  # noqa: E402
from workbench.interfaces.cli.exit_codes import BAD_INPUT, DONE, MEANINGS, STOPPED  # noqa: E402
from workbench.interfaces.cli.help_text import HelpFormatter, text_below  # noqa: E402
from workbench.ir import EditError, IllFormedError, TextError  # noqa: E402
from workbench.pipeline.command_text import program_arguments, program_name  # noqa: E402
from workbench.support.version import version  # noqa: E402

COMMANDS = (
    "passes",
    "explain",
    "new-pass",
    "test-pass",
    "inspect",
    "optimize",
    "package",
    "report",
    "precision",
    "layouts",
    "groups",
    "memory",
    "streams",
    "lesson",
    "reduce",
    "extract",
    "verify",
    "check",
    "bench",
    "matrix",
    "tune",
    "compare-tools",
    "runs",
    "app",
)
ALIASES = {"lanes": "streams", "rivals": "compare-tools"}  # names of older versions


def program() -> NoReturn:
    """The entry point of the command `graph-workbench`."""
    gc.set_threshold(1_000_000)  # objects live until the command ends, so that garbage collection only takes time
    try:
        code = main()
    except Exception as error:  # a fault of this program: print what to report, not a stack trace
        _print_error(_report_text(error))
        code = BAD_INPUT
    gc.freeze()  # the process ends here; without this, Python would first traverse all objects
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are printed on stderr, one sentence each."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal cannot show is written as its code
            stream.reconfigure(errors="backslashreplace")
    try:
        given = sys.argv[1:] if arguments is None else arguments
        if given[:1] == ["--version"]:
            print(f"graph-workbench {version()}")
            return DONE
        chosen = _parser(given[:1]).parse_args(given)
        return int(chosen.run(chosen))
    except (UserError, EditError, IllFormedError, TextError) as error:
        _print_error(_one_line(error))
        return BAD_INPUT
    except MemoryError:
        _print_error("there is not enough memory; close other programs or use a smaller model")
        return BAD_INPUT
    except KeyboardInterrupt:
        _print_error("stopped")
        return STOPPED
    except BrokenPipeError:
        return DONE
    except RecursionError:
        _print_error("the model is nested too deep for this program; export it with fewer levels")
        return BAD_INPUT
    except OSError as error:  # such as a full disk or too many open files
        file = "" if error.filename is None else f" ({error.filename})"
        _print_error(f"the system refused: {error.strerror or error}{file}")
        return BAD_INPUT


def _print_error(sentence: str) -> None:
    print(f"{program_name()}: {sentence}", file=sys.stderr)


def _report_text(error: Exception) -> str:
    """One sentence with the unexpected error, the line that raised it, and what to do."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    message = one_sentence(f"{type(error).__name__}: {error}", 120)
    return one_sentence(
        f"this is a fault of the program ({message}; {where}); report it with the command and its files"
    )


def _one_line(error: Exception) -> str:
    return with_short_names(printable(" ".join(str(error).split())))


class _Parser(argparse.ArgumentParser):
    """Raises UserError for a wrong argument, so that it is printed like other bad input.

    introduction: what the help begins with, made when it is asked for; the help then names only the main arguments.
    """

    introduction: Callable[[str], str] | None = None

    def format_help(self) -> str:
        if self.introduction is None:
            return super().format_help()
        _, _, after_usage = super().format_help().partition("\n\n")
        return f"{self.introduction(self.prog)}\n{after_usage}"

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see `{self.prog} --help`")


def _parser(first_arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser with the requested command only, which avoids the imports of the others; else with all commands."""
    description = "See, check and measure every rewrite of a neural-network graph."
    codes = "\n".join(f"- {code}: {meaning}" for code, meaning in MEANINGS.items())
    parser = _Parser(
        prog=" ".join(program_arguments()),
        description=description,
        epilog=f"Exit codes:\n\n{codes}",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version of the program")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    requested = [ALIASES.get(name, name) for name in first_arguments]
    for name in [name for name in COMMANDS if name in requested] or COMMANDS:
        module = importlib.import_module(f"workbench.interfaces.cli.{name.replace('-', '_')}")
        aliases = [alias for alias, command_name in ALIASES.items() if command_name == name]
        command = commands.add_parser(
            name, aliases=aliases, help=module.HELP, description=module.HELP, formatter_class=HelpFormatter
        )
        module.add_arguments(command)
        command.introduction = getattr(module, "introduction", None)
        examples = module.EXAMPLES if command.introduction is None else ()  # an introduction has them
        command.epilog = text_below(command.prog, examples, getattr(module, "DETAILS", ""))
        command.set_defaults(run=module.run)
    return parser
