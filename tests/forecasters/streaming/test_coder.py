"""One event, one query: the bits that the encoders give for a table."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.encoders import NumericScaler
from quantattn.errors import CheckpointError, EventDataError
from quantattn.forecasters import Event, FittedEncoders, encode
from quantattn.forecasters.streaming.coder import EventCoder, sequence_tokens
from quantattn.forecasters.streaming.events.event import events_of
from quantattn.forecasters.tokens import query_tokens
from quantattn.pit.timestamps import instants, nanoseconds_of
from tests.forecasters.streaming.worlds import FEATURES, fitted_of, world
from tests.pit.build import at


@pytest.mark.parametrize("seed", range(4))
def test_every_event_token_of_a_sequence(seed: int) -> None:
    given_world = world(seed)
    coder = EventCoder(given_world.fitted.encoders)
    for entity, tokens in encode(given_world.history, given_world.fitted.encoders).items():
        before = None
        sequence = given_world.dataset.event_sequence(entity)
        for row, event in enumerate(events_of(sequence, FEATURES)):
            token = coder.event(event, event.available_at if before is None else before)
            assert token.tobytes() == tokens.events[row].tobytes()
            before = event.available_at
        encoded, times = coder.encoded(sequence), nanoseconds_of(sequence["available_at"])
        assert sequence_tokens(encoded, times, None).tobytes() == tokens.events.tobytes()
        half = len(times) // 2
        rest = sequence_tokens(encoded[half:], times[half:], int(times[half - 1]))
        assert rest.tobytes() == tokens.events[half:].tobytes()


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(finite | st.none(), finite | st.none()), min_size=1, max_size=5),
    st.integers(-(2**62), 2**62),
    st.lists(st.integers(0, 2**62), min_size=5, max_size=5),
)
def test_query_tokens(values: list[tuple[float | None, float | None]], moment: int, ages: list[int]) -> None:
    encoders = world(0).fitted.encoders
    frame = pl.DataFrame(values, schema={f"asof_{name}": pl.Float64 for name in FEATURES}, orient="row")
    before = np.array([moment - age for age in ages[: len(values)]], np.int64)
    times = np.full(len(values), moment, np.int64)
    wanted = query_tokens(encoders.queries.transform(frame), times, before)
    table = np.array([[np.nan if value is None else value for value in row] for row in values])
    coder = EventCoder(encoders)
    assert coder.queries(table, moment, before).tobytes() == wanted.tobytes()
    for row in range(len(values)):
        alone = coder.queries(table[row : row + 1], moment, before[row : row + 1])
        assert alone.tobytes() == wanted[row].tobytes()


@settings(max_examples=60, deadline=None)
@given(finite | st.none(), finite | st.none(), st.sampled_from(["news", "bar", "?"]), st.text(max_size=20))
def test_hostile_figures_and_texts(x: float | None, y: float | None, kind: str, text: str) -> None:
    encoders = world(1).fitted.encoders
    frame = pl.DataFrame(
        {"kind": [kind], "text": [text], "x": [x], "y": [y]},
        schema_overrides={"x": pl.Float64, "y": pl.Float64},
    )
    wanted = encoders.events.transform(frame)[0]
    given_event = Event("e", at(1), at(1), None, kind, 0, text, {"x": x, "y": y})  # type: ignore[dict-item]
    token = EventCoder(encoders).event(given_event, at(1))
    assert (token[:-1] == wanted).all()
    assert token[-1] == 0


def test_an_event_for_many_entities() -> None:
    given_world = world(0)
    coder = EventCoder(given_world.fitted.encoders)
    event = next(events_of(given_world.log.frame[20:21], FEATURES))
    before = np.array([event.available_at - age for age in (0, 1, 10**9, 10**15)], np.int64)
    tokens = coder.for_each(coder.event(event, event.available_at), event.available_at, before)
    for token, one in zip(tokens, before.tolist(), strict=True):
        assert token.tobytes() == coder.event(event, one).tobytes()


def test_without_text() -> None:
    given_world = world(0)
    fitted = fitted_of(given_world.history, text_width=0)
    sequence = given_world.dataset.event_sequence("A")
    wanted = fitted.encoders.events.transform(sequence)
    coder = EventCoder(fitted.encoders)
    for row, event in enumerate(events_of(sequence, FEATURES)):
        assert coder.event(event, event.available_at)[:-1].tobytes() == wanted[row].tobytes()


def test_queries_in_another_order() -> None:
    encoders = world(0).fitted.encoders
    frame = pl.DataFrame({"asof_y": [1.0, 2.0], "asof_x": [4.0, 8.0], "available_at": instants([1, 2])})
    turned = NumericScaler().fit(frame, ["asof_y", "asof_x"], 3)
    coder = EventCoder(FittedEncoders(encoders.events, turned, 3))
    found = coder.queries(np.array([[4.0, 1.0]]), at(1), np.array([at(1)]))
    assert found[0, :2].tolist() == turned.transform(frame)[0].tolist()
    fewer = NumericScaler().fit(frame, ["asof_y"], 3)
    found = EventCoder(FittedEncoders(encoders.events, fewer, 3)).queries(
        np.array([[4.0, 1.0]]), at(1), np.array([at(1)])
    )
    assert found.shape == (1, 4)
    assert found[0, 0] == turned.transform(frame)[0, 0]


@pytest.mark.parametrize("name", ["asof_news_x", "x", "close"])
def test_queries_of_something_else(name: str) -> None:
    frame = pl.DataFrame({name: [1.0, 2.0], "available_at": instants([1, 2])})
    with pytest.raises(CheckpointError, match=f"'{name}'.*no as-of values"):
        EventCoder(FittedEncoders(world(0).fitted.encoders.events, NumericScaler().fit(frame, [name], 3), 3))


def test_unknown_features() -> None:
    coder = EventCoder(world(0).fitted.encoders)
    coder.refuse_unknown(Event("e", 1, 1, "A", "news", features={"x": 1.0}))
    with pytest.raises(EventDataError, match=r"'xx', which .*did you mean 'x'.*they know x, y"):
        coder.refuse_unknown(Event("e", 1, 1, "A", "news", features={"x": 1.0, "xx": 1.0}))
