from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.encoders import HashingTextEncoder
from quantattn.encoders.text import TextHasher
from quantattn.errors import EncoderError


def murmur3(data: bytes) -> int:
    """MurmurHash3 x86 32 bit with seed 0 (Appleby), signed, one step at a time."""
    mask, h = 0xFFFFFFFF, 0
    for start in range(0, len(data) - len(data) % 4, 4):
        k = int.from_bytes(data[start : start + 4], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) & mask
        h ^= k * 0x1B873593 & mask
        h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    tail = int.from_bytes(data[len(data) - len(data) % 4 :], "little") * 0xCC9E2D51 & mask
    tail = (tail << 15 | tail >> 17) & mask
    h ^= tail * 0x1B873593 & mask
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def hashed(words: list[str], width: int, longest: int) -> list[float]:
    """Signed counts of all runs of words, scaled to unit length."""
    counts = [0.0] * width
    for length in range(1, longest + 1):
        for start in range(len(words) - length + 1):
            value = murmur3(" ".join(words[start : start + length]).encode())
            counts[abs(value) % width] += 1.0 if value >= 0 else -1.0
    norm = sum(count * count for count in counts) ** 0.5
    return [count / norm if norm else 0.0 for count in counts]


def encode(*texts: str | None, width: int = 32, ngram_range: tuple[int, int] = (1, 2)) -> np.ndarray:
    return HashingTextEncoder(width, ngram_range).transform(pl.Series(list(texts), dtype=pl.String))


def test_the_oracle_gives_published_hashes() -> None:
    assert murmur3(b"") == 0
    assert murmur3(b"hello") == 0x248BFA47
    assert murmur3(b"hello, world") == 0x149BBB7F


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("closed", ["closed"]),
        ("AAPL closed down sharply", ["aapl", "closed", "down", "sharply"]),
        (
            "AAPL closed down 2.31 % on a volume 1.5 times",
            ["aapl", "closed", "down", "on", "a", "volume", "times"],
        ),
        ("52-week high", ["week", "high"]),
        ("Q3 results", ["results"]),
        ("x1y under_score COVID19", []),
        ("Straße ＡＢＣ", ["strasse", "abc"]),
        ("don't", ["don", "t"]),
        ("don\u2019t", ["don", "t"]),
        ("Cafe\u0301", ["café"]),
        ("東京 市場", ["東京", "市場"]),
        ("T fell; T rose", ["t", "fell", "t", "rose"]),
    ],
)
@pytest.mark.parametrize("width", [1, 8, 32, 100])
def test_matches_the_hashes_by_hand(text: str, words: list[str], width: int) -> None:
    encoded = encode(text, width=width)
    assert encoded.dtype == np.float32
    assert encoded.shape == (1, width)
    np.testing.assert_array_equal(encoded[0], np.array(hashed(words, width, 2), dtype=np.float32))


def test_single_words_only() -> None:
    expected = np.array(hashed(["new", "high"], 16, 1), dtype=np.float32)
    np.testing.assert_array_equal(encode("new high", width=16, ngram_range=(1, 1))[0], expected)


def test_known_values() -> None:
    # fell 1_227_342_110 -> +6, rose -1_139_389_964 -> -4, bar and up -> +5, calm -1_823_416_734 -> -6.
    encoded = encode("fell rose", "bar up", "fell calm", "Rose", width=8, ngram_range=(1, 1))
    half = np.sqrt(0.5)
    expected = [
        [0, 0, 0, 0, -half, 0, half, 0],
        [0, 0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, -1, 0, 0, 0],
    ]
    np.testing.assert_array_equal(encoded, np.array(expected, dtype=np.float32))


def test_null_and_wordless_texts_are_zero() -> None:
    encoded = encode(None, "", "  ", "2.31 % 1,000", "!?", None)
    np.testing.assert_array_equal(encoded, np.zeros((6, 32), dtype=np.float32))


