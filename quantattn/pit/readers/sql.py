"""Events out of a SQL database: whatever ADBC or SQLAlchemy reads through polars.

Columns and times are those of the query, named as in :meth:`EventLog.from_frame`. How ``available_at`` is
derived is therefore up to the query: give the column that says when a row was published or loaded, not only
when its event happened, and a latency.

Traps: most databases hand out naive timestamps (``TIMESTAMP``, ``DATETIME``), whose zone ``time_zone=``
must declare; a ``TIMESTAMP WITH TIME ZONE`` keeps its own. SQLite knows no times and gives text as it was
written. A table that was *updated in place* holds only the latest revision of each row, which no query can
turn back into what was known: select from the history table, with its ``revision`` and load time.

A connection is an object (ADBC, SQLAlchemy engine or connection, any DBAPI 2 connection) or a URI. A URI is
opened by ADBC if its driver is installed, else by SQLAlchemy; ``sqlite:///relative.db``,
``sqlite:////absolute.db`` and ``duckdb:///file.duckdb`` are opened read-only. Drivers are
optional: ``pip install "quantattn[sql]"`` (from a clone ``pip install ".[sql]"``) brings those of SQLite,
DuckDB and SQLAlchemy. ``env:NAME`` takes the URI out of an environment variable, so that passwords stay
out of command lines; no message repeats them.

Source: https://docs.pola.rs/user-guide/io/database/ and https://arrow.apache.org/adbc/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import polars as pl

from quantattn.errors import DataError, EventDataError, UsageError
from quantattn.pit.events.log import EventLog

_URI: Final = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9]*)(?P<driver>\+\w+)?:(?P<rest>.*)$", re.DOTALL)
_SECRETS: Final = re.compile(
    r"://(?P<user>[^:@/?#]*)(?::(?P<word>[^@]*))?@|(?:password|passwd|pwd|token|secret|key)=(?P<given>[^&;\s]+)",
    re.IGNORECASE,
)
_ENVIRONMENT: Final = "env:"
_ALIASES: Final = {"postgres": "postgresql"}
# The bytes that begin a database file, and where.
_MARKS: Final = {"duckdb": (8, b"DUCK"), "sqlite": (0, b"SQLite format 3\0")}
_EXTRA: Final = 'pip install "quantattn[sql]" (from a clone: pip install ".[sql]")'
_FILE_DRIVERS: Final = {"sqlite": "adbc_driver_sqlite.dbapi", "duckdb": "duckdb"}
# What to install where a driver is missing.
_PACKAGES: Final = {
    "sqlite": "adbc-driver-sqlite",
    "duckdb": "duckdb",
    "postgresql": "adbc-driver-postgresql",
    "snowflake": "adbc-driver-snowflake",
    "flightsql": "adbc-driver-flightsql",
    "bigquery": "adbc-driver-bigquery",
    "mysql": "sqlalchemy pymysql",
    "mssql": "sqlalchemy pyodbc",
    "oracle": "sqlalchemy oracledb",
}


def read_sql(query: str, connection: object, **arguments: Any) -> EventLog:
    """Read the rows of a query as events.

    Parameters
    ----------
    query : str
        One query that gives a row for each event version.
    connection : str or object
        A URI, ``env:NAME`` for the environment variable that holds it, or an open connection, which stays
        open.
    **arguments
        Those of :meth:`EventLog.from_frame`: ``event_time=`` and the other columns, ``time_zone=``,
        ``latency=`` and so on.

    Returns
    -------
    EventLog
        Rejects are numbered by the rows of the result.

    Raises
    ------
    UsageError
        If the URI is none, its file does not exist or its driver is not installed.
    EventDataError
        If the database refuses the query, or gives no rows; and as :meth:`EventLog.from_frame`.
    TimestampError, CalendarError
        As :meth:`EventLog.from_frame`.

    Examples
    --------
    >>> log = read_sql(
    ...     "SELECT loaded_at, ticker, headline FROM news",
    ...     "sqlite:///news.db",
    ...     event_time="loaded_at",
    ...     entity="ticker",
    ...     text="headline",
    ...     time_zone="UTC",
    ... )  # doctest: +SKIP
    """
    table = query_table(query, connection)
    if table.is_empty():
        raise EventDataError("the query gives no rows; check its conditions")
    try:
        return EventLog.from_frame(table, **arguments)
    except DataError as failure:
        raise type(failure)(f"query: {failure}") from failure


def query_table(query: str, connection: object) -> pl.DataFrame:
    """Read the result of a query as a frame.

    Parameters
    ----------
    query, connection
        As in :func:`read_sql`.

    Returns
    -------
    polars.DataFrame

    Raises
    ------
    UsageError, EventDataError
        As :func:`read_sql`.
    """
    if not isinstance(query, str) or not query.strip():
        raise UsageError("query is empty; write one SELECT")
    uri = _resolve(connection) if isinstance(connection, str) else None
    secrets = _secrets(uri if uri is not None else _shown(connection))
    try:
        if uri is None:
            return _read(query, connection)
        with _open(uri) as opened:
            return _read(query, opened)
    except UsageError:
        raise
    # The errors of database drivers have no ancestor in common; chained, they would show what they quote.
    except Exception as failure:
        text = " ".join(_scrub(str(failure), secrets).split())[:400]
        raise EventDataError(
            f"the database refuses the query ({type(failure).__name__}: {text}); try it in its own client"
        ) from None


def _read(query: str, connection: Any) -> pl.DataFrame:
    read = pl.read_database(query, connection, infer_schema_length=None)
    assert isinstance(read, pl.DataFrame)  # an iterator only with iter_batches
    return read


def _resolve(connection: str) -> str:
    if not connection.startswith(_ENVIRONMENT):
        return connection
    name = connection.removeprefix(_ENVIRONMENT)
    if name not in os.environ:
        raise UsageError(
            f"connection={connection!r}: there is no environment variable {name!r}; set it to a URI"
        )
    return os.environ[name]


@contextmanager
def _open(uri: str) -> Iterator[Any]:
    """Open a connection to a URI, and close it at the end."""
    match = _URI.match(uri)
    if match is None:
        raise UsageError(
            "connection= is no URI; write for example 'sqlite:///news.db', "
            "'postgresql://user:password@host/database', or 'env:NAME' for a variable that holds it"
        )
    scheme = _ALIASES.get(match["scheme"].lower(), match["scheme"].lower())
    if scheme in _FILE_DRIVERS and match["driver"] is None:
        driver = _import(_FILE_DRIVERS[scheme], scheme)
        file = _database_file(match["rest"], scheme)
        with closing(_open_file(driver, file, scheme)) as connection:
            yield connection
    elif match["driver"] is None and find_spec(f"adbc_driver_{scheme}") is not None:
        with closing(import_module(f"adbc_driver_{scheme}.dbapi").connect(uri)) as connection:
            yield connection
    else:
        engine = _engine(uri, scheme)
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()


def _database_file(rest: str, scheme: str) -> Path:
    # Three slashes begin a relative path, four an absolute one.
    path = Path(unquote(re.sub(r"^/{0,3}", "", rest, count=1).partition("?")[0]))
    if not path.is_file():
        raise UsageError(
            f"there is no {scheme} file {str(path)!r}; three slashes begin a relative path, four an absolute"
        )
    return path


def _open_file(driver: Any, file: Path, scheme: str) -> Any:
    """Open a database file read-only: a reader creates and locks nothing."""
    # DuckDB takes other files for databases of other programs, and fetches extensions for them.
    start, mark = _MARKS[scheme]
    with file.open("rb") as stream:
        head = stream.read(start + len(mark))
    if head and head[start:] != mark:
        raise UsageError(f"{file} is no {scheme} database; check the path, and the scheme before the colon")
    if scheme == "duckdb":
        return driver.connect(str(file), read_only=True)
    return driver.connect(f"{file.resolve().as_uri()}?mode=ro")


def _engine(uri: str, scheme: str) -> Any:
    sqlalchemy = _import("sqlalchemy", scheme)
    try:
        return sqlalchemy.create_engine(uri)
    except ImportError as failure:
        name = failure.name or "its driver"
        raise UsageError(f"{scheme} needs the driver {name!r}; {_remedy(scheme, name)}") from None
    except sqlalchemy.exc.NoSuchModuleError:
        raise UsageError(
            f"{scheme!r} is no database that SQLAlchemy or an installed ADBC driver knows; "
            f"{_remedy(scheme, f'adbc-driver-{scheme}')}, or pass an open connection"
        ) from None
    except sqlalchemy.exc.ArgumentError:
        raise UsageError(
            f"connection= is no URI that SQLAlchemy can read; write {scheme}://user:password@host/database"
        ) from None


def _import(module: str, scheme: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(
            f"reading {scheme} needs a driver; {_remedy(scheme, f'adbc-driver-{scheme}')}"
        ) from None


def _remedy(scheme: str, package: str) -> str:
    """Say what to install."""
    return _EXTRA if scheme in _FILE_DRIVERS else f"pip install {_PACKAGES.get(scheme, package)}"


def _shown(connection: object) -> str:
    """Give what is known of an open connection's URI, for the sake of hiding it."""
    url = getattr(getattr(connection, "engine", connection), "url", None)
    render = getattr(url, "render_as_string", None)
    return render(hide_password=False) if callable(render) else ""


def _secrets(uri: str) -> set[str]:
    words = [match["word"] or match["given"] for match in _SECRETS.finditer(uri)]
    found = {form for word in words if word for form in (word, unquote(word))}
    return found | ({uri} if found else set())


def _scrub(text: str, secrets: set[str]) -> str:
    for word in sorted(secrets, key=len, reverse=True):
        text = text.replace(word, "***")
    return _SECRETS.sub("://***@", text)
