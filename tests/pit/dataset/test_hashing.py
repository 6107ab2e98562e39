from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit import InformationHash, event_digests, information_hash
from quantattn.pit.dataset import _chain_kernels, _siphash_kernels
from tests.pit.build import event_log
from tests.pit.dataset.oracle import BASE, PRIME, event_digest, set_name, siphash

# vectors_sip128 of the reference code of Aumasson and Bernstein: key 00 01 .. 0f, message 00 01 .. n - 1.
PUBLISHED = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    3: "9c70b60c5267a94e5f33b6b02985ed51",
    5: "1368875980776f8854527a07690e9627",
    6: "14eeca338b208613485ea0308fd7a15e",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}


def words(data: bytes) -> tuple[np.uint64, np.uint64]:
    return np.uint64(int.from_bytes(data[:8], "little")), np.uint64(int.from_bytes(data[8:], "little"))


def compiled_siphash(message: bytes, key: bytes) -> bytes:
    found = _siphash_kernels.siphash(np.frombuffer(message, dtype=np.uint8), *words(key))
    return b"".join(int(word).to_bytes(8, "little") for word in found)


@pytest.mark.parametrize(("size", "expected"), PUBLISHED.items())
def test_published_vectors(size: int, expected: str) -> None:
    assert compiled_siphash(bytes(range(size)), bytes(range(16))).hex() == expected
    assert siphash(bytes(range(size)), bytes(range(16))).hex() == expected


@given(message=st.binary(max_size=300), key=st.binary(min_size=16, max_size=16))
def test_siphash_of_any_message(message: bytes, key: bytes) -> None:
    assert compiled_siphash(message, key) == siphash(message, key)


def rows_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return frame.with_columns(pl.col("event_time", "available_at").to_physical()).to_dicts()


texts = st.one_of(
    st.none(), st.text(max_size=40), st.sampled_from(["", "a" * 12, "b" * 13, "é" * 6, "c" * 8])
)
values = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
event = st.fixed_dictionaries(
    {
        "event_id": st.text(max_size=20),
        "revision": st.integers(0, 2**31 - 1),
        "entity": texts,
        "happened": st.integers(-5, 0),
        "available": st.integers(0, 5),
        "kind": st.text(max_size=14),
        "text": texts,
        "x": values,
        "y": values,
        "z": values,
    }
)


@settings(deadline=None)
@given(rows=st.lists(event, max_size=12, unique_by=lambda row: (row["event_id"], row["revision"])))
def test_digests_and_names_are_those_of_the_oracle(rows: list[dict[str, Any]]) -> None:
    frame = event_log(rows, ("x", "y", "z")).frame
    expected = [event_digest(row, ("x", "y", "z")) for row in rows_of(frame)]
    assert [row.tobytes() for row in event_digests(frame, ("x", "y", "z"))] == expected
    assert information_hash(frame, ("z", "x", "y")) == set_name(expected)


@pytest.mark.parametrize("size", range(34))
def test_a_text_of_every_size(size: int) -> None:
    frame = event_log([{"available": 0, "text": "".join(chr(97 + n % 26) for n in range(size))}]).frame
    (row,) = rows_of(frame)
    assert event_digests(frame, ("x", "y"))[0].tobytes() == event_digest(row, ("x", "y"))


def many(count: int) -> pl.DataFrame:
    draw = np.random.default_rng(1)
    return event_log(
        [
            {
                "available": int(draw.integers(0, 9)),
                "text": None if number % 3 == 0 else "text " * int(draw.integers(0, 9)),
                "entity": None if number % 5 == 0 else "entity with a long name" if number % 2 else "A",
                "x": None if number % 4 == 0 else float(number),
                "y": float(draw.standard_normal()),
            }
            for number in range(count)
        ]
    ).frame


