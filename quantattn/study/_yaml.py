"""The YAML of study files: plain data alone, without the surprises of YAML 1.1.

Compared with PyYAML's safe loader, ``15:45`` is a text and not 945, ``NO`` and ``ON`` (tickers both) are
texts and not booleans, ``0700`` is a text and not 448, ``1e-3`` is a number and not a text, and a key
written twice is an error instead of a silent overwrite.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from quantattn.errors import StudyError

_RESOLVERS: tuple[tuple[str, str, str], ...] = (
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", "~nN"),
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"^[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$",
        "-+.0123456789",
    ),
    ("tag:yaml.org,2002:timestamp", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "0123456789"),
    ("tag:yaml.org,2002:merge", r"^(?:<<)$", "<"),
)


class _Loader(yaml.SafeLoader):
    """A safe loader with the scalars of YAML 1.2, dates, and unique keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, OverflowError, AttributeError) as error:  # for example the date 2000-13-45
            raise yaml.constructor.ConstructorError(
                None, None, f"{node.value!r} cannot be read ({error})", node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a single word", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands here a second time", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes every text that YAML 1.1 or :class:`_Loader` would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        # Items of a list stand deeper than its key, as people write them.
        super().increase_indent(flow, False)


for _tag, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), [*_first, *([""] if "null" in _tag else [])])
    _Dumper.add_implicit_resolver(_tag, re.compile(_pattern), [*_first])


def read_yaml(text: str, *, source: str) -> Any:
    """Read one YAML document into plain Python values.

    Parameters
    ----------
    text : str
        The document.
    source : str
        Where it came from, for the error message.

    Returns
    -------
    object
        Mappings, lists, texts, numbers, booleans, dates and nulls.

    Raises
    ------
    StudyError
        If it is not YAML, holds more than one document or a key twice; the message gives line and column.
    """
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = " ".join(str(error.problem or error.context or "cannot be read").split())
        raise StudyError(f"{source}{where}: not a valid study file: {problem}; correct that line") from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1
        raise StudyError(
            f"{source}, line {line}, column {column}: character U+{_code_point(error):04X} is not allowed in "
            "YAML; remove it"
        ) from error
    except RecursionError as error:
        raise StudyError(f"{source}: nested too deeply to be a study file; flatten it") from error


def write_yaml(value: Any) -> str:
    """Give the one YAML text of plain Python values, in the order of their keys.

    Parameters
    ----------
    value : object
        Mappings, lists, texts, numbers, booleans, dates and nulls.

    Returns
    -------
    str
        Block style, UTF-8, ending in a newline; :func:`read_yaml` gives `value` back.
    """
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100
    )
    return text


def write_scalar(value: Any) -> str:
    """Give a single value, or a list of single values, as YAML on one line."""
    text: str = yaml.dump(
        [value], Dumper=_Dumper, allow_unicode=True, default_flow_style=True, width=float("inf")
    )
    return text.strip()[1:-1]


def _code_point(error: yaml.reader.ReaderError) -> int:
    character: Any = error.character
    return ord(character) if isinstance(character, str) else int(character)
