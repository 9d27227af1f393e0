"""What made a node: the pass and rule that wrote it, and the nodes from which it stems.

Written files carry this as entries of the node's metadata, under KEYS, which `of_metadata` reads again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

_PASS, _RULE, _ORIGINS, _LAYOUT = KEYS = tuple(f"workbench.{name}" for name in ("pass", "rule", "origins", "layout"))
MAX_ORIGINS = 20  # names kept for a node, so that a file that is optimized again and again stays small


@dataclass(frozen=True)
class Provenance:
    """What made a node.

    pass_name: the pass that wrote the node as it is. rule: of that pass; "" for a procedure.
    origins:   the nodes of the first file from which it stems, at most MAX_ORIGINS.
    layout:    the layout of its first result, such as "NHWC"; "" if it is not known or not an image's.
    """

    pass_name: str
    rule: str = ""
    origins: tuple[str, ...] = ()
    layout: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """The entries of a node's metadata that say this; empty ones are omitted."""
        origins = json.dumps(self.origins, ensure_ascii=False) if self.origins else ""
        texts = (self.pass_name, self.rule, origins, self.layout)
        return {key: text for key, text in zip(KEYS, texts, strict=True) if text}


def of_metadata(metadata: Mapping[str, str]) -> Provenance | None:
    """What the metadata of a node says; None if it says nothing, or not as this program writes it."""
    if _PASS not in metadata:
        return None
    try:
        origins = json.loads(metadata.get(_ORIGINS, "[]"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(origins, list) or not all(isinstance(name, str) for name in origins):
        return None
    return Provenance(metadata[_PASS], metadata.get(_RULE, ""), tuple(origins[:MAX_ORIGINS]), metadata.get(_LAYOUT, ""))


def without_provenance(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata of a node without what this module writes."""
    return {key: text for key, text in metadata.items() if key not in KEYS}
