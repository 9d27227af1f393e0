"""What commands share: exit codes, words and tables on the terminal, JSON in files."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TextIO

from workbench.errors import UserError, printable
from workbench.ir import Graph

DONE, FAILED, UNVERIFIED = 0, 1, 3


def say(text: str, file: TextIO | None = None) -> None:
    """Print; names come from files, so nothing in them may steer the terminal."""
    print(printable(text), file=file)


def print_table(rows: Sequence[tuple[str, ...]], left: tuple[int, ...]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        say("  ".join(cells).rstrip())


def write_json(path: str, content: Any) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: str, content: str) -> None:
    try:
        Path(path).write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"'{path}' cannot be written: {error.strerror or error}") from None


def in_bytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else round(gigabytes * 1e9)


def verifier_of(graph: Graph, inputs: str | None, seed: int, given: Collection[str]) -> Any:
    from workbench.run.inputs import read_inputs
    from workbench.verification import Verifier

    return Verifier(graph, None if inputs is None else read_inputs(inputs, graph), seed, given=given)
