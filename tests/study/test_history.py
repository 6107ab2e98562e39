from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from quantattn.errors import DataError, EventDataError, LabelError, PriceDataError
from quantattn.files import hash_file
from quantattn.pit import PointInTimeDataset
from quantattn.pit.timestamps import instants, nanoseconds_of
from quantattn.study import Study
from quantattn.study.history import (
    Sources,
    bar_table,
    build_dataset,
    build_events,
    load_sources,
    rebuild_dataset,
    target_description,
    target_kind,
)
from tests.study.small import (
    TICKERS,
    events_table,
    own_study,
    packaged_study,
    prices_table,
    write_own_files,
)


def _events_alone(folder: Path) -> Study:
    """A study of own prices and own events, without events made from prices."""
    return own_study(folder, data={"market_events": False}, models=["linear", "mean"])


class TestTargets:
    @pytest.mark.parametrize(
        ("target", "kind", "words"),
        [
            ({"name": "realised_variance"}, "variance", "log realised variance of the next 5 sessions"),
            (
                {"name": "realised_variance", "log": False, "horizon": 1},
                "variance",
                "realised variance of the next session",
            ),
            ({"name": "simple_return", "horizon": 2}, "return", "simple return of the next 2 sessions"),
            ({"name": "log_return", "horizon": 1}, "return", "log return of the next session"),
            ({"name": "direction"}, "direction", "direction of the next 5 sessions"),
        ],
    )
    def test_kind_and_words(self, target: dict[str, Any], kind: str, words: str) -> None:
        study = packaged_study(target=target)
        assert target_kind(study) == kind
        assert target_description(study) == words

    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            ({"name": "simple_return", "horizon": 1}, lambda a, b: b / a - 1),
            ({"name": "direction", "horizon": 1}, lambda a, b: float((b > a) - (b < a))),
            ({"name": "direction", "horizon": 1, "dead_band": 10.0}, lambda a, b: 0.0),
        ],
    )
    def test_the_target_is_measured_from_the_first_close_after_the_forecast(
        self, tmp_path: Path, target: dict[str, Any], expected: Any
    ) -> None:
        study = own_study(write_own_files(tmp_path), target=target)
        samples = build_dataset(study, load_sources(study)).samples
        closes = {(day, name): close for day, name, close in prices_table().iter_rows()}
        days = sorted({day for day, _ in closes})
        for row in samples.head(40).iter_rows(named=True):
            # A quarter of an hour before the close of a session: that close is the entry.
            entry = days.index(row["forecast_time"].date())
            first, second = (closes[days[place], row["entity"]] for place in (entry, entry + 1))
            assert row["y_true"] == pytest.approx(expected(first, second), abs=1e-12)


