from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.encoders import EncoderCard, EventEncoder, HashingTextEncoder
from quantattn.errors import CheckpointError, EncoderError
from quantattn.files import canonical_json, hash_bytes

from .frames import at, events


def history() -> pl.DataFrame:
    return events(
        [at(0), at(1), at(2), at(3), at(3)],
        kind=["move", "bar", "bar", "halt", "bar"],
        text=["AAA fell", None, "AAA rose", "AAA halted", "AAA fell"],
        log_return=[None, 1.0, 3.0, None, 50.0],
        magnitude=[-3.0, None, None, 2.0, None],
    )


FEATURES = ("log_return", "magnitude")


def test_by_hand() -> None:
    # Visible before day 3: log_return 1, 3 (mean 2, deviation 1); magnitude -3 alone, so constant.
    encoder = EventEncoder(text_width=4).fit(history(), FEATURES, at(3))
    assert encoder.kinds_ == ("bar", "move")
    assert encoder.features_ == FEATURES
    assert encoder.width_ == 4 + 2 + 2
    assert encoder.column_names_ == (
        "text:0",
        "text:1",
        "text:2",
        "text:3",
        "log_return",
        "magnitude",
        "kind:bar",
        "kind:move",
    )
    encoded = encoder.transform(history())
    assert encoded.dtype == np.float32
    expected = [[0, 0, 0, 1], [-1, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0], [8, 0, 1, 0]]
    np.testing.assert_array_equal(encoded[:, 4:], np.array(expected, dtype=np.float32))
    np.testing.assert_array_equal(encoded[:, :4], HashingTextEncoder(4).transform(history()["text"]))
    assert encoded[0, :4].any()


def test_card() -> None:
    encoder = EventEncoder(text_width=4).fit(history(), FEATURES, at(3))
    card = encoder.card_
    assert card == EncoderCard(
        name="hashed text 4 + 2 features + 2 kinds",
        training_cutoff=at(2),
        cutoff=at(3),
        n_events=3,
        width=8,
        fingerprint=encoder.fingerprint,
    )
    assert json.loads(json.dumps(card.to_dict()))["training_cutoff"] == at(2)
    assert "fitted on 3 events up to 2020-01-04T00:00:00Z (cutoff 2020-01-05T00:00:00Z)" in str(card)


@pytest.mark.parametrize(("tick", "kinds"), [(-1, ("bar", "new")), (0, ("bar",)), (1, ("bar",))])
def test_a_kind_at_the_cutoff_is_not_visible(tick: int, kinds: tuple[str, ...]) -> None:
    frame = events([at(0), at(1, tick)], kind=["bar", "new"], x=[1.0, 2.0])
    encoder = EventEncoder(text_width=0).fit(frame, ("x",), at(1))
    assert encoder.kinds_ == kinds
    assert encoder.card_.training_cutoff == (at(1, tick) if tick < 0 else at(0))


event = st.tuples(
    st.integers(0, 4),
    st.sampled_from(["bar", "move", "filing"]),
    st.sampled_from([None, "up", "down much", "Größe"]),
    st.one_of(st.none(), st.floats(-1e3, 1e3, allow_nan=False)),
)


def frame_of(rows: list[tuple[int, str, str | None, float | None]]) -> pl.DataFrame:
    times, kinds, texts, x = (list(column) for column in zip(*rows, strict=True))
    return events(times, kind=kinds, text=texts, x=x)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(event, min_size=1, max_size=8), st.lists(event, max_size=8), st.randoms(use_true_random=False)
)
def test_the_future_changes_no_bit(past: list, future: list, random: object) -> None:
    cutoff = at(2)
    early = [(cutoff - 1 - day, *rest) for day, *rest in past]
    late = [(cutoff + day, *rest) for day, *rest in future]
    mixed = early + late
    random.shuffle(mixed)  # type: ignore[attr-defined]
    alone = EventEncoder(8).fit(frame_of(early), ("x",), cutoff)
    among = EventEncoder(8).fit(frame_of(mixed), ("x",), cutoff)
    assert among.to_dict() == alone.to_dict()
    assert among.card_ == alone.card_
    assert among.transform(frame_of(early)).tobytes() == alone.transform(frame_of(early)).tobytes()


@settings(max_examples=40, deadline=None)
@given(st.lists(event, min_size=1, max_size=10))
def test_rows_are_independent_bit_for_bit(rows: list) -> None:
    encoder = EventEncoder(8).fit(history(), ("log_return",), at(3))
    frame = frame_of(rows).rename({"x": "log_return"})
    whole = encoder.transform(frame)
    for row in range(frame.height):
        assert encoder.transform(frame[row : row + 1]).tobytes() == whole[row].tobytes()
    assert encoder.transform(frame[::-1]).tobytes() == whole[::-1].tobytes()


def test_text_once_for_all_folds() -> None:
    frame = history()
    encoder = EventEncoder(text_width=4)
    text = encoder.encode_text(frame)
    for cutoff in (at(1), at(3)):
        fitted = EventEncoder(text_width=4).fit(frame, FEATURES, cutoff)
        whole = fitted.transform(frame)
        assert fitted.transform(frame.drop("text"), text=text).tobytes() == whole.tobytes()
        assert fitted.transform(frame[1:3], text=text[1:3]).tobytes() == whole[1:3].tobytes()


def test_without_text_or_features() -> None:
    frame = history().drop("text")
    encoder = EventEncoder(text_width=0).fit(frame, (), at(3))
    np.testing.assert_array_equal(
        encoder.transform(frame), np.float32([[0, 1], [1, 0], [1, 0], [0, 0], [1, 0]])
    )
    assert encoder.transform(frame[:0]).shape == (0, 2)


