"""A fold's test span through the live code: bits of the token path, information sets of the dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.errors import ForecasterError, InformationSetError
from quantattn.forecasters import NetworkStream, StreamingForecaster, replay
from quantattn.forecasters.config import Attention
from quantattn.forecasters.history import read_history
from quantattn.pit import EventLog, PointInTimeDataset
from quantattn.walkforward import Fold
from quantattn.walkforward.fold import PURGED_SCHEMA
from quantattn.walkforward.live import events_for, stream_test
from quantattn.walkforward.table import SEEN

from ..forecasters.streaming.worlds import CUTOFF, World, fitted_of, world
from ..pit.build import at, clock, event_log, labels
from .market import market
from .test_networks import fitted, tokens_of

TWINS: tuple[Attention, ...] = ("linear", "softmax")
SCOPES = ("entity+market", "entity", "market")


def fold_of(given: World, rows: Sequence[int] | None = None) -> Fold:
    """A fold whose test rows are some of a world's, by default all that come after its cutoff."""
    times = given.history.samples["forecast_time"].to_physical().to_numpy()
    test = np.flatnonzero(times >= at(CUTOFF)) if rows is None else np.array(rows, np.int64)
    nothing = np.empty(0, np.int64)
    return Fold(
        index=4,
        train=nothing,
        validation=nothing,
        test=test,
        purged=pl.DataFrame(schema=PURGED_SCHEMA),
        fit_time=given.fitted.fit_time,
        validation_time=given.fitted.fit_time,
        train_span=(at(0), at(1)),
        validation_span=None,
        test_span=(int(times[test].min()), int(times[test].max())),
    )


# --- the same bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("attention", TWINS)
def test_live_forecasts_are_those_of_the_token_path(attention: Attention, scope: str) -> None:
    """Of random logs with ties, revisions, market-wide events and entities that come late or never."""
    for seed in range(4):
        given = world(seed, attention, scope)
        fold = fold_of(given)
        found = stream_test(given.fitted, fold, given.history, threads=1)
        wanted = given.wanted[fold.test]
        assert found.y_pred.tobytes() == wanted["y_pred"].to_numpy().tobytes()
        assert found.interval == given.fitted.interval
        assert found.information is not None
        assert found.information.equals(given.history.samples[fold.test].select(SEEN))


@pytest.mark.parametrize("attention", TWINS)
def test_test_forecasts_are_a_replay_from_the_first_event(attention: Attention) -> None:
    """Of a trained network on a market of daily bars, whose history does not begin with the test span."""
    fold = market().folds[1]
    forecaster, _ = fitted(attention)
    found = stream_test(forecaster, fold, market().history, threads=1)
    expected: dict[int, float] = {}
    for tokens in tokens_of().tokens.values():
        # The whole history with all its forecasts, not only the test span's.
        result = replay(NetworkStream(forecaster.network), tokens)
        expected.update(zip(result.rows.tolist(), result.forecasts.tolist(), strict=True))
    by_hand = [expected[int(row)] * forecaster.target.scale + forecaster.target.center for row in fold.test]
    assert found.y_pred.tolist() == by_hand
    assert found.interval == forecaster.interval


@pytest.mark.parametrize("attention", TWINS)
def test_threads_change_no_bit(attention: Attention) -> None:
    fold = market().folds[1]
    forecaster, _ = fitted(attention)
    made = [stream_test(forecaster, fold, market().history, threads=n).y_pred.tolist() for n in (1, 2, 5)]
    assert made[0] == made[1] == made[2]
    assert len(set(made[0])) == len(fold.test)