class TestSources:
    def test_packaged_data_is_hashed_by_its_values_and_cut_to_the_dates(self) -> None:
        study = packaged_study(
            data={"entities": None, "start": "2021-06-01", "end": "2021-12-31", "max_entities": 2}
        )
        sources = load_sources(study)
        sessions = sources.prices.frame["session"]
        assert (sessions.min(), sessions.max()) == (date(2021, 6, 1), date(2021, 12, 31))
        assert sources.prices.entities == ("AAPL", "AMD")
        assert sources.index is not None
        assert sources.index.frame["session"].min() == date(2021, 6, 1)
        assert set(sources.hashes) == {"packaged:us_equities", "packaged:sp500_index"}
        assert all(len(digest) == 64 for digest in sources.hashes.values())
        assert load_sources(study).hashes == sources.hashes

    def test_own_files_are_hashed_by_their_bytes(self, tmp_path: Path) -> None:
        study = own_study(write_own_files(tmp_path))
        assert load_sources(study).hashes == {
            str(tmp_path / name): hash_file(tmp_path / name) for name in ("prices.csv", "events.csv")
        }

    def test_rejected_rows_are_counted_by_reason(self, tmp_path: Path) -> None:
        bad = pl.DataFrame(
            [("", "ANT", "x", 0.0), ("soon", "ANT", "y", 0.0), ("2021-05-03T10:00:00", "", "z", 0.0)],
            schema=["published", "ticker", "headline", "score"],
            orient="row",
        )
        write_own_files(tmp_path, events=pl.concat([events_table(), bad]))
        sources = load_sources(own_study(tmp_path))
        assert sources.rejected == {"missing_time": 1, "null_entity": 1, "unreadable_time": 1}

    def test_rejects_are_still_counted_when_instruments_are_chosen(self, tmp_path: Path) -> None:
        bad = events_table().head(1).with_columns(published=pl.lit("soon"))
        write_own_files(tmp_path, events=pl.concat([events_table(), bad]))
        study = own_study(tmp_path, data={"entities": ["BEE"]})
        sources = load_sources(study)
        assert sources.rejected == {"unreadable_time": 1}
        assert set(sources.own_events[0].frame["entity"]) == {"BEE"}

    def test_naive_times_are_read_in_their_zone_and_dates_at_the_next_open(self, tmp_path: Path) -> None:
        events = pl.DataFrame(
            {
                # A Friday in summer and one in winter; the day alone is known at Monday's open.
                "published": ["2021-07-02T16:00:00", "2021-12-03T16:00:00", "2021-12-03"],
                "ticker": ["ANT", "ANT", "ANT"],
                "headline": ["a", "b", "c"],
                "score": [0.0, 0.0, 0.0],
            }
        )
        (log,) = load_sources(own_study(write_own_files(tmp_path, events=events))).own_events
        by_text = {text: at.isoformat() for text, at in log.frame.select("text", "available_at").iter_rows()}
        assert by_text == {
            "a": "2021-07-02T20:00:00+00:00",
            "b": "2021-12-03T21:00:00+00:00",
            "c": "2021-12-06T14:30:00+00:00",
        }

    def test_a_cut_keeps_what_was_available_strictly_before_it(self, tmp_path: Path) -> None:
        sources = load_sources(own_study(write_own_files(tmp_path)))
        (log,) = sources.own_events
        moment = int(nanoseconds_of(log.frame["available_at"])[50])
        before = int((nanoseconds_of(log.frame["available_at"]) < moment).sum())
        ties = int((nanoseconds_of(log.frame["available_at"]) == moment).sum())
        assert len(sources.cut(moment).own_events[0]) == before
        # One nanosecond later it is there: no rounding to microseconds on the way.
        assert len(sources.cut(moment + 1).own_events[0]) == before + ties
        known = nanoseconds_of(sources.prices.frame["available_at"])
        bar = int(known[30])
        assert sources.cut(bar).prices.frame.height == int((known < bar).sum())
        assert sources.cut(bar + 1).prices.frame.height == int((known <= bar).sum())

    @pytest.mark.parametrize(
        ("data", "error", "parts"),
        [
            ({"entities": ["ANT", "BE"]}, DataError, ["data.entities", "'BE'", "'BEE'", "ANT, BEE"]),
            ({"entities": ["ANT"], "end": "2020-12-31"}, DataError, ["no bars to 2020-12-31"]),
            (
                {"entities": ["CAT"], "start": "2021-02-01"},
                DataError,
                ["'CAT'", "no prices for from 2021-02-01", "use ANT, BEE"],
            ),
            ({"end": "2020-12-31"}, DataError, ["no bars to 2020-12-31", "data.end"]),
            (
                {"start": "2030-01-01", "end": "2031-01-01"},
                DataError,
                ["no bars from 2030-01-01 to 2031-01-01"],
            ),
        ],
    )
    def test_what_the_prices_lack_is_named(
        self, tmp_path: Path, data: dict[str, Any], error: type[Exception], parts: list[str]
    ) -> None:
        write_own_files(tmp_path)
        with pytest.raises(error) as caught:
            load_sources(own_study(tmp_path, data=data))
        for part in parts:
            assert part in str(caught.value)
        assert "None" not in str(caught.value)

    def test_a_gap_is_refused_or_dropped_as_the_study_says(self, tmp_path: Path) -> None:
        gap = (pl.col("entity") == "BEE") & (pl.col("date") == date(2021, 9, 1))
        write_own_files(tmp_path, prices=prices_table().filter(~gap))
        study = own_study(tmp_path)
        with pytest.raises(PriceDataError, match="BEE") as caught:
            load_sources(study)
        message = str(caught.value)
        assert message.startswith(f"data.prices ({tmp_path / 'prices.csv'}): 1 bars are missing")
        assert "set data.gaps: drop to" in message
        assert "gaps='drop'" not in message
        dropping = own_study(tmp_path, data={"gaps": "drop"})
        sources = load_sources(dropping)
        assert sources.prices.gaps.rows() == [("BEE", date(2021, 9, 1))]
        dataset = build_dataset(dropping, sources)
        assert dataset.dropped_counts["gap"] > 0
        near = dataset.samples.filter(
            (pl.col("entity") == "BEE") & (pl.col("forecast_time").dt.date() == date(2021, 8, 27))
        )
        assert near.is_empty()

    def test_an_index_of_other_years_is_refused(self, tmp_path: Path) -> None:
        bars = prices_table(("INDEX",)).drop("entity")
        write_own_files(tmp_path, prices=prices_table().filter(pl.col("date") > date(2021, 6, 1)))
        bars.filter(pl.col("date") < date(2021, 5, 1)).write_csv(tmp_path / "index.csv")
        study = own_study(tmp_path, data={"index": "index.csv"})
        with pytest.raises(DataError, match=r"index\.csv has no bar in any session of .*prices\.csv"):
            load_sources(study)
        bars.write_csv(tmp_path / "index.csv")
        assert load_sources(study).index is not None

    def test_events_of_an_instrument_without_prices_are_refused_unless_left_out(self, tmp_path: Path) -> None:
        stranger = events_table().head(3).with_columns(ticker=pl.lit("COW"))
        write_own_files(tmp_path, events=pl.concat([events_table(), stranger]))
        study = own_study(tmp_path)
        with pytest.raises(PriceDataError, match=r"data\.events\[0\]\.entity: .*COW.* in data\.entities"):
            load_sources(study)
        chosen = own_study(tmp_path, data={"entities": list(TICKERS)})
        assert build_dataset(chosen, load_sources(chosen)).entities == TICKERS

    def test_an_instrument_without_any_event_is_refused_without_market_events(self, tmp_path: Path) -> None:
        write_own_files(tmp_path, events=events_table().filter(pl.col("ticker") == "ANT"))
        study = _events_alone(tmp_path)
        with pytest.raises(EventDataError, match="BEE"):
            build_dataset(study, load_sources(study))

    def test_a_fault_in_the_index_names_its_file(self, tmp_path: Path) -> None:
        bars = prices_table(("INDEX",)).drop("entity").filter(pl.col("date") != date(2021, 9, 1))
        write_own_files(tmp_path)
        bars.write_csv(tmp_path / "index.csv")
        with pytest.raises(PriceDataError) as caught:
            load_sources(own_study(tmp_path, data={"index": "index.csv"}))
        assert str(caught.value).startswith(f"data.index ({tmp_path / 'index.csv'}): ")

    def test_too_short_a_history_has_no_sample(self, tmp_path: Path) -> None:
        write_own_files(tmp_path, prices=prices_table().filter(pl.col("date") < date(2021, 1, 12)))
        study = own_study(tmp_path)
        with pytest.raises(LabelError, match="no sample"):
            build_dataset(study, load_sources(study))


