"""Long-run variance and lag rule against hand-worked numbers and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from quantattn.evaluation import hac_lags, long_run_variance


def test_long_run_variance_by_hand() -> None:
    # 1, 2, 3, 6 has mean 3 and deviations -2, -1, 0, 3. Autocovariances: (4 + 1 + 0 + 9)/4 = 3.5,
    # (2 + 0 + 0)/4 = 0.5, (0 - 3)/4 = -0.75, (-6)/4 = -1.5.
    series = np.array([1.0, 2.0, 3.0, 6.0])
    assert long_run_variance(series, 0) == pytest.approx(3.5)
    assert long_run_variance(series, 1) == pytest.approx(3.5 + 2 * (1 / 2) * 0.5)
    assert long_run_variance(series, 2) == pytest.approx(3.5 + 2 * (2 / 3 * 0.5 + 1 / 3 * -0.75))


@pytest.mark.parametrize("lags", [0, 1, 4, 9])
def test_long_run_variance_equals_statsmodels(lags: int) -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(size=203)
    series = noise[3:] + 0.8 * noise[2:-1] + 0.3 * noise[1:-2]
    peer = sm.OLS(series, np.ones_like(series)).fit(
        cov_type="HAC", cov_kwds={"maxlags": lags, "use_correction": False}
    )
    assert np.sqrt(long_run_variance(series, lags) / series.size) == pytest.approx(
        float(peer.bse[0]), rel=1e-10
    )


def test_lag_rule() -> None:
    # floor(4 (n/100)^(2/9)): 4 at 100; 8^(2/9) = 1.587 gives 6.3 at 800; 0.12^(2/9) = 0.624 gives 2.5 at 12.
    assert [hac_lags(n, overlap=0) for n in (12, 100, 800)] == [2, 4, 6]
    assert hac_lags(100, overlap=1) == 4
    assert hac_lags(100, overlap=2) == 6
    assert hac_lags(0, overlap=2) == 6
