"""Hostile text in every place where text from outside is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from quantattn.report import render_report
from tests.report.conftest import MakeRun
from tests.report.page_reader import Page, read_page
from tests.report.synthetic import read, write

ATTACKS = (
    "<script>alert(1)</script>",
    "</script></style></title></svg></pre><img src=x onerror=alert(1)>",
    "\" onmouseover=alert(1) x='",
    "' onfocus='alert(1)",
    "<!-- ]]> --> &amp; {{ 7 * 7 }} {% raw %}",
)


def _attack(run: Path, attack: str) -> list[str]:
    """Put a marked attack into every free text of a run; give the marks that must be seen."""

    def marked(name: str) -> str:
        marks.append(f"{name}:{attack}")
        return marks[-1]

    marks: list[str] = []
    model = marked("model")

    findings = read(run / "findings.json")
    findings["headline"] = marked("headline")
    findings["findings"][1] = marked("finding")
    write(run / "findings.json", findings)

    metrics = _renamed(read(run / "metrics.json"), "ewma", model)
    metrics["study"] = marked("study")
    metrics["target"].update(name=marked("target"), description=marked("description"))
    metrics["models"][0]["metrics"][marked("metric")] = {"value": 1.5}
    write(run / "metrics.json", metrics)

    comparisons = _renamed(read(run / "comparisons.json"), "ewma", model)
    comparisons["loss"] = marked("loss")
    comparisons["pairwise"][0].update(verdict=marked("verdict"), reason=marked("reason"))
    comparisons["non_inferiority"]["margin_rule"] = marked("rule")
    comparisons["model_confidence_set"]["reason"] = marked("set")
    write(run / "comparisons.json", comparisons)

    latency = read(run / "latency.json")
    latency["machine"].update(cpu=marked("cpu"), os=marked("os"))
    latency["curve"].append({**latency["curve"][0], "model": marked("curve")})
    write(run / "latency.json", latency)

    audit = read(run / "audit.json")
    audit["checks"][0].update(
        title=marked("check"),
        summary=marked("summary"),
        coverage={marked("covered"): 0.5},
        evidence={
            marked("key"): marked("value"),
            "list": [marked("item")],
            "rows": [{marked("head"): marked("cell")}],
            "deep": {"deeper": {marked("leaf"): marked("leaf value")}},
        },
    )
    write(run / "audit.json", audit)

    manifest = read(run / "manifest.json")
    manifest.update(
        quantattn=marked("version"),
        created=marked("created"),
        command=[marked("command"), "--out"],
        threads={marked("pool"): marked("threads")},
        study_hash=marked("study hash"),
        code_hash=marked("code hash"),
        data={marked("file"): marked("digest")},
        versions={marked("package"): marked("package version")},
        ingested={
            marked("ingested"): {
                "format": marked("format"),
                "options": {marked("option"): marked("setting")},
                "rejected": {"duplicate": 2},
                "notes": ["kept in the manifest alone"],
            }
        },
        caveats=[marked("caveat")],
        stages=[{"stage": marked("stage"), "seconds": 1.0}],
        samples={"n": 1, "dropped": {marked("drop"): 1}},
        events={"n": 1, "by_kind": {marked("kind"): 1}, "rejected": {marked("reject"): 1}},
    )
    manifest["machine"]["cpu"] = marked("machine")
    manifest["folds"][0]["purged"][0]["side"] = marked("side")
    write(run / "manifest.json", manifest)

    (run / "study.yaml").write_text(marked("yaml"), encoding="utf-8")
    path = run / "forecasts.parquet"
    pl.read_parquet(path).with_columns(
        pl.col("model").replace({"ewma": model}), entity=pl.lit(attack), study=pl.lit(attack)
    ).write_parquet(path)
    return marks


def _renamed(value: Any, old: str, new: str) -> Any:
    """Give a JSON value with a string replaced wherever it stands, keys included."""
    if isinstance(value, dict):
        return {_renamed(k, old, new): _renamed(v, old, new) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed(v, old, new) for v in value]
    return new if value == old else value


def _everything(page: Page) -> str:
    """Give all text and all attribute values, white space folded."""
    attributes = (value for e in page.elements for value in e.attributes.values())
    return " ".join(" ".join([*(e.text for e in page.elements), *attributes]).split())


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_text_is_text(make_run: MakeRun, variance_page: Page, attack: str) -> None:
    run = make_run()
    marks = _attack(run, attack)
    page = read_page(render_report(run))
    assert page.faults == []
    # No element, attribute or class that an honest page does not have.
    assert {e.tag for e in page.elements} == {e.tag for e in variance_page.elements}
    for kind in ("attributes", "classes"):
        assert _kinds(page, kind) <= _kinds(variance_page, kind) | {"m-other-1", "m-other-2"}
    # And all of it is there to be read, unchanged.
    everything = _everything(page)
    shown_as_words = {mark.replace("_", " ") for mark in marks}
    missing = [mark for mark in shown_as_words if " ".join(mark.split()) not in everything]
    assert missing == []


def _kinds(page: Page, kind: str) -> set[str]:
    if kind == "attributes":
        return {name for e in page.elements for name in e.attributes}
    return {css for e in page.elements for css in e.attributes.get("class", "").split()}


def test_control_characters_become_visible(make_run: MakeRun) -> None:
    run = make_run()
    findings = read(run / "findings.json")
    findings["headline"] = "gain \u202e%05\u202c, \x1b[31mred\x07, zero\x00, \u2066hidden\u2069"
    write(run / "findings.json", findings)
    html = render_report(run)
    assert not {"\u202e", "\u202c", "\u2066", "\u2069", "\x1b", "\x07", "\x00"} & set(html)
    headline = read_page(html).all("h1")[0].text
    assert headline == "gain \ufffd%05\ufffd, \ufffd[31mred\ufffd, zero\ufffd, \ufffdhidden\ufffd"


def test_long_names_are_shortened_in_plots_and_whole_in_tables(make_run: MakeRun) -> None:
    run = make_run(models=("linear", "softmax", "mean", "m" * 200))
    page = read_page(render_report(run))
    drawn = [e.text for e in page.all("text") if "mmm" in e.text]
    assert drawn
    assert all("…" in text and len(text) < 100 for text in drawn)
    assert page.table("Quality of the test forecasts")[4][0].startswith("m" * 200)
