"""The optimizations, one per file, in folders by kind. Files are discovered, and so are the user's own passes
(`workbench/rewrite/core/own_passes.py`) and tools (`workbench/rewrite/external/own_tool.py`).

A file that does not import is not skipped: `broken()` returns its error, the app shows it as a red card, and a test
fails.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from workbench.errors import UserError, closest
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.precision.strategies.precision_strategy import PrecisionStrategy
from workbench.rewrite.core.identity import RENAMED_PASSES, RENAMED_STRATEGIES
from workbench.rewrite.core.own_passes import own_passes
from workbench.rewrite.core.passes import Pass
from workbench.rewrite.external.own_tool import own_tools

RUNTIMES = ("onnxruntime",)
RESERVED = ("fixpoint", "layout", "repeat")  # words of a pipeline's text


class PassError(UserError):
    """There is no pass, preset or strategy of that name, or its file does not import."""


@cache
def _modules() -> Mapping[str, tuple[str, ...]]:
    """The modules of the passes by the name of their file; more than one is a fault."""
    results: dict[str, tuple[str, ...]] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not module.ispkg:
            name = module.name.rpartition(".")[2]
            results[name] = (*results.get(name, ()), module.name)
    return dict(sorted(results.items()))


@cache
def _loaded(name: str) -> type[Pass] | str:
    """The pass in the file of that name, or the error of the file. Other files are not imported."""
    first, *others = _modules()[name]
    if others:
        return f"PassError: two files have that name; rename {others[-1].replace('.', '/')}.py"
    try:
        return _pass_in(first)
    except Exception as error:  # any error in a pass's file is shown, and none stops the others
        return f"{type(error).__name__}: {error}"


def _pass_in(name: str) -> type[Pass]:
    module = importlib.import_module(name)
    defined = [c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__]
    classes = [c for c in defined if issubclass(c, Pass)]
    if len(classes) != 1:
        file = f"{name.replace('.', '/')}.py"
        raise PassError(f"{file} must define one pass, a subclass of Pass, and defines {len(classes)}")
    return classes[0]


def _own() -> Mapping[str, type[Pass] | str]:
    """The user's own passes and tools by name, or the error of the file."""
    taken = {*_modules(), *presets(), *RESERVED}
    own = own_passes(taken)
    return {**own, **own_tools({*taken, *own})}


def _passes_or_errors() -> Mapping[str, type[Pass] | str]:
    """Every pass by name, or the error of its file."""
    return {**{name: _loaded(name) for name in _modules()}, **_own()}


def all_passes() -> Mapping[str, type[Pass]]:
    """Every pass by name, in the order of the names; the user's own passes and tools are last."""
    result = _passes_or_errors()
    return {name: cls for name, cls in result.items() if not isinstance(cls, str)}


def broken() -> Mapping[str, str]:
    """Files that do not import or hold no pass, each with its error."""
    result = _passes_or_errors()
    return {name: fault for name, fault in result.items() if isinstance(fault, str)}


def strategies() -> Mapping[str, type[LayoutStrategy]]:
    """The layout strategies by the name that `--layout` takes: "record-then-insert"."""
    return {cls.strategy: cls for cls in all_passes().values() if issubclass(cls, LayoutStrategy)}


def precision_strategies() -> Mapping[str, type[PrecisionStrategy]]:
    """The precision strategies by the name that `--precision` takes: "optimal"."""
    return {cls.strategy: cls for cls in all_passes().values() if issubclass(cls, PrecisionStrategy)}


def compared_strategies() -> Mapping[str, type[LayoutStrategy]]:
    """The strategies that are compared with each other: all but demonstrations, which are wrong on purpose, and those
    whose package is not installed."""
    return {name: cls for name, cls in strategies().items() if not (cls.demonstration or cls.missing())}


def all_names() -> Collection[str]:
    """The names of all passes; of files, only those of the user's own passes are imported."""
    return {*_modules(), *_own()}


def find_pass(name: str) -> type[Pass]:
    """The pass of that name, or former name. Raises PassError, with the existing names, if there is none."""
    name = RENAMED_PASSES.get(name, name)
    result = _loaded(name) if name in _modules() else _own().get(name)
    if result is None:
        others = {"preset": presets(), "layout strategy": strategies()}
        raise PassError(f"there is no pass '{name}'{closest(name, all_passes(), others)}")
    if isinstance(result, str):
        raise PassError(f"pass '{name}' cannot be used, its file does not import: {result}")
    return result


def runtime_preset(runtime: str) -> str:
    """The text of the passes that write a runtime's own operators: the preset of its name. Raises PassError."""
    if runtime not in RUNTIMES:
        raise PassError(f"there are no passes for '{runtime}'; there are some for: {', '.join(RUNTIMES)}")
    return preset_text(runtime)


@cache
def presets() -> Mapping[str, Mapping[str, str]]:
    """The presets of presets.toml: each has a title and the text of its pipeline, or is an alias of another."""
    table: dict[str, dict[str, str]] = tomllib.loads(
        (Path(__file__).parent / "presets.toml").read_text(encoding="utf-8")
    )
    return {name: _resolved(entry, table) for name, entry in table.items()}


def _resolved(entry: Mapping[str, str], table: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    if "alias" not in entry:
        return entry
    alias = entry["alias"]
    return {"title": f"The same as {alias}", "alias": alias, "pipeline": table[alias]["pipeline"]}


def preset_text(name: str) -> str:
    """The text of the preset's pipeline. Raises PassError if there is none of that name."""
    if name not in presets():
        raise PassError(f"there is no preset '{name}'{closest(name, presets(), {'pass': all_passes()})}")
    return presets()[name]["pipeline"]


def find_strategy(name: str) -> type[LayoutStrategy]:
    """The layout strategy of that name, or former name. Raises PassError, with the existing names, if there is none.

    Files whose names contain the strategy's are imported first, so that the others need not be imported.
    """
    name = RENAMED_STRATEGIES.get(name, name)
    for file in (file for file in _modules() if name.replace("-", "_") in file):
        cls = _loaded(file)
        if not isinstance(cls, str) and issubclass(cls, LayoutStrategy) and cls.strategy == name:
            return cls
    every = strategies()
    if name not in every:
        raise PassError(f"there is no layout strategy '{name}'{closest(name, every)}")
    return every[name]
