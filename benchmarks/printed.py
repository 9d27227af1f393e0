"""What a benchmark prints, paragraphs and tables of Markdown, as data."""

from __future__ import annotations

import re

from workbench.run.records.published import PublishedTable

Content = list[str | PublishedTable]


def content_of(printed: str) -> Content:
    """The paragraphs, each without its line breaks, and the tables."""
    blocks = re.findall(r"(?:^\|.*\n?)+|(?:^[^|\n].*\n?)+", printed, re.MULTILINE)
    return [table_of(block) if block.startswith("|") else " ".join(block.split()) for block in blocks]


def table_of(markdown: str) -> PublishedTable:
    columns, _, *rows = [
        tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
        for line in markdown.splitlines()
    ]
    return PublishedTable(columns, tuple(rows))
