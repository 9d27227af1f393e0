"""A digest as a table: for a terminal, as Markdown for a pull request, as HTML for a notebook or a report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from workbench.presentation.explanations.digest import SHORT, ChangeKind, Digest

LEAST_BYTES = 5_000  # less is no number of megabytes with two digits
MOST_KINDS = 12  # in a text; smaller ones share a row
_COLUMNS = ("what changed", "times", "operators", "nodes", "MB written", "results")
_TIME = "ms"


def digest_rows(digest: Digest, most: int = MOST_KINDS, titles: bool = False) -> list[tuple[str, ...]]:
    """The header and a row for each kind, the largest first. Kinds beyond `most` are one row, and what is 0 is "-".

    titles: whether kinds have their titles, or the names of pass and rule.
    """
    is_timed = any(kind.ms is not None for kind in digest.kinds)
    shown, rest = digest.kinds[:most], digest.kinds[most:]
    if len(rest) == 1:
        shown, rest = digest.kinds, ()
    rows = [_row(kind, is_timed, titles) for kind in shown]
    if rest:
        times = (f"{sum(kind.ms or 0.0 for kind in rest):+,.3f}",) if is_timed else ()
        nodes, written = sum(kind.nodes for kind in rest), sum(kind.bytes for kind in rest)
        places = sum(len(kind.places) for kind in rest)
        rows.append(
            (f"{len(rest)} smaller kinds", f"{places:,}", "", _nodes(nodes), megabytes_text(written), *times, "")
        )
    return [(*_COLUMNS[:-1], *((_TIME,) if is_timed else ()), _COLUMNS[-1]), *rows]


def left_columns(rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """The columns of `digest_rows` that are aligned on the left."""
    return (0, 2, len(rows[0]) - 1)


def digest_markdown(digest: Digest, most: int = MOST_KINDS) -> str:
    """The digest as a table in Markdown, with its sentence above."""
    if not digest.kinds:
        return f"{digest.sentence}.\n"
    header, *rows = digest_rows(digest, most, titles=True)
    left = left_columns([header])
    aligned = ["---" if column in left else "---:" for column in range(len(header))]
    lines = [header, aligned, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return f"{digest.sentence}.\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def digest_html(digest: Digest, most: int = MOST_KINDS) -> str:
    """The digest as a table in HTML, with its sentence above."""
    return f"<p>{escape(digest.sentence)}</p>{_table(digest, most)}"


def digest_details(digest: Digest) -> str:
    """The same in HTML, of which only the sentence is seen until it is opened; "" if nothing changed."""
    if not digest.kinds:
        return ""
    style = 'style="font:13px/1.5 system-ui,sans-serif;padding:4px 8px"'
    sentence, table = escape(digest.sentence), _table(digest, len(digest.kinds))
    return f"<details {style}><summary>What changed: {sentence}</summary>{table}</details>"


def _table(digest: Digest, most: int) -> str:
    header, *rows = digest_rows(digest, most, titles=True)
    left = left_columns([header])

    def line(cells: Sequence[str], tag: str) -> str:
        aligned = ("left" if column in left else "right" for column in range(len(cells)))
        styled = (
            f'<{tag} style="text-align:{align};padding:0.1em 0.8em 0.1em 0">{escape(cell)}</{tag}>'
            for cell, align in zip(cells, aligned, strict=True)
        )
        return f"<tr>{''.join(styled)}</tr>"

    lines = [line(header, "th"), *(line(row, "td") for row in rows)]
    return f'<table style="border-collapse:collapse">{"".join(lines)}</table>'


def _row(kind: ChangeKind, is_timed: bool, titles: bool) -> tuple[str, ...]:
    times = (f"{kind.ms or 0.0:+,.3f}",) if is_timed else ()
    name, places = kind.short_title if titles else kind.name, f"{len(kind.places):,}"
    return name, places, kind.operators, _nodes(kind.nodes), megabytes_text(kind.bytes), *times, _result(kind)


def _result(kind: ChangeKind) -> str:
    return "-" if kind.exactness is None else SHORT[kind.exactness]


def _nodes(number: int) -> str:
    return f"{number:+,}" if number else "-"


def megabytes_text(size: int) -> str:
    """The bytes in megabytes, with their sign; "-" below LEAST_BYTES."""
    return f"{size / 1e6:+,.2f}" if abs(size) >= LEAST_BYTES else "-"
