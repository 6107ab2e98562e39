"""Run directories to report on, and pages read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quantattn.report import render_report
from tests.report.page_reader import Page, read_page
from tests.report.synthetic import RunOptions, build_run

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Give a function that writes a made-up run directory; keywords are those of `RunOptions`."""

    def make(name: str = "run", **options: object) -> Path:
        return build_run(tmp_path / name, RunOptions(**options))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def variance_html(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the report of the full variance study as text."""
    return render_report(build_run(tmp_path_factory.mktemp("variance") / "run"))


@pytest.fixture(scope="session")
def variance_page(variance_html: str) -> Page:
    """Give the report of the full variance study, read back."""
    return read_page(variance_html)
