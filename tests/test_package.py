"""The wheel as users have it: installed into an environment of its own, away from the repository."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

from tests.browser import free_port, wait_for_app
from tests.conftest import ROOT
from tests.waiting import LIMIT_S
from workbench.interfaces.cli.main import COMMANDS

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installed:
    """Where the wheel was installed: a folder that is not the repository, Python, the command, site-packages."""

    folder: Path
    python: Path
    program: Path
    site: Path

    @property
    def package(self) -> Path:
        return self.site / "workbench"

    def run(self, *words, codes=(0,)) -> str:
        """What a process there prints, which ends with one of these codes."""
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([*map(str, words)], cwd=self.folder, env=env, capture_output=True, text=True)
        assert done.returncode in codes, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def command(self, *words, codes=(0,)) -> str:
        return self.run(self.program, *words, codes=codes)


def environment(folder: Path, *what) -> Installed:
    """An environment with this of ours alone; what it needs is found where the tests have it, without its links."""
    home, away = folder / "venv", folder / "away"
    venv.EnvBuilder(symlinks=True).create(home)
    python = home / "bin" / "python"
    site = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "what_it_needs.pth").write_text(sysconfig.get_path("purelib"))
    words = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", *what]
    subprocess.run(words, check=True)
    away.mkdir()
    return Installed(away, python, home / "bin" / "graph-workbench", site)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(words, check=True)
    return environment(folder, *folder.glob("graph_workbench-*.whl"))


def test_an_editable_install_runs_the_repository_from_any_folder(tmp_path):
    """As `make setup` makes it."""
    linked = environment(tmp_path, "--editable", ROOT)
    assert not linked.package.exists()  # nothing is copied
    code = """
