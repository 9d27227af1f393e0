"""Write docs/passes.md from the passes themselves: `python docs/make_passes.py`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def document() -> str:
    """The page: each pass as `python -m workbench explain` says it."""
    import passes
    from workbench import explain

    parts = [
        "# Passes",
        "Made by `python docs/make_passes.py` from the files in `passes/`; the examples are tests.",
        "## Presets",
    ]
    for name, preset in passes.presets().items():
        order = ", ".join(f"`{item}`" for item in preset["passes"])
        parts.append(f"`{name}`: {preset['title']}. In order: {order}.")
    for name, cls in passes.all_passes().items():
        parts += [f"## `{name}`: {cls.title}", f"```text\n{explain(name).partition(chr(10))[2].strip()}\n```"]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    (HERE / "passes.md").write_text(document(), encoding="utf-8")
