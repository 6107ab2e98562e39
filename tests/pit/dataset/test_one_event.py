"""The digest of one event is that of the frame that holds it."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import EventDataError
from quantattn.pit import InformationHash, event_digests
from quantattn.pit.dataset import _chain_kernels
from quantattn.pit.dataset.one_event import BASE, PRIME, EventHasher, chain_name, chained
from tests.pit.build import at
from tests.pit.dataset.oracle import event_digest, set_name

NAMES = ("b", "é", "a long name of a feature", "A", "", "日本", "b ")


class One(NamedTuple):
    event_id: str
    revision: int
    entity: str | None
    event_time: int
    available_at: int
    kind: str
    text: str | None
    features: dict[str, float]


def frame_of(events: list[One]) -> pl.DataFrame:
    """A frame as it is: an event log would make one zero of both."""
    rows = [{**event._asdict(), **dict.fromkeys(NAMES), **event.features} for event in events]
    types = {
        **dict.fromkeys(("event_id", "entity", "kind", "text"), pl.String),
        "revision": pl.Int32,
        **dict.fromkeys(("event_time", "available_at"), pl.Int64),
        **dict.fromkeys(NAMES, pl.Float64),
    }
    frame = pl.DataFrame([[row[name] for name in types] for row in rows], schema=types, orient="row")
    times = pl.col("event_time", "available_at").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    return frame.with_columns(times)


texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["", "\0", "\0" * 8, "a" * 12, "b" * 13, "é" * 6, "😀" * 9, "e\u0301\u202e\ufffd", "x" * 999]
    ),
)
events = st.builds(
    One,
    texts,
    st.integers(0, 2**31 - 1),
    st.one_of(st.none(), texts),
    st.integers(-(2**62), 2**62),
    st.integers(-(2**62), 2**62),
    texts,
    st.one_of(st.none(), texts),
    st.dictionaries(
        st.sampled_from(NAMES),
        st.one_of(
            st.sampled_from([0.0, -0.0, 5e-324, 1e308]), st.floats(allow_nan=False, allow_infinity=False)
        ),
    ),
)


@settings(deadline=None)
@given(drawn=st.lists(events, max_size=8))
def test_digests_of_single_events_are_those_of_a_frame(drawn: list[One]) -> None:
    hasher = EventHasher(NAMES)
    expected = [row.tobytes() for row in event_digests(frame_of(drawn), NAMES)]
    assert [hasher.digest(event) for event in drawn] == expected
    for event, digest in zip(drawn, expected, strict=True):
        row: dict[str, Any] = {**event._asdict(), **dict.fromkeys(NAMES), **event.features}
        assert digest == event_digest(row, NAMES)


GOOD = One("e", 0, "A", at(0), at(1), "news", None, {"b": 1.0})


def test_zeros_of_both_signs_nulls_and_empty_texts_are_told_apart() -> None:
    hasher = EventHasher(NAMES)
    others = [
        GOOD,
        GOOD._replace(features={"b": 0.0}),
        GOOD._replace(features={"b": -0.0}),
        GOOD._replace(features={}),
        GOOD._replace(features={"A": 1.0}),
        GOOD._replace(text=""),
        GOOD._replace(text="\0"),
        GOOD._replace(entity=None),
        GOOD._replace(entity=""),
        GOOD._replace(event_id="eA", entity=""),
    ]
    assert len({hasher.digest(event) for event in others}) == len(others)


@pytest.mark.parametrize("size", range(34))
def test_a_text_of_every_size(size: int) -> None:
    event = GOOD._replace(text="".join(chr(97 + n % 26) for n in range(size)))
    assert EventHasher(NAMES).digest(event) == event_digests(frame_of([event]), NAMES)[0].tobytes()


def test_many_features() -> None:
    names = [f"feature {number:04d}" for number in range(700)]
    event = GOOD._replace(features={name: float(number) for number, name in enumerate(reversed(names))})
    frame = frame_of([GOOD]).drop(NAMES).with_columns(pl.lit(v).alias(n) for n, v in event.features.items())
    assert EventHasher(names).digest(event) == event_digests(frame, names)[0].tobytes()


@settings(deadline=None)
@given(digests=st.lists(st.integers(0, 2**128 - 1), max_size=9))
def test_the_chain_and_its_name(digests: list[int]) -> None:
    chain = 0
    for digest in digests:
        chain = chained(chain, digest)
    assert chain_name(chain, len(digests)) == set_name(digest.to_bytes(16, "little") for digest in digests)


def test_the_base_is_that_of_the_compiled_chain() -> None:
    assert int(_chain_kernels._BASE_LOW) | int(_chain_kernels._BASE_HIGH) << 64 == BASE
    assert chain_name(0, 0) == InformationHash().hexdigest()
    assert chained(PRIME - 1, 2**128 - 1) == ((PRIME - 1) * BASE + 2**128 - 1) % PRIME


def test_what_cannot_be_named_is_refused() -> None:
    hasher = EventHasher(("x",))
    with pytest.raises(EventDataError, match=r"event 'e' has a feature 'b', which is none of \['x'\]"):
        hasher.digest(GOOD)
    for field in ("event_id", "entity", "kind", "text"):
        with pytest.raises(EventDataError, match=r"text that is not Unicode .* character 1 of"):
            hasher.digest(GOOD._replace(features={}, **{field: "a\udfff"}))
