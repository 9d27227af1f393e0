"""The inspector's sections on where a node comes from: the source program, the exporter, an earlier run."""

from __future__ import annotations

from typing import Any

from workbench.errors import printable
from workbench.ir import Graph, Node
from workbench.ir.provenance import Provenance, of_metadata, without_provenance
from workbench.presentation.view.source_code import STACK_TRACE, module_class, module_of, source_line, sources_of

_MAX_ROWS = 8  # different lines of a node that stems from many
_MAX_TEXT = 1000  # characters of an entry
_STACK = "stack_trace"

Section = dict[str, Any]


def origin_sections(loaded: Graph, node: Node, made: Provenance | None, before: Provenance | None) -> list[Section]:
    """The sections, without empty ones.

    loaded: the graph with the nodes from which the node stems.
    made:   what made the node in the history. before: what made it before the history, of which no rewrites are known.
    """
    written = of_metadata(node.metadata)
    known = made or before or written
    sources = sources_of(loaded, node, (node.name,) if known is None else known.origins)
    sections = [_program(sources), _pass_and_rule(made, before, written), _entries(node, sources)]
    traces = [(key, text) for key, text in node.metadata.items() if key.endswith(_STACK)]
    traces = traces or [
        (STACK_TRACE, source.metadata[STACK_TRACE]) for source in sources if STACK_TRACE in source.metadata
    ]
    sections += [{"title": "Stack trace", "open": False, "text": text} for _, text in traces[:1]]
    return [section for section in sections if section]


def _program(sources: list[Node]) -> Section:
    """Module and Python line: of one node as two rows, of several as a table."""
    lines = dict.fromkeys((_module_text(source), str(source_line(source) or "")) for source in sources)
    if not lines:
        return {}
    title = "In the source program"
    if len(lines) > 1:
        rows = [[printable(module), printable(line)[:_MAX_TEXT]] for module, line in list(lines)[:_MAX_ROWS]]
        return {"title": title, "open": True, "head": ["module", "Python line"], "rows": rows}
    ((module, line),) = lines
    frame = source_line(sources[0])
    rows = [["module", module], ["Python line", line], ["file", "" if frame is None else frame.file]]
    return {"title": title, "open": True, "rows": [[key, printable(text)[:_MAX_TEXT]] for key, text in rows if text]}


def _module_text(node: Node) -> str:
    class_ = module_class(node)
    return f"{module_of(node) or 'the model itself'}{f' ({class_})' if class_ else ''}"


def _pass_and_rule(made: Provenance | None, before: Provenance | None, written: Provenance | None) -> Section:
    """What made the node, unless the rewrites of the history say it."""
    known = before or written
    if made is not None or known is None:
        return {}
    rows = [["pass", known.pass_name], ["rule", known.rule], ["from", ", ".join(known.origins)]]
    rows = [[key, printable(text)[:_MAX_TEXT]] for key, text in [*rows, ["layout", known.layout]] if text]
    return {"title": "What made it" if before else "Made in an earlier run", "open": True, "rows": rows}


def _entries(node: Node, sources: list[Node]) -> Section:
    """The other entries of the exporter: of the node, else of the first node from which it stems."""
    metadata = without_provenance(node.metadata) or (without_provenance(sources[0].metadata) if sources else {})
    rows = [[key, printable(text)[:_MAX_TEXT]] for key, text in metadata.items() if not key.endswith(_STACK)]
    return {"title": "Exporter", "open": False, "rows": rows} if rows else {}
