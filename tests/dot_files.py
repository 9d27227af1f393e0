"""What Graphviz reads in a DOT file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def _dot_program() -> str | None:
    beside = Path(sys.executable).with_name("graphviz-pure")
    return shutil.which("dot") or (str(beside) if beside.exists() else None)


def boxes_and_edges(source: str) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str, str]]]:
    """By tooltip the attributes of each box, and of each edge the tooltips of its ends and its words.

    Skips where there is no Graphviz.
    """
    program = _dot_program()
    if program is None:
        pytest.skip("Graphviz is not installed: there is no dot on the PATH and no package graphviz-pure")
    done = subprocess.run([program, "-Tdot_json"], input=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    boxes = {entry["_gvid"]: entry for entry in read["objects"] if "tooltip" in entry}
    edges = [
        (boxes[e["tail"]]["tooltip"], boxes[e["head"]]["tooltip"], e.get("label", "")) for e in read.get("edges", ())
    ]
    assert len({box["tooltip"] for box in boxes.values()}) == len(boxes)
    return {box["tooltip"]: box for box in boxes.values()}, edges
