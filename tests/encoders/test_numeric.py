from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.encoders import NumericScaler
from quantattn.errors import CheckpointError, EncoderError, TimestampError

from .frames import at, events


def test_by_hand() -> None:
    # Visible: 1, 3, 5, 7 with mean 4 and population variance (9 + 1 + 1 + 9) / 4 = 5.
    frame = events([at(0), at(1), at(2), at(3), at(4), at(5)], x=[1.0, 3.0, None, 5.0, 7.0, 1e6])
    scaler = NumericScaler().fit(frame, ["x"], at(5))
    assert scaler.columns_ == ("x",)
    assert scaler.mean_.tolist() == [4.0]
    assert scaler.scale_.tolist() == [math.sqrt(5.0)]
    assert scaler.counts_.tolist() == [4]
    assert (scaler.n_rows_, scaler.cutoff_, scaler.training_cutoff_) == (5, at(5), at(4))
    scaled = scaler.transform(frame)
    assert scaled.dtype == np.float32
    root = math.sqrt(5.0)
    expected = [[-3 / root], [-1 / root], [0.0], [1 / root], [3 / root], [8.0]]
    np.testing.assert_array_equal(scaled, np.array(expected, dtype=np.float32))


@pytest.mark.parametrize(("tick", "visible"), [(-1, [1.0, 2.0]), (0, [1.0]), (1, [1.0])])
def test_equality_with_the_cutoff_is_not_visible(tick: int, visible: list[float]) -> None:
    cutoff = at(3)
    frame = events([at(0), cutoff + tick], x=[1.0, 2.0])
    scaler = NumericScaler().fit(frame, ["x"], cutoff)
    assert scaler.n_rows_ == len(visible)
    assert scaler.mean_.tolist() == [sum(visible) / len(visible)]
    assert scaler.training_cutoff_ < cutoff


def test_constant_and_never_seen_columns_are_zero() -> None:
    frame = events(
        [at(0), at(1), at(2), at(3)],
        constant=[0.1, 0.1, 0.1, 5.0],
        unseen=[None, None, None, 2.0],
        rounding=[1e9, 1e9 + 1e-7, 1e9, 5.0],
        lone=[None, 4.0, None, 5.0],
        live=[1.0, 2.0, 3.0, 4.0],
    )
    scaler = NumericScaler().fit(frame, ["constant", "unseen", "rounding", "lone", "live"], at(3))
    assert scaler.scale_[:4].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert scaler.counts_.tolist() == [3, 0, 3, 1, 3]
    assert scaler.mean_[0] == 0.1
    scaled = scaler.transform(frame)
    np.testing.assert_array_equal(scaled[:, :4], np.zeros((4, 4), dtype=np.float32))
    assert scaled[:, 4].any()


def test_clip() -> None:
    frame = events([at(0), at(1), at(2), at(3)], x=[-1.0, 1.0, 1e300, -1e300])
    scaler = NumericScaler(clip=2.5).fit(frame, ["x"], at(2))
    np.testing.assert_array_equal(scaler.transform(frame), np.float32([[-1.0], [1.0], [2.5], [-2.5]]))
    huge = pl.DataFrame({"x": [1.7e308, -1.7e308, None]})
    tiny = NumericScaler().fit(events([at(0), at(1)], x=[1e-150, 3e-150]), ["x"], at(9))
    np.testing.assert_array_equal(tiny.transform(huge), np.float32([[8.0], [-8.0], [0.0]]))


def test_other_numeric_types_and_column_order() -> None:
    frame = events([at(0), at(1)], x=[1.0, 3.0]).with_columns(
        whole=pl.Series([10, 30], dtype=pl.Int32), flag=pl.Series([False, True]), absent=pl.lit(None)
    )
    scaler = NumericScaler().fit(frame, ("flag", "whole", "x", "absent"), at(9))
    turned = frame.select("x", "absent", "whole", "flag")
    expected = np.float32([[-1, -1, -1, 0], [1, 1, 1, 0]])
    np.testing.assert_array_equal(scaler.transform(turned), expected)


def test_another_time_column() -> None:
    frame = pl.DataFrame(
        {
            "forecast_time": pl.Series([at(0), at(1), at(2)]).cast(pl.Datetime("ns", "UTC")),
            "asof_x": [1.0, 3.0, 99.0],
        }
    )
    scaler = NumericScaler().fit(frame, ["asof_x"], at(2), time="forecast_time")
    assert scaler.mean_.tolist() == [2.0]


