"""What the result files of a run directory must hold, field by field.

Every model ignores keys that it does not know, so that a newer run can still be shown, and refuses a
missing key, a wrong type, an infinity or a NaN. Instants become int64 nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from quantattn.errors import TimestampError
from quantattn.pit.timestamps import to_nanoseconds

TargetKind = Literal["variance", "return", "direction"]
"""What a study forecasts; it decides which metrics make sense."""

CheckVerdict = Literal["PASS", "FAIL", "NOT EXERCISED"]
"""How one audit check ended."""

AuditVerdict = Literal["PASS", "FAIL", "INCOMPLETE"]
"""How the audit ended; with anything unexercised it cannot be PASS."""


def parse_instant(value: object) -> int:
    """Read an ISO 8601 text as nanoseconds since the epoch; a text without zone is read as UTC.

    Parameters
    ----------
    value : object
        The JSON value; only text (or an integer of nanoseconds) is an instant.

    Returns
    -------
    int
        Nanoseconds since 1970-01-01 UTC.

    Raises
    ------
    ValueError
        If the value is not an instant (pydantic turns this into its own error).
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("not an instant; write ISO 8601 text such as '2020-01-02T20:45:00Z'")
    try:
        return to_nanoseconds(pd.Timestamp(value) if isinstance(value, str) else value)
    except (ValueError, TimestampError) as error:
        raise ValueError(f"not an instant: {error}") from error


Instant = Annotated[int, BeforeValidator(parse_instant)]
"""An instant in a result file: ISO text there, nanoseconds since the epoch here."""


class _Record(BaseModel):
    """Base of all records: immutable, strict about types, open to new keys."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, protected_namespaces=()
    )


class Findings(_Record):
    """``findings.json``: the answer in words."""

    headline: str
    findings: tuple[str, ...]


class Target(_Record):
    """What is forecast: name, words, horizon in sessions and kind."""

    name: str
    description: str
    horizon: int
    kind: TargetKind


class Estimate(_Record):
    """A metric with its interval; null where it is undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None


class FoldMetrics(_Record):
    """The metrics of one model on one test block."""

    fold: int
    test_start: Instant
    test_end: Instant
    n_rows: int
    metrics: dict[str, float | None]


class SeedMetrics(_Record):
    """The metrics of one model trained with one seed."""

    seed: int
    metrics: dict[str, float | None]


class ModelMetrics(_Record):
    """The metrics of one model: pooled, by fold and by seed."""

    model: str
    seeds: tuple[int, ...]
    metrics: dict[str, Estimate | None]
    by_fold: tuple[FoldMetrics, ...] = ()
    by_seed: tuple[SeedMetrics, ...] = ()

    def estimate(self, metric: str) -> Estimate:
        """Give the pooled estimate of `metric`; all null where the model has none."""
        return self.metrics.get(metric) or Estimate(value=None)


class Metrics(_Record):
    """``metrics.json``."""

    study: str
    target: Target
    confidence: float
    n_rows: int
    n_forecast_times: int
    n_entities: int
    first_forecast: Instant
    last_forecast: Instant
    models: tuple[ModelMetrics, ...] = Field(min_length=1)


class SeedDifference(_Record):
    """The mean loss difference of one seed."""

    seed: int
    mean_difference: float | None


class PairedComparison(_Record):
    """Loss of `model` less loss of `against`, its interval and test; `reason` says why there is none."""

    model: str
    against: str
    mean_difference: float | None
    low: float | None
    high: float | None
    dm_statistic: float | None
    p_value: float | None
    n: int
    hac_lags: int | None = None
    verdict: str | None
    reason: str | None = None
    by_seed: tuple[SeedDifference, ...] = ()


class NonInferiority(_Record):
    """The non-inferiority test of `model` against `against` with a declared margin."""

    model: str
    against: str
    margin: float
    margin_rule: str
    difference: float | None
    lower: float | None
    upper: float | None
    p_value: float | None
    non_inferior: bool
    equivalent: bool
    reason: str | None = None


class ModelConfidenceSet(_Record):
    """The models that cannot be told from the best."""

    size: float
    included: tuple[str, ...]
    p_values: dict[str, float | None] = {}
    reason: str | None = None


