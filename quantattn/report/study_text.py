"""Looks settings up in the text of the resolved study; what is not known is None."""

from __future__ import annotations

from typing import Any

import yaml


def study_setting(text: str, *path: str) -> Any:
    """Give one setting of a study file.

    Parameters
    ----------
    text : str
        ``study.yaml`` as it stands; it may be anything.
    *path : str
        The keys that lead to the setting, such as ``"training", "interval"``.

    Returns
    -------
    Any
        The value; None where the text is not YAML or has no such setting.
    """
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
