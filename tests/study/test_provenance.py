from __future__ import annotations

import hashlib
import shutil
from datetime import date
from pathlib import Path

import polars as pl
import pytest

import quantattn
from quantattn.files import canonical_json
from quantattn.pit import EventLog, ForecastClock, Labels, PointInTimeDataset, PriceHistory
from quantattn.pit.timestamps import instants
from quantattn.study import provenance
from quantattn.walkforward import WalkForward

HOUR = 3_600_000_000_000
T0 = 1_577_836_800_000_000_000  # 2020-01-01T00:00:00Z


def _samples() -> pl.DataFrame:
    """Give ten hourly forecasts, each label known two hours later."""
    made = [T0 + n * HOUR for n in range(10)]
    known = instants([at + 2 * HOUR for at in made])
    return pl.DataFrame(
        {
            "entity": ["A"] * 10,
            "forecast_time": instants(made),
            "label_end_time": known,
            "label_available_at": known,
        }
    )


class TestFoldRecords:
    def test_spans_and_purged_rows_are_written_out(self) -> None:
        folds = WalkForward(6, 4, val_size=3).split(_samples())
        (record,) = provenance.fold_records(folds)
        # Train 0-2 cut at 3 loses the labels known after 02:59: those of 1 and 2. Validation 3-5 cut at 6
        # loses those of 4 and 5.
        assert record == {
            "fold": 0,
            "fit_time": "2020-01-01T05:59:59.999999999Z",
            "train_start": "2020-01-01T00:00:00Z",
            "train_end": "2020-01-01T00:00:00Z",
            "validation_start": "2020-01-01T03:00:00Z",
            "validation_end": "2020-01-01T03:00:00Z",
            "test_start": "2020-01-01T06:00:00Z",
            "test_end": "2020-01-01T09:00:00Z",
            "n_train": 1,
            "n_validation": 1,
            "n_test": 4,
            "purged": [
                {
                    "side": "train",
                    "start": "2020-01-01T01:00:00Z",
                    "end": "2020-01-01T02:00:00Z",
                    "n_rows": 2,
                },
                {
                    "side": "validation",
                    "start": "2020-01-01T04:00:00Z",
                    "end": "2020-01-01T05:00:00Z",
                    "n_rows": 2,
                },
            ],
        }
        assert canonical_json(record)

    def test_without_validation_its_span_is_null(self) -> None:
        (record,) = provenance.fold_records(WalkForward(6, 4).split(_samples()))
        assert record["validation_start"] is record["validation_end"] is None
        assert [purged["side"] for purged in record["purged"]] == ["train"]


def test_events_are_counted_by_kind_and_rejects_by_reason() -> None:
    frame = pl.DataFrame(
        {
            "event_id": ["a", "b", "c"],
            "revision": pl.Series([0, 0, 0], dtype=pl.Int32),
            "entity": pl.Series(["A", "A", None], dtype=pl.String),
            "event_time": instants([T0, T0, T0]),
            "available_at": instants([T0, T0, T0]),
            "kind": ["news", "news", "filing"],
            "text": pl.Series([None, None, None], dtype=pl.String),
        }
    )
    made = instants([T0 + HOUR])
    labels = Labels(
        pl.DataFrame(
            {
                "entity": ["A"],
                "forecast_time": made,
                "horizon": pl.Series([1], dtype=pl.Int32),
                "y_true": [0.5],
                "label_start_time": instants([T0 + 2 * HOUR]),
                "label_end_time": instants([T0 + 3 * HOUR]),
                "label_available_at": instants([T0 + 3 * HOUR]),
            }
        ),
        pl.DataFrame(
            schema={"entity": pl.String, "forecast_time": pl.Datetime("ns", "UTC"), "reason": pl.String}
        ),
        "target",
        1,
        "return",
        ("A",),
    )
    dataset = PointInTimeDataset(EventLog.from_valid(frame), ForecastClock(made), labels)
    assert provenance.event_counts(dataset, {"null_entity": 2}) == {
        "n": 3,
        "by_kind": {"news": 2, "filing": 1},
        "rejected": {"null_entity": 2},
    }


