"""Linear models over a bag of events: what kinds and words alone can say, their order forgotten."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines._bag_of_events import decayed_counts, visible_kinds
from quantattn.forecasters.baselines._checks import require_count, require_positive
from quantattn.forecasters.baselines._linear import LinearFit, fit_ridge
from quantattn.forecasters.baselines.base import BaselineForecaster, Inputs
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable


class _BagOfEvents(BaselineForecaster):
    """What both models share: the features, and their vocabulary fitted on the training rows."""

    inputs: ClassVar[Inputs] = "events"

    penalty: float
    words: int
    half_lives: tuple[float, ...]
    kinds_: tuple[str, ...]

    @property
    def feature_names_(self) -> tuple[str, ...]:
        """What each feature counts, for example ``"7 d kind:bar"`` or ``"7 d word:12"``."""
        things = [f"kind:{kind}" for kind in self.kinds_] + [f"word:{bucket}" for bucket in range(self.words)]
        return tuple(f"{life:g} d {thing}" for life in self.half_lives for thing in things)

    def _fit_features(self, table: SampleTable, rows: Integers) -> Floats:
        self._check_parameters()
        assert table.sequences is not None
        self.kinds_ = visible_kinds(table, table.sequences, rows)
        features = self._features(table, rows)
        if not features.any():
            raise ForecasterError(
                f"{self.name}: no training row sees an event with a kind or a word; start the events "
                "earlier, or leave this model out"
            )
        return features

    def _features(self, table: SampleTable, rows: Integers) -> Floats:
        assert table.sequences is not None
        return decayed_counts(
            table, table.sequences, rows, kinds=self.kinds_, words=self.words, half_lives=self.half_lives
        )

    def _check_parameters(self) -> None:
        require_count(self.name, "words", self.words, 0)
        require_positive(self.name, "penalty", self.penalty)
        if not isinstance(self.half_lives, tuple | list) or not self.half_lives:
            raise ForecasterError(
                f"{self.name}: half_lives={self.half_lives!r} is not a row of days; use for "
                "example (1.0, 7.0)"
            )
        for life in self.half_lives:
            require_positive(self.name, f"half_lives={self.half_lives!r}, one", life)


class EventsRidgeBaseline(_BagOfEvents):
    """Ridge regression on decayed counts of the kinds and the hashed words of the visible events, pooled.

    Counts are standardised by their training rows. The kinds that are counted are those that some training
    row sees; a later kind is not counted. No visible event is a count of zero, so there are no nulls.

    Parameters
    ----------
    penalty : float, default 0.1
        Ridge penalty on standardised counts, relative to their unit variance.
    words : int, default 64
        Signed buckets that single words are hashed into; 0 leaves the text out.
    half_lives : tuple of float, default (1.0, 7.0, 30.0)
        Days of real time in which a count halves; every thing is counted once for each.

    Attributes
    ----------
    kinds_ : tuple of str
        The kinds that are counted.
    fit_ : LinearFit
        The regression.

    References
    ----------
    Hoerl and Kennard (1970), "Ridge Regression: Biased Estimation for Nonorthogonal Problems", Technometrics
    12(1). Weinberger, Dasgupta, Langford, Smola and Attenberg (2009), "Feature Hashing for Large Scale
    Multitask Learning", ICML, for the words.
    """

    name: ClassVar[str] = "events_ridge"

    fit_: LinearFit

    def __init__(
        self, penalty: float = 0.1, words: int = 64, half_lives: tuple[float, ...] = (1.0, 7.0, 30.0)
    ) -> None:
        self.penalty = penalty
        self.words = words
        self.half_lives = half_lives

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        self.fit_ = fit_ridge(self._fit_features(table, rows), targets, self.penalty)

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        return self.fit_.predict(self._features(table, rows))


class EventsLogisticBaseline(_BagOfEvents):
    r"""Logistic regression on decayed counts of the kinds and the hashed words of the visible events, pooled.

    For directions alone; :class:`EventsRidgeBaseline` ("events_ridge") is the same for other targets. It
    minimises ``mean(log loss) + penalty / 2 * sum(b ** 2)`` with b on standardised counts, and forecasts the
    expected direction :math:`\sum_c c\,P(c)` over the directions c (-1, 0, 1) of the training rows, which is
    :math:`2P(1) - 1` where there are two. If all training rows have one direction, that is the forecast, and
    :meth:`notes` says so. Nulls are as in :class:`EventsRidgeBaseline`.

    Parameters
    ----------
    penalty : float, default 0.1
        Ridge penalty on standardised counts; relative to the mean loss, whatever the number of rows.
    words : int, default 64
        Signed buckets that single words are hashed into; 0 leaves the text out.
    half_lives : tuple of float, default (1.0, 7.0, 30.0)
        Days of real time in which a count halves; every thing is counted once for each.

    Attributes
    ----------
    kinds_ : tuple of str
        The kinds that are counted.
    classes_ : ndarray of float64, shape (c,)
        The directions of the training rows, rising.
    fits_ : tuple of LinearFit
        The log odds: of the greater direction where there are two, of each where there are three.

    References
    ----------
    Cox (1958), "The Regression Analysis of Binary Sequences", Journal of the Royal Statistical Society B
    20(2). Weinberger et al. (2009), "Feature Hashing for Large Scale Multitask Learning", ICML, for words.
    """

    name: ClassVar[str] = "events_logistic"

    classes_: Floats
    fits_: tuple[LinearFit, ...]

    def __init__(
        self, penalty: float = 0.1, words: int = 64, half_lives: tuple[float, ...] = (1.0, 7.0, 30.0)
    ) -> None:
        self.penalty = penalty
        self.words = words
        self.half_lives = half_lives

    def notes(self) -> dict[str, Any]:
        """Say whether the training rows had one direction only."""
        return {"constant training target": float(self.classes_[0])} if self.classes_.size == 1 else {}

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        if table.kind != "direction":
            raise ForecasterError(
                f"events_logistic forecasts directions, and the target is a {table.kind}; use events_ridge, "
                "the same events under a ridge regression"
            )
        features = self._fit_features(table, rows)
        self.classes_ = np.unique(targets)
        self.fits_ = ()
        if not np.isin(self.classes_, (-1.0, 0.0, 1.0)).all():
            raise ForecasterError(
                f"events_logistic: the target holds {self.classes_[:5].tolist()}, not only the directions "
                "-1, 0 and 1; use events_ridge for numbers"
            )
        if self.classes_.size > 1:
            self.fits_ = _fit_logistic(features, np.searchsorted(self.classes_, targets), self.penalty)

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        if not self.fits_:
            return np.full(rows.size, self.classes_[0])
        features = self._features(table, rows)
        odds = [fit.predict(features) for fit in self.fits_]
        logits = np.stack([np.zeros(rows.size), *odds] if len(odds) == 1 else odds, axis=1)
        # Class by class, not by BLAS: the bits of a forecast do not depend on the other rows.
        shares = softmax(logits, axis=1)
        forecasts = np.zeros(rows.size)
        for direction, share in zip(self.classes_.tolist(), shares.T, strict=True):
            forecasts += direction * share
        return forecasts


def _fit_logistic(features: Floats, classes: Integers, penalty: float) -> tuple[LinearFit, ...]:
    """Fit the log odds on standardised columns and give them on the scale of the features."""
    means, scales = features.mean(axis=0), features.std(axis=0)
    varies = scales > 1e-12 * np.abs(features).max(axis=0, initial=0.0)
    if not varies.any():
        raise ForecasterError(
            "events_logistic: all training rows see the same events; use more training rows, or leave it out"
        )
    scaled = (features[:, varies] - means[varies]) / scales[varies]
    model = LogisticRegression(C=1.0 / (penalty * len(classes)), tol=1e-8, max_iter=2000)
    # One thread, so that their number does not decide the order of a sum.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model.fit(scaled, classes)
        except ConvergenceWarning as warning:
            raise ForecasterError(
                f"events_logistic: no convergence in 2000 steps ({str(warning).splitlines()[0]}); raise "
                f"penalty (now {penalty!r})"
            ) from warning
    weights = np.zeros((len(model.coef_), features.shape[1]))
    weights[:, varies] = model.coef_ / scales[varies]
    return tuple(
        LinearFit(means, row, float(intercept))
        for row, intercept in zip(weights, model.intercept_, strict=True)
    )
