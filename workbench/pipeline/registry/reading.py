"""Reads the text of a pipeline, the inverse of `str(pipeline)`.

    pipeline = part ("," part)*
    part     = name options? | "layout" options? | "fixpoint" options? "(" pipeline ")"
    options  = "{" (key "=" value)* "}"        value: bare, or in double quotes as in JSON

A name is that of a pass or of a preset; a preset stands for its parts. "layout" without options is the slot of the
strategy that is chosen when the pipeline runs. White space does not matter. "repeat", which older versions wrote,
makes a fixpoint of all parts before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from workbench.errors import closest
from workbench.pipeline.pipeline import FIXPOINT, LAYOUT, Fixpoint, LayoutSlot, Part, Pipeline, part_text
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.repeat import ROUNDS
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.precision.strategies.precision_strategy import PrecisionStrategy
from workbench.rewrite import OptionError, with_options

LEGACY_REPEAT = "repeat"
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[{}(),=]|[^\s{}(),="]+)')
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,99}")
_ROUNDS = re.compile("[1-9][0-9]{0,5}")
_MAX_NESTING = 20  # the deepest nesting of fixpoints


class PipelineError(OptionError):
    """The text of a pipeline cannot be read, or names what does not exist."""


def read_pipeline(text: str) -> Pipeline:
    """The pipeline of a text. Raises PipelineError, PassError or OptionError."""
    reader = _Reader(text)
    parts = reader.parts(depth=0) if reader.next is not None else []
    if reader.next is not None:
        raise reader.error(f"'{reader.next}' stands where a comma or the end is expected")
    return Pipeline(parts)


@cache
def preset(name: str) -> Pipeline:
    """The pipeline of a preset. Raises PassError if there is none of that name."""
    return read_pipeline(library.preset_text(name))


@cache
def _preset_names() -> Mapping[str, str]:
    """The names of the presets by their texts."""
    return {str(preset(name)): name for name, entry in library.presets().items() if "alias" not in entry}


def shortest_text(pipeline: Pipeline) -> str:
    """The pipeline's text, with names of presets instead of their parts."""
    names_of_passes = library.all_names()
    names = {text: name for text, name in _preset_names().items() if name not in names_of_passes}
    texts = ((part, part_text(part)) for part in pipeline.parts)
    shortened = (names.get(text, text) if isinstance(part, Fixpoint) else text for part, text in texts)
    return names.get(str(pipeline), ",".join(filter(None, shortened)))


def layout_strategy(name: str, options: Mapping[str, object] | None = None) -> LayoutStrategy:
    """The layout strategy of that name. Raises PassError or OptionError."""
    return with_options(library.find_strategy(name), options or {})


def precision_strategy(name: str, options: Mapping[str, object] | None = None) -> PrecisionStrategy:
    """The precision strategy of that name. Raises PipelineError or OptionError."""
    found = library.precision_strategies().get(name)
    if found is None:
        raise PipelineError(f"there is no precision strategy '{name}'{closest(name, library.precision_strategies())}")
    return with_options(found, options or {})


class _Reader:
    """Recursive-descent parser; `next` is the next token, None at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self.next: str | None = next(self._tokens, None)

    def _split(self, text: str) -> Iterator[str]:
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error(f"{text[position:].strip()[:20]!r} is not a part of a pipeline")
            yield match.group().strip()
            position = match.end()

    def error(self, why: str) -> PipelineError:
        shown = self._text if len(self._text) <= 80 else f"{self._text[:77]}..."
        return PipelineError(" ".join(f"the pipeline '{shown}' cannot be read: {why}".split()))

    def _take(self, expected: str = "") -> str:
        token = self.next
        if token is None or (expected and token != expected):
            where = "at the end" if token is None else f"before '{token}'"
            raise self.error(f"'{expected}' is missing {where}" if expected else f"a name is missing {where}")
        self.next = next(self._tokens, None)
        return token

    def parts(self, depth: int) -> list[Part]:
        """Parts separated by commas; an empty part is allowed."""
        parts: list[Part] = []
        while self.next is not None and self.next != ")":
            if self.next == ",":
                self._take()
                continue
            if self.next == LEGACY_REPEAT:
                self._take()
                parts, depth = [Fixpoint(parts)], depth + 1
            else:
                parts += self._part(depth)
            if depth > _MAX_NESTING:
                raise self.error(f"more than {_MAX_NESTING} nested fixpoints")
            if self.next != ",":
                break
            self._take()
        return parts

    def _part(self, depth: int) -> Sequence[Part]:
        name = self._take()
        if not _NAME.fullmatch(name):
            raise self.error(f"'{name[:60]}' stands where a pass is expected")
        options = self._options()
        if name == FIXPOINT:
            return [self._fixpoint(options, depth)]
        if name == LAYOUT:
            return [self._layout(options)]
        if name not in library.presets() or name in library.all_names():
            return [with_options(library.find_pass(name), options)]
        if options:
            raise self.error(f"'{name}' is a preset, which has no options")
        return preset(name).parts

    def _fixpoint(self, options: Mapping[str, str], depth: int) -> Fixpoint:
        others = options.keys() - {"rounds"}
        if others:
            raise self.error(f"a fixpoint has no option '{min(others)}', only rounds")
        rounds = options.get("rounds", str(ROUNDS))
        if not _ROUNDS.fullmatch(rounds):
            raise self.error(f"rounds is a number of at least 1, not '{rounds[:20]}'")
        self._take("(")
        parts = self.parts(depth + 1)
        self._take(")")
        return Fixpoint(parts, int(rounds))

    def _layout(self, options: Mapping[str, str]) -> Part:
        if not options:
            return LayoutSlot()
        if "strategy" not in options:
            raise self.error(f"layout needs strategy=NAME{closest('', library.strategies())}")
        other_options = {key: value for key, value in options.items() if key != "strategy"}
        return layout_strategy(options["strategy"], other_options)

    def _unquoted(self, value: str) -> str:
        try:
            return str(json.loads(value)) if value.startswith('"') else value
        except json.JSONDecodeError:
            raise self.error(f"{value} is not a JSON string") from None

    def _options(self) -> dict[str, str]:
        options: dict[str, str] = {}
        if self.next != "{":
            return options
        self._take()
        while self.next != "}":
            key = self._take()
            self._take("=")
            if key in options:
                raise self.error(f"the option '{key}' is given twice")
            options[key] = self._unquoted(self._take())
            if self.next == ",":
                self._take()
        self._take("}")
        return options
