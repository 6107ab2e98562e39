"""The spans of folds: read back from the drawing and held against the folds."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from quantattn.errors import SplitError, UsageError
from quantattn.report import Plot, plot_folds
from quantattn.walkforward import CombinatorialPurged, WalkForward
from tests.report.page_reader import Element, read_page
from tests.walkforward.test_splits import DAY, START, daily, frame


def bars(plot: Plot) -> list[Element]:
    page = read_page(plot.svg)
    assert page.faults == []
    return [e for e in page.elements if e.tag == "rect" and e.text.startswith("Fold")]


def place(bar: Element) -> tuple[float, float]:
    left = float(bar.attributes["x"])
    return left, left + float(bar.attributes["width"])


def four_reasons() -> list[Any]:
    """Train, validation and test with the label rule, an embargo and a further purge on both sides."""
    return WalkForward(40, 10, val_size=16, embargo_size="2D", purged_size=1, reduce_test=True).split(
        daily(90, delay_days=2.5)
    )


def test_every_stretch_of_every_fold_is_a_bar_with_its_words() -> None:
    folds = four_reasons()
    shown = [bar.text for bar in bars(plot_folds(folds))]
    assert len(shown) == sum(len(fold.stretches()) for fold in folds)
    of_the_first = sorted(text for text in shown if text.startswith("Fold 0"))
    # The window of 40 days, and the one more that is purged, lie before the test, which begins on day 41.
    assert of_the_first == [
        "Fold 0, test: 10 rows, 11 Feb 2024, 00:00 UTC to 20 Feb 2024, 00:00 UTC",
        "Fold 0, train, embargo: 2 rows, 21 Jan 2024, 00:00 UTC to 22 Jan 2024, 00:00 UTC",
        "Fold 0, train, purged, further forecast times: 1 row, 20 Jan 2024, 00:00 UTC to 20 Jan 2024, "
        "00:00 UTC",
        "Fold 0, train, purged, the label not known in time: 2 rows, 23 Jan 2024, 00:00 UTC to 24 Jan 2024, "
        "00:00 UTC",
        "Fold 0, train: 19 rows, 1 Jan 2024, 00:00 UTC to 19 Jan 2024, 00:00 UTC",
        "Fold 0, validation, embargo: 2 rows, 7 Feb 2024, 00:00 UTC to 8 Feb 2024, 00:00 UTC",
        "Fold 0, validation, purged, further forecast times: 1 row, 6 Feb 2024, 00:00 UTC to 6 Feb 2024, "
        "00:00 UTC",
        "Fold 0, validation, purged, the label not known in time: 2 rows, 9 Feb 2024, 00:00 UTC to "
        "10 Feb 2024, 00:00 UTC",
        "Fold 0, validation: 12 rows, 25 Jan 2024, 00:00 UTC to 5 Feb 2024, 00:00 UTC",
    ]


def test_bars_are_to_scale_and_lie_on_the_drawing() -> None:
    folds = four_reasons()
    drawn = bars(plot_folds(folds))
    first, last = START, START + 89 * DAY
    test = next(bar for bar in drawn if bar.text.startswith("Fold 0, test"))
    train = next(bar for bar in drawn if bar.text.startswith("Fold 0, train: "))
    left, right = place(test)
    start, _ = place(train)
    assert place(drawn[-1])[1] <= 900
    # Day 0 is at the left edge of the panel; days 41 to 50 are the test.
    width = max(place(bar)[1] for bar in drawn) - start
    assert (left - start) / width == pytest.approx(41 * DAY / (last - first), abs=0.002)
    assert (right - left) / width == pytest.approx(9 * DAY / (last - first), abs=0.002)
    assert all(place(bar)[0] >= start for bar in drawn)


def test_narrow_dropped_bars_can_be_seen_beside_each_other() -> None:
    # One day in three thousand is a third of a pixel.
    folds = WalkForward(1000, 1000, embargo_size="1D", purged_size=1).split(daily(3000, delay_days=1.5))
    drawn = [bar for bar in bars(plot_folds(folds)) if bar.text.startswith("Fold 0, train,")]
    assert [bar.attributes["class"] for bar in drawn] == ["span-purged", "span-embargo", "span-purged"]
    edges = [place(bar) for bar in drawn]
    assert all(right - left >= 4 for left, right in edges)
    assert all(edges[i][1] <= edges[i + 1][0] + 1e-9 for i in range(2))


def test_kept_rows_at_the_same_time_show_behind_the_dropped_ones() -> None:
    forecast = [START + i * DAY for i in range(30)] * 2
    known = [t + DAY // 2 for t in forecast[:30]] + [t + 10 * DAY for t in forecast[30:]]
    (fold,) = WalkForward(20, 10).split(frame(forecast, known, ["A"] * 30 + ["B"] * 30))
    drawn = {bar.text.split(":")[0]: bar for bar in bars(plot_folds([fold]))}
    train, purged = drawn["Fold 0, train"], drawn["Fold 0, train, purged, the label not known in time"]
    assert place(train)[0] < place(purged)[0] < place(purged)[1] <= place(train)[1] + 1e-9
    top, height = (float(train.attributes[name]) for name in ("y", "height"))
    inner, lower = (float(purged.attributes[name]) for name in ("y", "height"))
    assert top < inner and inner + lower < top + height


def test_combinatorial_folds() -> None:
    samples = daily(60, delay_days=1.5)
    folds = CombinatorialPurged(4, 2, embargo_size="1D").split(samples)
    plot = plot_folds(folds, title="Six splits")
    split = [bar for bar in bars(plot) if bar.text.startswith("Fold 1,")]
    # Blocks 0 and 2 are tested: days 0-14 and 30-44.
    assert [(bar.attributes["class"], bar.text.split(": ")[1].split(",")[0]) for bar in split] == [
        ("span-test", "15 rows"),
        ("span-train", "12 rows"),
        ("span-test", "15 rows"),
        ("span-train", "13 rows"),
        ("span-purged", "1 row"),
        ("span-embargo", "1 row"),
        ("span-purged", "1 row"),
        ("span-purged", "1 row"),
        ("span-embargo", "1 row"),
    ]
    assert "Six splits" in plot.svg
    assert "Validation" not in plot.svg
    # Blocks (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3): training before a block loses one row to it,
    # training after it two. Of 6 times 30, 1+3+2+2+3+1 are purged and 1+2+1+1+1+0 embargoed.
    assert " ".join(plot.alt.split()) == (
        "Time line of 6 folds from 1 Jan 2024 to 29 Feb 2024: train 162 rows, test 180 rows, purged 12 rows, "
        "embargo 6 rows."
    )


def test_no_entity_and_no_untrusted_text_is_drawn() -> None:
    name = "<script>alert('headline')</script>"
    samples = daily(40, delay_days=2.5).with_columns(entity=pl.lit(name), text=pl.lit(name))
    plot = plot_folds(WalkForward(10, 5).split(samples), title="<b>Folds & spans</b>")
    assert "script" not in plot.svg
    assert "headline" not in plot.svg
    assert "<b>" not in plot.svg
    assert "&lt;b&gt;Folds &amp; spans&lt;/b&gt;" in plot.svg


def test_the_drawing_is_whole_xml_and_styles_only_itself(tmp_path: Path) -> None:
    plot = plot_folds(four_reasons())
    root = ElementTree.fromstring(plot.svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert plot._repr_html_() == plot.svg
    (style,) = [e for e in root if e.tag.endswith("style")]
    selectors = [line.split("{")[0].strip() for line in (style.text or "").splitlines() if "{" in line]
    assert len(selectors) > 5
    assert all(selector.startswith(".quantattn-plot ") for selector in selectors)
    used = {e.attributes["class"] for e in bars(plot)}
    assert used == {"span-train", "span-validation", "span-test", "span-purged", "span-embargo"}
    assert all(f".quantattn-plot .{name} " in (style.text or "") for name in used)
    saved = plot.save(tmp_path / "deep" / "folds.svg")
    assert saved.read_text(encoding="utf-8").splitlines()[0] == '<?xml version="1.0" encoding="UTF-8"?>'
    assert ElementTree.parse(saved).getroot().tag == root.tag
    page = plot.save(str(tmp_path / "folds.HTML")).read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and plot.svg in page
    with pytest.raises(UsageError, match=r"folds\.png' ends neither in \.svg nor in \.html"):
        plot.save(tmp_path / "folds.png")
    assert not (tmp_path / "folds.png").exists()


def test_equal_folds_give_equal_drawings() -> None:
    assert plot_folds(four_reasons()).svg == plot_folds(four_reasons()).svg
    assert "Plot('Folds on a time line'" in repr(plot_folds(four_reasons()))


def test_what_cannot_be_drawn_is_refused() -> None:
    folds = four_reasons()
    with pytest.raises(SplitError, match="0 folds cannot be drawn"):
        plot_folds([])
    with pytest.raises(SplitError, match=r"505 folds cannot be drawn.*folds\[:500\]"):
        plot_folds(folds * (505 // len(folds)))
    with pytest.raises(SplitError, match="a str is no fold"):
        plot_folds(["fold"])  # type: ignore[list-item]
    with pytest.raises(SplitError, match="a int is no fold"):
        plot_folds([*folds, 3])  # type: ignore[list-item]


def test_folds_within_one_day() -> None:
    minute = 60 * 10**9
    samples = frame([START + i * minute for i in range(30)], [START + i * minute + 1 for i in range(30)])
    drawn = bars(plot_folds(WalkForward(10, 10).split(samples)))
    assert len(drawn) == 4
    assert drawn[0].text == "Fold 0, train: 10 rows, 1 Jan 2024, 00:00 UTC to 1 Jan 2024, 00:09 UTC"


@pytest.mark.parametrize("given", [None, 5, "fold"])
def test_what_is_no_list_of_folds(given: Any) -> None:
    folds = four_reasons()[0] if given == "fold" else given
    with pytest.raises(SplitError, match="not a list of folds; give what split gives"):
        plot_folds(folds)


def test_a_title_is_text() -> None:
    with pytest.raises(UsageError, match="title=None is not text"):
        plot_folds(four_reasons(), title=None)  # type: ignore[arg-type]
