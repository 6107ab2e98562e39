from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from quantattn.study import (
    Study,
    find_study,
    packaged_studies,
    parse_study,
    resolved_yaml,
    results_settings,
    study_hash,
)
from quantattn.study._yaml import read_yaml


def _study(**sections: Any) -> Study:
    return parse_study({"name": "a", "data": {"prices": "packaged:us_equities"}, **sections})


def _again(study: Study) -> Study:
    return parse_study(read_yaml(resolved_yaml(study), source="again"))


def test_the_default_study_is_the_one_the_documentation_promises() -> None:
    study = find_study("realised_variance")
    assert study.data.prices.source == "packaged:us_equities"
    assert study.data.index is not None
    assert study.data.index.source == "packaged:sp500_index"
    assert study.data.start == date(2000, 1, 1)
    assert study.data.end is None
    assert (study.clock.at, study.clock.offset, study.clock.every) == ("close", "-15min", "week")
    assert (study.target.name, study.target.horizon, study.target.log) == ("realised_variance", 5, True)
    assert study.walk_forward.expand_train
    assert study.walk_forward.val_size == 52
    assert study.walk_forward.purged_size == "label"
    # 1,200 weeks from 2000 to 2022 leave (1200 - 416) / 196 = 4 test blocks
    assert (study.walk_forward.train_size, study.walk_forward.test_size) == (416, 196)
    assert study.walk_forward.reduce_test
    assert study.models == ("linear", "softmax", "mean", "ewma", "har", "ridge", "gradient_boosting")
    assert study.encoder.text_width == 32
    assert study.latency.histories == (100, 300, 1000, 3000, 10000, 30000)
    assert study.latency.repeats == 200


def test_the_returns_study_differs_in_its_target_alone() -> None:
    left, right = (results_settings(find_study(name)) for name in ("realised_variance", "returns"))
    assert {key for key in left if left[key] != right[key]} == {"name", "target"}
    assert right["target"] == {
        "name": "log_return",
        "horizon": 5,
        "log": None,
        "execution_lag": "0s",
        "dead_band": None,
    }


def test_the_default_study_is_listed_first_with_a_line_about_it() -> None:
    listed = packaged_studies()
    assert list(listed) == ["realised_variance", "returns"]
    assert all(text and "\n" not in text for text in listed.values())


@pytest.mark.parametrize("name", ["realised_variance", "returns"])
@pytest.mark.parametrize("quick", [False, True])
def test_resolved_yaml_gives_the_same_study_and_the_same_bytes(name: str, quick: bool) -> None:
    study = find_study(name)
    study = study.quick() if quick else study
    again = _again(study)
    assert again == study
    assert resolved_yaml(again) == resolved_yaml(study)
    assert study_hash(again) == study_hash(study)


def test_resolved_yaml_writes_out_every_default() -> None:
    written = read_yaml(resolved_yaml(_study()), source="s")
    assert set(written) == set(Study.model_fields)
    assert written["training"]["epochs"] == _study().training.epochs


@pytest.mark.parametrize("name", ["sp500_index", "sp500_ohlcv"])
def test_a_packaged_series_as_prices_names_itself(name: str) -> None:
    study = parse_study({"name": "a", "data": {"prices": f"packaged:{name}"}})
    assert study.data.prices.entity is None
    assert study.data.prices.name == name
    assert _again(study) == study


def test_a_direction_has_a_dead_band_and_no_logarithm() -> None:
    target = _study(target={"name": "direction"}).target
    assert (target.log, target.dead_band) == (None, 0.0)


def test_market_events_may_be_switched_or_tuned() -> None:
    on = _study(data={"prices": "packaged:us_equities", "market_events": True})
    tuned = _study(data={"prices": "packaged:us_equities", "market_events": {"k": 4}})
    assert on == _study()
    assert on.data.market_events is not None
    assert on.data.market_events.k == 3.0
    assert tuned.data.market_events is not None
    assert tuned.data.market_events.k == 4.0


