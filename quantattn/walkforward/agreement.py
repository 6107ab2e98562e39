"""Do the two paths agree: the streaming forecasts beside those of the batch path, and what rounding explains.

The streaming path is what runs live; the batch path is what trains. They compute the same function by other
programs, so that an event lost, seen twice or too early, or a decay left out by one of them shows as a
difference. All that may differ is rounding.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from quantattn.errors import ForecasterError
from quantattn.forecasters.batches import merge
from quantattn.forecasters.fitted import FittedForecaster
from quantattn.forecasters.memory import Memory
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.passes import forecast_outputs
from quantattn.forecasters.tokens import EntityTokens
from quantattn.walkforward.fold import Rows

Floats = npt.NDArray[np.float64]

BLOCK: Final = 256
"""The batch path adds up at most so many terms before it adds their sum to the one that it carries."""

ORDER: Final = 1 + math.sqrt(BLOCK)
"""How much more the two paths may differ than the batch path rounds; see :attr:`Agreement.tolerance`."""

MOST: Final = 1e-3
"""No rounding explains more than a thousandth of the target's standard deviation."""

CHECKED: Final = 100
"""Rounding is measured in so many forecasts, if there are: of a few it may be small by luck."""

SEGMENT: Final = 16_384
"""Positions of a segment where training takes whole sequences: longer ones are cut to bound the memory."""

_ROUNDING = 2.0**-24  # of float32, to nearest


