from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from arch.univariate import arch_model
from scipy.special import digamma

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines import GarchBaseline, MeanBaseline, SampleTable, TargetKind
from quantattn.forecasters.baselines._garch import (
    GarchParameters,
    backcast,
    estimate,
    horizon_variance,
    next_variances,
)

from .tables import Bar, Sample, table_of

TRUTH = (2e-6, 0.10, 0.86)


def garch_returns(n: int, seed: int, omega: float, alpha: float, beta: float) -> np.ndarray:
    draw = np.random.default_rng(seed)
    variance, returns = omega / (1 - alpha - beta), np.empty(n)
    for day in range(n):
        returns[day] = math.sqrt(variance) * draw.standard_normal()
        variance = omega + alpha * returns[day] ** 2 + beta * variance
    return returns


def market(
    returns: dict[str, Any], *, kind: TargetKind = "variance", log: bool = True, horizon: int = 5
) -> SampleTable:
    """A bar and a forecast a day, the forecast half a day before the bar; the target starts a bar later."""
    bars: list[Bar] = []
    samples: list[Sample] = []
    days = max(len(values) for values in returns.values())
    for day in range(days):
        for entity, values in returns.items():
            if day >= len(values):
                continue
            bars.append((entity, 10 * day, None if values[day] is None else float(values[day])))
            future = [float(x) for x in values[day + 1 : day + 1 + horizon] if x is not None]
            y = None
            if len(future) == horizon:
                total = sum(x * x for x in future) if kind == "variance" else sum(future)
                if kind == "direction":
                    y = math.copysign(1.0, total)
                else:
                    y = math.log(total) if kind == "variance" and log else total
            samples.append((entity, 10 * day - 5, y, None if y is None else 10 * (day + horizon)))
    return table_of(samples, bars, kind=kind, log=log, horizon=horizon)


def rows_known_by(table: SampleTable, fit_time: int) -> np.ndarray:
    return np.flatnonzero(table.label_times <= fit_time)


def by_loop(returns: np.ndarray, params: Any, horizon: int, skipped: int) -> float:
    """Expected variance after all of `returns`, in a loop, on arch's own scale of per cent."""
    percent = [100 * float(x) for x in returns]
    mu, omega, alpha, beta = (float(params[key]) for key in ("mu", "omega", "alpha[1]", "beta[1]"))
    return_mean = sum(percent) / len(percent)
    first = [(x - return_mean) ** 2 for x in percent[:75]]
    weights = [0.94**age for age in range(len(first))]
    start = sum(w * x for w, x in zip(weights, first, strict=True)) / sum(weights)
    variance = omega + (alpha + beta) * start
    for x in percent:
        variance = omega + alpha * (x - mu) ** 2 + beta * variance
    ahead = [variance]
    while len(ahead) < skipped + horizon:
        ahead.append(omega + (alpha + beta) * ahead[-1])
    return sum(ahead[skipped:]) / 1e4


