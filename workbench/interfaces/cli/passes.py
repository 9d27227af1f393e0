"""The command `passes`: every pass with its options, and the presets."""

from __future__ import annotations

import argparse
import json
import sys

from workbench.interfaces.cli.exit_codes import DONE

HELP = "list every pass with its options"
EXAMPLES = ("",)


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    from workbench.pipeline.registry.pass_registry import library
    from workbench.pipeline.registry.pass_table import pass_table, preset_table

    rows = pass_table()
    if chosen.json:
        print(json.dumps({"passes": rows, "presets": preset_table(), "broken": library.broken()}, indent=1))
        return DONE
    for row in rows:
        print(f"{row['name']:<28} {row['title']}")
        for field in row["options"]:
            print(f"{'':<28}   {row['name']}.{field['name']} = {field['default']}: {field['help']}")
    for name, preset in preset_table().items():
        print(f"preset {name:<21} {preset['title']}: {', '.join(preset['passes'])}")
    for name, fault in library.broken().items():
        print(f"{name:<28} cannot be used, since its file cannot be imported: {fault}", file=sys.stderr)
    return DONE