def test_figures_do_not_matter() -> None:
    encoded = encode("closed down 2.31 % on the day", "closed down 7 % on the day")
    np.testing.assert_array_equal(encoded[0], encoded[1])
    assert encoded[0].any()


def test_empty_and_untyped_columns() -> None:
    assert encode().shape == (0, 32)
    nulls = HashingTextEncoder().transform(pl.Series([None, None], dtype=pl.Null))
    np.testing.assert_array_equal(nulls, np.zeros((2, 32), dtype=np.float32))
    categories = HashingTextEncoder().transform(pl.Series(["up", "down", "up"], dtype=pl.Categorical))
    np.testing.assert_array_equal(categories, encode("up", "down", "up"))


def test_equal_texts_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.feature_extraction.text import HashingVectorizer

    seen: list[str] = []
    original = HashingVectorizer.transform

    def spy(self: HashingVectorizer, texts: list[str]) -> object:
        seen.extend(texts)
        return original(self, texts)

    monkeypatch.setattr(HashingVectorizer, "transform", spy)
    encode("up", "down", None, "up", "up", "down")
    assert seen == ["up", "down"]


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"word {'abcdefghij'[row]} again" for row in range(10)] + [None]
    whole = encode(*texts)
    monkeypatch.setattr("quantattn.encoders.text._BATCH", 3)
    np.testing.assert_array_equal(encode(*texts), whole)
    assert len({row.tobytes() for row in whole}) == 11


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=30)), min_size=1, max_size=8), st.randoms())
def test_rows_are_independent_bit_for_bit(texts: list[str | None], random: object) -> None:
    whole = encode(*texts)
    for row, text in enumerate(texts):
        assert encode(text)[0].tobytes() == whole[row].tobytes()
    lengths = np.linalg.norm(whole.astype(np.float64), axis=1)
    assert all(length == 0 or abs(length - 1) < 1e-6 for length in lengths)


def test_the_same_bits_in_other_processes() -> None:
    program = (
        "import polars as pl; from quantattn.encoders import HashingTextEncoder as H; "
        "texts = pl.Series(['AAPL closed at a new high', 'index drawdown', None]); "
        "print(H(16).transform(texts).tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "271828")
    }
    assert outputs == {encode("AAPL closed at a new high", "index drawdown", None, width=16).tobytes().hex()}


@pytest.mark.parametrize(
    ("width", "ngram_range", "named"),
    [
        (0, (1, 2), "width=0"),
        (-3, (1, 2), "width=-3"),
        (2.0, (1, 2), "width=2.0"),
        (True, (1, 2), "width=True"),
        (8, (0, 1), "ngram_range=(0, 1)"),
        (8, (2, 1), "ngram_range=(2, 1)"),
        (8, 2, "ngram_range=2"),
        (8, ("a", "b"), "ngram_range"),
    ],
)
def test_impossible_arguments(width: object, ngram_range: object, named: str) -> None:
    with pytest.raises(EncoderError, match="use") as caught:
        HashingTextEncoder(width, ngram_range).transform(pl.Series(["up"]))  # type: ignore[arg-type]
    assert named in str(caught.value)


@pytest.mark.parametrize("texts", [pl.Series([1, 2]), ["up"], np.array(["up"])])
def test_what_is_not_text(texts: object) -> None:
    with pytest.raises(EncoderError, match=r"not a polars Series of String; cast it"):
        HashingTextEncoder().transform(texts)  # type: ignore[arg-type]


def test_hostile_text_is_linear() -> None:
    # A quadratic pattern would need some 10**11 steps here.
    encoded = encode("a" * 400_000 + "1", "a'" * 200_000 + "1")
    assert not encoded[0].any()
    assert encoded[1].any()


# --- one text at a time -----------------------------------------------------------------------------------

HOSTILE = "aZ bY9_ é ß İ ſ ﬀ Ａ東 ٣²Ⅷǅª\u0301\u200d\U0001d400\U0001f600-'.\n\t\x00\x1f\x85\xa0\u2028\ufeff"