def test_equals_arch_run_directly() -> None:
    returns = {"A": garch_returns(700, 1, *TRUTH), "B": 2 * garch_returns(700, 2, 4e-6, 0.05, 0.9)}
    table = market(returns)
    fit_time = 5000
    rows = rows_known_by(table, fit_time)
    model = GarchBaseline().fit(table, rows)
    residuals = []
    for entity in "AB":
        known = returns[entity][: fit_time // 10 + 1]  # the bar at the cutoff is known at the fit
        result = arch_model(100 * known, mean="Constant", vol="GARCH", p=1, q=1).fit(disp="off")
        found = model.parameters_[entity]
        assert found.mean == pytest.approx(result.params["mu"] / 100, rel=1e-9)
        assert found.omega == pytest.approx(result.params["omega"] / 1e4, rel=1e-9)
        assert (found.alpha, found.beta) == pytest.approx(tuple(result.params[["alpha[1]", "beta[1]"]]))
        # Its own several-step forecast behind the last known bar.
        ahead = result.forecast(horizon=6, reindex=False).variance.to_numpy()[-1]
        after = np.flatnonzero(
            (table.samples["entity"] == entity).to_numpy() & (table.forecast_times == 5005)
        )
        forecast = model.predict(table, after)[0]
        assert forecast == pytest.approx(model.intercept_ + math.log(sum(ahead[1:]) / 1e4), rel=1e-7)
        assert forecast == pytest.approx(
            model.intercept_ + math.log(by_loop(known, result.params, 5, 1)), rel=1e-9
        )
        # The recursion over the training span is arch's conditional volatility, one bar on.
        filtered = np.sqrt(next_variances(known, found))
        np.testing.assert_allclose(filtered[:-1] * 100, result.conditional_volatility[1:], rtol=1e-8)
        members = [row for row in rows.tolist() if table.samples["entity"][row] == entity]
        for row in members[200::37]:
            seen = returns[entity][: (int(table.forecast_times[row]) + 5) // 10]
            start = model.parameters_[entity]
            expected = math.log(_loop_with(seen, start, 5, 1))
            assert model.predict(table, np.array([row]))[0] - model.intercept_ == pytest.approx(
                expected, rel=1e-9
            )
        residuals.append(
            table.outcomes[members] - (model.predict(table, np.array(members)) - model.intercept_)
        )
    # The first row of each entity sees no bar and is left out of the level.
    assert model.notes()["training rows without a visible return"] == 2
    level = np.concatenate([part[1:] for part in residuals]).mean()
    assert model.intercept_ == pytest.approx(level, rel=1e-9)


def _loop_with(seen: np.ndarray, p: GarchParameters, horizon: int, skipped: int) -> float:
    variance = p.omega + (p.alpha + p.beta) * p.start
    for x in seen.tolist():
        variance = p.omega + p.alpha * (x - p.mean) ** 2 + p.beta * variance
    total = 0.0
    for session in range(skipped + horizon):
        total += variance if session >= skipped else 0.0
        variance = p.omega + (p.alpha + p.beta) * variance
    return total


def test_recursion_and_horizon_by_hand() -> None:
    p = GarchParameters(mean=0.1, omega=1.0, alpha=0.25, beta=0.5, start=4.0)
    # s_1 = 1 + 0.75 * 4 = 4; after r = 2.1: 1 + 0.25 * 4 + 0.5 * 4 = 4; after r = 0.1: 1 + 0 + 2 = 3.
    returns = np.array([np.nan, 2.1, np.nan, 0.1])
    np.testing.assert_allclose(next_variances(returns, p), [np.nan, 4.0, 4.0, 3.0], rtol=1e-12)
    # From 3: 1 + 0.75 * 3 = 3.25, then 3.4375.
    assert horizon_variance(np.array([3.0]), p, 2, 1).tolist() == [3.25 + 3.4375]
    assert horizon_variance(np.array([3.0, np.nan]), p, 3, 0)[0] == 3.0 + 3.25 + 3.4375
    assert np.isnan(horizon_variance(np.array([np.nan]), p, 3, 0)).all()
    level = p.omega / (1 - p.persistence)
    closed = sum(level + p.persistence**k * (3.0 - level) for k in range(1, 8))
    assert horizon_variance(np.array([3.0]), p, 7, 1)[0] == pytest.approx(closed, rel=1e-12)
    unit = GarchParameters(0.0, 0.5, 0.3, 0.7, 1.0)
    assert horizon_variance(np.array([2.0]), unit, 2, 0)[0] == pytest.approx(2.0 + 2.5)
    assert backcast(np.array([1.0, 2.0])) == pytest.approx((1 + 0.94 * 4) / 1.94)


def test_a_level_is_scaled_by_the_training_means() -> None:
    table = market({"A": garch_returns(600, 3, *TRUTH)}, log=False)
    rows = rows_known_by(table, 4000)
    model = GarchBaseline().fit(table, rows)
    seen = rows[1:]
    raw = [
        _loop_with(np.array(table.bars_by_entity["A"][1][:row]), model.parameters_["A"], 5, 1) for row in seen
    ]
    assert model.slope_ == pytest.approx(table.outcomes[seen].mean() / np.mean(raw), rel=1e-9)
    np.testing.assert_allclose(model.predict(table, seen), model.slope_ * np.array(raw), rtol=1e-9)
    assert model.slope_ == pytest.approx(1.0, abs=0.1)


def test_the_level_of_a_logarithm() -> None:
    # Independent normal returns: E log(sum of 5 squares) = log(2 s^2) + digamma(5/2), s^2 the variance.
    draw = np.random.default_rng(4)
    table = market({name: 0.01 * draw.standard_normal(1500) for name in "ABC"})
    model = GarchBaseline().fit(table, rows_known_by(table, 14_000))
    assert model.intercept_ == pytest.approx(digamma(2.5) + math.log(2 / 5), abs=0.05)


def test_returns_and_directions_by_formula() -> None:
    returns = garch_returns(500, 5, *TRUTH) + 0.002
    rows = np.arange(3, 400)
    for kind in ("return", "direction"):
        table = market({"A": returns}, kind=kind)  # type: ignore[arg-type]
        model = GarchBaseline().fit(table, rows)
        p = model.parameters_["A"]
        forecasts = model.predict(table, np.array([0, 450]))
        variance = _loop_with(returns[:450], p, 5, 1)
        expected = 5 * p.mean if kind == "return" else math.erf(5 * p.mean / math.sqrt(2 * variance))
        assert forecasts[1] == pytest.approx(expected, rel=1e-9)
        # Nothing is visible at the first forecast.
        assert forecasts[0] == (0.0 if kind == "return" else table.outcomes[rows].mean())


def test_who_falls_back_is_named() -> None:
    long, flat = garch_returns(400, 6, *TRUTH), np.full(400, 0.001)
    late = [None] * 250 + garch_returns(150, 7, *TRUTH).tolist()
    table = market({"A": long, "FLAT": flat, "LATE": late, "NEW": [None] * 400})
    # NEW has no labels; a forecast for it is still asked for below.
    rows = rows_known_by(table, 3500)
    model = GarchBaseline(min_returns=200).fit(table, rows)
    assert model.notes() == {
        "entities with a model": 1,
        "entities on the EWMA fallback": {
            "FLAT": "its returns never change",
            "LATE": "101 returns are known at the fit, fewer than 200",
            "NEW": "0 returns are known at the fit, fewer than 200",
        },
        # The first of A and of FLAT, and two of LATE: the day of its first return, and the day before.
        "training rows without a visible return": 4,
    }
    last = {e: int(np.flatnonzero((table.samples["entity"] == e).to_numpy())[-1]) for e in ("LATE", "NEW")}
    weights = 0.94 ** np.arange(149)
    spread = (weights * np.array(late[250:399][::-1]) ** 2).sum() / weights.sum()
    forecasts = model.predict(table, np.array([last["LATE"], last["NEW"]]))
    assert forecasts[0] == pytest.approx(model.intercept_ + math.log(5 * spread), rel=1e-9)
    assert forecasts[1] == model.empty_ == table.outcomes[rows].mean()


@pytest.mark.parametrize(("tick", "known"), [(0, True), (1, False)])
def test_the_bar_at_the_cutoff_is_the_last_that_is_estimated_on(tick: int, known: bool) -> None:
    returns = garch_returns(300, 8, *TRUTH)
    bars: list[Bar] = [("A", 10 * day, float(x)) for day, x in enumerate(returns)]
    bars.append(("A", 3000 + tick, 0.2))
    table = table_of([("A", 2500, -8.0, 3000), ("A", 2600, -8.1, 2900)], bars)
    model = GarchBaseline().fit(table, np.array([0, 1]))
    expected = estimate(np.append(returns, 0.2) if known else returns)
    assert model.parameters_["A"] == expected


@pytest.mark.parametrize(("tick", "visible"), [(-1, True), (0, False), (1, False)])
def test_a_bar_available_at_the_forecast_is_too_late(tick: int, visible: bool) -> None:
    returns = garch_returns(300, 9, *TRUTH)
    bars: list[Bar] = [("A", 10 * day, float(x)) for day, x in enumerate(returns)]
    bars.append(("A", 5000 + tick, 0.2))
    table = table_of([("A", 2500, -8.0, 3000), ("A", 5000, None, None)], bars)
    model = GarchBaseline().fit(table, np.array([0]))
    seen = np.append(returns, 0.2) if visible else returns
    expected = model.intercept_ + math.log(_loop_with(seen, model.parameters_["A"], 5, 1))
    assert model.predict(table, np.array([1]))[0] == pytest.approx(expected, rel=1e-9)


def test_nobody_has_a_model() -> None:
    with pytest.raises(ForecasterError, match=r"none of 2 training entities has a model.*lower min_returns"):
        GarchBaseline().fit(market({"A": np.ones(300) * 0.01, "B": np.ones(300) * 0.02}), np.arange(20))
    with pytest.raises(ForecasterError, match="fewer than 250"):
        GarchBaseline().fit(table_of([("A", 5, 1.0, 20)], [("A", 0, 0.1)]), np.array([0]))
    with pytest.raises(ForecasterError, match="it has no bars"):
        GarchBaseline().fit(table_of([("A", 5, 1.0, 20)]), np.array([0]))


@pytest.mark.parametrize(
    "parameters", [{"min_returns": 9}, {"min_returns": 2.5}, {"skipped": -1}, {"skipped": True}]
)
def test_impossible_parameters(parameters: dict[str, Any]) -> None:
    with pytest.raises(ForecasterError, match=next(iter(parameters))):
        GarchBaseline(**parameters).fit(market({"A": [0.1] * 30}), np.arange(2))


def test_returns_so_wild_that_nothing_can_be_estimated() -> None:
    wild = np.tile([1e200, -1e200, 1e-200], 100)
    found = estimate(wild)
    assert isinstance(found, str)


def losses(returns: dict[str, np.ndarray]) -> np.ndarray:
    """Squared errors of the mean less those of the GARCH, at test times a horizon apart."""
    table = market(returns)
    fit_time = 10 * 1500
    rows = rows_known_by(table, fit_time)
    test = np.flatnonzero((table.forecast_times > fit_time) & np.isfinite(table.outcomes))
    test = test[(table.forecast_times[test] // 10) % 5 == 0]
    one, other = (
        model.fit(table, rows).predict(table, test) - table.outcomes[test]
        for model in (MeanBaseline(), GarchBaseline())
    )
    return one**2 - other**2


def t_statistic(gains: np.ndarray) -> float:
    return float(gains.mean() / (gains.std(ddof=1) / math.sqrt(gains.size)))


def test_it_beats_the_mean_where_volatility_clusters() -> None:
    gains = losses({name: garch_returns(3000, 20 + ord(name), 2e-6, 0.12, 0.86) for name in "ABC"})
    assert gains.size > 800
    assert t_statistic(gains) > 4


def test_it_does_not_where_volatility_is_constant() -> None:
    draw = np.random.default_rng(11)
    assert t_statistic(losses({name: 0.01 * draw.standard_normal(3000) for name in "ABC"})) < 2
