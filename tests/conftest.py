"""Paths and fixtures that many tests share."""

import os
import tempfile
from pathlib import Path

import pytest

from workbench.__main__ import main

pytest.register_assert_rewrite("tests.loading", "tests.pages")

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
os.environ["WORKBENCH_PROFILES"] = str(ROOT / "tests" / "no_own_profiles")  # whoever tests may have profiles
os.environ.setdefault("WORKBENCH_CACHE", tempfile.mkdtemp(prefix="workbench-times-"))  # and times


def pytest_addoption(parser):
    parser.addoption("--run-slow", action="store_true", help="run the slow matrices too")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--run-slow"):
        return
    skip = pytest.mark.skip(reason="slow matrix: run with --run-slow, as .ci/run does")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def run(capsys):
    """Run a command in this process: its exit code, stdout and stderr."""

    def run(*arguments):
        code = main([str(a) for a in arguments])
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return code, said.out, said.err

    return run


@pytest.fixture
def done(run):
    """The stdout of a command that must succeed."""

    def done(*arguments):
        code, out, err = run(*arguments)
        assert code == 0, out + err
        return out

    return done


@pytest.fixture
def refused(run):
    """Run a command that must end with code 2; its sentence."""

    def refused(*arguments):
        code, _, err = run(*arguments)
        assert code == 2
        assert err.startswith("workbench: ") and err.endswith("\n") and err.count("\n") == 1, err
        return err

    return refused


@pytest.fixture
def unverified(run, tmp_path):
    """Optimize a model that can be shown, not run: code 3, the file written, the reason told."""

    def unverified(path, *arguments):
        assert run("inspect", path)[0] == 0
        out = tmp_path / "out.onnx"
        code, said, _ = run("optimize", path, "-o", out, *arguments)
        assert code == 3 and out.exists()
        return next(line for line in said.splitlines() if "It can not be verified" in line)

    return unverified
