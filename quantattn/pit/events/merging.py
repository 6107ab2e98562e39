"""Several logs as one: what two of them hold is kept once, and contradictions are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from quantattn.pit.events.duplicates import differences, find_duplicates
from quantattn.pit.events.reasons import EXPLANATIONS
from quantattn.pit.events.schema import KEY, REJECTS, schema_of


def merge(
    frames: Sequence[pl.DataFrame], features: tuple[str, ...], names: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Put the events of several logs together.

    Parameters
    ----------
    frames : sequence of polars.DataFrame
        The events of each log; a feature that one lacks is null in its events.
    features : tuple of str
        All features, in order.
    names : sequence of str
        What to call each log in details.

    Returns
    -------
    events : polars.DataFrame
        One row for each (event_id, revision), in the order of the logs.
    rejects : polars.DataFrame
        ``row`` (the place in its own log), ``reason`` and ``detail`` of those left out.
    """
    empty = pl.DataFrame(schema=schema_of(features))
    events = pl.concat([empty, *frames], how="diagonal").rechunk()
    conflicting, repeated = find_duplicates(events, features)
    if not conflicting.size and not repeated.size:
        return events, pl.DataFrame(schema=REJECTS)
    heights = [frame.height for frame in frames]
    owner = np.repeat(np.arange(len(frames)), heights)
    place = np.concatenate([np.arange(height, dtype=np.int64) for height in heights])
    said = {
        "conflicting_duplicate": differences(events, conflicting, features, KEY),
        "duplicate": pl.repeat("", repeated.size, dtype=pl.String, eager=True),
    }
    listed = []
    for reason, rows in (("conflicting_duplicate", conflicting), ("duplicate", repeated)):
        found = (
            events[rows]
            .select("event_id", "revision")
            .with_columns(
                row=pl.Series(place[rows]),
                log=pl.Series([names[number] for number in owner[rows].tolist()], dtype=pl.String),
                said=said[reason],
            )
        )
        shown = pl.col("event_id").str.slice(0, 80).str.replace_all(r"[\x00-\x1f\x7f-\x9f]", "\ufffd")
        detail = pl.format(
            "{}: event_id '{}' revision {}: {}{}",
            "log",
            shown,
            "revision",
            pl.lit(EXPLANATIONS[reason][0]),
            "said",
        )
        listed.append(found.rechunk().select("row", reason=pl.lit(reason), detail=detail))
    kept = np.ones(events.height, dtype=bool)
    kept[conflicting] = False
    kept[repeated] = False
    return events.filter(pl.Series(kept)), pl.concat(listed)
