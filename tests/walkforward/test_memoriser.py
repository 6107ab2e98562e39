"""A market of noise with overlapping labels: whoever remembers labels scores only where purging fails.

Returns are independent draws, and a label is their sum over the next twenty days. Labels of neighbouring days
share most of their draws, so a model that answers with the nearest label that it remembers looks brilliant as
soon as one training label reaches into the test, and knows nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsRegressor

from quantattn.walkforward import CombinatorialFold, CombinatorialPurged, Fold, WalkForward
from tests.walkforward.test_splits import DAY, START, frame

ENTITIES, DAYS, HORIZON = 24, 600, 20

# Some 700 labels without a draw in common: the correlation of two unrelated series strays by 0.04.
NOTHING, MUCH = 0.12, 0.4

AnyFold = Fold | CombinatorialFold


def noise() -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Give the samples, the features (day, entity) and the labels."""
    draws = np.random.default_rng(5).normal(size=(ENTITIES, DAYS + HORIZON))
    total = np.concatenate([np.zeros((ENTITIES, 1)), draws.cumsum(axis=1)], axis=1)
    labels = total[:, HORIZON : DAYS + HORIZON] - total[:, :DAYS]
    entity, day = (grid.ravel() for grid in np.indices((ENTITIES, DAYS)))
    forecast = START + day * DAY
    # The label of day t is the sum of the draws of days t to t + 19, and known at the end of the last one.
    known = forecast + (HORIZON - 1) * DAY + DAY // 2
    samples = frame(forecast.tolist(), known.tolist(), [f"E{number}" for number in entity])
    # Entities lie so far apart that the nearest neighbour in time of the same entity is always the nearest.
    return samples, np.column_stack([day, entity * 1e6]), labels.ravel()


SAMPLES, FEATURES, LABELS = noise()


def score(folds: list[AnyFold], rows: Callable[[AnyFold], np.ndarray]) -> float:
    """Correlate what the memoriser says with what came, over all test rows of all folds."""
    said, came = [], []
    for fold in folds:
        train = rows(fold)
        model = KNeighborsRegressor(n_neighbors=1).fit(FEATURES[train], LABELS[train])
        said.append(model.predict(FEATURES[fold.test]))
        came.append(LABELS[fold.test])
    return float(np.corrcoef(np.concatenate(said), np.concatenate(came))[0, 1])


def as_split(fold: AnyFold) -> np.ndarray:
    return fold.train


def unpurged(fold: AnyFold) -> np.ndarray:
    """The deliberate mistake: what was purged is put back."""
    return np.concatenate([fold.train, fold.purged["row"].to_numpy()])


def half_purged(position: str) -> Callable[[AnyFold], np.ndarray]:
    """The mistake on one side of the test blocks alone."""

    def rows(fold: AnyFold) -> np.ndarray:
        back = fold.purged.filter(pl.col("position") == position)["row"].to_numpy()
        return np.concatenate([fold.train, back])

    return rows


def test_the_memoriser_does_remember() -> None:
    model = KNeighborsRegressor(n_neighbors=1).fit(FEATURES, LABELS)
    np.testing.assert_array_equal(model.predict(FEATURES), LABELS)


def test_a_walk_forward_leaves_it_nothing_and_without_purging_it_shines() -> None:
    folds: list[AnyFold] = [*WalkForward(60, 5).split(SAMPLES)]
    assert len(folds) == 108
    assert abs(score(folds, as_split)) < NOTHING
    # The nearest label shares 19 to 15 of 20 draws, 0.85 in the mean.
    assert score(folds, unpurged) == pytest.approx(0.85, abs=0.05)


def test_validation_is_purged_from_training_as_well() -> None:
    folds = WalkForward(65, 5, val_size=30).split(SAMPLES)
    said: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for fold in folds:
        back = fold.purged.filter(pl.col("side") == "train")["row"].to_numpy()
        for purged, train in ((True, fold.train), (False, np.concatenate([fold.train, back]))):
            model = KNeighborsRegressor(n_neighbors=1).fit(FEATURES[train], LABELS[train])
            said[purged].append(model.predict(FEATURES[fold.validation]))
    came = np.concatenate([LABELS[fold.validation] for fold in folds])
    right, wrong = (abs(np.corrcoef(np.concatenate(said[purged]), came)[0, 1]) for purged in (True, False))
    assert right < NOTHING
    assert wrong > MUCH


def test_combinatorial_splits_leave_it_nothing_on_either_side() -> None:
    folds: list[AnyFold] = [*CombinatorialPurged(60, 1).split(SAMPLES)]
    assert abs(score(folds, as_split)) < NOTHING
    assert score(folds, unpurged) > 2 * MUCH
    assert score(folds, half_purged("before")) > MUCH
    assert score(folds, half_purged("after")) > MUCH


def test_scikit_learn_finds_the_same_nothing() -> None:
    model = KNeighborsRegressor(n_neighbors=1)
    # Purged k-fold tests every row once, which is what cross_val_predict asks for.
    cv = CombinatorialPurged(30, 1).as_splitter(SAMPLES)
    said = cross_val_predict(model, FEATURES, LABELS, cv=cv)
    assert abs(np.corrcoef(said, LABELS)[0, 1]) < NOTHING
    # The usual shuffled folds, on the same data: the control.
    rows = np.random.default_rng(0).permutation(len(LABELS))
    said = cross_val_predict(model, FEATURES[rows], LABELS[rows], cv=5)
    assert np.corrcoef(said, LABELS[rows])[0, 1] > 2 * MUCH
