"""A report in the output of a notebook's cell."""

from __future__ import annotations

import base64
import gzip
import html

HEIGHT_PX = 560

# A frame is a separate document, so that the styles, names and keys of the two pages do not affect each other.
_FRAME = """<iframe srcdoc="{page}" title="Graph Workbench" sandbox="allow-scripts allow-downloads" \
allow="fullscreen" style="width: 100%; height: {height}px; border: 0"></iframe>"""

# Notebooks store their outputs, so the page is compressed, to a quarter or half of its size.
_UNPACK = """<script type="module">
const bytes = Uint8Array.from(atob("{packed}"), (character) => character.charCodeAt(0));
const page = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
document.write(await new Response(page).text());
document.close();
</script>"""


def framed(page: str) -> str:
    """A page of `report_html` in a frame."""
    packed = base64.b64encode(gzip.compress(page.encode(), 9, mtime=0)).decode()
    return _FRAME.format(page=html.escape(_UNPACK.format(packed=packed)), height=HEIGHT_PX)
