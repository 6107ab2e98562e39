"""Kernel and recall reports, against direct formulas and known limits."""

from __future__ import annotations

import json
import math

import pytest
import torch

from quantattn.attention import (
    Dpfp,
    Estimate,
    Favor,
    FeatureMap,
    Hedgehog,
    kernel_report,
    linear_attention,
    recall_report,
    softmax_attention,
)
from quantattn.attention.estimates import bias_estimate, mean_estimate, proportion_estimate, t_quantile
from quantattn.errors import FeatureMapError, ShapeError


def tokens(seed: int, *shape: int, size: float = 1.0) -> torch.Tensor:
    return size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


QUERY, KEY, VALUE = tokens(1, 2, 2, 20, 4), tokens(2, 2, 2, 20, 4), tokens(3, 2, 2, 20, 3)


def test_the_figures_of_one_map_by_the_direct_formulas():
    row = kernel_report("taylor2", QUERY, KEY, VALUE).rows[0]
    logits = (QUERY @ KEY.mT / 2).masked_fill(~torch.ones(20, 20, dtype=torch.bool).tril(), -math.inf)
    weight = logits.softmax(-1)
    s = torch.where(weight > 0, logits, 0.0)
    pairs = (1 + s + s**2 / 2) * (weight > 0)
    scaled = pairs / logits.exp().sum(-1, keepdim=True)
    mine = pairs / pairs.sum(-1, keepdim=True)
    kernel = float((scaled - weight).norm() / weight.norm())
    output = float((mine @ VALUE - weight @ VALUE).norm() / (weight @ VALUE).norm())
    assert row.kernel_error.value == pytest.approx(kernel, rel=1e-12)
    assert row.weight_error.value == pytest.approx(float((mine - weight).abs().sum(-1).mean() / 2), rel=1e-12)
    assert row.output_error.value == pytest.approx(output, rel=1e-12)
    # There is one map, so nothing is said of draws.
    assert row.kernel_bias is None and row.ratio_bias is None
    assert row.kernel_error.low is None and row.seeds == 1
    assert (row.features, row.feature_map, row.unusable) == (15, "taylor2", 0.0)
    assert row.least_similarity == pytest.approx(float(scaled[weight > 0].min()), rel=1e-12)
    found = linear_attention(QUERY, KEY, VALUE, feature_map="taylor2").output
    wanted = softmax_attention(QUERY, KEY, VALUE)
    assert float((found - wanted).norm() / wanted.norm()) == pytest.approx(output, rel=1e-12)


def test_random_features_have_no_kernel_bias_and_a_ratio_bias():
    """The kernel's estimate is unbiased, the ratio's is not: the interval shows both."""
    report = kernel_report("favor", QUERY * 0.7, KEY * 0.7, VALUE, features=(8, 64), seeds=64)
    assert [(row.feature_map, row.features) for row in report.rows] == [
        ("favor, orthogonal", 8),
        ("favor, iid", 8),
        ("favor, orthogonal", 64),
        ("favor, iid", 64),
    ]
    for row in report.rows:
        assert row.seeds == 64
        assert row.kernel_bias.low == 0.0
        assert row.kernel_bias.value < 0.15 * row.kernel_error.value
        assert row.ratio_bias.low > 0.0
        assert row.ratio_bias.low < row.ratio_bias.value < row.ratio_bias.high < row.output_error.value
        assert row.output_error.low < row.output_error.value < row.output_error.high
        assert 0 < row.weight_error.value < 1
    # More features: less error and less bias.
    few, _, many, _ = report.rows
    assert many.output_error.high < few.output_error.low
    assert many.ratio_bias.high < few.ratio_bias.low


def test_orthogonal_draws_err_less_in_the_report():
    query, key, value = (tokens(n, 1, 1, 20, 16, size=0.8) for n in (1, 2, 3))
    report = kernel_report("favor", query, key, value, features=(16,), seeds=200)
    orthogonal, iid = report.rows
    assert orthogonal.output_error.high < iid.output_error.low


