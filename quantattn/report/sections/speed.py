"""Latency and training time: the plot, the tables and the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from quantattn.report import formatting
from quantattn.report.figures import Figure, latency_figure
from quantattn.report.loading import RunResults
from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import BacktestLatency, Latency, LatencyPoint, Percentiles, TrainingRun
from quantattn.report.tables import Cell, Column, Table

_TWINS = ("linear", "softmax")


@dataclass(frozen=True)
class Speed:
    """The section on latency and training.

    Attributes
    ----------
    figure : Figure or None
        Latency against history length.
    crossover : str
        One sentence; empty where no curve was measured.
    backtest, twins, training, curve : Table or None
    scope : str
        What the times hold and leave out; empty where nothing was timed.
    paths : str
        What the audit says of the streaming path beside the batch path; empty where it says nothing.
    machine : str
        One line on the machine.
    missing : str
        Says why the section is empty; empty where it is not.
    """

    figure: Figure | None
    crossover: str
    backtest: Table | None
    twins: Table | None
    training: Table | None
    curve: Table | None
    scope: str
    paths: str
    machine: str
    missing: str


def speed_section(run: RunResults, styles: ModelStyles) -> Speed:
    """Shape the section on latency and training."""
    latency = run.latency or Latency()
    figure = latency_figure(latency, styles)
    backtest = _backtest_table(latency, styles) if latency.backtest else None
    training = _training_table(latency, styles) if latency.training else None
    nothing = figure is None and backtest is None and training is None
    return Speed(
        figure=figure,
        crossover=_crossover(latency, styles) if figure else "",
        backtest=backtest,
        twins=_twins_table(latency, styles),
        training=training,
        curve=_curve_table(latency, styles) if latency.curve else None,
        scope=_scope(latency) if figure or backtest else "",
        paths=_paths(run),
        machine=machine_line(latency.machine),
        missing="Latency was not measured in this run." if nothing else "",
    )


def _scope(latency: Latency) -> str:
    said = []
    if latency.backtest:
        said.append(
            "In the backtest an update is one live call: an event's text and figures encoded, the as-of "
            "values kept, and the network stepped for every entity that reads it. Its figures are "
            "percentiles of means: of each forecast, the mean over the events since the entity's forecast "
            "before, so that the slowest single updates lie above them. A read is one call: "
            "as-of values, network, and the answer in units of the target."
        )
    if latency.curve:
        said.append(
            "By history length it is the network alone, one encoded event or one forecast of one entity. "
            "Where a history is longer than the entity's own, its events are repeated."
        )
    said.append("Not in these times: receiving an event and parsing it.")
    return " ".join(said)


def _paths(run: RunResults) -> str:
    check = next((check for check in run.audit.checks if check.name == "streaming"), None)
    return formatting.people_folds(check.summary) if check else ""


def machine_line(machine: Mapping[str, Any]) -> str:
    """Give the machine in one line; what is not known is left out."""
    parts = []
    if machine.get("cpu"):
        parts.append(str(machine["cpu"]))
    for key, word in (("cores", "core"), ("threads", "thread")):
        if isinstance(machine.get(key), int):
            parts.append(formatting.plural(machine[key], word))
    if isinstance(machine.get("memory_gib"), int | float):
        parts.append(f"{formatting.significant(float(machine['memory_gib']))}{formatting.SPACE}GiB memory")
    if machine.get("os"):
        parts.append(str(machine["os"]))
    for key, word in (("python", "Python"), ("torch", "torch")):
        if machine.get(key):
            parts.append(f"{word} {machine[key]}")
    return ", ".join(parts)


def _crossover(latency: Latency, styles: ModelStyles) -> str:
    models = {point.model for point in latency.curve}
    if not {"linear", "softmax"} <= models:
        return ""
    first, second = styles.phrase("linear"), styles.phrase("softmax")
    lengths = [point.history for point in latency.curve]
    measured = f"{formatting.count(min(lengths))} to {formatting.count(max(lengths))} events"
    if latency.crossover_history is None:
        return f"From {measured} of history, no length was found from which {first} is faster than {second}."
    if latency.crossover_history <= min(lengths):
        return formatting.sentence(f"{first} is faster than {second} at every length measured, {measured}.")
    crossover = formatting.count(latency.crossover_history)
    return f"From {crossover} events of history on, {first} is faster than {second}."


def _percentile_cells(measured: Percentiles) -> tuple[Cell, ...]:
    return tuple(Cell(formatting.microseconds(value)) for value in (measured.p50, measured.p95, measured.p99))


_PERCENTILE_COLUMNS = tuple(
    Column(f"{what} {level}") for what in ("Read", "Update") for level in ("p50", "p95", "p99")
)


def _backtest_table(latency: Latency, styles: ModelStyles) -> Table:
    rows = tuple(
        (
            Cell(styles.label(entry.model), css=f"model {styles[entry.model].css}"),
            *_percentile_cells(entry.read_us),
            *_percentile_cells(entry.update_us),
            Cell(formatting.count(entry.n)),
        )
        for entry in sorted(latency.backtest, key=lambda e: styles.rank(e.model))
    )
    heads = (Column("Model", numeric=False), *_PERCENTILE_COLUMNS, Column("Timed"))
    return Table("Latency while the test forecasts were made, whole live calls (streaming path)", heads, rows)


def _twins_table(latency: Latency, styles: ModelStyles) -> Table | None:
    """Compare the medians of the twins: the whole live call, and the network's step in it."""
    live = {entry.model: entry for entry in latency.backtest if entry.model in _TWINS}
    rows = []
    if len(live) == len(_TWINS):
        rows += _twin_rows([live[name] for name in _TWINS], "whole live call in the backtest")
    lengths = {name: {p.history: p for p in latency.curve if p.model == name} for name in _TWINS}
    shared = set.intersection(*(set(points) for points in lengths.values()))
    if shared:
        longest = max(shared)
        where = f"network alone at {formatting.count(longest)} events"
        rows += _twin_rows([lengths[name][longest] for name in _TWINS], where)
    if not rows:
        return None
    heads = (
        Column("Median of", numeric=False),
        *(Column(styles.label(name)) for name in _TWINS),
        Column("Softmax ÷ linear"),
    )
    return Table(
        "The twins side by side: the whole live call, and the network's step in it", heads, tuple(rows)
    )


