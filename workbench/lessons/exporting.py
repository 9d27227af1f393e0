"""A lesson as one HTML file that needs no network: its texts and pictures, and the graph view with its histories."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from typing import Any

from workbench.layout.profile import load_profile
from workbench.lessons.lesson import Lesson
from workbench.lessons.playing import PlayedStop
from workbench.view.inspection import inspect_element
from workbench.view.report import COMPONENT, HEAD, bundle, inspected, scenes_of
from workbench.view.scene import View, packed
from workbench.view.timeline import timeline_of

_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
_EMPHASIS = re.compile(r"(?<!\w)[*_](\S|\S[^*_]*\S)[*_](?!\w)")
_ITEM = re.compile(r"^[-*] ", re.MULTILINE)

_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; padding: 0.5rem 1rem; font: 15px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif;
  color: CanvasText; background: Canvas; }
header { display: flex; align-items: center; gap: 0.8rem; height: 2rem; }
header b { flex: 1; }
button { font: inherit; padding: 0.15rem 0.9rem; }
.key { min-height: 2.2rem; margin: 0.4rem 0; font-size: 1.7rem; font-weight: 600; line-height: 1.25; }
main { display: grid; grid-template-columns: minmax(15rem, 2fr) 5fr; gap: 1rem; }
#graph-workbench { min-width: 0; grid-row: 1; grid-column: 2; }
#texts { max-height: calc(100vh - 8.2rem); overflow: auto; }
h2 { margin: 0; font-size: 1rem; }
.ask { padding: 0.6rem 0.8rem; border: 1px solid color-mix(in srgb, CanvasText 30%, Canvas); border-radius: 6px; }
.small { font-size: 0.8rem; opacity: 0.8; margin: 0.2rem 0; }
summary { cursor: pointer; }
section svg { max-width: 100%; height: auto; }
@media (max-width: 760px) { main { display: block; } #texts { max-height: none; } }
"""

_PAGE = (
    HEAD
    + """\
<body>
<header><b>{title}</b> <span id="place"></span>
<button id="back" title="Page Up">Previous</button> <button id="next" title="Page Down">Next</button></header>
{keys}
<main><div id="texts">{texts}
<p class="small">Page Down and Page Up go to the next and the previous stop, A opens the answer.</p></div>
<div id="graph-workbench"></div></main>
<script type="application/json" id="graph-workbench-data">{data}</script>
<script type="module">
{script}
</script>
</body>
</html>
"""
)


def lesson_html(lesson: Lesson, stops: Sequence[PlayedStop]) -> str:
    """The file's text, from the stops as they were played."""
    pipelines = list(dict.fromkeys(stop.stop.pipeline for stop in stops))
    first = [next(stop for stop in stops if stop.stop.pipeline == pipeline) for pipeline in pipelines]
    moments = [
        {
            "history": pipelines.index(stop.stop.pipeline),
            "step": stop.step,
            "rewrite": stop.rewrites,
            "panes": stop.panes,
            "node": stop.stop.node,
            "text": _inspected(stop),
        }
        for stop in stops
    ]
    data = json.dumps({"histories": [_tables(stop) for stop in first], "stops": moments}, ensure_ascii=True)
    css = (COMPONENT / "style.css").read_text(encoding="utf-8") + _STYLE
    return _PAGE.format(
        title=html.escape(lesson.title),
        css=css.replace("</", "<\\/"),
        keys="".join(
            f'<section class="key" data-stop="{number}" hidden>{inline_html(stop.stop.sentence)}</section>'
            for number, stop in enumerate(stops)
        ),
        texts="".join(_section(lesson, stop, number) for number, stop in enumerate(stops)),
        data=data.replace("<", "\\u003c"),
        script=bundle("lesson.js"),
    )


def _tables(stop: PlayedStop) -> dict[str, Any]:
    """The scenes of the stop's history and the inspector's texts, as the view's `offline.js` reads them."""
    profile = load_profile(stop.stop.pipeline.profile)
    view = View(timeline_of(stop.history, profile), stop.model.stem, profile.layout)
    return {
        "scenes": scenes_of(view),
        "inspectors": packed(inspected(stop.history, view, profile, stop.passes))[0],
    }


def _inspected(stop: PlayedStop) -> dict[str, Any] | None:
    """The inspector's text for the stop's node at its moment; the tables have that of the last moment of each step."""
    if not stop.stop.node:
        return None
    profile = load_profile(stop.stop.pipeline.profile)
    return inspect_element(stop.history, stop.step, stop.rewrites, stop.stop.node, stop.passes, target=profile)


def _section(lesson: Lesson, stop: PlayedStop, number: int) -> str:
    message = stop.stop
    parts = [
        f"<h2>{html.escape(message.title)}</h2>",
        _blocks(lesson.text) if not number else "",
        _blocks(message.text),
    ]
    answer = f"<details><summary>Answer</summary>{_blocks(message.answer)}</details>"
    parts.append(f'<div class="ask">{_blocks(message.question)}{answer}</div>')
    if stop.picture is not None:
        lines = (stop.picture.title, *stop.picture.lines)
        above, *below = (f'<p class="small">{html.escape(line)}</p>' for line in lines)
        parts += [above, stop.picture.svg, *below]
    return f'<section data-stop="{number}" hidden>{"".join(parts)}</section>'


# ---- Markdown ----------------------------------------------------------------------------


def inline_html(markdown: str) -> str:
    """One paragraph with emphasis and code as HTML; all else is text."""
    parts = _CODE.split(html.escape(" ".join(markdown.split())))
    for place in range(0, len(parts), 2):  # every second one stands between backticks
        parts[place] = _EMPHASIS.sub(r"<em>\1</em>", _STRONG.sub(r"<b>\1</b>", parts[place]))
    for place in range(1, len(parts), 2):
        parts[place] = f"<code>{parts[place]}</code>"
    return "".join(parts)


def _blocks(markdown: str) -> str:
    """Paragraphs, lists of - items, and code between lines of ```; all else is text."""
    made = []
    for number, part in enumerate(re.split(r"^```.*$", markdown, flags=re.MULTILINE)):
        if number % 2:
            made.append(f"<pre>{html.escape(part.strip())}</pre>")
            continue
        for block in filter(None, (one.strip() for one in part.split("\n\n"))):
            made.append(_list_html(block) if _ITEM.match(block) else f"<p>{inline_html(block)}</p>")
    return "".join(made)


def _list_html(block: str) -> str:
    items = "".join(f"<li>{inline_html(item)}</li>" for item in _ITEM.split(block)[1:])
    return f"<ul>{items}</ul>"
