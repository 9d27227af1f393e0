"""Text of a user, escaped for elements that render Markdown."""

from __future__ import annotations

import re

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~$:^=&])")


def markdown_escaped(text: str) -> str:
    """Text for a Streamlit element that renders Markdown, escaped so that it is shown literally."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
