"""Combinatorial purged cross-validation over distinct forecast times, and its backtest paths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import SplitError
from quantattn.walkforward._blocks import Blocks, lay_blocks, split_fold
from quantattn.walkforward._samples import Samples, read_samples
from quantattn.walkforward._sizes import Size, parse_extra, parse_size
from quantattn.walkforward._stretches import REASONS
from quantattn.walkforward.combinatorial_fold import CombinatorialFold
from quantattn.walkforward.sklearn_splitter import SklearnSplitter

_MOST_FOLDS = 1_000
_MOST_SPLITS = 10_000


@dataclass(frozen=True)
class CombinatorialPurged:
    """Combinatorial purged cross-validation (López de Prado 2018) with the package's rules of time.

    The distinct forecast times are cut into `n_folds` consecutive blocks of equal length (the last one takes
    what is left over). Every choice of `n_test_folds` of them is one split: those blocks are forecast, the
    others train. Each block is forecast ``n_test_paths`` times by different models, so that the forecasts
    recombine into as many backtest paths, each of which covers every sample once.

    Names and meanings follow ``skfolio.model_selection.CombinatorialPurgedCV``. Where labels do not overlap
    and sizes are counts, splits and paths are the same. The differences are that a panel is split by its
    distinct forecast times, and that purging looks at the time at which each label is known.

    .. warning::

        **Not a walk-forward.** Models train on forecasts after their test. That answers how much a backtest's
        result depends on the one path that history took; it is no record of what could have been traded.
        The folds have no `fit_time`, and whatever needs a walk-forward refuses them.

    **The rule.** A sample's label interval runs from its `forecast_time` to its `label_available_at`, both
    included; a test block's from its first `forecast_time` to the last `label_available_at` of its rows. A
    training row stays iff its interval has no instant in common with any test block's: before a block, its
    label is known strictly before the block's first forecast; after a block, its forecast is strictly later
    than everything that the block's labels measure. Touching in one instant is an overlap.

    Parameters
    ----------
    n_folds : int
        Number of blocks, at least 2.
    n_test_folds : int
        Number of test blocks in each split, from 1 (purged k-fold, one path) to ``n_folds - 1``.
    purged_size : "label" or int, default="label"
        ``"label"`` drops the rows whose label interval overlaps a test block's, and nothing else. An integer
        drops that many of the nearest remaining forecast times *in addition* to the label rule and the
        embargo, on both sides of every test block.
    embargo_size : int, str, timedelta or pandas offset, default="0D"
        How much later than a test block's last known label a training forecast must be. It comes after the
        purge and on the later side alone: a row after the block stays iff
        ``forecast_time > last label_available_at + embargo_size``. An integer counts the forecast times that
        follow the block's last label.

    Raises
    ------
    SplitError
        If a size is not a size, or there would be more than 1,000 blocks or 10,000 splits.

    References
    ----------
    M. López de Prado, "Advances in Financial Machine Learning", Wiley 2018, sections 7.4 and 12.4.

    Examples
    --------
    Six forecast times, each label known before the next forecast:

    >>> import polars as pl
    >>> from quantattn.walkforward import CombinatorialPurged
    >>> days = pl.Series([f"2024-01-0{day}T00:00:00Z" for day in range(1, 7)]).str.to_datetime(time_unit="ns")
    >>> known = days.dt.offset_by("12h")
    >>> samples = pl.DataFrame(
    ...     {"entity": ["A"] * 6, "forecast_time": days, "label_end_time": known, "label_available_at": known}
    ... )
    >>> cross_validation = CombinatorialPurged(n_folds=3, n_test_folds=2)
    >>> for fold in cross_validation.split(samples):
    ...     print(fold.index, fold.train, *fold.tests)
    0 [4 5] [0 1] [2 3]
    1 [2 3] [0 1] [4 5]
    2 [0 1] [2 3] [4 5]
    >>> cross_validation.n_test_paths
    2
    >>> print(cross_validation.get_path_ids())
    [[0 0]
     [1 0]
     [1 1]]

    Labels known only 36 hours after the forecast: a training row on each side of the test goes.

    >>> known = days.dt.offset_by("36h")
    >>> samples = samples.with_columns(label_end_time=known, label_available_at=known)
    >>> fold = CombinatorialPurged(n_folds=3, n_test_folds=1).split(samples)[1]
    >>> print(fold.train, fold.test, fold.purged.select("row", "reason", "position").rows())
    [0 5] [2 3] [(1, 'label', 'before'), (4, 'label', 'after')]
    """

    n_folds: int
    n_test_folds: int
    _: KW_ONLY
    purged_size: Literal["label"] | int = "label"
    embargo_size: Size = "0D"

    def __post_init__(self) -> None:
        """Check the sizes, so that a mistake shows where it was made."""
        for name, least in (("n_folds", 2), ("n_test_folds", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool | np.bool_) or value < least:
                raise SplitError(f"{name}={value!r} is not a whole number of at least {least}; write one")
            object.__setattr__(self, name, int(value))
        if self.n_test_folds >= self.n_folds:
            raise SplitError(
                f"n_test_folds={self.n_test_folds} leaves none of n_folds={self.n_folds} to train on; make "
                "n_folds larger"
            )
        if self.n_folds > _MOST_FOLDS or self.n_splits > _MOST_SPLITS:
            raise SplitError(
                f"n_folds={self.n_folds} and n_test_folds={self.n_test_folds} make more than {_MOST_FOLDS:,} "
                f"blocks or {_MOST_SPLITS:,} splits, each of them a model to train; make them smaller"
            )
        parse_extra(self.purged_size)
        parse_size(self.embargo_size, "embargo_size", least=0)

    @property
    def n_splits(self) -> int:
        """Number of splits: the ways to choose the test blocks."""
        return math.comb(self.n_folds, self.n_test_folds)

    @property
    def n_test_paths(self) -> int:
        """Number of backtest paths: how often each block is forecast."""
        return math.comb(self.n_folds - 1, self.n_test_folds - 1)

    @property
    def test_set_index(self) -> npt.NDArray[np.int64]:
        """Test blocks of each split, shape (n_splits, n_test_folds), splits in lexicographic order."""
        return np.array(list(combinations(range(self.n_folds), self.n_test_folds)), dtype=np.int64)

    @property
    def binary_train_test_sets(self) -> npt.NDArray[np.int64]:
        """What each block is in each split, shape (n_folds, n_splits): 0 trains, 1 is tested."""
        sets = np.zeros((self.n_folds, self.n_splits), dtype=np.int64)
        sets[self.test_set_index, np.arange(self.n_splits)[:, None]] = 1
        return sets

    @property
    def recombined_paths(self) -> npt.NDArray[np.int64]:
        """The split whose model forecasts each block on each path, shape (n_folds, n_test_paths)."""
        return np.stack([np.flatnonzero(tested) for tested in self.binary_train_test_sets])

    def get_path_ids(self) -> npt.NDArray[np.int64]:
        """Give the path of each test block of each split.

        Returns
        -------
        ndarray of int64, shape (n_splits, n_test_folds)
            A block's n-th test belongs to path n.
        """
        seen = np.cumsum(self.binary_train_test_sets, axis=1) - 1
        return seen[self.test_set_index, np.arange(self.n_splits)[:, None]].astype(np.int64)

    def split(self, samples: pl.DataFrame) -> list[CombinatorialFold]:
        """Split the samples.

        Parameters
        ----------
        samples : polars.DataFrame
            One row per sample in any order, with the columns `entity`, `forecast_time`, `label_end_time` and
            `label_available_at` (instants ``Datetime("ns", "UTC")``); others are ignored.

        Returns
        -------
        list of CombinatorialFold
            In the order of `test_set_index`. The row indices point into `samples` as given.

        Raises
        ------
        SplitError
            If a column or a label end is missing, a label is known at or before its forecast, there are fewer
            forecast times than blocks, or purging leaves a split nothing to train on.
        """
        panel = read_samples(samples)
        if len(panel.times) < self.n_folds:
            raise SplitError(
                f"there are {len(panel.times)} forecast times and n_folds={self.n_folds} blocks; bring more "
                "history or make n_folds smaller"
            )
        blocks = self._blocks(panel)
        extra = parse_extra(self.purged_size)
        chosen = zip(self.test_set_index.tolist(), self.get_path_ids().tolist(), strict=True)
        return [
            split_fold(panel, blocks, extra, index=index, test_folds=tests, path_ids=paths)
            for index, (tests, paths) in enumerate(chosen)
        ]

    def _blocks(self, panel: Samples) -> Blocks:
        embargo = parse_size(self.embargo_size, "embargo_size", least=0)
        return lay_blocks(panel, self.n_folds, embargo)

    def recombine(
        self, folds: Sequence[CombinatorialFold], forecasts: Sequence[npt.ArrayLike]
    ) -> npt.NDArray[np.float64]:
        """Put the forecasts of all splits together into backtest paths.

        Parameters
        ----------
        folds : sequence of CombinatorialFold
            All splits, as :meth:`split` gives them.
        forecasts : sequence of array-like of float, each of shape (len(fold.test),)
            The forecasts of each split for the rows ``fold.test``, in that order.

        Returns
        -------
        ndarray of float64, shape (n_test_paths, n_samples)
            Row by row one path: a forecast of every sample, in the order of the samples.

        Raises
        ------
        SplitError
            If a split is missing, or a split's forecasts are not as many as its test rows.
        """
        strange = next((fold for fold in folds if not isinstance(fold, CombinatorialFold)), None)
        if isinstance(folds, pl.DataFrame) or strange is not None:
            kind = type(folds if strange is None or isinstance(folds, pl.DataFrame) else strange).__name__
            raise SplitError(f"recombining takes the folds that split() gives, not {kind}; pass those first")
        if [fold.index for fold in folds] != list(range(self.n_splits)) or len(forecasts) != len(folds):
            raise SplitError(
                f"recombining needs the {self.n_splits} splits in order and one array of forecasts for each; "
                f"{len(folds)} folds and {len(forecasts)} arrays came"
            )
        n_samples = 1 + max(int(fold.test.max()) for fold in folds)
        paths = np.full((self.n_test_paths, n_samples), np.nan)
        for fold, given in zip(folds, forecasts, strict=True):
            values = np.asarray(given, dtype=np.float64)
            if values.shape != fold.test.shape:
                raise SplitError(
                    f"split {fold.index} has {len(fold.test)} test rows and forecasts of shape "
                    f"{values.shape}; give one forecast for each row of fold.test"
                )
            for rows, path in zip(fold.tests, fold.path_ids, strict=True):
                paths[path, rows] = values[np.searchsorted(fold.test, rows)]
        return paths

    def describe(self, samples: pl.DataFrame) -> pl.DataFrame:
        """Give one row per split: its test blocks and how many rows are on each side or dropped.

        Parameters
        ----------
        samples : polars.DataFrame
            As for :meth:`split`.

        Returns
        -------
        polars.DataFrame
            `fold`, `test_folds` and `path_ids` (lists), `n_train`, `n_train_after` (of these, later than the
            first test forecast), `n_test`, `n_label`, `n_embargo`, `n_purged_size` (dropped, by reason).

        Raises
        ------
        SplitError
            As :meth:`split`.
        """
        rows = []
        for fold in self.split(samples):
            counts = fold.dropped_counts
            rows.append(
                {
                    "fold": fold.index,
                    "test_folds": list(fold.test_folds),
                    "path_ids": list(fold.path_ids),
                    "n_train": len(fold.train),
                    "n_train_after": fold.n_train_after,
                    "n_test": len(fold.test),
                    **{f"n_{reason}": counts.get(reason, 0) for reason in REASONS},
                }
            )
        return pl.DataFrame(rows)

    def as_splitter(self, samples: pl.DataFrame) -> SklearnSplitter:
        """Give these splits as a scikit-learn splitter over the rows of `samples`.

        Parameters
        ----------
        samples : polars.DataFrame
            As for :meth:`split`. The features and targets given to scikit-learn have the same rows in the
            same order.

        Returns
        -------
        SklearnSplitter
            For the argument `cv` of ``cross_val_score``; all test blocks of a split are scored together.

        Raises
        ------
        SplitError
            As :meth:`split`.
        """
        return SklearnSplitter(self, samples)
