"""The database of kept runs: a row for every measured variant, in an SQLite file or the database of a URL.

The table has columns for searching, and the whole record as JSON. Its name contains the version
of the columns.
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

from workbench.backends.failures import first_line
from workbench.errors import UserError, printable, reading
from workbench.formats.io.exporting import to_bytes
from workbench.ir import Graph
from workbench.run.measurement.measurement_result import Measurement, measurement_from_json
from workbench.run.measurement.timing_cache import cache_file
from workbench.support.extras import adding

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Table

URL_VARIABLE = "WORKBENCH_RUNS_URL"
MAX_RUNS = 500  # runs that `find_runs` returns
_TABLES = "workbench_runs_v"
_TABLE = f"{_TABLES}1"
_TIMEOUTS = {
    "pysqlite": {"timeout": 30},
    "psycopg": {"connect_timeout": 10},
}  # seconds, by driver: to wait for a lock, for an answer
_EXAMPLES = "sqlite:///runs.sqlite or postgresql://user:password@host/name"


class RecordsError(UserError):
    """Runs cannot be kept or read."""


@dataclass(frozen=True)
class RunOrigin:
    """The origin of a measured variant.

    model_hash: see `model_hash`. model_name: the user's name of the model.
    pipeline: the command that produces the variant from the model, "" for the model itself.
    """

    model_hash: str
    model_name: str
    pipeline: str = ""


@dataclass(frozen=True)
class Run:
    """One measured variant, without its whole record.

    measurement: an id shared by all variants that were measured together, interleaved.
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
    """Write each variant that ran to the database, or none if writing fails.

    origins: by the variants' labels. url: see `shown_location`.
    measurement: the id of the measurement, which replaces another of that id; None: a new id. Raises RecordsError.
    """
    now, id_ = datetime.now(UTC).replace(tzinfo=None), measurement or uuid.uuid4().hex
    rows = [{"measurement": id_, "time": now, **_row(result, label, origins[label])} for label in result.ran]
    with _database(url) as database:
        if measurement is not None:
            database.execute(_table().delete().where(_table().c.measurement == measurement))
        if rows:
            database.execute(_table().insert(), rows)


def kept_measurements(ids: Sequence[str], url: str | None = None) -> dict[str, Measurement]:
    """The kept measurements, with all variants that ran, by id. Raises RecordsError."""
    results: dict[str, Measurement] = {}
    with _database(url, reads=True) as database:
        columns = _table().c
        for first in range(0, len(ids), MAX_RUNS):
            query = _table().select().with_only_columns(columns.measurement, columns.record)
            query = query.where(columns.measurement.in_(ids[first : first + MAX_RUNS])).order_by(columns.id)
            for id_, record in database.execute(query):
                single = measurement_from_json(record)
                variants = {**results[id_].variants, **single.variants} if id_ in results else single.variants
                results[id_] = replace(single, variants=variants)
    return results


def find_runs(
    *, model_hash: str = "", device: str = "", backend: str = "", limit: int = MAX_RUNS, url: str | None = None
) -> tuple[Run, ...]:
    """At most `limit` kept runs, the newest measurement first; of one model, device or backend if given.

    model_hash: the whole hash or its first digits. device: its name, such as "NVIDIA H200".
    A missing file has no runs, and is not created. Raises RecordsError.
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
    """The run of a row. Raises RecordsError for a value of another type, since SQLite accepts any type."""
    columns = {field.name: _KINDS[str(field.type)] for field in fields(Run)}
    invalid = next((name for name, kind in columns.items() if not isinstance(row[name], kind)), None)
    if invalid is not None:
        raise RecordsError(f"run {row['id']} of the kept runs has a {invalid} of another type; delete that row")
    return Run(**{**row, "time": row["time"].replace(tzinfo=UTC)})


def records_of(runs: Sequence[Run], url: str | None = None) -> dict[int, dict[str, Any]]:
    """For each run id, the whole records: the JSON of a Measurement with one variant. Raises RecordsError."""
    with _database(url, reads=True) as database:
        columns = _table().c
        chosen = columns.id.in_([run.id for run in runs])
        query = _table().select().with_only_columns(columns.id, columns.record).where(chosen)
        return dict(database.execute(query).all())


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
    """The value with infinities and NaN as strings, since JSON has none and PostgreSQL refuses them."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# ---- the database ------------------------------------------------------------------------


def shown_location(url: str | None = None) -> str:
    """The location of the database without password: `url`, else WORKBENCH_RUNS_URL, else a file in the cache folder.

    Raises RecordsError for an invalid URL.
    """
    return _shown(_location(url))


