"""The pages of the site with the tables of docs/results, a page for each group of benchmarks, and the links to them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.publishing.groups import GROUPS  # noqa: E402
from benchmarks.publishing.page import group_page, places, published_parts  # noqa: E402

_LINK = re.compile(r"\]\(((?:\.\./)*)(results/\w+\.json)\)")


def on_config(config: MkDocsConfig) -> None:
    """Called by MkDocs before all else: the pages stand behind results.md."""
    for section in config.nav or ():
        pages = next(iter(section.values()))
        if "results.md" in pages:
            pages.insert(pages.index("results.md") + 1, {"Tables": [f"results/{group.place}.md" for group in GROUPS]})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by MkDocs with the files of docs/."""
    parts = published_parts()
    for group in GROUPS:
        files.append(File.generated(config, f"results/{group.place}.md", content=group_page(group, parts)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page: a link to a file of docs/results becomes one to its table."""
    if not _LINK.search(markdown):
        return markdown
    tables = places(published_parts())
    return _LINK.sub(lambda link: f"]({link[1]}{tables.get(link[2], link[2])})", markdown)
