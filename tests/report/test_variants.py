"""Studies that lack something in a legal way still give a whole page, and say what they lack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from quantattn.report import render_report
from tests.report.conftest import MakeRun
from tests.report.page_reader import Page, machine_words, read_page
from tests.report.synthetic import read, write


def _page(run: Path) -> Page:
    page = read_page(render_report(run))
    assert page.faults == []
    assert machine_words(page) == []
    return page


RETURN_MODELS = ("linear", "softmax", "mean", "ewma", "gradient_boosting")


def test_return_study_shows_hit_rates_and_the_direction_test(make_run: MakeRun) -> None:
    page = _page(make_run(kind="return", models=RETURN_MODELS, audit="INCOMPLETE", seeds=(0, 1)))
    head, linear, *_ = page.table("Quality of the test forecasts")
    assert head[1:] == [
        "R² out of sample",
        "MSE × 10⁻³",
        "MAE × 10⁻³",
        "IC",
        "Rank IC",
        "Hit rate %",
        "PT p value",
    ]
    assert linear[1:3] == ["★best: 0.0004 −0.0009 to 0.0017", "★best: 1.40 1.29 to 1.51"]
    assert linear[6:] == ["52.1 51.0 to 53.2", "0.214"]
    (strip,) = page.all("dl", "strip")
    assert "Hit rate Linear attention 52.1 % 51.0 to 53.2 %" in strip.text
    assert "R² HAR" not in strip.text
    assert "○ INCOMPLETE 4 of 5 checks passed" in strip.text
    audit = page.by_id("audit").text
    assert "With anything unexercised, an audit cannot say PASS." in audit
    assert "○ NOT EXERCISED No gradient flows from a forecast to later tokens" in audit
    seeds = page.table("The same models trained with several seeds")
    assert [row[:2] for row in seeds[1:]] == [
        ["Linear attention", "0"],
        ["Linear attention", "1"],
        ["Softmax attention", "0"],
        ["Softmax attention", "1"],
    ]
    assert page.table("Paired differences")[1][3] == "−1.8 to −1.5"


def test_direction_study(make_run: MakeRun) -> None:
    page = _page(make_run(kind="direction", models=RETURN_MODELS))
    assert "direction of the next 5 sessions" in page.by_id("answer").text


def test_study_without_twin_latency_validation_intervals_and_with_one_fold_and_entity(
    make_run: MakeRun,
) -> None:
    page = _page(
        make_run(
            models=("linear", "har"),
            entities=("SPX",),
            folds=1,
            latency=False,
            non_inferiority=False,
            validation=False,
            intervals=False,
            audit="FAIL",
        )
    )
    head = page.by_id("answer").text
    assert "forecast better than plain baselines" in head
    assert "104 per model: 104 forecast times, 1 entity" in head
    (strip,) = page.all("dl", "strip")
    assert strip.text == (
        "R² Linear attention 0.487 R² HAR regression 0.478 Leakage audit ✗ FAIL 4 of 5 checks passed"
    )
    # One entity has no cross-section: the correlations are left out.
    assert page.table("Quality of the test forecasts")[0] == [
        "Model",
        "R² out of sample",
        "MSE",
        "MAE",
        "QLIKE",
        "Coverage %",
    ]
    assert "No non-inferiority test was made in this study." in page.by_id("comparisons").text
    assert page.by_id("latency").text == "Latency and training time Latency was not measured in this run."
    assert page.table("Spans of forecast times")[1][2] == "no validation"
    assert "Failed: “Nothing at or after the forecast time was read”." in page.by_id("audit").text


def _change(run: Path, name: str, **values: Any) -> None:
    content = read(run / name)
    content.update(values)
    write(run / name, content)


def test_everything_undefined(make_run: MakeRun) -> None:
    """Every figure that may be null is null."""
    run = make_run(folds=2)
    metrics = read(run / "metrics.json")
    for model in metrics["models"]:
        model["metrics"] = {name: {"value": None, "low": None, "high": None} for name in model["metrics"]}
        model["by_seed"] = []
        for fold in model["by_fold"]:
            fold["metrics"] = dict.fromkeys(fold["metrics"])
    write(run / "metrics.json", metrics)
    comparisons = read(run / "comparisons.json")
    empty = ("mean_difference", "low", "high", "dm_statistic", "p_value")
    for pair in comparisons["pairwise"]:
        pair.update(dict.fromkeys(empty), hac_lags=None, reason="5 forecast times are too few")
    comparisons["non_inferiority"].update(
        dict.fromkeys(("difference", "lower", "upper", "p_value")),
        reason="5 forecast times are too few",
        non_inferior=False,
        equivalent=False,
    )
    comparisons["model_confidence_set"] = None
    comparisons["cumulative_loss_difference"] = []
    write(run / "comparisons.json", comparisons)
    latency = read(run / "latency.json")
    for entry in latency["curve"] + latency["backtest"]:
        entry.update(read_us=None, update_us={"p50": None, "p95": None, "p99": None})
    for entry in latency["training"]:
        entry["seconds"] = None
    latency["crossover_history"] = None
    write(run / "latency.json", latency)
    _change(
        run,
        "manifest.json",
        folds=[],
        caveats=[],
        events=None,
        samples=None,
        stages=[],
        peak_memory_gib=None,
        machine={},
    )
    frame = pl.read_parquet(run / "forecasts.parquet")
    nothing = {
        "y_true": pl.lit(None, pl.Float64),
        "max_available_at": pl.lit(None, frame.schema["max_available_at"]),
    }
    frame.with_columns(n_visible=pl.lit(0, pl.Int64), **nothing).write_parquet(run / "forecasts.parquet")

    page = _page(run)
    assert page.all("figure") == []
    assert page.table("Quality of the test forecasts")[1] == ["Linear attention"]
    assert page.table("Paired differences")[1] == [
        "Softmax attention",
        "no test possible 5 forecast times are too few",
        "–",
        "–",
        "–",
        "208",
        "–",
    ]
    text = page.text
    assert "Whether linear attention is inferior to softmax attention could not be tested: 5 forecast" in text
    assert "No forecast has a known outcome yet." in text
    assert "The manifest of this run names no folds." in text
    assert "The run names no caveats." in text
    assert page.table("What each model saw")[1][-1] == "–"


def test_single_model(make_run: MakeRun) -> None:
    page = _page(make_run(models=("har",), non_inferiority=False, latency=False))
    assert "which of these models forecasts best?" in page.by_id("answer").text
    assert "This study has nothing to compare" in page.by_id("comparisons").text
    # Nothing is best where there is only one.
    assert "★" not in " ".join(page.table("Quality of the test forecasts")[1])


def test_no_crossover_and_crossover_everywhere(make_run: MakeRun) -> None:
    never = _page(make_run("never", crossover=None)).by_id("latency").text
    assert "From 64 to 16,384 events of history, no length was found from which linear attention" in never
    always = _page(make_run("always", crossover=64)).by_id("latency").text
    assert "Linear attention is faster than softmax attention at every length measured" in always
    some = _page(make_run("some", crossover=256)).by_id("latency").text
    assert "From 256 events of history on, linear attention is faster than softmax attention." in some
    assert "crossover 256" in some
    assert "crossover 256" not in never


def test_latency_curve_at_one_length_and_a_zero_reading(make_run: MakeRun) -> None:
    run = make_run()
    latency = read(run / "latency.json")
    latency["curve"] = [entry for entry in latency["curve"] if entry["history"] == 64]
    latency["curve"][0]["read_us"] = {"p50": 0.0, "p95": 0.0, "p99": 0.0}
    write(run / "latency.json", latency)
    page = _page(run)
    labels = [" ".join(e.attributes.get("aria-label", "").split()) for e in page.all("svg")]
    alt = next(label for label in labels if label.startswith("Latency against"))
    assert "Read: one forecast from the history: Softmax attention 32.4 µs at 64 events." in alt
    assert "Update: one more event: Linear attention 83.0 µs at 64 events" in alt


def test_a_disastrous_fold_does_not_flatten_the_others(make_run: MakeRun) -> None:
    run = make_run()
    metrics = read(run / "metrics.json")
    metrics["models"][0]["by_fold"][2]["metrics"]["r2_oos"] = -250.0
    write(run / "metrics.json", metrics)
    page = _page(run)
    assert page.table("Out-of-sample R², pooled and by fold")[4][1].startswith("−250")
    notes = [e.text for e in page.all("title") if e.text.startswith("Linear attention: −250")]
    assert len(notes) == 2  # the arrow in the wide and in the narrow drawing
    centres = [float(e.attributes["cx"]) for e in page.all("circle") if "cx" in e.attributes]
    assert min(centres) >= 0


def test_unknown_metrics_and_models_are_shown(make_run: MakeRun) -> None:
    run = make_run(models=("linear", "softmax", "mean", "my_model"))
    metrics = read(run / "metrics.json")
    metrics["models"][0]["metrics"]["pinball"] = {"value": 0.125, "low": 0.12, "high": 0.13}
    write(run / "metrics.json", metrics)
    rows = _page(run).table("Quality of the test forecasts")
    assert rows[0][-1] == "pinball"
    assert rows[1][-1] == "0.1250 0.1200 to 0.1300"
    assert rows[4][0].startswith("my_model")


def test_long_findings_are_set_below_each_other(make_run: MakeRun) -> None:
    run = make_run()
    _change(run, "findings.json", findings=["word " * 60, "b", "c"])
    assert len(_page(run).all("ol", "long")) == 1
    _change(run, "findings.json", findings=[])
    assert _page(run).all("ol") == []


def test_single_forecast_time(make_run: MakeRun) -> None:
    run = make_run(folds=1, years=1, entities=("A",))
    path = run / "forecasts.parquet"
    frame = pl.read_parquet(path)
    frame.filter(pl.col("forecast_time") == pl.col("forecast_time").min()).write_parquet(path)
    comparisons = read(run / "comparisons.json")
    first = comparisons["cumulative_loss_difference"][0]
    comparisons["cumulative_loss_difference"] = [first]
    write(run / "comparisons.json", comparisons)
    manifest = read(run / "manifest.json")
    moment = first["forecast_time"]
    manifest["folds"][0].update(dict.fromkeys(("train_start", "train_end", "test_start", "test_end"), moment))
    manifest["folds"][0].update(validation_start=None, validation_end=None, purged=[])
    write(run / "manifest.json", manifest)
    page = _page(run)
    assert [row[0] for row in page.table("Cumulative loss difference")] == ["Up to", "8 Jan 2010"]


@pytest.mark.parametrize("extreme", [5e-324, 1e-300, 1e300, 1e17, -1e300])
def test_extreme_figures_still_give_a_page(make_run: MakeRun, extreme: float) -> None:
    run = make_run(folds=1, years=1, entities=("A",))
    metrics = read(run / "metrics.json")
    for estimate in metrics["models"][1]["metrics"].values():
        estimate.update(value=extreme, low=extreme, high=extreme)
    write(run / "metrics.json", metrics)
    comparisons = read(run / "comparisons.json")
    comparisons["pairwise"][0].update(mean_difference=extreme, low=extreme, high=extreme)
    comparisons["non_inferiority"].update(difference=extreme, lower=extreme, upper=extreme)
    comparisons["cumulative_loss_difference"][3]["value"] = extreme
    write(run / "comparisons.json", comparisons)
    latency = read(run / "latency.json")
    latency["curve"][0]["read_us"] = dict.fromkeys(("p50", "p95", "p99"), extreme)
    latency["training"][0]["seconds"] = extreme
    write(run / "latency.json", latency)
    _page(run)


@pytest.mark.parametrize("folds", [1, 17])
def test_few_and_many_folds(make_run: MakeRun, folds: int) -> None:
    page = _page(make_run(models=("linear", "softmax"), entities=("A",), folds=folds, years=1))
    assert len(page.table("Spans of forecast times")) == 1 + folds


def test_a_reduced_study_says_so_first(make_run: MakeRun) -> None:
    run = make_run()
    assert _page(run).all("p", "banner") == []
    _change(run, "manifest.json", quick=True)
    (banner,) = _page(run).all("p", "banner")
    # Without a start in the study, the training starts on the first fold's first day.
    assert banner.text == (
        "Reduced study (--quick): 4 instruments from 7 Jan 2000 on; for a first look, not for conclusions"
    )
    (run / "study.yaml").write_text("data:\n  start: 2011-02-03\n", encoding="utf-8")
    assert "4 instruments from 3 Feb 2011 on;" in _page(run).by_id("answer").text


@pytest.mark.parametrize(
    ("interval", "head"),
    [("0.9", "Coverage %, nominal 90 %"), ("0.975", "Coverage %, nominal 97.5 %"), ("no", "Coverage %")],
)
def test_coverage_stands_beside_its_nominal_level(make_run: MakeRun, interval: str, head: str) -> None:
    run = make_run()
    (run / "study.yaml").write_text(f"training:\n  interval: {interval}\n", encoding="utf-8")
    assert _page(run).table("Quality of the test forecasts")[0][-1] == head


@pytest.mark.parametrize(
    "text", ["", "[", "- 1", "training: 3", "a: 2020-99-99", "training: {interval: 2.0}"]
)
def test_a_study_that_tells_nothing_adds_nothing(make_run: MakeRun, text: str) -> None:
    run = make_run()
    (run / "study.yaml").write_text(text, encoding="utf-8")
    assert _page(run).table("Quality of the test forecasts")[0][-1] == "Coverage %"


def test_refused_events_stand_among_the_facts(make_run: MakeRun) -> None:
    run = make_run()
    assert "Refused" not in _page(run).by_id("answer").text
    manifest = read(run / "manifest.json")
    manifest["events"]["rejected"] = {"duplicate": 5, "naive_time": 1500, "empty": 0}
    write(run / "manifest.json", manifest)
    said = "Refused 1,505 rows of events refused (naive_time 1,500, duplicate 5)"
    assert said in _page(run).by_id("answer").text


def test_the_best_baseline_is_a_key_figure(make_run: MakeRun) -> None:
    run = make_run()
    metrics = read(run / "metrics.json")
    for entry in metrics["models"]:
        if entry["model"] == "ewma":
            entry["metrics"]["r2_oos"].update(value=0.4793, low=0.46, high=0.49)
    write(run / "metrics.json", metrics)
    (strip,) = _page(run).all("dl", "strip")
    assert "R² EWMA 0.479" in strip.text
    assert "HAR" not in strip.text


def test_latency_says_what_it_holds_and_leaves_out(make_run: MakeRun) -> None:
    run = make_run()
    live = "In the backtest an update is one live call: an event's text and figures encoded, the as-of values"
    alone = "By history length it is the network alone, one encoded event or one forecast of one entity."
    repeats = "Where a history is longer than the entity's own, its events are repeated."
    left_out = "Not in these times: receiving an event and parsing it."
    said = _page(run).by_id("latency").text
    assert [text in said for text in (live, alone, repeats, left_out)] == [True] * 4
    latency = read(run / "latency.json")
    write(run / "latency.json", {**latency, "curve": [], "crossover_history": None})
    said = _page(run).by_id("latency").text
    assert [text in said for text in (live, alone, repeats, left_out)] == [True, False, False, True]
    write(run / "latency.json", {**latency, "backtest": []})
    said = _page(run).by_id("latency").text
    assert [text in said for text in (live, alone, repeats, left_out)] == [False, True, True, True]
    without = _page(make_run("without", latency=False)).by_id("latency").text
    assert "Not in these times" not in without


TWINS = "The twins side by side: the whole live call, and the network's step in it"


def test_twins_are_compared_by_the_live_call_and_by_the_network(make_run: MakeRun) -> None:
    run = make_run()
    assert _page(run).table(TWINS) == [
        ["Median of", "Linear attention", "Softmax attention", "Softmax ÷ linear"],
        ["Read whole live call in the backtest", "41.2 µs", "231 µs", "5.6×"],
        ["Update whole live call in the backtest", "84.0 µs", "390 µs", "4.6×"],
        ["Read network alone at 16,384 events", "41.2 µs", "1.14 ms", "28×"],
        ["Update network alone at 16,384 events", "83.2 µs", "1.86 ms", "22×"],
    ]
    latency = read(run / "latency.json")
    # Of a length that one of them lacks, and of what was not timed, nothing is compared.
    latency["curve"] = [p for p in latency["curve"] if (p["model"], p["history"]) != ("softmax", 16384)]
    for entry in latency["backtest"]:
        entry["update_us"] = None
    latency["backtest"][0]["read_us"] = None
    write(run / "latency.json", latency)
    assert [row[0] for row in _page(run).table(TWINS)[1:]] == [
        "Read whole live call in the backtest",
        "Read network alone at 4,096 events",
        "Update network alone at 4,096 events",
    ]
    assert _page(run).table(TWINS)[1][1:] == ["–", "231 µs", "–"]
    latency["backtest"] = latency["backtest"][:1]
    latency["curve"] = [point for point in latency["curve"] if point["model"] == "linear"]
    write(run / "latency.json", latency)
    assert TWINS not in _page(run).by_id("latency").text


def test_what_the_audit_says_of_the_two_paths_stands_beside_the_latencies(make_run: MakeRun) -> None:
    run = make_run()
    assert "batch path" not in _page(run).by_id("latency").text
    audit = read(run / "audit.json")
    said = "the batch path gives the same to within 4.8e-07, at most 3% of it (fold 0 linear seed 0)."
    evidence = [
        {"model": "linear", "fold": 0, "seed": 0, "forecasts": 3920, "largest": 4.8e-07}
        | {"where": "GE 2022-08-26T19:45:00Z", "tolerance": 1.7e-05, "rounding": 2.6e-07}
    ]
    audit["checks"].append(
        {
            "name": "streaming",
            "title": "Do the two paths agree?",
            "verdict": "PASS",
            "summary": said,
            "coverage": {"forecasts compared with the batch path": 1.0},
            "evidence": {"by network": evidence},
        }
    )
    write(run / "audit.json", audit)
    page = _page(run)
    for section in ("latency", "audit"):
        assert said.replace("fold 0", "fold 1") in page.by_id(section).text
    assert page.table("by network") == [
        ["model", "fold", "seed", "forecasts", "largest", "where", "tolerance", "rounding"],
        [
            "linear",
            "1",
            "0",
            "3920",
            "4.800 × 10⁻⁷",
            "GE 2022-08-26T19:45:00Z",
            "1.700 × 10⁻⁵",
            "2.600 × 10⁻⁷",
        ],
    ]


def test_a_crossover_is_marked_only_where_the_curves_cross(make_run: MakeRun) -> None:
    assert "crossover 64" not in _page(make_run("first", crossover=64)).by_id("latency").text
    assert "crossover 65" in _page(make_run("next", crossover=65)).by_id("latency").text


def test_p_values_are_said_not_to_be_adjusted(make_run: MakeRun) -> None:
    note = "The p values are not adjusted for multiple comparisons."
    assert note in _page(make_run()).by_id("comparisons").text


def test_folds_are_counted_from_one_in_the_evidence_too(make_run: MakeRun) -> None:
    run = make_run()
    audit = read(run / "audit.json")
    audit["checks"][0].update(summary="Of fold 0 and fold 9.", evidence={"fold 2": "early", "fold": 3})
    write(run / "audit.json", audit)
    said = _page(run).by_id("audit").text
    assert "Of fold 1 and fold 10." in said
    assert "fold 3 early" in said
    assert "fold 4" in said


def test_no_line_breaks_between_a_figure_and_its_unit(make_run: MakeRun) -> None:
    run = make_run()
    _change(run, "findings.json", headline="Read in 8.1 µs, 26 % of it, p = 0.010", findings=["30 s each"])
    html = render_report(run)
    assert "Read in 8.1\xa0µs, 26\xa0% of it, p\xa0=\xa00.010" in html
    assert "30\xa0s each" in html