import workbench as wb
from workbench.formats.io.samples import samples
history = wb.optimize(wb.load(samples()[0].file, dims=samples()[0].dims), preset="simplify")
print(wb.__file__, len(history.graph), "nodes")
"""
    said = linked.run(linked.python, "-c", code)
    assert said.startswith(f"{ROOT / 'workbench' / '__init__.py'} ") and said.endswith(" nodes\n")
    assert "layout_greedy" in linked.command("passes")
    assert "5 stops, no fault" in linked.command("lesson", "check", "why_a_transpose")


def test_nothing_of_ours_but_the_package_lands_at_the_top(installed):
    (info,) = installed.site.glob("graph_workbench-*.dist-info")
    tops = {line.partition("/")[0] for line in (info / "RECORD").read_text().splitlines()}
    assert tops == {"workbench", info.name, ".."}  # beside site-packages lies the command
    assert "graph-workbench = workbench.interfaces.cli.main:program" in (info / "entry_points.txt").read_text()
    about = email.message_from_string((info / "METADATA").read_text())
    assert about["License-Expression"] == "Apache-2.0" and about.get_all("License-File") == ["LICENSE"]
    assert (info / "licenses" / "LICENSE").exists()
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(about.get_all("Classifier"))
    assert installed.command("--version") == f"graph-workbench {about['Version']}\n"
    found = "import workbench, workbench.pipeline.registry.pass_registry as r; print(workbench.__file__, r.library.__file__)"
    assert all(path.startswith(str(installed.package)) for path in installed.run(installed.python, "-c", found).split())


def calls(sample):
    """A call of each command but `app` and `tune`, and what it says; in order, since what one writes another reads."""
    check = f"{sys.executable} -c \"import onnx, sys; sys.exit('Relu' in str(onnx.load(sys.argv[1])))\" {{}}"
    return (
        (("passes",), "layout_greedy"),
        (("explain", "fold_batchnorm"), "fold_batchnorm"),
        (("new-pass", "mine", "--folder", "."), "wrote mine.py"),
        (("test-pass", "mine.py"), "mine.py: all passed"),
        (("inspect", sample), "operators: Conv 2, Relu 2"),
        (
            ("optimize", sample, "-o", "out.onnx", "--layout", "greedy", "--target", "cuda", "--certificate", "c.json"),
            "equal",
        ),
        (("check", sample, "out.onnx", "c.json", "--run", "1"), "computes the same"),
        (("verify", sample, "out.onnx"), "equal"),
        (("report", sample, "-o", "report.html"), "wrote report.html"),
        (("layouts", sample, "--no-verify"), "optimal"),
        (("groups", sample), "greedy"),
        (("memory", sample), "certified"),
        (("streams", sample), "streams: 1"),
        (("precision", sample), "loses most by itself"),
        (("lesson", "check", "why_a_transpose"), "5 stops, no fault"),
        (("reduce", sample, "--check", check, "-o", "small.onnx"), "wrote small.onnx"),
        (("extract", sample, "--to", "out", "-o", "part.onnx"), "wrote part.onnx"),
        (("bench", sample, "--backend", "onnxruntime", "--repeat", "2"), "median ms"),
        (("matrix", sample, "--backend", "onnxruntime", "--preset", "none", "--repeat", "2"), "as loaded"),
        (("runs",), "conv_relu_conv_relu"),
        (("compare-tools", sample, "--tools", "original,Graph Workbench", "--no-measure"), "Graph Workbench"),
        (("package", "small.onnx", "-o", "out.pt2"), "wrote out.pt2"),  # a few nodes: most of it is a compiler's time
    )


def test_every_command_works(installed):
    asked = calls(installed.package / "sample_models" / "conv_relu_conv_relu.onnx")
    assert {words[0] for words, _ in asked} == {*COMMANDS} - {"app", "tune"}
    for words, said in asked:
        assert said in installed.command(*words), words
    assert onnx.load(installed.folder / "out.onnx").graph.node
    listed = installed.command("--help")
    assert listed.startswith("usage: graph-workbench ") and set(COMMANDS) <= set(
        re.findall(r"^    ([\w-]+) ", listed, re.M)
    )


def test_a_tuning_begins(installed):
    """It ends with the second that it is given, on a busy machine before anything was measured."""
    sample = installed.package / "sample_models" / "conv_relu_conv_relu.onnx"
    said = installed.command("tune", sample, "-o", "recipe.toml", "--budget", "1s", codes=(0, 2))
    assert "the budget" in said


def test_the_published_figures_are_read_where_it_is_installed(installed):
    code = (
        "from workbench.run.records.published import PUBLISHED_FOLDER, published_about\n"
        "print(PUBLISHED_FOLDER, *(part.name for part in published_about('silero_vad')))"
    )
    folder, *parts = installed.run(installed.python, "-c", code).split()
    assert folder == str(installed.package / "published") and {"engine", "simplify", "verified"} <= {*parts}


def test_a_plan_makes_its_models_where_it_is_installed(installed):
    """ResNet-101, made by a file that lies among the samples."""
    code = "from workbench.interfaces.study.sweep.named_sweeps import PLANS; print(*map(len, PLANS['oneflow'].models()['ResNet-101'].values()))"
    plain, channels_last = map(int, installed.run(installed.python, "-c", code).split())
    assert 200 < plain < channels_last


def test_the_package_says_that_it_has_types_and_what_it_needs(installed):
    assert (installed.package / "py.typed").exists()
    (metadata,) = installed.site.glob("*.dist-info/METADATA")
    needed = [line for line in metadata.read_text().splitlines() if line.startswith("Requires-Dist: ")]
    assert any(line.startswith("Requires-Dist: omnimalloc") for line in needed)
    torch = [line for line in needed if re.match("Requires-Dist: torch", line)]
    assert torch and all("extra ==" in line for line in torch)
    extras = {line.removeprefix("Provides-Extra: ") for line in metadata.read_text().splitlines()}
    assert {"torch", "app", "all"} <= extras


@contextmanager
def serving(installed, said):
    """The address of the installed app, which answers; what it prints goes into the file `said`."""
    port = free_port()
    words = [installed.program, "app", "--port", str(port), "--headless"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with said.open("w") as file, subprocess.Popen(words, cwd=installed.folder, env=env, stdout=file) as server:
        try:
            wait_for_app(f"http://localhost:{port}", server)
            yield f"http://localhost:{port}"
        finally:
            server.terminate()


def test_the_installed_app_serves_its_first_page_to_this_machine_alone(installed, tmp_path):
    said = tmp_path / "said.txt"
    with serving(installed, said) as site:
        for path in ("/", "/_stcore/health"):
            with urllib.request.urlopen(f"{site}{path}", timeout=LIMIT_S) as answer:
                assert answer.status == 200 and answer.read()
    assert "Network URL" not in said.read_text()


@pytest.mark.browser
def test_the_installed_app_opens_a_model_and_names_the_installed_command(installed, browser, tmp_path):
    with serving(installed, tmp_path / "said.txt") as site:
        page = browser.new_page()
        page.goto(site)
        page.get_by_text("main graph, 176 nodes").first.wait_for(state="attached")
        page.goto(f"{site}/export")
        page.get_by_text("graph-workbench optimize").first.wait_for(state="attached")
        page.close()
