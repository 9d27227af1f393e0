"""What the help of a command has below its options: examples that run as they stand, and what words and numbers mean.

A command's module has both as `EXAMPLES`, the arguments behind its name, and `DETAILS`: paragraphs, and lists whose
items begin with "- ".
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Sequence

_ITEM = "- "


class HelpFormatter(argparse.HelpFormatter):
    """Wraps each paragraph and each item of a list by itself; indented lines stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_filled(block, width, indent) for block in text.strip("\n").split("\n\n"))


def _filled(block: str, width: int, indent: str) -> str:
    if block.startswith("  "):
        return block
    return "\n".join(_wrapped(part, width, indent) for part in re.split(rf"\n(?={_ITEM})", block))


def _wrapped(text: str, width: int, indent: str) -> str:
    further = indent + " " * len(_ITEM) if text.startswith(_ITEM) else indent
    return textwrap.fill(
        " ".join(text.split()), width, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False
    )


def text_below(program: str, examples: Sequence[str], details: str) -> str:
    """The examples, as commands of the program, and then the details."""
    lines = [f"  {program} {example}".rstrip() for example in examples]
    return "\n\n".join(filter(None, ["Examples:" if lines else "", "\n".join(lines), details.strip()]))
