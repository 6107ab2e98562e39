"""Walk-forward folds over distinct forecast times, purged by the time at which labels are known."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import SplitError
from quantattn.pit.timestamps import (
    TIME,
    Nanoseconds,
    instants,
    iso,
    last_instant_before,
    may_train,
    nanoseconds_of,
)
from quantattn.walkforward._sizes import EARLIEST, Size, Span, parse_frequency, parse_size
from quantattn.walkforward._windows import Layout, Window, windows_by_calendar, windows_by_size
from quantattn.walkforward.fold import PURGED_SCHEMA, Fold, Rows

__all__ = ["Fold", "WalkForward"]

_INSTANTS = ("forecast_time", "label_end_time", "label_available_at")


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
        periods of `freq` where that is given. A duration (``"365D"``) or calendar offset (``"5YS"``)
        reaches back from the start of the test block; the first block starts where the history is that long.
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
        panel = _read(samples)
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
            (instants, UTC), `n_train`, `n_validation`, `n_test`, `n_purged_train`, `n_purged_validation`.

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
            rows.append(row)
        frame = pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.Int64()))
        stamps = [name for name in frame.columns if name.endswith(("_start", "_end", "_time"))]
        return frame.with_columns(pl.col(stamps).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))

    def _layout(self) -> Layout:
        extra = 0 if self.purged_size == "label" else parse_size(self.purged_size, "purged_size", least=0)
        if not isinstance(extra, int):
            raise SplitError(
                f"purged_size={self.purged_size!r} is neither 'label' nor a count; 'label' follows "
                "label_available_at, a count purges as many forecast times more"
            )
        validation = None if self.val_size is None else parse_size(self.val_size, "val_size", least=1)
        train = parse_size(self.train_size, "train_size", least=1)
        test = parse_size(self.test_size, "test_size", least=1)
        return Layout(train, test, validation, extra, bool(self.expand_train), bool(self.reduce_test))

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

    def _fold(self, index: int, window: Window, panel: _Samples) -> Fold:
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
        test = np.flatnonzero((panel.position >= window.test_start) & (panel.position < window.test_stop))
        return Fold(
            index=index,
            train=train.rows,
            validation=validation.rows,
            test=test.astype(np.int64),
            purged=_purged_frame(panel, {"train": train, "validation": validation}),
            fit_time=fit_time,
            validation_time=validation_time,
            train_span=_span(panel, train.rows),
            validation_span=_span(panel, validation.rows) if validation.rows.size else None,
            test_span=_span(panel, test),
        )

    def _keep(self, panel: _Samples, start: int, stop: int) -> _Kept:
        """Apply the label rule, then the embargo, then the further forecast times, to one side."""
        rows = np.flatnonzero((panel.position >= start) & (panel.position < stop)).astype(np.int64)
        cutoff = last_instant_before(int(panel.times[stop]))
        known = panel.label_available_at[rows]
        reasons = np.full(rows.size, "", dtype=object)
        reasons[~_known_by(known, self._embargoed(panel.times, stop, cutoff))] = "embargo"
        reasons[~_known_by(known, cutoff)] = "label"
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


class _Samples(NamedTuple):
    """The columns of a samples frame that matter here, as arrays; `position` is among distinct `times`."""

    entity: pl.Series
    forecast_time: Nanoseconds
    label_available_at: Nanoseconds
    times: Nanoseconds
    position: npt.NDArray[np.int64]


class _Kept(NamedTuple):
    """The rows of one side that stay, and those that go with their reasons."""

    rows: Rows
    purged: Rows
    reasons: list[str]


def _read(samples: pl.DataFrame) -> _Samples:
    """Check the samples and take out what splitting needs."""
    if not isinstance(samples, pl.DataFrame):
        raise SplitError(
            f"samples is a {type(samples).__name__}, not a polars DataFrame; pass PointInTimeDataset.samples"
        )
    missing = [name for name in ("entity", *_INSTANTS) if name not in samples.columns]
    if missing:
        raise SplitError(
            f"samples lacks the columns {missing}; purging needs the times at which labels end and become "
            "known: pass PointInTimeDataset.samples"
        )
    if samples.is_empty():
        raise SplitError(
            "samples is empty: there are 0 forecast times; check the clock, the labels and the universe"
        )
    for name in _INSTANTS:
        if samples[name].dtype != TIME:
            raise SplitError(f"column {name!r} has type {samples[name].dtype}, not {TIME}; convert it first")
        if samples[name].null_count():
            rows = samples[name].is_null().arg_true()
            raise SplitError(
                f"column {name!r} is missing in {len(rows)} rows, first {rows.head(3).to_list()}; without it "
                "purging cannot be decided, so drop those rows or give their labels an end"
            )
    _refuse(
        samples,
        pl.col("label_available_at") < pl.col("label_end_time"),
        "label_available_at before label_end_time, but no label is known before it ends",
    )
    _refuse(
        samples,
        pl.col("label_available_at") <= pl.col("forecast_time"),
        "label_available_at at or before forecast_time, but a label begins after the forecast",
    )
    forecast_time, known = (nanoseconds_of(samples[name]) for name in ("forecast_time", "label_available_at"))
    times, position = np.unique(forecast_time, return_inverse=True)
    return _Samples(samples["entity"], forecast_time, known, times, position.astype(np.int64).reshape(-1))


def _refuse(samples: pl.DataFrame, wrong: pl.Expr, what: str) -> None:
    rows = samples.select(wrong.alias("wrong"))["wrong"].arg_true()
    if len(rows):
        raise SplitError(
            f"{len(rows)} rows, first {rows.head(3).to_list()}, have {what}; correct the labels' times"
        )


def _known_by(label_available_at: Nanoseconds, cutoff: int) -> npt.NDArray[np.bool_]:
    """Apply the one rule of training to arrays."""
    cutoffs = np.full(label_available_at.shape, cutoff, dtype=np.int64)
    frame = pl.DataFrame({"known": instants(label_available_at), "cutoff": instants(cutoffs)})
    return frame.select(may_train(pl.col("known"), pl.col("cutoff"))).to_series().to_numpy()


def _span(panel: _Samples, rows: Rows) -> tuple[int, int]:
    return int(panel.forecast_time[rows].min()), int(panel.forecast_time[rows].max())


def _purged_frame(panel: _Samples, sides: dict[str, _Kept]) -> pl.DataFrame:
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
