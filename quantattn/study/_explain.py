"""Say in one line what is wrong with a study: the dotted key, what came, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from quantattn.study._values import nearest

_SHOWN: Final = 5
_LONGEST: Final = 80

_EXPECTED: Final[Mapping[str, str]] = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text (put it in quotes if it is one)",
    "tuple_type": "a list, for example [a, b]",
    "model_type": "a section with keys of its own",
    "dict_type": "a section with keys of its own",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "string_too_short": "not an empty text",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
}


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Give the faults of a study, one line each, the first ones when there are many.

    Parameters
    ----------
    error : pydantic.ValidationError
        What pydantic found.
    model : type of pydantic.BaseModel
        The class that was validated; its sections give the known keys.

    Returns
    -------
    str
        One line, or several when there are several faults.
    """
    faults = error.errors(include_url=False)
    lines = [_line(fault, model) for fault in faults[:_SHOWN]]
    if len(faults) > _SHOWN:
        lines.append(f"and {len(faults) - _SHOWN} more")
    return "\n".join(dict.fromkeys(lines))


def _line(fault: ErrorDetails, model: type[BaseModel]) -> str:
    location = fault["loc"]
    say = _SPECIAL.get(fault["type"], _wrong_value)
    return say(fault, _dotted(location), model)


def _wrong_value(fault: ErrorDetails, key: str, model: type[BaseModel]) -> str:
    context = fault.get("ctx", {})
    template = _EXPECTED.get(fault["type"])
    expected = template.format(**context) if template else f"a valid value ({fault['msg']})"
    return f"{key}: {_quote(fault['input'])} came where {expected} is needed"


def _broken_rule(fault: ErrorDetails, key: str, model: type[BaseModel]) -> str:
    return f"{key}: {fault['ctx']['error']}"


def _missing(fault: ErrorDetails, key: str, model: type[BaseModel]) -> str:
    return f"{key}: is missing; add it"


def _unknown_key(fault: ErrorDetails, key: str, model: type[BaseModel]) -> str:
    *path, last = fault["loc"]
    section = _section(model, path)
    known = list(section.model_fields) if section else []
    where = f"in {_dotted(path)}" if path else "at the top level"
    key = _dotted([*path, str(last)])
    return f"{key}: there is no such key {where}{nearest(str(last), known)}; known: {', '.join(known)}"


def _unknown_choice(fault: ErrorDetails, key: str, model: type[BaseModel]) -> str:
    known = re.findall(r"'([^']*)'", fault["ctx"]["expected"])
    hint = nearest(fault["input"], known) if isinstance(fault["input"], str) else ""
    return f"{key}: {_quote(fault['input'])} is unknown{hint}; known: {', '.join(known)}"


_SPECIAL: Final[Mapping[str, Callable[[ErrorDetails, str, type[BaseModel]], str]]] = {
    "value_error": _broken_rule,
    "missing": _missing,
    "extra_forbidden": _unknown_key,
    "invalid_key": _unknown_key,
    "literal_error": _unknown_choice,
}


def _section(model: type[BaseModel], path: Sequence[int | str]) -> type[BaseModel] | None:
    """Find the section class at the end of a path of keys and list positions."""
    current: type[BaseModel] | None = model
    for step in path:
        if isinstance(step, str) and current is not None:
            field = current.model_fields.get(step)
            current = _model_in(field.annotation) if field else None
    return current


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(argument) for argument in get_args(annotation))
    return next((model for model in found if model is not None), None)


def _dotted(location: Sequence[int | str]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return text.removeprefix(".") or "study"


def _quote(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
