"""Causal linear attention: the public face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from quantattn.attention.backends import Visibility
from quantattn.attention.clock import check_clocks
from quantattn.attention.continuation import check_continuation
from quantattn.attention.denominator import Denominator, RaiseDenominator, check_policy
from quantattn.attention.drift import drift_of
from quantattn.attention.features import FeatureMap, resolve_feature_map
from quantattn.attention.fingerprint import state_fingerprint
from quantattn.attention.health import AttentionHealth
from quantattn.attention.ragged import Segment, each_sequence, segments
from quantattn.attention.reading import Reading, Request, read, spoil
from quantattn.attention.state import AttentionState
from quantattn.attention.state_checks import check_entities, check_rows, check_state
from quantattn.attention.state_fields import entity_names
from quantattn.attention.validation import (
    check_counts,
    check_decay,
    check_inputs,
    check_mask,
    check_visibility,
)
from quantattn.errors import ShapeError

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
    cu_seqlens: Tensor | None = None,
    query_cu_seqlens: Tensor | None = None,
    key_times: Tensor | None = None,
    read_times: Tensor | None = None,
    entities: str | Sequence[str] | None = None,
    measure_drift: bool = False,
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
        Map to features of nonnegative similarity, by name or as an object; see
        :func:`~quantattn.attention.build_feature_map` and :func:`~quantattn.attention.register_feature_map`.
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
    backend : {"auto", "quadratic", "recurrent", "chunked", "fused"}, default "auto"
        ``"auto"`` picks and says in the health what it picked: ``"fused"`` for float32 on a CPU,
        ``"quadratic"`` for at most 256 pairs without a state, ``"chunked"`` otherwise. A named backend never
        falls back. ``"fused"`` and ``"recurrent"`` give the same bits however a history is cut; the others
        differ by rounding.
    cu_seqlens : Tensor, optional
        ``(N + 1,)`` integers from 0 to ``T``, never falling: N sequences lie end to end in a batch of one,
        the n-th in rows ``cu_seqlens[n]`` to ``cu_seqlens[n + 1]``. Each is read by itself, bit for bit as in
        a call of its own; states have N rows, counts and entities belong to each sequence. Padded sequences
        with a `key_mask` are the other way to have lengths that differ.
    query_cu_seqlens : Tensor, optional
        ``(N + 1,)``: the same for the queries, needed where `visible_counts` is given.
    key_times : Tensor, optional
        ``(B, T)`` int64 instants of the keys in one unit, sorted: checked, against the state's clock too, and
        carried on in the returned state. See :func:`~quantattn.attention.elapsed_decay` for decay from them;
        of a continued state it is ``elapsed_decay(..., since=state)``.
    read_times : Tensor, optional
        ``(B, Tq)`` int64 instants of the reads. A read must lie after all that it sees, or at the instant of
        its own key where it is inclusive.
    entities : str or sequence of str, optional
        Whose history each row of the batch is. Carried on in the returned state; a state of another is
        refused.
    measure_drift : bool, default False
        Whether to compute the read once more in float64, for ``health.drift``.

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
        For a state of another entity, map, policy or shape.
    ClockError
        For times that are not sorted, keys before the state's clock, or reads that are not after what they
        see.
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
    check_policy(denominator)
    if not isinstance(chunk_size, int) or isinstance(chunk_size, bool) or chunk_size < 1:
        raise ShapeError(f"chunk_size: expected a positive integer, got {chunk_size!r}.")
    check_visibility(visibility)
    if cu_seqlens is not None or query_cu_seqlens is not None:
        return _read_packed(
            cu_seqlens,
            query_cu_seqlens,
            tensors={
                "query": query,
                "key": key,
                "value": value,
                "visible_counts": visible_counts,
                "key_mask": key_mask,
                "log_decay": log_decay,
                "read_log_decay": read_log_decay,
                "key_times": key_times,
                "read_times": read_times,
            },
            initial_state=initial_state,
            entities=entities,
            feature_map=resolve_feature_map(feature_map),
            visibility=visibility,
            return_state=return_state,
            denominator=denominator,
            chunk_size=chunk_size,
            backend=backend,
            measure_drift=measure_drift,
        )
    check_inputs(query, key, value, same_length=visible_counts is None)
    counts = check_counts(visible_counts, query, key.shape[2])
    mask = check_mask(key_mask, key)
    decay = check_decay(log_decay, "log_decay", key)
    read_decay = check_decay(read_log_decay, "read_log_decay", query)
    map_ = resolve_feature_map(feature_map)
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    with torch.autocast(query.device.type, enabled=False):
        stateful = return_state or initial_state is not None
        fingerprint = state_fingerprint(map_, denominator) if stateful else ""
        names = None if entities is None else entity_names(entities, key.shape[0])
        start = None
        if initial_state is not None:
            start = _start(initial_state, key, value, map_, fingerprint, names)
        as_of = None
        if key_times is not None or read_times is not None:
            as_of = check_clocks(
                key_times,
                read_times,
                key=key,
                query=query,
                counts=counts,
                mask=mask,
                visibility=visibility,
                as_of=None if initial_state is None else initial_state.as_of,
            )
        if initial_state is not None:
            check_continuation(
                initial_state,
                keys=key.shape[2],
                reads=query.shape[2],
                key_times=key_times,
                read_times=read_times,
                log_decay=decay,
                mask=mask,
            )
        request = Request(
            query=query.to(dtype),
            key=key.to(dtype),
            value=value.to(dtype),
            feature_map=map_,
            visibility=visibility,
            counts=counts,
            mask=mask,
            log_decay=decay,
            state=start,
            pending=None if initial_state is None else initial_state.pending,
            want_state=return_state,
            chunk_size=chunk_size,
        )
        name, reading = read(backend, request, denominator)
        scale = None
        if not isinstance(denominator, RaiseDenominator):
            # In a plain ratio the time up to the read cancels: applying it could only cost digits.
            scale = _sum(reading.since, read_decay)
        output, denominators = reading.divided(scale, denominator)
        state = None
        if return_state:
            state = _finish(initial_state, key, mask, reading, fingerprint)
            if key_times is not None:
                state = replace(state, as_of=as_of)
            if names is not None:
                state = replace(state, entities=names)
    output = output.to(query.dtype)
    drift = None
    if measure_drift:
        drift = drift_of(
            linear_attention,
            output,
            (query, key, value),
            map_,
            initial_state,
            visibility=visibility,
            visible_counts=counts,
            key_mask=mask,
            log_decay=decay,
            read_log_decay=read_decay,
            denominator=denominator,
            chunk_size=chunk_size,
        )
    return LinearAttentionOutput(
        output, state, AttentionHealth(name, map_.name, denominator, denominators, drift)
    )


def _read_packed(
    cu_seqlens: Tensor | None,
    query_cu_seqlens: Tensor | None,
    *,
    tensors: dict[str, Any],
    initial_state: AttentionState | None,
    entities: str | Sequence[str] | None,
    **options: Any,
) -> LinearAttentionOutput:
    """Read sequences laid end to end, each by itself."""
    query, key, value = tensors["query"], tensors["key"], tensors["value"]
    counted = tensors["visible_counts"] is not None
    check_inputs(query, key, value, same_length=False)
    if cu_seqlens is None:
        raise ShapeError("cu_seqlens: is needed beside query_cu_seqlens, for the sequences of keys.")
    parts = segments(cu_seqlens, query_cu_seqlens, query, key, counted=counted)
    names = None if entities is None else entity_names(entities, len(parts))
    if initial_state is not None:
        check_rows(initial_state, len(parts))

    def own(part: Segment) -> dict[str, Any]:
        return {
            "initial_state": None if initial_state is None else initial_state.row(part.place),
            "entities": None if names is None else names[part.place],
            **options,
        }

    whole = query.shape[2], key.shape[2]
    results: list[LinearAttentionOutput] = each_sequence(linear_attention, parts, tensors, whole, own)
    states = [result.state for result in results if result.state is not None]
    return LinearAttentionOutput(
        torch.cat([result.output for result in results], 2),
        AttentionState.stack(states) if states else None,
        AttentionHealth.merge([result.health for result in results]),
    )


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _start(
    state: AttentionState,
    key: Tensor,
    value: Tensor,
    feature_map: FeatureMap,
    fingerprint: str,
    names: tuple[str, ...] | None,
) -> Tensor:
    """Return a checked initial state as one tensor ``(B, H, r, d_v + 1)``."""
    batch, heads, _, width = key.shape
    check_state(
        state,
        batch=batch,
        heads=heads,
        features=feature_map.width(width),
        values=value.shape[-1],
        fingerprint=fingerprint,
        dtype=torch.float64 if key.dtype == torch.float64 else torch.float32,
        device=key.device,
    )
    check_entities(state, names)
    return torch.cat([state.S, state.z[..., None]], -1)


def _finish(
    before: AttentionState | None, key: Tensor, mask: Tensor | None, reading: Reading, fingerprint: str
) -> AttentionState:
    """Return the state after the last key."""
    assert reading.state is not None
    final = spoil(reading.state, reading.spoilt)
    batch, _, length, _ = key.shape
    if mask is None:
        count = torch.full((batch,), length, dtype=torch.int64, device=final.device)
    else:
        count = mask.sum(-1)
    return AttentionState(
        S=final[..., :-1],
        z=final[..., -1],
        count=count if before is None else before.count + count,
        pending=reading.pending,
        fingerprint=fingerprint,
        as_of=None if before is None else before.as_of,
        entities=None if before is None else before.entities,
    )