def _with_own(folder: Path, *, kind: str = "news", feature: str = "score", **data: Any) -> Study:
    """A study of own prices and of own events that have a kind and one feature."""
    events = events_table().with_columns(sort=pl.lit(kind)).rename({"score": feature})
    write_own_files(folder, events=events)
    source = {
        "path": "events.csv",
        "event_time": "published",
        "entity": "ticker",
        "kind": "sort",
        "features": [feature],
        "time_zone": "America/New_York",
    }
    return own_study(folder, data={"events": [source], **data}, models=["linear", "mean"])


_KINDS = (
    "bar",
    "move",
    "high_52w",
    "low_52w",
    "volatility_regime",
    "index_move",
    "index_volatility_regime",
    "index_drawdown",
)
_FEATURES = (
    "log_return",
    "log_rv_1",
    "log_rv_7",
    "distance_high",
    "distance_low",
    "market_log_return",
    "market_log_rv_22",
    "market_drawdown",
    "magnitude",
)


class TestOwnEventsBesideThoseOfPrices:
    """Own events must not pass for the bars that baselines read."""

    @pytest.mark.parametrize("kind", _KINDS)
    def test_a_kind_that_prices_give_is_refused(self, tmp_path: Path, kind: str) -> None:
        with pytest.raises(DataError) as caught:
            load_sources(_with_own(tmp_path, kind=kind))
        message = str(caught.value)
        for part in ("data.events[0].kind", "'sort'", str(tmp_path / "events.csv"), repr(kind), "rename"):
            assert part in message

    @pytest.mark.parametrize("feature", _FEATURES)
    def test_a_feature_that_prices_give_is_refused(self, tmp_path: Path, feature: str) -> None:
        with pytest.raises(DataError) as caught:
            load_sources(_with_own(tmp_path, feature=feature))
        message = str(caught.value)
        for part in ("data.events[0].features[0]", str(tmp_path / "events.csv"), repr(feature), "rename"):
            assert part in message

    @pytest.mark.parametrize(("kind", "feature"), [("bars", "log_returns"), ("news", "market_cap")])
    def test_names_that_are_only_alike_leave_the_bars_as_they_are(
        self, tmp_path: Path, kind: str, feature: str
    ) -> None:
        study = _with_own(tmp_path, kind=kind, feature=feature)
        assert bar_table(build_dataset(study, load_sources(study))).height == prices_table().height

    def test_without_market_events_every_name_is_free(self, tmp_path: Path) -> None:
        study = _with_own(tmp_path, kind="bar", feature="log_return", market_events=False)
        assert set(load_sources(study).own_events[0].frame["kind"]) == {"bar"}

    def test_nothing_that_prices_give_is_missing_from_the_lists(self) -> None:
        study = packaged_study(data={"entities": ["AAPL"], "start": "2007-01-01"})
        events = build_events(study, load_sources(study))
        assert set(events.frame["kind"]) == set(_KINDS)
        assert {re.sub(r"\d+", "#", name) for name in events.features} == {
            re.sub(r"\d+", "#", name) for name in _FEATURES
        }


