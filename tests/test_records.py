"""The history of runs: kept and found again, in SQLite and in PostgreSQL, and every way in which that can fail."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import traceback
import warnings
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.making import HOSTILE
from tests.postgres import DEBIAN, PASSWORD, find_binaries, running_postgres
from tests.recording import HASH, OTHER_HASH, VERSIONS, as_read, keep_one, keeping_process, record, use_own_cache
from tests.waiting import LIMIT_S
from workbench.run.measurement.measurement_result import FailedVariant
from workbench.run.records.formats import csv_of, json_of
from workbench.run.records.store import (
    URL_VARIABLE,
    RecordsError,
    RunOrigin,
    find_runs,
    is_there,
    keep,
    records_of,
    shown_location,
)

NAMES = [
    '"; DROP TABLE workbench_runs_v1; --',
    "it's",
    HOSTILE,
    "%s %(x)s :x ?",
    "x" * 10_000,
    "Größe 数",
    "nul\0",
    "\ud800",
]
NOBODY = 65534
_NUMBERS = count()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    return use_own_cache(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def postgres():
    """A running PostgreSQL, the form of its databases' URLs; without its programs the tests are skipped, loudly."""
    binaries = find_binaries()
    if binaries is None:
        reason = f"no PostgreSQL: initdb is neither on the PATH nor under {DEBIAN} (Debian's package: postgresql)"
        warnings.warn(f"THE POSTGRESQL TESTS DID NOT RUN: {reason}", stacklevel=1)
        pytest.skip(reason)
    with running_postgres(binaries) as form:
        yield form


@pytest.fixture
def new_postgres(postgres):
    """The URL of an empty database."""
    import psycopg

    name = f"runs_{next(_NUMBERS)}"
    with psycopg.connect(postgres.format("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.format(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database of each kind."""
    return f"sqlite:///{tmp_path}/own.sqlite" if request.param == "sqlite" else request.getfixturevalue("new_postgres")


# ---- kept and found ----------------------------------------------------------------------


def test_what_is_kept_is_found(url):
    before = datetime.now(UTC)
    found = record({"as loaded": [2.0, 4.0, 3.0], "greedy": [1.0, 1.5, 2.0]}, dims={"N": 1})
    keep(found, {"as loaded": RunOrigin(HASH, "net"), "greedy": RunOrigin(HASH, "net", "optimize x")}, url)
    loaded, greedy = find_runs(url=url)
    assert (loaded.label, greedy.label) == ("as loaded", "greedy")
    assert (loaded.median_ms, greedy.median_ms) == (3.0, 1.5)
    assert (loaded.pipeline, greedy.pipeline) == ("", "optimize x")
    assert loaded.measurement == greedy.measurement and loaded.id != greedy.id
    assert before <= loaded.time <= datetime.now(UTC)
    assert (loaded.model_hash, loaded.model_name) == (HASH, "net")
    assert (loaded.device, loaded.device_name, loaded.threads) == ("cpu", "Xeon", 2)
    assert (loaded.backend, loaded.dtype, loaded.dims, loaded.versions) == ("torch", "float32", {"N": 1}, VERSIONS)
    assert loaded.peak_bytes == 3 * 2**30
    records = records_of([greedy], url)
    assert records == {greedy.id: as_read(replace(found, variants={"greedy": found.variants["greedy"]}))}


def test_find_takes_the_newest_of_a_model_a_device_a_backend(url):
    keep_one(url, "first")
    keep_one(url, "gpu", device_name="NVIDIA H200")
    keep_one(url, "other backend", backend="onnxruntime")
    keep_one(url, "other model", origin=RunOrigin(OTHER_HASH, "model"))

    def labels(**filters):
        return [run.label for run in find_runs(url=url, **filters)]

    assert labels() == ["other model", "other backend", "gpu", "first"]
    assert labels(limit=2) == ["other model", "other backend"]
    assert labels(model_hash=HASH) == labels(model_hash=HASH[:6].upper()) == ["other backend", "gpu", "first"]
    assert labels(device="NVIDIA H200") == ["gpu"]
    assert labels(backend="onnxruntime") == ["other backend"]
    assert labels(model_hash="%") == labels(model_hash="a_") == []  # no patterns


def test_a_new_database_is_empty(url):
    assert find_runs(url=url) == ()


def test_reading_makes_no_file(own_cache, tmp_path):
    assert find_runs() == find_runs(url=f"sqlite:///{tmp_path}/own.sqlite") == ()
    assert not own_cache.exists() and not (tmp_path / "own.sqlite").exists()
    assert not is_there()
    keep_one()
    assert is_there() and len(find_runs()) == 1


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:12]))
def test_hostile_names_are_text(url, name):
    found = keep_one(url, name, origin=RunOrigin(HASH, name, name))
    (run,) = find_runs(url=url)
    shown = name.replace("\0", "\\x00").replace("\ud800", "\\ud800")  # no database takes these two
    assert run.label == run.model_name == run.pipeline == shown
    assert records_of([run], url)[run.id] == as_read(found)
    (row,) = csv.DictReader(io.StringIO(csv_of([run])))
    assert row["label"] == shown
    assert json.loads(json_of([run], url))["runs"][0]["label"] == shown


