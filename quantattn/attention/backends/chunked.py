"""Chunks of rows: matrix products inside a chunk, one state between chunks. Work grows as T + Tq.

Within a chunk the similarities are an explicit small matrix; what lies before it is read from the state
at the chunk's start (Katharopoulos et al., 2020; Hua et al., 2022; Yang et al., 2023). The gradient is
written by hand: it recomputes the small matrices instead of keeping them.

Exponents are differences between a row's and a key's log-decay coordinate, both taken from the chunk's
first row in float64, never factored into a growing and a shrinking part: no gap ahead can overflow
into, or cost a digit of, a row behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from quantattn.attention.backends.base import Clock, Problem, Solution, read_clock
from quantattn.attention.derivatives import first_order
from quantattn.attention.validation import MIN_LOG_DECAY

_SLAB = 128
"""Blocks multiplied at a time: their small matrices stay in the cache."""
_EXACT_ROWS = int(2**20 / -MIN_LOG_DECAY)
_QUERY_BLOCK = 32
"""Most queries in a block when reads are placed by visible counts."""


def read_chunked(problem: Problem) -> Solution:
    """Read chunk by chunk."""
    clock = read_clock(problem)
    batch, heads, length, width = problem.key.shape
    if problem.key.numel() == 0:
        return _unchanged(problem, clock)
    size = min(problem.chunk_size, length)
    count = -(-length // size)
    extra = count * size - length
    key = _rows(problem.key, extra)
    value = _rows(problem.value, extra)
    coordinate = tail = None
    if clock is not None:
        # Padding repeats the last coordinate: nothing is written there and no time passes.
        tail = clock.keys[..., -1:].expand(batch, heads, extra)
        coordinate = torch.cat([clock.keys, tail], -1).reshape(batch * heads, -1)
    state = None if problem.state is None else problem.state.reshape(batch * heads, width, -1)
    rows = None if clock is None else clock.rows
    if problem.counts is None:
        query = _rows(problem.query, extra)
        if rows is not None and tail is not None:
            # As late as the keys before them: the decay of a pair never exceeds one, though nobody reads it.
            rows = torch.cat([rows, tail], -1).reshape(-1, size)
        limit = 0 if problem.visibility == "inclusive" else -1
        read, final = _ChunkedRead.apply(  # type: ignore[no-untyped-call]
            query.reshape(-1, size, width), key, value, rows, coordinate, state, limit, None, count
        )
        read = read.reshape(batch, heads, count * size, -1)[:, :, :length]
    else:
        plan = _place(problem.counts, heads, size, count)
        blocks = plan.spread(problem.query)
        if rows is not None:
            rows = plan.spread(rows[..., None]).squeeze(-1)
        read, final = _ChunkedRead.apply(  # type: ignore[no-untyped-call]
            blocks, key, value, rows, coordinate, state, plan.limit, plan.chunk, count
        )
        read = plan.collect(read, batch)
    final = final.reshape(batch, heads, width, -1) if problem.want_state else None
    if clock is None:
        return Solution(read, None, final, None)
    return Solution(read, clock.since, final, clock.pending)


def _unchanged(problem: Problem, clock: Clock | None) -> Solution:
    """Read the state as it stands: there is no key."""
    state = problem.state
    if state is None:
        batch, heads, _, width = problem.key.shape
        state = problem.key.new_zeros(batch, heads, width, problem.value.shape[-1])
    # Sums of nothing: keys and values without numbers have a gradient without numbers.
    state = state + problem.key.sum() + problem.value.sum()
    since = None if clock is None else clock.since
    return Solution(problem.query @ state, since, state, None if clock is None else clock.pending)


def _rows(x: Tensor, extra: int) -> Tensor:
    """Merge batch and head and append `extra` zero rows: ``(N, T + extra, .)``, contiguous."""
    x = x.flatten(0, 1)
    return pad(x, (0, 0, 0, extra)) if extra else x.contiguous()


class _Placement(NamedTuple):
    """Where reads placed by visible counts go: blocks of rows that read in the same chunk."""

    heads: int
    slots: Tensor
    """``(B * Tq,)``: place of each read among the rows of all blocks."""
    limit: Tensor
    """``(H * blocks, rows)``: keys of the chunk that each row sees."""
    chunk: Tensor
    """``(H * blocks,)``: chunk, counted through all of ``(B, H)``, that each block reads in."""

    def spread(self, x: Tensor) -> Tensor:
        """Lay ``(B, H, Tq, .)`` out in blocks, ``(H * blocks, rows, .)``; unused rows are zero."""
        rows = self.limit.shape[-1]
        total = self.limit.shape[0] // self.heads * rows
        flat = x.transpose(0, 1).flatten(1, 2)
        spread = flat.new_zeros(self.heads, total, flat.shape[-1]).index_copy(1, self.slots, flat)
        return spread.reshape(-1, rows, flat.shape[-1])

    def collect(self, blocks: Tensor, batch: int) -> Tensor:
        """Undo :meth:`spread`."""
        flat = blocks.reshape(self.heads, -1, blocks.shape[-1]).index_select(1, self.slots)
        back: Tensor = flat.unflatten(1, (batch, -1))
        return back.transpose(0, 1)


def _place(counts: Tensor, heads: int, size: int, chunks: int) -> _Placement:
    batch, reads = counts.shape
    where = (counts - 1).clamp(min=0) // size
    seen = (counts - where * size).flatten()
    group = (where + torch.arange(batch, device=counts.device)[:, None] * chunks).flatten()
    order = group.argsort(stable=True)
    members = group.bincount(minlength=batch * chunks)
    rows = min(_QUERY_BLOCK, max(int(members.max()), 1)) if reads else 1
    blocks = (members + rows - 1) // rows
    first_block = blocks.cumsum(0) - blocks
    first_member = members.cumsum(0) - members
    sorted_group = group[order]
    rank = torch.arange(len(order), device=counts.device) - first_member[sorted_group]
    slots = torch.empty_like(order)
    slots[order] = first_block[sorted_group] * rows + rank
    total = int(blocks.sum())
    limit = counts.new_zeros(total * rows).index_copy(0, slots, seen).view(total, rows)
    place = torch.arange(batch * chunks, device=counts.device).repeat_interleave(blocks, output_size=total)
    head = torch.arange(heads, device=counts.device)[:, None]
    chunk = (place // chunks * heads + head) * chunks + place % chunks
    return _Placement(heads, slots, limit.repeat(heads, 1), chunk.flatten())


class _ChunkedRead(torch.autograd.Function):
    """Reads of blocks of queries, each inside one chunk of keys, and the state after the last key.

    With N pairs of batch and head, n chunks of C keys in each, and M blocks of Q queries:
    query ``(M, Q, r)``, key ``(N, n * C, r)``, value ``(N, n * C, w)``, coordinates of rows ``(M, Q)`` and of
    keys ``(N, n * C)`` or None, state ``(N, r, w)`` or None, chunk ``(M,)`` or None where block and chunk are
    the same. limit is ``(M, Q)``, how many of the chunk's keys a row sees; where rows stand as keys do, it is
    the diagonal of the last key that a row sees: a number, so that a compiler need not look into a tensor.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rows: Tensor | None,
        keys: Tensor | None,
        state: Tensor | None,
        limit: Tensor | int,
        chunk: Tensor | None,
        count: int,
    ) -> tuple[Tensor, Tensor]:
        grid = _Grid(query, key, value, rows, keys, limit, chunk, count)
        entering, final = grid.states(state)
        read = query.new_empty(*query.shape[:2], value.shape[-1])
        for part in grid.slabs():
            block = grid.block(part)
            torch.bmm(block.similarity(), block.value, out=read[part])
            read[part].baddbmm_(block.aged_query(), entering[grid.chunks(part)])
        ctx.with_state, ctx.count = state is not None, count
        ctx.diagonal, placed = (limit, None) if isinstance(limit, int) else (None, limit)
        ctx.save_for_backward(query, key, value, rows, keys, placed, chunk, entering, final)
        return read, final

    @staticmethod
    @first_order
    def backward(ctx: Any, grad_read: Tensor, grad_final: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, rows, keys, placed, chunk, entering, final = ctx.saved_tensors
        limit = ctx.diagonal if placed is None else placed
        grid = _Grid(query, key, value, rows, keys, limit, chunk, ctx.count)
        grad_read = grad_read.contiguous()
        grad_after, grad_state = grid.state_gradients(grad_read, grad_final)
        grad_query = torch.empty_like(query)
        grad_key, grad_value = grid.written_gradients(grad_after)
        for part in grid.slabs():
            block = grid.block(part)
            outer = grad_read[part]
            similarity = block.similarity()
            inner = block.visible_part(torch.bmm(outer, block.value.mT))
            dq = torch.bmm(outer, entering[grid.chunks(part)].mT)
            if block.age is not None:
                dq.mul_(block.age)
            torch.baddbmm(dq, inner, block.key, out=grad_query[part])
            grid.add(grad_key, part, inner.mT, block.query)
            grid.add(grad_value, part, similarity.mT, outer)
        grad_key, grad_value = grad_key.view_as(key), grad_value.view_as(value)
        grad_rows = grad_keys = None
        if rows is not None:
            # A row's coordinate enters as exp(+row) beside its query, a key's as exp(-key) beside its
            # key; the coordinates between chunks are a gauge and have no gradient, the last one has.
            grad_rows = (query * grad_query).sum(-1).double()
            grad_keys = -(key * grad_key).sum(-1).double()
            grad_keys[:, -1] += (final * grad_final).sum((-1, -2)).double()
        grad_start = grad_state if ctx.with_state else None
        return grad_query, grad_key, grad_value, grad_rows, grad_keys, grad_start, None, None, None


class _Block(NamedTuple):
    """A slab of blocks, ready to be multiplied."""

    query: Tensor
    key: Tensor
    value: Tensor
    decay: Tensor | None
    """``(m, Q, C)``: weight of each key for each row; meaningless where the row does not see the key."""
    age: Tensor | None
    """``(m, Q, 1)``: weight of the state at the chunk's start for each row."""
    limit: Tensor | int

    def visible_part(self, pairs: Tensor) -> Tensor:
        """Weight pairs by decay and zero those whose key the row does not see, in place."""
        if self.decay is not None:
            pairs.mul_(self.decay)
        # Selected, not multiplied: the decay of a hidden pair may be infinite.
        if isinstance(self.limit, int):
            return pairs.tril_(self.limit)
        place = torch.arange(pairs.shape[-1], device=pairs.device)
        return pairs.masked_fill_(place >= self.limit[..., None], 0.0)

    def similarity(self) -> Tensor:
        """Return the weighted similarities ``(m, Q, C)``."""
        return self.visible_part(torch.bmm(self.query, self.key.mT))

    def aged_query(self) -> Tensor:
        """Return the queries as the state at the chunk's start meets them."""
        return self.query if self.age is None else self.query * self.age


class _Grid:
    """Chunks of keys and blocks of queries of one read, in the layout of :class:`_ChunkedRead`."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rows: Tensor | None,
        keys: Tensor | None,
        limit: Tensor | int,
        chunk: Tensor | None,
        count: int,
    ) -> None:
        self.query, self.limit, self.chunk, self.count = query, limit, chunk, count
        self.pairs = key.shape[0]
        size = key.shape[1] // count
        self.key = key.view(-1, size, key.shape[-1])
        self.value = value.view(-1, size, value.shape[-1])
        self.step = self.fade = None
        if keys is not None and rows is not None:
            marks = torch.cat(
                [keys.new_zeros(self.pairs, 1), keys.view(self.pairs, count, size)[..., -1]], -1
            )
            begin = marks[:, :-1].reshape(-1)
            local = keys.view(-1, size) - begin[:, None]
            own_begin = begin if chunk is None else begin[chunk]
            # Only rows that fill up a block lie above the chunk's start.
            self.local_rows = (rows - own_begin[:, None]).clamp_(max=0)
            self.local_keys = local
            dtype = query.dtype
            self.step = (marks[:, 1:] - marks[:, :-1]).exp().to(dtype)
            self.fade = (local[:, -1:] - local).exp().to(dtype)[..., None]

    def slabs(self) -> list[slice]:
        """Return the runs of blocks to multiply together."""
        total = self.query.shape[0]
        return [slice(start, min(start + _SLAB, total)) for start in range(0, total, _SLAB)]

    def chunks(self, part: slice) -> slice | Tensor:
        """Return which chunks the blocks of `part` read in."""
        return part if self.chunk is None else self.chunk[part]

    def block(self, part: slice) -> _Block:
        """Return the queries of `part` with the keys that they read among."""
        pick = self.chunks(part)
        decay = age = None
        if self.step is not None:
            rows = self.local_rows[part]
            decay = _pair_decay(rows, self.local_keys[pick], self.query.dtype)
            age = rows.exp().to(self.query.dtype)[..., None]
        limit = self.limit if isinstance(self.limit, int) else self.limit[part]
        return _Block(self.query[part], self.key[pick], self.value[pick], decay, age, limit)

    def states(self, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the state that enters every chunk ``(N * n, r, w)`` and the one after the last."""
        key = self.key if self.fade is None else self.key * self.fade
        added = self._by_chunk(torch.bmm(key.mT, self.value))
        current = torch.zeros_like(added[:, 0]) if state is None else state.clone()
        entering = torch.empty_like(added)
        for n in range(self.count):
            entering[:, n] = current
            self._advance(current, n).add_(added[:, n])
        return entering.flatten(0, 1), current

    def state_gradients(self, grad_read: Tensor, grad_final: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of the state after every chunk ``(N * n, r, w)`` and of the first state."""
        query = self.query
        if self.step is not None:
            query = query * self.local_rows.exp().to(query.dtype)[..., None]
        direct = torch.bmm(query.mT, grad_read)
        if self.chunk is not None:
            room = direct.new_zeros(self.pairs * self.count, *direct.shape[1:])
            direct = room.index_add_(0, self.chunk, direct)
        direct = self._by_chunk(direct)
        current = grad_final.clone()
        after = torch.empty_like(direct)
        for n in range(self.count - 1, -1, -1):
            after[:, n] = current
            self._advance(current, n).add_(direct[:, n])
        return after.flatten(0, 1), current

    def _by_chunk(self, x: Tensor) -> Tensor:
        return x.view(self.pairs, self.count, *x.shape[1:])

    def _advance(self, state: Tensor, n: int) -> Tensor:
        return state if self.step is None else state.mul_(self.step[:, n, None, None])

    def written_gradients(self, grad_after: Tensor) -> tuple[Tensor, Tensor]:
        """Return what keys and values get through later states, chunk by chunk."""
        grad_key = torch.bmm(self.value, grad_after.mT)
        grad_value = torch.bmm(self.key, grad_after)
        if self.fade is not None:
            grad_key.mul_(self.fade)
            grad_value.mul_(self.fade)
        return grad_key, grad_value

    def add(self, total: Tensor, part: slice, left: Tensor, right: Tensor) -> None:
        """Add ``left @ right`` to the chunks that the blocks of `part` read in."""
        if self.chunk is None:
            total[part].baddbmm_(left, right)
        else:
            total.index_add_(0, self.chunk[part], torch.bmm(left, right))


def _pair_decay(rows: Tensor, keys: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ``exp(row - key)`` for every pair, exact to the digits of `dtype` however long the chunk.

    In float32 the coordinates are split into sixteenths, whose differences are exact up to 2^20, and a small
    rest: the digits of a difference do not depend on how far both lie from the chunk's start. Chunks of more
    rows than stay below that, at :data:`~quantattn.attention.validation.MIN_LOG_DECAY` each, are split into
    multiples of 1024 first; past that, a difference wipes whatever its digits are.
    """
    if dtype == torch.float64:
        return (rows[:, :, None] - keys[:, None, :]).exp_()
    row_coarse, key_coarse = (rows * 16).round_().div_(16), (keys * 16).round_().div_(16)
    row_rest, key_rest = (rows - row_coarse).to(dtype), (keys - key_coarse).to(dtype)
    if keys.shape[1] > _EXACT_ROWS:
        row_far, key_far = (rows / 1024).round_().mul_(1024), (keys / 1024).round_().mul_(1024)
        gap = row_far.to(dtype)[:, :, None] - key_far.to(dtype)[:, None, :]
        gap.add_((row_coarse - row_far).to(dtype)[:, :, None])
        gap.sub_((key_coarse - key_far).to(dtype)[:, None, :])
    else:
        gap = row_coarse.to(dtype)[:, :, None] - key_coarse.to(dtype)[:, None, :]
    return gap.add_(row_rest[:, :, None]).sub_(key_rest[:, None, :]).exp_()
