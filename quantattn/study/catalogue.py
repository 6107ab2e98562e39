"""The studies that come with the package."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from quantattn.study._yaml import read_yaml

DEFAULT_STUDY: Final = "realised_variance"
"""The study that ``quantattn run`` runs when none is named."""


def packaged_studies() -> dict[str, str]:
    """List the packaged studies.

    Returns
    -------
    dict of str to str
        Name to one-line description, the default study first, then by name.
    """
    names = sorted(_names(), key=lambda name: (name != DEFAULT_STUDY, name))
    return {name: _description(name) for name in names}


def packaged_file(name: str) -> Traversable:
    """Give the YAML file of a packaged study; it need not exist."""
    return files("quantattn.study").joinpath("packaged", f"{name}.yaml")


def _names() -> list[str]:
    folder = files("quantattn.study").joinpath("packaged")
    return [file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")]


def _description(name: str) -> str:
    content = read_yaml(packaged_file(name).read_text(encoding="utf-8"), source=f"packaged study {name}")
    return " ".join(str(content["description"]).split())