def test_infinity_and_nan_become_names_which_json_can_hold(url):
    found = record({"a": [1.0, 2.0]})
    error = replace(found.ran["a"].error, max_rel_error=math.inf, max_abs_error=math.nan)
    found = replace(found, variants={"a": replace(found.ran["a"], error=error)})
    keep(found, {"a": RunOrigin(HASH, "model")}, url)
    (run,) = find_runs(url=url)
    error = records_of([run], url)[run.id]["variants"]["a"]["error"]
    assert (error["max_rel_error"], error["max_abs_error"]) == ("inf", "nan")


def test_a_variant_that_failed_is_not_kept(url):
    found = record({"a": [1.0, 2.0]})
    failed = FailedVariant("b", "torch", "float16", "It has no such kernel.")
    found = replace(found, variants={**found.variants, "b": failed})
    keep(found, {label: RunOrigin(HASH, "model") for label in "ab"}, url)
    assert [run.label for run in find_runs(url=url)] == ["a"]


def test_all_variants_of_a_measurement_are_kept_or_none(url):
    found = record({"a": [1.0], "b": [1.0]})
    wrong = replace(found.ran["b"], latency=replace(found.ran["b"].latency, median_ms=None))
    found = replace(found, variants={**found.variants, "b": wrong})
    with pytest.raises(RecordsError, match="cannot be used"):
        keep(found, {label: RunOrigin(HASH, "model") for label in "ab"}, url)
    assert find_runs(url=url) == ()


@pytest.mark.slow
def test_two_processes_that_write_at_once_are_both_kept(url):
    """The first of them makes the table, while the other would make it too."""
    processes = [keeping_process(url, 25, label) for label in ("one", "two")]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0
    labels = [run.label for run in find_runs(url=url)]
    assert sorted(labels) == sorted(f"{label} {index}" for label in ("one", "two") for index in range(25))


@pytest.mark.slow
def test_a_writer_waits_for_a_lock(tmp_path):
    url = f"sqlite:///{tmp_path}/own.sqlite"
    keep_one(url, "before")
    with closing(sqlite3.connect(tmp_path / "own.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        process = keeping_process(url, 1, "waits")
        process.stdin.write("go\n")
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        other.execute("COMMIT")
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert [run.label for run in find_runs(url=url)] == ["waits 0", "before"]


# ---- where ---------------------------------------------------------------------------------


def test_without_a_url_runs_are_in_a_file_beside_the_operators_times(own_cache):
    keep_one()
    assert (own_cache / "runs.sqlite").is_file()
    assert shown_location() == str(own_cache / "runs.sqlite")
    assert len(find_runs()) == 1


def test_the_environment_names_another_database(tmp_path, monkeypatch, own_cache):
    monkeypatch.setenv(URL_VARIABLE, f"sqlite:///{tmp_path}/other.sqlite")
    keep_one()
    assert (tmp_path / "other.sqlite").is_file() and not own_cache.exists()
    assert len(find_runs(url=f"sqlite:///{tmp_path}/other.sqlite")) == 1


def test_a_password_is_never_shown(postgres):
    place = shown_location(postgres.format("postgres"))
    assert place == "postgresql://tester:***@/postgres"
    assert shown_location("postgresql://u@h/d?password=geheim") == "postgresql://u@h/d"
    wrong = postgres.format("postgres").replace(":p", ":geheim")
    with pytest.raises(RecordsError, match="password authentication failed") as error:
        find_runs(url=wrong)
    told = "".join(traceback.format_exception(error.value))
    assert "geheim" not in told and PASSWORD not in told


# ---- what goes wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense secret", "the URL of the database for runs cannot be read; write one such as"),
        ("postgresql://user@host:secret", "cannot be read"),
        ("postgresql://user:top@secret@host/d", "has two @; in a password write %40"),
        ("nosuchdb://user:secret@host/d", "there is no kind of database 'nosuchdb'"),
        ("mysql://user:secret@host/d", "the driver 'MySQLdb' for a database of the kind 'mysql' is not installed"),
        ("postgresql://user:secret@127.0.0.1:1/d", "Connection refused"),
        ("postgresql://user@127.0.0.1:1/d?password=secret", "Connection refused"),
        ("postgresql://user:secret@127.0.0.1:1/d?nosuch=1", 'invalid connection option "nosuch"'),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////nonexistent/runs.sqlite", r"/nonexistent/runs.sqlite cannot be used \(unable to open database"),
        ("sqlite:////tmp/x.sqlite?timeout=secret", "an option in the URL"),
    ],
)
def test_a_database_that_cannot_be_opened_is_a_sentence(url, words):
    for action in (lambda: find_runs(url=url), lambda: keep_one(url)):
        with pytest.raises(RecordsError, match=words) as error:
            action()
        assert "\n" not in str(error.value)
        assert "secret" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize(
    "content", [b"this is no database, whatever its name says" * 40, b"SQLite format 3\0" + bytes(200)]
)
def test_a_corrupt_file_is_a_sentence_and_stays(own_cache, content):
    own_cache.mkdir()
    file = own_cache / "runs.sqlite"
    file.write_bytes(content)
    for action in (find_runs, keep_one):
        with pytest.raises(RecordsError, match=r"runs\.sqlite cannot be used \(.+\); repair it"):
            action()
    assert file.read_bytes() == content


