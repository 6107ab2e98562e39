"""Repeated and nearly repeated text, flagged from strictly earlier events alone.

The search for similar texts is exact: texts are compared by the Jaccard similarity of their sets of
neighbouring word pairs, and the prefix filter of Bayardo, Ma and Srikant (2007, "Scaling up all pairs
similarity search") only leaves out pairs that cannot reach the threshold. Nothing is drawn at random, so a
flag depends on the event and on what was available before it, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.pairs import word_pairs
from quantattn.pit.timestamps import Nanoseconds, duration_nanoseconds, nanoseconds_of

NAMES: Final = ("repeat", "near_repeat")
"""The features that the flags become."""

_EVENTS_AT_ONCE: Final = 250_000


def normalise(text: pl.Expr) -> pl.Expr:
    """Reduce text to what makes it the same text again.

    Parameters
    ----------
    text : polars.Expr
        String.

    Returns
    -------
    polars.Expr
        String: in Unicode form NFKC and lower case; a retweet mark at the start, web addresses and mentions
        of users (``@name``) left out; every other run of characters that are no letters, marks or digits as
        one space, but for a minus sign before a figure, which becomes the word ``minus``. Null where the
        text is null or nothing is left.
    """
    plain = text.str.normalize("NFKC").str.to_lowercase()
    plain = plain.str.replace(r"^\s*(?:rt\s+@\w+\s*:?\s*)+", " ")
    plain = plain.str.replace_all(r"(?:https?://|www\.)\S+|@\w+", " ")
    plain = plain.str.replace_all(r"(^|[\s(\[:])[-\u{2212}]([$\u{20ac}\u{a3}]?[.]?\d)", "${1} minus ${2}")
    plain = plain.str.replace_all(r"[^\p{L}\p{M}\p{N}]+", " ").str.strip_chars()
    return pl.when(plain != "").then(plain)


def flag_repeats(
    events: pl.DataFrame,
    features: tuple[str, ...],
    *,
    threshold: float = 0.8,
    window: str | timedelta | pd.Timedelta | None = None,
) -> pl.DataFrame:
    """Flag the events whose text the entity's strictly earlier events hold already, wholly or nearly.

    Parameters
    ----------
    events : polars.DataFrame
        A log's events in canonical order.
    features : tuple of str
        The feature columns.
    threshold : float
        The least similarity that counts as nearly the same, in (0, 1].
    window : str or timedelta, optional
        How far back an earlier text may lie: of two events exactly this far apart, the later one is
        flagged. By default any distance.

    Returns
    -------
    polars.DataFrame
        ``repeat``: 1.0 if an event of the same entity with an earlier ``available_at`` has the same text
        after :func:`normalise`, else 0.0. ``near_repeat``: the greatest Jaccard similarity of the sets of
        neighbouring word pairs (of the one word, where there is no pair) against those events; 1.0 for a
        repeat; null below `threshold`. Both null where the event has no text. Events of one instant do not
        see each other. Market-wide events are held against each other. Earlier versions of the same event
        count as earlier text.

    Raises
    ------
    EventDataError
        If there is a feature of either name.
    UsageError
        If `threshold` is not in (0, 1] or `window` is not positive.
    TimestampError
        If `window` is no duration.
    """
    taken = [name for name in NAMES if name in features]
    if taken:
        raise EventDataError(f"features {taken} are there already; drop or rename them first")
    if not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise UsageError(
            f"threshold={threshold!r} is no similarity; give one above 0 and up to 1, such as 0.8"
        )
    reach = None if window is None else duration_nanoseconds(window, argument="window")
    if reach is not None and reach <= 0:
        raise UsageError(f"window={window!r} reaches back over nothing; give a positive duration or None")
    same = np.full(events.height, np.nan)
    near = np.full(events.height, np.nan)
    for rows in _entity_groups(events["entity"]):
        part = events[rows].select("entity", normalise(pl.col("text")).alias("text"), "available_at")
        worded = part["text"].is_not_null().to_numpy()
        if worded.any():
            chosen = rows[worded]
            same[chosen], near[chosen] = _flag(part.filter(worded), threshold, reach)
    flags = dict(zip(NAMES, (same, near), strict=True))
    return pl.DataFrame(flags).select(pl.col(NAMES).fill_nan(None))


def _entity_groups(entity: pl.Series) -> Iterator[npt.NDArray[np.int64]]:
    """Give row numbers entity by entity, several small entities at once, each in its order."""
    codes = entity.fill_null("").rank("dense").to_numpy().astype(np.int64)
    codes[entity.is_null().to_numpy()] = 0
    order = np.argsort(codes, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(codes[order])) + 1, codes.size)
    start = 0
    for end, following in zip(ends, [*ends[1:].tolist(), None], strict=True):
        if following is None or following - start > _EVENTS_AT_ONCE:
            yield order[start:end]
            start = end


def _flag(
    events: pl.DataFrame, threshold: float, reach: int | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Flag events that all have text, sorted by entity and within it by availability."""
    times: Nanoseconds = nanoseconds_of(events["available_at"])
    entity = events["entity"].rle_id().to_numpy().astype(np.int64)
    spelling = (events["text"].rank("dense") - 1).to_numpy().astype(np.int64)
    # The same text under another entity is another document.
    _, first, document = np.unique(
        entity * (int(spelling.max()) + 1) + spelling, return_index=True, return_inverse=True
    )
    pairs = word_pairs(events["text"][first], entity[first])
    return pairs.search(entity, times, document.astype(np.int64), threshold, reach)