def test_what_it_takes():
    assert kernel_report(Dpfp(2), QUERY, KEY, VALUE).rows[0].features == 16
    assert kernel_report(Hedgehog(4, heads=2), QUERY, KEY, VALUE).rows[0].kernel_error is None
    swept = kernel_report(
        lambda features, seed: Favor(4, features, heads=2, seed=seed),
        QUERY,
        KEY,
        VALUE,
        features=(5, 9),
        seeds=4,
    )
    assert [row.features for row in swept.rows] == [5, 9]
    strict = kernel_report("elu1", QUERY, KEY, VALUE, visibility="strict")
    assert strict.reads == 2 * 2 * 19
    wanted = softmax_attention(QUERY[:, :, 1:], KEY, VALUE, visible_counts=torch.arange(1, 20).expand(2, 19))
    found = linear_attention(
        QUERY[:, :, 1:], KEY, VALUE, visible_counts=torch.arange(1, 20).expand(2, 19)
    ).output
    error = float((found - wanted).norm() / wanted.norm())
    assert strict.rows[0].output_error.value == pytest.approx(error, rel=1e-12)


def test_maps_that_break_their_promise_show():
    class Odd(FeatureMap):
        """1 + q . k, which turns negative."""

        name = "odd"
        positive = True
        signed_features = True

        def width(self, d):
            return 1 + d

        def __call__(self, x):
            return torch.cat([torch.ones_like(x[..., :1]), x], -1)

    report = kernel_report(Odd(), QUERY, KEY, VALUE)
    row = report.rows[0]
    assert row.least_similarity < 0
    assert row.unusable > 0
    cells = printed(report)
    assert cells["unusable"] == f"{row.unusable:.3g}"
    assert cells["least_similarity"] == f"{row.least_similarity:.3g}"


def printed(report) -> dict[str, str]:
    """The first row of a printed table, by column."""
    head, first = str(report).split("\n\n")[1].splitlines()[:2]
    return dict(zip(head.split(), first.replace(", ", ",").replace(" [", "[").split(), strict=True))


def test_relu_may_see_nothing():
    row = kernel_report("relu", -KEY.abs(), KEY, VALUE).rows[0]
    assert (row.unusable, row.output_error.value, row.weight_error.value) == (1.0, 1.0, 0.5)


def test_what_is_printed_of_one_map_and_of_draws():
    one = kernel_report("relu", QUERY, KEY, VALUE)
    assert list(printed(one)) == [
        "feature_map",
        "features",
        "kernel_error",
        "weight_error",
        "output_error",
        "unusable",
    ]
    assert 0 < one.rows[0].unusable < 1 and printed(one)["unusable"] == f"{one.rows[0].unusable:.3g}"
    assert "interval" not in str(one).replace("without intervals", "") and "bias" not in str(one)
    assert "least_similarity" in printed(kernel_report("taylor2", QUERY, KEY, VALUE))  # signed features
    drawn = kernel_report("favor", QUERY, KEY, VALUE, features=(8, 16), seeds=3)
    text = str(drawn)
    assert "[95% intervals over draws]" in text and "least_similarity" not in text
    for name in ("seeds", "kernel_bias", "ratio_bias", "unusable"):
        assert name in text.split("\n\n")[1]
    # A blank line before the table, and one between the numbers of features.
    assert [len(part.splitlines()) for part in text.split("\n\n")] == [3, 3, 2]
    named = set(text.split("\n\n")[1].splitlines()[0].split())
    assert named <= set(drawn.rows[0].to_dict())
    recall = recall_report(["elu1", "dpfp"], lengths=(2, 4), widths=(4,), values=4, seeds=2)
    assert [len(part.splitlines()) for part in str(recall).split("\n\n")] == [3, 4, 3]
    assert set(str(recall).split("\n\n")[1].splitlines()[0].split()) <= set(recall.rows[0].to_dict())
    assert "sharpness" in printed(recall) and "chosen from 16, 8, 4, 2, 1 on other histories" in str(recall)


def test_reports_as_flat_rows():
    report = kernel_report("favor", QUERY, KEY, VALUE, features=(8,), seeds=3)
    rows = report.to_rows()
    assert len(rows) == 2
    row, said = report.rows[0], rows[0]
    assert (said["ratio_bias"], said["ratio_bias_low"], said["ratio_bias_high"]) == (
        row.ratio_bias.value,
        row.ratio_bias.low,
        row.ratio_bias.high,
    )
    assert (said["feature_map"], said["features"], said["reads"], said["scale"]) == (
        "favor, orthogonal",
        8,
        80,
        0.5,
    )
    single = kernel_report("relu", QUERY, KEY, VALUE).to_rows()[0]
    assert single.keys() == said.keys()
    assert single["kernel_error"] is None and single["ratio_bias_low"] is None
    recall = recall_report("elu1", lengths=(4,), widths=(4,), values=4, seeds=2).to_rows()
    assert [row["attention"] for row in recall] == ["softmax", "elu1"]
    assert recall[0]["recall_low"] < recall[0]["recall"] == recall[0]["recall_high"] == 1.0
    for made in (*rows, *recall):
        assert all(value is None or isinstance(value, str | int | float) for value in made.values())


