from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from quantattn.encoders import HashingTextEncoder
from quantattn.errors import DataError, ForecasterError
from quantattn.forecasters.baselines import (
    EventSequences,
    EventsLogisticBaseline,
    EventsRidgeBaseline,
    MeanBaseline,
    SampleTable,
    TargetKind,
)
from quantattn.forecasters.baselines._bag_of_events import decayed_counts, visible_kinds
from quantattn.forecasters.history import EntityHistory
from quantattn.pit.timestamps import instants

from .news import DAY, News, news_of, sides, table_of_news
from .tables import table_of

Event = tuple[str, float, str | None, str | None]  # entity, day, kind, text


def table_of_events(
    events: list[Event], samples: list[tuple[str, float, float | None]], kind: TargetKind = "direction"
) -> SampleTable:
    """Samples with labels known a day later, and the raw events of their entities."""
    times = [int(day * DAY) for _, day, _ in samples]
    rows = [
        (entity, at, y, None if y is None else at + DAY)
        for (entity, _, y), at in zip(samples, times, strict=True)
    ]
    histories = {}
    for entity in {entity for entity, _, _ in samples}:
        own = sorted((e for e in events if e[0] == entity), key=lambda event: event[1])
        at = [int(event[1] * DAY) for event in own]
        frame = pl.DataFrame(
            {
                "entity": pl.Series([entity] * len(own), dtype=pl.String),
                "available_at": instants(np.array(at, np.int64)),
                "kind": pl.Series([event[2] for event in own], dtype=pl.String),
                "text": pl.Series([event[3] for event in own], dtype=pl.String),
            }
        )
        mine = np.array([row for row, sample in enumerate(samples) if sample[0] == entity], np.int64)
        order = mine[np.argsort(np.array(times)[mine], kind="stable")]
        histories[entity] = EntityHistory(
            frame, np.array(at, np.int64), np.zeros((len(own), 0), np.float32), order, np.array(times)[order]
        )
    return replace(table_of(rows, kind=kind, log=False), sequences=EventSequences(histories, ()))


def test_decayed_counts_by_hand() -> None:
    events: list[Event] = [("A", 0, "bar", None), ("A", 2, "news", None), ("A", 4, "bar", None)]
    table = table_of_events(
        events, [("A", 4, 1.0), ("A", 4 + 1 / 86400e9, 1.0), ("A", 0, 1.0), ("A", 6, None)]
    )
    assert table.sequences is not None
    found = decayed_counts(
        table, table.sequences, np.arange(4), kinds=("bar", "news"), words=0, half_lives=(2.0, 1.0)
    )
    # Columns: bar and news at a half-life of two days, then at one day. What arrives at 4 is not seen at 4.
    expected = [
        [0.25, 0.5, 0.0625, 0.25],
        [1.25, 0.5, 1.0625, 0.25],
        [0, 0, 0, 0],
        [0.625, 0.25, 0.265625, 0.0625],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_words_are_hashed_and_decay() -> None:
    table = table_of_events([("A", 0, None, "profit warning"), ("A", 1, None, None)], [("A", 3, 1.0)])
    assert table.sequences is not None
    found = decayed_counts(table, table.sequences, np.array([0]), kinds=(), words=64, half_lives=(3.0,))
    hashed = HashingTextEncoder(64, (1, 1)).transform(pl.Series(["profit warning"]))[0]
    assert np.abs(hashed).sum() > 1
    np.testing.assert_allclose(found[0], 0.5 * hashed, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("AB"), st.integers(0, 12), st.sampled_from(["bar", "news", "odd", None])),
        max_size=25,
    ),
    st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 13)), min_size=1, max_size=8),
)
def test_counts_equal_the_loop(events: list[Any], forecasts: list[tuple[str, int]]) -> None:
    full: list[Event] = [(entity, float(day), kind, None) for entity, day, kind in events]
    table = table_of_events(full, [(entity, float(day), 1.0) for entity, day in forecasts])
    assert table.sequences is not None
    kinds, lives = ("bar", "news"), (1.5, 20.0)
    found = decayed_counts(
        table, table.sequences, np.arange(len(forecasts)), kinds=kinds, words=0, half_lives=lives
    )
    for row, (entity, now) in enumerate(forecasts):
        expected = [
            sum(
                0.5 ** ((now - day) / life)
                for who, day, what, _ in full
                if who == entity and day < now and what == kind
            )
            for life in lives
            for kind in kinds
        ]
        np.testing.assert_allclose(found[row], expected, rtol=1e-12, atol=1e-300)
    seen = {
        what for who, day, what, _ in full if what and any(who == e and day < now for e, now in forecasts)
    }
    assert visible_kinds(table, table.sequences, np.arange(len(forecasts))) == tuple(sorted(seen))


