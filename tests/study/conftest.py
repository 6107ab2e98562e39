from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PRICES = "date,entity,close\n2024-01-02,AAA,10.0\n2024-01-03,AAA,10.5\n"
INDEX = "date,close\n2024-01-02,100.0\n2024-01-03,101.0\n"
EVENTS = "published_at,entity,headline,score\n2024-01-02T15:00:00,AAA,Up,0.5\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with the three small files that the written template names."""
    (tmp_path / "prices.csv").write_text(PRICES)
    (tmp_path / "index.csv").write_text(INDEX)
    (tmp_path / "events.csv").write_text(EVENTS)
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Callable[[str], Path]:
    """Write a study file beside the data and give its path."""

    def _write(text: str) -> Path:
        path = folder / "my.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return _write
