"""The annotated study file that ``quantattn init`` writes, made from the sections themselves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from quantattn.study._yaml import write_scalar
from quantattn.study.config import Study

_WIDTH: Final = 100

_HEADER: Final = """\
# A quantattn study. Point the three files at your own data (paths start at this file's folder), then
#
#     quantattn run {file}
#
# Every key is written out with its default and may be left out, save name and the data files. Keys that
# quantattn does not know are refused, and so are columns that a file does not have. Times without a zone
# are refused until time_zone says which zone they are in.
"""

_EXAMPLE: Final[dict[str, Any]] = {
    "name": "my_study",
    "description": "Log realised variance of the next 5 sessions, from my own prices and news.",
    "data": {
        "prices": {"source": "prices.csv", "session": "date", "entity": "entity", "close": "close"},
        "index": {"source": "index.csv", "session": "date", "close": "close"},
        "events": [
            {
                "path": "events.csv",
                "event_time": "published_at",
                "entity": "entity",
                "text": "headline",
            }
        ],
    },
}


def study_template(file: str = "study.yaml") -> str:
    """Give an annotated study file for one's own data.

    Parameters
    ----------
    file : str, optional
        What the file will be called, for the command shown at its top.

    Returns
    -------
    str
        YAML with a comment at every key. It loads once ``prices.csv``, ``index.csv`` and ``events.csv``
        exist or are replaced.
    """
    return _HEADER.format(file=file) + annotated_yaml(Study.model_validate(_EXAMPLE))


def annotated_yaml(study: Study) -> str:
    """Give a study as YAML in which every key carries its meaning as a comment.

    Parameters
    ----------
    study : Study
        Any study.

    Returns
    -------
    str
        Loading it gives an equal study.
    """
    return "\n".join(_mapping(study, depth=0)) + "\n"


def _mapping(section: BaseModel, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, field in type(section).model_fields.items():
        value = getattr(section, key)
        if depth == 0:
            yield ""
        yield from _comment(field.description or _summary(value), indent)
        if isinstance(value, BaseModel):
            yield f"{indent}{key}:"
            yield from _mapping(value, depth + 1)
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            yield f"{indent}{key}:"
            for item in value:
                yield from _item(item, depth + 1)
        else:
            yield f"{indent}{key}: {write_scalar(value)}"


def _item(section: BaseModel, depth: int) -> Iterator[str]:
    """Write one section of a list: a lone dash, and its keys deeper."""
    yield "  " * depth + "-"
    yield from _mapping(section, depth + 1)


def _summary(value: Any) -> str:
    return (type(value).__doc__ or "").strip().splitlines()[0] if isinstance(value, BaseModel) else ""


def _comment(text: str, indent: str) -> list[str]:
    lines = textwrap.wrap(text, _WIDTH - len(indent) - 2, break_long_words=False)
    return [f"{indent}# {line}" for line in lines]