def hand_made(kind: TargetKind = "direction", three: bool = False) -> tuple[SampleTable, np.ndarray]:
    """One count that matters: how many "good" events were seen, long half-life, and its features."""
    draw = np.random.default_rng(3)
    events: list[Event] = []
    samples: list[tuple[str, float, float | None]] = []
    features = []
    for number in range(300):
        entity = f"E{number}"
        good, bad = draw.integers(0, 5, 2).tolist()
        events += [(entity, 0.0, "good", None)] * good + [(entity, 0.0, "bad", None)] * bad
        score = good - bad + draw.normal()
        y = float(np.sign(score)) if kind == "direction" else score
        if three and abs(score) < 0.8:
            y = 0.0
        samples.append((entity, 1.0, y))
        features.append([bad, good])
    return table_of_events(events, samples, kind), np.array(features, float) * 0.5**0.5


@pytest.mark.parametrize("three", [False, True])
def test_logistic_equals_scikit_learn_on_features_made_by_hand(three: bool) -> None:
    table, features = hand_made(three=three)
    rows, rest = np.arange(250), np.arange(250, 300)
    model = EventsLogisticBaseline(penalty=0.02, words=0, half_lives=(2.0,)).fit(table, rows)
    assert model.feature_names_ == ("2 d kind:bad", "2 d kind:good")
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (0.02 * 250), tol=1e-10, max_iter=9999))
    theirs.fit(features[:250], table.outcomes[:250])
    assert model.classes_.tolist() == ([-1, 0, 1] if three else [-1, 1])
    expected = theirs.predict_proba(features[250:]) @ model.classes_
    np.testing.assert_allclose(model.predict(table, rest), expected, atol=1e-7)
    assert (np.abs(expected) < 1).all()
    assert np.ptp(expected) > 1
    assert model.notes() == {}


def test_ridge_equals_scikit_learn_on_features_made_by_hand() -> None:
    table, features = hand_made("return")
    model = EventsRidgeBaseline(penalty=0.1, words=0, half_lives=(2.0,)).fit(table, np.arange(250))
    # Their penalty is on the sum of squares over the rows.
    theirs = make_pipeline(StandardScaler(), Ridge(alpha=0.1 * 250)).fit(features[:250], table.outcomes[:250])
    np.testing.assert_allclose(
        model.predict(table, np.arange(250, 300)), theirs.predict(features[250:]), rtol=1e-9
    )


def test_the_vocabulary_is_that_of_the_training_rows() -> None:
    table = table_of_events(
        [("A", 0, "early", None), ("A", 5, "late", None)],
        [("A", 1, 1.0), ("A", 2, -1.0), ("A", 5, 1.0), ("A", 9, 1.0)],
    )
    model = EventsLogisticBaseline(words=0).fit(table, np.arange(3))
    assert model.kinds_ == ("early",)
    without = table_of_events(
        [("A", 0, "early", None)], [("A", 1, 1.0), ("A", 2, -1.0), ("A", 5, 1.0), ("A", 9, 1.0)]
    )
    assert model.predict(table, np.array([3]))[0] == pytest.approx(model.predict(without, np.array([3]))[0])
    assert EventsLogisticBaseline(words=0).fit(table, np.arange(4)).kinds_ == ("early", "late")


def test_one_direction_is_said_and_forecast() -> None:
    table = table_of_events([("A", 0, "bar", None)], [("A", 1, -1.0), ("A", 2, -1.0), ("A", 3, 1.0)])
    model = EventsLogisticBaseline().fit(table, np.array([0, 1]))
    assert model.predict(table, np.array([2, 0])).tolist() == [-1.0, -1.0]
    assert model.notes() == {"constant training target": -1.0}


