"""The whole history as one HTML file: the view, its scenes and the inspector's texts, without a network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.profile import Profile
from workbench.presentation.view.inspection import inspect_element
from workbench.presentation.view.lineage import Lineage
from workbench.presentation.view.scene import View, packed
from workbench.presentation.view.why_not import graphs_after, not_run, reasons_of
from workbench.rewrite import History, Pass

COMPONENT = Path(__file__).parent / "component"
MAX_FLAT = 2_500  # of larger models, the report has no scenes without groups and with constants
MAX_INSPECTED = 2_500  # of larger models, it has no texts of the inspector
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:default )?(?=function|async|const|class)", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data: blob:">
<title>{title} - Graph Workbench</title>
<style>{css}</style>
</head>
"""
_PAGE = (
    HEAD
    + """\
<body style="margin: 0">
{above}<div id="graph-workbench"></div>
<script type="application/json" id="graph-workbench-data">{data}</script>
<script type="module">
{script}
</script>
</body>
</html>
"""
)


def report_html(view: View, texts: Mapping[str, Any], above: str = "") -> str:
    """The file's text. texts: the inspector's content by id. above: HTML that stands above the view."""
    drawings, lighter = _drawings_once(texts)
    data = json.dumps(
        {"scenes": scenes_of(view), "inspectors": packed(lighter)[0], "drawings": packed(drawings)[0]},
        ensure_ascii=True,
    )
    return _PAGE.format(
        title=html.escape(view.title),
        above=above,
        css=(COMPONENT / "style.css").read_text(encoding="utf-8").replace("</", "<\\/"),
        data=data.replace("<", "\\u003c"),
        script=bundle("report.js"),
    )


def _drawings_once(texts: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The distinct drawings of the texts, and the texts with a number in place of each: many nodes share one."""
    numbers: dict[str, int] = {}
    lighter = {}
    for id_, content in texts.items():
        sections = []
        for section in content["sections"]:
            if "drawings" in section:
                entries = [{**d, "svg": numbers.setdefault(d["svg"], len(numbers))} for d in section["drawings"]]
                section = {**section, "drawings": entries}
            sections.append(section)
        lighter[id_] = {**content, "sections": sections}
    return list(numbers), lighter


def scenes_of(view: View) -> dict[str, dict[str, str]]:
    """The view's scenes by name: as shown now, and, if a group is closed, with all open.

    A graph that is not too large also has one with constants, all groups open, and one without groups.
    """
    scenes = {"collapsed": _scene(view)}
    groups = {group.id for group in view.root.below()}
    if not groups <= view.opened:
        scenes["open"] = _scene(view, opened=groups)
    if len(view.timeline.versions) <= MAX_FLAT:
        scenes |= {"constants": _scene(view, constants=True, opened=groups), "flat": _scene(view, is_flat=True)}
    return scenes


def inspected(history: History, view: View, target: Profile, passes: Sequence[Pass] = ()) -> dict[str, Any]:
    """The inspector's content for every node that exists after some step, at the last such moment.

    Empty for a model of more than MAX_INSPECTED nodes. Nodes that exist only within a step have no content.
    """
    texts: dict[str, Any] = {}
    if len(view.timeline.versions) > MAX_INSPECTED:
        return texts
    others = not_run(history, passes)
    reasons = reasons_of(history, graphs_after(history), passes, target, view.timeline.versions)
    lineage = Lineage(history)
    for step in reversed(range(len(history))):
        if step and not history[step].changed:
            continue
        groups = OpenedGroups(history.at(step))
        layouts = infer_layouts(groups.opened)
        done = len(history[step].rewrites)
        for name in (node.name for node in groups.opened.nodes if node.name not in texts):
            rows = reasons.get(name, ())
            texts[name] = inspect_element(
                history,
                step,
                done,
                name,
                others,
                groups=groups,
                layouts=layouts,
                target=target,
                reasons=rows,
                lineage=lineage,
            )
    return texts


def _scene(view: View, **fields: Any) -> dict[str, str]:
    """The scene of the view with other values of these fields; the view itself keeps its values."""
    before = {key: getattr(view, key) for key in fields}
    for key, value in fields.items():
        setattr(view, key, value)
    try:
        scene, number = packed(view.scene())
    finally:
        for key, value in before.items():
            setattr(view, key, value)
    return {"scene": scene, "scene_id": number}


def bundle(entry: str) -> str:
    """The component's modules as one script, each before those that import it.

    The modules have each import and export on one line, and no top-level name twice. Comments on lines of their own
    are removed; they are a fifth of the text.
    """
    plain = (_COMMENT.sub("", _IMPORT.sub("", _source(name))) for name in _in_order(entry, set()))
    return "\n".join(_EXPORT.sub("", module) for module in plain)


def _in_order(name: str, seen: set[str]) -> Iterator[str]:
    if name in seen:
        return
    seen.add(name)
    for other in _IMPORT.findall(_source(name)):
        yield from _in_order(other, seen)
    yield name


def _source(name: str) -> str:
    return (COMPONENT / name).read_text(encoding="utf-8")