def test_sizes_may_be_counts_durations_or_calendar_offsets() -> None:
    splits = _study(walk_forward={"train_size": "730D", "val_size": None, "test_size": "QS"}).walk_forward
    assert (splits.train_size, splits.val_size, splits.test_size) == ("730D", None, "QS")


class TestHash:
    @pytest.mark.parametrize(
        "change",
        [
            {"seeds": [1]},
            {"name": "b"},
            {"training": {"epochs": 3}},
            {"models": ["mean"]},
            {"data": {"prices": "packaged:us_equities", "start": "2001-01-01"}},
            {"data": {"prices": "packaged:us_equities", "max_entities": 3}},
        ],
    )
    def test_it_changes_with_what_alters_results(self, change: dict[str, Any]) -> None:
        assert study_hash(_study(**change)) != study_hash(_study())

    @pytest.mark.parametrize("change", [{"description": "other"}, {"quick_run": {"epochs": 1}}])
    def test_it_stays_with_what_does_not(self, change: dict[str, Any]) -> None:
        assert study_hash(_study(**change)) == study_hash(_study())

    def test_it_is_the_same_whether_a_default_is_written_or_not(self) -> None:
        epochs = _study().training.epochs
        assert study_hash(_study(training={"epochs": epochs})) == study_hash(_study())


class TestQuick:
    @pytest.mark.parametrize("name", ["realised_variance", "returns"])
    def test_the_packaged_studies_become_smaller(self, name: str) -> None:
        full = find_study(name)
        quick = full.quick()
        assert quick.data.max_entities == 8
        assert quick.data.start == date(2011, 1, 1)
        splits = quick.walk_forward
        assert (splits.train_size, splits.val_size, splits.test_size) == (208, 52, 104)
        assert full.data.start is not None
        assert quick.data.start is not None
        assert quick.data.start > full.data.start
        assert quick.training.epochs < full.training.epochs
        assert quick.latency.histories == (100, 300, 1000, 3000)
        assert quick.latency.repeats < full.latency.repeats
        assert (quick.name, quick.models, quick.seeds) == (full.name, full.models, full.seeds)
        # At least two test blocks in the weeks from the quick start to the end of 2022.
        weeks = (date(2022, 12, 28) - quick.data.start).days // 7
        train, test = quick.walk_forward.train_size, quick.walk_forward.test_size
        assert isinstance(train, int)
        assert isinstance(test, int)
        assert weeks - train >= 2 * test

    @pytest.mark.parametrize("name", ["realised_variance", "returns"])
    def test_twice_is_once(self, name: str) -> None:
        quick = find_study(name).quick()
        assert quick.quick() == quick

    def test_it_never_makes_a_study_larger(self) -> None:
        small = _study(
            data={"prices": "packaged:us_equities", "max_entities": 2, "start": "2020-01-01"},
            training={"epochs": 1},
            latency={"histories": [5000], "repeats": 3},
            audit={"truncation_instants": 1},
            walk_forward={"val_size": None},
            quick_run={"start": "2010-01-01", "val_size": 10},
        )
        quick = small.quick()
        assert quick.data.max_entities == 2
        assert quick.data.start == date(2020, 1, 1)
        assert quick.training.epochs == 1
        assert quick.audit.truncation_instants == 1
        assert quick.latency.repeats == 3
        assert quick.walk_forward.val_size is None
        # The shortest length stays, for there must be one.
        assert quick.latency.histories == (5000,)

    def test_sizes_that_are_not_given_stay(self) -> None:
        assert _study().quick().walk_forward == _study().walk_forward


def test_other_seeds_and_nothing_else() -> None:
    study = _study()
    other = study.with_seeds(7)
    assert other.seeds == (7,)
    assert other.with_seeds(0) == study
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        study.with_seeds(-1)