def test_no_columns() -> None:
    frame = events([at(0), at(1)])
    assert NumericScaler().fit(frame, (), at(1)).transform(frame).shape == (2, 0)
    assert NumericScaler().fit(frame, (), at(1)).transform(frame[:0]).shape == (0, 0)


values = st.one_of(st.none(), st.floats(-1e6, 1e6, allow_nan=False))
rows = st.lists(st.tuples(st.integers(-3, 3), values, values), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(rows, rows, st.randoms(use_true_random=False))
def test_the_future_and_the_order_change_no_bit(past: list, future: list, random: object) -> None:
    cutoff = at(1)
    early = [(cutoff - 4 + min(day, 2), x, y) for day, x, y in past]
    late = [(cutoff + max(day, 0), x, y) for day, x, y in future]

    def fitted(table: list[tuple[int, float | None, float | None]]) -> NumericScaler:
        times, x, y = zip(*table, strict=True)
        return NumericScaler().fit(events(list(times), x=list(x), y=list(y)), ["x", "y"], cutoff)

    mixed = early + late
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert fitted(mixed).to_dict() == fitted(early).to_dict()
    for column in (1, 2):
        known = [row[column] for row in early if row[column] is not None]
        mean = sum(known) / len(known) if known else 0.0
        spread = math.sqrt(sum((value - mean) ** 2 for value in known) / len(known)) if known else 0.0
        assert fitted(early).mean_[column - 1] == pytest.approx(mean, rel=1e-9, abs=1e-9)
        assert fitted(early).scale_[column - 1] == pytest.approx(spread, rel=1e-6, abs=1e-6)


def test_the_future_may_hold_what_the_past_must_not() -> None:
    clean = events([at(0), at(1)], x=[1.0, 2.0])
    dirty = events([at(0), at(1), at(2), at(3)], x=[1.0, 2.0, float("nan"), float("inf")])
    assert (
        NumericScaler().fit(dirty, ["x"], at(2)).to_dict()
        == NumericScaler().fit(clean, ["x"], at(2)).to_dict()
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(values, min_size=1, max_size=20))
def test_transform_is_row_wise_bit_for_bit(column: list[float | None]) -> None:
    scaler = NumericScaler().fit(events([at(0), at(1), at(2)], x=[1.0, 2.5, 9.0]), ["x"], at(9))
    whole = scaler.transform(pl.DataFrame({"x": pl.Series(column, dtype=pl.Float64)}))
    for row, value in enumerate(column):
        alone = scaler.transform(pl.DataFrame({"x": pl.Series([value], dtype=pl.Float64)}))
        assert alone[0].tobytes() == whole[row].tobytes()


def test_json_round_trip_is_exact() -> None:
    frame = events([at(0), at(1), at(2)], x=[0.1, 0.2, 0.7], y=[1 / 3, None, 1e-17], z=[None, None, None])
    scaler = NumericScaler(clip=math.pi).fit(frame, ["x", "y", "z"], at(3, 1))
    again = NumericScaler.from_dict(json.loads(json.dumps(scaler.to_dict())))
    assert again.to_dict() == scaler.to_dict()
    assert again.fingerprint == scaler.fingerprint
    assert len(scaler.fingerprint) == 64
    assert again.transform(frame).tobytes() == scaler.transform(frame).tobytes()
    assert NumericScaler(clip=math.pi).fit(frame, ["x", "y", "z"], at(3, 2)).fingerprint != scaler.fingerprint


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"mean": [0.0]}, "mean"),
        ({"mean": [0.0, "1"]}, "mean"),
        ({"mean": [0.0, None]}, "mean"),
        ({"scale": [1.0, -1.0]}, "scale"),
        ({"scale": [1.0, float("inf")]}, "scale"),
        ({"counts": [1, 2.5]}, "counts"),
        ({"counts": [1, -1]}, "counts"),
        ({"columns": ["x", "x"]}, "columns"),
        ({"columns": "xy"}, "columns"),
        ({"columns": ["x", 1]}, "columns"),
        ({"clip": 0}, "clip"),
        ({"clip": None}, "clip"),
        ({"n_rows": 0}, "n_rows"),
        ({"cutoff": at(1)}, "training_cutoff"),
        ({"cutoff": True}, "cutoff"),
        ({"extra": 1}, "extra"),
    ],
)
def test_altered_states_are_refused(change: dict[str, object], named: str) -> None:
    frame = events([at(0), at(1)], x=[1.0, 2.0], y=[3.0, 5.0])
    state = NumericScaler().fit(frame, ["x", "y"], at(2)).to_dict()
    with pytest.raises(CheckpointError, match=named):
        NumericScaler.from_dict({**state, **change})


