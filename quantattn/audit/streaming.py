"""The streaming check: are the networks' test forecasts those that would have been made live."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from quantattn.audit.result import CheckResult
from quantattn.errors import DataError
from quantattn.pit.timestamps import iso
from quantattn.walkforward.agreement import Agreement
from quantattn.walkforward.settings import NETWORKS

NAME = "streaming"
TITLE = "Do the networks' forecasts read what the dataset says, and do the live and the batch path agree?"
KEY = ("entity", "forecast_time", "horizon")
SEEN = ("n_visible", "max_available_at", "info_hash")

Key = tuple[int, str, int]
"""Fold, model and seed."""


@dataclass(frozen=True)
class _Unit:
    """One network of one fold: what the forecasts table holds of it, and how its two paths compare."""

    key: Key
    forecasts: int
    streamed: int
    agreement: Agreement | None

    @property
    def name(self) -> str:
        fold, model, seed = self.key
        return f"fold {fold} {model} seed {seed}"

    @property
    def compared(self) -> bool:
        return self.agreement is not None and self.agreement.forecasts == self.forecasts

    @property
    def apart(self) -> bool:
        return self.agreement is not None and not self.agreement.within


def check_streaming(
    forecasts: pl.DataFrame, samples: pl.DataFrame, records: Mapping[Key, Mapping[str, Any] | None]
) -> CheckResult:
    """Hold the networks' test forecasts against what the live path and the batch path say.

    Parameters
    ----------
    forecasts : polars.DataFrame
        The forecasts table; of networks it holds the information sets that the live path named itself.
    samples : polars.DataFrame
        The dataset's samples.
    records : mapping of (fold, model, seed) to mapping, or None
        What each unit's log says under ``"streaming"``: how its two paths compare, see
        :class:`~quantattn.walkforward.agreement.Agreement`; None where it says nothing.

    Returns
    -------
    CheckResult
        FAIL if a network's test forecast was not timed in the streaming path, names another information set
        than the dataset does, was not compared with the batch path, or the two paths differ by more than
        rounding explains (:attr:`Agreement.tolerance <quantattn.walkforward.agreement.Agreement.tolerance>`
        says how that is known). NOT EXERCISED where no network forecast anything.
    """
    streamed = forecasts.filter(pl.col("model").is_in(NETWORKS))
    if streamed.is_empty():
        return CheckResult(NAME, TITLE, "NOT EXERCISED", "No network forecast anything, so nothing streamed.")
    units = _units(streamed, records)
    other = _other_information(streamed, samples)
    untimed = streamed.height - sum(unit.streamed for unit in units)
    missing = [unit for unit in units if not unit.compared]
    apart = [unit for unit in units if unit.apart]
    compared = sum(unit.forecasts for unit in units if unit.compared)
    coverage = {
        "forecasts with the timing of a live read": 1 - untimed / streamed.height,
        "information sets compared with the dataset": 1.0,
        "forecasts compared with the batch path": compared / streamed.height,
    }
    evidence = {
        "networks": len(units),
        "forecasts": streamed.height,
        "forecasts without a live timing": untimed,
        "information sets other than the dataset's": _first(other),
        "largest difference in standard deviations of the target": _worst(units),
        "by network": [_shown(unit) for unit in sorted(units, key=_severity, reverse=True)],
    }
    faults = [
        *([f"{untimed} forecasts carry no timing of a live read"] if untimed else []),
        *([f"{other.height} state another information set than the dataset's"] if other.height else []),
        *([f"{len(missing)} networks were not compared with the batch path"] if missing else []),
        *([_apart(apart)] if apart else []),
    ]
    if faults:
        summary = f"Of {streamed.height} forecasts of {len(units)} networks: {'; '.join(faults)}."
        return CheckResult(NAME, TITLE, "FAIL", summary, coverage, evidence)
    worst = max(units, key=_severity)
    summary = (
        f"All {streamed.height} forecasts of {len(units)} networks name the dataset's information sets and "
        "carry the timing of a live read, which is evidence of the live path and no proof; the batch path "
        "gives the same to within "
        f"{_largest(units):.2g} standard deviations of the target, at most {_severity(worst):.0%} of what "
        f"rounding explains ({worst.name})."
    )
    return CheckResult(NAME, TITLE, "PASS", summary, coverage, evidence)


def _units(streamed: pl.DataFrame, records: Mapping[Key, Mapping[str, Any] | None]) -> list[_Unit]:
    timed = pl.col("read_us").is_not_null()
    counts = streamed.group_by("fold", "model", "seed", maintain_order=True).agg(
        pl.len().alias("n"), timed.sum().alias("timed")
    )
    return [
        _Unit((fold, model, seed), n, n_timed, _agreement(records.get((fold, model, seed))))
        for fold, model, seed, n, n_timed in counts.iter_rows()
    ]


def _agreement(record: Mapping[str, Any] | None) -> Agreement | None:
    if record is None:
        return None
    try:
        return Agreement.from_dict(record)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"a unit's record of its streaming path cannot be read ({error}); run again with --resume"
        ) from error


def _other_information(streamed: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Give the forecasts whose information set is not the dataset's, or that the dataset does not have."""
    true = samples.select(*KEY, pl.struct(SEEN).alias("true"), pl.lit(True).alias("known"))
    said = streamed.select("model", "seed", "fold", *KEY, pl.struct(SEEN).alias("said"))
    joined = said.join(true, on=KEY, how="left", maintain_order="left")
    return joined.filter(joined["known"].is_null() | joined["said"].ne_missing(joined["true"]))


def _first(rows: pl.DataFrame) -> list[str]:
    """Name the first three."""
    times = rows["forecast_time"].to_physical()
    return [
        f"{model} {entity} {iso(int(at))}"
        for model, entity, at in zip(rows["model"][:3], rows["entity"][:3], times[:3], strict=True)
    ]


def _severity(unit: _Unit) -> float:
    """Give the largest difference as a share of what is tolerated; infinite without a comparison."""
    if unit.agreement is None or not unit.compared:
        return math.inf
    return unit.agreement.largest / unit.agreement.tolerance


def _largest(units: list[_Unit]) -> float:
    return max((unit.agreement.largest for unit in units if unit.agreement is not None), default=math.inf)


def _worst(units: list[_Unit]) -> float | str:
    largest = _largest(units)
    return largest if math.isfinite(largest) else "not finite"


def _shown(unit: _Unit) -> dict[str, Any]:
    fold, model, seed = unit.key
    base = {"model": model, "fold": fold, "seed": seed, "forecasts": unit.forecasts}
    found = unit.agreement
    if found is None:
        return {**base, "largest": "not compared", "where": "", "tolerance": "", "rounding": ""}
    return {
        **base,
        "largest": found.largest if math.isfinite(found.largest) else "not finite",
        "where": f"{found.entity} {iso(found.forecast_time)}",
        "tolerance": found.tolerance,
        "rounding": found.rounding if math.isfinite(found.rounding) else "not finite",
    }


def _apart(units: list[_Unit]) -> str:
    worst = max(units, key=_severity)
    found = worst.agreement
    assert found is not None  # or it would not be apart
    return (
        f"the two paths of {len(units)} networks differ by more than rounding explains, most by "
        f"{found.largest:.2g} standard deviations of the target ({worst.name}, {found.entity} "
        f"{iso(found.forecast_time)}), where {found.tolerance:.2g} is tolerated"
    )
