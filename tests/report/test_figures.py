"""What is drawn where: marks are read back from the drawings and held against the figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quantattn.report.figures import (
    Figure,
    cumulative_figure,
    fold_quality_figure,
    latency_figure,
    non_inferiority_figure,
    pairwise_figure,
    scatter_figure,
    svg,
    timeline_figure,
)
from quantattn.report.loading import RunResults, load_run
from quantattn.report.model_styles import ModelStyles
from tests.report.page_reader import Element, read_page
from tests.report.synthetic import RunOptions, build_run, read, write


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_run(tmp_path_factory.mktemp("figures") / "run", RunOptions(folds=3))


@pytest.fixture(scope="module")
def run(directory: Path) -> RunResults:
    return load_run(directory)


@pytest.fixture(scope="module")
def styles(run: RunResults) -> ModelStyles:
    return ModelStyles(entry.model for entry in run.metrics.models)


def _elements(figure: Figure | None, *, narrow: bool = False) -> list[Element]:
    assert figure is not None
    page = read_page(figure.narrow if narrow else figure.wide)
    assert page.faults == []
    return page.elements


def _with(elements: list[Element], tag: str, *css: str) -> list[Element]:
    return [e for e in elements if e.tag == tag and set(css) <= set(e.attributes.get("class", "").split())]


def _numbers(path: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", path)]


def _points(element: Element) -> list[tuple[float, float]]:
    flat = _numbers(element.attributes["d"])
    return list(zip(flat[::2], flat[1::2], strict=True))


def test_text_and_attributes_are_escaped() -> None:
    made = svg.tag("text", '<b>"&', svg.tag("title", "x"), class_='a"b', stroke_width=1.25, x=None)
    assert made == ('<text class="a&#34;b" stroke-width="1.2">&lt;b&gt;&#34;&amp;<title>x</title></text>')


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (-0.04, "0"), (2.25, "2.2"), (1234.56, "1234.6")])
def test_coordinates_are_short(value: float, text: str) -> None:
    assert svg.coordinate(value) == text


def test_long_text_is_fitted() -> None:
    assert svg.fitted("short", 100) == "short"
    cut = svg.fitted("m" * 50, 80)
    assert cut.endswith("…")
    assert svg.text_width(cut) <= 80


def test_time_line_is_to_scale_and_purged_spans_can_be_seen(run: RunResults) -> None:
    elements = _elements(timeline_figure(run.manifest.folds))
    bars = {e.text: e for e in elements if e.tag == "rect" and e.text.startswith("Fold")}
    train = bars["Fold 1, train: 7 Jan 2000 to 19 Dec 2008"]
    test = bars["Fold 1, test: 8 Jan 2010 to 30 Dec 2011"]
    # 3,269 days of training and 721 days of test in one scale.
    ratio = float(train.attributes["width"]) / float(test.attributes["width"])
    assert ratio == pytest.approx(3_269 / 721, rel=0.005)
    purged = [e for e in bars.values() if "purged" in e.text]
    assert len(purged) == 6
    assert all(float(e.attributes["width"]) >= 4 for e in purged)
    assert any("purged from validation, 4 rows: 1 Jan 2010 to 1 Jan 2010" in e.text for e in purged)
    for bar in bars.values():
        left, width = float(bar.attributes["x"]), float(bar.attributes["width"])
        assert left >= 0
        assert left + width <= 900


def test_close_up_shows_the_fit_time_at_the_start_of_the_test(run: RunResults) -> None:
    elements = _elements(timeline_figure(run.manifest.folds))
    (fit,) = _with(elements, "path", "fit-line")
    last_test = [e for e in elements if e.tag == "rect" and e.text.startswith("Fold 3, test")][-1]
    (x, _), _ = _points(fit)
    assert x == pytest.approx(float(last_test.attributes["x"]), abs=0.2)


def test_time_line_without_folds() -> None:
    assert timeline_figure([]) is None


def test_dots_stand_in_the_order_of_their_figures(run: RunResults, styles: ModelStyles) -> None:
    elements = _elements(fold_quality_figure(run.metrics, styles))
    marks = {e.text.split(" (")[0]: e for e in elements if e.tag in ("circle", "path") and "(" in e.text}
    linear = float(marks["Linear attention: 0.487"].attributes["cx"])
    har = _points(marks["HAR regression: 0.478"])
    ewma = _points(marks["EWMA: 0.431"])
    assert max(x for x, _ in ewma) < min(x for x, _ in har) < linear


def test_benchmark_is_not_drawn_against_itself(run: RunResults, styles: ModelStyles) -> None:
    figure = fold_quality_figure(run.metrics, styles)
    assert figure is not None
    assert "Historical mean" not in [item.label for item in figure.legend]


def test_far_difference_is_an_arrow_with_its_figure(run: RunResults, styles: ModelStyles) -> None:
    own = [pair for pair in run.comparisons.pairwise if pair.model == "linear"]
    for narrow in (False, True):
        elements = _elements(pairwise_figure(own, styles, "squared error", 0.95), narrow=narrow)
        assert "−0.4858" in " ".join(e.text for e in _with(elements, "text"))
        assert len(_with(elements, "path", "whisker")) == 4


def test_better_is_left_of_zero(run: RunResults, styles: ModelStyles) -> None:
    own = [pair for pair in run.comparisons.pairwise if pair.model == "linear"]
    elements = _elements(pairwise_figure(own, styles, "squared error", 0.95))
    (zero,) = _with(elements, "path", "zero")
    x_zero = _points(zero)[0][0]
    (har,) = _with(elements, "path", "whisker", "m-har")
    (softmax,) = _with(elements, "path", "whisker", "m-softmax")
    # HAR's interval lies wholly left of zero; softmax's crosses it.
    har_ends = [float(n) for n in re.findall(r"M(\S+)", har.attributes["d"])]
    softmax_ends = [float(n) for n in re.findall(r"M(\S+)", softmax.attributes["d"])]
    assert max(har_ends) < x_zero
    assert min(softmax_ends) < x_zero < max(softmax_ends)


def test_margins_lie_symmetrically_and_the_interval_inside(run: RunResults, styles: ModelStyles) -> None:
    test = run.comparisons.non_inferiority
    assert test is not None
    elements = _elements(non_inferiority_figure(test, styles, "squared error", 0.05))
    lower, upper = (_points(e)[0][0] for e in _with(elements, "path", "margin-line"))
    (zero,) = _with(elements, "path", "zero")
    assert _points(zero)[0][0] == pytest.approx((lower + upper) / 2, abs=0.11)
    (whisker,) = _with(elements, "path", "whisker")
    ends = [float(n) for n in re.findall(r"M(\S+)", whisker.attributes["d"])]
    assert lower < min(ends) < max(ends) < upper


def test_inferior_interval_reaches_over_the_margin(
    directory: Path, styles: ModelStyles, tmp_path: Path
) -> None:
    run = build_run(tmp_path / "run", RunOptions(folds=1))
    comparisons = read(run / "comparisons.json")
    comparisons["non_inferiority"].update(difference=0.02, lower=0.005, upper=0.035, non_inferior=False)
    comparisons["non_inferiority"].update(equivalent=False, p_value=0.9)
    write(run / "comparisons.json", comparisons)
    test = load_run(run).comparisons.non_inferiority
    assert test is not None
    figure = non_inferiority_figure(test, styles, "squared error", 0.05)
    assert figure is not None
    assert figure.alt.startswith("It is not shown that linear attention is no worse than softmax attention")
    elements = _elements(figure)
    _, upper = (_points(e)[0][0] for e in _with(elements, "path", "margin-line"))
    (whisker,) = _with(elements, "path", "whisker")
    assert max(float(n) for n in re.findall(r"M(\S+)", whisker.attributes["d"])) > upper


def test_a_rising_sum_is_drawn_upwards(run: RunResults, styles: ModelStyles) -> None:
    figure = cumulative_figure(run.comparisons, run.manifest.folds, styles)
    elements = _elements(figure)
    lines = _with(elements, "path", "line")
    assert len(lines) == 5
    (mean,) = [e for e in lines if "m-mean" in e.attributes["class"]]
    points = _points(mean)
    assert points[-1][1] < points[0][1] - 50
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    # Two further test blocks begin inside the period.
    assert len(_with(elements, "path", "fold-line")) == 2 * 5


def test_order_of_the_records_does_not_matter(run: RunResults, styles: ModelStyles) -> None:
    points = run.comparisons.cumulative_loss_difference
    turned = run.comparisons.model_copy(update={"cumulative_loss_difference": points[::-1]})
    assert cumulative_figure(turned, run.manifest.folds, styles) == cumulative_figure(
        run.comparisons, run.manifest.folds, styles
    )


def test_cumulative_table_gives_the_sums_at_the_block_ends(run: RunResults, styles: ModelStyles) -> None:
    figure = cumulative_figure(run.comparisons, run.manifest.folds, styles)
    assert figure is not None
    assert figure.table is not None
    last = [p for p in run.comparisons.cumulative_loss_difference if p.against == "softmax"][-1]
    assert last.value is not None
    dates = [row[0].text.replace("\u00a0", " ") for row in figure.table.rows]
    assert dates == ["6 Jan 2012", "3 Jan 2014", "25 Dec 2015"]
    assert float(figure.table.rows[-1][1].text) == pytest.approx(last.value, abs=0.005)


def test_scatter_is_thinned_and_to_scale(run: RunResults, styles: ModelStyles) -> None:
    elements = _elements(scatter_figure(run.forecasts, run.metrics.target, styles))
    clouds = _with(elements, "path", "dots")
    assert len(clouds) == 6
    for cloud in clouds:
        assert 800 <= cloud.attributes["d"].count("M") <= 900
    # On equal axes the line of right forecasts is the diagonal of a square.
    for diagonal in _with(elements, "path", "diagonal"):
        (x1, y1), (x2, y2) = _points(diagonal)
        assert x2 - x1 == pytest.approx(y1 - y2, abs=0.3)
    assert len(_with(elements, "circle", "bin", "m-linear")) == 10


def test_scatter_draws_the_lowest_seed_only(tmp_path: Path) -> None:
    several = load_run(build_run(tmp_path / "run", RunOptions(folds=1, years=1, seeds=(3, 4))))
    styles = ModelStyles(["linear"])
    both = scatter_figure(several.forecasts, several.metrics.target, styles)
    one = scatter_figure(several.forecasts.filter(seed=3), several.metrics.target, styles)
    assert both == one
    assert _with(_elements(both), "path", "dots")[0].attributes["d"].count("M") > 150


def test_latency_grows_upwards_and_bands_enclose_lines(run: RunResults, styles: ModelStyles) -> None:
    assert run.latency is not None
    elements = _elements(latency_figure(run.latency, styles))
    read_line, update_line = _with(elements, "path", "line", "m-softmax")
    heights = [y for _, y in _points(read_line)]
    assert heights == sorted(heights, reverse=True)
    assert len(heights) == 5
    flat = [y for _, y in _points(_with(elements, "path", "line", "m-linear")[0])]
    assert max(flat) - min(flat) < 1
    p95 = _points(_with(elements, "path", "band-95", "m-softmax")[0])
    p99 = _points(_with(elements, "path", "band-99", "m-softmax")[0])
    assert p99[0][1] < p95[0][1] < heights[0]
    assert _points(update_line)[0][0] > 450  # the second panel


def test_latency_without_a_curve(run: RunResults, styles: ModelStyles) -> None:
    assert run.latency is not None
    assert latency_figure(run.latency.model_copy(update={"curve": ()}), styles) is None


def test_models_keep_their_colour_whatever_else_is_shown() -> None:
    few, many = ModelStyles(["har", "linear"]), ModelStyles(["mean", "x", "har", "linear", "softmax", "a"])
    assert few["linear"] == many["linear"]
    assert few["har"] == many["har"]
    assert [style.name for style in many.ordered] == ["linear", "softmax", "har", "mean", "a", "x"]
    assert len({style.css for style in many.ordered}) == 6
    assert "m-" in few["unknown <b>"].css
    assert "<" not in few["unknown <b>"].css