def test_nothing_to_learn_from() -> None:
    nothing = table_of_events([("A", 5, "bar", "word")], [("A", 1, 1.0), ("A", 2, -1.0)])
    with pytest.raises(ForecasterError, match="no training row sees an event with a kind or a word"):
        EventsLogisticBaseline().fit(nothing, np.arange(2))
    with pytest.raises(ForecasterError, match="words=0, and no training row sees an event with a kind"):
        EventsLogisticBaseline(words=0).fit(nothing, np.arange(2))
    one = table_of_events([("A", 0, "bar", None), ("B", 0, "bar", None)], [("A", 1, 1.0), ("B", 1, -1.0)])
    with pytest.raises(ForecasterError, match="all training rows see the same events"):
        EventsLogisticBaseline().fit(one, np.arange(2))
    alone = table_of_events([("A", 0, "bar", None)], [("A", 1, 0.7)], "return")
    assert EventsRidgeBaseline().fit(alone, np.arange(1)).predict(alone, np.arange(1)).tolist() == [0.7]


def test_other_targets_are_refused_by_name() -> None:
    table, _ = hand_made("return")
    with pytest.raises(ForecasterError, match="the target is a return; use events_ridge"):
        EventsLogisticBaseline().fit(table, np.arange(9))
    sizes = table_of_events([("A", 0, "bar", None)], [("A", 1, 0.3), ("A", 2, -1.0)])
    with pytest.raises(ForecasterError, match=r"the target holds \[-1.0, 0.3\], not only the directions"):
        EventsLogisticBaseline().fit(sizes, np.arange(2))


@pytest.mark.parametrize(
    "parameters",
    [
        {"words": -1},
        {"words": 2.5},
        {"half_lives": ()},
        {"half_lives": (0.0,)},
        {"half_lives": (math.nan,)},
        {"half_lives": ("7",)},
        {"half_lives": 7.0},
        {"penalty": None},
        {"penalty": 0.0},
        {"penalty": math.inf},
    ],
)
def test_impossible_parameters(parameters: dict[str, Any]) -> None:
    table, _ = hand_made()
    for kind in (EventsLogisticBaseline, EventsRidgeBaseline):
        with pytest.raises(ForecasterError, match=f"{next(iter(parameters))}="):
            kind(**parameters).fit(replace(table, kind="direction"), np.arange(9))


def test_a_table_without_its_events() -> None:
    table, _ = hand_made()
    with pytest.raises(DataError, match=r"reads the events behind the samples.*EventSequences.of\(history\)"):
        EventsLogisticBaseline().fit(replace(table, sequences=None), np.arange(9))
    assert table.sequences is not None
    with pytest.raises(DataError, match="no events of 'E5'"):
        some = {name: own for name, own in table.sequences.entities.items() if name != "E5"}
        EventsLogisticBaseline().fit(replace(table, sequences=EventSequences(some, ())), np.arange(9))
    fitted = EventsLogisticBaseline().fit(table, np.arange(9))
    with pytest.raises(DataError, match="reads the events"):
        fitted.predict(replace(table, sequences=None), np.arange(9))


def gains(news: News) -> np.ndarray:
    """Squared errors of the mean less those of the bag of events."""
    table = table_of_news(news, cutoff=200 * DAY)
    train, _, test = sides(table, 200 * DAY)
    test = test[np.isfinite(table.outcomes[test])]
    ours = EventsLogisticBaseline() if news.kind == "direction" else EventsRidgeBaseline()
    errors = [m.fit(table, train).predict(table, test) - table.outcomes[test] for m in (MeanBaseline(), ours)]
    assert test.size > 300
    return errors[0] ** 2 - errors[1] ** 2


def t_statistic(values: np.ndarray) -> float:
    return float(values.mean() / (values.std(ddof=1) / math.sqrt(values.size)))


@pytest.mark.parametrize("kind", ["direction", "return"])
def test_it_beats_the_mean_where_words_drive_the_target(kind: TargetKind) -> None:
    found = gains(news_of(kind, days=400, drive=2.0))
    assert t_statistic(found) > 6
    assert found.mean() > 0.3


@pytest.mark.parametrize("kind", ["direction", "return"])
def test_it_does_not_where_they_say_nothing(kind: TargetKind) -> None:
    assert t_statistic(gains(news_of(kind, days=400, drive=0.0))) < 2