def test_reports_as_data_and_text():
    report = kernel_report("favor", QUERY, KEY, VALUE, features=(8,), seeds=3)
    said = json.loads(json.dumps(report.to_dict()))
    assert said["reads"] == 80 and said["scale"] == 0.5 and len(said["rows"]) == 2
    assert set(said["rows"][0]["ratio_bias"]) == {"value", "low", "high"}
    text = str(report)
    assert "favor, orthogonal" in text and "ratio_bias" in text and "80 reads" in text
    assert len({len(line) for line in text.splitlines()[1:2]}) == 1
    recall = recall_report(["elu1"], lengths=(4,), widths=(4,), values=4, seeds=2)
    said = json.loads(json.dumps(recall.to_dict()))
    assert said["values"] == 4 and len(said["rows"]) == 2
    assert "softmax" in str(recall) and "guessing gives 0.25" in str(recall)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seeds": 2}, ShapeError, "seeds: expected at least 3 draws"),
        ({"features": ()}, ShapeError, "features: expected positive whole numbers"),
        ({"confidence": 1.0}, ShapeError, "confidence: expected a number between 0 and 1, .* got 1.0"),
        ({"scale": -1.0}, ShapeError, "scale: expected a positive finite number, got -1.0"),
        ({"visibility": "all"}, ShapeError, "visibility: expected"),
        ({"query": QUERY[..., :3]}, ShapeError, "key: width is 4, query has 3"),
        ({"value": VALUE * float("inf")}, ShapeError, "value: is not finite"),
        ({"feature_map": "elu"}, FeatureMapError, "'elu' is not registered"),
        ({"feature_map": "hedgehog"}, FeatureMapError, "holds numbers that must be saved"),
        ({"feature_map": lambda features, seed: 3}, FeatureMapError, "the factory returned int"),
    ],
)
def test_bad_requests(options, error, message):
    given = {"feature_map": "favor", "query": QUERY, "key": KEY, "value": VALUE, **options}
    with pytest.raises(error, match=message):
        kernel_report(**given)


def test_recall_is_limited_by_the_width_of_the_state():
    report = recall_report(["elu1", "dpfp", "taylor2"], lengths=(4, 32, 128), widths=(8,), values=16, seeds=6)
    found = {(row.attention, row.length): row for row in report.rows}
    assert len(found) == 12
    for length in (4, 32, 128):
        assert found["softmax", length].recall.value > 0.95
    for name in ("elu1", "dpfp", "taylor2"):
        shares = [found[name, length].recall for length in (4, 32, 128)]
        # The longer the history, the more is forgotten, beyond the intervals.
        assert shares[2].high < shares[0].low
        assert shares[0].value >= shares[1].value >= shares[2].value
    # More features at one length: more is kept.
    features = [found[name, 128] for name in ("elu1", "dpfp", "taylor2")]
    assert [row.features for row in features] == [8, 16, 45]
    assert features[0].recall.value < features[1].recall.value < features[2].recall.value
    assert [row.state for row in features] == [8 * 17, 16 * 17, 45 * 17]
    assert found["softmax", 128].state == 128 * (8 + 16)


def test_a_single_map_is_one_map():
    for one in ("elu1", Dpfp(2)):
        rows = recall_report(one, lengths=(2,), widths=(4,), values=4, seeds=2).rows
        assert [row.attention for row in rows] == ["softmax", "elu1" if one == "elu1" else "dpfp"]


def test_recall_of_one_pair_is_perfect_for_all():
    report = recall_report(["elu1", "favor"], lengths=(1,), widths=(4,), values=4, seeds=3)
    assert [row.recall.value for row in report.rows] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"values": 1}, ShapeError, "values: expected a whole number from 2 up, got 1"),
        ({"seeds": 1.5}, ShapeError, "seeds: expected a whole number from 2 up, got 1.5"),
        ({"lengths": ()}, ShapeError, "lengths: expected positive whole numbers"),
        ({"widths": (4, 0)}, ShapeError, r"widths: .* got \(4, 0\)"),
        ({"feature_maps": ["soft"]}, FeatureMapError, "feature_maps: 'soft' is not registered"),
        (
            {"feature_maps": "elu"},
            FeatureMapError,
            r"'elu' is not registered; known: .* Did you mean '\w+'\?",
        ),
        ({"feature_maps": ("elu1", "softmax")}, FeatureMapError, "'softmax' is no map, and always in"),
    ],
)
def test_bad_recalls(options, error, message):
    with pytest.raises(error, match=message):
        recall_report(**{"lengths": (2,), "widths": (2,), **options})


