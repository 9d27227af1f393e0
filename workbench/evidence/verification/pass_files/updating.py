"""Writes into a pass's file what its examples and refusals state: graphs and sentences, as the pass gives them."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path

from workbench.errors import UserError
from workbench.evidence.verification.pass_files.checks import (
    carried_out,
    examples_by_subject,
    is_as_stated,
    lines_of_graph,
    refused_sentences,
)
from workbench.ir import Graph
from workbench.rewrite import Example, Pass, Refusal
from workbench.support.files import write_text

_LINE = 120  # characters
_FIELDS = {Example: ("before", "after", "sentences"), Refusal: ("graph", "sentence")}


def update_examples(cls: type[Pass], file: Path) -> list[str]:
    """Write the graphs and sentences of examples and refusals as the pass gives them; return what was written.

    The file is replaced whole or not at all. Raises UserError for what is not a text in the file.
    """
    source = _Source(file)
    for subject, example in examples_by_subject(cls):
        fields = source.fields_of(example)
        graph, step = carried_out(cls, example)
        sentences = tuple(rewrite.sentence for rewrite in step.rewrites)
        if sentences and not _is_stated(graph, example):
            source.write(f"the graph `after` of the {subject}", fields.get("after"), graph)
        if sentences and sentences != example.sentences:
            source.write(f"the sentences of the {subject}", fields.get("sentences"), sentences)
    for rule in cls.rules:
        for i, refusal in enumerate(rule.refusals, 1):
            fields = source.fields_of(refusal)
            given, acts = refused_sentences(cls, rule, refusal)
            if given and not acts and refusal.sentence not in given:
                sentence = _closest(given, refusal.sentence)
                source.write(f"the sentence of refusal {i} of '{rule.name}'", fields.get("sentence"), sentence)
    source.save()
    return source.written


def _is_stated(graph: Graph, example: Example) -> bool:
    try:
        return is_as_stated(graph, example.after)
    except ValueError:  # a text that is no graph, which is to be replaced
        return False


def _closest(given: Sequence[str], stated: str) -> str:
    """Of the sentences of several nodes the one most like the stated one."""
    return max(given, key=lambda sentence: SequenceMatcher(None, sentence, stated).ratio())


class _Source:
    """The file of a pass, and what is to be written into it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.source = file.read_bytes()
        self.written: list[str] = []
        self._edits: list[tuple[int, int, str]] = []
        calls = (node for node in ast.walk(ast.parse(self.source)) if isinstance(node, ast.Call))
        self._calls = sorted(calls, key=lambda call: (call.lineno, call.col_offset))

    def fields_of(self, stated: Example | Refusal) -> dict[str, ast.expr]:
        """Its texts in the call that makes it, by name; empty if there is none.

        Arguments that are computed may be any; equal ones are taken in their order in the file.
        """
        names = _FIELDS[type(stated)]
        for call in self._calls:
            given = dict(zip(names, call.args, strict=False))
            given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg in names}
            texts = {name: node for name, node in given.items() if _is_literal(node)}
            if texts and len(given) == len(names) and all(_is_text(texts[n], getattr(stated, n)) for n in texts):
                self._calls.remove(call)
                return texts
        return {}

    def write(self, what: str, node: ast.expr | None, content: Graph | str | tuple[str, ...]) -> None:
        """Write the content in place of the text. Raises UserError if there is no text."""
        if node is None:
            raise UserError(f"{what}: not a text in {self.file}; write it there by hand")
        self.written.append(what)
        self._edits.append((*_place(self.source, node), self._literal(node, content)))

    def _literal(self, node: ast.expr, content: Graph | str | tuple[str, ...]) -> str:
        if isinstance(content, Graph):
            return _graph(content, node.col_offset)
        if isinstance(content, str):
            return _text(content, node.col_offset)
        line = self.source.splitlines()[node.lineno - 1]
        return _tuple(content, node.col_offset, len(line) - len(line.lstrip()))

    def save(self) -> None:
        source = self.source
        for start, end, text in sorted(self._edits, reverse=True):
            source = source[:start] + text.encode() + source[end:]
        if self._edits:
            write_text(self.file, source.decode())


def _is_literal(node: ast.expr) -> bool:
    with suppress(ValueError):
        ast.literal_eval(node)
        return True
    return False


def _is_text(node: ast.expr, stated: object) -> bool:
    return bool(ast.literal_eval(node) == stated)


def _place(source: bytes, node: ast.expr) -> tuple[int, int]:
    """The first byte of the text in the file, and the one behind its last."""
    starts = [0, *_ends_of_lines(source)]
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _ends_of_lines(source: bytes) -> Iterator[int]:
    place = 0
    for line in source.splitlines(keepends=True):
        place += len(line)
        yield place


# ---- literals --------------------------------------------------------------------------


def _graph(graph: Graph, column: int) -> str:
    """The graph's text as a Python literal, on one line if it fits."""
    lines = [line.strip() for line in lines_of_graph(graph)]
    line = f'"{" ".join(lines).strip()}"'
    if column + len(line) + 1 <= _LINE and "\\" not in line and line.count('"') == 2:
        return line
    indented = [f"    {text}" if i and text != "}" else text for i, text in enumerate(lines) if text]
    return '"""' + f"\n{' ' * 20}".join(indented).replace("\\", "\\\\") + '"""'


def _text(text: str, column: int) -> str:
    """The sentence as a Python literal, of several lines below each other if it is long."""
    width = _LINE - column - 1 - (len(_quoted(text)) - len(text))
    parts = textwrap.wrap(text, max(width, 40), drop_whitespace=False, break_long_words=False) or [""]
    whole = "".join(parts) == text  # not if it has a line break
    return f"\n{' ' * column}".join(map(_quoted, parts if whole else [text]))


def _tuple(texts: Sequence[str], column: int, indent: int) -> str:
    """The sentences as a Python literal, on one line if there is one that fits."""
    if len(texts) == 1 and column + len(_quoted(texts[0])) + 4 <= _LINE:
        return f"({_quoted(texts[0])},)"
    lines = "".join(f"{' ' * (indent + 4)}{_text(text, indent + 4)},\n" for text in texts)
    return f"(\n{lines}{' ' * indent})"


def _quoted(text: str) -> str:
    quote = "'" if '"' in text and "'" not in text else '"'
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace(quote, f"\\{quote}")
    return f"{quote}{escaped}{quote}"
