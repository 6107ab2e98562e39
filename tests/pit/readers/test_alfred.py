"""ALFRED vintages in every layout: what was known when, withdrawals, and final values refused."""

import json
import math

import polars as pl
import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.readers.alfred import read_alfred

OBSERVATIONS = [
    ("2024-02-02", "2024-03-07", "2023-11-01", "100"),
    ("2024-03-08", "9999-12-31", "2023-11-01", "101"),
    ("2024-02-02", "9999-12-31", "2023-12-01", "110"),
    ("2024-02-02", "2024-03-07", "2024-01-01", "121"),  # withdrawn: nothing follows on 2024-03-08
    ("2024-03-08", "9999-12-31", "2024-02-01", "130"),
]
SIDES = """\
observation_date,PAYEMS_20240202,PAYEMS_20240308
2023-11-01,100,101
2023-12-01,110,110
2024-01-01,121,.
2024-02-01,,130
"""
# Friday's vintage is known at Monday's open.
EXPECTED = [
    ("PAYEMS:2023-11-01", 0, "2024-02-05T14:30:00", 100.0),
    ("PAYEMS:2023-12-01", 0, "2024-02-05T14:30:00", 110.0),
    ("PAYEMS:2024-01-01", 0, "2024-02-05T14:30:00", 121.0),
    ("PAYEMS:2023-11-01", 1, "2024-03-11T13:30:00", 101.0),
    ("PAYEMS:2024-01-01", 1, "2024-03-11T13:30:00", None),
    ("PAYEMS:2024-02-01", 0, "2024-03-11T13:30:00", 130.0),
]