class TestCodeHash:
    @pytest.fixture
    def package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        root = tmp_path / "quantattn"
        (root / "inner").mkdir(parents=True)
        (root / "__init__.py").write_text("one = 1\n")
        (root / "inner" / "part.py").write_text("two = 2\n")
        monkeypatch.setattr(quantattn, "__file__", str(root / "__init__.py"))
        return root

    def test_it_is_the_hash_of_the_sorted_listing(self, package: Path) -> None:
        one = hashlib.sha256(b"one = 1\n").hexdigest()
        two = hashlib.sha256(b"two = 2\n").hexdigest()
        listing = f"__init__.py {one}\ninner/part.py {two}"
        assert provenance.code_hash() == hashlib.sha256(listing.encode()).hexdigest()

    def test_a_changed_moved_or_new_source_file_changes_it(self, package: Path) -> None:
        before = provenance.code_hash()
        (package / "inner" / "part.py").write_text("two = 3\n")
        changed = provenance.code_hash()
        (package / "inner" / "part.py").write_text("two = 2\n")
        assert provenance.code_hash() == before
        shutil.move(package / "inner" / "part.py", package / "part.py")
        moved = provenance.code_hash()
        (package / "new.py").write_text("")
        assert len({before, changed, moved, provenance.code_hash()}) == 4

    def test_compiled_and_other_files_do_not(self, package: Path) -> None:
        before = provenance.code_hash()
        (package / "__pycache__").mkdir()
        (package / "__pycache__" / "part.py").write_text("noise")
        (package / "study.yaml").write_text("name: x\n")
        assert provenance.code_hash() == before


def test_the_versions_of_everything_that_decides_a_bit_are_there() -> None:
    found = provenance.versions()
    assert found["quantattn"] == quantattn.__version__
    assert {"python", "torch", "numpy", "polars", "numba", "scikit-learn"} <= set(found)
    assert all(found.values())


def test_the_machine_is_described_as_the_report_wants_it() -> None:
    machine = provenance.machine(3)
    assert set(machine) == {"cpu", "cores", "threads", "memory_gib", "os", "python", "torch"}
    assert machine["threads"] == 3
    assert machine["cores"] >= 1
    assert machine["memory_gib"] > 0
    assert machine["cpu"] == provenance.processor() != ""
    assert canonical_json(machine)


def test_peak_memory_is_at_least_what_is_used_now() -> None:
    peak = provenance.peak_memory_gib()
    assert peak is None or 0.05 < peak < 64


class TestCaveats:
    def test_the_packaged_stocks_are_told_to_be_survivors(self) -> None:
        found = provenance.caveats(["packaged:us_equities", "packaged:sp500_index"], universe=False)
        assert len(found) == 2
        assert "hindsight" in found[0]
        assert "adjusted" in found[1]

    def test_own_prices_without_a_universe_too(self) -> None:
        (found,) = provenance.caveats(["/data/prices.csv"], universe=False)
        assert "universe" in found

    def test_a_universe_leaves_nothing_to_say(self) -> None:
        assert provenance.caveats(["/data/prices.csv"], universe=True) == []

    def test_sessions_without_a_bar_of_the_index_are_counted(self) -> None:
        days = [date(2020, 1, day) for day in (2, 3, 6, 7, 8)]
        bars = pl.DataFrame({"session": days, "close": [1.0, 2.0, 3.0, 4.0, 5.0]})
        prices = PriceHistory.from_frame(bars, entity=None, name="A")
        assert provenance.index_caveats(prices, None) == []
        assert provenance.index_caveats(prices, prices) == []
        index = PriceHistory.from_frame(bars[1:4], entity=None, name="INDEX")
        assert provenance.index_caveats(prices, index) == [
            "The index has no bar in 2 of 5 sessions, the first on 2020-01-02 and the last on 2020-01-08; "
            "the figures of the market are missing there."
        ]
