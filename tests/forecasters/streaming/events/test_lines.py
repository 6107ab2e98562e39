"""Lines of JSON: what is read, what is refused with which words, and what is written."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantattn.errors import DataError, EventDataError, TimestampError
from quantattn.forecasters.streaming.events.event import Event
from quantattn.forecasters.streaming.events.lines import (
    MOST_BYTES,
    ForecastRequest,
    cut,
    event_line,
    numbered_lines,
    read_line,
    values_line,
)

DAY = 1_704_412_800_000_000_000  # 2024-01-05T00:00Z
PLAIN: dict[str, Any] = {
    "event_id": "n-17",
    "available_at": "2024-01-05T14:30:00.000000001Z",
    "event_time": "2024-01-05T09:29:58-05:00",
    "entity": "AAPL",
    "kind": "news",
}


def read(fields: dict[str, Any] | bytes | str) -> Any:
    line = (
        fields
        if isinstance(fields, bytes)
        else (fields if isinstance(fields, str) else json.dumps(fields)).encode()
    )
    return read_line(line, place="feed, line 7")


class TestEvents:
    def test_a_line_with_everything(self) -> None:
        more = {"revision": 2, "text": "Up \u001b[31m", "features": {"score": 0.5, "n": 3, "none": None}}
        found = read(PLAIN | more)
        assert found == Event(
            "n-17",
            DAY + 52_200 * 10**9 + 1,
            DAY + 52_198 * 10**9,
            "AAPL",
            "news",
            2,
            "Up \u001b[31m",
            {"score": 0.5, "n": 3.0},
        )

    def test_a_line_with_no_more_than_it_must_have(self) -> None:
        found = read(PLAIN | {"entity": None})
        assert (found.entity, found.revision, found.text, found.features, found.scheduled) == (
            None, 0, None, {}, False,
        )  # fmt: skip
        assert read(PLAIN | {"features": None, "text": None}).features == {}

    def test_what_is_announced_may_happen_later(self) -> None:
        later = PLAIN | {"event_time": "2024-01-06T00:00Z"}
        assert read(later | {"scheduled": True}).scheduled
        with pytest.raises(EventDataError, match="feed, line 7: event 'n-17' happens at 2024-01-06"):
            read(later)

    @pytest.mark.parametrize("line", [b"", b"   ", b"\r", b"\xef\xbb\xbf"])
    def test_an_empty_line_is_nothing(self, line: bytes) -> None:
        assert read(line) is None

    def test_a_byte_order_mark_and_a_carriage_return_are_left_out(self) -> None:
        assert read(b"\xef\xbb\xbf" + json.dumps(PLAIN).encode() + b"\r") == read(PLAIN)

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"event_id": 17}, "event_id is 17, not a text"),
            ({"event_id": ""}, "event_id is '', not a text"),
            ({"event_id": None}, "event_id is None"),
            ({"kind": None}, "kind is None"),
            ({"entity": 5}, "entity is 5"),
            ({"entity": ""}, "entity is ''"),
            ({"revision": True}, "revision is True"),
            ({"revision": -1}, "revision of event 'n-17' is -1"),
            ({"revision": 1.0}, "revision of event 'n-17' is 1.0"),
            ({"revision": 2**31}, "revision of event 'n-17' is 2147483648"),
            ({"revision": None}, "revision of event 'n-17' is None"),
            ({"text": 5}, "text of event 'n-17' is a int"),
            ({"text": ["secret"]}, "text of event 'n-17' is a list"),
            ({"text": "\ud83d"}, "half of a surrogate pair"),
            ({"scheduled": 1}, "scheduled of event 'n-17' is 1"),
            ({"features": [1]}, r"features is \[1\], not an object"),
            ({"features": {"a": "1"}}, "feature 'a' of event 'n-17' is '1', not a number"),
            ({"features": {"a": True}}, "feature 'a' is True, not a number"),
            ({"features": {"a": {}}}, "feature 'a' of event 'n-17'"),
            ({"features": {"a": 10**400}}, "feature 'a' of event 'n-17' is too large"),
            (
                {"txt": "x"},
                r"key 'txt' is unknown \(did you mean 'text'.*\); known are event_id, available_at",
            ),
            ({"score": 0.5}, "key 'score' is unknown"),
        ],
    )
    def test_what_is_no_event_is_refused(self, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(EventDataError, match=f"^feed, line 7: .*{words}"):
            read(PLAIN | changes)

    @pytest.mark.parametrize("name", ["event_id", "available_at", "event_time", "entity", "kind"])
    def test_what_is_missing_is_named(self, name: str) -> None:
        with pytest.raises(EventDataError, match=f"line 7: key '{name}' is missing"):
            read({key: value for key, value in PLAIN.items() if key != name})

    @pytest.mark.parametrize("name", ["available_at", "event_time"])
    @pytest.mark.parametrize(
        ("value", "words"),
        [
            ("2024-01-05T14:30:00", "has no zone"),
            ("2024-01-05", "is not an instant in ISO 8601"),
            ("now", "is not an instant in ISO 8601"),
            ("", "is not an instant in ISO 8601"),
            ("2024-01-05T14:30:00.0000000001Z", "is not an instant in ISO 8601"),
            ("2024-02-30T14:30:00Z", "is not an instant"),
            ("2024-01-05T24:00:00Z", "is not an instant"),
            ("1600-01-01T00:00:00Z", "lies outside"),
            (1_704_412_800, "not an ISO 8601 text"),
            (None, "not an ISO 8601 text"),
        ],
    )
    def test_what_is_no_instant_is_refused(self, name: str, value: Any, words: str) -> None:
        with pytest.raises(TimestampError, match=f"^feed, line 7: {name}.*{words}"):
            read(PLAIN | {name: value})

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            (b"{", "it is no JSON"),
            (json.dumps(PLAIN).encode()[:-9], "it is no JSON"),
            (json.dumps(PLAIN).encode() * 2, "it is no JSON .Extra data"),
            (b"5", "it holds 5, not an object"),
            (b"[{}]", "it holds .*, not an object"),
            (b'{"event_id": "\xff"}', "byte 14 is not UTF-8"),
            (b'{"kind": "a", "kind": "a"}', "key 'kind' stands twice"),
            (b'{"features": {"a": 1, "a": 2}}', "key 'a' stands twice"),
            (b'{"features": {"a": NaN}}', "NaN is no number of JSON"),
            (b'{"features": {"a": -Infinity}}', "-Infinity is no number of JSON"),
            (b"[" * 100_000, "it is no event"),
            (b'{"revision": ' + b"9" * 5000 + b"}", "it is no event"),
        ],
    )
    def test_what_is_no_json_is_refused(self, line: bytes, words: str) -> None:
        with pytest.raises(EventDataError, match=f"^feed, line 7: {words}"):
            read(line)

    def test_a_number_beyond_every_float_is_refused(self) -> None:
        line = json.dumps(PLAIN | {"features": {"a": 1}}).replace('{"a": 1}', '{"a": 1e999}')
        with pytest.raises(EventDataError, match="feature 'a' of event 'n-17' is inf"):
            read(line)

    def test_a_message_cannot_command_a_terminal(self) -> None:
        for key in ("\x1b[2J", "\u202etxt", "\x9b31m"):
            with pytest.raises(EventDataError) as caught:
                read(PLAIN | {key: "\x1b[2J"})
            assert str(caught.value).isprintable()


class TestRequests:
    def test_of_one_and_of_all(self) -> None:
        assert read({"forecast": "AAPL", "at": "2024-01-05T00:00:00.5Z"}) == ForecastRequest(
            "AAPL", DAY + 5 * 10**8
        )
        assert read({"forecast": None, "at": "2024-01-05T01:00+01:00"}) == ForecastRequest(None, DAY)

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"forecast": "A"}, "key 'at' is missing"),
            ({"forecast": "A", "at": "2024-01-05T00:00"}, "has no zone"),
            ({"forecast": "A", "at": 0}, "at is 0, not an ISO"),
            ({"forecast": 5, "at": "2024-01-05T00:00Z"}, "forecast is 5, not a text"),
            ({"forecast": "\udc00", "at": "2024-01-05T00:00Z"}, "half of a surrogate pair"),
            ({"forecast": "A", "at": "2024-01-05T00:00Z", "kind": "x"}, "key 'kind' is unknown"),
        ],
    )
    def test_what_is_no_request_is_refused(self, fields: dict[str, Any], words: str) -> None:
        with pytest.raises(DataError, match=f"^feed, line 7: .*{words}"):
            read(fields)


class TestLines:
    @given(st.binary(max_size=200).map(lambda raw: raw.replace(b"x", b"\n")), st.integers(1, 9))
    def test_they_are_the_same_however_the_stream_is_cut(self, raw: bytes, size: int) -> None:
        chunks = [raw[start : start + size] for start in range(0, len(raw), size)]
        expected = raw.split(b"\n")
        if not expected[-1]:
            expected.pop()
        assert list(numbered_lines(chunks, source="feed")) == list(enumerate(expected, 1))

    def test_a_line_may_be_as_long_as_the_limit_and_no_longer(self) -> None:
        assert list(numbered_lines([b"ab\n", b"abc\nab"], source="feed", most=3)) == [
            (1, b"ab"), (2, b"abc"), (3, b"ab"),
        ]  # fmt: skip
        for chunks in ([b"ab\nabcd\nab\n"], [b"ab\nab", b"cd"], [b"ab\n", b"abcde"]):
            found = numbered_lines(chunks, source="feed", most=3)
            assert next(found) == (1, b"ab")
            with pytest.raises(EventDataError, match=r"^feed, line 2: longer than 3 bytes"):
                next(found)

    def test_a_line_that_never_ends_is_not_gathered(self) -> None:
        read_so_far = 0

        def endless() -> Any:
            nonlocal read_so_far
            while True:
                read_so_far += 1000
                yield b"a" * 1000

        with pytest.raises(EventDataError, match="longer than 5,000 bytes"):
            list(numbered_lines(endless(), source="feed", most=5000))
        assert read_so_far == 6000


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
events = st.builds(
    lambda name, at, before, entity, kind, revision, text, features: Event(
        name, at, at - before, entity, kind, revision, text, features
    ),
    names,
    st.integers(-(2**62), 2**62),
    st.integers(0, 2**60),
    st.none() | names.filter(lambda name: "\0" not in name),
    names,
    st.integers(0, 2**31 - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    st.dictionaries(names, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
)


class TestWriting:
    @given(events)
    def test_an_event_comes_back_equal(self, event: Event) -> None:
        line = event_line(event)
        assert line.isascii() and line.isprintable()
        assert read(line) == event

    def test_what_is_scheduled_stays_so(self) -> None:
        event = Event("a", DAY, DAY + 1, None, "x", scheduled=True)
        assert read(event_line(event)) == event

    def test_floats_come_back_equal_and_what_is_not_finite_is_null(self) -> None:
        values = {"a": 0.1 + 0.2, "b": math.nan, "c": {"d": -math.inf, "e": 5e-324}, "f": None, "g": True}
        line = values_line(values | {"h": "\u202e\x1b"})
        assert line.isprintable()
        assert json.loads(line) == {
            "a": 0.1 + 0.2, "b": None, "c": {"d": None, "e": 5e-324}, "f": None, "g": True, "h": "\u202e\x1b",
        }  # fmt: skip


def test_a_key_that_stands_twice_is_found_among_any_number() -> None:
    keys = [f'"k{place}":1' for place in range(70_000)]
    line = ("{" + ",".join([*keys, keys[-1]]) + "}").encode()
    assert len(line) < MOST_BYTES
    with pytest.raises(EventDataError, match="key 'k69999' stands twice"):
        read(line)  # in seconds; compared each with each, these took minutes


@pytest.mark.parametrize(
    "fields",
    [
        {"available_at": "1" * 900_000},
        {"event_id": "a" * 900_000, "revision": -1},
        {"kind": "k" * 900_000, "event_id": "b" * 100_000, "features": {"c" * 1000: True}},
        {"x" * 900_000: 1},
    ],
)
def test_a_message_repeats_little_of_what_came_in(fields: dict[str, Any]) -> None:
    with pytest.raises(DataError) as caught:
        read(PLAIN | fields)
    assert str(caught.value).startswith("feed, line 7: ")
    assert len(str(caught.value)) <= 720


def test_a_message_is_cut_in_its_middle() -> None:
    assert cut("a" * 700) == "a" * 700
    told = cut("a" * 500 + "; the remedy" * 30)
    assert told.startswith("a" * 200 + " ... ")
    assert told.endswith("; the remedy")
    assert len(told) == 445
