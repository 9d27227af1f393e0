"""The kept runs: every measured variant is written to a database, an SQLite file or another by its URL.

There is one table with a row per variant: columns for searching, and the whole record as
JSON. The version of the columns is in the table's name.
"""

from __future__ import annotations

import hashlib
import math
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import UserError, printable, reading
from workbench.io.exporting import to_bytes
from workbench.ir import Graph
from workbench.run.measurement.measured import Measurement, measurement_from_json
from workbench.run.measurement.timing_cache import cache_file
from workbench.run.worker.failures import first_line

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Table

URL_VARIABLE = "WORKBENCH_RUNS_URL"
MOST = 500  # runs that `find_runs` returns
_TABLES = "workbench_runs_v"
_TABLE = f"{_TABLES}1"
_WAITS = {"pysqlite": {"timeout": 30}, "psycopg": {"connect_timeout": 10}}  # seconds, by driver: for a lock, an answer
_EXAMPLES = "sqlite:///runs.sqlite or postgresql://user:password@host/name"


class RecordsError(UserError):
    """Runs cannot be kept or read."""


@dataclass(frozen=True)
class RunOrigin:
    """The origin of a measured variant.

    model_hash: see `model_hash`. model_name: what the user calls the model.
    pipeline: the command that produces the variant from the model, "" for the model itself.
    """

    model_hash: str
    model_name: str
    pipeline: str = ""


@dataclass(frozen=True)
class Run:
    """One measured variant, without its whole record.

    measurement: an id shared by all variants that were measured together, by turns.
    time: when it was kept, UTC. dims: by symbol; versions: by library, and the device's driver.
    """

    id: int
    measurement: str
    time: datetime
    model_hash: str
    model_name: str
    pipeline: str
    label: str
    device: str
    device_name: str
    threads: int
    backend: str
    dtype: str
    dims: Mapping[str, int]
    versions: Mapping[str, str]
    median_ms: float
    peak_bytes: int | None


_KINDS: Mapping[str, Any] = {
    "int": int,
    "int | None": int | None,
    "float": int | float,
    "str": str,
    "datetime": datetime,
    "Mapping[str, int]": Mapping,
    "Mapping[str, str]": Mapping,
}


def model_hash(graph: Graph) -> str:
    """SHA-256 of the file from which the graph was read, or of its export if there is none.

    Weights in separate files are not included. Raises RecordsError if the file cannot be read.
    """
    return hashlib.sha256(to_bytes(graph)).hexdigest() if graph.source is None else file_hash(graph.source)


def file_hash(path: str) -> str:
    """SHA-256 of a file, cached until the file changes. Raises RecordsError."""
    try:
        result = os.stat(path)
        return _digest(path, result.st_mtime_ns, result.st_size)
    except OSError as error:
        raise RecordsError(
            f"the model '{path}' cannot be read ({error.strerror or error}); name one that can"
        ) from None


