"""Halves of surrogate pairs, which JSON can escape and UTF-8 cannot write."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_ESCAPED: Final = re.compile(r"\\u[dD][89a-fA-F]")


def whole_text(text: str) -> str:
    """Replace halves of surrogate pairs by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def load_json(text: str) -> Any:
    """Read a JSON document, with halves of surrogate pairs replaced in every name and text.

    Raises
    ------
    ValueError, RecursionError
        As :func:`json.loads`.
    """
    document = json.loads(text)
    return _mended(document) if _ESCAPED.search(text) else document


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {whole_text(name): _mended(item) for name, item in value.items()}
    return value
