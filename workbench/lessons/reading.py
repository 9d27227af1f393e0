"""Reads a lesson's file: front matter between two lines of ---, then a stop under each ## heading."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import UserError, closest, reading
from workbench.lessons.lesson import Fault, Lesson, LessonError, LessonPipeline, Stop

_FENCE = "---"
_KEY = re.compile(r"([A-Za-z_]+):(?:\s+(.*))?$")
_SPOKEN = re.compile(r"(Question|Answer):\s*(.*)$")
_OF_LESSON = ("title", "about")
_OF_STOP = ("moment", "node", "picture")


def _list(words: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in words.split(",") if part.strip())


_OF_PIPELINE: Mapping[str, Callable[[str], Any]] = {
    "model": str,
    "dims": str,
    "layouts": _list,
    "profile": str,
    "preset": str,
    "passes": _list,
    "strategy": str,
    "mode": str,
}


def read_lesson(path: str | Path) -> Lesson:
    """The lesson of that file, whose pipelines and moments are not checked yet.

    Raises LessonError with every fault of its form; UserError if the file cannot be read.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise UserError(f"the lesson '{path}' cannot be read: {words}; name a .md file") from None
    with reading(f"the lesson '{path}'", UserError, "correct the file"):
        return _Reader(file, str(path), text.splitlines()).read()


@dataclass
class _Part:
    """The keys of the front matter or of a stop, their lines, and the lines of text that follow them."""

    line: int
    title: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)


class _Reader:
    def __init__(self, file: Path, shown: str, lines: Sequence[str]) -> None:
        self.file, self.shown, self.lines = file, shown, lines
        self.faults: list[Fault] = []

    def read(self) -> Lesson:
        front, stops = self._parts()
        for key in ("title", "model"):
            if not front.keys.get(key):
                self._fault(1, f"the front matter has no '{key}'; write one, such as `{key}: {_EXAMPLES[key]}`")
        shared = _pipeline(LessonPipeline(), front.keys)
        made = [self._stop(stop, shared, front) for stop in stops]
        if not made:
            self._fault(len(self.lines) or 1, "there is no stop; write one under a heading such as `## The first stop`")
        if self.faults:
            raise LessonError(sorted(self.faults, key=lambda fault: fault.line))
        keys = front.keys
        return Lesson(self.file, keys["title"], keys.get("about", ""), _joined(front.body), tuple(made))

    def _fault(self, line: int, sentence: str) -> None:
        self.faults.append(Fault(self.shown, line, sentence))

    def _parts(self) -> tuple[_Part, list[_Part]]:
        """The front matter with the text after it, and the stops. Raises LessonError without front matter."""
        ends = [number for number, line in enumerate(self.lines) if line.strip() == _FENCE]
        if len(ends) < 2 or ends[0] != 0:
            words = "the file must begin with front matter: a line of ---, lines such as `title: ...`, a line of ---"
            raise LessonError([Fault(self.shown, 1, words)])
        front = _Part(1)
        for number, line in enumerate(self.lines[1 : ends[1]], 2):
            self._take_key(front, number, line, (*_OF_LESSON, *_OF_PIPELINE))
        parts, in_keys = [front], False
        for number, line in enumerate(self.lines[ends[1] + 1 :], ends[1] + 2):
            if line.startswith("## "):
                parts.append(_Part(number, line.removeprefix("## ").strip()))
                in_keys = True
                continue
            part = parts[-1]
            if in_keys and not line.strip():
                in_keys = not part.keys
            elif in_keys and _KEY.match(line) and not _SPOKEN.match(line):
                self._take_key(part, number, line, (*_OF_STOP, *_OF_PIPELINE))
            else:
                in_keys = False
                part.body.append(line)
                continue
            part.body.append("")
        return front, parts[1:]

    def _take_key(self, part: _Part, number: int, line: str, known: Collection[str]) -> None:
        if not line.strip():
            return
        match = _KEY.match(line.strip())
        if match is None:
            self._fault(number, f"'{line.strip()}' is no line of the form `key: words`")
            return
        key, words = match[1], (match[2] or "").strip()
        if key not in known:
            self._fault(number, f"there is no key '{key}' here{closest(key, known)}")
        elif key in part.keys:
            self._fault(number, f"'{key}' stands twice; the first is in line {part.lines[key]}")
        else:
            part.keys[key], part.lines[key] = words, number

    def _stop(self, part: _Part, shared: LessonPipeline, front: _Part) -> Stop:
        sentences: dict[str, list[str]] = {"sentence": [], "text": [], "question": [], "answer": []}
        where = "text"
        for line in part.body:
            spoken = _SPOKEN.match(line)
            if line.startswith(">"):
                sentences["sentence"].append(line.removeprefix(">").strip())
                where = "text"
            elif spoken:
                where = spoken[1].casefold()
                sentences[where].append(spoken[2])
            else:
                sentences[where].append(line)
        texts = {name: _joined(lines) for name, lines in sentences.items()}
        if not part.title:
            self._fault(part.line, "the stop has no title; write it after ##")
        for name, words in _NEEDED.items():
            if not texts[name]:
                self._fault(part.line, f"the stop '{part.title}' has no {name}; {words}")
        if not part.keys.get("moment"):
            words = "write one of `moment: start`, `moment: end`, `moment: PASS`, `moment: PASS 2`"
            self._fault(part.line, f"the stop '{part.title}' has no moment; {words}")
        return Stop(
            title=part.title,
            pipeline=_pipeline(shared, part.keys),
            moment=part.keys.get("moment", ""),
            node=part.keys.get("node", ""),
            picture=part.keys.get("picture", ""),
            line=part.line,
            lines={**front.lines, **part.lines},
            **texts,
        )


_EXAMPLES = {"title": "Why is there a transpose here?", "model": "npu_path.onnx"}
_NEEDED = {
    "sentence": "write its key sentence after >",
    "question": "write `Question: ...`",
    "answer": "write `Answer: ...`",
}


def _pipeline(shared: LessonPipeline, keys: Mapping[str, str]) -> LessonPipeline:
    """The shared one with what the keys say instead. passes and preset exclude each other."""
    words = {**vars(shared), **{key: read(keys[key]) for key, read in _OF_PIPELINE.items() if key in keys}}
    if "passes" in keys and "preset" not in keys:
        words["preset"] = ""
    if keys.get("preset") and "passes" not in keys:
        words["passes"] = None
    return LessonPipeline(**words)


def _joined(lines: Sequence[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
