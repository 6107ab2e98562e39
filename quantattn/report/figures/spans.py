"""The folds of any split on a time line: train, dropped, validation and test spans of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from quantattn.errors import SplitError, UsageError
from quantattn.report import formatting
from quantattn.report.figures import svg
from quantattn.report.figures.axes import Panel
from quantattn.report.figures.plot import Plot, standalone
from quantattn.report.figures.scales import Scale, at_least_a_day, time_ticks
from quantattn.walkforward import CombinatorialFold, Fold, Stretch

_WIDTH = 900.0
_LEAST_WIDTH = 4.0
_MOST_FOLDS = 500
_CLASSES = {"train": "span-train", "validation": "span-validation", "test": "span-test"}
_LEGEND = (
    ("span-train", "Train"),
    ("span-validation", "Validation"),
    ("span-test", "Test"),
    ("span-purged", "Purged"),
    ("span-embargo", "Embargo"),
)
_WHY = {
    "label": "purged, the label not known in time",
    "purged_size": "purged, further forecast times",
    "embargo": "embargo",
}


def plot_folds(folds: Sequence[Fold | CombinatorialFold], *, title: str = "Folds on a time line") -> Plot:
    """Draw what every fold trains on, drops, validates on and tests.

    Spans run from the first to the last forecast time of neighbouring rows. Dropped spans are drawn less
    high than the others and wide enough to be seen; where some entities were kept at the same time, their
    side shows above and below. Nothing but instants, counts and reasons is drawn: no entity and no text of
    an event. Folds bear the number of their `index`.

    Parameters
    ----------
    folds : sequence of Fold or CombinatorialFold
        As ``WalkForward.split`` or ``CombinatorialPurged.split`` gives them.
    title : str
        The heading.

    Returns
    -------
    Plot
        A drawing for a notebook, with ``.svg`` and ``.save(path)``.

    Raises
    ------
    SplitError
        If there are no folds, more than 500, or something else than folds.
    UsageError
        If the title is not text.
    """
    if not isinstance(folds, Iterable):
        raise SplitError(f"folds is a {type(folds).__name__}, not a list of folds; give what split gives")
    if not isinstance(title, str):
        raise UsageError(f"title={title!r} is not text; give a heading, or leave it out")
    folds = list(folds)
    for fold in folds:
        if not isinstance(fold, Fold | CombinatorialFold):
            raise SplitError(f"a {type(fold).__name__} is no fold; give what WalkForward.split gives")
    if not folds or len(folds) > _MOST_FOLDS:
        raise SplitError(
            f"{len(folds)} folds cannot be drawn; give 1 to {_MOST_FOLDS}, for example folds[:{_MOST_FOLDS}]"
        )
    stretches = [fold.stretches() for fold in folds]
    low = min(stretch.start for fold in stretches for stretch in fold)
    high = max(stretch.end for fold in stretches for stretch in fold)
    content, height = _paint([fold.index for fold in folds], stretches, title, *at_least_a_day(low, high))
    alt = (
        f"Time line of {formatting.plural(len(folds), 'fold')} from {formatting.date(low)} to "
        f"{formatting.date(high)}: {', '.join(_counted(stretches))}."
    )
    return standalone(content, _WIDTH, height, title=title, alt=alt)


def _css(stretch: Stretch) -> str:
    if stretch.reason == "kept":
        return _CLASSES[stretch.side]
    return "span-embargo" if stretch.reason == "embargo" else "span-purged"


def _counted(stretches: Sequence[Sequence[Stretch]]) -> list[str]:
    counts = dict.fromkeys((name for _, name in _LEGEND), 0)
    names = dict(_LEGEND)
    for fold in stretches:
        for stretch in fold:
            counts[names[_css(stretch)]] += stretch.n_rows
    return [f"{name.lower()} {formatting.plural(n, 'row')}" for name, n in counts.items() if n]


def _paint(
    indices: Sequence[int], stretches: Sequence[Sequence[Stretch]], title: str, low: int, high: int
) -> tuple[Markup, float]:
    n = len(stretches)
    step = 30.0 if n <= 15 else 20.0 if n <= 60 else 12.0
    bar = step * 0.6
    left = 18.0 + max(svg.text_width(f"Fold {index}") for index in indices)
    panel = Panel(left, 62.0, _WIDTH - left - 16, step * n)
    scale = panel.x_scale(float(low), float(high))
    shown = {_css(stretch) for fold in stretches for stretch in fold}
    parts = [
        svg.text(10, 22, svg.fitted(title, _WIDTH - 20, 14.0), "strong"),
        _legend([(css, name) for css, name in _LEGEND if css in shown]),
        panel.columns(scale, time_ticks(low, high, 9)),
        panel.base(),
    ]
    for i, (index, fold) in enumerate(zip(indices, stretches, strict=True)):
        y = panel.top + i * step + (step - bar) / 2
        parts.append(svg.text(10, y + bar / 2 + 4, f"Fold {index}", "label"))
        parts.append(_bars(index, fold, scale, y, bar))
    return svg.group(parts), panel.bottom + 30


def _legend(items: Sequence[tuple[str, str]]) -> Markup:
    parts, x = [], 10.0
    for css, name in items:
        parts.append(svg.tag("rect", x=x, y=36, width=22, height=11, rx=1, class_=css))
        parts.append(svg.text(x + 28, 46, name, "label"))
        x += 28 + svg.text_width(name) + 22
    return svg.group(parts)


def _bars(index: int, fold: Sequence[Stretch], scale: Scale, y: float, height: float) -> Markup:
    """Give the bars of one fold: the sides first, what was dropped on top of them."""
    parts = []
    last: Stretch | None = None
    free = scale.start
    for stretch in sorted(fold, key=lambda s: (s.reason != "kept", s.start)):
        dropped = stretch.reason != "kept"
        start, end = scale(float(stretch.start)), scale(float(stretch.end))
        width = max(end - start, _LEAST_WIDTH if dropped else 1.0)
        # What is widened keeps its centre, but for its neighbour, and stays on the drawing.
        x = start - (width - (end - start)) / 2
        if dropped:
            x = max(x, free) if last is not None and last.end < stretch.start else x
            last, free = stretch, x + width
        x = min(max(x, scale.start), scale.end - width)
        inset = height * 0.18 if dropped else 0.0
        note = (
            f"Fold {index}, {stretch.side}{f', {_WHY[stretch.reason]}' if dropped else ''}: "
            f"{formatting.plural(stretch.n_rows, 'row')}, {formatting.instant(stretch.start)} to "
            f"{formatting.instant(stretch.end)}"
        )
        parts.append(
            svg.tag(
                "rect",
                svg.tooltip(note),
                x=x,
                y=y + inset,
                width=float(width),
                height=height - 2 * inset,
                rx=1,
                class_=_css(stretch),
            )
        )
    return svg.group(parts)
