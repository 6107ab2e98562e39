"""When networks and baselines are trained again: in every fold, every few folds, or once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np

from quantattn.errors import UsageError
from quantattn.walkforward.fold import Fold

Policy = Literal["every_fold", "every", "warm_start", "frozen"]

WARM_START_MARK: Final = "[warm_start]"
"""Behind the study's name in the forecasts table, where training went on from the fold before."""


@dataclass(frozen=True)
class Retrain:
    """When models are trained.

    Parameters
    ----------
    policy : {"every_fold", "every", "warm_start", "frozen"}, default "every_fold"
        ``"every_fold"``: from fresh weights in every fold. ``"every"``: so in every `every`-th fold, and the
        folds between are forecast by the model before them. ``"frozen"``: in the first fold alone.
        ``"warm_start"``: in every fold, networks beginning from the weights of the fold before; baselines
        have no weights to begin from and are fitted anew.
    every : int, optional
        With ``"every"`` alone: a number of folds, at least 1.

    Raises
    ------
    UsageError
        If the policy is unknown or `every` does not belong to it.
    """

    policy: Policy = "every_fold"
    every: int | None = None

    def __post_init__(self) -> None:
        """Check that the policy is known and whole."""
        if self.policy not in get_args(Policy):
            raise UsageError(f"retrain={self.policy!r} is unknown; use one of {', '.join(get_args(Policy))}")
        if (self.every is not None) != (self.policy == "every"):
            raise UsageError(
                f"every={self.every!r} with policy {self.policy!r}: a number of folds goes with policy "
                "'every', and with no other"
            )
        whole = isinstance(self.every, int | np.integer) and not isinstance(self.every, bool)
        if self.every is not None and (not whole or self.every < 1):
            raise UsageError(f"every={self.every!r} is not a whole number from 1; give a number of folds")

    @property
    def warm(self) -> bool:
        """Whether networks begin from the weights of the fold before."""
        return self.policy == "warm_start"

    def source(self, position: int) -> int:
        """Give the position of the fold whose training serves the fold at `position`."""
        if self.policy == "frozen":
            return 0
        return position - position % (self.every or 1)

    def words(self) -> str:
        """Say the policy in the words of a study file."""
        return f"every: {self.every}" if self.policy == "every" else self.policy

    def study_name(self, study: str) -> str:
        """Give the study's name as the forecasts table holds it: a warm start is never silent."""
        return study + WARM_START_MARK if self.warm else study


def retrained_folds(folds: Sequence[Fold], retrain: Retrain) -> list[Fold]:
    """Give the folds as they are run: each with the training side, and the fit, of the model that serves it.

    Parameters
    ----------
    folds : sequence of Fold
        As they were split.
    retrain : Retrain
        The policy.

    Returns
    -------
    list of Fold
        The test sides are those given. A fold without a training of its own has training and validation
        rows, `fit_time` and `validation_time` of an earlier fold; forecasts between that fold's end and its
        own test are on no side. Applied twice it changes nothing more.
    """
    given = list(folds)
    served = []
    for position, fold in enumerate(given):
        source = given[retrain.source(position)]
        if source is fold or source.fit_time == fold.fit_time:
            served.append(fold)
            continue
        sides = [run for run in source.runs if run.side != "test"]
        runs = (*sides, *(run for run in fold.runs if run.side == "test"))
        served.append(
            replace(
                source,
                index=fold.index,
                test=fold.test,
                test_span=fold.test_span,
                runs=runs,
                n_after=fold.n_after,
                n_between=_n_samples(source)
                - _n_samples(replace(source, test=fold.test, n_after=fold.n_after)),
            )
        )
    return served


def _n_samples(fold: Fold) -> int:
    return int(fold.summary()["n_rows"].sum())


def parent_folds(folds: Sequence[Fold], retrain: Retrain) -> dict[int, int | None]:
    """Say for each fold, by index, which earlier fold's network it needs, if any.

    Parameters
    ----------
    folds : sequence of Fold
        What :func:`retrained_folds` gave.
    retrain : Retrain
        The policy.

    Returns
    -------
    dict of int to int or None
        With a warm start the fold before; else the first fold with the same fit; None for a fold that
        trains by itself.
    """
    first: dict[int, int] = {}
    parents: dict[int, int | None] = {}
    before: int | None = None
    for fold in folds:
        if retrain.warm:
            parents[fold.index] = before
        else:
            owner = first.setdefault(fold.fit_time, fold.index)
            parents[fold.index] = None if owner == fold.index else owner
        before = fold.index
    return parents
