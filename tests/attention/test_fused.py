"""What is particular to the compiled backend: bits, strips, blocks, strides, threads, gradients."""

from __future__ import annotations

import itertools
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.attention import Denominator, linear_attention
from quantattn.attention.backends import Problem, _threads
from quantattn.attention.backends._forward import BLOCK
from quantattn.attention.backends.fused import read_fused
from quantattn.errors import BackendError

PRIOR = Denominator.prior(0.5, 0.25)


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def results(leaves, backend: str, policy: Denominator = PRIOR, **options) -> list[torch.Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in leaves]
    result = linear_attention(*leaves, backend=backend, return_state=True, denominator=policy, **options)
    loss = result.output.sin().sum() + result.state.S.square().sum() + result.state.z.sum()
    loss.backward()
    return [x.detach() for x in (result.output, result.state.S, result.state.z)] + [x.grad for x in leaves]


@pytest.fixture
def threads():
    """Set torch's number of threads back in the end."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "length", [1, 3, 4, 5, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 3 * BLOCK + 5]
)
@pytest.mark.parametrize("visibility", ["inclusive", "strict"])
def test_every_boundary_of_a_block(length, visibility):
    leaves = [draw(n, 2, 2, length, 3) for n in (1, 2, 3)]
    decay, mask = -draw(4, 2, 2, length).abs(), draw(5, 2, length) > -0.5
    for options in ({}, {"log_decay": decay, "key_mask": mask}):
        both = (results(leaves, name, visibility=visibility, **options) for name in ("quadratic", "fused"))
        for wanted, got in zip(*both, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("rank", "width"),
    [(1, 1), (7, 9), (8, 8), (15, 17), (16, 16), (17, 15), (31, 33), (32, 32), (33, 31), (48, 16), (65, 40)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_widths_that_vectors_do_and_do_not_divide(rank, width, dtype):
    length = 2 * BLOCK + 3
    leaves = [draw(n, 1, 2, length, rank, dtype=dtype) for n in (1, 2)] + [
        draw(3, 1, 2, length, width, dtype=dtype)
    ]
    wanted = results([x.double() for x in leaves], "quadratic")
    for got, exact in zip(results(leaves, "fused"), wanted, strict=True):
        # One unit in the last place for every number of a sum, as it would be for a plain loop.
        slack = (length + rank + width) * torch.finfo(dtype).eps * max(1.0, float(exact.abs().max()))
        assert float((got.double() - exact).abs().max()) <= slack


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 70), st.integers(0, 40), st.booleans())
def test_counts_of_any_kind(data, keys, reads, decays):
    one = st.lists(st.integers(0, keys), min_size=reads, max_size=reads)
    counts = torch.tensor([data.draw(one), data.draw(one)], dtype=torch.int64).reshape(2, reads)
    options = {"log_decay": -draw(4, 2, 2, keys).abs()} if decays else {}
    leaves = [draw(1, 2, 2, reads, 3), draw(2, 2, 2, keys, 3), draw(3, 2, 2, keys, 2)]
    both = (results(leaves, name, visible_counts=counts, **options) for name in ("quadratic", "fused"))
    for wanted, got in zip(*both, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_many_reads_at_one_count():
    """More than a block of them, at the end of a block of keys and in the middle of one."""
    counts = torch.tensor([[BLOCK] * (2 * BLOCK + 3) + [BLOCK + 7] * (BLOCK + 1) + [0, 2 * BLOCK]])
    leaves = [draw(1, 1, 2, counts.shape[1], 3), draw(2, 1, 2, 2 * BLOCK, 3), draw(3, 1, 2, 2 * BLOCK, 2)]
    both = (results(leaves, name, visible_counts=counts) for name in ("quadratic", "fused"))
    for wanted, got in zip(*both, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("visibility", ["inclusive", "strict", "counts"])
@pytest.mark.parametrize("decays", [False, True])
def test_gradcheck(visibility, decays):
    counts = torch.tensor([[0, 7, 3, 4]]) if visibility == "counts" else None
    reads = 4 if visibility == "counts" else 7
    leaves = [draw(1, 1, 2, reads, 2), draw(2, 1, 2, 7, 2), draw(3, 1, 2, 7, 2)]
    leaves += [torch.tensor(0.7, dtype=torch.float64), draw(6, 2)]
    if decays:
        leaves += [-draw(4, 1, 2, 7).abs() - 0.1, -draw(5, 1, 2, reads).abs() - 0.1]
    mask = torch.tensor([[False, True, True, False, True, True, False]])

    def function(query, key, value, mass, prior, log_decay=None, read_log_decay=None):
        result = linear_attention(
            query,
            key,
            value,
            visibility="strict" if visibility == "strict" else "inclusive",
            visible_counts=counts,
            key_mask=mask,
            log_decay=log_decay,
            read_log_decay=read_log_decay,
            return_state=True,
            denominator=Denominator.prior(mass, prior),
            backend="fused",
        )
        state = result.state
        return (result.output, state.S, state.z, *([] if state.pending is None else [state.pending]))

    assert torch.autograd.gradcheck(function, [x.requires_grad_() for x in leaves])


OPTIONS = {
    "plain": {},
    "strict": {"visibility": "strict"},
    "decay": {"log_decay": -draw(7, 3, 2, 70).abs()},
    "counts": {"visible_counts": torch.randint(0, 71, (3, 70), generator=torch.Generator().manual_seed(1))},
}


@pytest.mark.parametrize(
    ("case", "policy"),
    # An empty history needs a prior.
    [
        *((case, PRIOR) for case in sorted(OPTIONS)),
        *((case, Denominator.raise_()) for case in ("plain", "decay")),
    ],
)
def test_bits_do_not_depend_on_the_number_of_threads(case, policy, threads):
    """More threads than heads divide the columns of a head."""
    options = {n: x[:1] if isinstance(x, torch.Tensor) else x for n, x in OPTIONS[case].items()}
    options = {n: x[:, :1] if n == "log_decay" else x for n, x in options.items()}
    leaves = [draw(n, 1, 1, 70, 40, dtype=torch.float32) for n in (1, 2)] + [draw(3, 1, 1, 70, 56).float()]
    found = []
    for number in (1, 2, 3, 7):
        threads(number)
        found.append(results(leaves, "fused", policy, **options))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert torch.equal(one, two)


@pytest.mark.parametrize("case", sorted(OPTIONS))
def test_bits_do_not_depend_on_the_company(case):
    leaves = [draw(n, 3, 2, 70, 20, dtype=torch.float32) for n in (1, 2, 3)]
    whole = results(leaves, "fused", **OPTIONS[case])
    for row in range(3):
        own = slice(row, row + 1)
        options = {n: x[own] if isinstance(x, torch.Tensor) else x for n, x in OPTIONS[case].items()}
        alone = results([x[own] for x in leaves], "fused", **options)
        for one, two in zip(whole, alone, strict=True):
            assert torch.equal(one[own], two)


@pytest.mark.parametrize("feature_map", ["elu1", "relu"])
@pytest.mark.parametrize("policy", [PRIOR, Denominator.raise_()], ids=["sums", "ratios"])
@pytest.mark.parametrize("decays", [False, True])
@pytest.mark.parametrize("cuts", [[0, 1, 75], [0, 31, 32, 33, 75], [0, 40, 40, 75], list(range(76))])
def test_any_cut_gives_the_same_bits(cuts, decays, policy, feature_map):
    leaves = [draw(n, 2, 2, 75, 20, dtype=torch.float32) for n in (1, 2, 3)]
    if feature_map == "relu":
        leaves[0][..., 0] = leaves[1][..., 0] = 1.0
    options = {"feature_map": feature_map, "backend": "fused", "denominator": policy, "return_state": True}
    decay = -draw(4, 2, 2, 75).abs()
    whole = linear_attention(*leaves, log_decay=decay if decays else None, **options)
    pieces, state = [], None
    for low, high in itertools.pairwise(cuts):
        piece = [x[:, :, low:high] for x in leaves]
        found = linear_attention(
            *piece, log_decay=decay[:, :, low:high] if decays else None, initial_state=state, **options
        )
        pieces.append(found.output)
        state = found.state
    assert torch.equal(torch.cat(pieces, 2), whole.output)
    assert torch.equal(state.S, whole.state.S)
    assert torch.equal(state.z, whole.state.z)


def test_rows_may_lie_anywhere():
    """Transposed, sliced, expanded and reversed inputs, and gradients that arrive expanded."""
    base = draw(1, 2, 70, 3, 24, dtype=torch.float32)
    query, key = base.transpose(1, 2)[..., :8], base.transpose(1, 2)[..., 8:16]
    value = draw(2, 1, 3, 70, 5, dtype=torch.float32).expand(2, -1, -1, -1)
    for inputs in ((query, key, value), (query.flip(2), key[..., ::2].repeat(1, 1, 1, 2), value[..., ::2])):
        strided = [x.detach().requires_grad_() for x in inputs]
        packed = [x.detach().contiguous().requires_grad_() for x in inputs]
        one, two = (linear_attention(*x, backend="fused").output for x in (strided, packed))
        assert torch.equal(one, two)
        one.sum().backward()
        two.sum().backward()
        for left, right in zip(strided, packed, strict=True):
            assert torch.equal(left.grad, right.grad)


def test_features_far_below_zero_keep_their_digits():
    """elu(x) + 1 is exp(x) there, down to numbers that float32 holds with few digits, and never negative."""
    x = torch.linspace(-120, 5, 4001)[None, None, :, None]
    one = torch.full((1, 1, 1, 1), 0.0)
    value = torch.ones(1, 1, 1, 1)
    counts = torch.ones(1, 4001, dtype=torch.int64)
    result = linear_attention(
        x, one, value, visible_counts=counts, denominator=Denominator.floor(1e-45), backend="fused"
    )
    wanted = torch.where(x > 0, x.double() + 1, x.double().exp()).squeeze(-1)
    got = result.health.denominators.double()
    error = (got - wanted).abs()
    assert float((error - 2.4e-7 * wanted).max()) <= 1.5e-45
    assert float(got.min()) >= 0


def test_threads_of_the_caller_do_not_meet():
    leaves = [draw(n, 2, 2, 200, 16, dtype=torch.float32) for n in (1, 2, 3)]
    wanted = results(leaves, "fused")
    found: list[list[torch.Tensor]] = []
    callers = [
        threading.Thread(target=lambda: found.extend(results(leaves, "fused") for _ in range(5)))
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 20
    assert all(torch.equal(one, two) for result in found for one, two in zip(wanted, result, strict=True))


def test_a_share_that_fails_is_heard_of():
    def fail(first: int, last: int) -> None:
        if first >= 3:
            raise RuntimeError("three")

    with pytest.raises(RuntimeError, match="three"):
        _threads.share_out(fail, 8, 2)


@pytest.mark.parametrize(("tasks", "threads"), [(0, 4), (1, 4), (5, 1), (5, 2), (16, 3), (3, 8)])
def test_every_task_is_done_once(tasks, threads):
    done: list[int] = []
    _threads.share_out(lambda first, last: done.extend(range(first, last)), tasks, threads)
    assert sorted(done) == list(range(tasks))


def test_other_devices_are_refused():
    x = torch.zeros(1, 1, 20, 2, device="meta")
    problem = Problem(x, x, x, "inclusive", None, None, None, None, None, 64, False)
    with pytest.raises(BackendError, match="'fused' runs on the CPU, the inputs are on meta; use 'chunked'"):
        read_fused(problem)