def test_intervals():
    # Tables of Student's t.
    for freedom, wanted in ((6, 2.4469), (10, 2.2281), (30, 2.0423), (1000, 1.9623)):
        assert t_quantile(0.95, freedom) == pytest.approx(wanted, rel=2e-3)
    assert mean_estimate([2.0], 0.95) == Estimate(2.0)
    found = mean_estimate([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 0.95)
    assert found.value == 4.0
    # s = 2.1602, over sqrt(7), times 2.4469.
    assert found.high - 4 == pytest.approx(1.998, rel=3e-3)
    assert 4 - found.low == pytest.approx(found.high - 4)
    assert mean_estimate([0.1, 0.0, 0.9, 1.0], 0.95, highest=1.0).high == 1.0
    assert str(Estimate(0.12345)) == "0.123"
    assert str(Estimate(0.5, 0.25, 0.75)) == "0.5 [0.25, 0.75]"


def test_quantiles_of_few_degrees_of_freedom():
    for freedom, wanted in ((1, 12.7062), (2, 4.3027), (3, 3.1824)):
        assert t_quantile(0.95, freedom) == pytest.approx(wanted, rel=8e-3 if freedom == 3 else 1e-4)


def test_the_interval_of_a_share_is_never_a_point():
    # All of eight: n / (n + t ** 2), with t of seven degrees of freedom 2.3646.
    found = proportion_estimate([1.0] * 8, 1, 0.95)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(8 / (8 + 2.3646**2), rel=2e-3)
    assert proportion_estimate([1.0] * 8, 16, 0.95).low == pytest.approx(128 / (128 + 2.3646**2), rel=2e-3)
    none = proportion_estimate([0.0] * 8, 1, 0.95)
    assert (none.low, none.value, none.high) == (0.0, 0.0, pytest.approx(1 - found.low))
    # Half of all, without spread: Wilson's, (1 / 2) sqrt(t ** 2 / (n + t ** 2)) to both sides.
    half = proportion_estimate([0.5] * 8, 2, 0.95)
    reach = 0.5 * math.sqrt(2.3646**2 / (16 + 2.3646**2))
    assert (half.low, half.high) == (
        pytest.approx(0.5 - reach, rel=2e-3),
        pytest.approx(0.5 + reach, rel=2e-3),
    )
    # Trials that stand or fall together count as one for each seed, less the degree of freedom.
    apart = proportion_estimate([0.0, 1.0] * 4, 100, 0.95)
    wide = 0.5 * math.sqrt(2.3646**2 / (7 + 2.3646**2))
    assert apart.high - apart.value == pytest.approx(wide, rel=2e-3)


def test_the_interval_of_a_share_holds_it():
    """Coverage of shares near one, where Student's interval of the mean fails."""
    generator = torch.Generator().manual_seed(5)
    hits = 0
    for _ in range(300):
        drawn = torch.rand(8, 16, generator=generator) < 0.97
        found = proportion_estimate(drawn.double().mean(-1).tolist(), 16, 0.95)
        hits += found.low <= 0.97 <= found.high
    assert hits >= 285 - 4 * math.sqrt(300 * 0.95 * 0.05)


def test_the_bias_is_estimated_without_the_variance():
    """Errors of known mean and spread: coverage of the interval over many repetitions."""
    generator = torch.Generator().manual_seed(3)
    hits, values = 0, []
    bias = torch.zeros(50, dtype=torch.float64)
    bias[:8] = 0.5
    true = float(bias.norm())
    for _ in range(200):
        errors = bias + torch.randn(24, 50, generator=generator, dtype=torch.float64)
        found = bias_estimate(errors @ errors.mT, 0.95)
        values.append(found.value**2)
        hits += found.low <= true <= found.high
    # The plain size of the mean error would be sqrt(2 + 50 / 24), half as much again.
    assert sum(values) / 200 == pytest.approx(true**2, rel=0.05)
    # 95% of 200, and five standard errors of a binomial count.
    assert hits >= 190 - 5 * math.sqrt(200 * 0.95 * 0.05)
    assert bias_estimate(torch.tensor([[4.0]], dtype=torch.float64), 0.95) == Estimate(2.0)
