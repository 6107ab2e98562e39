"""Real data that lies beside the checkout; tests of it skip, visibly, where it is not there."""

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def path_of(name):
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path
