"""A plan as tables for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from quantattn.study.plan import ESTIMATE, FoldPlan, StudyPlan
from quantattn.study.progress import spoken_seconds

_WIDTH = 100


def plan_text(plan: StudyPlan) -> str:
    """Give a plan as readable text: folds, models, and what it will take.

    Parameters
    ----------
    plan : StudyPlan
        The plan.

    Returns
    -------
    str
        Several lines, without a line break at the end.
    """
    folds = [
        (
            str(fold.fold),
            fold.fit_time[:10],
            f"{fold.n_train:,}",
            f"{fold.n_validation:,}",
            f"{fold.n_test:,}",
            _purged(fold),
            f"{fold.tokens:,}",
            "" if fold.trained else "no",
        )
        for fold in plan.folds
    ]
    heads = ("fold", "fitted", "train", "validation", "test", "purged", "tokens", "trains")
    models = [
        (
            model.model,
            str(model.units),
            str(model.trainings),
            "not measured" if model.seconds is None else spoken_seconds(model.seconds),
        )
        for model in plan.models
    ]
    at_once = "one after the other" if plan.workers == 1 else f"{plan.workers} at once"
    threads = "1 thread" if plan.threads == 1 else f"{plan.threads} threads"
    memory = "" if plan.memory_gib is None else f", about {plan.memory_gib:.1f} GiB of memory"
    return "\n".join(
        [
            f"{plan.study}: {plan.n_samples:,} forecasts of {plan.n_entities} instruments, "
            f"{plan.n_events:,} events, {len(plan.folds)} folds, retrain {plan.retrain}",
            "",
            *_table(heads, folds),
            "",
            *_table(("model", "units", "trainings", "about"), models),
            "",
            f"{plan.n_units} units on engine {plan.engine}, {at_once} on {threads} each: "
            f"about {spoken_seconds(plan.seconds)}{memory}.",
            *textwrap.wrap(ESTIMATE, _WIDTH),
        ]
    )


def _purged(fold: FoldPlan) -> str:
    counts = ", ".join(f"{reason} {n:,}" for reason, n in fold.purged.items())
    return counts or "none"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns: the first to the left, the others to the right; a column that is empty goes."""
    full = [place for place in range(len(heads)) if any(row[place] for row in rows)]
    lines = [[heads[place] for place in full], *([row[place] for place in full] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(full))]
    return [
        "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
