"""A lesson as one HTML file that works offline: its texts and pictures, and the graph view with its histories.

Several lessons are a ZIP of such files, each of which leads to the next.
"""

from __future__ import annotations

import html
import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

from workbench.interfaces.lessons.lesson import Lesson, LessonPipeline
from workbench.interfaces.lessons.lesson_view import LessonView, lesson_view
from workbench.interfaces.lessons.player_keys import PLAYER_KEYS
from workbench.interfaces.lessons.playing import PlayedStop, play
from workbench.interfaces.lessons.shipped import lesson_after, shipped_lessons
from workbench.interfaces.lessons.stop_text import EXPRESSION, NODES
from workbench.interfaces.lessons.text_html import TEXT_STYLE, expressions_html, nodes_html
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.report import COMPONENT, HEAD, bundle
from workbench.presentation.view.scene import packed
from workbench.support.archives import let_everyone_read

_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
_EMPHASIS = re.compile(r"(?<!\w)[*_](\S|\S[^*_]*\S)[*_](?!\w)")
_ITEM = re.compile(r"^[-*] ", re.MULTILINE)

_STYLE = """
:root { color-scheme: light dark; }
body { display: flex; flex-direction: column; gap: 0.4rem; box-sizing: border-box; height: 100vh; margin: 0;
  padding: 0.5rem 1rem; font: 16px/1.4 system-ui, "Segoe UI", "DejaVu Sans", sans-serif;
  color: CanvasText; background: Canvas; }
button { font: inherit; padding: 0.15rem 0.9rem; }
.key { font-size: 28px; font-weight: 600; line-height: 1.25; }
main { display: flex; flex: 1; gap: 1rem; min-height: 20rem; }
#graph-workbench { flex: 1; min-width: 0; }
.graph-workbench { min-height: 0; }
#pictures { max-width: 55%; overflow: auto; }
#pictures svg { max-width: 100%; height: auto; }
footer { display: grid; grid-template-columns: 4fr 5fr 18rem; gap: 0 1.5rem; min-height: 6rem; max-height: 30vh; }
footer > * { overflow: auto; }
footer > :first-child { font-size: 0.9rem; }
h2, p { margin: 0 0 0.3rem; font-size: inherit; line-height: 1.3; }
.ask { font-size: 18px; }
.small { font-size: 0.85rem; }
summary { cursor: pointer; }
#clock, #leave, .notes { display: none; }
.presents :is(#clock, #leave) { display: inline; }
.presents #present { display: none; }
.presents:not(.without-notes) .notes { display: block; }
.presents .key { font-size: 34px; }
.presents .ask { font-size: 22px; }
#keys dl { display: grid; grid-template-columns: auto 1fr; gap: 0.3rem 1rem; }
#keys :is(dt, dd) { margin: 0; }
@media (max-width: 760px) { body { height: auto; } main, footer { display: block; } #graph-workbench { height: 60vh; } }
"""

_PAGE = (
    HEAD
    + """\
<body>
{keys}
{texts}
<main><div id="pictures">{pictures}</div><div id="graph-workbench"></div></main>
<footer><div>{about}</div><div class="ask">{questions}</div>
<nav aria-label="Stops"><p><b>{title}</b> <span id="place"></span>
<span id="clock">\u00b7 <span role="timer">0:00</span></span></p>
<p><button id="back" title="Page Up">Previous</button> <button id="next" title="Page Down">Next</button></p>
<p class="small"><button id="present" title="P">Present</button> <button id="leave" title="Escape">Leave</button>
<button id="help" title="?">Keys</button></p>
<p id="following" class="small" hidden>{following}</p></nav></footer>
<dialog id="keys" aria-label="Keys"><dl>{key_list}</dl><form method="dialog"><button>Close</button></form></dialog>
<script type="application/json" id="graph-workbench-data">{data}</script>
<script type="module">
{script}
</script>
</body>
</html>
"""
)


def lessons_zip() -> bytes:
    """All shipped lessons as a ZIP of HTML files, each of which leads to the next. Raises LessonError."""
    packed_files = io.BytesIO()
    with zipfile.ZipFile(packed_files, "w", zipfile.ZIP_DEFLATED) as archive:
        for lesson in shipped_lessons():
            following = lesson_after(lesson.name)
            link = _file_name(following) if following else ""
            archive.writestr(_file_name(lesson), lesson_html(lesson, play(lesson), link))
        let_everyone_read(archive)
    return packed_files.getvalue()


def _file_name(lesson: Lesson) -> str:
    return f"{lesson.file.stem}.html"  # with its number, so that the files are in order