@dataclass(frozen=True)
class Agreement:
    """How far the forecasts of the batch path lie from those of the streaming path, for one network.

    Differences are in units of the scaled target: one is a standard deviation of the training targets.

    Parameters
    ----------
    forecasts : int
        Forecasts that were compared.
    largest : float
        The largest absolute difference; infinite where either is not a number.
    entity : str
        Of the forecast that differs most.
    forecast_time : int
        Likewise, nanoseconds since the epoch, UTC.
    rounding : float
        The largest absolute difference between the batch path in float32 and in float64, over the longest of
        the sequences.
    checked : int
        Forecasts in which that was measured.
    tokens : int
        Length of the longest sequence: events and forecasts.
    size : float
        The largest absolute forecast in float64, or one if that is more.
    """

    forecasts: int
    largest: float
    entity: str
    forecast_time: int
    rounding: float
    checked: int
    tokens: int
    size: float

    @property
    def tolerance(self) -> float:
        r"""The largest difference that rounding explains.

        Rounding errors of a sum behave as random steps, so they grow with the square root of the number of
        additions (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis", SIAM J.
        Sci. Comput. 41). The batch path adds up blocks of at most *b* terms and then the blocks, so that an
        error passes through about *n/b* additions; the streaming path adds *n* terms one by one, and its
        error is up to :math:`\sqrt b` times as large; between them lie, then, :math:`1 + \sqrt b` times the
        batch path's own. That one is measured against float64, for no formula knows how a trained network
        enlarges it, and the stream has no part in the measurement. It counts as at least the rounding of the
        largest forecast to float32, which both paths end with; and more than :data:`MOST` is never put down
        to rounding.
        """
        return min(ORDER * max(self.rounding, _ROUNDING * self.size), MOST)

    @property
    def within(self) -> bool:
        """Whether rounding explains the largest difference."""
        return self.largest <= self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """Give the comparison and the tolerance as JSON values; what is not finite becomes null."""
        values = {**asdict(self), "tolerance": self.tolerance}
        return {name: _json(value) for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Agreement:
        """Read what :meth:`to_dict` gave.

        Raises
        ------
        KeyError, TypeError, ValueError
            If something is missing or of another kind.
        """
        return cls(
            int(values["forecasts"]),
            _number(values["largest"]),
            str(values["entity"]),
            int(values["forecast_time"]),
            _number(values["rounding"]),
            int(values["checked"]),
            int(values["tokens"]),
            _number(values["size"]),
        )


def _json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> float:
    return math.inf if value is None else float(value)


def compare_paths(
    forecaster: FittedForecaster,
    sequences: Iterable[EntityTokens],
    asked: Rows,
    streamed: Floats,
    *,
    batch_entities: int,
    segment_tokens: int | None = None,
) -> Agreement:
    """Forecast by the batch path what was forecast by the streaming path, and say how far apart they are.

    Parameters
    ----------
    forecaster : FittedForecaster
        What made the forecasts; its network gives one number for each.
    sequences : iterable of EntityTokens
        Whole sequences, with more forecasts than those to compare.
    asked : ndarray of int64, shape (m,)
        Rows of the samples frame to compare, rising; at least one.
    streamed : ndarray of float64, shape (m,)
        Forecasts of the streaming path in units of the target, by these rows.
    batch_entities : int
        Sequences per pass.
    segment_tokens : int, optional
        Positions of a segment; :data:`SEGMENT` by default.

    Returns
    -------
    Agreement

    Raises
    ------
    ForecasterError
        If a row has no token sequence.

    Notes
    -----
    Rounding is measured in the longest sequences, which round most: in so many as hold :data:`CHECKED`
    forecasts, those before the rows to compare included.
    """
    segment = segment_tokens or SEGMENT
    pairs = [(tokens, part) for tokens in sequences if len((part := tokens.select(asked)).rows)]
    own = [part for _, part in pairs]
    rows, raw = forecast_outputs(forecaster.network, own, batch_entities, segment)
    if not np.array_equal(rows, asked):
        missing = np.setdiff1d(asked, rows)[:3].tolist()
        raise ForecasterError(
            f"{len(asked)} rows were streamed and {len(rows)} have a token sequence, missing {missing}; read "
            "the history of every entity that has test rows"
        )
    apart = np.abs(raw[:, 0] - forecaster.target.apply(streamed))
    apart[np.isnan(apart)] = np.inf
    worst = int(np.argmax(apart))
    entity, at = _query_of(own, int(rows[worst]))
    rounding, size, checked = 0.0, 1.0, 0
    for tokens, part in sorted(pairs, key=lambda pair: -_length(pair[1])):
        if checked >= CHECKED:
            break
        until = tokens.select(tokens.rows[tokens.query_times <= part.query_times[-1]])
        low = forecast_outputs(forecaster.network, [until], 1, segment)[1][:, 0]
        exact = _exact_outputs(forecaster.network, until, segment)
        rounding = max(rounding, float(np.abs(low - exact).max()))
        size = max(size, float(np.abs(exact).max()))
        checked += len(exact)
    return Agreement(
        forecasts=len(rows),
        largest=float(apart[worst]),
        entity=entity,
        forecast_time=at,
        rounding=rounding,
        checked=checked,
        tokens=max(_length(part) for part in own),
        size=size,
    )


def _length(tokens: EntityTokens) -> int:
    return len(tokens.events) + len(tokens.queries)


def _query_of(sequences: Sequence[EntityTokens], row: int) -> tuple[str, int]:
    for tokens in sequences:
        found = np.flatnonzero(tokens.rows == row)
        if len(found):
            return tokens.entity, int(tokens.query_times[found[0]])
    raise AssertionError(f"row {row} is not among the sequences")  # it was forecast from one of them


def _exact_outputs(network: AttentionNetwork, tokens: EntityTokens, segment: int) -> Floats:
    """Give the first raw number at every query of one sequence, from the batch path in float64."""
    exact = copy.deepcopy(network).double().eval()
    batch = merge([tokens], network.config.half_lives).to(torch.float64)
    found: list[Floats] = []
    with torch.inference_mode():
        memory: Memory | None = None
        for part in batch.segments(segment):
            raw, memory = exact.advance(part, memory)
            found.append(raw[part.query_mask][:, 0].numpy())
    return np.concatenate(found)