def test_a_row_that_was_not_written_here_is_a_sentence(own_cache):
    keep_one()
    with closing(sqlite3.connect(own_cache / "runs.sqlite")) as database, database:
        database.execute("UPDATE workbench_runs_v1 SET versions = 'no JSON'")
    with pytest.raises(RecordsError, match="cannot be used"):
        find_runs()


def test_a_file_cut_in_half_is_a_sentence(own_cache):
    for index in range(20):
        keep_one(label=f"{index} {'x' * 1000}")
    file = own_cache / "runs.sqlite"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(RecordsError, match="malformed"):
        find_runs()


def test_a_database_that_is_read_only_can_be_read(tmp_path):
    file = tmp_path / "own.sqlite"
    keep_one(f"sqlite:///{file}")
    url = f"sqlite:///file:{file}?mode=ro&uri=true"
    assert len(find_runs(url=url)) == 1
    with pytest.raises(RecordsError, match="attempt to write a readonly database"):
        keep_one(url)


def test_a_folder_that_cannot_be_written_is_a_sentence(monkeypatch):
    keep_one()  # what is imported late must be there before the rights go
    folder = Path(tempfile.mkdtemp(prefix="workbench-read-only-"))
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
    root = os.geteuid() == 0
    try:
        if root:  # whom no rights hold
            os.seteuid(NOBODY)
        for cache, words in ((folder, "unable to open database file"), (folder / "new", "Permission denied")):
            monkeypatch.setenv("WORKBENCH_CACHE", str(cache))
            with pytest.raises(RecordsError, match=words):
                keep_one()
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(folder)


def test_a_file_where_the_folder_should_be_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(RecordsError, match=r"for runs cannot be created \(Not a directory\); set WORKBENCH_CACHE"):
        keep_one()


def test_tables_of_another_version_are_a_sentence(url):
    import sqlalchemy

    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE workbench_runs_v2 (id INTEGER)")
    engine.dispose()
    for action in (lambda: find_runs(url=url), lambda: keep_one(url)):
        with pytest.raises(
            RecordsError, match=r"kept by another version of this program .*workbench_runs_v2.*use that"
        ):
            action()


def test_without_sqlalchemy_everything_but_keeping_works():
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from tests.recording import record\n"
        "import workbench.run.measurement.measure\n"
        "from workbench.run.records.store import RunOrigin, RecordsError, keep\n"
        "try: keep(record({'a': [1.0]}), {'a': RunOrigin('00', 'm')})\n"
        "except RecordsError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "SQLAlchemy, which keeps runs, is not installed; `pip install SQLAlchemy` adds it\n"


@pytest.mark.slow
def test_sqlalchemy_is_imported_only_where_runs_are_kept():
    code = "import sys, workbench.run.records.store, workbench.__main__ as m; m.main(['passes']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "sqlalchemy" not in done.stdout.split()
