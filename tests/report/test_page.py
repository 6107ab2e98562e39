"""The page as a reader, a browser and a screen reader meet it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from quantattn.errors import CheckpointError
from quantattn.report import render_report, write_report
from tests.report.conftest import MakeRun
from tests.report.page_reader import Page, machine_words, read_page
from tests.report.synthetic import read, write


def test_is_one_well_formed_document(variance_page: Page) -> None:
    assert variance_page.declaration == "doctype html"
    assert variance_page.faults == []
    assert variance_page.all("html")[0].attributes["lang"] == "en"
    ids = [e.attributes["id"] for e in variance_page.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))


def test_sections_stand_in_reading_order(variance_page: Page) -> None:
    headings = [e.text for e in variance_page.elements if e.tag in ("h1", "h2")]
    assert headings == [
        "Linear attention forecasts 5-session variance as well as its softmax twin, "
        "and trains 2.9 times faster.",
        "Forecast quality",
        "Paired comparisons",
        "Forecasts and outcomes",
        "Latency and training time",
        "Walk-forward folds",
        "Information sets",
        "Leakage audit",
        "Provenance",
    ]


def test_figures_stand_in_reading_order(variance_page: Page) -> None:
    assert [e.attributes["id"] for e in variance_page.all("figure")] == [
        "figure-by-fold",
        "figure-pairwise",
        "figure-non-inferiority",
        "figure-cumulative",
        "figure-scatter",
        "figure-latency",
        "figure-folds",
    ]


def test_question_comes_before_answer_and_findings(variance_page: Page) -> None:
    head = variance_page.by_id("answer").text
    question = head.index("does a causal linear-attention forecaster")
    answer = head.index("Linear attention forecasts 5-session variance")
    first = head.index("Out-of-sample R² is 0.487")
    assert question < answer < first < head.index("R² Linear attention")
    (findings,) = variance_page.all("ol")
    assert "A read takes 41 µs whatever the history" in findings.text


def test_key_figures(variance_page: Page) -> None:
    (strip,) = variance_page.all("dl", "strip")
    assert strip.text == (
        "R² Linear attention 0.487 0.466 to 0.508 "
        "R² Softmax attention 0.485 0.463 to 0.507 "
        "R² HAR regression 0.478 0.456 to 0.500 "
        "Training time, softmax ÷ linear 2.4× 1 min 08 s against 28.5 s "
        "Read latency, linear attention 41.2 µs median in the backtest; softmax 231 µs "
        "Leakage audit ✓ PASS 5 of 5 checks passed"
    )


def test_quality_table_shows_values_intervals_and_the_best(variance_page: Page) -> None:
    head, linear, softmax, *_, mean = variance_page.table("Quality of the test forecasts")
    assert head == ["Model", "R² out of sample", "MSE", "MAE", "QLIKE", "IC", "Rank IC", "Coverage %"]
    assert linear[:3] == [
        "Linear attention in MCS, p 1.000",
        "★best: 0.487 0.466 to 0.508",
        "★best: 0.511 0.480 to 0.542",
    ]
    assert softmax[1] == "0.485 0.463 to 0.507"
    # The benchmark's R² is zero by definition, and it has no correlation.
    assert mean == [
        "Historical mean not in MCS, p 0.004",
        "0.000",
        "0.997 0.966 to 1.028",
        "0.801 0.783 to 0.819",
        "0.612 0.590 to 0.634",
        "–",
        "–",
        "95.7 95.1 to 96.3",
    ]


def test_comparisons_speak_in_words(variance_page: Page) -> None:
    rows = variance_page.table("Paired differences in squared error")
    assert rows[0][0] == "Linear attention against"
    assert [row[:2] for row in rows[1:]] == [
        ["Softmax attention", "no difference found"],
        ["HAR regression", "Linear attention better"],
        ["Gradient boosting", "Linear attention better"],
        ["EWMA", "Linear attention better"],
        ["Historical mean", "Linear attention better"],
    ]
    assert rows[1][2:] == ["−0.0021 −0.0064 to +0.0022", "−0.96", "0.338", "520", "6"]
    assert rows[5][4] == "< 0.001"
    assert len(variance_page.table("The other pairs")) == 1 + 10


def test_non_inferiority_is_said_and_drawn(variance_page: Page) -> None:
    section = variance_page.by_id("comparisons").text
    assert "Linear attention is not inferior to softmax attention; the two are equivalent" in section
    assert "Margin 0.0103 in squared error: 2 % of the softmax twin's mean squared error" in section
    figure = variance_page.by_id("figure-non-inferiority").text
    assert "−margin" in figure
    assert "+margin" in figure


def test_folds_information_sets_and_audit(variance_page: Page) -> None:
    folds = variance_page.table("Spans of forecast times")
    assert folds[1] == [
        "Fold 1",
        "7 Jan 2000 to 19 Dec 2008 1,872 rows",
        "2 Jan 2009 to 25 Dec 2009 208 rows",
        "just before 8 Jan 2010, 20:45 UTC",
        "8 Jan 2010 to 30 Dec 2011 416 rows",
        "8 4 train, 4 validation",
    ]
    seen = variance_page.table("What each model saw")
    assert seen[2] == ["Softmax attention", "2,080", "2,080 of 2,080", "2,500", "3,795", "5,095", "23.7 h"]
    audit = variance_page.by_id("audit").text
    assert audit.startswith("Leakage audit ✓ PASS All 5 checks passed.")
    assert "forecast times 4.8 %" in audit


def test_provenance_names_data_code_and_caveats(variance_page: Page) -> None:
    text = variance_page.by_id("provenance").text
    assert "Survivorship: the 20 stocks are large caps" in text
    assert "3f" * 32 in text
    assert "quantattn run --out runs/market-history" in text
    assert "Run of 12 Mar 2025, 09:14:02 UTC" in text
    assert variance_page.table("Versions")[1] == ["numpy", "2.4.6"]
    assert 'study: "market-history"' in text


def test_differing_information_sets_show(make_run: MakeRun) -> None:
    run = make_run()
    frame = pl.read_parquet(run / "forecasts.parquet")
    first = frame.filter(model="softmax").sort("forecast_time", "entity").row(0, named=True)
    here = (
        (pl.col("model") == "softmax")
        & (pl.col("entity") == first["entity"])
        & (pl.col("forecast_time") == first["forecast_time"])
    )
    frame.with_columns(info_hash=pl.when(here).then(pl.lit("other")).otherwise("info_hash")).write_parquet(
        run / "forecasts.parquet"
    )
    rows = read_page(render_report(run)).table("What each model saw")
    assert rows[1][2] == "2,080 of 2,080"
    assert rows[2][2] == "2,079 of 2,080"


def test_nothing_is_loaded_from_outside(variance_page: Page, variance_html: str) -> None:
    forbidden = {
        "script",
        "iframe",
        "img",
        "object",
        "embed",
        "form",
        "base",
        "foreignobject",
        "use",
        "image",
    }
    assert forbidden.isdisjoint({e.tag for e in variance_page.elements})
    for element in variance_page.elements:
        for name, value in element.attributes.items():
            assert not name.startswith("on"), element
            if name in ("href", "src", "srcset", "action", "data", "poster", "xlink:href"):
                assert value.startswith("#") or value == "data:,", element
    (style,) = variance_page.all("style")
    assert "url(" not in style.text
    assert "@import" not in style.text
    assert not re.search(r"https?:|//[a-z]", variance_html)
    policy = next(e for e in variance_page.all("meta") if "http-equiv" in e.attributes)
    assert policy.attributes["content"].startswith("default-src 'none'; style-src 'unsafe-inline';")


def test_links_lead_somewhere(variance_page: Page) -> None:
    ids = {e.attributes.get("id") for e in variance_page.elements}
    links = [e.attributes["href"] for e in variance_page.all("a")]
    assert len(links) >= 10
    assert all(link[1:] in ids for link in links)


def test_plots_and_tables_can_be_heard(variance_page: Page) -> None:
    drawings = [e for e in variance_page.all("svg") if "swatch" not in e.attributes["class"]]
    assert len(drawings) == 2 * 7
    for drawing in drawings:
        assert drawing.attributes["role"] == "img"
        assert len(drawing.attributes["aria-label"]) > 40
    for swatch in variance_page.all("svg", "swatch"):
        assert swatch.attributes["aria-hidden"] == "true"
    assert len(variance_page.all("table")) == len(variance_page.all("caption"))
    assert all(e.text for e in variance_page.all("caption"))
    assert all(e.attributes.get("scope") in ("row", "col") for e in variance_page.all("th"))


def test_no_program_words(variance_page: Page) -> None:
    assert machine_words(variance_page) == []


def test_page_is_small(variance_html: str) -> None:
    assert len(variance_html.encode()) < 1_000_000


def test_same_files_give_the_same_bytes_in_any_folder_zone_and_hash_order(
    make_run: MakeRun, variance_html: str
) -> None:
    run = make_run("elsewhere")
    frame = pl.read_parquet(run / "forecasts.parquet")
    frame.sample(fraction=1, shuffle=True, seed=5).write_parquet(run / "forecasts.parquet")
    code = (
        "import sys; from pathlib import Path; from quantattn.report import write_report; "
        "write_report(Path(sys.argv[1]))"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(run)],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo"},
    )
    assert (run / "report.html").read_text(encoding="utf-8") == variance_html


def test_write_report_replaces_the_page_and_leaves_nothing_else(make_run: MakeRun) -> None:
    run = make_run()
    (run / "report.html").write_text("old", encoding="utf-8")
    before = {path.name for path in run.iterdir()}
    path = write_report(run)
    assert path == run / "report.html"
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {p.name for p in run.iterdir()} == before


def test_a_broken_run_leaves_the_old_page(make_run: MakeRun) -> None:
    run = make_run()
    (run / "report.html").write_text("old", encoding="utf-8")
    metrics = read(run / "metrics.json")
    del metrics["models"][0]["metrics"]
    write(run / "metrics.json", metrics)
    with pytest.raises(CheckpointError, match=r"models\.0\.metrics"):
        write_report(run)
    assert (run / "report.html").read_text(encoding="utf-8") == "old"


def _palette(css: str, theme: str) -> dict[str, str]:
    """Give the colours of a theme by their names."""
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[0 if theme == "light" else 1]))


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_page(theme: str) -> None:
    css = (Path(__file__).parents[2] / "quantattn" / "report" / "style.css").read_text(encoding="utf-8")
    colours = _palette(css, theme)
    words = ("ink", "quiet", "link", "pass", "fail", "open")
    # Model colours also write the figures at the ends of lines, so they too must be readable as text.
    models = (
        "linear",
        "softmax",
        "har",
        "gradient-boosting",
        "ewma",
        "mean",
        "other-1",
        "other-2",
        "other-3",
    )
    for name in words + models:
        assert _contrast(colours[name], colours["paper"]) >= 4.5, (name, theme)
    for verdict in ("pass", "fail", "open"):
        assert _contrast(colours[verdict], colours[f"{verdict}-wash"]) >= 4.5, (verdict, theme)
    assert _contrast(colours["purged"], colours["paper"]) >= 3
    assert len({colours[name] for name in models}) == len(models)
