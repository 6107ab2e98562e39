"""Where a run came from: versions, hashes, machine."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

from quantattn.pit import PointInTimeDataset, PriceHistory
from quantattn.pit.ingest_record import IngestRecord
from quantattn.pit.timestamps import iso, nanoseconds_of
from quantattn.walkforward import Fold
from quantattn.walkforward.environment import PACKAGES, code_hash, processor, versions
from quantattn.walkforward.threads import available_cores

__all__ = [
    "PACKAGES",
    "available_cores",
    "caveats",
    "code_hash",
    "event_counts",
    "fold_records",
    "index_caveats",
    "ingest_caveats",
    "ingested_records",
    "machine",
    "peak_memory_gib",
    "price_caveats",
    "processor",
    "versions",
]


def machine(threads: int) -> dict[str, Any]:
    """Describe the machine that latencies were measured on."""
    return {
        "cpu": processor(),
        "cores": available_cores(),
        "threads": threads,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def peak_memory_gib() -> float | None:
    """Give the largest resident memory that this process has had, in GiB; None where that is unknown."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    unit = 1 if platform.system() == "Darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30, 2)


def fold_records(folds: Sequence[Fold]) -> list[dict[str, Any]]:
    """Give the folds as the manifest keeps them."""
    records = []
    for fold in folds:
        purged = []
        for side in ("train", "validation"):
            rows = fold.purged.filter(fold.purged["side"] == side)
            if rows.height:
                times = nanoseconds_of(rows["forecast_time"])
                purged.append(
                    {"side": side, "start": iso(times.min()), "end": iso(times.max()), "n_rows": rows.height}
                )
        records.append(
            {
                "fold": fold.index,
                **{name: value for name, value in fold.spans().items() if name != "validation_time"},
                "n_train": len(fold.train),
                "n_validation": len(fold.validation),
                "n_test": len(fold.test),
                "purged": purged,
            }
        )
    return records


def event_counts(dataset: PointInTimeDataset, rejected: dict[str, int]) -> dict[str, Any]:
    """Count the events by kind and the rejected rows by reason."""
    kinds = dataset.events.frame.group_by("kind").len().sort("len", "kind", descending=[True, False])
    return {"n": len(dataset.events.frame), "by_kind": dict(kinds.iter_rows()), "rejected": rejected}


def index_caveats(prices: PriceHistory, index: PriceHistory | None) -> list[str]:
    """Say in how many sessions of the prices there is no bar of the index."""
    if index is None:
        return []
    sessions = prices.frame["session"].unique().sort().to_list()
    known = set(index.frame["session"].to_list())
    lacking = [session for session in sessions if session not in known]
    if not lacking:
        return []
    return [
        f"The index has no bar in {len(lacking)} of {len(sessions)} sessions, the first on {lacking[0]} and "
        f"the last on {lacking[-1]}; the figures of the market are missing there."
    ]


def price_caveats(prices: PriceHistory, index: PriceHistory | None, sources: Sequence[str]) -> list[str]:
    """Say what adjusted prices know of the future; of packaged ones :func:`caveats` does."""
    named = {"prices": prices} | ({} if index is None else {"index": index})
    adjusted = [name for name, history in named.items() if history.adjustment == "vendor"]
    if not adjusted or "packaged:us_equities" in sources:
        return []
    whose = " and ".join(adjusted)
    return [
        f"The {whose} of this study {'is' if adjusted == ['index'] else 'are'} adjusted by the vendor with "
        "what was known at the download: levels carry later splits and dividends, and are refused as "
        "features; the returns that events and targets are made from do so only on the days of those actions."
    ]


def ingested_records(ingested: Mapping[str, IngestRecord]) -> dict[str, dict[str, Any]]:
    """Give how files of ``quantattn ingest`` were made as the manifest keeps it."""
    return {
        name: {
            "format": record.format,
            "options": dict(record.options),
            "rejected": dict(record.rejected),
            "notes": list(record.notes),
        }
        for name, record in sorted(ingested.items())
    }


def ingest_caveats(ingested: Mapping[str, IngestRecord]) -> list[str]:
    """Repeat what readers warned of when files were ingested."""
    return [
        f"{Path(name).name}: {note}." for name, record in sorted(ingested.items()) for note in record.notes
    ]


def caveats(sources: Sequence[str], *, universe: bool) -> list[str]:
    """Say what a reader must know about the data before believing a result."""
    found = []
    if "packaged:us_equities" in sources:
        found += [
            "The 20 stocks were chosen with hindsight: all of them survived to 2022. Levels of performance "
            "are therefore flattered; differences between models on the same stocks are not, or far less.",
            "Closing prices are adjusted with what was known in 2022. Their levels carry later splits and "
            "dividends; the daily returns that events and targets are made from do so only on those days.",
        ]
    elif not universe:
        found.append(
            "No dated universe was given: an instrument is forecast whenever it has prices, so instruments "
            "that vanished from the price file are missing from the past as well."
        )
    return found
