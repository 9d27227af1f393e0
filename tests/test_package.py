"""`pip wheel .` gives a package that works away from the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import onnx
import pytest

from tests.browser import free_port, wait_for_app
from tests.conftest import ROOT

COMMAND = (sys.executable, "-P", "-m", "workbench")  # -P: not what lies in the folder where it runs


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder that holds what the wheel holds, as site-packages would."""
    folder = tmp_path_factory.mktemp("package")
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(words, check=True)
    (wheel,) = folder.glob("graph_workbench-*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "site")
    return folder / "site"


def with_package(installed):
    return {**os.environ, "PYTHONPATH": str(installed)}


def command(installed, *words):
    """What the installed command prints, run in a folder that is not the repository."""
    done = subprocess.run(
        [*COMMAND, *map(str, words)], cwd=installed.parent, env=with_package(installed), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_nothing_of_ours_but_the_package_lands_at_the_top(installed):
    tops = {path.name for path in installed.iterdir()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"workbench"}
    (record,) = installed.glob("*.dist-info/RECORD")
    assert "__pycache__" not in record.read_text()
    (entry,) = installed.glob("*.dist-info/entry_points.txt")
    assert "graph-workbench = workbench.cli.main:program" in entry.read_text()


@pytest.mark.slow
def test_the_installed_command_optimizes_and_measures(installed, tmp_path):
    assert "layout_greedy" in command(installed, "passes")
    assert "fold_batchnorm" in command(installed, "explain", "fold_batchnorm")
    sample = installed / "workbench" / "sample_models" / "conv_relu_conv_relu.onnx"
    out = tmp_path / "out.onnx"
    assert "equal" in command(installed, "optimize", sample, "-o", out, "--layout", "greedy")
    assert onnx.load(out).graph.node
    assert "median ms" in command(installed, "bench", sample, "--repeat", "2")
    assert "5 stops, nothing wrong" in command(installed, "lesson", "check", "why_a_transpose")


@pytest.mark.slow
def test_a_plan_makes_its_models_where_it_is_installed(installed):
    """ResNet-101, made by a file that lies among the samples."""
    code = "from workbench.plans import PLANS; print(*map(len, PLANS['oneflow'].models()['ResNet-101'].values()))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=installed.parent,
        env=with_package(installed),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    plain, channels_last = map(int, done.stdout.split())
    assert 200 < plain < channels_last


@pytest.mark.slow
def test_the_package_says_that_it_has_types_and_what_it_needs(installed):
    assert (installed / "workbench" / "py.typed").exists()
    (metadata,) = installed.glob("*.dist-info/METADATA")
    assert "Requires-Dist: omnimalloc" in metadata.read_text()


@pytest.mark.slow
@pytest.mark.browser
def test_the_installed_app_opens_and_is_for_this_machine_alone(installed, browser, tmp_path):
    port = free_port()
    words = [*COMMAND, "app", "--port", str(port), "--headless"]
    said = tmp_path / "said.txt"
    with (
        said.open("w") as file,
        subprocess.Popen(words, cwd=tmp_path, env=with_package(installed), stdout=file) as server,
    ):
        try:
            wait_for_app(f"http://localhost:{port}", server)
            page = browser.new_page()
            page.goto(f"http://localhost:{port}")
            page.get_by_text("main graph, 176 nodes").wait_for()
            page.close()
        finally:
            server.terminate()
    assert "Network URL" not in said.read_text()
