"""A user's own price file, long or wide."""

from datetime import date, datetime
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit.prices.history import PriceHistory
from quantattn.pit.readers import read_prices


def write(folder, content, name="bars.csv"):
    path = folder / name
    if isinstance(content, pl.DataFrame):
        content.write_parquet(path)
    else:
        path.write_text(content)
    return path


def test_a_long_table(tmp_path):
    text = "day,ticker,px,vol,note\n2024-11-27,NA,1.5,100,x\n2024-11-29,NA,1.75,,y\n2024-11-27,B,2,0,z\n"
    frame = read_prices(write(tmp_path, text), session="day", close="px", entity="ticker", volume="vol")
    assert frame.schema == {
        "session": pl.Date,
        "entity": pl.String,
        "close": pl.Float64,
        "volume": pl.Float64,
    }
    assert frame.rows() == [
        (date(2024, 11, 27), "NA", 1.5, 100.0),
        (date(2024, 11, 29), "NA", 1.75, None),
        (date(2024, 11, 27), "B", 2.0, 0.0),
    ]


def test_all_figures_in_their_order(tmp_path):
    text = "date,v,c,l,h,o\n2024-11-27,5,4,1,6,2\n"
    frame = read_prices(write(tmp_path, text), close="c", name="SPX", open="o", high="h", low="l", volume="v")
    assert frame.columns == ["session", "entity", "open", "high", "low", "close", "volume"]
    assert frame.rows() == [(date(2024, 11, 27), "SPX", 2.0, 6.0, 1.0, 4.0, 5.0)]


def test_a_wide_table_has_no_bar_where_a_cell_is_empty(tmp_path):
    text = "Date,AAPL,MSFT\n2024-11-27,1.5,\n2024-11-29,nan,2.5\n"
    frame = read_prices(write(tmp_path, text), session="Date")
    assert frame.rows() == [(date(2024, 11, 27), "AAPL", 1.5), (date(2024, 11, 29), "MSFT", 2.5)]
    assert frame.schema == {"session": pl.Date, "entity": pl.String, "close": pl.Float64}


def test_chosen_columns_of_a_wide_table(tmp_path):
    text = "date,sector,AAPL,MSFT\n2024-11-27,Tech,1.5,2\n"
    frame = read_prices(write(tmp_path, text), entities=["MSFT"])
    assert frame.rows() == [(date(2024, 11, 27), "MSFT", 2.0)]


def test_what_is_read_makes_a_price_history(tmp_path):
    text = "date,AAPL,MSFT\n2024-11-27,1.5,\n2024-11-29,1.6,2.5\n"
    prices = PriceHistory.from_frame(read_prices(write(tmp_path, text)), session="session")
    assert prices.frame.select("entity", "session", "close").rows() == [
        ("AAPL", date(2024, 11, 27), 1.5),
        ("AAPL", date(2024, 11, 29), 1.6),
        ("MSFT", date(2024, 11, 29), 2.5),
    ]


SESSIONS = [
    "2024-11-29",
    "2024/11/29",
    "20241129",
    " 2024-11-29 ",
    "2024-11-29 00:00",
    "2024-11-29T00:00:00",
    "2024-11-29 00:00:00.000000",
    "2024-11-29 00:00:00-05:00",
    "2024-11-29T00:00:00Z",
]


@pytest.mark.parametrize("text", SESSIONS)
def test_dates_are_taken_as_written(tmp_path, text):
    frame = read_prices(write(tmp_path, f"date,A\n{text},1\n"))
    assert frame["session"].to_list() == [date(2024, 11, 29)]


@pytest.mark.parametrize(
    "stamp",
    [date(2024, 11, 29), datetime(2024, 11, 29), datetime(2024, 11, 29, tzinfo=ZoneInfo("America/New_York"))],
)
def test_parquet_dates(tmp_path, stamp):
    frame = pl.DataFrame({"date": [stamp], "A": [1]})
    read = read_prices(write(tmp_path, frame, "bars.parquet"))
    assert read.rows() == [(date(2024, 11, 29), "A", 1.0)]


@pytest.mark.parametrize(
    "text", ["", "2024-11-31", "29/11/2024", "2024-11-29 16:00", "2024-11-29T00:00:01Z", "soon"]
)
def test_what_is_no_session_date_is_refused(tmp_path, text):
    with pytest.raises(
        PriceDataError, match=r"bars.csv: column 'date' holds no session date: 1 row, first row 1"
    ):
        read_prices(write(tmp_path, f"date,A\n2024-11-27,1\n{text},2\n"))


@pytest.mark.parametrize("number", ["abc", "1,5", "1_000", "$5", "-"])
def test_what_is_no_number_is_refused(tmp_path, number):
    text = f'date,A\n2024-11-27,1\n2024-11-29,"{number}"\n'
    with pytest.raises(PriceDataError, match=r"bars.csv: column 'A' is not a number: 1 row, first row 1"):
        read_prices(write(tmp_path, text))


WRONG = [
    ("date,px\n2024-11-27,1\n", {"close": "pc", "name": "X"}, r"bars.csv: close='pc' is not a column.* 'px'"),
    ("Date,A\n2024-11-27,1\n", {}, r"bars.csv: session='date' is not a column.* 'Date'"),
    ("date,A\n2024-11-27,1\n", {"entities": ["B", "A"]}, r"entities\[0\]='B' is not a column"),
    ("date,A\n2024-11-27,1,2\n", {}, r"bars.csv cannot be parsed .*Expected 2 columns, got 3"),
    ("date\n2024-11-27\n", {}, r"no column but 'date'"),
    ("date,,A\n2024-11-27,0,1\n", {}, r"column '' names no entity"),
    ("date,Unnamed: 0,A\n2024-11-27,0,1\n", {}, r"column 'Unnamed: 0' names no entity"),
    ("date,e,c\n2024-11-27,,1\n", {"close": "c", "entity": "e"}, r"column 'e' names no entity"),
    ("date,e,c\n2024-11-27,A,1\n2024-11-27,a,1\n", {"close": "c", "entity": "e"}, r"differ only in case"),
]


@pytest.mark.parametrize(("text", "options", "message"), WRONG)
def test_tables_that_do_not_fit(tmp_path, text, options, message):
    with pytest.raises(PriceDataError, match=message) as caught:
        read_prices(write(tmp_path, text), **options)
    assert "\n" not in str(caught.value)


ARGUMENTS = [
    ({"close": "c"}, r"either entity=, its column, or name="),
    ({"close": "c", "entity": "e", "name": "X"}, r"either entity=, its column, or name="),
    ({"close": "c", "entity": "e", "entities": ["A"]}, r"leave out close=, or entities="),
    ({"entity": "e"}, r"entity= is of a long table, which needs close= too"),
    ({"volume": "v"}, r"volume= is of a long table"),
    ({"entities": "AAPL"}, r"write entities=\['AAPL'\]"),
]


@pytest.mark.parametrize(("options", "message"), ARGUMENTS)
def test_arguments_that_do_not_go_together(tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        read_prices(write(tmp_path, "date,A\n2024-11-27,1\n"), **options)


def test_a_missing_file(tmp_path):
    with pytest.raises(UsageError, match=r"none.csv cannot be read"):
        read_prices(tmp_path / "none.csv")


def test_truncated_parquet(tmp_path):
    path = write(tmp_path, pl.DataFrame({"date": [date(2024, 11, 29)], "A": [1.0]}), "bars.parquet")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(PriceDataError, match=r"bars.parquet is not a whole Parquet file"):
        read_prices(path)
