"""Events out of real SQLite and DuckDB files, by ADBC, SQLAlchemy and plain DBAPI connections."""

import sqlite3
from contextlib import closing

import adbc_driver_sqlite.dbapi as adbc
import duckdb
import polars as pl
import pytest
import sqlalchemy

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers.sql import query_table, read_sql
from quantattn.pit.readers.sql_files import read_sql_files

QUERY = "SELECT happened, loaded, ticker, id, version, headline, score FROM news ORDER BY id, version"
COLUMNS = {
    "event_time": "happened",
    "available_at": "loaded",
    "entity": "ticker",
    "event_id": "id",
    "revision": "version",
    "text": "headline",
    "features": ["score"],
}
ROWS = [
    ("2024-11-29 09:00:00.123456", "2024-11-29 09:01:00", "A", 7, 0, "first", 1.5),
    ("2024-11-29 09:00:00.123456", "2024-11-29 10:01:00", "A", 7, 1, "corrected", None),
    ("2024-11-28", "2024-11-28", "*", 8, 0, None, -2.0),
    (None, "2024-11-29 09:01:00", "A", 9, 0, "undated", 0.0),
]
EXPECTED = [
    ("7", 0, "A", "2024-11-29T14:00:00.123456", "2024-11-29T14:01:00.000000", "first", 1.5),
    ("8", 0, None, "2024-11-28T05:00:00.000000", "2024-11-29T14:30:00.000000", None, -2.0),
    ("7", 1, "A", "2024-11-29T14:00:00.123456", "2024-11-29T15:01:00.000000", "corrected", None),
]


@pytest.fixture
def sqlite_file(tmp_path):
    path = tmp_path / "news.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE news (happened TIMESTAMP, loaded TIMESTAMP, ticker TEXT, id INTEGER, "
            "version INTEGER, headline TEXT, score REAL)"
        )
        connection.executemany("INSERT INTO news VALUES (?, ?, ?, ?, ?, ?, ?)", ROWS)
        connection.commit()
    return path


@pytest.fixture
def duckdb_file(tmp_path):
    path = tmp_path / "news.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE news (happened TIMESTAMP_NS, loaded TIMESTAMPTZ, ticker TEXT, id INTEGER, day DATE)"
        )
        connection.execute(
            "INSERT INTO news VALUES "
            "('2024-11-29 14:00:00.123456789', '2024-11-29 09:01:00-05', 'A', 1, '2024-11-28'), "
            "('2024-11-29 14:00:00.123456788', '2024-11-29 09:00:00.123457-05', 'B', 2, '2024-11-28')"
        )
    return path


def rows_of(log):
    return log.frame.select(
        "event_id",
        "revision",
        "entity",
        pl.col("event_time", "available_at").dt.to_string("%FT%T%.6f"),
        "text",
        "score",
    ).rows()


def connections(path):
    yield f"sqlite:///{path}"
    yield f"sqlite+pysqlite:///{path}"
    with closing(sqlite3.connect(path)) as plain:
        yield plain
    with closing(adbc.connect(path.as_uri())) as arrow:
        yield arrow
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    yield engine
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def test_sqlite_reads_the_same_through_every_kind_of_connection(sqlite_file):
    count = 0
    for connection in connections(sqlite_file):
        log = read_sql(QUERY, connection, time_zone="America/New_York", **COLUMNS)
        assert rows_of(log) == EXPECTED
        assert log.rejects.select("row", "reason").rows() == [(3, "missing_time")]
        count += 1
    assert count == 6


def test_naive_timestamps_need_their_zone(sqlite_file):
    log = read_sql(QUERY, f"sqlite:///{sqlite_file}", **COLUMNS)
    assert log.reject_counts == {"naive_time": 2, "missing_time": 1}
    with pytest.raises(EventDataError, match=r"query: .*naive_time.*time_zone="):
        read_sql(QUERY, f"sqlite:///{sqlite_file}", strict=True, **COLUMNS)


def test_duckdb_keeps_zones_and_nanoseconds(duckdb_file):
    query = "SELECT * FROM news"
    columns = {"event_time": "happened", "available_at": "loaded", "entity": "ticker", "event_id": "id"}
    expected = ["2024-11-29T14:00:00.123456788", "2024-11-29T14:00:00.123456789"]
    for connection in (f"duckdb:///{duckdb_file}", duckdb.connect(str(duckdb_file), read_only=True)):
        log = read_sql(query, connection, time_zone="UTC", **columns)
        assert log.frame["event_time"].dt.to_string("%FT%T%.9f").to_list() == expected
        assert log.frame["available_at"].dt.to_string("%FT%T").to_list()[1] == "2024-11-29T14:01:00"
    dated = read_sql(query, f"duckdb:///{duckdb_file}", event_time="day", entity="ticker", event_id="id")
    assert dated.frame["available_at"].dt.to_string("%FT%T").to_list() == ["2024-11-29T14:30:00"] * 2


