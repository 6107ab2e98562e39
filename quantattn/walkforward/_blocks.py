"""The blocks of a combinatorial cross-validation, and what each of them takes from the training side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import SplitError
from quantattn.pit.timestamps import instants, iso
from quantattn.walkforward._samples import Mask, Samples, known_by
from quantattn.walkforward._sizes import EARLIEST, Span
from quantattn.walkforward._stretches import REASONS, Rows, Stretch
from quantattn.walkforward.combinatorial_fold import COMBINATORIAL_PURGED_SCHEMA, CombinatorialFold


class Block(NamedTuple):
    """One block of forecast times, as a test block.

    `start` and `stop` are half-open positions among the distinct forecast times. `span` runs from the first
    forecast to the last instant at which one of its labels becomes known. `label` and `embargo` say, for
    every sample outside of the block, whether its label interval overlaps the span, or whether it lies in
    the embargo.
    """

    start: int
    stop: int
    rows: Rows
    span: tuple[int, int]
    label: Mask
    embargo: Mask


Blocks = list[Block]


def lay_blocks(panel: Samples, n_folds: int, embargo: int | Span) -> Blocks:
    """Cut the forecast times into blocks, and find what each would take from the training side.

    Parameters
    ----------
    panel : Samples
        The samples; at least `n_folds` forecast times.
    n_folds : int
        Number of blocks; the last one takes what is left over.
    embargo : int or Span
        Forecast times, or stretch of time, after the block's last known label.

    Returns
    -------
    list of Block
        In order of time.
    """
    n = len(panel.times)
    size = n // n_folds
    edges = [*(size * i for i in range(n_folds)), n]
    return [_block(panel, start, stop, embargo) for start, stop in pairwise(edges)]


def _block(panel: Samples, start: int, stop: int, embargo: int | Span) -> Block:
    rows = panel.rows_between(start, stop)
    first, last_known = int(panel.times[start]), int(panel.label_available_at[rows].max())
    before, after = panel.position < start, panel.position >= stop
    # Whatever comes first must be known strictly before the other begins: the same rule on both sides.
    cutoffs = np.maximum(panel.times, EARLIEST + 1) - 1
    clear_before = known_by(panel.label_available_at, int(cutoffs[start]))
    clear_times = known_by(last_known, cutoffs)
    if isinstance(embargo, Span):
        free_times = known_by(embargo.after(last_known), cutoffs)
    else:
        following = int(np.count_nonzero(~clear_times))
        free_times = np.arange(len(panel.times)) >= following + embargo
    late = after & ~clear_times[panel.position]
    return Block(
        start,
        stop,
        rows,
        (first, last_known),
        label=(before & ~clear_before) | late,
        embargo=after & ~late & ~free_times[panel.position],
    )


class _Reasons(NamedTuple):
    """For every sample: the index in ``REASONS`` (-1: it stays) and the block that is the reason."""

    reason: npt.NDArray[np.int64]
    block: npt.NDArray[np.int64]

    def give(self, rows: Mask, reason: str, block: int) -> None:
        """Give the rows that stay so far a reason."""
        new = rows & (self.reason == -1)
        self.reason[new], self.block[new] = REASONS.index(reason), block


def split_fold(
    panel: Samples,
    blocks: Blocks,
    extra: int,
    *,
    index: int,
    test_folds: Sequence[int],
    path_ids: Sequence[int],
) -> CombinatorialFold:
    """Make one split: the label rule towards every test block, then the embargoes, then `extra` times more.

    Raises
    ------
    SplitError
        If nothing is left to train on.
    """
    is_test = np.zeros(len(panel.position), dtype=bool)
    for number in test_folds:
        is_test[blocks[number].rows] = True
    reasons = _Reasons(np.full(len(is_test), -1), np.full(len(is_test), -1))
    for number in test_folds:
        reasons.give(blocks[number].label & ~is_test, "label", number)
    for number in test_folds:
        reasons.give(blocks[number].embargo & ~is_test, "embargo", number)
    if extra:
        _purge_further(panel, blocks, test_folds, extra, is_test, reasons)
    stays = ~is_test & (reasons.reason == -1)
    train = np.flatnonzero(stays).astype(np.int64)
    gone = np.flatnonzero(reasons.reason >= 0).astype(np.int64)
    first_test = blocks[test_folds[0]].start
    if not train.size:
        raise SplitError(
            f"split {index} (test blocks {list(test_folds)}, from {iso(blocks[test_folds[0]].span[0])}) has "
            f"no train row left after purging {gone.size} rows; make n_folds smaller, or shorten the label's "
            "horizon, purged_size or embargo_size"
        )
    return CombinatorialFold(
        index=index,
        train=train,
        tests=tuple(blocks[number].rows for number in test_folds),
        test_folds=tuple(test_folds),
        path_ids=tuple(path_ids),
        purged=_purged_frame(panel, blocks, gone, reasons),
        test_spans=tuple(blocks[number].span for number in test_folds),
        n_train_after=int(np.count_nonzero(panel.position[train] > first_test)),
        runs=tuple(_runs(panel, blocks, test_folds, train, gone, reasons)),
    )


def _purge_further(
    panel: Samples,
    blocks: Blocks,
    test_folds: Sequence[int],
    extra: int,
    is_test: Mask,
    reasons: _Reasons,
) -> None:
    """Drop the `extra` nearest remaining forecast times before and after every test block."""
    left = np.unique(panel.position[~is_test & (reasons.reason == -1)])
    chosen = set(test_folds)
    for number in test_folds:
        block = blocks[number]
        # Only up to the next test block: beyond it, that one is nearer.
        lower = max((blocks[other].stop for other in chosen if other < number), default=0)
        upper = min((blocks[other].start for other in chosen if other > number), default=len(panel.times))
        before = left[(left >= lower) & (left < block.start)][-extra:]
        after = left[(left >= block.stop) & (left < upper)][:extra]
        further = np.isin(panel.position, np.concatenate([before, after]))
        reasons.give(further & ~is_test, "purged_size", number)


def _purged_frame(panel: Samples, blocks: Blocks, rows: Rows, reasons: _Reasons) -> pl.DataFrame:
    block = reasons.block[rows]
    starts = np.array([one.start for one in blocks], dtype=np.int64)
    before = panel.position[rows] < starts[block]
    return pl.DataFrame(
        {
            "row": rows,
            "entity": panel.entity.gather(rows).cast(pl.String()),
            "forecast_time": instants(panel.forecast_time[rows]),
            "side": ["train"] * len(rows),
            "reason": [REASONS[code] for code in reasons.reason[rows]],
            "test_fold": block,
            "position": np.where(before, "before", "after").tolist(),
        },
        schema=COMBINATORIAL_PURGED_SCHEMA,
    )


def _runs(
    panel: Samples, blocks: Blocks, test_folds: Sequence[int], train: Rows, gone: Rows, reasons: _Reasons
) -> list[Stretch]:
    runs = panel.runs(train, "train")
    for code, reason in enumerate(REASONS):
        runs += panel.runs(gone[reasons.reason[gone] == code], "train", reason)
    for number in test_folds:
        runs += panel.runs(blocks[number].rows, "test")
    return runs
