from __future__ import annotations

from pathlib import Path

import pytest

from quantattn.pit import EventLog
from tests.study.replay.streams import Replayed, lines_of, log_of, make_run, replayed


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a run of two folds of both twins; tests leave it alone."""
    return make_run(tmp_path_factory.mktemp("replay") / "run")


@pytest.fixture(scope="session")
def own_log(run_folder: Path) -> EventLog:
    """Give the run's own events."""
    return log_of(run_folder)


@pytest.fixture(scope="session")
def own_lines(own_log: EventLog) -> list[str]:
    """Give them as lines of JSON."""
    return lines_of(own_log)


@pytest.fixture(scope="session")
def whole(run_folder: Path) -> Replayed:
    """Give one replay of them, from beginning to end."""
    return replayed(run_folder)
