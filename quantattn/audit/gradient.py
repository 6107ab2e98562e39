"""The gradient check: does a forecast depend, however little, on anything later in its sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quantattn.audit.result import CheckResult
from quantattn.forecasters import AttentionNetwork, EntityTokens, FittedForecaster, TokenBatch, merge

NAME = "gradient"
TITLE = "Is the gradient of a forecast to every later token exactly zero?"


def _excerpt(tokens: EntityTokens, events: int, forecasts: int) -> EntityTokens | None:
    """Take a stretch of at most `events` events around the entity's last forecasts."""
    last = int(tokens.counts[-1]) if len(tokens.counts) else 0
    first = max(0, last - events)
    inside = np.flatnonzero(tokens.counts > first)[-forecasts:]
    if not len(inside) or last <= first:
        return None
    return EntityTokens(
        entity=tokens.entity,
        events=tokens.events[first:last],
        event_times=tokens.event_times[first:last],
        queries=tokens.queries[inside],
        query_times=tokens.query_times[inside],
        counts=tokens.counts[inside] - first,
        rows=tokens.rows[inside],
    )


def _largest(*pieces: Tensor | None) -> float:
    """Give the largest absolute value; NaN if there is one, 0 for nothing."""
    given = [piece.abs().max() for piece in pieces if piece is not None and piece.numel()]
    # Python's max loses a NaN that does not come first.
    return float(torch.stack(given).max()) if given else 0.0


def later_gradient(network: AttentionNetwork, batch: TokenBatch, query: int) -> tuple[float, float]:
    """Give the largest gradient of one forecast to what comes after it and to what it may read.

    Parameters
    ----------
    network : AttentionNetwork
        In float64.
    batch : TokenBatch
        One sequence, in float64.
    query : int
        Which of its queries.

    Returns
    -------
    later, earlier : float
        Largest absolute gradients to event tokens and decays behind the query and to all other query
        tokens, and to event tokens before it.
    """
    events = batch.events.clone().requires_grad_(True)
    queries = batch.queries.clone().requires_grad_(True)
    decay = batch.log_decay.clone().requires_grad_(True)
    output = network(replace(batch, events=events, queries=queries, log_decay=decay))
    to_events, to_queries, to_decay = torch.autograd.grad(
        output[0, query], (events, queries, decay), allow_unused=True
    )
    at = int(batch.query_positions[0, query])
    others = torch.arange(queries.shape[1]) != query
    later = _largest(
        None if to_events is None else to_events[0, at + 1 :],
        None if to_queries is None else to_queries[0, others],
        None if to_decay is None else to_decay[0, :, at + 1 :],
    )
    return later, _largest(None if to_events is None else to_events[0, :at])


def _misplaced(tokens: EntityTokens, batch: TokenBatch) -> int:
    """Count the queries that stand behind another number of events than are earlier than they are."""
    earlier = [int((tokens.event_times < at).sum()) for at in tokens.query_times]
    # The start token writes too, and is no event.
    before = [int(batch.writes[0, :at].sum()) - 1 for at in batch.query_positions[0].tolist()]
    return sum(one != other for one, other in zip(earlier, before, strict=True))


def check_gradient(
    forecasters: Mapping[tuple[int, str, int], FittedForecaster],
    tokens: Mapping[int, Mapping[str, EntityTokens]],
    *,
    events: int = 400,
    forecasts: int = 12,
    probed: int = 3,
) -> CheckResult:
    """Differentiate forecasts of every stored network, in float64, with respect to all tokens.

    Parameters
    ----------
    forecasters : mapping of (fold, model, seed) to FittedForecaster
        As stored in the run directory.
    tokens : mapping of int to mapping of str to EntityTokens
        Test sequences by fold and entity.
    events, forecasts : int
        Length of the stretch that is differentiated, and its forecasts.
    probed : int
        Forecasts differentiated in each stretch, spread over it; the last is left out, since nothing
        comes after it.

    Returns
    -------
    CheckResult
        FAIL unless every gradient to a later token is exactly zero and every forecast stands behind exactly
        the events that are earlier than it is. NOT EXERCISED if a forecast does not depend on earlier
        events either, without which the test has no power.
    """
    worst, weakest, probes, stretches, misplaced = 0.0, float("inf"), 0, 0, 0
    where = ""
    for place, ((index, model, seed), forecaster) in enumerate(sorted(forecasters.items())):
        available = sorted(tokens.get(index, {}))
        if not available:
            continue
        excerpt = _excerpt(tokens[index][available[place % len(available)]], events, forecasts)
        if excerpt is None or len(excerpt.rows) < 2:
            continue
        network = _in_float64(forecaster.network)
        batch = merge([excerpt], network.config.half_lives).to(torch.float64)
        stretches += 1
        here = f"fold {index} {model} seed {seed} {excerpt.entity}"
        astray = _misplaced(excerpt, batch)
        misplaced += astray
        where = where or (here if astray else "")
        for query in np.unique(np.linspace(0, len(excerpt.rows) - 2, probed).astype(int)).tolist():
            later, earlier = later_gradient(network, batch, query)
            probes += 1
            weakest = min(weakest, earlier) if np.isfinite(earlier) else float("-inf")
            # A gradient that is not a number is not zero either, and nothing is larger.
            if np.isfinite(worst) and not later <= worst:
                worst, where = later, here
    if not probes:
        return CheckResult(
            NAME, TITLE, "NOT EXERCISED", "No stored network has test forecasts to differentiate."
        )
    evidence: dict[str, Any] = {
        "forecasts differentiated": probes,
        "largest gradient to a later token": worst if np.isfinite(worst) else "not finite",
        "smallest of the largest gradients to an earlier token": (
            weakest if np.isfinite(weakest) else "not finite"
        ),
        "forecasts that stand behind a later event": misplaced,
        "events in a stretch": events,
    }
    coverage = {"networks": stretches / len(forecasters)}
    if worst != 0.0 or misplaced:
        evidence["where"] = where
        summary = (
            f"A forecast depends on a later token ({where}, {worst:.3g})."
            if worst != 0.0
            else f"{misplaced} forecasts stand behind other events than they may read ({where})."
        )
        return CheckResult(NAME, TITLE, "FAIL", summary, coverage, evidence)
    if not weakest > 0.0:
        summary = (
            "A forecast has no finite gradient to earlier events either, so its independence of later ones "
            "shows nothing."
        )
        return CheckResult(NAME, TITLE, "NOT EXERCISED", summary, coverage, evidence)
    summary = (
        f"{probes} forecasts of {stretches} networks, differentiated in float64: every gradient to a later "
        f"token is exactly zero, while that to the strongest earlier event is at least {weakest:.2g}."
    )
    return CheckResult(NAME, TITLE, "PASS", summary, coverage, evidence)


def _in_float64(network: AttentionNetwork) -> AttentionNetwork:
    twin = AttentionNetwork(network.config, network.event_width, network.query_width)
    twin.load_state_dict(network.state_dict())
    return twin.double().eval()