def test_how_a_frame_lies_in_memory_does_not_matter() -> None:
    frame = many(300)
    expected = event_digests(frame, ("x", "y"))
    assert [row.tobytes() for row in expected] == [event_digest(row, ("x", "y")) for row in rows_of(frame)]
    # Chunks, slices that start within a byte of a bitmap, rows picked one by one, columns in any order.
    chunked = pl.concat([frame[:7], frame[7:150], frame[150:]], rechunk=False)
    assert chunked.n_chunks() == 3
    assert np.array_equal(event_digests(chunked, ("x", "y")), expected)
    for start in range(20):
        assert np.array_equal(event_digests(frame[start:200], ("x", "y")), expected[start:200])
    order = np.random.default_rng(2).permutation(300)
    assert np.array_equal(event_digests(frame[order], ("x", "y")), expected[order])
    assert np.array_equal(event_digests(frame.select(reversed(frame.columns)), ("y", "x")), expected)
    assert event_digests(frame[:0], ("x", "y")).shape == (0, 16)


def test_blocks_of_many_threads_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = many(300)
    expected = event_digests(frame, ("x", "y"))
    monkeypatch.setattr("quantattn.pit.dataset.hashing._BLOCK", 7)
    assert np.array_equal(event_digests(frame, ("x", "y")), expected)


# --- the chain --------------------------------------------------------------------------------------


def number(pair: Any) -> int:
    return int(pair[0]) + (int(pair[1]) << 64)


edges = [0, 1, 2**63, 2**64 - 1, 2**64, PRIME - 1, PRIME, PRIME + 1, 2**128 - 1]
digests = st.one_of(st.sampled_from(edges), st.integers(0, 2**128 - 1))


@given(sequence=st.lists(digests, max_size=9))
def test_the_chain_is_that_of_whole_numbers(sequence: list[int]) -> None:
    chain = np.zeros(2, dtype=np.uint64)
    pairs = [words(digest.to_bytes(16, "little")) for digest in sequence]
    _chain_kernels.chain_rows(np.array(pairs, dtype=np.uint64).reshape(-1, 2), chain)
    expected = 0
    for digest in sequence:
        expected = (expected * BASE + digest) % PRIME
    assert number(chain) == expected


@given(chain=st.one_of(st.integers(0, PRIME - 1), st.just(PRIME - 1)), digest=digests)
def test_one_step_of_any_chain(chain: int, digest: int) -> None:
    held = np.array(words(chain.to_bytes(16, "little")), dtype=np.uint64)
    pair = np.array([words(digest.to_bytes(16, "little"))], dtype=np.uint64)
    _chain_kernels.chain_rows(pair, held)
    assert number(held) == (chain * BASE + digest) % PRIME


def test_powers_of_the_base() -> None:
    tables = np.zeros((3, 2**_chain_kernels.POWER_BITS, 2), dtype=np.uint64)
    _chain_kernels.fill_powers(tables)
    for level in range(3):
        for place in (0, 1, 2, 1000, 2047):
            assert number(tables[level, place]) == pow(BASE, place * 2048**level, PRIME)


def test_the_base_does_not_come_back_to_one() -> None:
    # Were BASE**k one, events k apart could change places unnoticed.
    # The prime factors of PRIME - 1.
    factors = [2, 3, 3, 3, 7, 7, 19, 43, 73, 127, 337, 5419, 92737, 649657, 77158673929]
    assert np.prod([int(factor) for factor in factors], dtype=object) == PRIME - 1
    order = PRIME - 1
    for factor in factors:
        if pow(BASE, order // factor, PRIME) == 1:
            order //= factor
    assert pow(BASE, order, PRIME) == 1
    assert order > 2**120


def test_streaming_in_any_pieces_gives_the_same_name() -> None:
    frame = many(50)
    every = event_digests(frame, ("x", "y"))
    for pieces in ([50], [0, 1, 49], [20, 30], [1] * 50):
        running, start = InformationHash(), 0
        for piece in pieces:
            running.update(every[start : start + piece])
            start += piece
        assert running.hexdigest() == running.hexdigest() == information_hash(frame, ("x", "y"))
    assert InformationHash().hexdigest() == set_name([])


@pytest.mark.parametrize("wrong", [np.zeros((2, 15), np.uint8), np.zeros(16, np.uint8), np.zeros((2, 16))])
def test_what_is_no_digest_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"give rows of event_digests"):
        InformationHash().update(wrong)


