"""Every pass as a row of a table."""

from __future__ import annotations

from typing import Any

from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.registry.reading import preset
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.rewrite import Pass


def pass_table() -> list[dict[str, Any]]:
    """Every pass: name, title, a sentence, options, strategy name, presets that hold it."""
    rows = []
    for name, cls in library.all_passes().items():
        rows.append(
            {
                "name": name,
                "title": cls.title,
                "summary": cls.summary(),
                "bit_equal": cls.is_bit_equal(),
                "strategy": cls.strategy if issubclass(cls, LayoutStrategy) else None,
                "presets": [p for p in library.presets() if name in preset(p).names],
                "options": option_table(cls),
                "rules": [rule.name for rule in cls.rules],
                "exactness": {rule.name: rule.exactness.value for rule in cls.rules},
            }
        )
    return rows


def preset_table() -> dict[str, dict[str, Any]]:
    """Every preset: its title, its passes as `Pipeline.names` has them, and the text of its pipeline."""
    return {
        name: {"title": entry["title"], "passes": list(preset(name).names), "pipeline": str(preset(name))}
        for name, entry in library.presets().items()
    }


def option_table(cls: type[Pass]) -> list[dict[str, Any]]:
    """The pass's options: name, type, default, help."""
    return [
        {"name": name, "type": str(f.type), "default": f.default, "help": f.metadata.get("help", "")}
        for name, f in cls.option_fields().items()
    ]