def lesson_html(lesson: Lesson, stops: Sequence[PlayedStop], next_file: str = "") -> str:
    """The text of the HTML file, from the played stops. next_file: the file of the next lesson beside it, or ""."""
    pipelines = list(dict.fromkeys(played.stop.pipeline for played in stops))
    moments = [
        {
            "history": pipelines.index(played.stop.pipeline),
            "step": played.step,
            "rewrite": played.rewrites,
            "panes": played.panes,
            "node": played.stop.node,
            "frame": played.stop.frame,
        }
        for played in stops
    ]
    histories = [{"scenes": _scenes(stops, pipeline), "inspectors": ""} for pipeline in pipelines]
    data = json.dumps({"histories": histories, "stops": moments}, ensure_ascii=True)
    css = (COMPONENT / "style.css").read_text(encoding="utf-8") + _STYLE + TEXT_STYLE

    def sections(part: Callable[[PlayedStop], str]) -> str:
        return "".join(f'<section data-stop="{i}" hidden>{part(played)}</section>' for i, played in enumerate(stops))

    return _PAGE.format(
        title=html.escape(lesson.title),
        css=css.replace("</", "<\\/"),
        keys=sections(lambda played: f'<div class="key">{inline_html(played.stop.sentence)}</div>'),
        texts=sections(_expressions),
        pictures=sections(_beside),
        about=sections(lambda played: _about(lesson, played, played is stops[0])),
        questions=sections(_question),
        following=_following(lesson, next_file),
        key_list="".join(f"<dt>{html.escape(key)}</dt><dd>{html.escape(does)}</dd>" for key, does in PLAYER_KEYS),
        data=data.replace("<", "\\u003c"),
        script=bundle("lesson.js"),
    )


def _scenes(stops: Sequence[PlayedStop], pipeline: LessonPipeline) -> dict[str, Any]:
    """The scene of each stop with this pipeline, by the number of the stop, in the form that `offline.js` reads."""
    view: LessonView | None = None
    scenes = {}
    for number, played in enumerate(stops):
        if played.stop.pipeline != pipeline:
            continue
        view = view or lesson_view(played, load_profile(pipeline.profile))
        view.show(played)
        scene, scene_id = packed(view.scene())
        scenes[str(number)] = {"scene": scene, "scene_id": scene_id}
    return scenes


def _expressions(played: PlayedStop) -> str:
    text = played.text
    return expressions_html(text) if text is not None and text.kind == EXPRESSION else ""


def _beside(played: PlayedStop) -> str:
    nodes = nodes_html(played.text) if played.text is not None and played.text.kind == NODES else ""
    if played.picture is None:
        return nodes
    lines = (played.picture.title, *played.picture.lines)
    above, *below = (f'<p class="small">{html.escape(line)}</p>' for line in lines)
    return "".join((nodes, above, played.picture.svg, *below))


def _following(lesson: Lesson, next_file: str) -> str:
    """What comes after the lesson: a link, if the file of the next lesson is beside this one."""
    following = lesson_after(lesson.name)
    if following is None:
        return "This was the last lesson."
    title = html.escape(following.title)
    return f'Next lesson: <a href="{next_file}">{title}</a>' if next_file else f"The next lesson is: {title}"


def _about(lesson: Lesson, played: PlayedStop, is_first: bool) -> str:
    stop = played.stop
    title, notes = (
        f"<h2>{html.escape(stop.title)}</h2>",
        f'<div class="notes">{_blocks(f"**Notes.** {stop.notes}")}</div>',
    )
    return f"{title}{_blocks(lesson.text) if is_first else ''}{_blocks(stop.text)}{notes if stop.notes else ''}"


def _question(played: PlayedStop) -> str:
    answer = f"<details><summary>Answer</summary>{_blocks(played.stop.answer)}</details>"
    return f"{_blocks(played.stop.question)}{answer}"


# ---- Markdown ----------------------------------------------------------------------------


def inline_html(markdown: str) -> str:
    """One paragraph as HTML. Of Markdown only emphasis and code are converted."""
    parts = _CODE.split(html.escape(" ".join(markdown.split())))
    for number in range(0, len(parts), 2):  # parts with odd numbers were between backticks
        parts[number] = _EMPHASIS.sub(r"<em>\1</em>", _STRONG.sub(r"<b>\1</b>", parts[number]))
    for number in range(1, len(parts), 2):
        parts[number] = f"<code>{parts[number]}</code>"
    return "".join(parts)


def _blocks(markdown: str) -> str:
    """Text as HTML. Of Markdown's blocks only paragraphs, lists of - items, and code between ``` are converted."""
    results = []
    for number, part in enumerate(re.split(r"^```.*$", markdown, flags=re.MULTILINE)):
        if number % 2:
            results.append(f"<pre>{html.escape(part.strip())}</pre>")
            continue
        for block in filter(None, map(str.strip, part.split("\n\n"))):
            results.append(_list_html(block) if _ITEM.match(block) else f"<p>{inline_html(block)}</p>")
    return "".join(results)


def _list_html(block: str) -> str:
    items = "".join(f"<li>{inline_html(item)}</li>" for item in _ITEM.split(block)[1:])
    return f"<ul>{items}</ul>"
