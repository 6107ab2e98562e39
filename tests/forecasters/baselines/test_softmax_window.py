from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.errors import DataError, ForecasterError, InformationSetError
from quantattn.evaluation.forecast_table import check_information_sets
from quantattn.forecasters import History, encode, fit_encoders, forecast_batch
from quantattn.forecasters.baselines import SampleTable, SoftmaxWindowBaseline, windowed_information
from quantattn.forecasters.baselines.windows import windowed_tokens
from quantattn.pit import information_hash
from quantattn.pit.timestamps import instants

from .news import DAY, FEATURES, News, news_of, sides, table_of_news
from .small import SMALL, made

CUTOFF = 50 * DAY


def table(news: News | None = None) -> SampleTable:
    return table_of_news(news or news_of("return"), cutoff=CUTOFF)


def visible(frame: SampleTable, row: int) -> pl.DataFrame:
    assert frame.sequences is not None
    own = frame.sequences.own(frame.samples["entity"][row]).events
    return own.filter(pl.col("available_at") < frame.samples["forecast_time"][row])


def test_the_information_set_is_that_of_the_last_events() -> None:
    whole = table()
    rows = np.array([len(whole) - 1, 3, 40, 0])
    found = windowed_information(whole, rows, 6)
    assert found.columns == ["n_visible", "max_available_at", "info_hash"]
    assert found.schema == whole.samples.select(found.columns).schema
    for place, row in enumerate(rows.tolist()):
        seen = visible(whole, row)
        last = seen.tail(6)
        assert found["n_visible"][place] == last.height
        assert found["info_hash"][place] == information_hash(last, FEATURES)
        assert found["max_available_at"][place] == (seen["available_at"].max() if seen.height else None)
    assert found["n_visible"].to_list()[::2] == [6, 6]
    assert 0 < found["n_visible"][1] < 6
    assert found["n_visible"][3] == 0


def test_a_window_that_holds_everything_is_the_same_information_set() -> None:
    whole = table()
    everything = windowed_information(whole, np.arange(len(whole)), 10_000)
    assert everything.equals(whole.samples.select(everything.columns))
    small = windowed_information(whole, np.arange(len(whole)), 4)
    same = small["info_hash"] == whole.samples["info_hash"]
    assert same.to_list() == (whole.samples["n_visible"] <= 4).to_list()


def test_what_is_no_window() -> None:
    whole = table()
    with pytest.raises(DataError, match="window=0"):
        windowed_information(whole, np.arange(3), 0)
    with pytest.raises(DataError, match=r"window=2\.5"):
        windowed_information(whole, np.arange(3), 2.5)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="outside the table"):
        windowed_information(whole, np.array([-1]), 5)
    with pytest.raises(DataError, match="sequences=None"):
        windowed_information(replace(whole, sequences=None), np.arange(3), 5)


def test_tokens_of_a_window() -> None:
    whole = table()
    assert whole.sequences is not None
    tokens = whole.sequences.tokens_of("A")
    # The first event of the window at 60 to 69 did not always come with the one before it.
    places = np.array([2, *range(60, 70)])
    elapsed = []
    for window, place in zip(
        windowed_tokens(whole.sequences, "A", tokens.rows[places], 5), places, strict=True
    ):
        count = int(tokens.counts[place])
        first = max(0, count - 5)
        assert window.counts.tolist() == [count - first] == [len(window.events)]
        assert np.array_equal(window.events[:, :-1], tokens.events[first:count, :-1])
        assert np.array_equal(window.events[1:, -1], tokens.events[first + 1 : count, -1])
        assert window.events[0, -1] == 0.0
        elapsed.append(tokens.events[first, -1])
        assert window.rows.tolist() == [tokens.rows[place]]
        assert np.array_equal(window.queries[0, -3:], tokens.queries[place, -3:])
    assert first > 0
    assert max(elapsed) > 0.0


def test_an_as_of_feature_leaves_with_its_event() -> None:
    # tone comes from market-wide events once a week, log_return from a bar a day.
    whole = table()
    assert whole.sequences is not None
    tokens = whole.sequences.tokens_of("A")
    windows = windowed_tokens(whole.sequences, "A", tokens.rows, 4)
    log_return, tone = (FEATURES.index(name) for name in ("log_return", "tone"))
    gone = kept = 0
    for window, query, row in zip(windows, tokens.queries, tokens.rows.tolist(), strict=True):
        seen = visible(whole, row)
        inside = seen.tail(4)
        assert window.queries[0, log_return] == query[log_return]
        if inside["tone"].is_not_null().any():
            kept += 1
            assert window.queries[0, tone] == query[tone]
        else:
            gone += 1
            assert window.queries[0, tone] == 0.0
    assert kept > 10
    assert gone > 10
    assert (tokens.queries[:, tone] != 0).sum() > kept


