"""Walk-forward folds over distinct forecast times, purged by the time at which labels are known."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import SplitError
from quantattn.pit.timestamps import Nanoseconds, instants, iso, last_instant_before
from quantattn.walkforward._samples import Samples, known_by, read_samples
from quantattn.walkforward._sizes import (
    EARLIEST,
    Size,
    Span,
    parse_extra,
    parse_frequency,
    parse_size,
    parse_switch,
)
from quantattn.walkforward._stretches import REASONS, Rows, Stretch, described, dropped_counts
from quantattn.walkforward._windows import Layout, Window, windows_by_calendar, windows_by_size
from quantattn.walkforward.fold import PURGED_SCHEMA, Fold
from quantattn.walkforward.sklearn_splitter import SklearnSplitter

__all__ = ["Fold", "WalkForward"]


@dataclass(frozen=True)
class WalkForward:
    """Walk-forward cross-validation over forecast times, purged by ``label_available_at``.

    Names and meanings follow ``skfolio.model_selection.WalkForward`` where it has them. Where labels do
    not overlap and sizes are counts, the folds are the same; the differences are that a panel is split
    by its distinct forecast times (never by rows), that purging looks at the time at which each label is
    known, and that the end of the training window may serve as validation.

    .. warning::

        **The cutoffs.** A fold's model is trained at `fit_time`, one nanosecond before its first test
        forecast; a validation row stays iff its label is known by then. The training side is judged
        earlier, at `validation_time`, one nanosecond before the first validation forecast. A label
        that is known exactly at the cutoff stays.

    Parameters
    ----------
    train_size : int, str, timedelta or pandas offset
        Length of the training window, validation included. An integer counts distinct forecast times, or
        periods of `freq` where that is given. A duration (``"365D"``), calendar length (``"18M"``, ``"5Y"``)
        or calendar offset (``"5YS"``: back to the fifth new year) reaches back from the start of the test
        block; the first block starts where the history is that long.
    test_size : int, str, timedelta or pandas offset
        Length of each test block; blocks follow each other without a gap. With `freq`, an integer.
    expand_train : bool, default=False
        Train on all earlier forecast times instead of a window that moves along.
    val_size : int, str, timedelta or pandas offset, optional
        Length of the validation side, taken from the end of the training window.
    freq : str or pandas offset, optional
        Calendar on which test blocks start (midnight UTC), for example ``"YS"`` or ``"WOM-3FRI"``. A block
        starts with the first forecast time at or after the date.
    purged_size : "label" or int, default="label"
        ``"label"`` drops the rows whose label is not known at the cutoff, and nothing else. An integer drops
        that many of the latest remaining forecast times *in addition* to the label rule and the
        embargo, never instead of them, from each side. With sizes in counts the training window is moved
        back by as many forecast times, so that it keeps its length, as in skfolio.
    embargo_size : int, str, timedelta or pandas offset, default="0D"
        How long before the cutoff a label must have been known. It comes on top of the purge: a row stays
        iff ``label_available_at <= cutoff - embargo_size``. An integer counts forecast times.
    reduce_test : bool, default=False
        Keep a last test block that is shorter than `test_size`, so that tests run to the end of the data.
        A block measured in time is whole only if a forecast time lies at or after its end.

    Raises
    ------
    SplitError
        If a size is not a size, or the sizes contradict each other.

    Examples
    --------
    Six forecast times, each label known before the next forecast:

    >>> import polars as pl
    >>> from quantattn.walkforward import WalkForward
    >>> days = pl.Series([f"2024-01-0{day}T00:00:00Z" for day in range(1, 7)]).str.to_datetime(time_unit="ns")
    >>> known = days.dt.offset_by("12h")
    >>> samples = pl.DataFrame(
    ...     {"entity": ["A"] * 6, "forecast_time": days, "label_end_time": known, "label_available_at": known}
    ... )
    >>> for fold in WalkForward(train_size=2, test_size=1).split(samples):
    ...     print(fold.index, fold.train, fold.test)
    0 [0 1] [2]
    1 [1 2] [3]
    2 [2 3] [4]
    3 [3 4] [5]
    >>> walk_forward = WalkForward(train_size=3, test_size=2, expand_train=True, val_size=1, reduce_test=True)
    >>> for fold in walk_forward.split(samples):
    ...     print(fold.index, fold.train, fold.validation, fold.test)
    0 [0 1] [2] [3 4]
    1 [0 1 2 3] [4] [5]

    Labels known only 36 hours after the forecast: the last training row is purged.

    >>> known = days.dt.offset_by("36h")
    >>> samples = samples.with_columns(label_end_time=known, label_available_at=known)
    >>> fold = WalkForward(train_size=3, test_size=2).split(samples)[0]
    >>> print(fold.train, fold.test, fold.purged["row"].to_list(), fold.purged["reason"].to_list())
    [0 1] [3 4] [2] ['label']
    """

    train_size: Size
    test_size: Size
    _: KW_ONLY
    expand_train: bool = False
    val_size: Size | None = None
    freq: str | pd.offsets.BaseOffset | None = None
    purged_size: Literal["label"] | int = "label"
    embargo_size: Size = "0D"
    reduce_test: bool = False

    def __post_init__(self) -> None:
        """Check the sizes, so that a mistake shows where it was made."""
        layout = self._layout()
        if self.freq is not None:
            parse_frequency(self.freq)
            if not isinstance(layout.test, int):
                raise SplitError(
                    f"test_size={self.test_size!r} must be an integer when freq={self.freq!r} is given, "
                    "for it counts periods of freq; write a count, or leave freq out"
                )
        if (
            isinstance(layout.train, int)
            and isinstance(layout.validation, int)
            and layout.validation >= layout.train
        ):
            raise SplitError(
                f"val_size={self.val_size!r} leaves nothing of train_size={self.train_size!r} to train on, "
                "for validation is the end of the training window; make train_size larger"
            )
        parse_size(self.embargo_size, "embargo_size", least=0)

    def split(self, samples: pl.DataFrame) -> list[Fold]:
        """Split the samples into folds.

        Parameters
        ----------
        samples : polars.DataFrame
            One row per sample in any order, with the columns `entity`, `forecast_time`, `label_end_time` and
            `label_available_at` (instants ``Datetime("ns", "UTC")``); others are ignored.

        Returns
        -------
        list of Fold
            In order of time. The row indices point into `samples` as given.

        Raises
        ------
        SplitError
            If a column or a label end is missing, a label is known at or before its forecast, there is too
            little history for one fold, or purging leaves a side of a fold empty.
        """
        panel = read_samples(samples)
        windows = self._windows(panel.times)
        if not windows:
            raise SplitError(self._too_short(panel.times))
        return [self._fold(index, window, panel) for index, window in enumerate(windows)]

    def describe(self, samples: pl.DataFrame) -> pl.DataFrame:
        """Give one row per fold: its spans, cutoffs and how many rows are on each side or purged.

        Parameters
        ----------
        samples : polars.DataFrame
            As for :meth:`split`.

        Returns
        -------
        polars.DataFrame
            Columns `fold`, `train_start`, `train_end`, `validation_start`, `validation_end`, `test_start`,
            `test_end` (first and last forecast time of the rows that stay), `validation_time`, `fit_time`
            (instants, UTC), `n_train`, `n_validation`, `n_test`, `n_purged_train`, `n_purged_validation`
            (all reasons), `n_label`, `n_embargo`, `n_purged_size` (both sides, by reason), and `n_before` and
            `n_after` (rows earlier than the training window and later than the test block).

        Raises
        ------
        SplitError
            As :meth:`split`.
        """
        rows = []
        for fold in self.split(samples):
            sides = fold.purged["side"]
            row: dict[str, int | None] = {"fold": fold.index}
            for side, span in (
                ("train", fold.train_span),
                ("validation", fold.validation_span),
                ("test", fold.test_span),
            ):
                row[f"{side}_start"], row[f"{side}_end"] = span if span is not None else (None, None)
            row |= {"validation_time": fold.validation_time, "fit_time": fold.fit_time}
            row |= {
                "n_train": len(fold.train),
                "n_validation": len(fold.validation),
                "n_test": len(fold.test),
            }
            row |= {f"n_purged_{side}": int((sides == side).sum()) for side in ("train", "validation")}
            counts = dropped_counts(fold.purged)
            row |= {f"n_{reason}": counts.get(reason, 0) for reason in REASONS}
            row |= {"n_before": fold.n_before, "n_after": fold.n_after}
            rows.append(row)
        return described(rows)

    def as_splitter(self, samples: pl.DataFrame, *, merge_validation: bool = False) -> SklearnSplitter:
        """Give these folds as a scikit-learn splitter over the rows of `samples`.

        Parameters
        ----------
        samples : polars.DataFrame
            As for :meth:`split`. The features and targets given to scikit-learn have the same rows in the
            same order.
        merge_validation : bool, default=False
            Train on the validation side too. By default it is set aside, for scikit-learn has no use for it.

        Returns
        -------
        SklearnSplitter
            For the argument `cv` of ``cross_val_score``, ``cross_validate`` or ``GridSearchCV``.

        Raises
        ------
        SplitError
            As :meth:`split`.
        """
        return SklearnSplitter(self, samples, merge_validation=merge_validation)

    def _layout(self) -> Layout:
        validation = None if self.val_size is None else parse_size(self.val_size, "val_size", least=1)
        train = parse_size(self.train_size, "train_size", least=1)
        test = parse_size(self.test_size, "test_size", least=1)
        extra = parse_extra(self.purged_size)
        expand = parse_switch(self.expand_train, "expand_train")
        return Layout(train, test, validation, extra, expand, parse_switch(self.reduce_test, "reduce_test"))

    def _windows(self, times: Nanoseconds) -> list[Window]:
        layout = self._layout()
        if self.freq is None:
            return windows_by_size(times, layout)
        return windows_by_calendar(times, layout, parse_frequency(self.freq))

    def _too_short(self, times: Nanoseconds) -> str:
        layout = self._layout()
        have = f"there are {len(times)} forecast times, from {iso(int(times[0]))} to {iso(int(times[-1]))}"
        sizes = f"train_size={self.train_size!r} and test_size={self.test_size!r}"
        remedy = "bring more history or make the sizes smaller"
        if self.freq is None and isinstance(layout.train, int) and isinstance(layout.test, int):
            needed = layout.train + layout.extra + (1 if layout.reduce else layout.test)
            return f"{have}; one fold with {sizes} needs {needed}; {remedy}"
        if self.freq is not None:
            sizes += f" in periods of freq={self.freq!r}"
        hint = "" if layout.reduce else ", or set reduce_test=True to keep a short last block"
        return f"{have}; that does not hold one fold with {sizes}; {remedy}{hint}"

    def _fold(self, index: int, window: Window, panel: Samples) -> Fold:
        fit_time = last_instant_before(int(panel.times[window.test_start]))
        validation_time = last_instant_before(int(panel.times[window.validation_start]))
        if self.val_size is not None and window.validation_start == window.test_start:
            raise SplitError(
                f"fold {index} (test from {iso(fit_time + 1)}) has no forecast time in its validation window "
                f"of val_size={self.val_size!r}; make val_size larger"
            )
        train = self._keep(panel, window.train_start, window.validation_start)
        validation = self._keep(panel, window.validation_start, window.test_start)
        for side, kept in (("train", train), ("validation", validation)):
            if kept.rows.size == 0 and (side == "train" or self.val_size is not None):
                raise SplitError(
                    f"fold {index} (test from {iso(fit_time + 1)}) has no {side} row left after purging "
                    f"{kept.purged.size} rows; make {'val_size' if side == 'validation' else 'train_size'} "
                    "larger, or shorten the label's horizon, purged_size or embargo_size"
                )
        test = panel.rows_between(window.test_start, window.test_stop)
        sides = {"train": train, "validation": validation}
        return Fold(
            index=index,
            train=train.rows,
            validation=validation.rows,
            test=test,
            purged=_purged_frame(panel, sides),
            fit_time=fit_time,
            validation_time=validation_time,
            train_span=panel.span(train.rows),
            validation_span=panel.span(validation.rows) if validation.rows.size else None,
            test_span=panel.span(test),
            runs=(*_runs(panel, sides), *panel.runs(test, "test")),
            n_before=int((panel.position < window.train_start).sum()),
            n_after=int((panel.position >= window.test_stop).sum()),
        )

    def _keep(self, panel: Samples, start: int, stop: int) -> _Kept:
        """Apply the label rule, then the embargo, then the further forecast times, to one side."""
        rows = panel.rows_between(start, stop)
        cutoff = last_instant_before(int(panel.times[stop]))
        known = panel.label_available_at[rows]
        reasons = np.full(rows.size, "", dtype=object)
        reasons[~known_by(known, self._embargoed(panel.times, stop, cutoff))] = "embargo"
        reasons[~known_by(known, cutoff)] = "label"
        extra = self._layout().extra
        if extra:
            left = np.unique(panel.position[rows[reasons == ""]])
            further = np.isin(panel.position[rows], left[-extra:]) & (reasons == "")
            reasons[further] = "purged_size"
        stays = reasons == ""
        return _Kept(rows[stays], rows[~stays], [str(reason) for reason in reasons[~stays]])

    def _embargoed(self, times: Nanoseconds, stop: int, cutoff: int) -> int:
        embargo = parse_size(self.embargo_size, "embargo_size", least=0)
        if isinstance(embargo, Span):
            return embargo.before(cutoff)
        if embargo > stop:
            return EARLIEST
        return last_instant_before(int(times[stop - embargo]))


class _Kept(NamedTuple):
    """The rows of one side that stay, and those that go with their reasons."""

    rows: Rows
    purged: Rows
    reasons: list[str]


def _runs(panel: Samples, sides: dict[str, _Kept]) -> list[Stretch]:
    runs = []
    for side, kept in sides.items():
        runs += panel.runs(kept.rows, side)
        reasons = np.array(kept.reasons, dtype=object)
        for reason in REASONS:
            runs += panel.runs(kept.purged[reasons == reason], side, reason)
    return runs


def _purged_frame(panel: Samples, sides: dict[str, _Kept]) -> pl.DataFrame:
    rows = np.concatenate([kept.purged for kept in sides.values()])
    return pl.DataFrame(
        {
            "row": rows,
            "entity": panel.entity.gather(rows).cast(pl.String()),
            "forecast_time": instants(panel.forecast_time[rows]),
            "side": [side for side, kept in sides.items() for _ in kept.reasons],
            "reason": [reason for kept in sides.values() for reason in kept.reasons],
        },
        schema=PURGED_SCHEMA,
    )
