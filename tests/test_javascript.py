"""The JavaScript that needs no browser, in Node; `make check-js` checks its types and its style."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.conftest import ROOT
from workbench.presentation.view.report import COMPONENT

OLDEST = 20  # of Node


@pytest.mark.slow
def test_what_needs_no_browser_holds_in_node():
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed: the JavaScript is tested in the browser alone")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").split(".")[0]) < OLDEST:
        pytest.skip(f"Node {version.strip()} is older than {OLDEST}: the JavaScript is tested in the browser alone")
    files = sorted((ROOT / "tests" / "js").glob("*.test.js"))
    done = subprocess.run([node, "--test", *files], cwd=ROOT, capture_output=True, text=True)
    assert files and done.returncode == 0, done.stdout + done.stderr


def test_every_module_is_checked_by_types():
    for file in COMPONENT.glob("*.js"):
        assert file.read_text(encoding="utf-8").startswith("// @ts-check\n"), file.name
