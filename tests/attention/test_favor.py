"""Random features: unbiased, one stored draw, and nothing that looks along the sequence."""

from __future__ import annotations

import copy
import io
import math

import pytest
import torch
from safetensors.torch import load, save

from quantattn.attention import Denominator, Favor, linear_attention, softmax_attention
from quantattn.attention.features.favor import draw
from quantattn.errors import DenominatorError, FeatureMapError, StateError

D = 4


def estimates(kind: str, features: int, seeds: int, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Return the kernel's estimate of every seed, from the formula."""
    generator = torch.Generator().manual_seed(12)
    rows = torch.stack([draw(features, q.shape[-1], kind, generator) for _ in range(seeds)])
    exponent = rows @ (q + k) - (q.square().sum() + k.square().sum()) / 2
    return exponent.exp().mean(-1)


PAIRS = [(0.9, 0.3), (0.5, -0.8), (0.8, 0.6)]


@pytest.mark.parametrize("kind", ["orthogonal", "iid"])
@pytest.mark.parametrize("sizes", PAIRS)
def test_the_kernel_is_unbiased(sizes, kind):
    q, k = torch.full((D,), sizes[0] / 2, dtype=torch.float64), torch.ones(D, dtype=torch.float64) / 2
    k = k * sizes[1]
    seeds, features = 4000, 8
    found = estimates(kind, features, seeds, q, k)
    exact = math.exp(float(q @ k))
    # One feature has E exp(2 w.(q + k)) exp(-|q|^2 - |k|^2) - exp(2 q.k) = exp(2 q.k) (exp(|q + k|^2) - 1).
    # Features of one draw are independent, or negatively correlated where orthogonal: no more variance.
    variance = exact**2 * (math.exp(float((q + k).square().sum())) - 1) / features
    assert abs(float(found.mean()) - exact) < 5 * math.sqrt(variance / seeds)
    # Positive control: the bound would notice a bias of a tenth.
    assert 0.1 * exact > 5 * math.sqrt(variance / seeds)
    if kind == "iid":
        assert float(found.var()) == pytest.approx(variance, rel=0.25)


@pytest.mark.parametrize("size", [0.35, 0.5])
def test_orthogonal_draws_have_less_variance(size):
    d, seeds = 16, 10_000
    q = torch.ones(d, dtype=torch.float64) * size / 4
    k = q * torch.tensor([1.0] * 15 + [-1.0], dtype=torch.float64)
    spread = {kind: float(estimates(kind, d, seeds, q, k).var()) for kind in ("orthogonal", "iid")}
    # Choromanski et al. (2021), theorem 2: the gap is at least 2 (m - 1) / (m (d + 2)) times a square.
    square = (math.exp(float(q @ k)) - math.exp(-float(q.square().sum() + k.square().sum()) / 2)) ** 2
    assert spread["orthogonal"] < spread["iid"] - 0.5 * 2 * (d - 1) / (d * (d + 2)) * square


def test_orthogonal_rows_are_orthogonal_in_blocks_and_distributed_as_normal():
    generator = torch.Generator().manual_seed(0)
    rows = draw(2 * D + 1, D, "orthogonal", generator)
    products = rows @ rows.mT
    for start in (0, D):
        block = products[start : start + D, start : start + D]
        torch.testing.assert_close(block, block.diagonal().diag(), atol=1e-12, rtol=0)
    assert products[0, D:].abs().min() > 1e-6
    many = torch.cat([draw(D, D, "orthogonal", generator) for _ in range(5000)])
    # Standard errors of mean, variance and fourth moment over 20,000 rows; blocks only make them smaller.
    root = math.sqrt(len(many))
    assert many.mean(0).abs().max() < 5 / root
    assert (many.square().mean(0) - 1).abs().max() < 5 * math.sqrt(2) / root
    assert (many**4).mean(0).sub(3).abs().max() < 5 * math.sqrt(96) / root
    assert (many[:, 0] * many[:, 1]).mean().abs() < 5 / root


def tokens(*shape: int, size: float = 1.0) -> torch.Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return drawn * size


def test_with_many_features_it_reads_like_softmax():
    query, value = tokens(1, 2, 30, D, size=0.6), tokens(1, 2, 30, 3)
    key = query.flip(2)
    wanted = softmax_attention(query, key, value)
    errors = []
    for features in (16, 256, 4096):
        found = linear_attention(query, key, value, feature_map=Favor(D, features)).output
        errors.append(float((found - wanted).square().mean().sqrt()))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.05


def test_one_draw_serves_queries_and_keys_and_every_call():
    map_ = Favor(D, 12, seed=7)
    x = tokens(1, 1, 5, D)
    before = map_.projection.clone()
    query = map_.map_query(x)
    proper = query.features * query.log_scale.exp()[..., None]
    torch.testing.assert_close(proper, map_(x), rtol=1e-13, atol=0)
    torch.testing.assert_close(map_.map_key(x), map_(x), rtol=1e-13, atol=0)
    for mode in (True, False):
        map_.train(mode)
        linear_attention(x, x, x, feature_map=map_)
        assert torch.equal(map_.projection, before)
    assert torch.equal(Favor(D, 12, seed=7).projection, before)
    assert not torch.equal(Favor(D, 12, seed=8).projection, before)
    heads = Favor(D, 12, heads=3, seed=7).projection
    assert torch.equal(heads[0], before) and not torch.equal(heads[1], before)


def test_the_draw_is_saved_with_the_model():
    trained = Favor(D, 12, seed=7)
    assert list(trained.state_dict()) == ["projection"]
    loaded = Favor(D, 12, seed=0)
    loaded.load_state_dict(load(save(trained.state_dict())))
    assert torch.equal(loaded.projection, trained.projection)
    assert loaded.fingerprint == trained.fingerprint
    kept = io.BytesIO()
    torch.save(trained.state_dict(), kept)
    kept.seek(0)
    again = Favor(D, 12, seed=1)
    again.load_state_dict(torch.load(kept, weights_only=True))
    assert again.fingerprint == trained.fingerprint
    assert copy.deepcopy(trained).fingerprint == trained.fingerprint
    assert copy.deepcopy(trained).double().fingerprint == trained.fingerprint


def test_it_is_redrawn_on_request_alone_and_never_in_evaluation():
    map_ = Favor(D, 12)
    x = tokens(1, 1, 5, D)
    state = linear_attention(x, x, x, feature_map=map_, return_state=True).state
    linear_attention(x, x, x, feature_map=map_, initial_state=state)
    kept, name = map_.projection.clone(), map_.fingerprint
    map_.eval()
    with pytest.raises(FeatureMapError, match=r"evaluation mode.*call train\(\) first"):
        map_.redraw(3)
    assert torch.equal(map_.projection, kept)
    map_.train()
    map_.redraw(3)
    assert torch.equal(map_.projection, Favor(D, 12, seed=3).projection)
    assert map_.fingerprint != name
    with pytest.raises(StateError, match="made under 'favor/raise"):
        linear_attention(x, x, x, feature_map=map_, initial_state=state)
    with pytest.raises(FeatureMapError, match="seed: expected a whole number from 0 up, got -1"):
        map_.redraw(-1)


@pytest.mark.parametrize("policy", [Denominator.floor(0.5), Denominator.prior(2.0, 0.5)])
@pytest.mark.parametrize("size", [1.0, 12.0])
def test_a_row_scale_changes_no_policy(policy, size):
    """Queries of great norm: what is divided out of them must not shift them against a prior or a floor."""

    class Plain(Favor):
        name = "plain"

        def map_query(self, x):
            return super().map_query(x)._replace(features=self(x), log_scale=None)

        def map_key(self, x):
            return self(x)

    query, key, value = tokens(1, 2, 9, D, size=size), tokens(1, 2, 9, D), tokens(1, 2, 9, 3)
    outputs = [
        linear_attention(query, key, value, feature_map=kind(D, 12), denominator=policy)
        for kind in (Favor, Plain)
    ]
    torch.testing.assert_close(outputs[0].output, outputs[1].output, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(
        outputs[0].health.denominators, outputs[1].health.denominators, rtol=1e-11, atol=0
    )
    assert outputs[0].health.floor_hits == outputs[1].health.floor_hits


def test_great_queries_and_wide_heads_do_not_overflow():
    x = tokens(1, 1, 6, D).float()
    base = linear_attention(x, x, x, feature_map=Favor(D, 12)).output
    great = linear_attention(x * 300, x, x, feature_map=Favor(D, 12)).output
    assert torch.isfinite(base).all() and torch.isfinite(great).all()
    health = linear_attention(x * 300, x, x, feature_map=Favor(D, 12)).health
    assert health.empty == health.nonfinite == 0
    prior = Denominator.prior(1.0, 3.0)
    far = linear_attention(x * 300, x, x, feature_map=Favor(D, 12), denominator=prior).output
    assert torch.isfinite(far).all()
    # The greatest key of a draw is the draw itself; at this width its features would pass float32's range.
    wide = Favor(512, 8, seed=2, scale=1.0)
    key = wide.projection[None, None, :4]
    assert float(key.square().sum(-1).max()) / 2 > 88
    assert torch.isinf(wide(key)).any()
    assert torch.isfinite(wide.map_key(key)).all()
    # A float32 exponent near 280 keeps eps times 280.
    exact = linear_attention(key.double(), key.double(), key.double(), feature_map=wide).output
    found = linear_attention(key, key, key, feature_map=wide).output
    assert (found - exact).abs().max() < 1e-3


def test_keys_that_vanish_are_refused_and_not_forgotten():
    x = tokens(1, 1, 4, D).float()
    with pytest.raises(DenominatorError, match="position 0: 0"):
        linear_attention(x, x * 1e4, x, feature_map=Favor(D, 12))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d": 0}, "d: expected a positive integer, got 0"),
        ({"d": 4, "features": 2.5}, "features: expected a positive integer, got 2.5"),
        ({"d": 4, "heads": -1}, "heads: expected a positive integer, got -1"),
        ({"d": 4, "kind": "qmc"}, "kind: expected 'orthogonal' or 'iid', got 'qmc'"),
        ({"d": 4, "seed": "x"}, "seed: expected a whole number from 0 up, got 'x'"),
        ({"d": 4, "scale": 0.0}, "scale: expected a positive finite number, got 0.0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(FeatureMapError, match=message):
        Favor(**options)


def test_inputs_of_another_width_are_named():
    x = tokens(1, 3, 5, 6)
    with pytest.raises(FeatureMapError, match=r"built for shape \(\.\.\., 4\), got \(1, 3, 5, 6\)"):
        linear_attention(x, x, x, feature_map=Favor(4))
    with pytest.raises(FeatureMapError, match=r"shape \(\.\.\., 2, length, 6\), got \(1, 3, 5, 6\)"):
        linear_attention(x, x, x, feature_map=Favor(6, heads=2))