def test_the_log_is_what_the_frame_gives(duckdb_file):
    table = query_table("SELECT * FROM news", f"duckdb:///{duckdb_file}")
    arguments = {"event_time": "happened", "entity": "ticker", "time_zone": "UTC"}
    read = read_sql("SELECT * FROM news", f"duckdb:///{duckdb_file}", **arguments)
    assert read.fingerprint == EventLog.from_frame(table, **arguments).fingerprint


def test_a_value_of_another_type_far_down_is_not_guessed_away(tmp_path):
    path = tmp_path / "many.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE news (happened TEXT, score)")
        connection.executemany("INSERT INTO news VALUES ('2024-11-29T09:00:00Z', ?)", [(1,)] * 500 + [(0.5,)])
        connection.commit()
        log = read_sql(
            "SELECT rowid AS id, * FROM news",
            connection,
            event_time="happened",
            event_id="id",
            features=["score"],
        )
    assert log.frame["score"].sum() == 500.5


def test_reading_creates_and_locks_nothing(tmp_path, sqlite_file, duckdb_file):
    for uri in (f"sqlite:///{tmp_path}/none.db", f"duckdb:///{tmp_path}/none.duckdb"):
        with pytest.raises(UsageError, match=r"there is no (sqlite|duckdb) file '.*none"):
            read_sql("SELECT 1", uri, event_time="x")
    assert not list(tmp_path.glob("none*"))
    for uri in (f"sqlite:///{sqlite_file}", f"duckdb:///{duckdb_file}"):
        with pytest.raises(EventDataError, match="the database refuses the query"):
            read_sql("CREATE TABLE other (x INTEGER)", uri, event_time="x")
    with duckdb.connect(str(duckdb_file)) as writer:
        writer.execute("CREATE TABLE later (x INTEGER)")


def test_a_relative_and_an_absolute_path(sqlite_file, monkeypatch):
    monkeypatch.chdir(sqlite_file.parent)
    for uri in ("sqlite:///news.db", f"sqlite:///{sqlite_file}"):
        assert query_table("SELECT count(*) AS n FROM news", uri).rows() == [(4,)]


WRONG = [
    ("", "sqlite:///{file}", UsageError, "query is empty"),
    ("SELECT nope FROM news", "sqlite:///{file}", EventDataError, "no such column: nope"),
    ("SELECT * FROM news WHERE 0", "sqlite:///{file}", EventDataError, "gives no rows"),
    ("SELECT 1", "{file}", UsageError, "connection= is no URI"),
    ("SELECT 1", "env:QUANTATTN_NO_SUCH", UsageError, "no environment variable 'QUANTATTN_NO_SUCH'"),
    ("SELECT 1", "frobnicate://host/db", UsageError, "pip install adbc-driver-frobnicate"),
]


@pytest.mark.parametrize(("query", "connection", "error", "message"), WRONG)
def test_wrong_requests(sqlite_file, query, connection, error, message):
    with pytest.raises(error, match=message):
        read_sql(query, connection.format(file=sqlite_file), event_time="happened")


MISSING = [
    ("postgresql://joe:hunter2@localhost/db", "pip install adbc-driver-postgresql"),
    ("postgres://joe:hunter2@localhost/db", "pip install adbc-driver-postgresql"),
    ("mysql+nosuchdriver://joe:hunter2@localhost/db", "pip install sqlalchemy pymysql"),
    ("snowflake://joe:hunter2@account/db", "pip install adbc-driver-snowflake"),
]


@pytest.mark.parametrize(("uri", "remedy"), MISSING)
def test_a_missing_driver_names_the_command_and_no_password(monkeypatch, uri, remedy):
    monkeypatch.setattr("quantattn.pit.readers.sql.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=remedy) as caught:
        read_sql("SELECT 1", uri, event_time="x")
    assert "hunter2" not in str(caught.value)


def test_no_password_in_messages_of_databases(sqlite_file, monkeypatch):
    class Leaky:
        engine = None
        url = sqlalchemy.make_url("postgresql://joe:hunter%402@localhost/db")

        def execute(self, *_):
            raise RuntimeError(
                "could not log in as postgresql://joe:hunter%402@localhost/db, password hunter@2"
            )

    def leak(query, connection):
        connection.execute(query)

    monkeypatch.setattr("quantattn.pit.readers.sql._read", leak)
    leaky = Leaky()
    leaky.engine = leaky
    with pytest.raises(EventDataError, match=r"could not log in as \*\*\*, password \*\*\*\)") as caught:
        read_sql("SELECT 1", leaky, event_time="x")
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_query_files_and_uris_from_the_environment(tmp_path, sqlite_file, monkeypatch):
    file = tmp_path / "news.sql"
    file.write_text(QUERY)
    monkeypatch.setenv("NEWS_URI", f"sqlite:///{sqlite_file}")
    columns = COLUMNS | {"features": "score"}
    log = read_sql_files(file, connection="env:NEWS_URI", time_zone="America/New_York", **columns)
    assert rows_of(log) == EXPECTED
    with pytest.raises(UsageError, match="2 query files are given"):
        read_sql_files([file, file], connection="env:NEWS_URI", event_time="x")
    with pytest.raises(UsageError, match="has an empty name"):
        read_sql_files(file, connection="env:NEWS_URI", event_time="happened", features="a,,b")