def test_what_is_written_at_once_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the history before the span is long enough to be written in bulk, or comes one by one."""
    given = world(1, "linear", count=150)
    fold = fold_of(given)
    one = stream_test(given.fitted, fold, given.history, threads=1)
    monkeypatch.setattr("quantattn.forecasters.streaming.log_replay._TIMED", 1)
    told: list[int] = []
    honest = StreamingForecaster.update_many

    def counted(self: StreamingForecaster, events: Any, **options: Any) -> int:
        told.append(len(events))
        return honest(self, events, **options)

    monkeypatch.setattr(StreamingForecaster, "update_many", counted)
    two = stream_test(given.fitted, fold, given.history, threads=2)
    assert one.y_pred.tobytes() == two.y_pred.tobytes()
    assert sum(told) > 50


@pytest.mark.parametrize("scope", SCOPES)
def test_the_history_need_not_hold_every_sequence(scope: str) -> None:
    """Without the sequences there is no hashed text at hand, and the same bits come out."""
    given = world(2, "linear", scope)
    fold = fold_of(given)
    bare = dataclasses.replace(given.history, entities={})
    log, text = events_for(given.history, fold.test)
    assert text is not None
    assert events_for(bare, fold.test)[1] is None
    hashed = given.fitted.encoders.events.encode_text(log.frame)
    assert np.array_equal(text, hashed)
    one, two = (stream_test(given.fitted, fold, history, threads=1) for history in (given.history, bare))
    assert one.y_pred.tobytes() == two.y_pred.tobytes()


def test_scheduled_events_go_through() -> None:
    """What tells of the future has an event_time behind its available_at; a dataset may hold it."""
    rows = [
        {"event_id": f"e{n}", "entity": "A", "available": 2 * n + 1, "happened": 2 * n, "kind": "news"}
        for n in range(25)
    ]
    rows[20] |= {"happened": 1000}
    log = event_log([{"revision": 0, "text": "x", "x": 1.0 * n, **row} for n, row in enumerate(rows)], ["x"])
    assert (log.frame["event_time"] > log.frame["available_at"]).sum() == 1
    pairs = [("A", second) for second in (10, 30, 44, 46, 50)]
    dataset = PointInTimeDataset(log, clock([second for _, second in pairs]), labels(pairs, ("A",)))
    history = read_history(dataset, 4)
    given = World(log, dataset, history, fitted_of(history), history.samples)
    found = stream_test(given.fitted, fold_of(given), history, threads=1)
    assert found.information is not None
    assert found.information["n_visible"].to_list() == [22, 23, 25]


# --- what is followed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
def test_only_what_the_test_rows_read_is_sent(scope: str) -> None:
    given = world(3, "linear", scope)
    samples = given.history.samples
    chosen = np.flatnonzero((samples["entity"].is_in(["A", "NONE"])).to_numpy())
    chosen = chosen[-12:-2]
    log, _ = events_for(given.history, chosen)
    own = {"A"} if scope != "market" else set()
    assert set(log.frame["entity"].unique().to_list()) == own | ({None} if scope != "entity" else set())
    last = samples["forecast_time"].gather(chosen).max()
    assert (log.frame["available_at"] < last).all()
    # Nothing of it is missing either.
    everything = given.log.frame.filter(pl.col("available_at") < last)
    wanted = everything.filter(
        (pl.col("entity").eq_missing("A") & (scope != "market"))
        | (pl.col("entity").is_null() & (scope != "entity"))
    )
    assert log.frame.equals(wanted)
    found = stream_test(given.fitted, fold_of(given, chosen.tolist()), given.history, threads=1)
    assert found.y_pred.tobytes() == given.wanted[chosen]["y_pred"].to_numpy().tobytes()


def test_every_forecast_is_timed_and_updates_where_there_were_some() -> None:
    """Two forecasts without an event between them: the second has no update to tell of."""
    seconds = (41, 42, 50)
    rows = [("a", 5), ("b", 40), ("c", 45)]
    log = event_log(
        [
            {"event_id": name, "revision": 0, "entity": "A", "available": second, "happened": second}
            | {"kind": "news", "text": None, "x": 1.0}
            for name, second in rows
        ],
        ["x"],
    )
    pairs = [("A", second) for second in (20, *seconds)]
    dataset = PointInTimeDataset(log, clock([20, *seconds]), labels(pairs, ("A",)))
    history = read_history(dataset, 4)
    given = World(log, dataset, history, fitted_of(history), history.samples)
    found = stream_test(given.fitted, fold_of(given), history, threads=1)
    assert found.read_us is not None
    assert (found.read_us > 0).all()
    assert found.update_us is not None
    assert np.isnan(found.update_us).tolist() == [False, True, False]
    assert (found.update_us[[0, 2]] > 0).all()


# --- what is refused --------------------------------------------------------------------------------------


WRONG: dict[str, pl.Expr] = {
    "n_visible": pl.col("n_visible") + 1,
    "max_available_at": pl.col("max_available_at") + pl.duration(nanoseconds=1),
    "info_hash": pl.lit("f" * 32),
}


@pytest.mark.parametrize("name", WRONG)
def test_another_information_set_than_the_dataset_s_is_an_error(name: str) -> None:
    given = world(0)
    fold = fold_of(given)
    samples = given.history.samples.with_row_index("#")
    # The third test row of entity A, which has events.
    row = int(np.flatnonzero((samples["entity"][fold.test] == "A").to_numpy())[2])
    tampered = samples.with_columns(
        pl.when(pl.col("#") == fold.test[row]).then(WRONG[name]).otherwise(pl.col(name)).alias(name)
    ).drop("#")
    history = dataclasses.replace(given.history, samples=tampered)
    true, said = (frame[int(fold.test[row])] for frame in (given.history.samples, tampered))
    with pytest.raises(InformationSetError) as caught:
        stream_test(given.fitted, fold, history, threads=1)
    message = str(caught.value)
    moment = said["forecast_time"].dt.strftime("%Y-%m-%dT%H:%M:%S")[0]
    assert f"1 of {len(fold.test)} forecasts" in message
    assert f"first A {moment}" in message
    assert f"live {true['n_visible'][0]} events" in message
    assert true["info_hash"][0] in message
    assert f"the dataset {said['n_visible'][0]} events" in message
    assert said["info_hash"][0] in message


def test_a_live_path_that_loses_an_event_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    given = world(0)
    monkeypatch.setattr(
        "quantattn.walkforward.live.EventLog",
        lambda frame, features: EventLog(frame.filter(pl.int_range(pl.len()) != 3), features),
    )
    with pytest.raises(InformationSetError, match=r"live \d+ events up to .* the dataset \d+ events up to"):
        stream_test(given.fitted, fold_of(given), dataclasses.replace(given.history, entities={}), threads=1)


def test_a_forecast_that_was_not_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    given = world(0)
    honest = StreamingForecaster.replay

    def losing(self: StreamingForecaster, *args: Any, **options: Any) -> pl.DataFrame:
        return honest(self, *args, **options)[1:]

    monkeypatch.setattr(StreamingForecaster, "replay", losing)
    with pytest.raises(
        ForecasterError, match=r"fold 4 has \d+ test rows and 1 were not forecast, first A 20"
    ):
        stream_test(given.fitted, fold_of(given), given.history, threads=1)


@pytest.mark.parametrize("name", ["y_lower", "y_upper"])
def test_other_bounds_than_the_table_s_are_an_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    given = world(0)
    honest = StreamingForecaster.replay

    def widening(self: StreamingForecaster, *args: Any, **options: Any) -> pl.DataFrame:
        made = honest(self, *args, **options)
        bits = made[name].to_numpy().copy()
        bits[-1] = np.nextafter(bits[-1], np.inf)  # the last bit is enough
        return made.with_columns(pl.Series(name, bits))

    stream_test(given.fitted, fold_of(given), given.history, threads=1)
    monkeypatch.setattr(StreamingForecaster, "replay", widening)
    with pytest.raises(
        ForecasterError, match=rf"1 of \d+ live forecasts have another {name} than the forecasts"
    ):
        stream_test(given.fitted, fold_of(given), given.history, threads=1)
