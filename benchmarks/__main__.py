"""Run one benchmark, or publish what they measure.

    python -m benchmarks                          the benchmarks, a line each
    python -m benchmarks NAME [MODEL ...]         the tables of one as Markdown; --help says more
    python -m benchmarks publish [FOLDER]         measure all of them into docs/results
    python -m benchmarks draw                     draw docs/results.md again, after a text in a file has changed

Run it from the top of the repository. No package but those of the benchmark is imported here, since the peak memory of
a process starts at that of its parent.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

from benchmarks.publishing.groups import GROUPS, NAMES
from benchmarks.publishing.publish import draw, publish
from benchmarks.shared.benchmark import benchmark, print_items

FOLDER = Path(__file__).resolve().parent


def main(argv: list[str]) -> None:
    if not argv:
        print(listing())
    elif argv[0] == "publish":
        publish(argv[1:])
    elif argv[0] == "draw":
        draw()
    elif argv[0] in NAMES:
        print_items(benchmark(argv[0]).run(argv[1:]))
    else:
        print_usage(argv[0])


def print_usage(word: str) -> None:
    """Print the help; exit with 2 if something else was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if word not in ("-h", "--help"):
        parser.error(f"there is no benchmark '{word}'; `python -m benchmarks` lists them")
    parser.print_help()


def listing() -> str:
    """The benchmarks by the pages of the site, each with the first sentence of its docstring."""
    width = max(map(len, NAMES))
    lines = []
    for group in GROUPS:
        lines += [f"\n{group.title}", *(f"  {name:{width}}  {_first_sentence(name)}" for name in group.names)]
    return "\n".join(lines).lstrip()


def _first_sentence(name: str) -> str:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


if __name__ == "__main__":
    main(sys.argv[1:])
