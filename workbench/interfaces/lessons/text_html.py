"""The text of a graph as HTML: expressions above the panes of its picture, or a line for each node beside them."""

from __future__ import annotations

import html

from workbench.interfaces.lessons.stop_text import StopText
from workbench.presentation.view.text import TextRow, side_by_side

TEXT_STYLE = """
.wb-expressions, .wb-nodes {margin: 0; font-family: "Source Code Pro", ui-monospace, "DejaVu Sans Mono", monospace;}
.wb-expressions {display: grid; grid-auto-columns: 1fr; gap: 0 3px; font-size: 18px; line-height: 1.4;}
.wb-nodes {font-size: 15px; line-height: 1.5; white-space: pre-wrap;}
.wb-expressions span {padding: 0 0.5rem; overflow-wrap: anywhere;}
"""


def expressions_html(text: StopText) -> str:
    """The equations before on the left and those after on the right, as the panes are."""
    columns = [[line] for line in text.after] if text.before is None else [text.before, text.after]
    cells = "".join(
        f'<span style="grid-row: {row}; grid-column: {column}">{html.escape(line)}</span>'
        for column, lines in enumerate(columns, 1)
        for row, line in enumerate(lines, 1)
    )
    return f'<div class="wb-expressions">{cells}</div>'


def nodes_html(text: StopText) -> str:
    """The nodes in one column, those that were removed or added with a sign."""
    if text.before is None:
        lines = list(text.after)
    else:
        rows = side_by_side("\n".join(text.before), "\n".join(text.after))
        lines = [line for row in rows for line in _signed(row)]
    return f'<pre class="wb-nodes">{html.escape(chr(10).join(lines))}</pre>'


def _signed(row: TextRow) -> list[str]:
    if row.mark == "":
        return [f"  {row.after}"]
    return [f"{sign} {line}" for sign, line in (("\u2212", row.before), ("+", row.after)) if line]
