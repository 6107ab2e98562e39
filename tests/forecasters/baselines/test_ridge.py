from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from quantattn.errors import DataError, ForecasterError
from quantattn.forecasters.baselines import RidgeBaseline

from .tables import Sample, random_market, table_of


def labelled(*targets: float) -> list[Sample]:
    return [("A", 10 * row, y, 10 * row + 5) for row, y in enumerate(targets)]


def test_one_feature_by_hand() -> None:
    # x = 0, 2, 4 (mean 2, variance 8/3), y = 1, 2, 6 (mean 3): covariance 10/3. Without penalty the slope
    # is 5/4; a penalty of 1 on the standardised x halves it.
    table = table_of(labelled(1.0, 2.0, 6.0), asof_x=[0.0, 2.0, 4.0])
    model = RidgeBaseline(penalty=1.0).fit(table, np.arange(3))
    np.testing.assert_allclose(model.coefficients_, [0.625], rtol=1e-12)
    assert model.intercept_ == pytest.approx(1.75, rel=1e-12)
    np.testing.assert_allclose(model.predict(table, np.arange(3)), [1.75, 3.0, 4.25], rtol=1e-12)


def test_missing_counts_as_the_training_mean() -> None:
    table = table_of(labelled(1.0, 2.0, 6.0, 3.0, 9.0), asof_x=[0.0, 2.0, 4.0, None, None])
    model = RidgeBaseline(penalty=1e-12).fit(table, np.arange(3))
    np.testing.assert_allclose(model.predict(table, np.array([3, 4])), [3.0, 3.0], rtol=1e-9)
    with_gap = RidgeBaseline(penalty=1e-12).fit(table, np.arange(4))
    assert with_gap.fit_.means.tolist() == [2.0]
    np.testing.assert_allclose(with_gap.coefficients_, [1.25], rtol=1e-9)


def test_constant_and_unknown_features_are_ignored() -> None:
    table = table_of(
        labelled(1.0, 2.0, 6.0, 0.0),
        asof_x=[0.0, 2.0, 4.0, 2.0],
        asof_constant=[0.1, 0.1, 0.1, 1e9],
        asof_unknown=[None, None, None, 1e9],
    )
    model = RidgeBaseline(penalty=1.0).fit(table, np.arange(3))
    np.testing.assert_allclose(model.coefficients_, [0.625, 0.0, 0.0], rtol=1e-12)
    np.testing.assert_allclose(model.predict(table, np.array([3])), [3.0], rtol=1e-12)


def test_equals_the_normal_equations() -> None:
    table = random_market()
    rows = np.flatnonzero(np.isfinite(table.outcomes))
    model = RidgeBaseline(penalty=0.3).fit(table, rows)
    inputs = np.array(
        [[value if value is not None else np.nan for value in row] for row in table.as_of.rows()], dtype=float
    )[rows]
    means = np.array([np.mean(column[~np.isnan(column)]) for column in inputs.T[:5]])
    filled = np.where(np.isnan(inputs[:, :5]), means, inputs[:, :5])
    deviations = filled.std(axis=0)
    # Ridge by least squares on augmented rows.
    top = np.column_stack([np.ones(rows.size), (filled - means) / deviations]) / np.sqrt(rows.size)
    bottom = np.column_stack([np.zeros(5), np.sqrt(0.3) * np.eye(5)])
    targets = np.concatenate([table.outcomes[rows] / np.sqrt(rows.size), np.zeros(5)])
    solution = np.linalg.lstsq(np.vstack([top, bottom]), targets)[0]
    np.testing.assert_allclose(model.coefficients_[:5], solution[1:] / deviations, rtol=1e-8)
    assert model.coefficients_[5] == 0.0
    assert model.features_ == table.feature_names


def test_two_equal_features_share_the_weight() -> None:
    x = [0.0, 2.0, 4.0]
    table = table_of(labelled(1.0, 2.0, 6.0), asof_x=x, asof_twin=x)
    model = RidgeBaseline(penalty=1e-9).fit(table, np.arange(3))
    np.testing.assert_allclose(model.coefficients_, [0.625, 0.625], rtol=1e-6)


def test_threads_change_no_bit() -> None:
    table = random_market(days=600)
    rows = np.flatnonzero(np.isfinite(table.outcomes))
    forecasts = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            forecasts.append(RidgeBaseline().fit(table, rows).predict(table, rows).tobytes())
    assert forecasts[0] == forecasts[1]


@pytest.mark.parametrize("features", [{}, {"asof_x": [None, None]}])
def test_nothing_to_learn_from(features: dict[str, list[None]]) -> None:
    table = table_of(labelled(1.0, 2.0), **features)
    with pytest.raises(
        ForecasterError, match=r"ridge: no training row has any as-of feature .*leave this model"
    ):
        RidgeBaseline().fit(table, np.arange(2))


def test_a_feature_that_has_gone() -> None:
    fitted = RidgeBaseline().fit(table_of(labelled(1.0, 2.0), asof_x=[1.0, 2.0]), np.arange(2))
    with pytest.raises(DataError, match=r"lacks the features \['asof_x'\], it has \['asof_y'\]"):
        fitted.predict(table_of(labelled(1.0, 2.0), asof_y=[1.0, 2.0]), np.arange(2))
