"""Writes into a pass's file the graphs that its examples state, as the pass makes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import UserError
from workbench.evidence.verification.pass_files.checks import (
    carried_out,
    examples_by_subject,
    is_as_stated,
    lines_of_graph,
)
from workbench.ir import Graph
from workbench.rewrite import Example, Pass
from workbench.support.files import write_text

_LINE = 120  # characters


def update_examples(cls: type[Pass], file: Path) -> list[str]:
    """Write the graph `after` of each example as the pass makes it; return what the changed examples are called.

    The file is replaced whole or not at all. Raises UserError for an example whose graphs are not texts in the file.
    """
    source = file.read_bytes()
    changed, edits = [], []
    for subject, example in examples_by_subject(cls):
        graph, step = carried_out(cls, example)
        if not step.rewrites or _is_stated(graph, example):
            continue
        node = _after_in(ast.parse(source), example)
        if node is None:
            raise UserError(f"the graph `after` of the {subject} is not a text in {file}; write it there by hand")
        changed.append(subject)
        edits.append((*_place(source, node), _literal(graph, node.col_offset)))
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text.encode() + source[end:]
    if edits:
        write_text(file, source.decode())
    return changed


def _is_stated(graph: Graph, example: Example) -> bool:
    try:
        return is_as_stated(graph, example.after)
    except ValueError:  # a text that is no graph, which is to be replaced
        return False


def _after_in(tree: ast.Module, example: Example) -> ast.Constant | None:
    """The text of `after` in the call that makes the example."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        texts = [*call.args, None, None][:2]
        before, after = named.get("before", texts[0]), named.get("after", texts[1])
        if _text(before) == example.before and _text(after) == example.after:
            return after if isinstance(after, ast.Constant) else None
    return None


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _place(source: bytes, node: ast.Constant) -> tuple[int, int]:
    """The first byte of the text in the file, and the one behind its last."""
    starts = [0, *_ends_of_lines(source)]
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _ends_of_lines(source: bytes) -> Iterator[int]:
    place = 0
    for line in source.splitlines(keepends=True):
        place += len(line)
        yield place


def _literal(graph: Graph, column: int) -> str:
    """The graph's text as a Python literal, on one line if it fits."""
    lines = [line.strip() for line in lines_of_graph(graph)]
    line = f'"{" ".join(lines).strip()}"'
    if column + len(line) + 1 <= _LINE and "\\" not in line and line.count('"') == 2:
        return line
    indented = [f"    {text}" if i and text != "}" else text for i, text in enumerate(lines) if text]
    return '"""' + f"\n{' ' * 20}".join(indented).replace("\\", "\\\\") + '"""'