def _location(url: str | None) -> URL:
    """The URL of the database. Errors do not repeat an invalid URL, since it may contain a password."""
    try:
        from sqlalchemy import URL, make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise RecordsError("SQLAlchemy, which keeps runs, is not installed; `pip install SQLAlchemy` adds it") from None
    requested = url or os.environ.get(URL_VARIABLE)
    if not requested:
        return URL.create("sqlite", database=str(_default_file()))
    try:
        location = make_url(requested)
    except (ArgumentError, ValueError):
        raise RecordsError(f"the URL of the database for runs cannot be read; write one such as {_EXAMPLES}") from None
    if "@" in (location.host or ""):
        raise RecordsError("the URL of the database for runs has two @; in a password write %40 for @")
    if location.get_backend_name() == "sqlite" and location.database in (None, "", ":memory:"):
        raise RecordsError("the URL of the database for runs names no file, so that no run would be kept; name a file")
    return location


def is_there(url: str | None = None) -> bool:
    """Whether the database's file exists, if it is a file. Raises RecordsError for an invalid URL."""
    location = _location(url)
    file = location.database or ""
    return location.get_backend_name() != "sqlite" or file.startswith("file:") or os.path.exists(file)


def _location_to_read(location: URL, url: str | None) -> URL:
    """The location, or an empty database in memory if the file is missing, since reading must not create it."""
    folder = Path(location.database or "").parent
    is_creatable = folder.is_dir() or location.database == str(_default_file())
    return location.set(database=":memory:") if is_creatable and not is_there(url) else location


def _default_file() -> Path:
    return cache_file().with_name("runs.sqlite")


def _shown(location: URL) -> str:
    """The URL without password and options, since an option may be a password."""
    if location.get_backend_name() == "sqlite":
        return str(location.database)
    return location.set(query={}).render_as_string(hide_password=True)


@contextmanager
def _database(url: str | None, reads: bool = False) -> Iterator[Connection]:
    """A transaction in the database of runs. Raises RecordsError for any failure of the database."""
    location = _location(url)
    engine = _engine(_location_to_read(location, url) if reads else location)
    advice = f"move it away, or set {URL_VARIABLE} to the URL of another database"
    try:
        with (
            reading(f"the database of runs, {_shown(location)},", RecordsError, advice),
            _transaction(engine, location) as result,
        ):
            yield result
    finally:
        engine.dispose()


@contextmanager
def _transaction(engine: Engine, location: URL) -> Iterator[Connection]:
    """A transaction. Raises RecordsError for an error of the database."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        _prepare(engine)
        with engine.begin() as connection:
            yield connection
    except (SQLAlchemyError, ValueError) as error:  # ValueError: a column has an invalid value
        reason = (isinstance(error, DBAPIError) and error.orig) or error
        message = printable(first_line(reason))
        raise RecordsError(
            f"the runs in {_shown(location)} cannot be used ({message}); repair it, or set {URL_VARIABLE} to the URL "
            "of another database"
        ) from None


def _engine(location: URL) -> Engine:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import NoSuchModuleError

    drivername = location.drivername
    try:
        return create_engine(location, connect_args=_TIMEOUTS.get(location.get_driver_name(), {}))
    except NoSuchModuleError:
        raise RecordsError(f"there is no kind of database '{drivername}'; write a URL such as {_EXAMPLES}") from None
    except ValueError:
        raise RecordsError("an option in the URL of the database for runs cannot be read; correct it") from None
    except ImportError as error:
        driver = error.name or drivername
        how = f"{adding('postgresql')} adds it" if driver == "psycopg" else "install it"
        raise RecordsError(
            f"the driver '{driver}' for a database of the kind '{drivername}' is not installed; {how}, or set "
            f"{URL_VARIABLE} to another database"
        ) from None


def _prepare(engine: Engine) -> None:
    """Create the table, and the folder of the user's file, if they are missing."""
    from sqlalchemy import inspect
    from sqlalchemy.exc import DBAPIError

    location = engine.url
    _make_folder(location)
    tables = inspect(engine).get_table_names()
    if _TABLE in tables:
        return
    other_table = next((name for name in tables if name.startswith(_TABLES)), None)
    if other_table is not None:
        raise RecordsError(
            f"the runs in {_shown(location)} were kept by another version of this program (its table is "
            f"{other_table}, here it is {_TABLE}); use that version, or set {URL_VARIABLE} to another database"
        )
    try:
        _table().metadata.create_all(engine)
    except DBAPIError:
        if not inspect(engine).has_table(_TABLE):  # another process may have created it at the same time
            raise


def _make_folder(location: URL) -> None:
    if location.database != str(_default_file()):
        return
    folder = _default_file().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordsError(
            f"the folder {folder} for runs cannot be created ({error.strerror or error}); set WORKBENCH_CACHE to a "
            "writable folder"
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