def _twin_rows(points: Sequence[BacktestLatency | LatencyPoint], where: str) -> list[tuple[Cell, ...]]:
    rows = []
    for what, (linear, softmax) in (
        ("Read", [point.read_us.p50 for point in points]),
        ("Update", [point.update_us.p50 for point in points]),
    ):
        if linear is None and softmax is None:
            continue
        times = formatting.MISSING
        if linear and softmax:
            times = f"{formatting.significant(softmax / linear, 2)}×"
        cells = (Cell(formatting.microseconds(value)) for value in (linear, softmax))
        rows.append((Cell(what, where), *cells, Cell(times)))
    return rows


def _curve_table(latency: Latency, styles: ModelStyles) -> Table:
    rows = tuple(
        (
            Cell(styles.label(point.model), css=f"model {styles[point.model].css}"),
            Cell(formatting.count(point.history)),
            *_percentile_cells(point.read_us),
            *_percentile_cells(point.update_us),
            Cell(formatting.microseconds(None if point.cold_start_ms is None else 1e3 * point.cold_start_ms)),
            Cell(formatting.byte_size(point.state_bytes)),
        )
        for point in sorted(latency.curve, key=lambda p: (styles.rank(p.model), p.history))
    )
    heads = (
        Column("Model", numeric=False),
        Column("History"),
        *_PERCENTILE_COLUMNS,
        Column("Cold start"),
        Column("State"),
    )
    return Table(
        "Latency of the network alone, cold start and state size by history length (events)", heads, rows
    )


def _training_table(latency: Latency, styles: ModelStyles) -> Table:
    by_model: dict[str, list[TrainingRun]] = {}
    for entry in latency.training:
        by_model.setdefault(entry.model, []).append(entry)
    rows = []
    for name in sorted(by_model, key=styles.rank):
        entries = by_model[name]
        known = [e.seconds for e in entries if e.seconds is not None]
        speeds = [e.tokens_per_second for e in entries if e.tokens_per_second is not None]
        epochs = [e.epochs for e in entries if e.epochs is not None]
        rows.append(
            (
                Cell(styles.label(name), css=f"model {styles[name].css}"),
                Cell(formatting.seconds(sum(known) if known else None)),
                Cell(formatting.seconds(median(known) if known else None)),
                Cell(formatting.significant(median(epochs) if epochs else None)),
                Cell(formatting.significant(median(speeds) if speeds else None)),
                Cell(formatting.count(len(entries))),
            )
        )
    heads = (
        Column("Model", numeric=False),
        Column("Total time"),
        Column("Median per fit"),
        Column("Median epochs"),
        Column("Median tokens per second"),
        Column("Fits"),
    )
    return Table("Training time over all folds and seeds", heads, tuple(rows))
