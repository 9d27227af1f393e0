"""Every pass as a row of a table."""

from __future__ import annotations

from typing import Any

from workbench.library import library
from workbench.rewrite import Pass


def pass_table() -> list[dict[str, Any]]:
    """Every pass: name, title, a sentence, options, strategy name, presets that hold it."""
    strategy_of = {cls: name for name, cls in library.strategies().items()}
    rows = []
    for name, cls in library.all_passes().items():
        rows.append(
            {
                "name": name,
                "title": cls.title,
                "summary": cls.summary(),
                "bit_equal": cls.is_bit_equal(),
                "strategy": strategy_of.get(cls),
                "presets": [p for p, table in library.presets().items() if name in table["passes"]],
                "options": option_table(cls),
                "rules": [rule.name for rule in cls.rules],
                "exactness": {rule.name: rule.exactness.value for rule in cls.rules},
            }
        )
    return rows


def option_table(cls: type[Pass]) -> list[dict[str, Any]]:
    """The pass's options: name, type, default, help."""
    return [
        {"name": name, "type": str(f.type), "default": f.default, "help": f.metadata.get("help", "")}
        for name, f in cls.option_fields().items()
    ]
