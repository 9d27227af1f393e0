"""The optimizations, one per file, in folders by kind; files here and in the folders are discovered, and so are the
user's own tools (`workbench/rewrite/own_tool.py`).

A file that does not import is not skipped: `broken()` returns its error, the
app shows it as a red card, and a test fails.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from workbench.errors import UserError, closest
from workbench.rewrite.own_tool import own_tools
from workbench.rewrite.passes import LAYOUT_PREFIX, Pass

RUNTIMES = ("onnxruntime",)
PLACE_OF_LAYOUT = "layout"  # in a preset: the position of the chosen layout strategy


class PassError(UserError):
    """There is no such pass, preset or strategy; or its file does not import."""


@cache
def _modules() -> Mapping[str, tuple[str, ...]]:
    """The modules of the passes by the name of their file; more than one is a fault."""
    found: dict[str, tuple[str, ...]] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not module.ispkg:
            name = module.name.rpartition(".")[2]
            found[name] = (*found.get(name, ()), module.name)
    return dict(sorted(found.items()))


@cache
def _loaded(name: str) -> type[Pass] | str:
    """The pass in the file of that name, or what is wrong with the file. Other files are not imported."""
    first, *others = _modules()[name]
    if others:
        return f"PassError: two files have that name; rename {others[-1].replace('.', '/')}.py"
    try:
        return _pass_in(first)
    except Exception as error:  # any error in a pass's file is shown, and none stops the others
        return f"{type(error).__name__}: {error}"


def _pass_in(name: str) -> type[Pass]:
    module = importlib.import_module(name)
    own = [c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__]
    classes = [c for c in own if issubclass(c, Pass)]
    if len(classes) != 1:
        file = f"{name.replace('.', '/')}.py"
        raise PassError(f"{file} must define one pass, a subclass of Pass, and defines {len(classes)}")
    return classes[0]


def _every() -> Mapping[str, type[Pass] | str]:
    """Every pass by name, or what is wrong with its file."""
    return {**{name: _loaded(name) for name in _modules()}, **own_tools(_modules())}


def all_passes() -> Mapping[str, type[Pass]]:
    """Every pass by name, in the order of the names; the user's own tools are last."""
    found = _every()
    return {name: one for name, one in found.items() if not isinstance(one, str)}


def broken() -> Mapping[str, str]:
    """Files that do not import or hold no pass, each with its error."""
    found = _every()
    return {name: fault for name, fault in found.items() if isinstance(fault, str)}


def strategies() -> Mapping[str, type[Pass]]:
    """The layout strategies by the name that `--layout` takes: "record-then-insert"."""
    named = all_passes().items()
    return {_strategy(name): cls for name, cls in named if name.startswith(LAYOUT_PREFIX)}


def compared_strategies() -> Mapping[str, type[Pass]]:
    """The strategies that are compared with each other: all but demonstrations, which are wrong on purpose."""
    return {name: cls for name, cls in strategies().items() if not cls.demonstration}


def broken_strategies() -> Mapping[str, str]:
    """Layout strategies whose files do not import, by the name that `--layout` would take, each with its error."""
    found = {name: fault for name, fault in broken().items() if name.startswith(LAYOUT_PREFIX)}
    return {_strategy(name): fault for name, fault in found.items()}


def _strategy(pass_name: str) -> str:
    return pass_name.removeprefix(LAYOUT_PREFIX).replace("_", "-")


def find_pass(name: str) -> type[Pass]:
    """The pass of that name. Raises PassError, with the existing names, if there is none."""
    found = _loaded(name) if name in _modules() else own_tools(_modules()).get(name)
    if found is None:
        others = {"preset": presets(), "layout strategy": strategies()}
        raise PassError(f"there is no pass '{name}'{closest(name, all_passes(), others)}")
    if isinstance(found, str):
        raise PassError(f"pass '{name}' cannot be used, its file does not import: {found}")
    return found


def passes_for(runtime: str) -> list[str]:
    """The passes that write a runtime's own operators: those of the preset of its name. Raises PassError."""
    if runtime not in RUNTIMES:
        raise PassError(f"there are no passes for '{runtime}'; there are some for: {', '.join(RUNTIMES)}")
    return list(presets()[runtime]["passes"])


@cache
def presets() -> Mapping[str, Mapping[str, Any]]:
    """The presets of presets.toml: each has a title and an ordered list of passes."""
    table = tomllib.loads((Path(__file__).parent / "presets.toml").read_text(encoding="utf-8"))
    return {name: _resolved(entry, table) for name, entry in table.items()}


def _resolved(entry: Mapping[str, Any], table: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if "alias" not in entry:
        return entry
    return {"title": f"The same as {entry['alias']}", "passes": table[entry["alias"]]["passes"]}


def chosen(names: list[str] | None, preset: str, strategy: str | None) -> list[str]:
    """Names of the passes to run: those given, or the preset's, the layout strategy at its position (else last)."""
    if names is None and preset not in presets():
        raise PassError(f"there is no preset '{preset}'{closest(preset, presets(), {'pass': all_passes()})}")
    layout = None if strategy is None else LAYOUT_PREFIX + strategy.replace("-", "_")
    if strategy is not None and layout is not None and (layout not in _modules() or _strategy(layout) != strategy):
        raise PassError(f"there is no layout strategy '{strategy}'{closest(strategy, strategies())}")
    order = list(names) if names is not None else list(presets()[preset]["passes"])
    if layout is not None and PLACE_OF_LAYOUT not in order and layout not in order:
        order.append(PLACE_OF_LAYOUT)
    if layout is None:
        return [name for name in order if name != PLACE_OF_LAYOUT]
    return [layout if name == PLACE_OF_LAYOUT else name for name in order]