def test_what_left_the_window_changes_no_bit() -> None:
    news = news_of("return")
    whole = table(news)
    train, held, _ = sides(whole, 60 * DAY, 10 * DAY)
    model = made("softmax_window").fit(whole, train, validation=held)
    row = len(whole) - 1
    edge = visible(whole, row).tail(6)["available_at"].to_physical()[0]
    for offset, same in ((0, True), (1, False)):
        before = pl.col("available_at") < pl.lit(instants([edge + offset])).first()
        events = news.events.with_columns(
            pl.when(before).then(pl.lit("altogether other")).otherwise("text").alias("text"),
            pl.when(before).then(pl.lit(0.5)).otherwise("log_return").alias("log_return"),
            pl.when(before).then(pl.lit(3.0)).otherwise("tone").alias("tone"),
        )
        # The encoders stay those of the fold: only what the forecast reads is changed.
        other = table_with_encoders_of(whole, News(events, news.labels, news.kind))
        assert (model.predict(other, np.array([row])) == model.predict(whole, np.array([row]))).all() == same


def table_with_encoders_of(whole: SampleTable, news: News) -> SampleTable:
    assert whole.sequences is not None
    other = table(news)
    assert other.sequences is not None
    original = news_of("return")

    def history(of: SampleTable, events: pl.DataFrame) -> History:
        assert of.sequences is not None
        return History(of.samples, of.as_of, events, FEATURES, dict(of.sequences.entities))

    encoders = fit_encoders(history(whole, original.events), CUTOFF, text_width=4)
    tokens = encode(history(other, news.events), encoders)
    return replace(other, sequences=other.sequences.with_tokens(tokens, encoders))


def test_streamed_forecasts_are_those_of_the_batch() -> None:
    whole = table()
    train, held, test = sides(whole, 60 * DAY, 10 * DAY)
    model = SoftmaxWindowBaseline(**SMALL["softmax_window"]).fit(whole, train, validation=held)
    assert whole.sequences is not None
    batch: dict[int, float] = {}
    for entity in "AB":
        rows = test[(whole.samples["entity"].gather(test) == entity).to_numpy()]
        batch |= forecast_batch(model.network_, windowed_tokens(whole.sequences, entity, rows, 6), 7)
    expected = model.target_.invert(np.array([batch[row] for row in test.tolist()]))
    np.testing.assert_allclose(model.predict(whole, test), expected, rtol=1e-4, atol=1e-5)
    assert np.ptp(expected) > 1e-3
    assert model.notes()["information set"] == "the last 6 visible events only"


def test_evaluation_refuses_to_compare_it() -> None:
    whole = table()
    rows = np.flatnonzero((whole.samples["n_visible"] > 6).to_numpy())[:5]
    columns = ["entity", "forecast_time", "horizon", "n_visible", "info_hash"]
    full = whole.samples[rows].select(columns).with_columns(model=pl.lit("linear"))
    ours = full.with_columns(windowed_information(whole, rows, 6).drop("max_available_at")).with_columns(
        model=pl.lit("softmax_window")
    )
    both = pl.concat([full, ours.select(full.columns)]).with_columns(study=pl.lit("s"), seed=pl.lit(0))
    with pytest.raises(InformationSetError, match=r"differs between models on 5 of 5 rows.*softmax_window"):
        check_information_sets(both)
    check_information_sets(both.filter(pl.col("model") == "softmax_window"))


@pytest.mark.parametrize(
    "parameters",
    [
        {"window": 0},
        {"window": 1.5},
        {"heads": 3},
        {"half_lives": (1.0,)},
        {"half_lives": None},
        {"epochs": 0},
        {"seed": -1},
    ],
)
def test_impossible_parameters(parameters: dict[str, Any]) -> None:
    with pytest.raises(ForecasterError, match=f"softmax_window: .*{next(iter(parameters))}"):
        made("softmax_window", **parameters).fit(table(), np.arange(30))


def test_a_constant_target_is_said_and_forecast() -> None:
    news = news_of("return")
    whole = table(News(news.events, news.labels.with_columns(y_true=pl.lit(0.3)), news.kind))
    model = made("softmax_window").fit(whole, np.arange(30))
    assert model.predict(whole, np.arange(40)).tolist() == [0.3] * 40
    assert model.notes()["constant training target"] == 0.3


def test_a_first_forecast_without_events() -> None:
    whole = table()
    empty = np.flatnonzero((whole.samples["n_visible"] == 0).to_numpy())
    assert empty.size
    model = made("softmax_window").fit(whole, np.arange(30))
    assert np.isfinite(model.predict(whole, empty)).all()
    assert (whole.samples["forecast_time"][empty] <= instants([12 * DAY]).item()).all()