class TestBars:
    def test_they_are_the_bar_events_of_the_scope(self, tmp_path: Path) -> None:
        for scope, expected in (("entity+market", True), ("entity", True), ("market", False)):
            study = packaged_study(data={"entities": ["AAPL"], "scope": scope}, models=["linear", "mean"])
            dataset = build_dataset(study, load_sources(study))
            bars = bar_table(dataset)
            assert bars.columns == ["entity", "available_at", "log_return"]
            told = dataset.events.frame.filter(pl.col("kind") == "bar")
            assert bars.height == (told.height if expected else 0)

    def test_without_market_events_there_are_none(self, tmp_path: Path) -> None:
        study = _events_alone(write_own_files(tmp_path))
        bars = bar_table(build_dataset(study, load_sources(study)))
        assert bars.schema == {
            "entity": pl.String,
            "available_at": pl.Datetime("ns", "UTC"),
            "log_return": pl.Float64,
        }
        assert bars.is_empty()


class TestRebuilding:
    """A dataset built anew from cut files is the whole one, cut."""

    @staticmethod
    def _same(study: Study, sources: Sources, whole: PointInTimeDataset, moment: int) -> None:
        anew, cut = rebuild_dataset(study, sources, whole, moment), whole.cut(moment)
        assert anew.events.frame.equals(cut.events.frame)
        assert anew.samples.equals(cut.samples)
        assert anew.as_of_features().equals(cut.as_of_features())

    @pytest.mark.parametrize("every", ["session", "week", "month"])
    @pytest.mark.parametrize("offset", ["-15min", "60s", "60000000001ns"])
    def test_at_any_forecast(self, tmp_path: Path, every: str, offset: str) -> None:
        study = own_study(write_own_files(tmp_path), clock={"every": every, "offset": offset})
        sources = load_sources(study)
        whole = build_dataset(study, sources)
        moments = nanoseconds_of(whole.samples["forecast_time"].unique().sort())
        for place in (0, 1, len(moments) // 2, len(moments) - 1):
            self._same(study, sources, whole, int(moments[place]))

    def test_targets_known_by_then_are_measured_anew_and_the_others_kept(self, tmp_path: Path) -> None:
        study = own_study(write_own_files(tmp_path))
        sources = load_sources(study)
        whole = build_dataset(study, sources)
        doctored = whole.labels.frame.with_columns(pl.col("y_true") + 1.0)
        lying = PointInTimeDataset(
            whole.events, whole.clock, type(whole.labels)(**{**vars(whole.labels), "frame": doctored})
        )
        moment = int(nanoseconds_of(whole.samples["forecast_time"])[100])
        anew = rebuild_dataset(study, sources, lying, moment).samples
        known = anew["label_available_at"] < instants([moment])[0]
        honest = whole.cut(moment).samples
        assert 0 < known.sum() < anew.height
        assert anew.filter(known)["y_true"].equals(honest.filter(known)["y_true"])
        assert anew.filter(~known)["y_true"].equals(honest.filter(~known)["y_true"] + 1.0)

    def test_events_of_a_chosen_instrument_that_is_listed_later_are_kept(self, tmp_path: Path) -> None:
        late = (pl.col("entity") == "BEE") & (pl.col("date") < date(2021, 12, 1))
        write_own_files(tmp_path, prices=prices_table().filter(~late))
        study = own_study(tmp_path, data={"entities": list(TICKERS)})
        sources = load_sources(study)
        whole = build_dataset(study, sources)
        first = int(nanoseconds_of(whole.samples["forecast_time"])[5])
        assert "BEE" not in sources.cut(first).prices.entities
        assert "BEE" in set(whole.cut(first).events.frame["entity"])
        self._same(study, sources, whole, first)