class CumulativePoint(_Record):
    """The running sum of loss(against) less loss(reference) after one forecast time."""

    forecast_time: Instant
    against: str
    value: float | None


class Comparisons(_Record):
    """``comparisons.json``."""

    reference: str
    loss: str
    alpha: float
    pairwise: tuple[PairedComparison, ...]
    non_inferiority: NonInferiority | None = None
    model_confidence_set: ModelConfidenceSet | None = None
    cumulative_loss_difference: tuple[CumulativePoint, ...] = ()


class Percentiles(_Record):
    """Latency percentiles in microseconds."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


def _no_timing(value: object) -> object:
    return {} if value is None else value


Timing = Annotated[Percentiles, BeforeValidator(_no_timing)]
"""Latency percentiles; null where nothing was timed."""


class LatencyPoint(_Record):
    """Latency of one model at one history length (events)."""

    model: str
    history: int
    update_us: Timing = Percentiles()
    read_us: Timing = Percentiles()
    cold_start_ms: float | None = None
    state_bytes: int | None = None
    n: int | None = None


class BacktestLatency(_Record):
    """Latency of one model while the test forecasts were made."""

    model: str
    n: int | None = None
    update_us: Timing = Percentiles()
    read_us: Timing = Percentiles()


class TrainingRun(_Record):
    """How long one model trained in one fold with one seed."""

    model: str
    fold: int
    seed: int
    seconds: float | None
    epochs: float | None = None
    tokens: float | None = None
    tokens_per_second: float | None = None


class Latency(_Record):
    """``latency.json``."""

    machine: dict[str, Any] = {}
    curve: tuple[LatencyPoint, ...] = ()
    backtest: tuple[BacktestLatency, ...] = ()
    training: tuple[TrainingRun, ...] = ()
    crossover_history: int | None = None


class AuditCheck(_Record):
    """One audit check: verdict, coverage as shares of 0 to 1, and evidence."""

    name: str
    title: str
    verdict: CheckVerdict
    summary: str
    coverage: dict[str, float | None] = {}
    evidence: dict[str, Any] = {}


class Audit(_Record):
    """``audit.json``."""

    verdict: AuditVerdict
    checks: tuple[AuditCheck, ...]


class PurgedSpan(_Record):
    """Rows taken out on one side because their labels reach too far."""

    start: Instant
    end: Instant
    side: str
    n_rows: int


class FoldSpan(_Record):
    """The spans of one fold on the time line; no validation is null."""

    fold: int
    fit_time: Instant
    train_start: Instant
    train_end: Instant
    validation_start: Instant | None = None
    validation_end: Instant | None = None
    test_start: Instant
    test_end: Instant
    n_train: int
    n_validation: int = 0
    n_test: int
    purged: tuple[PurgedSpan, ...] = ()


class EventCounts(_Record):
    """How many events there were, by kind, and how many were rejected, by reason."""

    n: int
    by_kind: dict[str, int] = {}
    rejected: dict[str, int] = {}


class IngestedFile(_Record):
    """How a data file was made by ``quantattn ingest``."""

    format: str
    options: dict[str, Any] = {}
    rejected: dict[str, int] = {}
    notes: tuple[str, ...] = ()


class SampleCounts(_Record):
    """How many samples there were, and how many were dropped, by reason."""

    n: int
    dropped: dict[str, int] = {}


class Stage(_Record):
    """How long one stage of the run took."""

    stage: str
    seconds: float | None


class Manifest(_Record):
    """``manifest.json``: where the run came from."""

    schema_version: int = Field(alias="schema")
    quantattn: str
    created: str | None = None
    quick: bool = False
    seed: int | None = None
    study: Any = None
    study_hash: str | None = None
    data: dict[str, str] = {}
    ingested: dict[str, IngestedFile] = {}
    code_hash: str | None = None
    versions: dict[str, str] = {}
    threads: Any = None
    machine: dict[str, Any] = {}
    command: Any = None
    folds: tuple[FoldSpan, ...] = ()
    events: EventCounts | None = None
    samples: SampleCounts | None = None
    stages: tuple[Stage, ...] = ()
    peak_memory_gib: float | None = None
    caveats: tuple[str, ...] = ()
