"""What all baselines share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantattn.errors import DataError, ForecasterError
from quantattn.forecasters.baselines import make_baseline

from .small import made
from .tables import random_market, table_of

NAMES = ["mean", "ewma", "har", "garch", "ridge", "gradient_boosting"]


@pytest.mark.parametrize("name", NAMES)
class TestEvery:
    def test_fit_returns_itself_and_says_what_it_learned_from(self, name: str) -> None:
        table = random_market()
        model = made(name)
        assert model.fit(table, np.arange(10)) is model
        assert (model.n_rows_, model.kind_, model.horizon_, model.log_) == (10, "variance", 5, True)

    def test_forecasts_are_float64_in_the_order_of_the_rows(self, name: str) -> None:
        table = random_market()
        model = made(name).fit(table, np.arange(40))
        forecasts = model.predict(table, np.array([70, 50, 70]))
        assert forecasts.dtype == np.float64
        assert forecasts.shape == (3,)
        assert forecasts[0] == forecasts[2]
        assert model.predict(table, np.array([], dtype=np.int64)).shape == (0,)

    def test_the_order_of_training_rows_hardly_matters(self, name: str) -> None:
        table = random_market()
        rows = np.arange(60)
        one = made(name).fit(table, rows).predict(table, rows)
        other = made(name).fit(table, rows[::-1]).predict(table, rows)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)

    def test_fitting_again_starts_afresh(self, name: str) -> None:
        table = random_market()
        model = made(name).fit(table, np.arange(30))
        again = model.fit(table, np.arange(30, 80)).predict(table, np.arange(80, 90))
        fresh = made(name).fit(table, np.arange(30, 80)).predict(table, np.arange(80, 90))
        assert again.tobytes() == fresh.tobytes()

    def test_variances_are_positive(self, name: str) -> None:
        table = random_market(log=False)
        forecasts = made(name).fit(table, np.arange(40)).predict(table, np.arange(len(table)))
        assert (forecasts > 0).all()

    def test_parameters_are_printed(self, name: str) -> None:
        model = made(name)
        for parameter, value in model.get_params().items():
            assert f"{parameter}={value!r}" in repr(model)

    def test_use_before_fit(self, name: str) -> None:
        with pytest.raises(ForecasterError, match=rf"{name} is not fitted; call fit\(table, rows\) first"):
            made(name).predict(random_market(), np.arange(3))

    def test_no_training_rows(self, name: str) -> None:
        with pytest.raises(ForecasterError, match=rf"{name}: rows is empty.*use a longer training window"):
            made(name).fit(random_market(), np.array([], dtype=np.int64))

    def test_repeated_training_rows(self, name: str) -> None:
        with pytest.raises(DataError, match=rf"{name}: rows holds \[4\] more than once"):
            made(name).fit(random_market(), np.array([4, 1, 4]))

    def test_rows_outside(self, name: str) -> None:
        table = random_market()
        with pytest.raises(DataError, match="outside the table"):
            made(name).fit(table, np.array([0, len(table)]))
        with pytest.raises(DataError, match="outside the table"):
            made(name).fit(table, np.arange(20)).predict(table, np.array([-1]))

    def test_an_unknown_target(self, name: str) -> None:
        table = random_market()
        last = len(table) - 1
        with pytest.raises(DataError, match=rf"in 1 training rows, first \[{last}\].*known labels only"):
            made(name).fit(table, np.array([0, last]))

    def test_another_target(self, name: str) -> None:
        table = random_market()
        model = made(name).fit(table, np.arange(20))
        for change in ({"kind": "return"}, {"horizon": 1}, {"log": False}):
            with pytest.raises(ForecasterError, match=r"was fitted to \(kind, horizon, log\)=.*fit again"):
                model.predict(replace(table, **change), np.arange(3))  # type: ignore[arg-type]

    def test_a_failed_fit_does_not_count(self, name: str) -> None:
        table = random_market()
        model = made(name)
        with pytest.raises(DataError):
            model.fit(table, np.array([len(table) - 1]))
        with pytest.raises(ForecasterError, match="not fitted"):
            model.predict(table, np.arange(3))


def test_forecasts_that_overflow_are_refused() -> None:
    table = table_of(
        [("A", 10, 1.0, 20), ("A", 20, 2.0, 30), ("A", 30, None, None)], asof_x=[0.0, 1e-100, 1.7e308]
    )
    model = make_baseline("ridge", 0).fit(table, np.arange(2))
    with pytest.raises(ForecasterError, match=r"ridge: 1 forecasts are not finite, first \[\('A'.*check the"):
        model.predict(table, np.array([2]))