@pytest.mark.parametrize("width", [1, 7, 32])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 2), (2, 3), (3, 3)])
def test_one_text_has_the_bits_of_the_table(width: int, ngram_range: tuple[int, int]) -> None:
    draw = np.random.default_rng(width)
    texts = ["".join(draw.choice(list(HOSTILE), draw.integers(0, 40))) for _ in range(300)]
    texts += [
        "",
        "a",
        "a b",
        "A  b\nC",
        "x" * 5_000,
        "ab " * 3_000,
        "don't",
        "52-week high",
        "x1y under_score K2",
    ]
    wanted = encode(*texts, width=width, ngram_range=ngram_range)
    hasher = TextHasher(HashingTextEncoder(width, ngram_range), remember=5)
    for text, row in zip(texts, wanted, strict=True):
        assert hasher(text).tobytes() == row.tobytes() == hasher(text).tobytes()
    assert np.count_nonzero(wanted.any(axis=1)) > 100
    assert not hasher(None).any()


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=60) | st.text(alphabet=HOSTILE, max_size=60) | st.text(alphabet="aB1_ é", max_size=30)
)
def test_any_text(text: str) -> None:
    assert TextHasher(HashingTextEncoder(16))(text).tobytes() == encode(text, width=16)[0].tobytes()


def word_with_hash(wanted: int) -> str:
    """Eight letters of a given hash: the steps of the last block are undone, until it holds letters."""
    mask = 0xFFFFFFFF

    def unshifted(value: int, by: int) -> int:
        found = value
        for _ in range(32 // by + 1):
            found = value ^ found >> by
        return found

    def divided(value: int, factor: int) -> int:
        return value * pow(factor, -1, 2**32) & mask

    h = unshifted(wanted, 16)
    h = unshifted(divided(h, 0xC2B2AE35), 13)
    h = unshifted(divided(h, 0x85EBCA6B), 16) ^ 8
    h = divided(h - 0xE6546B64, 5)
    h = (h >> 13 | h << 19) & mask
    for first in map("".join, itertools.product("abcdefghijklmnop", repeat=4)):
        k = int.from_bytes(first.encode(), "little") * 0xCC9E2D51 & mask
        begun = ((k << 15 | k >> 17) & mask) * 0x1B873593 & mask
        begun = ((begun << 13 | begun >> 19) & mask) * 5 + 0xE6546B64 & mask
        k = divided(h ^ begun, 0x1B873593)
        last = divided(k >> 15 | k << 17, 0xCC9E2D51).to_bytes(4, "little")
        if all(97 <= letter <= 122 for letter in last):
            return first + last.decode()
    raise AssertionError("no such word")


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, -1, 0])
@pytest.mark.parametrize("width", [1, 3, 7, 32, 1000])
def test_the_least_hash_has_no_absolute_value(value: int, width: int) -> None:
    word = word_with_hash(value & 0xFFFFFFFF)
    assert murmur3(word.encode()) == value
    found = TextHasher(HashingTextEncoder(width))(word)
    assert found.tobytes() == encode(word, width=width)[0].tobytes()
    assert np.flatnonzero(found).tolist() == [abs(value) % width]
    assert found[abs(value) % width] == (1 if value >= 0 else -1)


def test_what_was_hashed_is_kept_and_cannot_be_written_to() -> None:
    hasher = TextHasher(HashingTextEncoder(8), remember=2)
    first = hasher("up again")
    assert hasher("up again") is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        hasher(None)[0] = 1.0
    hasher("down")
    hasher("up again")  # the latest again
    hasher("flat")
    assert hasher("up again") is first
    long = "word " * 1_000
    assert hasher(long) is not hasher(long)


def test_half_a_surrogate_pair_is_no_letter() -> None:
    hasher = TextHasher(HashingTextEncoder(8))
    assert hasher("\ud800 up \udfff").tobytes() == hasher("up").tobytes()


def test_a_hasher_of_an_impossible_encoder() -> None:
    with pytest.raises(EncoderError, match="width=0"):
        TextHasher(HashingTextEncoder(0))
