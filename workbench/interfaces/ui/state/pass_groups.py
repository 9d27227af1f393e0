"""The passes as the sidebar lists them: in groups, which are the folders of their files, and found by words."""

from __future__ import annotations

import sys
from collections.abc import Collection

from workbench.pipeline.registry.pass_registry import library
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.rewrite import Pass
from workbench.rewrite.external.tool_pass import ToolPass

_OWN = "My passes"
_SHORT_FOR = {"fp16": "float16", "half": "float16", "bf16": "bfloat16"}


def group_of(cls: type[Pass]) -> str:
    """The group of a pass with what it is for: the name of its folder, and the first line of the folder's docstring."""
    folder = cls.__module__.rpartition(".")[0]
    about = getattr(sys.modules.get(folder), "__doc__", None) or ""
    if not about:
        return _OWN
    return f"{folder.rpartition('.')[2]}: {about.strip().splitlines()[0].removeprefix('Passes that ').rstrip('.')}"


def is_found(cls: type[Pass], words: str) -> bool:
    """Whether each of the words is in the pass's name, title, group, summary or options; capitals do not matter."""
    options = [
        text
        for name, field in cls.option_fields().items()
        for text in (name, field.metadata.get("help", ""), *field.metadata.get("choices", ()))
    ]
    return _has_words(" ".join((_headline(cls), cls.summary(), *options)), words)


def is_about(cls: type[Pass], words: str) -> bool:
    """Whether the words are in its name, title or group: what it is for, not what it mentions."""
    return _has_words(_headline(cls), words)


def is_foreign(cls: type[Pass]) -> bool:
    """Whether it runs an optimizer that others wrote."""
    return issubclass(cls, ToolPass)


def _headline(cls: type[Pass]) -> str:
    name = cls.__module__.rpartition(".")[2]
    return " ".join((name, name.replace("_", " "), cls.title, group_of(cls)))


def _has_words(text: str, words: str) -> bool:
    return all(_SHORT_FOR.get(word, word) in text.lower() for word in words.lower().split())


def offered_strategies(chosen: Collection[str] = ()) -> dict[str, type[LayoutStrategy]]:
    """The layout strategies to choose from, by name: none that is wrong on purpose, unless it is chosen already."""
    return {name: cls for name, cls in library.strategies().items() if not cls.demonstration or name in chosen}


def about_strategy(cls: type[Pass]) -> str:
    """What a layout strategy does, in a line beside its name."""
    return cls.title.removeprefix("Layout: ").removesuffix(" (demonstration)")