def test_columns_of_other_types_are_read_as_what_they_say() -> None:
    frame = event_log([{"available": 0, "x": 2.0, "y": None}, {"available": 0, "x": None, "y": 3.0}]).frame
    expected = event_digests(frame, ("x", "y"))
    other = frame.with_columns(
        pl.col("x").cast(pl.Float32), pl.col("y").cast(pl.Int8), pl.col("kind").cast(pl.Categorical)
    )
    assert np.array_equal(event_digests(other, ("x", "y")), expected)


GOOD = event_log([{"available": 1, "x": 1.0}, {"available": 2, "x": 2.0}]).frame


@pytest.mark.parametrize("column", ["event_time", "available_at"])
@pytest.mark.parametrize(
    "other", [pl.Datetime("us", "UTC"), pl.Datetime("ns"), pl.Datetime("ns", "America/New_York"), pl.Int64]
)
def test_times_of_another_type_are_refused(column: str, other: Any) -> None:
    frame = GOOD.with_columns(pl.col(column).cast(other))
    for named in (event_digests, information_hash):
        with pytest.raises(TimestampError, match=rf"column '{column}' has type .*, not Datetime.*convert it"):
            named(frame, ("x", "y"))
        with pytest.raises(TimestampError, match=f"column '{column}' has type"):
            named(frame.clear(), ("x", "y"))


@pytest.mark.parametrize("column", ["event_time", "available_at"])
def test_events_without_a_time_are_refused(column: str) -> None:
    frame = GOOD.with_columns(pl.when(pl.col("x") == 1.0).then(pl.col(column)).alias(column))
    with pytest.raises(TimestampError, match=rf"column '{column}' has no time in rows \[1\]"):
        event_digests(frame, ("x", "y"))


@pytest.mark.parametrize("column", ["event_id", "revision", "kind"])
def test_events_without_a_key_are_refused(column: str) -> None:
    frame = GOOD.with_columns(pl.when(pl.col("x") == 1.0).then(pl.col(column)).alias(column))
    with pytest.raises(EventDataError, match=rf"column '{column}' is null: 1 row, first row 1"):
        event_digests(frame, ("x", "y"))


@pytest.mark.parametrize(
    ("column", "other", "wanted"),
    [
        ("revision", pl.Float64, "integers"),
        ("revision", pl.String, "integers"),
        ("event_id", pl.Binary, "String"),
        ("text", pl.List(pl.String), "String"),
        ("x", pl.String, "numbers"),
        ("x", pl.Boolean, "numbers"),
    ],
)
def test_columns_of_another_type_are_refused(column: str, other: Any, wanted: str) -> None:
    frame = GOOD.with_columns(pl.lit(None, dtype=other).alias(column))
    with pytest.raises(EventDataError, match=rf"column '{column}' has type .*, not .*{wanted}"):
        event_digests(frame, ("x", "y"))


def test_missing_columns_and_other_tables_are_refused() -> None:
    with pytest.raises(EventDataError, match=r"'available_at'"):
        event_digests(GOOD.drop("available_at"), ("x", "y"))
    with pytest.raises(EventDataError, match=r"'z'"):
        event_digests(GOOD, ("x", "z"))
    with pytest.raises(UsageError, match=r"frame is of type LazyFrame, not a polars DataFrame"):
        event_digests(GOOD.lazy(), ("x",))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"features='xy'.*give a sequence of names"):
        event_digests(GOOD, "xy")


def test_categories_and_other_integers_name_the_same_set() -> None:
    other = GOOD.with_columns(
        pl.col("kind").cast(pl.Categorical), pl.col("revision").cast(pl.Int64), pl.col("x").cast(pl.Float32)
    )
    assert information_hash(other, ("x", "y")) == information_hash(GOOD, ("x", "y"))