def test_json_round_trip_is_exact() -> None:
    frame = events([at(0), at(1), at(2)], text=["a b", None, "c"], x=[0.1, 0.2, 0.7], y=[1 / 3, None, math.e])
    encoder = EventEncoder(text_width=5, clip=3.3, ngram_range=(1, 3)).fit(frame, ("x", "y"), at(3))
    text = canonical_json(encoder.to_dict())
    again = EventEncoder.from_dict(json.loads(text), fingerprint=encoder.fingerprint)
    assert again.to_dict() == encoder.to_dict()
    assert again.card_ == encoder.card_
    assert encoder.fingerprint == hash_bytes(text.encode())
    assert again.transform(frame).tobytes() == encoder.transform(frame).tobytes()
    assert (again.text_width, again.clip, again.ngram_range) == (5, 3.3, (1, 3))


def test_the_fingerprint_names_what_was_learned() -> None:
    frame = history()

    def fingerprint(encoder: EventEncoder, features: tuple[str, ...] = FEATURES, cutoff: int = at(3)) -> str:
        return encoder.fit(frame, features, cutoff).fingerprint

    variants = {
        fingerprint(EventEncoder()),
        fingerprint(EventEncoder(text_width=31)),
        fingerprint(EventEncoder(clip=7.0)),
        fingerprint(EventEncoder(ngram_range=(1, 1))),
        fingerprint(EventEncoder(), features=("magnitude", "log_return")),
        fingerprint(EventEncoder(), cutoff=at(4)),
    }
    assert len(variants) == 6
    assert fingerprint(EventEncoder()) == fingerprint(EventEncoder())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"schema": 2}, "schema 2"),
        ({"kinds": ["bar", "bar"]}, "kinds"),
        ({"kinds": None}, "kinds"),
        ({"text_width": -1}, "text_width"),
        ({"text_width": "4"}, "text_width"),
        ({"ngram_range": [1]}, "ngram_range"),
        ({"ngram_range": [1, None]}, "ngram_range"),
        ({"ngram_range": [2, 1]}, "ngram_range"),
        ({"scaler": {}}, "NumericScaler"),
        ({"more": 0}, "more"),
    ],
)
def test_altered_states_are_refused(change: dict[str, object], named: str) -> None:
    state = EventEncoder(text_width=4).fit(history(), FEATURES, at(3)).to_dict()
    with pytest.raises(CheckpointError, match=named):
        EventEncoder.from_dict({**state, **change})


def test_a_state_with_another_fingerprint_is_refused() -> None:
    encoder = EventEncoder(text_width=4).fit(history(), FEATURES, at(3))
    state = {**encoder.to_dict(), "kinds": ["bar", "moved"]}
    with pytest.raises(CheckpointError, match="altered"):
        EventEncoder.from_dict(state, fingerprint=encoder.fingerprint)


def test_use_before_fit() -> None:
    encoder = EventEncoder()
    uses = [
        lambda: encoder.transform(history()),
        lambda: encoder.card_,
        lambda: encoder.width_,
        lambda: encoder.features_,
        lambda: encoder.column_names_,
        lambda: encoder.fingerprint,
        encoder.to_dict,
    ]
    for use in uses:
        with pytest.raises(EncoderError, match=r"not fitted; call fit"):
            use()


def test_refusals() -> None:
    frame = history()
    encoder = EventEncoder(text_width=4).fit(frame, FEATURES, at(3))
    with pytest.raises(EncoderError, match=r"features='magnitude' is one text"):
        EventEncoder().fit(frame, "magnitude", at(3))
    with pytest.raises(EncoderError, match=r"lacks the columns \['magnitudo'\]; did you mean"):
        EventEncoder().fit(frame, ("magnitudo",), at(3))
    with pytest.raises(EncoderError, match=r"lacks the columns \['kind'\]"):
        EventEncoder().fit(frame.drop("kind"), FEATURES, at(3))
    with pytest.raises(EncoderError, match="nothing to fit on; choose a later cutoff"):
        EventEncoder().fit(frame, FEATURES, at(0))
    with pytest.raises(EncoderError, match=r"lacks the columns \['text'\]"):
        encoder.transform(frame.drop("text"))
    with pytest.raises(EncoderError, match=r"lacks the columns \['log_return'\]"):
        encoder.transform(frame.drop("log_return"))
    with pytest.raises(EncoderError, match=r"text_width=-1"):
        EventEncoder(text_width=-1).fit(frame, FEATURES, at(3))
    with pytest.raises(EncoderError, match=r"clip=0"):
        EventEncoder(clip=0).fit(frame, FEATURES, at(3))


@pytest.mark.parametrize(
    "text",
    [
        np.zeros((4, 4), dtype=np.float32),
        np.zeros((5, 3), dtype=np.float32),
        np.zeros((5, 4), dtype=np.float64),
        np.zeros(20, dtype=np.float32),
        [[0.0] * 4] * 5,
    ],
)
def test_a_text_matrix_that_does_not_fit(text: object) -> None:
    encoder = EventEncoder(text_width=4).fit(history(), FEATURES, at(3))
    with pytest.raises(EncoderError, match=r"these events need float32 \(5, 4\)"):
        encoder.transform(history(), text=text)  # type: ignore[arg-type]


def test_a_text_matrix_that_is_not_finite() -> None:
    encoder = EventEncoder(text_width=4).fit(history(), FEATURES, at(3))
    text = np.zeros((5, 4), dtype=np.float32)
    text[2, 1] = np.nan
    with pytest.raises(EncoderError, match="text is not finite, first in row 2"):
        encoder.transform(history(), text=text)
