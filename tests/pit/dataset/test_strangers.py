"""Entities without events, members without prices, and names that are nearly the same."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from quantattn.errors import EventDataError, PriceDataError, UsageError
from quantattn.pit import PointInTimeDataset, Universe
from tests.pit.build import clock, event_log, labels, times

MARKET: dict[str, Any] = {"available": 1, "entity": None}


def made_of(owners: list[str | None], named: list[str], **options: Any) -> PointInTimeDataset:
    return PointInTimeDataset(
        event_log([{"available": 1, "entity": owner} for owner in owners]),
        clock([2]),
        labels([(name, 2) for name in named], named),
        **options,
    )


def test_market_wide_events_alone_are_something_to_read() -> None:
    made = made_of([None], ["QQQ", "SPY"])
    assert made.samples["n_visible"].to_list() == [1, 1]
    assert any("no events of their own" in note and "scope='market'" in note for note in made.notes)


def test_entities_without_own_events_beside_others_are_noted() -> None:
    made = made_of([None, "GOOG"], ["GOOG", "GOOGL", "QQQ"])
    assert made.samples["n_visible"].to_list() == [2, 1, 1]
    (note,) = [note for note in made.notes if "of their own" in note]
    assert "2 of 3 entities have no events of their own" in note
    assert "'GOOGL', 'QQQ'" in note
    assert "scope='market'" in note
    assert not [n for n in made_of([None, "GOOG", "QQQ"], ["GOOG", "QQQ"]).notes if "of their own" in n]


@pytest.mark.parametrize(
    ("told", "meant"), [("brk.b", "BRK.B"), ("BRK B", "BRK.B"), (" BRK.B", "BRK.B"), ("MSFT.", "MSFT")]
)
def test_a_likely_misspelling_is_found_all_the_same(told: str, meant: str) -> None:
    with pytest.raises(EventDataError, match=r"labels but no events of its own.*did you mean") as caught:
        made_of([None, "SPY", told], [meant, "SPY"])
    assert repr(told) in str(caught.value)
    assert repr(meant) in str(caught.value)


def test_a_name_that_differs_in_case_or_space_alone_is_refused_where_both_have_prices() -> None:
    for other in ("spy", "SPY ", "S PY"):
        with pytest.raises(EventDataError, match="did you mean 'SPY'"):
            made_of([None, "SPY"], ["SPY", other])


def test_without_market_wide_events_nothing_is_there_to_read() -> None:
    with pytest.raises(EventDataError, match=r"1 entities have labels but no events, first \['QQQ'\]"):
        made_of(["SPY"], ["QQQ", "SPY"])
    with pytest.raises(EventDataError, match=r"first \['QQQ'\].*scope='entity'.*scope='market'"):
        made_of([None], ["QQQ"], scope="entity")
    with pytest.raises(PriceDataError, match=r"first \['ZZZZ'\]"):
        made_of([None, "SPY", "ZZZZ"], ["QQQ", "SPY"])


def universe(*names: str, start: int = 0, end: int = 9) -> Universe:
    spells = {"entity": list(names), "start": times([start] * len(names)), "end": times([end] * len(names))}
    return Universe.from_frame(pl.DataFrame(spells))


def test_members_without_prices_are_told() -> None:
    made = made_of(["A", "B"], ["A", "B"], universe=universe("A", "B", "LEHMAN", "ENRON"))
    (note,) = [note for note in made.notes if "prices" in note]
    assert note.startswith("2 of 4 members of the universe never have prices: ENRON, LEHMAN")
    assert "a universe (2 of 4 members never have prices)" in repr(made)
    whole = made_of(["A", "B"], ["A", "B"], universe=universe("A", "B"))
    assert whole.notes == ()
    assert ", a universe, " in repr(whole)


def test_members_at_no_forecast_do_not_count() -> None:
    spells = pl.concat([universe("A").frame, universe("GONE", end=2).frame, universe("NEW", start=3).frame])
    made = made_of(["A"], ["A"], universe=Universe.from_frame(spells))
    assert made.notes == ()
    # Membership begins at its start, so a member at the very forecast counts.
    spells = pl.concat([universe("A").frame, universe("NEW", start=2).frame])
    made = made_of(["A"], ["A"], universe=Universe.from_frame(spells))
    assert "1 of 2 members of the universe never have prices: NEW" in made.notes[0]


def test_many_members_without_prices_are_counted_and_some_named() -> None:
    made = made_of(["A"], ["A"], universe=universe("A", *(f"X{number:02d}" for number in range(20))))
    assert made.notes[0].startswith("20 of 21 members of the universe never have prices: X00, X01,")
    assert "X19" not in made.notes[0]


@pytest.mark.parametrize(
    ("place", "name", "remedy"),
    [(0, "events", "EventLog"), (1, "clock", "ForecastClock"), (2, "labels", "Labels")],
)
@pytest.mark.parametrize("wrong", [None, 3, pl.DataFrame({"entity": ["A"]})])
def test_parts_of_another_type(place: int, name: str, remedy: str, wrong: Any) -> None:
    parts: list[Any] = [event_log([{"available": 1}]), clock([2]), labels([("A", 2)], ("A",))]
    parts[place] = wrong
    with pytest.raises(UsageError, match=rf"{name} is .*{type(wrong).__name__}.*{remedy}"):
        PointInTimeDataset(*parts)


def test_a_universe_of_another_type() -> None:
    with pytest.raises(UsageError, match=r"universe is of type list, not Universe.*Universe\.from_frame"):
        made_of(["A"], ["A"], universe=["A"])
