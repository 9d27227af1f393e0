"""Write docs/reference/commands/, pages of the site, from the help of the commands: `make docs` runs it."""

import argparse
import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

FOLDER = "reference/commands"  # in docs/
PROGRAM = "graph-workbench"
WIDTH = "84"  # characters of a line of usage


def pages() -> dict[str, str]:
    """Each page by the name of its file: a list of all commands, and a page for each."""
    os.environ["COLUMNS"] = WIDTH
    sys.orig_argv = [sys.executable, PROGRAM]  # the parser takes the program's name from it
    from workbench.interfaces.cli.main import COMMANDS, _parser

    found = {}
    rows = ["| command | what it does |", "|---|---|"]
    for name in COMMANDS:
        module = importlib.import_module(f"workbench.interfaces.cli.{name.replace('-', '_')}")
        parser = dict(inner_parsers(_parser([name])))[name]
        found[f"{name}.md"] = page(name, parser, module.EXAMPLES, getattr(module, "DETAILS", ""))
        rows.append(f"| [`{name}`]({name}.md) | {_cell(module.HELP)} |")
    return {"index.md": index(rows), **found}


def index(rows: list[str]) -> str:
    from workbench.interfaces.cli.exit_codes import MEANINGS

    codes = ["| exit code | says |", "|---|---|", *(f"| {code} | {_cell(text)} |" for code, text in MEANINGS.items())]
    about = f"Made of the program when the site was built. `{PROGRAM} COMMAND --help` prints the same; without an "
    about += "installed command it is `python -m workbench COMMAND`."
    return "\n\n".join(["# Commands", about, "\n".join(rows), "## Exit codes", "\n".join(codes)]) + "\n"


def page(name: str, parser: argparse.ArgumentParser, examples: tuple[str, ...], details: str) -> str:
    """What `--help` prints, as a page."""
    description = " ".join((parser.description or "").split())
    parts = [f"# `{name}`", f"{description[:1].upper()}{description[1:].rstrip('.')}."]
    lines = [f"{PROGRAM} {name} {example}".rstrip() for example in examples]
    parts += ["```bash\n" + "\n".join(lines) + "\n```"] if lines else []
    parts += _arguments(parser, "#")
    parts += ["## What it means", _as_markdown(details)] if details else []
    return "\n\n".join(parts) + "\n"


def _arguments(parser: argparse.ArgumentParser, heading: str) -> Iterator[str]:
    """The usage, a table of the arguments, and the same of each action of a command that has some."""
    usage = re.sub(r"\n\s+", "\n    ", parser.format_usage().removeprefix("usage: ").strip())
    yield f"```text\n{usage}\n```"
    rows = [row for action in parser._actions for row in _rows(parser, action)]
    if rows:
        yield "\n".join(["| argument | what it does |", "|---|---|", *rows])
    for name, inner in inner_parsers(parser):
        yield f"{heading}# `{name}`"
        yield from _arguments(inner, f"{heading}##")


def inner_parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Those of its commands, or of the actions of a command, each with its name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _rows(parser: argparse.ArgumentParser, action: argparse.Action) -> Iterator[str]:
    if isinstance(action, argparse._HelpAction):
        return
    if isinstance(action, argparse._SubParsersAction):
        yield from (f"| `{choice.dest}` | {_cell(choice.help or '')} |" for choice in action._choices_actions)
        return
    formatter = parser._get_formatter()
    invocation = formatter._format_action_invocation(action)
    help_text = formatter._expand_help(action) if action.help else ""
    yield f"| `{_cell(invocation)}` | {_cell(help_text)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _as_markdown(details: str) -> str:
    """Addresses become links, and names of variables and files code."""
    text = re.sub(r"(?<![`\w])((?:https?|chrome)://[^\s,]*[\w/])", r"<\1>", details.strip())
    return re.sub(r"(?<![`\w-])(WORKBENCH_[A-Z_]+|--[a-z][\w-]*)(?![`\w])", r"`\1`", text)


if __name__ == "__main__":
    from docs.made_pages import write_pages

    write_pages({f"{FOLDER}/{name}": text for name, text in pages().items()}, FOLDER)
