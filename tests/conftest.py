"""Paths and fixtures that many tests share."""

import atexit
import gc
import os
import shutil
import subprocess
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest

from workbench.__main__ import main

pytest.register_assert_rewrite("tests.loading", "tests.pages")

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
# Two processes of tests share two cores, where OpenMP's threads spin while they wait for one that has none: one test
# of a network, measured beside another, took 115 s, and takes 13 s with a thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["WORKBENCH_PROFILES"] = str(ROOT / "tests" / "no_own_profiles")  # whoever tests may have profiles
os.environ["WORKBENCH_OPERATORS"] = str(ROOT / "tests" / "no_own_operators")
os.environ["WORKBENCH_TOOLS"] = str(ROOT / "tests" / "no_own_tools")
os.environ["WORKBENCH_PASSES"] = str(ROOT / "tests" / "no_own_passes")
os.environ["WORKBENCH_MEASURE"] = "asked"  # pages measure what a test asks for
os.environ.pop("WORKBENCH_RUNS_URL", None)  # and a database of runs


FIRST_CASES = 4


def _own_folder() -> str:
    """Gone when this process ends."""
    folder = tempfile.mkdtemp(prefix="workbench-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


os.environ["WORKBENCH_QUEUE"] = _own_folder()  # nobody else's runs are waited for
if "WORKBENCH_CACHE" not in os.environ:  # set by the first process for all of this run
    os.environ["WORKBENCH_CACHE"] = _own_folder()


def pytest_addoption(parser):
    parser.addoption("--run-slow", action="store_true", help="run the slow tests too")
    less = "of the cases of a test after its first four one in N, others for each commit: 6 in make test"
    parser.addoption("--cases-one-in", type=int, default=1, metavar="N", help=less)
    less = "of the slow tests one in N, others for each commit: 8 in .ci/run"
    parser.addoption("--slow-one-in", type=int, default=1, metavar="N", help=less)
    thorough = "and one in N of the thorough ones: 10 in .ci/run, 1 in make test-all"
    parser.addoption("--run-thorough", type=int, default=0, metavar="N", help=thorough)


def _commit() -> str:
    """The commit that is tested; "" without git."""
    if shutil.which("git") is None:
        return ""
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return told.stdout.strip()


def _mark_later_cases(items):
    """Of each test the cases after the first four are later ones.

    Where it has the mark slow_after(n), those after the first n that are not slow by themselves are slow.
    """
    cases, quick = Counter(), Counter()
    for item in items:
        test = item.path, item.originalname
        cases[test] += 1
        if cases[test] > FIRST_CASES:
            item.add_marker("later_case")
        mark = item.get_closest_marker("slow_after")
        if mark is None or {"slow", "thorough"} & set(item.keywords):
            continue
        quick[test] += 1
        if quick[test] > mark.args[0]:
            item.add_marker("slow")


def pytest_collection_modifyitems(config, items):
    _mark_later_cases(items)
    slow = config.getoption("--slow-one-in") if config.getoption("--run-slow") else 0
    cases = config.getoption("--cases-one-in")
    one_in = {"thorough": config.getoption("--run-thorough"), "slow": slow, "later_case": cases}
    commit = _commit() if max(one_in.values()) > 1 else ""

    def is_excluded(item):
        numbers = [number for mark, number in one_in.items() if mark in item.keywords]
        return any(not number or crc32(f"{commit} {item.nodeid}".encode()) % number for number in numbers)

    config.hook.pytest_deselected(items=[item for item in items if is_excluded(item)])
    items[:] = [item for item in items if not is_excluded(item)]
    if not slow:
        return
    first = {item.path for item in items if {"slow", "thorough"} & set(item.keywords)}
    items.sort(key=lambda item: item.path not in first)  # so that no process is left with one of them alone
    for item in items:
        if "browser" in item.keywords:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish(session):
    """What is there before the first test stays to the end; not to look through it again takes a tenth less CPU."""
    gc.collect()
    gc.freeze()


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
        return next(line for line in said.splitlines() if "It cannot be verified" in line)

    return unverified


@pytest.fixture(scope="session")
def shared_worker():
    """A worker for all tests that ask one for something, and leave it able to answer."""
    from tests.commands import KeptWorker

    kept = KeptWorker()
    yield kept
    kept.end()


@pytest.fixture(scope="module", autouse=True)
def kept_worker(request):
    """The shared worker, which commands and verifiers of a module's tests ask too, but for those marked own_worker."""
    from tests.commands import commands_share

    if request.node.get_closest_marker("own_worker") is not None:
        yield None
        return
    shared = request.getfixturevalue("shared_worker")
    with commands_share(shared):
        yield shared


@pytest.fixture(scope="session")
def browser():
    """A Chromium; without one the tests are skipped, and say so loudly."""
    from tests.browser import FOUND_ON_PATH, chromium

    with chromium() as found:
        if found is None:
            reason = (
                f"no browser: Playwright has no Chromium (`playwright install chromium`), PATH none of {FOUND_ON_PATH}"
            )
            warnings.warn(f"THE BROWSER TESTS DID NOT RUN: {reason}", stacklevel=1)
            pytest.skip(reason)
        yield found


@pytest.fixture(scope="session")
def profiles_of_app(tmp_path_factory):
    """The folder where the app keeps the user's profiles."""
    return tmp_path_factory.mktemp("profiles")


@pytest.fixture(scope="session")
def app(profiles_of_app):
    """The app as a process: its address, and its process id."""
    from tests.browser import running_app

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_PROFILES", str(profiles_of_app))
        with running_app() as (address, pid):
            yield address, pid


@pytest.fixture(scope="session")
def visits(browser):
    """The context of the pages that one test after another opens."""
    from tests.browser import watched_context

    with watched_context(browser) as context:
        yield context


@pytest.fixture
def tab(visits, app):
    """A session of its own, for tests that open an address themselves."""
    from tests.browser import guard, new_visitor

    with new_visitor(visits, app[0]) as opened, guard(opened, app[0]):
        yield opened


@pytest.fixture
def page(tab, app):
    """A session of its own, at the app's first page."""
    from tests.browser import settle

    tab.goto(app[0])
    settle(tab)
    return tab


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What the page said, if a test in a browser failed: a busy machine may not fail it again."""
    report = yield
    page = getattr(item, "funcargs", {}).get("tab")  # of the fixture `page` too; an argument of that name may be a file
    if report.failed and call.when == "call" and page is not None:
        report.sections.append(("the page", page.locator("body").inner_text()[:8000]))
    return report