@pytest.mark.parametrize("state", [None, [], {}, {"clip": 8.0}])
def test_foreign_states_are_refused(state: object) -> None:
    with pytest.raises(CheckpointError, match="must hold exactly"):
        NumericScaler.from_dict(state)  # type: ignore[arg-type]


@pytest.mark.parametrize("clip", [0, -1.0, float("nan"), float("inf"), "8", None, True])
def test_impossible_clips(clip: object) -> None:
    with pytest.raises(EncoderError, match=r"clip=.*use for example clip=8\.0"):
        NumericScaler(clip).fit(events([at(0)], x=[1.0]), ["x"], at(1))  # type: ignore[arg-type]


def test_refusals() -> None:
    frame = events([at(0), at(1)], magnitude=[1.0, 2.0], other=[1.0, 2.0])
    with pytest.raises(EncoderError, match=r"not fitted; call fit"):
        NumericScaler().transform(frame)
    with pytest.raises(EncoderError, match=r"not fitted"):
        NumericScaler().to_dict()
    with pytest.raises(EncoderError, match=r"lacks the columns \['magnitud'\]; did you mean \['magnitude'\]"):
        NumericScaler().fit(frame, ["magnitud"], at(9))
    with pytest.raises(EncoderError, match=r"columns='other' is one text"):
        NumericScaler().fit(frame, "other", at(9))
    with pytest.raises(EncoderError, match=r"\['other'\] more than once"):
        NumericScaler().fit(frame, ["other", "other"], at(9))
    with pytest.raises(
        EncoderError, match=r"none of the 2 rows has 'available_at' before the cutoff 2020-01-02"
    ):
        NumericScaler().fit(frame, ["other"], at(0))
    with pytest.raises(EncoderError, match=r"column 'kind' has type String, which is not numeric"):
        NumericScaler().fit(frame, ["kind"], at(9))
    with pytest.raises(EncoderError, match=r"lacks the columns \['known_at'\]"):
        NumericScaler().fit(frame, ["other"], at(9), time="known_at")
    with pytest.raises(EncoderError, match=r"lacks the columns \['other'\]"):
        NumericScaler().fit(frame, ["other"], at(9)).transform(frame.drop("other"))
    bad = frame.with_columns(other=pl.Series([float("nan"), 1.0]))
    with pytest.raises(EncoderError, match=r"'other' is not finite in 1 rows, first \[0\].*use null"):
        NumericScaler().fit(bad, ["other"], at(9))
    with pytest.raises(EncoderError, match=r"'other' is not finite"):
        NumericScaler().fit(frame, ["other"], at(9)).transform(bad)
    huge = frame.with_columns(other=pl.Series([1e308, -1e308]))
    with pytest.raises(EncoderError, match=r"'other' holds values up to 1e\+308, whose variance overflows"):
        NumericScaler().fit(huge, ["other"], at(9))
    naive = frame.with_columns(pl.col("available_at").dt.replace_time_zone(None))
    with pytest.raises(TimestampError, match="available_at"):
        NumericScaler().fit(naive, ["other"], at(9))
    undated = frame.with_columns(
        pl.when(pl.col("event_id") != "e1").then("available_at").alias("available_at")
    )
    with pytest.raises(TimestampError, match="available_at"):
        NumericScaler().fit(undated, ["other"], at(9))


def test_a_failed_fit_leaves_the_earlier_one() -> None:
    frame = events([at(0), at(1)], x=[1.0, 2.0])
    scaler = NumericScaler().fit(frame, ["x"], at(9))
    before = scaler.to_dict()
    with pytest.raises(EncoderError):
        scaler.fit(frame, ["y"], at(9))
    assert scaler.to_dict() == before
