from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import StudyError
from quantattn.study._yaml import read_yaml, write_scalar, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15:45", "15:45"),  # 945 in YAML 1.1
        ("NO", "NO"),  # False in YAML 1.1
        ("ON", "ON"),
        ("y", "y"),
        ("0700", "0700"),  # 448 in YAML 1.1
        ("7203", 7203),
        ("1_000", "1_000"),
        ("1e-3", 0.001),  # a text in YAML 1.1
        ("-1.5E+2", -150.0),
        (".5", 0.5),
        ("5.", 5.0),
        (".inf", ".inf"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("2000-01-31", date(2000, 1, 31)),
        ("2000-01-31 10:00:00", "2000-01-31 10:00:00"),
        ("-15min", "-15min"),
        ("'7203'", "7203"),
    ],
)
def test_scalars_mean_what_they_look_like(text: str, value: object) -> None:
    read = read_yaml(f"key: {text}", source="s")["key"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1", "the key 'a' stands here a second time"),
        ("a:\n  b: 1\n  b: 2\n", "line 3, column 3", "the key 'b'"),
        ("a: {b: 1, b: 2}\n", "line 1, column 11", "the key 'b'"),
        ("a: [1, 2\nb: 3\n", "line 2, column 2", "expected ',' or ']'"),
        ("a: 1\n  b: 2\n", "line 2, column 4", "mapping values are not allowed"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1", "another document"),
        ("a: *nobody\n", "line 1, column 4", "undefined alias"),
        (
            "a: !!python/object/apply:os.system [ls]\n",
            "line 1, column 4",
            "could not determine a constructor",
        ),
        ("a: 1\nstart: 2000-13-45\n", "line 2, column 8", "'2000-13-45' cannot be read"),
        ("a: !!int x\n", "line 1, column 4", "'x' cannot be read"),
        ("? [1, 2]\n: 3\n", "line 1, column 3", "a key must be a single word"),
        ("a: 1\nb: \x00\n", "line 2, column 4", "U+0000"),
        ('a: "open\n', "line 2, column 1", "unexpected end of stream"),
    ],
)
def test_faults_are_given_by_line_and_column(text: str, where: str, what: str) -> None:
    with pytest.raises(StudyError) as caught:
        read_yaml(text, source="my.yaml")
    message = str(caught.value)
    assert message.startswith(f"my.yaml, {where}: ")
    assert what in message
    assert "\n" not in message


def test_a_depth_that_no_study_has_is_refused() -> None:
    with pytest.raises(StudyError, match="nested too deeply"):
        read_yaml("[" * 5000, source="s")


def test_merged_keys_may_be_overridden() -> None:
    text = "base: &base {a: 1, b: 2}\nmore: {<<: *base, b: 3}\n"
    assert read_yaml(text, source="s")["more"] == {"a": 1, "b": 3}


_TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20) | st.sampled_from(
    [
        "NO",
        "on",
        "0700",
        "12:30",
        "1e-3",
        "~",
        "null",
        "2000-01-01",
        "=",
        "<<",
        "- a",
        "a: b",
        "#",
        "&a",
        "0x1f",
    ]
)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.dates()
    | _TEXTS
)


@settings(deadline=None)
@given(
    st.dictionaries(_TEXTS, st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=4), max_leaves=8))
)
def test_what_is_written_is_read_back(value: dict[str, object]) -> None:
    text = write_yaml(value)
    assert read_yaml(text, source="s") == value
    assert write_yaml(value) == text


@settings(deadline=None)
@given(_SCALARS | st.lists(_SCALARS, max_size=5))
def test_one_line_values_are_read_back(value: object) -> None:
    text = write_scalar(value)
    assert "\n" not in text
    assert read_yaml(f"key: {text}", source="s") == {"key": value}
