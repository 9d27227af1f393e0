"""Every mutant of some files against the tests of their subject.

In forks of a process that has the tests collected: a mutant takes as long as the first test that notices it. What runs
while files are imported needs a fork that imports everything anew.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import coverage
import hypothesis

from tests.mutation.forks import Task, alone, in_forks, limit
from tests.mutation.mutations import Mutant, mutants
from tests.mutation.progress import ENDED, SURVIVED, Progress
from tests.mutation.warm import ROOT, Baseline, Collected, collect, import_mutant

ANEW = "anew"  # in place of the test that fails: the functions in use cannot have the mutant's code
IMPORT_SECONDS = 60
Left = dict[Mutant, list[str]]  # the tests that are to be tried


class TestsFailError(Exception):
    """The tests of a subject do not pass as they are."""


@dataclass(frozen=True)
class Subject:
    """Files, as patterns below the root, and the names of the tests that are to notice what is wrong in them."""

    files: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def tests(self) -> list[str]:
        return [f"tests/test_{name}.py" for name in self.names]

    @property
    def paths(self) -> list[str]:
        found = {path for pattern in self.files for path in ROOT.glob(pattern)}
        return sorted(str(path.relative_to(ROOT)) for path in found)

    @property
    def count(self) -> int:
        return sum(1 for _ in self.mutants())

    def mutants(self) -> Iterator[tuple[Mutant, ast.Module]]:
        for path in self.paths:
            yield from mutants(path, (ROOT / path).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Run:
    """wanted: which mutants are tried."""

    subject: Subject
    wanted: Callable[[Mutant], bool]
    at_once: int

    def run(self, progress: Progress) -> Progress:
        """The progress at the end. Raises TestsFailError."""
        # The examples are the same in each run, so that what survives is too; nobody reads the smallest that fails.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutation", derandomize=True, database=None, phases=phases)
        hypothesis.settings.load_profile("mutation")
        progress, left, baseline, modules = alone(partial(self._warm, progress))
        _import(modules)
        file = self.subject.paths[0]
        unchanged = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        if failed := baseline.failed or alone(partial(_anew, file, unchanged, baseline.one_of_each_file, baseline)):
            raise TestsFailError(f"without a mutant fails {failed}")
        for mutant, failed_test in in_forks(self._anew(left, baseline), self.at_once):
            progress.add(mutant, ENDED if failed_test is None else failed_test)
        return progress

    def _warm(self, progress: Progress) -> tuple[Progress, Left, Baseline, list[str]]:
        """Decides most mutants; the others, with the tests to try, and what to import before these are tried."""
        results = []
        files = [str(ROOT / path) for path in self.subject.paths]
        traced = coverage.Coverage(data_file=None, config_file=False, include=files)
        traced.start()
        collect(self.subject.tests, lambda collected: results.append(self._with_collected(collected, traced, progress)))
        return results[0]

    def _with_collected(
        self, collected: Collected, traced: coverage.Coverage, progress: Progress
    ) -> tuple[Progress, Left, Baseline, list[str]]:
        baseline, modules = alone(lambda: (collected.baseline(self.subject.paths, traced), _modules_of_others()))
        traced.stop()
        _import(modules)
        in_order = baseline.quickest_first(collected.items)
        baseline.failed += filter(None, [alone(lambda: collected.first_failure(in_order, baseline))])
        left: Left = {}
        if baseline.failed:
            return progress, left, baseline, []
        for (mutant, tests), failed_test in in_forks(self._in_use(collected, baseline, left), self.at_once):
            if failed_test == ANEW:
                left[mutant] = tests
            else:
                progress.add(mutant, ENDED if failed_test is None else failed_test)
        return progress, left, baseline, modules

    def _in_use(
        self, collected: Collected, baseline: Baseline, left: Left
    ) -> Iterator[tuple[tuple[Mutant, list[str]], Task]]:
        for mutant, tree in self.subject.mutants():
            if not self.wanted(mutant):
                continue
            if not mutant.function or baseline.runs_at_import(mutant.file, mutant.lines):
                tests = [*baseline.tests_of(mutant.file), *baseline.quickest_first(baseline.seconds)]
                left[mutant] = list(dict.fromkeys(tests))
            else:
                tests = baseline.tests_of(mutant.file, mutant.lines)
                yield (mutant, tests), partial(_in_use, collected, mutant, tree, tests, baseline)

    def _anew(self, left: Left, baseline: Baseline) -> Iterator[tuple[Mutant, Task]]:
        for mutant, tree in self.subject.mutants():
            if mutant in left:
                yield mutant, partial(_anew, mutant.file, tree, left[mutant], baseline)


def _in_use(collected: Collected, mutant: Mutant, tree: ast.Module, tests: list[str], baseline: Baseline) -> str:
    return collected.first_failure(tests, baseline) if collected.put(mutant.file, mutant.function, tree) else ANEW


def _anew(file: str, tree: ast.Module, tests: list[str], baseline: Baseline) -> str:
    limit(IMPORT_SECONDS)
    import_mutant(file, tree)
    failed = [ENDED]
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    if files:
        collect(files, lambda collected: failed.append(collected.first_failure(tests, baseline)))
    return failed[-1] if files else SURVIVED


def _modules_of_others() -> list[str]:
    paths = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    return [name for name, path in paths if path and "site-packages" in path]


def _import(modules: list[str]) -> None:
    for name in modules:
        with suppress(Exception):  # a module of a package that is imported in another way
            importlib.import_module(name)
