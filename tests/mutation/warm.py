"""Tests that are collected once: what each of them runs, and forks that run them with a mutant."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType

import coverage
import pytest

from tests.mutation.forks import limit

ROOT = Path(__file__).resolve().parents[2]
OURS = ("workbench", "passes")
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:rerunfailures", "--rootdir", str(ROOT))


@dataclass
class Baseline:
    """The tests without a mutant: seconds of each, which of them run each line of a file, and which fail.

    A line that runs while files are imported has the test "" too.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]
    failed: list[str]

    def runs_at_import(self, file: str, lines: Iterable[int]) -> bool:
        return any("" in self.lines[file].get(line, ()) for line in lines)

    def tests_of(self, file: str, lines: Iterable[int] | None = None) -> list[str]:
        """The tests that run one of the lines, of any if none are given; the quickest first."""
        of_file = self.lines[file]
        tests = {test for line in (of_file if lines is None else lines) for test in of_file.get(line, ()) if test}
        return self.quickest_first(tests)

    def quickest_first(self, tests: Iterable[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds[test], test))

    @property
    def one_of_each_file(self) -> list[str]:
        return list({_file(test): test for test in reversed(self.quickest_first(self.seconds))}.values())

    def limit(self, test: str) -> float:
        """The CPU seconds after which the test will not end."""
        return 5 + 5 * self.seconds[test]


class Collected:
    """A plugin of pytest: once the tests are collected, `then` is called with it, in place of running them."""

    def __init__(self, then: Callable[[Collected], None]) -> None:
        self.then = then
        self.items: dict[str, pytest.Item] = {}
        self.failed: list[str] = []
        self.seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:  # before the objects are frozen
        self.functions: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        self.caches = []
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                self.functions[_key(found.__code__)].append(found)
            elif isinstance(found, _lru_cache_wrapper) and found.__module__.startswith(OURS):
                self.caches.append(found)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        self.then(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def first_failure(self, tests: Sequence[str], baseline: Baseline) -> str:
        """The first of the tests that fails; "" if none does. This process ends with a test that takes too long."""
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            limit(baseline.limit(test))
            self._run(test, following)
            if self.failed:
                return self.failed[0]
        return ""

    def baseline(self, files: Sequence[str], traced: coverage.Coverage) -> Baseline:
        """Every test, run in this process and traced, as the imports were."""
        tests = list(self.items)
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            traced.switch_context(test)
            self._clear_caches()  # what the test before has computed, this one would not run
            self._run(test, following)
        traced.stop()
        lines = {file: traced.get_data().contexts_by_lineno(str(ROOT / file)) for file in files}
        return Baseline(dict(self.seconds), lines, self.failed)

    def _run(self, test: str, following: str | None) -> None:
        item, next_item = self.items[test], None if following is None else self.items[following]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)

    def put(self, file: str, function: str, tree: ast.Module) -> bool:
        """Give the functions that are in use the code of the tree. False: they cannot have it, a fresh start can."""
        codes = {_key(code): code for code in _codes(compile(tree, str(ROOT / file), "exec"))}
        of_function = [key for key in codes if key[1] == function]
        nested = [
            key for key in self.functions if key[0] == str(ROOT / file) and key[1].startswith(f"{function}.<locals>")
        ]
        in_use = [(found, codes[key]) for key in of_function for found in self.functions.get(key, ())]
        if nested or not in_use or any(len(a.__code__.co_freevars) != len(b.co_freevars) for a, b in in_use):
            return False
        for found, code in in_use:
            found.__code__ = code
        self._clear_caches()
        return True

    def _clear_caches(self) -> None:
        for cache in self.caches:
            cache.cache_clear()


def collect(files: Collection[str], then: Callable[[Collected], None]) -> None:
    """Collect the tests of these files, and call `then` with them."""
    pytest.main([*OPTIONS, *files], plugins=[Collected(then)])


def import_mutant(file: str, tree: ast.Module) -> None:
    """From now on, in this process, the file is imported as the tree says."""
    path, as_before = str(ROOT / file), SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        return compile(tree, path, "exec") if loader.path == path else as_before(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _file(test: str) -> str:
    return test.partition("::")[0]
