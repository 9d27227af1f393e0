"""What the scripts that make pages of the site share: writing them, and the titles of folders of passes."""

from collections.abc import Mapping
from pathlib import Path

from workbench.support.files import write_text

HERE = Path(__file__).resolve().parent


def write_pages(pages: Mapping[str, str], folder: str) -> None:
    """Write pages by their places in docs/; of the folder, which is made, other pages are deleted.

    Raises UserError if one cannot be written.
    """
    (HERE / folder).mkdir(parents=True, exist_ok=True)
    for old in (HERE / folder).glob("*.md"):
        if f"{folder}/{old.name}" not in pages:
            old.unlink()
    for place, text in pages.items():
        write_text(HERE / place, text)


def folder_title(name: str) -> str:
    """Of a folder of passes: "Layout"; a short name is an abbreviation, "QDQ"."""
    return name.capitalize() if len(name) > 3 else name.upper()
