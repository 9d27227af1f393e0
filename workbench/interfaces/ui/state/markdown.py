"""Text of a user, escaped for elements that render Markdown."""

from __future__ import annotations

import re

_CODE = re.compile(r"(`(?:--)?[A-Za-z][A-Za-z0-9 .=_-]*`)")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~$:^=&])")


def markdown_escaped(text: str) -> str:
    """Text for a Streamlit element that renders Markdown, escaped so that it is shown literally.

    A command or an option between backticks, as sentences have them, is shown as code.
    """
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if index % 2 else _MARKDOWN.sub(r"\\\1", part) for index, part in enumerate(parts))
