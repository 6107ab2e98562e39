"""StockNet tweets: the repository's folders ``tweet/raw`` and ``tweet/preprocessed``, or one table.

Source: Xu and Cohen, Stock Movement Prediction from Tweets and Historical Prices (ACL 2018),
https://github.com/yumoxu/stocknet-dataset; tweets of 2014 and 2015 for 88 stocks.

Files: ``tweet/raw/AAPL/2014-01-01`` and ``tweet/preprocessed/AAPL/2014-01-01``, no suffix, a JSON object
on every line. Raw lines are tweets as Twitter gave them (read are ``id_str``, ``created_at``, ``text``,
and whether there is a ``retweeted_status``); preprocessed ones have ``created_at``, ``text`` (a list of
tokens) and ``user_id_str``. The ticker is the name of the folder. A table (CSV or Parquet) has
``ticker``, ``created_at``, ``text`` and, used where present, ``tweet_id`` and ``is_retweet``. ``price/``
is another matter.

Zone: UTC. ``created_at`` is ``Wed Jan 01 03:57:10 +0000 2014``; tables hold instants.

How ``available_at`` is derived: ``created_at`` plus ``latency``, by default one second, because stamps
are cut to whole seconds: the milliseconds that tweet ids carry are up to 666 ms later in 106,300 tweets.

Traps: the *names* of the files are dates of neither UTC nor New York (7 % are a day later than
``created_at``) and are not used. A tweet may stand under several tickers, and is an event for each.
Counts of retweets and likes in raw tweets are those of the day of collection, and are not read; neither
is ``retweeted_created_at``. Tweets are Twitter's 1 % sample, so that their number is not the flow. The
stocks were chosen afterwards (survivorship), and tickers that are words, T and D, catch tweets of other
things.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Final, Literal

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._inputs import NUMBER, PLACE, Paths, paths_of
from quantattn.pit.readers._json_items import Item, read_items
from quantattn.pit.readers._news import (
    check_choice,
    make_log,
    match_columns,
    read_columns,
    stack,
)
from quantattn.pit.readers._stamp_text import twitter_as_iso
from quantattn.pit.readers.registry import reader

Folder = Literal["raw", "preprocessed"]

_FORMAT: Final = "stocknet"
_FOLDERS: Final = ("raw", "preprocessed")
_TABLES: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zip", ".tsv.zip", ".parquet", ".pq")
_TICKER: Final = re.compile(r"[A-Z][A-Z0-9.-]{0,5}")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}.*")
_RETWEET: Final = r"(?i)^rt (@|at_user)"


@reader(
    _FORMAT,
    title="StockNet tweets of 88 stocks, 2014 and 2015 (JSON lines or a table)",
    gives="events",
    files="the repository's folder, tweet/raw/TICKER/DATE, or a table .csv, .parquet",
)
def read_stocknet(
    paths: Paths,
    *,
    folder: Folder = "raw",
    ticker: str | None = None,
    latency: str = "1s",
    strict: bool = False,
) -> EventLog:
    """Read StockNet tweets; the module's documentation says how they are dated.

    Parameters
    ----------
    paths : str, Path or sequence of them
        The repository, any folder inside it, its files, or tables; files and tables not mixed.
    folder : {"raw", "preprocessed"}
        Which texts to read where a folder holds both.
    ticker : str, optional
        The ticker of files that lie in no folder named after one.
    latency : str
        From the stamp until this system has the tweet.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        Of kind ``tweet``, with the feature ``is_retweet`` (1 or 0). An event id is ``tweet_id/ticker``, or a
        hash of the content where there is no id. Rejects name the file and line.

    Raises
    ------
    UsageError
        If a path is missing, an option unknown, a folder holds no tweets, or a file's ticker is unknown.
    EventDataError
        If a file is not of this format, truncated or not UTF-8, or no row can be used.
    TimestampError
        If `latency` is no duration or negative.
    """
    check_choice("folder", folder, _FOLDERS)
    listed = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    if listed and all(path.name.lower().endswith(_TABLES) and not path.is_dir() for path in listed):
        files = paths_of(listed)
        table = stack(files, _read_table)
    else:
        files = [file for path in listed for file in (_tweets(path, folder) if path.is_dir() else [path])]
        table = _read_lines(paths_of(files), ticker)
    table = table.with_columns(
        twitter_as_iso(table["created_at"]).alias("created_at"),
        is_retweet=pl.coalesce("is_retweet", pl.col("text").str.contains(_RETWEET)).cast(pl.Float64),
        event_id=pl.concat_str("tweet_id", "ticker", separator="/"),
    )
    ids = {} if table["tweet_id"].null_count() == table.height else {"event_id": "event_id"}
    return make_log(
        table,
        files,
        of_kind="tweet",
        strict=strict,
        event_time="created_at",
        entity="ticker",
        text="text",
        features=["is_retweet"],
        latency=latency,
        **ids,
    )


def _tweets(folder: Path, wanted: Folder) -> list[Path]:
    """List the day files below a folder, those of the wanted kind where it holds both."""
    base = folder
    if (base / "tweet").is_dir():
        base = base / "tweet"
    if any((base / name).is_dir() for name in _FOLDERS):
        base = base / wanted
    files = sorted(path for path in base.rglob("*") if path.is_file() and _DAY.fullmatch(path.name))
    if not files:
        raise UsageError(f"{base} holds no tweets; give a folder with files such as AAPL/2014-01-01")
    return files


def _read_lines(files: Sequence[Path], ticker: str | None) -> pl.DataFrame:
    rows = [
        {
            "tweet_id": item.text("id_str") or item.text("id"),
            "ticker": name,
            "created_at": item.text("created_at"),
            "text": _text_of(item),
            "is_retweet": True if isinstance(item.fields.get("retweeted_status"), dict) else None,
            PLACE: item.place,
            NUMBER: item.number,
        }
        for file in files
        for name in [_ticker_of(file, ticker)]
        for item in read_items(file, format=_FORMAT, listed=(), needed=("created_at", "text"))
    ]
    schema = dict.fromkeys(("tweet_id", "ticker", "created_at", "text", PLACE), pl.String)
    return pl.DataFrame(rows, schema={**schema, "is_retweet": pl.Boolean, NUMBER: pl.Int64})


def _ticker_of(file: Path, given: str | None) -> str:
    if given is not None:
        return given
    name = file.resolve().parent.name
    if not _TICKER.fullmatch(name):
        raise UsageError(
            f"{file} lies in {name!r}, which is no ticker; keep it in its folder, or pass ticker="
        )
    return name


def _text_of(item: Item) -> str | None:
    tokens = item.fields.get("text")
    if not isinstance(tokens, list):
        text = item.text("text")
        return None if text is None else unescape(text)
    if not all(isinstance(token, str) for token in tokens):
        raise EventDataError(f"{item.place}: field 'text' lists something else than tokens; correct it")
    return " ".join(tokens)


def _read_table(path: Path) -> pl.DataFrame:
    columns = match_columns(
        path,
        format=_FORMAT,
        needed=("ticker", "created_at", "text"),
        optional=("tweet_id", "is_retweet"),
    )
    table = read_columns(path, columns)
    for name in ("tweet_id", "is_retweet"):
        if name not in table.columns:
            table = table.with_columns(pl.lit(None, dtype=pl.String).alias(name))
    truth = pl.col("is_retweet").cast(pl.String).str.to_lowercase()
    return table.with_columns(
        pl.col("ticker", "tweet_id", "text", "created_at").cast(pl.String),
        is_retweet=pl.when(truth.is_in(["true", "1"]))
        .then(True)
        .when(truth.is_in(["false", "0"]))
        .then(False),
    )