def write(folder, content, name="PAYEMS.json"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def answer(rows, **extra):
    names = ("realtime_start", "realtime_end", "date", "value")
    listed = [dict(zip(names, row, strict=True)) for row in rows]
    return json.dumps({"count": len(rows), "offset": 0, "limit": 100000, "observations": listed, **extra})


def as_csv(rows, head="realtime_start,realtime_end,date,value"):
    return "\n".join([head, *(",".join(row) for row in rows)]) + "\n"


def rows_of(log):
    return log.frame.select(
        "event_id", "revision", pl.col("available_at").dt.to_string("%FT%T"), "value"
    ).rows()


def sides_as_json(output_type):
    lines = [line.split(",") for line in SIDES.splitlines()]
    head = ["date", *lines[0][1:]]
    listed = [{name: cell for name, cell in zip(head, line, strict=True) if cell} for line in lines[1:]]
    return json.dumps({"output_type": output_type, "count": 99, "observations": listed})


LAYOUTS = [
    ("PAYEMS.json", answer(OBSERVATIONS), {}),
    ("x.json", answer(OBSERVATIONS), {"series": "PAYEMS"}),
    ("PAYEMS.csv", as_csv(OBSERVATIONS), {}),
    (
        "x.csv",
        as_csv(
            [(*row, "PAYEMS") for row in OBSERVATIONS], "realtime_start,realtime_end,date,value,series_id"
        ),
        {},
    ),
    ("PAYEMS.txt", as_csv(OBSERVATIONS).replace(",", "\t"), {}),
    ("x.csv", SIDES, {}),
    ("x.txt", SIDES.replace(",", "\t"), {}),
    ("x.csv", "\ufeff" + SIDES.replace("observation_date", "DATE"), {}),
    ("x.json", sides_as_json(2), {}),
]


@pytest.mark.parametrize(("name", "content", "options"), LAYOUTS)
def test_layouts(tmp_path, name, content, options):
    log = read_alfred(write(tmp_path, content, name), **options)
    assert rows_of(log) == EXPECTED
    assert log.rejects.is_empty()
    assert log.features == ("value",)
    assert log.entities == ()
    assert log.frame["kind"].unique().to_list() == ["PAYEMS"]
    assert log.frame["event_time"][0].isoformat() == "2023-12-01T05:00:00+00:00"  # the end of November


def test_parquet(tmp_path):
    frame = pl.DataFrame(
        OBSERVATIONS, schema=["realtime_start", "realtime_end", "date", "value"], orient="row"
    )
    frame.with_columns(pl.col("value").cast(pl.Float64)).write_parquet(tmp_path / "PAYEMS.parquet")
    assert rows_of(read_alfred(tmp_path / "PAYEMS.parquet")) == EXPECTED


def test_only_new_and_revised_values_side_by_side(tmp_path):
    # output_type=3: what a vintage did not change is empty, and was not withdrawn.
    text = SIDES.replace("110,110", "110,").replace("121,.", "121,")
    assert rows_of(read_alfred(write(tmp_path, text, "x.csv"))) == [
        row for row in EXPECTED if row[3] is not None
    ]


def test_growth_within_one_vintage(tmp_path):
    log = read_alfred(write(tmp_path, answer(OBSERVATIONS)), growth="1,2")
    growth = {
        (name, revision): rate
        for name, revision, rate in log.frame.select("event_id", "revision", "growth_1").rows()
    }
    assert growth[("PAYEMS:2023-12-01", 0)] == pytest.approx(math.log(110 / 100))
    # The base was revised, and with it the growth, though December's own value was not.
    assert growth[("PAYEMS:2023-12-01", 1)] == pytest.approx(math.log(110 / 101))
    assert growth[("PAYEMS:2024-02-01", 0)] is None
    assert log.features == ("value", "growth_1", "growth_2")


def test_a_declared_time_of_release(tmp_path):
    log = read_alfred(write(tmp_path, answer(OBSERVATIONS)), release_time="08:30", latency="1s")
    assert rows_of(log)[0][2] == "2024-02-02T13:30:01"
    assert rows_of(log)[-1][2] == "2024-03-08T13:30:01"
    for wrong in ("8:30", "24:00", "00:00", "08.30"):
        with pytest.raises(UsageError, match="is no time of release"):
            read_alfred(tmp_path / "PAYEMS.json", release_time=wrong)


def test_the_end_of_the_span_asked_for_is_no_withdrawal(tmp_path):
    cut = [(start, "2024-03-31" if end == "9999-12-31" else end, *rest) for start, end, *rest in OBSERVATIONS]
    assert rows_of(read_alfred(write(tmp_path, answer(cut)))) == EXPECTED


def test_a_value_that_came_back(tmp_path):
    rows = [("2024-02-02", "2024-02-29", "2023-11-01", "1"), ("2024-03-08", "9999-12-31", "2023-11-01", "1")]
    log = read_alfred(write(tmp_path, answer(rows)), frequency="M")
    assert rows_of(log) == [
        ("PAYEMS:2023-11-01", 0, "2024-02-05T14:30:00", 1.0),
        ("PAYEMS:2023-11-01", 1, "2024-03-04T14:30:00", None),
        ("PAYEMS:2023-11-01", 2, "2024-03-11T13:30:00", 1.0),
    ]


@pytest.mark.parametrize(
    ("dates", "declared", "end"),
    [
        (["2023-10-01", "2023-11-01", "2023-12-01"], None, "2023-11-01"),
        (["2023-01-01", "2023-04-01", "2023-10-01"], None, "2023-04-01"),
        (["2021-01-01", "2022-01-01", "2023-01-01"], None, "2022-01-01"),
        (["2023-12-02", "2023-12-09", "2023-12-16"], None, "2023-12-03"),  # weeks end on Saturday
        (["2023-12-04", "2023-12-05", "2023-12-06"], None, "2023-12-05"),
        (["2023-01-01"], "Q", "2023-04-01"),
    ],
)
def test_frequencies(tmp_path, dates, declared, end):
    rows = [("2024-02-02", "9999-12-31", day, "1") for day in dates]
    with pytest.warns(UserWarning, match="one vintage") if len(rows) > 1 else _nothing():
        log = read_alfred(write(tmp_path, answer(rows)), frequency=declared)
    ends = log.frame["event_time"].dt.convert_time_zone("America/New_York").dt.to_string("%F")
    assert ends.min() == end


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def test_a_frequency_that_dates_do_not_tell(tmp_path):
    rows = [("2024-02-02", "9999-12-31", day, "1") for day in ("2023-01-01", "2023-03-01", "2023-05-01")]
    with (
        pytest.warns(UserWarning, match="one vintage"),
        pytest.raises(UsageError, match="do not tell its frequency"),
    ):
        read_alfred(write(tmp_path, answer(rows)))


def test_todays_values_alone_are_known_today(tmp_path):
    rows = [("2024-02-02", "2024-02-02", f"2023-{month:02d}-01", "1") for month in range(1, 13)]
    with pytest.warns(
        UserWarning, match=r"all values of PAYEMS are of one vintage.*realtime_start=1776-07-04"
    ):
        log = read_alfred(write(tmp_path, answer(rows)))
    assert set(log.frame["available_at"].dt.to_string("%F")) == {"2024-02-05"}


FINAL = "observation_date,PAYEMS\n2023-11-01,100\n2023-12-01,110\n2024-01-01,.\n2024-02-01,130\n"


def test_final_values_are_refused_or_declared(tmp_path):
    path = write(tmp_path, FINAL, "PAYEMS.csv")
    with pytest.raises(EventDataError, match=r"one value for each date, the final one.*final_values_lag="):
        read_alfred(path)
    with pytest.warns(UserWarning, match="they are final ones"):
        log = read_alfred(path, final_values_lag="45D")
    assert rows_of(log) == [
        ("PAYEMS:2023-11-01", 0, "2023-12-18T14:30:00", 100.0),  # 45 days later is a Saturday
        ("PAYEMS:2023-12-01", 0, "2024-01-16T14:30:00", 110.0),  # a Monday; that Monday is a holiday
        ("PAYEMS:2024-02-01", 0, "2024-03-18T13:30:00", 130.0),
    ]
    with pytest.warns(UserWarning), pytest.raises(EventDataError, match="available_before_event"):
        read_alfred(path, final_values_lag="20D", frequency="M")  # shorter than the period
    with pytest.raises(UsageError, match="is not a number of days above zero"):
        read_alfred(path, final_values_lag="12h")
    with pytest.raises(UsageError, match="has vintages; leave final_values_lag= out"):
        read_alfred(write(tmp_path, SIDES, "x.csv"), final_values_lag="45D")


def test_refused_rows(tmp_path):
    rows = [
        *OBSERVATIONS,
        ("2024-03-08", "9999-12-31", "2024-03-01", "1"),  # before the month is over
        ("", "9999-12-31", "2023-12-01", "1"),
        ("2024-03-08", "9999-12-31", "soon", "1"),
        ("2024-03-09", "9999-12-31", "2023-12-01", "n.a."),
    ]
    path = write(tmp_path, answer(rows))
    log = read_alfred(path)
    assert log.rejects.select("row", "reason").rows() == [
        (5, "available_before_event"),
        (6, "missing_time"),
        (7, "bad_period"),
        (8, "bad_feature"),
    ]
    with pytest.raises(EventDataError, match=r"PAYEMS.json: 4 of \d+ rows are refused"):
        read_alfred(path, strict=True)
    assert len(read_alfred(path, scheduled=True)) == len(log) + 1


def test_several_series(tmp_path):
    first = write(tmp_path, answer(OBSERVATIONS))
    second = write(
        tmp_path, answer([*OBSERVATIONS[:3], ("2024-02-02", "9999-12-31", "soon", "1")]), "OTHER.json"
    )
    log = read_alfred([first, second], frequency="M")
    assert sorted(set(log.frame["kind"])) == ["OTHER", "PAYEMS"]
    assert log.rejects["detail"][0].startswith("OTHER.json: ")
    assert log.rejects["row"].to_list() == [3]


BROKEN = [
    ("x.json", b"", r"is empty"),
    ("x.json", answer(OBSERVATIONS)[:-20], r"is not whole JSON"),
    ("x.json", answer(OBSERVATIONS, count=500), r"is a page of 5 of 500 observations.*limit=100000"),
    ("x.json", '{"observations": []}', r"lists no observations; check its dates"),
    (
        "x.json",
        '{"filings": {"recent": {"acceptanceDateTime": [], "accessionNumber": []}}}',
        r"format 'edgar_submissions'",
    ),
    ("x.csv", b"date,A_20240202\n2023-11-01,\xe9\n", r"not UTF-8 in line 2"),
    ("x.csv", "date,A_20240202\n2023-11-01,1,2\n", r"row 0 has 3 fields, the header 2"),
    ("x.csv", "date,A_20240202\n", r"holds no rows"),
    ("x.csv", "date,A_20240202,A_20240202\n2023-11-01,1,2\n", r"has repeated columns"),
    ("x.csv", "date,A_20240202,B\n2023-11-01,1,2\n", r"column 'B' is no SERIES_YYYYMMDD"),
    ("x.csv", "day,A_20240202\n2023-11-01,1\n", r"it has no column date or observation_date or DATE"),
    ("x.csv", "date,A_20240202\n2023-11-01,\n", r"has no values"),
    (
        "x.csv",
        "Date,Open,High,Low,Close,Volume\n2024-11-27,1,2,0.5,1.5,100\n",
        r"looks like format 'yfinance'",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
def test_broken_files(tmp_path, name, content, message):
    with pytest.raises(EventDataError, match=message):
        read_alfred(write(tmp_path, content, name))


def test_wrong_requests(tmp_path):
    path = write(tmp_path, answer(OBSERVATIONS))
    with pytest.raises(UsageError, match="growth='one' is no list of lags"):
        read_alfred(path, growth="one")
    with pytest.raises(UsageError, match="cannot be read"):
        read_alfred(tmp_path / "none.json")
