"""What scikit-learn expects of an estimator, as far as it is about parameters."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import (
    check_estimator_cloneable,
    check_estimator_repr,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
)
from sklearn.utils.validation import check_is_fitted

from quantattn.errors import ForecasterError
from quantattn.forecasters.estimators import (
    LinearAttentionForecaster,
    NotFittedForecasterError,
    SoftmaxAttentionForecaster,
)

from ...walkforward.market import market
from .test_forecaster import digest, small

BOTH = [LinearAttentionForecaster, SoftmaxAttentionForecaster]


@pytest.mark.parametrize("twin", BOTH)
@pytest.mark.parametrize(
    "check",
    [
        check_estimator_cloneable,
        check_estimator_repr,
        check_get_params_invariance,
        check_no_attributes_set_in_init,
        check_set_params,
    ],
)
def test_checks_of_scikit_learn(twin: type[Any], check: Any) -> None:
    check(twin.__name__, twin())


@pytest.mark.parametrize("twin", BOTH)
def test_default_constructible(twin: type[Any]) -> None:
    check_parameters_default_constructible(twin.__name__, twin())


@pytest.mark.parametrize("twin", BOTH)
def test_a_clone_is_unfitted_and_fits_to_the_same_bits(twin: type[Any]) -> None:
    given = market()
    forecaster = small(twin, head="quantile", levels=(0.2, 0.8)).fit(given.dataset, given.folds[0])
    copy = clone(forecaster)
    assert copy.get_params() == forecaster.get_params()
    check_is_fitted(forecaster)
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)
    assert digest(copy.fit(given.dataset, given.folds[0])) == digest(forecaster)


@pytest.mark.parametrize("error", [NotFittedError, ForecasterError, NotFittedForecasterError])
def test_unfitted_is_an_error_of_both(error: type[Exception]) -> None:
    given = market()
    forecaster = small()
    for call in (lambda: forecaster.predict(given.dataset), forecaster.stream, lambda: forecaster.save("x")):
        with pytest.raises(error, match="LinearAttentionForecaster is not fitted; call fit"):
            call()


def test_parameters_round_trip() -> None:
    forecaster = LinearAttentionForecaster("gaussian", hidden=64, half_lives=(1.0, None, None, 2.0))
    again = LinearAttentionForecaster(**forecaster.get_params())
    assert repr(again) == repr(forecaster)
    assert again.set_params(hidden=16).hidden == 16
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        again.set_params(width=3)
    assert set(forecaster.get_params()) == set(SoftmaxAttentionForecaster().get_params())


def test_learned_attributes_end_in_an_underscore() -> None:
    given = market()
    forecaster = small()
    before = set(vars(forecaster))
    forecaster.fit(given.dataset, given.folds[0])
    learned = set(vars(forecaster)) - before
    assert learned
    assert all(name.endswith("_") and not name.startswith("_") for name in learned)
    assert not is_classifier(forecaster)
    assert not is_regressor(forecaster)
