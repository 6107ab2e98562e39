"""Causal linear attention: the public face."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from quantattn.attention.backends import Problem, Visibility, resolve_backend
from quantattn.attention.denominator import Denominator, RaiseDenominator
from quantattn.attention.features import FeatureMap, resolve_feature_map
from quantattn.attention.finite import emptied, looks_finite, nonfinite_rows, reached
from quantattn.attention.health import AttentionHealth
from quantattn.attention.ratio import divide
from quantattn.attention.state import AttentionState, check_state, state_fingerprint
from quantattn.attention.validation import (
    check_counts,
    check_decay,
    check_inputs,
    check_mask,
    check_visibility,
)
from quantattn.errors import DenominatorError, FeatureMapError, ShapeError

_RAISE = Denominator.raise_()


class LinearAttentionOutput(NamedTuple):
    """What :func:`linear_attention` returns."""

    output: Tensor
    """``(B, H, Tq, d_v)``, in the dtype of the inputs."""
    state: AttentionState | None
    """State after the last key; None unless ``return_state=True``."""
    health: AttentionHealth
    """Condition of the denominators, the policy in force, and the backend that ran."""


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    feature_map: str | FeatureMap = "elu1",
    visibility: Visibility = "inclusive",
    visible_counts: Tensor | None = None,
    key_mask: Tensor | None = None,
    log_decay: Tensor | None = None,
    read_log_decay: Tensor | None = None,
    initial_state: AttentionState | None = None,
    return_state: bool = False,
    denominator: Denominator = _RAISE,
    chunk_size: int = 64,
    backend: str = "auto",
) -> LinearAttentionOutput:
    r"""Read a growing history with similarities that factor into features.

    Layout is ``(batch, heads, length, width)``. Key j is written into the state after the state has
    decayed by ``exp(log_decay[j])``; query i then reads the state after key i (``"inclusive"``), before it
    (``"strict"``), or after the first ``visible_counts[i]`` keys:

    .. math:: y_i = \frac{\sum_j s_{ij} v_j}{\sum_j s_{ij}}, \qquad
              s_{ij} = \phi(q_i) \cdot \phi(k_j) \, e^{\text{log decay from } j \text{ to } i}

    The state is kept in float64 for float64 inputs and in float32 for any other; autocast is off inside.
    Gradients flow to query, key, value, both decays, the initial state and a prior's tensors.

    Parameters
    ----------
    query : Tensor
        ``(B, H, Tq, d)``; ``Tq`` may differ from ``T`` only where `visible_counts` is given.
    key : Tensor
        ``(B, H, T, d)``.
    value : Tensor
        ``(B, H, T, d_v)``.
    feature_map : str or FeatureMap, default "elu1"
        Map to nonnegative features, by name or as an object; see
        :func:`~quantattn.attention.register_feature_map`.
    visibility : {"inclusive", "strict"}, default "inclusive"
        Whether query i sees key i. Ignored where `visible_counts` is given.
    visible_counts : Tensor, optional
        ``(B, Tq)`` integers from 0 to ``T``, in any order: query i reads the first ``visible_counts[i]``
        keys.
    key_mask : Tensor, optional
        ``(B, T)`` bool, True where the key counts. A masked key writes nothing and may hold anything,
        NaN included; the time that its `log_decay` spans still passes.
    log_decay : Tensor, optional
        ``(B, H, T)``, at most zero, axes of size one are expanded: log of the factor that multiplies the
        state just before key j is written. From elapsed time t and half-life h: ``-log(2) * t / h``.
    read_log_decay : Tensor, optional
        ``(B, H, Tq)``, at most zero: log decay from the last visible key to the read. It cancels in the
        ratio and so matters under ``prior`` and ``floor`` alone.
    initial_state : AttentionState, optional
        State before the first key, from an earlier call with the same map and policy.
    return_state : bool, default False
        Whether to return the state after the last key.
    denominator : Denominator, default ``Denominator.raise_()``
        Policy for small and empty denominators; part of the model.
    chunk_size : int, default 64
        Rows in a chunk of the ``"chunked"`` backend.
    backend : {"auto", "quadratic", "recurrent", "chunked"}, default "auto"
        ``"auto"`` picks by shape and says in the health what it picked; a named backend never falls back.

    Returns
    -------
    LinearAttentionOutput
        Output, state and health.

    Raises
    ------
    ShapeError
        For a wrong rank, width, length or dtype, counts beyond the keys, or a positive decay.
    FeatureMapError
        For an unknown map, or negative features.
    DenominatorError
        Under ``raise_()``, where a denominator is zero, negative or not finite. Under the other policies a
        read that meets a NaN or infinite input is NaN, and the health counts it.
    StateError
        For a state of another map, policy or shape.
    BackendError
        For an unknown backend.

    Examples
    --------
    >>> import torch
    >>> from quantattn.attention import linear_attention
    >>> query = torch.tensor([[[[2.0, 1.0]]]])
    >>> key = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    >>> value = torch.tensor([[[[2.0], [4.0]]]])
    >>> seen = torch.tensor([[2]])
    >>> linear_attention(query, key, value, feature_map="identity", visible_counts=seen).output
    tensor([[[[2.6667]]]])
    """
    if not isinstance(denominator, Denominator):
        raise DenominatorError(
            f"denominator: expected a Denominator, got {type(denominator).__name__}; "
            "use Denominator.raise_(), .floor() or .prior()."
        )
    if not isinstance(chunk_size, int) or isinstance(chunk_size, bool) or chunk_size < 1:
        raise ShapeError(f"chunk_size: expected a positive integer, got {chunk_size!r}.")
    check_visibility(visibility)
    check_inputs(query, key, value, same_length=visible_counts is None)
    counts = check_counts(visible_counts, query, key.shape[2])
    mask = check_mask(key_mask, key)
    decay = check_decay(log_decay, "log_decay", key)
    read_decay = check_decay(read_log_decay, "read_log_decay", query)
    map_ = resolve_feature_map(feature_map)
    name, solve = resolve_backend(backend, reads=query.shape[2], keys=key.shape[2])
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    with torch.autocast(query.device.type, enabled=False):
        prepared = _prepare(query.to(dtype), key.to(dtype), value.to(dtype), mask, map_)
        stateful = return_state or initial_state is not None
        fingerprint = state_fingerprint(map_, denominator) if stateful else ""
        start = pending = None
        if initial_state is not None:
            check_state(
                initial_state,
                batch=query.shape[0],
                heads=query.shape[1],
                features=prepared.key.shape[-1],
                values=value.shape[-1],
                fingerprint=fingerprint,
            )
            start = torch.cat([initial_state.S, initial_state.z[..., None]], -1).to(dtype)
            pending = initial_state.pending
        problem = Problem(
            query=prepared.query,
            key=prepared.key,
            value=prepared.value,
            visibility=visibility,
            counts=counts,
            key_mask=mask,
            log_decay=decay,
            state=start,
            pending=pending,
            chunk_size=chunk_size,
            want_state=return_state,
        )
        solution = solve(problem)
        read = solution.read
        if prepared.poisoned is not None:
            lost = reached(prepared.poisoned.keys, counts, visibility) | prepared.poisoned.queries
            read = torch.where(lost[..., None], torch.nan, read)
        scale = None
        if not isinstance(denominator, RaiseDenominator):
            scale = read_decay
            if solution.since is not None:
                scale = solution.since if scale is None else scale + solution.since
        output, denominators = divide(read, scale, denominator)
        state = None
        if return_state:
            assert solution.state is not None
            final = solution.state
            if prepared.poisoned is not None:
                lost = prepared.poisoned.keys.any(-1)[..., None, None]
                final = torch.where(lost, torch.nan, final)
            written = mask.sum(-1) if mask is not None else torch.full_like(_first(query), key.shape[2])
            before = 0 if initial_state is None else initial_state.count
            state = AttentionState(
                S=final[..., :-1],
                z=final[..., -1],
                count=before + written,
                pending=solution.pending,
                fingerprint=fingerprint,
                as_of=None if initial_state is None else initial_state.as_of,
            )
    health = AttentionHealth(name, map_.name, denominator, denominators)
    return LinearAttentionOutput(output.to(query.dtype), state, health)


def _first(query: Tensor) -> Tensor:
    return torch.zeros(query.shape[0], dtype=torch.int64, device=query.device)


class _Poison(NamedTuple):
    """Rows that hold something non-finite."""

    queries: Tensor
    """``(B, H, Tq)`` bool."""
    keys: Tensor
    """``(B, H, T)`` bool; never True for a masked key."""


class _Prepared(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    poisoned: _Poison | None


def _prepare(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, feature_map: FeatureMap
) -> _Prepared:
    """Map to features, zero those of masked keys, append the column of ones.

    A non-finite row must reach the reads that see it and nothing else, forward and backward, whereas
    zero times NaN is NaN in a matrix product. So such rows are emptied before and after the map and marked;
    the reads that see one are made NaN afterwards.
    """
    poisoned = None
    if not looks_finite(query, key, value):
        bad_query, bad_key = nonfinite_rows(query), nonfinite_rows(key, value)
        query, key, value = emptied(query, bad_query), emptied(key, bad_key), emptied(value, bad_key)
        poisoned = _Poison(bad_query, bad_key)
    query_features = _features(feature_map, query, "query")
    key_features = _features(feature_map, key, "key", mask)
    if not (feature_map.stays_finite or looks_finite(query_features, key_features)):
        bad_query, bad_key = nonfinite_rows(query_features), nonfinite_rows(key_features)
        query_features, key_features = emptied(query_features, bad_query), emptied(key_features, bad_key)
        if poisoned is not None:
            bad_query, bad_key = bad_query | poisoned.queries, bad_key | poisoned.keys
        poisoned = _Poison(bad_query, bad_key)
    if poisoned is not None:
        if mask is not None:
            poisoned = _Poison(poisoned.queries, poisoned.keys & mask[:, None])
        # The map may turn an emptied key into something: elu+1 of zero is one.
        key_features = emptied(key_features, poisoned.keys)
    return _Prepared(query_features, key_features, pad(value, (0, 1), value=1.0), poisoned)


def _features(feature_map: FeatureMap, x: Tensor, argument: str, mask: Tensor | None = None) -> Tensor:
    features = feature_map(x)
    expected = (*x.shape[:-1], feature_map.width(x.shape[-1]))
    if tuple(features.shape) != expected:
        raise FeatureMapError(
            f"feature_map: {feature_map.name!r} made shape {tuple(features.shape)} of {argument} "
            f"{tuple(x.shape)}, but its width() announces {expected}."
        )
    if mask is not None:
        features = features * mask[:, None, :, None].to(features.dtype)
    if not feature_map.positive and features.numel() and bool((features.detach() < 0).any()):
        batch, head, row, column = (features.detach() < 0).nonzero()[0].tolist()
        raise FeatureMapError(
            f"{argument}: feature map {feature_map.name!r} gave "
            f"{float(features[batch, head, row, column]):g} at batch {batch}, head {head}, position {row}; "
            "similarities must be nonnegative. "
            "Make the input nonnegative, or use a map such as 'elu1'."
        )
    return features
