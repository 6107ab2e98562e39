"""scikit-learn trains and scores on exactly the rows of the folds, whatever holds the features."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from quantattn.errors import SplitError
from quantattn.walkforward import CombinatorialPurged, SklearnSplitter, WalkForward
from tests.walkforward.market import market
from tests.walkforward.test_splits import daily

N = 40


def problem() -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Two entities, forty days, labels known 2.5 days later; rows not in order of time."""
    samples = pl.concat([daily(N, delay_days=2.5), daily(N, delay_days=2.5).with_columns(entity=pl.lit("B"))])
    samples = samples.sample(fraction=1.0, shuffle=True, seed=7)
    draw = np.random.default_rng(0)
    features = draw.normal(size=(2 * N, 3))
    return samples, features, features @ np.array([1.0, -2.0, 0.5]) + draw.normal(size=2 * N)


SPLIT = WalkForward(20, 5, val_size=6, expand_train=True)


LOG: list[tuple[list[int], list[int]]] = []


class Recorder(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Writes down which rows it was fitted on and asked for; its one feature is the row."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Recorder:
        self.fitted_ = X[:, 0].astype(int).tolist()
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        LOG.append((self.fitted_, X[:, 0].astype(int).tolist()))
        return np.zeros(len(X))


def test_models_meet_the_rows_of_the_folds_and_no_others() -> None:
    samples, _, target = problem()
    rows = np.arange(2.0 * N)[:, None]
    LOG.clear()
    cross_val_score(Recorder(), rows, target, cv=SPLIT.as_splitter(samples), scoring="r2")
    folds = SPLIT.split(samples)
    assert sum(fold.purged.height for fold in folds) > 0
    assert [(fold.train.tolist(), fold.test.tolist()) for fold in folds] == LOG


def test_validation_is_set_aside_or_merged() -> None:
    samples, _, _ = problem()
    folds = SPLIT.split(samples)
    merged = SPLIT.as_splitter(samples, merge_validation=True)
    assert all(len(fold.validation) for fold in folds)
    for fold, (train, test) in zip(folds, merged.split(), strict=True):
        assert train.tolist() == sorted([*fold.train, *fold.validation])
        assert test.tolist() == fold.test.tolist()
        assert not set(train) & set(fold.purged["row"])
    apart = [train.tolist() for train, _ in SPLIT.as_splitter(samples).split()]
    assert apart == [fold.train.tolist() for fold in folds]


def by_hand(X: np.ndarray, y: np.ndarray, samples: pl.DataFrame) -> list[float]:
    scores = []
    for fold in SPLIT.split(samples):
        mean, scale = X[fold.train].mean(axis=0), X[fold.train].std(axis=0)
        model = Ridge(alpha=3.0).fit((X[fold.train] - mean) / scale, y[fold.train])
        scores.append(r2_score(y[fold.test], model.predict((X[fold.test] - mean) / scale)))
    return scores


@pytest.mark.parametrize(
    "hold",
    [
        np.asarray,
        pd.DataFrame,
        lambda X: pd.DataFrame(X, index=np.arange(len(X))[::-1]),  # its index is not looked at
        lambda X: pl.DataFrame(X, schema=["a", "b", "c"]),
    ],
    ids=["numpy", "pandas", "pandas with an index", "polars"],
)
def test_a_pipeline_is_fitted_inside_each_fold(hold: Any) -> None:
    samples, X, y = problem()
    model = make_pipeline(StandardScaler(), Ridge(alpha=3.0))
    scores = cross_val_score(model, hold(X), y, cv=SPLIT.as_splitter(samples))
    np.testing.assert_allclose(scores, by_hand(X, y, samples), rtol=1e-10)


@pytest.mark.parametrize("hold", [pd.Series, lambda y: pl.Series("y", y), list])
def test_targets_may_be_held_by_anything(hold: Any) -> None:
    samples, X, y = problem()
    model = make_pipeline(StandardScaler(), Ridge(alpha=3.0))
    scores = cross_val_score(model, X, hold(y), cv=SPLIT.as_splitter(samples))
    np.testing.assert_allclose(scores, by_hand(X, y, samples), rtol=1e-10)


def test_sparse_features() -> None:
    samples, X, y = problem()
    cv = SPLIT.as_splitter(samples)
    dense = cross_val_score(Ridge(solver="lsqr"), X, y, cv=cv)
    np.testing.assert_allclose(
        cross_val_score(Ridge(solver="lsqr"), csr_matrix(X), y, cv=cv), dense, rtol=1e-6
    )


def test_a_grid_search() -> None:
    samples, X, y = problem()
    search = GridSearchCV(Ridge(), {"alpha": [1e-3, 1e4]}, cv=SPLIT.as_splitter(samples), refit=False)
    search = clone(search).fit(X, y)
    assert search.n_splits_ == len(SPLIT.split(samples)) == 4
    for column, alpha in enumerate((1e-3, 1e4)):
        own = cross_val_score(Ridge(alpha=alpha), X, y, cv=SPLIT.as_splitter(samples))
        assert search.cv_results_["mean_test_score"][column] == pytest.approx(own.mean())
    assert search.best_params_ == {"alpha": 1e-3}
    assert "4 folds" in repr(search.cv)


def test_a_search_inside_a_fold() -> None:
    samples, X, y = problem()
    for fold in SPLIT.split(samples):
        inner = WalkForward(6, 2).as_splitter(samples[fold.train])
        search = GridSearchCV(Ridge(), {"alpha": [1e-3, 1e4]}, cv=inner).fit(X[fold.train], y[fold.train])
        assert search.best_params_ == {"alpha": 1e-3}


def test_combinatorial_splits() -> None:
    samples, X, y = problem()
    splitter = CombinatorialPurged(5, 2, embargo_size="1D")
    folds = splitter.split(samples)
    assert [(a.tolist(), b.tolist()) for a, b in splitter.as_splitter(samples).split(X, y)] == [
        (fold.train.tolist(), fold.test.tolist()) for fold in folds
    ]
    result = cross_validate(Ridge(), X, y, cv=splitter.as_splitter(samples))
    assert len(result["test_score"]) == 10
    with pytest.raises(SplitError, match="no walk-forward"):
        list(SklearnSplitter(splitter, samples, merge_validation=True).split(X))


def test_as_of_features_of_a_dataset() -> None:
    dataset = market().dataset
    samples, features = dataset.samples, dataset.as_of_features()
    model = make_pipeline(SimpleImputer(), StandardScaler(), Ridge())
    walk_forward = WalkForward(12, 4, expand_train=True)
    scores = cross_val_score(
        model, features, samples["y_true"], cv=walk_forward.as_splitter(samples), error_score="raise"
    )
    assert len(scores) == len(walk_forward.split(samples))
    assert np.isfinite(scores).all()
    as_numpy = cross_val_score(
        model, features.to_numpy(), samples["y_true"].to_numpy(), cv=walk_forward.as_splitter(samples)
    )
    np.testing.assert_allclose(scores, as_numpy, rtol=1e-9)


def test_rows_that_are_not_those_of_the_samples_are_refused_before_the_first_fold() -> None:
    samples, X, y = problem()
    cv = SPLIT.as_splitter(samples)
    with pytest.raises(SplitError, match="X has 79 rows and the samples that were split have 80"):
        cv.split(X[1:])
    with pytest.raises(SplitError, match="y has 79 rows"):
        cv.split(X, y[1:])
    with pytest.raises(SplitError, match="X has 79 rows"):
        cv.split(X[1:].tolist())
    with pytest.raises(SplitError, match=r"X has 79 rows.*samples\[fold.train\]"):
        cross_val_score(Ridge(), X[1:], y[1:], cv=cv)


def test_what_cannot_be_split_is_refused_where_the_splitter_is_made() -> None:
    samples, _, _ = problem()
    with pytest.raises(SplitError, match="there are 40 forecast times"):
        WalkForward(50, 5).as_splitter(samples)
    with pytest.raises(SplitError, match="merge_validation='yes' is neither True nor False"):
        SPLIT.as_splitter(samples, merge_validation="yes")  # type: ignore[arg-type]


def test_a_caller_who_changes_what_it_got_changes_nothing() -> None:
    samples, X, _ = problem()
    cv = SPLIT.as_splitter(samples)
    before = [(train.tolist(), test.tolist()) for train, test in cv.split(X)]
    for train, test in cv.split(X):
        train[:], test[:] = 0, 0
    for again in (cv, copy.deepcopy(cv)):
        assert [(train.tolist(), test.tolist()) for train, test in again.split(X)] == before
    assert cv.get_n_splits() == cv.get_n_splits(X) == 4
    assert repr(cv) == f"SklearnSplitter({SPLIT!r}, 80 samples, 4 folds)"


@pytest.mark.parametrize("given", [pl.LazyFrame({"x": [1]}), np.array(3.0), 5])
def test_what_has_no_rows_to_count(given: Any) -> None:
    splitter = SPLIT.as_splitter(problem()[0])
    with pytest.raises(SplitError, match=r"X is a .* without rows to count; give an array or a frame"):
        splitter.split(given)
    with pytest.raises(SplitError, match=r"y is a .* without rows to count"):
        splitter.split(None, given)
