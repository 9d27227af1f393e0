"""Mutation testing itself: which mutants a file has, forks that end, and reasons for mutants that still exist."""

import time

import pytest

from tests.conftest import ROOT
from tests.mutation.forks import alone, in_forks, limit
from tests.mutation.mutations import mutants
from tests.mutation.subjects import SUBJECTS
from tests.mutation.survivors import explained

TEXT = '''
"""What it is for."""

LIMIT: int = 3


class Place:
    def inside(self, x: int, names: list[str]) -> bool:
        """Whether x is inside."""
        if x is None or x < LIMIT:
            return not names
        for name in names:
            self.last = sorted(name[1:], key=len)
        return all(x == 4 for _ in names)
'''


def test_the_mutants_of_a_file_change_its_logic_and_no_words_or_types():
    found = [mutant.words for mutant, _ in mutants("place.py", TEXT)]
    assert found == [
        "module: `3` -> `4`",
        "Place.inside: `x is None or x < LIMIT` -> `True`",
        "Place.inside: `x is None or x < LIMIT` -> `x < LIMIT`",
        "Place.inside: `x is None or x < LIMIT` -> `x is None`",
        "Place.inside: `x is None` -> `x is not None`",
        "Place.inside: `x < LIMIT` -> `x <= LIMIT`",
        "Place.inside: `not names` -> `names`",
        "Place.inside: without `names`",
        "Place.inside: without `self.last = sorted(name[1:], key=len)`",
        "Place.inside: `sorted(name[1:], key=len)` -> `list(name[1:])`",
        "Place.inside: without `key=len`",
        "Place.inside: without `1`",
        "Place.inside: `1` -> `2`",
        "Place.inside: `all` -> `any`",
        "Place.inside: `x == 4` -> `x != 4`",
        "Place.inside: `4` -> `5`",
    ]


def test_each_mutant_is_one_change_and_the_tree_is_restored():
    import ast

    once = [ast.unparse(tree) for _, tree in mutants("place.py", TEXT)]
    assert len({*once}) == len(once) and ast.unparse(ast.parse(TEXT)) not in once


@pytest.mark.slow
def test_forks_give_their_results_and_none_where_they_did_not_end_well():
    def too_long():
        limit(0)
        while True:
            time.process_time()

    tasks = {"ends": lambda: [1, "a"], "raises": lambda: {}["nothing"], "too long": too_long, "empty": lambda: ""}
    assert dict(in_forks(iter(tasks.items()), 2)) == {"ends": [1, "a"], "raises": None, "too long": None, "empty": ""}
    assert alone(lambda: 7) == 7


def test_every_mutant_that_may_survive_exists_and_has_a_reason():
    files = {file for file, _ in explained()}
    known = {mutant.key for file in files for mutant, _ in mutants(file, (ROOT / file).read_text(encoding="utf-8"))}
    assert explained().keys() <= known and all(reason.endswith(".") for reason in explained().values())


def test_every_package_has_files_and_tests():
    for name, subject in SUBJECTS.items():
        assert subject.paths and all((ROOT / test).exists() for test in subject.tests), name
