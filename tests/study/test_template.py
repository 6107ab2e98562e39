from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from quantattn.errors import StudyError
from quantattn.study import (
    annotated_yaml,
    find_study,
    load_study,
    parse_study,
    resolved_yaml,
    study_template,
)
from quantattn.study._yaml import read_yaml


def test_the_written_file_loads_with_real_data_beside_it(folder: Path) -> None:
    path = folder / "study.yaml"
    path.write_text(study_template(), encoding="utf-8")
    study = load_study(path)
    assert study.data.prices.source == str(folder / "prices.csv")
    assert study.data.index is not None
    assert study.data.index.source == str(folder / "index.csv")
    assert [events.path for events in study.data.events] == [str(folder / "events.csv")]
    assert study.quick().data.max_entities == 6


def test_what_is_written_is_a_default_or_a_placeholder() -> None:
    """A guess in place of a default that refuses, such as a zone, would quietly shift every event."""
    study = parse_study(read_yaml(study_template(), source="s"), check_files=False)
    unlike = dict(_unlike_defaults(study))
    here = Path.cwd()
    assert unlike == {
        "name": "my_study",
        "description": "Log realised variance of the next 5 sessions, from my own prices and news.",
        "data.prices.source": str(here / "prices.csv"),
        "data.index.source": str(here / "index.csv"),
        "data.events[0].path": str(here / "events.csv"),
        "data.events[0].event_time": "published_at",
        "data.events[0].entity": "entity",
        "data.events[0].text": "headline",
    }
    assert study.data.events[0].time_zone is None


def test_without_data_only_the_three_placeholders_are_complained_of(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(study_template(), encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        load_study(path)
    keys = [line.removeprefix(f"{path}: ").split(":")[0] for line in str(caught.value).splitlines()]
    assert keys == ["data.prices.source", "data.index.source", "data.events[0].path"]


def test_every_key_is_there_with_a_comment_above_it() -> None:
    lines = study_template().splitlines()
    written = read_yaml(study_template(), source="s")
    resolved = read_yaml(resolved_yaml(parse_study(written, check_files=False)), source="s")
    assert _keys(written) == _keys(resolved)
    for line, above in zip(lines[1:], lines, strict=False):
        is_key = line.strip() and not line.strip().startswith(("#", "-"))
        assert not is_key or above.strip().startswith("#"), line


def test_no_line_is_too_long_to_read() -> None:
    assert max(map(len, study_template().splitlines())) <= 110


def test_the_command_at_the_top_names_the_file() -> None:
    assert "quantattn run mine/own.yaml" in study_template("mine/own.yaml")


@pytest.mark.parametrize("name", ["realised_variance", "returns"])
def test_annotating_a_study_does_not_alter_it(name: str) -> None:
    study = find_study(name)
    assert parse_study(read_yaml(annotated_yaml(study), source="s")) == study


def _unlike_defaults(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Give each key whose value is not the default of its own section, with that value."""
    for key, field in type(section).model_fields.items():
        value = getattr(section, key)
        if isinstance(value, BaseModel):
            yield from _unlike_defaults(value, f"{prefix}{key}.")
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            for number, item in enumerate(value):
                yield from _unlike_defaults(item, f"{prefix}{key}[{number}].")
        elif prefix + key == "target.log":
            assert value is True  # what null means for a realised variance
        elif field.is_required() or value != field.default:
            yield prefix + key, value


def _keys(value: object) -> object:
    if isinstance(value, dict):
        return {key: _keys(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_keys(inner) for inner in value if isinstance(inner, dict)]
    return None
