from __future__ import annotations

import pytest

from tests.audit.pipeline import Pipeline, Ran, random_prices, run


@pytest.fixture(scope="session")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run the honest pipeline once for all tests."""
    return run(Pipeline(random_prices()), tmp_path_factory.mktemp("honest"))
