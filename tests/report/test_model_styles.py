"""Names and marks of models."""

from __future__ import annotations

from quantattn.forecasters.baselines.registry import BUILT_IN, ENSEMBLE, RESERVED
from quantattn.report.model_styles import ModelStyles

NAMES = BUILT_IN | RESERVED


def test_every_model_of_the_package_has_a_name_of_its_own() -> None:
    styles = ModelStyles(NAMES)
    assert all(style.label != style.name for style in styles.ordered)
    assert styles.label("softmax_window") == "Softmax, last W events"
    looks = {(style.css, style.marker, style.dash) for style in styles.ordered}
    assert len(looks) == len({style.label for style in styles.ordered}) == len(NAMES)


def test_a_mean_over_seeds_has_its_members_colour_and_another_mark() -> None:
    names = {*NAMES, *(name + ENSEMBLE for name in NAMES)}
    styles = ModelStyles(names)
    for name in NAMES:
        member, mean = styles[name], styles[name + ENSEMBLE]
        assert mean.css == member.css
        assert mean.marker != member.marker
        assert mean.dash != member.dash
        assert mean.label == f"{member.label}, mean over seeds"
    assert len({(s.css, s.marker, s.dash) for s in styles.ordered}) == len(names)
    assert styles.ordered[0].name == "linear"
    assert [style.name for style in ModelStyles(("mean", "other", "linear-ensemble")).ordered] == [
        "mean",
        "linear-ensemble",
        "other",
    ]
