"""Which passes run, in which order and with which options, as users name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.library import library
from workbench.rewrite import OptionError, Pass, with_options

DEFAULT_PRESET = "default"
FIX = "fix_dims"  # the pass that writes bound dims into the graph
FREE_DIMS = "free_dims"  # the pass that makes the sizes of a batch symbols
FEED = "feed_inputs"  # the pass that takes inputs in the layout that is used
GIVE = "give_outputs"  # the pass that returns outputs in that layout


def choose(
    passes: Sequence[str] | None = None,
    *,
    preset: str = DEFAULT_PRESET,
    layout: str | None = None,
    fix_dims: bool = False,
    free_dims: str = "",
    feed_inputs: bool = False,
    give_outputs: bool = False,
    export_for: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Pass]:
    """The passes to run, with their options; `options` maps "pass.field" to a value.

    fix_dims: whether the pass of this name runs first; free_dims: axes for the pass of this name, which then does.
    feed_inputs, give_outputs: whether the passes of these names run last.
    export_for: a runtime ("onnxruntime") whose own operators the passes behind all others write.
    Raises PassError or OptionError with one sentence.
    """
    names = library.chosen(None if passes is None else list(passes), preset, layout)
    first = [FIX] * fix_dims + [FREE_DIMS] * bool(free_dims)
    names = first + [name for name in names if name not in first]
    names += [FEED] * feed_inputs + [GIVE] * give_outputs
    names += [] if export_for is None else library.passes_for(export_for)
    by_pass: dict[str, dict[str, Any]] = {name: {} for name in names}
    if free_dims:
        by_pass[FREE_DIMS]["axes"] = free_dims
    for key, value in (options or {}).items():
        name, dot, field = key.partition(".")
        if not dot or name not in by_pass:
            raise OptionError(
                f"option '{key}' is for no pass that runs; write pass.field, the pass one of: {', '.join(names)}"
            )
        by_pass[name][field] = value
    found = [with_options(library.find_pass(name), by_pass[name]) for name in names]
    return [pass_.behind(found[:index]) for index, pass_ in enumerate(found)]
