"""Reads a lesson's file: front matter between two lines of ---, then one stop under each ## heading."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import UserError, closest, reading
from workbench.interfaces.lessons.lesson import Fault, Lesson, LessonError, LessonPipeline, Stop

_FENCE = "---"
_KEY = re.compile(r"([A-Za-z_]+):(?:\s+(.*))?$")
_EXPECT = "Expect"
_SECTIONS = ("Question", "Answer", "Notes", _EXPECT)
_SECTION = re.compile(rf"({'|'.join(_SECTIONS)}):\s*(.*)$")
_LESSON_KEYS = ("title", "about", "beside")
_STOP_KEYS = ("moment", "node", "frame", "beside", "picture")


def _list(value: str) -> tuple[str, ...]:
    """The parts between commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


_PIPELINE_KEYS: Mapping[str, Callable[[str], Any]] = {
    "model": str,
    "dims": str,
    "layouts": _list,
    "profile": str,
    "preset": str,
    "passes": _list,
    "strategy": str,
    "mode": str,
}


_WITH_COLON = "|".join((*_LESSON_KEYS, *_STOP_KEYS, *_PIPELINE_KEYS, *_SECTIONS))
_WIDE_COLON = re.compile(rf"^({_WITH_COLON})：[ \t]*", re.MULTILINE)  # as Chinese keyboards write it


def read_lesson(path: str | Path) -> Lesson:
    """The lesson of the file. Its pipelines and moments are checked only when it is played.

    Raises LessonError with all faults of the file's form; UserError if it cannot be read.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise UserError(f"the lesson '{path}' cannot be read: {reason}; name a .md file") from None
    with reading(f"the lesson '{path}'", UserError, "correct the file"):
        return _Reader(file, str(path), _WIDE_COLON.sub(r"\1: ", text).splitlines()).read()


@dataclass
class _Part:
    """The front matter or a stop: its keys, the line of each, and the lines of text after them."""

    line: int
    title: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)


class _Reader:
    def __init__(self, file: Path, file_name: str, lines: Sequence[str]) -> None:
        self.file, self.file_name, self.lines = file, file_name, lines
        self.faults: list[Fault] = []

    def read(self) -> Lesson:
        front, stops = self._parts()
        for key in ("title", "model"):
            if not front.keys.get(key):
                self._fault(1, f"the front matter has no '{key}'; write one, such as `{key}: {_EXAMPLES[key]}`")
        shared = _pipeline(LessonPipeline(), front.keys)
        results = [self._stop(stop, shared, front) for stop in stops]
        if not results:
            self._fault(len(self.lines) or 1, "there is no stop; write one under a heading such as `## The first stop`")
        if self.faults:
            raise LessonError(sorted(self.faults, key=lambda fault: fault.line))
        keys = front.keys
        return Lesson(self.file, keys["title"], keys.get("about", ""), _joined(front.body), tuple(results))

    def _fault(self, line: int, sentence: str) -> None:
        self.faults.append(Fault(self.file_name, line, sentence))

    def _parts(self) -> tuple[_Part, list[_Part]]:
        """The front matter with the text after it, and the stops. Raises LessonError without front matter."""
        fences = [number for number, line in enumerate(self.lines) if line.strip() == _FENCE]
        if len(fences) < 2 or fences[0] != 0:
            sentence = "the file must begin with front matter: a line of ---, lines such as `title: ...`, a line of ---"
            raise LessonError([Fault(self.file_name, 1, sentence)])
        front = _Part(1)
        for number, line in enumerate(self.lines[1 : fences[1]], 2):
            self._take_key(front, number, line, (*_LESSON_KEYS, *_PIPELINE_KEYS))
        parts, in_keys = [front], False
        for number, line in enumerate(self.lines[fences[1] + 1 :], fences[1] + 2):
            if line.startswith("## "):
                parts.append(_Part(number, line.removeprefix("## ").strip()))
                in_keys = True
                continue
            part = parts[-1]
            if in_keys and not line.strip():
                in_keys = not part.keys
            elif in_keys and _KEY.match(line) and not _SECTION.match(line):
                self._take_key(part, number, line, (*_STOP_KEYS, *_PIPELINE_KEYS))
            else:
                in_keys = False
                part.body.append(line)
                continue
            part.body.append("")
        return front, parts[1:]

    def _take_key(self, part: _Part, number: int, line: str, known: Collection[str]) -> None:
        """Add the line's key to the part, or a fault."""
        if not line.strip():
            return
        match = _KEY.match(line.strip())
        if match is None:
            self._fault(number, f"'{line.strip()}' is not a line of the form `key: value`")
            return
        key, value = match[1], (match[2] or "").strip()
        if key not in known:
            self._fault(number, f"there is no key '{key}' here{closest(key, known)}")
        elif key in part.keys:
            self._fault(number, f"'{key}' is given twice, first in line {part.lines[key]}")
        else:
            part.keys[key], part.lines[key] = value, number

    def _stop(self, part: _Part, shared: LessonPipeline, front: _Part) -> Stop:
        """The stop; what it lacks is added to the faults."""
        lines_of: dict[str, list[str]] = {name: [] for name in ("sentence", "text", "question", "answer", "notes")}
        section, expected = "text", list[str]()
        for line in part.body:
            match = _SECTION.match(line)
            if line.startswith(">"):
                lines_of["sentence"].append(line.removeprefix(">").strip())
                section = "text"
            elif match and match[1] == _EXPECT:
                expected.append(match[2].strip())
            elif match:
                section = match[1].casefold()
                lines_of[section].append(match[2])
            else:
                lines_of[section].append(line)
        texts = {name: _joined(lines) for name, lines in lines_of.items()}
        if not part.title:
            self._fault(part.line, "the stop has no title; write it after ##")
        for name, remedy in _NEEDED.items():
            if not texts[name]:
                self._fault(part.line, f"the stop '{part.title}' has no {name}; {remedy}")
        if not part.keys.get("moment"):
            remedy = "write one of `moment: start`, `moment: end`, `moment: PASS`, `moment: PASS 2`"
            self._fault(part.line, f"the stop '{part.title}' has no moment; {remedy}")
        return Stop(
            title=part.title,
            pipeline=_pipeline(shared, part.keys),
            moment=part.keys.get("moment", ""),
            node=part.keys.get("node", ""),
            frame=_list(part.keys.get("frame", "")),
            beside=part.keys.get("beside", front.keys.get("beside", "")),
            picture=part.keys.get("picture", ""),
            expected=tuple(expected),
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
    """The shared pipeline with the values of these keys instead. passes and preset exclude each other."""
    values = {**vars(shared), **{key: read(keys[key]) for key, read in _PIPELINE_KEYS.items() if key in keys}}
    if "passes" in keys and "preset" not in keys:
        values["preset"] = ""
    if keys.get("preset") and "passes" not in keys:
        values["passes"] = None
    return LessonPipeline(**values)


def _joined(lines: Sequence[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
