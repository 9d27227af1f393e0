"""Write docs/passes.md, a page of the site, from the passes themselves: `make docs` runs it."""

import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def document() -> str:
    """The page: each pass as `python -m workbench explain` says it."""
    import passes
    from workbench import explain

    parts = [
        "# Passes",
        "Made from the files in `passes/` when the site was built; the examples are tests.",
        "## Presets",
    ]
    for name, entry in passes.presets().items():
        parts.append(f"`{name}`: {entry['title']}:\n\n```text\n{_by_lines(entry['pipeline'])}\n```")
    for name, cls in passes.all_passes().items():
        parts += [f"## `{name}`: {cls.title}", f"```text\n{explain(name).partition(chr(10))[2].strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def _by_lines(pipeline: str) -> str:
    """The pipeline's text without the line breaks of its file, a few passes a line."""
    return textwrap.fill(" ".join(pipeline.replace(",", ", ").split()).replace("( ", "(").replace(", )", ")"), 100)


if __name__ == "__main__":
    (HERE / "passes.md").write_text(document(), encoding="utf-8")
