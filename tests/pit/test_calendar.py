"""Sessions, half days, daylight saving and the ends of what a calendar knows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import exchange_calendars
import polars as pl
import pytest

from quantattn.errors import CalendarError
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.timestamps import TIME


def rows(name: str, start: date, end: date) -> list[tuple[str, str, str]]:
    """Sessions as (date, open, close) texts, times in UTC."""
    return [
        (f"{session}", f"{opens:%d %H:%M}", f"{closes:%d %H:%M}")
        for session, opens, closes in TradingCalendar(name).sessions(start, end).rows()
    ]


def dates(name: str, start: date, end: date) -> list[date]:
    return TradingCalendar(name).sessions(start, end)["session"].to_list()


def test_the_frame_has_the_documented_columns():
    sessions = TradingCalendar().sessions(date(2024, 1, 1), date(2024, 1, 5))
    assert dict(sessions.schema) == {"session": pl.Date, "open": TIME, "close": TIME}
    assert sessions["session"].is_sorted()
    assert sessions.null_count().row(0) == (0, 0, 0)


def test_half_day_after_thanksgiving():
    assert rows("XNYS", date(2024, 11, 27), date(2024, 12, 2)) == [
        ("2024-11-27", "27 14:30", "27 21:00"),
        ("2024-11-29", "29 14:30", "29 18:00"),
        ("2024-12-02", "02 14:30", "02 21:00"),
    ]


def test_both_half_days_of_summer_and_christmas():
    assert rows("XNYS", date(2024, 7, 3), date(2024, 7, 5)) == [
        ("2024-07-03", "03 13:30", "03 17:00"),
        ("2024-07-05", "05 13:30", "05 20:00"),
    ]
    assert rows("XNYS", date(2024, 12, 24), date(2024, 12, 25)) == [("2024-12-24", "24 14:30", "24 18:00")]


def test_before_1993_half_days_ended_at_two():
    assert rows("XNYS", date(1990, 12, 24), date(1990, 12, 25)) == [("1990-12-24", "24 14:30", "24 19:00")]


def test_daylight_saving_moves_new_york_against_utc():
    # The clocks go forward on Sunday 2024-03-10 and back on Sunday 2024-11-03.
    assert rows("XNYS", date(2024, 3, 8), date(2024, 3, 11)) == [
        ("2024-03-08", "08 14:30", "08 21:00"),
        ("2024-03-11", "11 13:30", "11 20:00"),
    ]
    assert rows("XNYS", date(2024, 11, 1), date(2024, 11, 4)) == [
        ("2024-11-01", "01 13:30", "01 20:00"),
        ("2024-11-04", "04 14:30", "04 21:00"),
    ]


def test_london_changes_its_clocks_three_weeks_later():
    assert rows("XLON", date(2024, 3, 28), date(2024, 4, 2)) == [
        ("2024-03-28", "28 08:00", "28 16:30"),
        ("2024-04-02", "02 07:00", "02 15:30"),
    ]


def test_tokyo_has_no_daylight_saving():
    assert {opened[3:] for _, opened, _ in rows("XTKS", date(2023, 1, 1), date(2023, 12, 31))} == {"00:00"}


def test_a_futures_session_opens_on_the_evening_before():
    assert rows("CMES", date(2024, 1, 2), date(2024, 1, 2)) == [("2024-01-02", "01 23:00", "02 23:00")]


def test_special_closures():
    assert dates("XNYS", date(2001, 9, 10), date(2001, 9, 17)) == [date(2001, 9, 10), date(2001, 9, 17)]
    assert dates("XNYS", date(2012, 10, 26), date(2012, 10, 31)) == [date(2012, 10, 26), date(2012, 10, 31)]
    assert date(2025, 1, 9) not in dates("XNYS", date(2025, 1, 1), date(2025, 1, 31))


def test_both_ends_are_included_and_a_holiday_alone_gives_an_empty_frame():
    assert dates("XNYS", date(2024, 1, 2), date(2024, 1, 2)) == [date(2024, 1, 2)]
    holiday = TradingCalendar().sessions(date(2024, 1, 1), date(2024, 1, 1))
    assert holiday.is_empty()
    assert dict(holiday.schema) == {"session": pl.Date, "open": TIME, "close": TIME}


def test_sessions_follow_each_other_without_overlap():
    sessions = TradingCalendar().sessions(date(1990, 1, 1), date(2024, 12, 31))
    opens, closes = sessions["open"], sessions["close"]
    assert (opens < closes).all()
    assert (closes.head(-1) < opens.tail(-1)).all()


def test_a_span_over_years_equals_the_years_one_by_one():
    whole = TradingCalendar().sessions(date(2019, 12, 20), date(2022, 1, 10))
    parts = [
        TradingCalendar().sessions(date(2019, 12, 20), date(2019, 12, 31)),
        TradingCalendar().sessions(date(2020, 1, 1), date(2021, 12, 31)),
        TradingCalendar().sessions(date(2022, 1, 1), date(2022, 1, 10)),
    ]
    assert whole.equals(pl.concat(parts))


def test_the_year_2100_follows_the_rules_of_today():
    # New Year's Day is a Friday; Independence Day, a Sunday, is kept on the Monday; summer time holds.
    january = dates("XNYS", date(2100, 1, 1), date(2100, 1, 31))
    assert january[0] == date(2100, 1, 4)
    assert date(2100, 1, 18) not in january  # Martin Luther King Day
    assert rows("XNYS", date(2100, 7, 2), date(2100, 7, 6)) == [
        ("2100-07-02", "02 13:30", "02 20:00"),
        ("2100-07-06", "06 13:30", "06 20:00"),
    ]


@pytest.mark.parametrize(
    ("name", "start", "end", "reach"),
    [
        # No holiday rule is applied outside 1970 to 2200; weekdays would pass for sessions.
        ("XNYS", date(1900, 1, 1), date(1900, 12, 31), "1970-01-01 to 2200-12-31"),
        ("XNYS", date(1969, 12, 31), date(1970, 1, 5), "1970-01-01 to 2200-12-31"),
        ("XNYS", date(2200, 12, 30), date(2201, 1, 1), "1970-01-01 to 2200-12-31"),
        ("XNYS", date(1, 1, 1), date(1, 1, 1), "1970-01-01 to 2200-12-31"),
        ("XNYS", date(9999, 1, 1), date(9999, 12, 31), "1970-01-01 to 2200-12-31"),
        # Lunar holidays are tabulated, up to a bound of the calendar's own.
        ("XHKG", date(2100, 1, 1), date(2100, 12, 31), "1970-01-01 to 2049-12-31"),
        ("XHKG", date(2049, 12, 1), date(2050, 1, 1), "1970-01-01 to 2049-12-31"),
        ("XTKS", date(1996, 12, 31), date(1997, 1, 10), "1997-01-01 to 2200-12-31"),
    ],
)
def test_dates_that_a_calendar_does_not_know_are_refused(name, start, end, reach):
    with pytest.raises(CalendarError, match=rf"'{name}' knows its holidays from {reach} only.*choose dates"):
        TradingCalendar(name).sessions(start, end)


def test_the_last_and_first_known_days_are_served():
    assert dates("XHKG", date(2049, 12, 30), date(2049, 12, 31)) == [date(2049, 12, 30), date(2049, 12, 31)]
    assert dates("XNYS", date(2200, 12, 31), date(2200, 12, 31)) == [date(2200, 12, 31)]
    assert dates("XNYS", date(1970, 1, 1), date(1970, 1, 2)) == [date(1970, 1, 2)]
    # This calendar begins in the middle of a year.
    assert dates("XSHG", date(1990, 12, 3), date(1990, 12, 4)) == [date(1990, 12, 3), date(1990, 12, 4)]


def test_a_calendar_without_holidays_knows_every_year():
    assert dates("24/7", date(1900, 2, 28), date(1900, 3, 1)) == [date(1900, 2, 28), date(1900, 3, 1)]
    first, second = TradingCalendar("24/7").sessions(date(2100, 1, 1), date(2100, 1, 2)).rows()
    assert first[2] == second[1] == datetime(2100, 1, 2, tzinfo=UTC)
    with pytest.raises(CalendarError, match="choose other dates"):
        TradingCalendar("24/7").sessions(date(2262, 1, 1), date(2263, 1, 1))


def test_dates_the_wrong_way_round():
    with pytest.raises(CalendarError, match="start 2024-01-03 is later than end 2024-01-02; swap them"):
        TradingCalendar().sessions(date(2024, 1, 3), date(2024, 1, 2))


@pytest.mark.parametrize(("start", "end", "named"), [(1, 0, "start"), (0, 1, "end")])
def test_an_instant_is_not_a_session(start, end, named):
    # As a bound, 09:30 on a session's date would silently leave that session out.
    day = date(2024, 1, 2)
    instant = datetime(2024, 1, 2, 9, 30)
    with pytest.raises(CalendarError, match=f"{named}=datetime.* is an instant"):
        TradingCalendar().sessions(instant if start else day, instant if end else day)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("xnys", "did you mean XNYS"),
        ("NYSE.", "did you mean NYSE"),
        ("", "use one of"),
        ("zzzzzz", "use one of"),
    ],
)
def test_an_unknown_calendar_gets_a_hint(name, hint):
    with pytest.raises(CalendarError, match=f"calendar='{name}' is unknown; {hint}"):
        TradingCalendar(name).sessions(date(2024, 1, 1), date(2024, 1, 2))


def test_an_alias_is_the_same_calendar():
    week = date(2024, 1, 1), date(2024, 1, 5)
    assert TradingCalendar("NYSE").sessions(*week).equals(TradingCalendar("XNYS").sessions(*week))


def test_no_session_falls_on_a_weekend_or_lasts_longer_than_the_standard_day():
    sessions = TradingCalendar().sessions(date(1990, 1, 1), date(2024, 12, 31))
    assert sessions["session"].dt.weekday().max() == 5
    assert (sessions["close"] - sessions["open"]).max() == timedelta(hours=6, minutes=30)


def test_breaks_at_noon_and_the_sessions_around():
    moment = 1_579_680_000 * 10**9  # 2020-01-22 08:00 UTC, the close in Hong Kong
    table = TradingCalendar("XHKG").around(moment, moment)
    row = table.filter(session=date(2020, 1, 22)).row(0, named=True)
    assert (row["break_start"], row["break_end"]) == (
        datetime(2020, 1, 22, 4, tzinfo=UTC),
        datetime(2020, 1, 22, 5, tzinfo=UTC),
    )
    # The half day before the new year has none; the exchange is closed from the 25th to the 28th.
    assert table.filter(session=date(2020, 1, 24))["break_start"].to_list() == [None]
    assert table["session"].to_list()[0] == date(2020, 1, 8)
    assert table["session"].to_list()[-1] == date(2020, 2, 5)
    assert TradingCalendar("XNYS").around(moment, moment)["break_start"].drop_nulls().is_empty()


@pytest.mark.parametrize(("year", "known"), [(1969, False), (1970, True), (2200, True), (2201, False)])
def test_instants_around_the_ends_of_a_calendar(year, known):
    moment = int(datetime(year, 6, 1, tzinfo=UTC).timestamp()) * 10**9
    if known:
        assert TradingCalendar("XNYS").around(moment, moment)["session"].dt.year().unique().to_list() == [
            year
        ]
    else:
        with pytest.raises(CalendarError, match="from 1970-01-01 to 2200-12-31 only"):
            TradingCalendar("XNYS").around(moment, moment)


def test_the_last_instants_of_a_known_year_are_served():
    last = int(datetime(2201, 1, 1, 3, tzinfo=UTC).timestamp()) * 10**9  # still 2200-12-31 in New York
    assert TradingCalendar("XNYS").around(last, last)["session"].max() == date(2200, 12, 31)


def test_zones_of_calendars_that_begin_late():
    # This calendar does not reach back to 2020.
    assert TradingCalendar("XSAU").time_zone == "Asia/Riyadh"
    assert TradingCalendar("XNYS").time_zone == "America/New_York"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(exchange_calendars.get_calendar_names(include_aliases=False)))
def test_every_calendar_gives_sessions_or_says_why_not(name):
    calendar = TradingCalendar(name)
    for year in (1900, 1975, 2019, 2024, 2030, 2100):
        try:
            table = calendar.sessions(date(year, 1, 1), date(year, 12, 31))
        except CalendarError as error:
            assert name in str(error)
            assert len(str(error)) < 600
            continue
        assert table.height > 200
        assert (table["open"] < table["close"]).all()
        assert (table["close"].head(-1) <= table["open"].tail(-1)).all()
        assert calendar.scheduled(date(year, 1, 1), date(year, 12, 31)).len() >= table.height
        assert "/" in calendar.time_zone or calendar.time_zone == "UTC"
