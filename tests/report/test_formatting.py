"""Figures as people read them, each expected text written by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantattn.report import formatting
from quantattn.report.formatting import NumberColumn, number_column

S, N, M = "\u00a0", "\u202f", "\u2212"
DAY = 86_400_000_000_000


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (1234.5678, 2, "1,234.57"),
        (-0.5, 1, f"{M}0.5"),
        (-0.0004, 3, "0.000"),
        (0.0, 0, "0"),
        (None, 2, "–"),
        (math.nan, 2, "–"),
        (math.inf, 2, "–"),
    ],
)
def test_number(value: float | None, decimals: int, text: str) -> None:
    assert formatting.number(value, decimals) == text


def test_signed_number() -> None:
    assert formatting.number(0.25, 2, signed=True) == "+0.25"
    assert formatting.number(-0.25, 2, signed=True) == f"{M}0.25"
    assert formatting.number(0.001, 2, signed=True) == "0.00"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3.14159, "3.14"),
        (0.00012345, "0.000123"),
        (0.000012345, f"1.23{S}×{S}10⁻⁵"),
        (9.999, "10.0"),
        (123456.0, "123,456"),
        (-2.5e12, f"{M}2.50{S}×{S}10¹²"),
        (None, "–"),
    ],
)
def test_significant(value: float | None, text: str) -> None:
    assert formatting.significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.412, f"0.412{S}µs"),
        (41.25, f"41.2{S}µs"),
        (999.4, f"999{S}µs"),
        (999.6, f"1.00{S}ms"),
        (1234.0, f"1.23{S}ms"),
        (2_500_000.0, f"2.50{S}s"),
        (None, "–"),
    ],
)
def test_microseconds(value: float | None, text: str) -> None:
    assert formatting.microseconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.021, f"21.0{S}ms"),
        (5.0, f"5.00{S}s"),
        (59.97, f"1{S}min 00{S}s"),
        (83.4, f"1{S}min 23{S}s"),
        (3599.7, f"60{S}min 00{S}s"),
        (5400.0, f"1{S}h 30{S}min"),
        (None, "–"),
    ],
)
def test_seconds(value: float | None, text: str) -> None:
    assert formatting.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (512, f"512{S}B"),
        (33_024, f"32.2{S}KiB"),
        (1_048_576, f"1.00{S}MiB"),
        (3 * 2**30, f"3.00{S}GiB"),
        (None, "–"),
    ],
)
def test_byte_size(value: float | None, text: str) -> None:
    assert formatting.byte_size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0009, f"<{S}0.001"), (0.001, "0.001"), (0.0496, "0.050"), (1.0, "1.000"), (None, "–")],
)
def test_p_value(value: float | None, text: str) -> None:
    assert formatting.p_value(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, f"100{N}%"), (0.99999, f"99.9{N}%"), (0.0481, f"4.8{N}%"), (0.0, f"0{N}%"), (None, "–")],
)
def test_only_a_whole_coverage_reads_as_whole(value: float | None, text: str) -> None:
    assert formatting.share(value) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, f"1{S}Jan{S}1970, 00:00{S}UTC"),
        (14_617 * DAY + 74_700 * 10**9, f"8{S}Jan{S}2010, 20:45{S}UTC"),
        (14_617 * DAY + 74_700 * 10**9 - 1, f"just before 8{S}Jan{S}2010, 20:45{S}UTC"),
        (14_617 * DAY + 74_701 * 10**9, f"8{S}Jan{S}2010, 20:45:01{S}UTC"),
        (-DAY, f"31{S}Dec{S}1969, 00:00{S}UTC"),
        (None, "–"),
    ],
)
def test_instant(nanoseconds: int | None, text: str) -> None:
    assert formatting.instant(nanoseconds) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (15 * 60 * 10**9, f"15{S}min"),
        (90 * 10**9, f"1{S}min 30{S}s"),
        (85_440 * 10**9, f"23.7{S}h"),
        (3 * DAY, f"3{S}days"),
        (3 * DAY + 5 * 3_600 * 10**9, f"3{S}days 5{S}h"),
        (1, f"0.00100{S}µs"),
        (None, "–"),
    ],
)
def test_elapsed(nanoseconds: int | None, text: str) -> None:
    assert formatting.elapsed(nanoseconds) == text


def test_words_and_plurals() -> None:
    assert formatting.words([]) == ""
    assert formatting.words(["a"]) == "a"
    assert formatting.words(["a", "b", "c"]) == "a, b and c"
    assert formatting.plural(1, "entity", "entities") == "1 entity"
    assert formatting.plural(1_200, "fold") == "1,200 folds"
    assert formatting.sentence("éa b") == "Éa b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (2020, "2020"),
        (124_310, "124,310"),
        (2.0, "2"),
        (0.12345, "0.1235"),
        ("x", "x"),
    ],
)
def test_plain(value: object, text: str) -> None:
    assert formatting.plain(value) == text


def test_column_shows_two_digits_of_the_uncertainty() -> None:
    column = number_column([0.4872, 0.478], [0.042, 0.044])
    assert column == NumberColumn(0, 3)
    assert column.text(0.4872) == "0.487"
    assert column.range_text(0.4662, None) == ""


def test_column_of_small_figures_has_a_power_of_ten() -> None:
    column = number_column([-1.5e-6, -30.6e-6], [5e-6])
    assert column == NumberColumn(-6, 1)
    assert column.text(-1.5e-6, signed=True) == f"{M}1.5"
    assert column.with_unit(2.5e-6, signed=True) == f"+2.5{S}×{S}10⁻⁶"
    assert column.with_unit(None) == "–"
    assert number_column([4.2e-4], [2.6e-3], plain_from=0) == NumberColumn(0, 4)


def test_column_without_figures() -> None:
    assert number_column([None, math.nan]).text(None) == "–"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_formatter_ever_says_nan(value: float) -> None:
    column = number_column([value])
    texts = [
        formatting.number(value, 3),
        formatting.significant(value),
        formatting.percent(value),
        formatting.share(value),
        formatting.microseconds(value),
        formatting.seconds(value),
        formatting.byte_size(value),
        formatting.p_value(value),
        formatting.plain(value),
        column.with_unit(value),
    ]
    assert not any(word in text.lower() for text in texts for word in ("nan", "inf", "e+", "e-"))


@given(st.text())
def test_visible_text_keeps_length_and_letters(text: str) -> None:
    shown = formatting.visible_text(text)
    assert len(shown) == len(text)
    assert all(a == b or b == "\ufffd" for a, b in zip(text, shown, strict=True))
    assert "\u202e" not in shown