@lru_cache(maxsize=64)
def _digest(path: str, changed_ns: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- keeping and finding -----------------------------------------------------------------


def keep(
    result: Measurement, origins: Mapping[str, RunOrigin], url: str | None = None, measurement: str | None = None
) -> None:
    """Keep each variant that ran, or none if keeping fails.

    origins: by the variants' labels. url: see `shown_place`. measurement: an id by which `kept_measurements` finds it
    again, in place of whatever has that id; None: a new one. Raises RecordsError.
    """
    now, id_ = datetime.now(UTC).replace(tzinfo=None), measurement or uuid.uuid4().hex
    rows = [{"measurement": id_, "time": now, **_row(result, label, origins[label])} for label in result.ran]
    with _database(url) as database:
        if measurement is not None:
            database.execute(_table().delete().where(_table().c.measurement == measurement))
        if rows:
            database.execute(_table().insert(), rows)


def kept_measurements(ids: Sequence[str], url: str | None = None) -> dict[str, Measurement]:
    """By the ids that `keep` was given, what it kept: all variants that ran. Raises RecordsError."""
    results: dict[str, Measurement] = {}
    with _database(url, reads=True) as database:
        columns = _table().c
        for first in range(0, len(ids), MOST):
            query = _table().select().with_only_columns(columns.measurement, columns.record)
            query = query.where(columns.measurement.in_(ids[first : first + MOST])).order_by(columns.id)
            for id_, record in database.execute(query):
                one = measurement_from_json(record)
                variants = {**results[id_].variants, **one.variants} if id_ in results else one.variants
                results[id_] = replace(one, variants=variants)
    return results


def find_runs(
    *, model_hash: str = "", device: str = "", backend: str = "", limit: int = MOST, url: str | None = None
) -> tuple[Run, ...]:
    """At most `limit` kept runs, the newest measurement first: of one model, device or backend if they are given.

    model_hash: all of it, or its first digits. device: its name, such as "NVIDIA H200". Raises RecordsError.
    A missing file has no runs, and is not created.
    """
    with _database(url, reads=True) as database:
        columns = _table().c
        query = _table().select().with_only_columns(*(columns[field.name] for field in fields(Run)))
        query = query.where(columns.model_hash.startswith(model_hash.lower(), autoescape=True))
        if device:
            query = query.where(columns.device_name == device)
        if backend:
            query = query.where(columns.backend == backend)
        rows = database.execute(query.order_by(columns.time.desc(), columns.id).limit(limit)).mappings()
        return tuple(_run({**row}) for row in rows)


def _run(row: Mapping[str, Any]) -> Run:
    """Raises RecordsError for a column with what is not written here: SQLite keeps values of any type."""
    wrong = next((one.name for one in fields(Run) if not isinstance(row[one.name], _KINDS[str(one.type)])), None)
    if wrong is not None:
        raise RecordsError(f"run {row['id']} of the kept runs has a {wrong} that was not written here; delete that row")
    return Run(**{**row, "time": row["time"].replace(tzinfo=UTC)})


def records_of(runs: Sequence[Run], url: str | None = None) -> dict[int, dict[str, Any]]:
    """By the runs' ids, the whole records: the JSON of a Measurement with one variant. Raises RecordsError."""
    with _database(url, reads=True) as database:
        columns = _table().c
        chosen = columns.id.in_([run.id for run in runs])
        return dict(
            database.execute(_table().select().with_only_columns(columns.id, columns.record).where(chosen)).all()
        )


def forget(ids: Sequence[int], url: str | None = None) -> None:
    """Delete the runs with these ids from the database. Raises RecordsError."""
    with _database(url) as database:
        database.execute(_table().delete().where(_table().c.id.in_(ids)))


def _row(measurement: Measurement, label: str, origin: RunOrigin) -> dict[str, Any]:
    """The columns of one variant. Unprintable characters, which databases refuse, become their codes."""
    machine, variant = measurement.machine, measurement.ran[label]
    return {
        "model_hash": origin.model_hash,
        "model_name": printable(origin.model_name),
        "pipeline": printable(origin.pipeline),
        "label": printable(label),
        "device": machine.device,
        "device_name": printable(machine.device_name),
        "threads": machine.threads,
        "backend": variant.backend,
        "dtype": variant.dtype,
        "dims": dict(measurement.dims),
        "versions": {**machine.versions, **({} if machine.driver is None else {"driver": machine.driver})},
        "median_ms": variant.latency.median_ms,
        "peak_bytes": variant.memory.peak_bytes,
        "record": _finite(replace(measurement, variants={label: variant}).to_json()),
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity, and PostgreSQL refuses it, so such a number is written as its name."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# ---- the database ------------------------------------------------------------------------


def shown_place(url: str | None = None) -> str:
    """Where runs are kept, without a password: at `url`, else at WORKBENCH_RUNS_URL, else in the user's cache folder.

    Raises RecordsError for an invalid URL.
    """
    return _shown(_place(url))


def _place(url: str | None) -> URL:
    """The database's URL. An invalid one is not repeated in the error, since it may contain a password."""
    try:
        from sqlalchemy import URL, make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise RecordsError("SQLAlchemy, which keeps runs, is not installed; `pip install SQLAlchemy` adds it") from None
    wish = url or os.environ.get(URL_VARIABLE)
    if not wish:
        return URL.create("sqlite", database=str(_own_file()))
    try:
        place = make_url(wish)
    except (ArgumentError, ValueError):
        raise RecordsError(f"the URL of the database for runs cannot be read; write one such as {_EXAMPLES}") from None
    if "@" in (place.host or ""):
        raise RecordsError("the URL of the database for runs has two @; in a password write %40 for @")
    if place.get_backend_name() == "sqlite" and place.database in (None, "", ":memory:"):
        raise RecordsError("the URL of the database for runs names no file, so that nothing would stay; name one")
    return place


def is_there(url: str | None = None) -> bool:
    """Whether the database's file exists, if it is a file. Raises RecordsError for an invalid URL."""
    place = _place(url)
    file = place.database or ""
    return place.get_backend_name() != "sqlite" or file.startswith("file:") or os.path.exists(file)


def _to_read(place: URL, url: str | None) -> URL:
    """An empty database in memory in place of a missing file, so that reading does not create it."""
    folder = Path(place.database or "").parent
    can_be_made = folder.is_dir() or place.database == str(_own_file())
    return place.set(database=":memory:") if can_be_made and not is_there(url) else place


def _own_file() -> Path:
    return cache_file().with_name("runs.sqlite")


def _shown(place: URL) -> str:
    """The URL without options, since one may be a password."""
    if place.get_backend_name() == "sqlite":
        return str(place.database)
    return place.set(query={}).render_as_string(hide_password=True)


@contextmanager
def _database(url: str | None, reads: bool = False) -> Iterator[Connection]:
    """A transaction in the database of runs. Raises RecordsError for any failure of the database."""
    place = _place(url)
    engine = _engine(_to_read(place, url) if reads else place)
    advice = f"move it away, or set {URL_VARIABLE} to the URL of another database"
    try:
        with (
            reading(f"the database of runs, {_shown(place)},", RecordsError, advice),
            _transaction(engine, place) as result,
        ):
            yield result
    finally:
        engine.dispose()


@contextmanager
def _transaction(engine: Engine, place: URL) -> Iterator[Connection]:
    """Raises RecordsError for a failure that the database tells."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        _prepare(engine)
        with engine.begin() as connection:
            yield connection
    except (SQLAlchemyError, ValueError) as error:  # ValueError: a column holds what was not written here
        reason = (isinstance(error, DBAPIError) and error.orig) or error
        words = printable(first_line(reason))
        raise RecordsError(
            f"the runs in {_shown(place)} cannot be used ({words}); see to that, or set {URL_VARIABLE} to the URL of "
            "another database"
        ) from None


def _engine(place: URL) -> Engine:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import NoSuchModuleError

    kind = place.drivername
    try:
        return create_engine(place, connect_args=_WAITS.get(place.get_driver_name(), {}))
    except NoSuchModuleError:
        raise RecordsError(f"there is no kind of database '{kind}'; write a URL such as {_EXAMPLES}") from None
    except ValueError:
        raise RecordsError("an option in the URL of the database for runs cannot be read; correct it") from None
    except ImportError as error:
        driver = error.name or kind
        raise RecordsError(
            f"the driver '{driver}' for a database of the kind '{kind}' is not installed; install it, or set "
            f"{URL_VARIABLE} to another database"
        ) from None


def _prepare(engine: Engine) -> None:
    """Create the table, and the folder of the user's file, if they are missing."""
    from sqlalchemy import inspect
    from sqlalchemy.exc import DBAPIError

    place = engine.url
    _make_folder(place)
    tables = inspect(engine).get_table_names()
    if _TABLE in tables:
        return
    other = next((name for name in tables if name.startswith(_TABLES)), None)
    if other is not None:
        raise RecordsError(
            f"the runs in {_shown(place)} were kept by another version of this program (its table is {other}, here it "
            f"is {_TABLE}); use that version, or set {URL_VARIABLE} to another database"
        )
    try:
        _table().metadata.create_all(engine)
    except DBAPIError:
        if not inspect(engine).has_table(_TABLE):  # otherwise another process created it at this moment
            raise


def _make_folder(place: URL) -> None:
    if place.database != str(_own_file()):
        return
    folder = _own_file().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordsError(
            f"the folder {folder} for runs cannot be made ({error.strerror or error}); set WORKBENCH_CACHE to one that "
            "can be written"
        ) from None


@cache
def _table() -> Table:
    from sqlalchemy import JSON, BigInteger, Column, DateTime, Double, Integer, MetaData, Table, Text

    return Table(
        _TABLE,
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("measurement", Text, nullable=False),
        Column("time", DateTime, nullable=False),  # UTC
        Column("model_hash", Text, nullable=False, index=True),
        Column("model_name", Text, nullable=False),
        Column("pipeline", Text, nullable=False),
        Column("label", Text, nullable=False),
        Column("device", Text, nullable=False),
        Column("device_name", Text, nullable=False),
        Column("threads", Integer, nullable=False),
        Column("backend", Text, nullable=False),
        Column("dtype", Text, nullable=False),
        Column("dims", JSON, nullable=False),
        Column("versions", JSON, nullable=False),
        Column("median_ms", Double, nullable=False),
        Column("peak_bytes", BigInteger),
        Column("record", JSON, nullable=False),
    )
