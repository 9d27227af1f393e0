"""The pages of the site that are no files of docs/: those at the top of the repository, the notebook, the reference.

And the places in the navigation of those that scripts made: a page for each pass, and one for each command.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.made_pages import folder_title  # noqa: E402

FROM_THE_TOP = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "samples.md": "sample_models/LICENSES.md",
}
# Folders of the repository that a page names, and the page of the site that has what is in them.
FOLDERS = {"passes/": "passes.md", "workbench/interfaces/cli/": "reference/commands/index.md"}
COMMANDS = "reference/commands"
REFERENCE = {
    "api": ("The verbs", ["workbench.interfaces.api"]),
    "ir": ("The graph", ["workbench.ir", "workbench.ir.permutation"]),
    "rewrite": (
        "Rules, passes, histories",
        [
            "workbench.rewrite",
            "workbench.rewrite.patterns.algebra",
            "workbench.rewrite.patterns.graph_rules",
            "workbench.rewrite.core.guards",
            "workbench.pipeline.running",
        ],
    ),
    "layout": (
        "Layouts and targets",
        [
            "workbench.planning.layout.profile",
            "workbench.planning.layout.infer",
            "workbench.analysis.metrics.transpose_cost",
        ],
    ),
    "ops": ("Operator contracts", ["workbench.ops", "workbench.ops.contract"]),
    "run": (
        "Comparing and measuring",
        [
            "workbench.evidence.verification.verifier",
            "workbench.run.measurement.measure",
            "workbench.run.measurement.variants",
            "workbench.presentation.explanations.summary",
        ],
    ),
    "io": ("Files", ["workbench.formats.io", "workbench.formats.io.exporting"]),
    "errors": ("Errors", ["workbench.errors"]),
}


def on_config(config: MkDocsConfig) -> None:
    """Called by MkDocs before all else: passes behind their list, by folder, and commands before the reference."""
    for section in config.nav or ():
        pages = next(iter(section.values()))
        if "passes.md" in pages:
            pages[pages.index("passes.md")] = {"Passes": ["passes.md", *pass_pages()]}
        if "reference/api.md" in pages:
            pages.insert(0, {"Commands": command_pages()})


def pass_pages() -> list[dict[str, Any]]:
    """Of each folder of passes, the pages that there are."""
    made = {page.stem for page in (ROOT / "docs" / "passes").glob("*.md")}
    by_folder: dict[str, list[str]] = {}
    for file in sorted((ROOT / "passes").rglob("*.py")):
        if file.stem in made:
            by_folder.setdefault(file.parent.name, []).append(file.stem)
    return [
        {folder_title(folder): [{name: f"passes/{name}.md"} for name in names]} for folder, names in by_folder.items()
    ]


def command_pages() -> list[Any]:
    """The list of the commands, and their pages."""
    names = sorted(page.stem for page in (ROOT / "docs" / COMMANDS).glob("*.md") if page.stem != "index")
    return [f"{COMMANDS}/index.md", *({name: f"{COMMANDS}/{name}.md"} for name in names)]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by MkDocs with the files of docs/."""
    pages = {place: (ROOT / source).read_text(encoding="utf-8") for place, source in FROM_THE_TOP.items()}
    pages["notebook.md"] = notebook((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    pages |= {f"reference/{name}.md": reference(*told) for name, told in REFERENCE.items()}
    for place, content in pages.items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page: links as they hold in the repository become links as they hold in the site."""
    places = {source: place for place, source in FROM_THE_TOP.items()} | {"notebook.ipynb": "notebook.md"} | FOLDERS

    def linked(link: re.Match[str]) -> str:
        place = link[1].removeprefix("docs/")
        return f"]({places.get(place.removeprefix('../'), place)}"

    return re.sub(r"\]\(((?!https?:|#)[^)#]+)", linked, markdown)


def notebook(text: str) -> str:
    """Its cells with their outputs; what is HTML stays so."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            page = "".join(output.get("data", {}).get("text/html", ""))
            parts.append(page or f"```text\n{''.join(output['text']).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def reference(title: str, modules: list[str]) -> str:
    return "\n\n".join([f"# {title}", *(f"::: {module}" for module in modules)]) + "\n"
