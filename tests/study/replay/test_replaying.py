"""A run's model, streamed through: the run's own forecasts come out, however the log comes in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from quantattn.errors import (
    CalendarError,
    CheckpointError,
    ClockError,
    DataError,
    EventDataError,
    StateError,
    UsageError,
)
from quantattn.forecasters.streaming import StreamingForecaster
from quantattn.forecasters.streaming.snapshots.snapshot import (
    ADDED,
    read_snapshot,
    snapshot_of,
    write_snapshot,
)
from quantattn.pit import EventLog
from quantattn.study.config import study_hash
from quantattn.study.loading import load_study
from quantattn.study.replay.models import find_model
from quantattn.study.replaying import moment_of
from tests.study.replay.streams import FIT, FRIDAYS, Replayed, replayed, table_rows

ALL = ("AAPL", "JPM", "XOM")
AFTER = "2022-08-26T20:00:00Z"


def news(name: str, at: str, entity: str | None = "JPM", **more: Any) -> str:
    """One line of an event that became available when it happened."""
    fields = {"event_id": name, "available_at": at, "event_time": at, "entity": entity, "kind": "news"}
    return json.dumps(fields | more)


def feed(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


class TestEquality:
    @pytest.mark.parametrize("fold", [0, 1])
    @pytest.mark.parametrize("model", ["linear", "softmax"])
    def test_the_runs_own_forecasts_come_out_bit_for_bit(
        self, run_folder: Path, fold: int, model: str
    ) -> None:
        given = replayed(run_folder, fold=fold, model=model)
        rows = table_rows(run_folder, fold, model)
        assert len(rows) >= 45
        lines = {(line["entity"], line["forecast_time"]): line for line in given.lines}
        for row in rows:
            line = lines[row["entity"], row["forecast_time"]]
            assert {name: line[name] for name in row} == row
        # json writes floats so that they come back equal.
        assert json.loads(json.dumps(given.lines)) == given.lines

    def test_every_line_has_the_same_keys_in_order(self, whole: Replayed) -> None:
        keys = ["entity", "forecast_time", "y_pred", "y_lower", "y_upper"]
        keys += ["n_visible", "max_available_at", "info_hash", "update_us", "read_us", "flag"]
        assert {tuple(line) for line in whole.lines} == {tuple(keys)}
        assert whole.when == [(entity, at) for at in sorted({at for _, at in whole.when}) for entity in ALL]
        assert whole.when[0][1] == FRIDAYS[0]
        # The first forecasts follow a block, the others events that were timed one by one.
        assert all(line["update_us"] is None for line in whole.lines[:3])
        assert all(line["update_us"] > 0 for line in whole.lines[3:])
        assert all(line["read_us"] > 0 for line in whole.lines)

    def test_it_does_not_matter_how_the_log_comes(
        self, run_folder: Path, own_log: EventLog, own_lines: list[str], whole: Replayed, tmp_path: Path
    ) -> None:
        own_log.write(tmp_path / "log.parquet")
        (tmp_path / "log.jsonl").write_bytes(feed(*own_lines))
        (tmp_path / "dos.ndjson").write_bytes(feed(*own_lines).replace(b"\n", b"\r\n\r\n").rstrip())
        for name in ("log.parquet", "log.jsonl", "dos.ndjson"):
            assert replayed(run_folder, tmp_path / name).untimed == whole.untimed
        assert replayed(run_folder, "-", said=feed(*own_lines)).untimed == whole.untimed

    def test_some_entities_have_the_forecasts_that_they_have_among_all(
        self, run_folder: Path, own_lines: list[str], whole: Replayed
    ) -> None:
        wanted = [line for line in whole.untimed if line["entity"] != "JPM"]
        assert replayed(run_folder, entities="XOM, AAPL").untimed == wanted
        given = replayed(run_folder, "-", said=feed(*own_lines), entities="AAPL,XOM")
        assert given.untimed == wanted
        assert given.summary is not None
        assert given.summary.events == len(own_lines)


class TestSpan:
    def test_from_and_to_are_both_included(self, run_folder: Path, whole: Replayed) -> None:
        given = replayed(run_folder, since=FRIDAYS[1], until=FRIDAYS[2])
        assert given.untimed == whole.untimed[3:9]
        just_inside = replayed(
            run_folder, since="2022-09-02T19:45:00.000000001Z", until="2022-09-09T19:44:59.999999999Z"
        )
        assert just_inside.lines == []

    def test_a_date_is_one_of_utc_with_its_whole_day(self, run_folder: Path, whole: Replayed) -> None:
        assert replayed(run_folder, since="2022-09-02", until="2022-09-09").untimed == whole.untimed[3:9]
        assert moment_of("1970-01-02", "--from") == 86_400 * 10**9
        assert moment_of("1970-01-02", "--to", end=True) == 2 * 86_400 * 10**9 - 1

    @pytest.mark.parametrize(
        ("since", "fold"),
        [
            ("2015-01-01", 0),  # before all spans: the first, in its own sample
            ("FIRST of 0", 0),
            ("LAST of 0", 0),
            ("behind LAST of 0", 1),  # the gap belongs to what comes next
            ("before FIRST of 1", 1),
            ("LAST of 1", 1),
            ("behind LAST of 1", 1),
        ],
    )
    def test_from_takes_the_first_fold_with_a_test_forecast_from_there_on(
        self, run_folder: Path, since: str, fold: int
    ) -> None:
        spans = {
            key: [row["forecast_time"] for row in table_rows(run_folder, key, "linear")] for key in (0, 1)
        }
        assert max(spans[0]) < min(spans[1])
        if "of" in since:
            key, last = int(since[-1]), "LAST" in since
            moment = moment_of(max(spans[key]) if last else min(spans[key]), "--from")
            moment += {"behind": 1, "before": -1}.get(since.split()[0], 0)
        else:
            moment = moment_of(since, "--from")
        assert find_model(run_folder, model="linear", since=moment).unit.fold == fold

    def test_before_the_first_test_span_the_first_fold_answers_in_sample(self, run_folder: Path) -> None:
        given = replayed(run_folder, since="2021-06-01", until="2021-06-10")
        assert "fold 0" in given.notes[0]
        assert given.lines
        assert all(line["in_sample"] for line in given.lines)

    def test_from_chooses_the_fold_whose_test_span_holds_it(self, run_folder: Path) -> None:
        given = replayed(run_folder, since="2022-05-06T19:45:00Z", until="2022-05-07")
        rows = [
            row
            for row in table_rows(run_folder, 0, "linear")
            if row["forecast_time"] == "2022-05-06T19:45:00Z"
        ]
        assert [line["y_pred"] for line in given.lines] == [row["y_pred"] for row in rows]
        assert "fold 0" in given.notes[0]
        assert not any("in_sample" in line for line in given.lines)

    def test_what_the_model_was_fitted_on_is_never_shown_without_saying_so(self, run_folder: Path) -> None:
        given = replayed(run_folder, fold=1, since="2022-08-19T19:45:00Z", until=FRIDAYS[1])
        assert [line.get("in_sample") for line in given.lines] == [True] * 3 + [None] * 6
        assert [note for note in given.notes if "in_sample" in note] == [
            f"forecasts up to {FIT}, when the model was fitted, are of times that it has learned from; "
            "they are marked in_sample"
        ]

    def test_an_end_lets_forecasts_come_behind_the_last_event(self, run_folder: Path) -> None:
        said = feed(news("a", AFTER))
        assert replayed(run_folder, "-", said=said).lines == []
        assert replayed(run_folder, "-", said=said, until=FRIDAYS[2]).when == [
            (entity, at) for at in FRIDAYS[1:3] for entity in ALL
        ]

    def test_a_log_without_from_begins_with_its_first_event_and_after_the_fit(self, run_folder: Path) -> None:
        later = feed(news("a", FRIDAYS[1]), news("b", FRIDAYS[2]))
        assert [at for _, at in replayed(run_folder, "-", said=later).when] == [FRIDAYS[2]] * 3
        early = feed(news("a", "2022-05-01T00:00:00Z"), news("b", FRIDAYS[1]))
        assert [at for _, at in replayed(run_folder, "-", said=early).when] == [
            *[FRIDAYS[0]] * 3,
            *[FRIDAYS[1]] * 3,
        ]

    @pytest.mark.parametrize(
        ("options", "kind", "words"),
        [
            (
                {"since": "2022-09-02T19:45:00"},
                UsageError,
                "--from '2022-09-02T19:45:00' has no zone; write for example 2022-06-01 ",
            ),
            ({"until": "soon"}, UsageError, "--to 'soon' is not an instant"),
            ({"since": "2022-02-30"}, UsageError, "--from '2022-02-30' does not exist"),
            (
                {"since": "2300-01-01"},
                UsageError,
                "--from '2300-01-01' does not exist .it is outside of 1677",
            ),
            ({"since": "2022-09-03", "until": "2022-09-01"}, UsageError, "later than --to"),
            ({"until": "2022-08-01"}, UsageError, "give --from for earlier ones"),
            ({"until": "2261-01-01"}, UsageError, "--to 2261-01-01T23.* lies beyond the study's calendar"),
            ({"fold": 7}, UsageError, "no network of fold 7; use one of 0, 1"),
            ({"seed": 7}, UsageError, "no network of seed 7; use one of 0"),
            ({"model": "mean"}, UsageError, "no network of model 'mean'; use one of linear, softmax"),
            ({"entities": "APPL"}, UsageError, r"'APPL' is no entity of the run .did you mean 'AAPL'"),
            ({"entities": " , "}, UsageError, "no name is given"),
            ({"speed": "fast"}, UsageError, "speed 'fast' is unknown"),
            ({"speed": "-1"}, UsageError, "speed '-1' is unknown"),
            ({"late": "drop"}, UsageError, "--late 'drop' is unknown"),
            ({"snapshot_every": 5}, UsageError, "--snapshot-every needs a file"),
            ({"log": "none.jsonl"}, UsageError, "log 'none.jsonl' cannot be read"),
            ({"log": __file__}, UsageError, "of an unknown kind"),
            ({"log": "/"}, UsageError, "log '/' is a folder"),
        ],
    )
    def test_a_wrong_request_is_refused(
        self, run_folder: Path, options: dict[str, Any], kind: type[Exception], words: str
    ) -> None:
        with pytest.raises(kind, match=words):
            replayed(run_folder, **options)

    def test_a_run_without_networks_is_refused(self, run_folder: Path, tmp_path: Path) -> None:
        (tmp_path / "study.yaml").write_bytes((run_folder / "study.yaml").read_bytes())
        with pytest.raises(UsageError, match="holds no network"):
            replayed(tmp_path)


class TestOrder:
    def test_what_comes_at_the_instant_of_a_forecast_is_not_seen_by_it(self, run_folder: Path) -> None:
        before, at, after = (
            f"2022-09-02T19:{rest}Z" for rest in ("44:59.999999999", "45:00", "45:00.000000001")
        )
        said = feed(
            news("a", AFTER), news("b", before), news("c", at), news("d", after), news("e", FRIDAYS[2])
        )
        given = replayed(run_folder, "-", said=said, entities="JPM")
        assert given.when == [("JPM", FRIDAYS[1]), ("JPM", FRIDAYS[2])]
        assert [(line["n_visible"], line["max_available_at"]) for line in given.lines] == [
            (2, before),
            (4, after),
        ]

    def test_a_line_may_ask_for_a_forecast(self, run_folder: Path) -> None:
        ask = json.dumps({"forecast": "JPM", "at": "2022-08-29T00:00:00Z"})
        everyone = json.dumps({"forecast": None, "at": FRIDAYS[1]})
        stranger = json.dumps({"forecast": "NEW", "at": "2022-09-03T00:00:00Z"})
        wide = news("w", "2022-08-27T00:00:00Z", None)
        given = replayed(run_folder, "-", said=feed(news("a", AFTER), wide, ask, everyone, stranger))
        clock = [(entity, FRIDAYS[1]) for entity in ALL]
        assert given.when == [
            ("JPM", "2022-08-29T00:00:00Z"),
            *clock,
            *clock,
            ("NEW", "2022-09-03T00:00:00Z"),
        ]
        assert [line["n_visible"] for line in given.lines] == [2, 1, 2, 1, 1, 2, 1, 1]
        assert [line.pop("asked", None) for line in given.lines] == [True, *[None] * 3, *[True] * 4]
        assert given.untimed[1:4] == given.untimed[4:7]

    def test_a_name_that_nobody_knows_is_told_of_once(self, run_folder: Path) -> None:
        def ask(entity: str, day: int) -> str:
            return json.dumps({"forecast": entity, "at": f"2022-08-{day}T00:00:00Z"})

        said = feed(news("a", AFTER), ask("JPN", 28), ask("JPN", 29), ask("JPM", 29))
        notes = [note for note in replayed(run_folder, "-", said=said).notes if "no entity" in note]
        assert notes == [
            "forecast of 'JPN', which is no entity of the run (did you mean 'JPM'?) and has had no event of "
            "its own: it is made from market-wide events alone"
        ]
        own = feed(news("a", AFTER, "JPN"), ask("JPN", 28))
        assert not any("no entity" in note for note in replayed(run_folder, "-", said=own).notes)

    @pytest.mark.parametrize("asked", [AFTER, "2022-08-26T19:59:59.999999999Z"])
    def test_a_forecast_that_an_event_forestalls_is_refused_with_its_line(
        self, run_folder: Path, asked: str
    ) -> None:
        said = feed(news("a", AFTER), json.dumps({"forecast": "JPM", "at": asked}))
        with pytest.raises(ClockError, match=r"^standard input, line 2: "):
            replayed(run_folder, "-", said=said)

    def test_a_forecast_of_whose_events_are_left_out_is_refused(self, run_folder: Path) -> None:
        said = feed(news("a", AFTER), json.dumps({"forecast": "XOM", "at": "2022-08-29T00:00:00Z"}))
        with pytest.raises(EventDataError, match="line 2: forecast of 'XOM', whose events are left out"):
            replayed(run_folder, "-", said=said, entities="JPM")

    def test_a_late_event_is_refused_or_read_later(self, run_folder: Path) -> None:
        on_time = [news("a", AFTER), news("b", "2022-09-02T20:00:00Z")]
        late = news("c", "2022-09-01T00:00:00Z")
        said = feed(*on_time, late, news("d", FRIDAYS[2]))
        with pytest.raises(ClockError, match=r"line 3: event 'c'.*2022-09-01T00:00:00Z.*2022-09-02T"):
            replayed(run_folder, "-", said=said)
        given = replayed(run_folder, "-", said=said, late="queue", entities="JPM")
        assert [line["n_visible"] for line in given.lines] == [1, 3]
        (told,) = [note for note in given.notes if note.startswith("late")]
        assert "event 'c' available at 2022-09-01T00:00:00Z is read as of 2022-09-02T20:00:00" in told
        assert given.lines[1]["max_available_at"] == "2022-09-02T20:00:00.000000001Z"


class TestHistory:
    EMPTY = (
        "the memories begin empty: forecasts know nothing from before LOG's first event; --with-history "
        "writes the run's own events first"
    )

    def test_the_runs_own_events_come_before_a_file(
        self, run_folder: Path, own_log: EventLog, own_lines: list[str], whole: Replayed, tmp_path: Path
    ) -> None:
        (tmp_path / "log.jsonl").write_bytes(feed(*own_lines[1200:]))
        EventLog.from_valid(own_log.frame[1200:], own_log.features).write(tmp_path / "log.parquet")
        begun = json.loads(own_lines[1200])["available_at"]
        wanted = [line for line in whole.untimed if line["forecast_time"] > begun]
        for name in ("log.jsonl", "log.parquet"):
            given = replayed(run_folder, tmp_path / name, with_history=True)
            assert given.untimed == wanted
            assert self.EMPTY not in given.notes
            assert not any("missing" in note for note in given.notes)
            empty = replayed(run_folder, tmp_path / name)
            assert empty.notes.count(self.EMPTY) == 1
            assert empty.lines[0]["n_visible"] < wanted[0]["n_visible"]

    def test_all_of_them_come_before_a_feed_and_some_may_come_again(
        self, run_folder: Path, own_log: EventLog, own_lines: list[str], tmp_path: Path
    ) -> None:
        seen = own_log.frame.filter(pl.col("entity").is_null() | (pl.col("entity") == "JPM")).height
        more = (news("a", "2023-01-05T00:00:00Z"), news("b", "2023-01-14T00:00:00Z"))
        kept, parts = tmp_path / "state", Replayed()
        said = feed(*own_lines[-5:], *more)
        given = replayed(run_folder, "-", said=said, entities="JPM", with_history=True)
        assert [line["n_visible"] for line in given.lines][-2:] == [seen + 1] * 2
        assert all(
            line["forecast_time"] > own_log.frame["available_at"][-1].isoformat() for line in given.lines
        )
        # Stopped amid what comes again, it goes on there.
        for lines in (own_lines[-5:-2], [*own_lines[-5:], *more]):
            replayed(
                run_folder,
                "-",
                said=feed(*lines),
                entities="JPM",
                with_history=True,
                snapshot=kept,
                into=parts,
            )
        assert parts.untimed == given.untimed
        assert sum("--with-history is not needed: the snapshot" in note for note in parts.notes) == 1

    def test_what_lies_behind_them_may_be_missing(self, run_folder: Path, own_log: EventLog) -> None:
        said = feed(news("a", "2023-01-05T00:00:00Z"))
        given = replayed(run_folder, "-", said=said, with_history=True)
        (told,) = [note for note in given.notes if "missing" in note]
        assert told.startswith("nothing tells whether events between 2022-12-")
        assert told.endswith("and 2023-01-05T00:00:00Z are missing")

    def test_nothing_is_forecast_for_them(self, run_folder: Path) -> None:
        said = feed(news("a", "2023-01-05T00:00:00Z"), news("b", "2023-01-07T00:00:00Z"))
        given = replayed(run_folder, "-", said=said, since=FRIDAYS[1], entities="JPM", with_history=True)
        assert given.when == [("JPM", "2022-12-30T20:45:00Z"), ("JPM", "2023-01-06T20:45:00Z")]
        assert any(note.startswith("forecasts begin after 2022-12-") for note in given.notes)
        with pytest.raises(UsageError, match="leave out --with-history"):
            replayed(run_folder, "-", said=said, since=FRIDAYS[1], until=FRIDAYS[2], with_history=True)

    def test_over_the_runs_own_data_it_is_not_needed(self, run_folder: Path, whole: Replayed) -> None:
        given = replayed(run_folder, until=FRIDAYS[0], with_history=True)
        assert given.untimed == whole.untimed[:3]
        assert any(note.startswith("--with-history is not needed") for note in given.notes)
        assert self.EMPTY not in given.notes

    def test_all_is_warmed_up_before_the_first_event(
        self, run_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        called: list[str] = []

        def told(name: str) -> None:
            real = getattr(StreamingForecaster, name)

            def call(live: StreamingForecaster, *given: Any, **named: Any) -> Any:
                called.append(name)
                return real(live, *given, **named) if name != "warm_up" else None

            monkeypatch.setattr(StreamingForecaster, name, call)

        for name in ("warm_up", "update", "update_many", "forecast"):
            told(name)
        replayed(run_folder, "-", said=feed(news("a", "2023-01-05T00:00:00Z")), with_history=True)
        assert called == ["warm_up", "update_many", "update"]

    def test_before_the_first_event_there_is_no_data(self, run_folder: Path, own_log: EventLog) -> None:
        begun = own_log.frame["available_at"][0].isoformat()[:10]
        given = replayed(run_folder, since="2019-01-01", until="2019-01-10", entities="JPM")
        assert any(note.startswith(f"there is no data before {begun}") for note in given.notes)
        assert "forecasts of 1 entity from" in given.notes[0]
        later = replayed(run_folder, since=FRIDAYS[0], until=FRIDAYS[0])
        assert not any("no data" in note for note in later.notes)


class TestSnapshots:
    def test_stopped_and_gone_on_with_it_is_one_replay(
        self, run_folder: Path, own_lines: list[str], whole: Replayed, tmp_path: Path
    ) -> None:
        (tmp_path / "log.jsonl").write_bytes(feed(*own_lines))
        for log, said in ((None, b""), (tmp_path / "log.jsonl", b""), ("-", feed(*own_lines))):
            kept = tmp_path / "state"
            kept.unlink(missing_ok=True)
            parts = Replayed()
            # Each time after a whole instant's forecasts, whichever of them the alarm rang at.
            for stop, end in ((1, 3), (8, 9), (24, 24), (None, len(whole.lines))):
                replayed(run_folder, log, said=said, stop_after=stop, into=parts, snapshot=kept)
                assert len(parts.lines) == end
                assert parts.summary is not None
                assert parts.summary.stopped == (stop is not None)
            assert parts.untimed == whole.untimed
            assert sum("the last one in the snapshot" in note for note in parts.notes) == 3

    @pytest.mark.parametrize(
        "every", [pytest.param(211, id="some"), pytest.param(23, id="many", marks=pytest.mark.slow)]
    )
    @pytest.mark.parametrize("lines", [False, True], ids=["own data", "lines"])
    def test_killed_anywhere_it_goes_on_from_its_last_snapshot(
        self,
        run_folder: Path,
        own_lines: list[str],
        whole: Replayed,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        every: int,
        lines: bool,
    ) -> None:
        from quantattn.study import replaying

        keep = replaying.keep_state
        first, kept = Replayed(), []

        def note_and_keep(path: Path, *rest: Any) -> None:
            keep(path, *rest)
            kept.append((path.read_bytes(), len(first.lines)))

        monkeypatch.setattr(replaying, "keep_state", note_and_keep)
        log, said = ("-", feed(*own_lines)) if lines else (None, b"")
        replayed(run_folder, log, said=said, into=first, snapshot=tmp_path / "state", snapshot_every=every)
        monkeypatch.undo()
        assert first.untimed == whole.untimed
        assert len(kept) >= 3
        assert len({done for _, done in kept}) >= 2
        for content, done in kept:
            (tmp_path / "state").write_bytes(content)
            rest = replayed(run_folder, log, said=said, snapshot=tmp_path / "state")
            assert first.untimed[:done] + rest.untimed == whole.untimed

    def test_a_bad_line_is_told_and_nothing_before_it_is_lost(
        self, run_folder: Path, own_lines: list[str], whole: Replayed, tmp_path: Path
    ) -> None:
        log, kept, parts = tmp_path / "log.jsonl", tmp_path / "state", Replayed()
        broken = [*own_lines[:1200], own_lines[1200][:-1], *own_lines[1201:]]
        log.write_bytes(feed(*broken))
        with pytest.raises(EventDataError, match=r"log.jsonl, line 1,201: it is no JSON"):
            replayed(run_folder, log, into=parts, snapshot=kept)
        assert parts.untimed == whole.untimed[: len(parts.lines)]
        log.write_bytes(feed(*own_lines))
        replayed(run_folder, log, into=parts, snapshot=kept)
        assert parts.untimed == whole.untimed

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            (lambda lines: lines[5], "written already"),
            (lambda lines: news("x", FRIDAYS[0]), "available at"),
            (lambda lines: news("x", "2022-12-30T00:00:00Z", features={"log_retrun": 1.0}), "log_return"),
        ],
        ids=["again", "late", "unknown feature"],
    )
    def test_a_refused_event_changes_nothing(
        self, run_folder: Path, own_lines: list[str], whole: Replayed, tmp_path: Path, line: Any, words: str
    ) -> None:
        kept, parts, cut = tmp_path / "state", Replayed(), 1250
        with pytest.raises((DataError, ClockError), match=f"^standard input, line {cut + 1:,}: .*{words}"):
            said = feed(*own_lines[:cut], line(own_lines), *own_lines[cut:])
            replayed(run_folder, "-", said=said, into=parts, snapshot=kept)
        replayed(run_folder, "-", said=feed(*own_lines), into=parts, snapshot=kept)
        assert parts.untimed == whole.untimed

    @pytest.mark.parametrize("late", ["refuse", "queue"])
    @pytest.mark.parametrize("cut", [0, 1250])
    @pytest.mark.parametrize(
        ("line", "words"),
        [
            (lambda far: news("x", "2261-01-01T00:00:00Z"), "146 years from 1970"),
            (lambda far: news("x", far, features={"log_retrun": 1.0}), "log_return"),
            (lambda far: news("x", far, event_time="2199-06-01T00:00:01Z"), "happens at"),
            (None, "written already"),
            (
                lambda far: json.dumps({"forecast": "JPM", "at": "2261-01-01T00:00:00Z"}),
                "146 years from 1970",
            ),
            (lambda far: json.dumps({"forecast": "J\0", "at": far}), "NUL"),
            (lambda far: news("x", "2105-01-01T00:00:00Z", revision=-1), "count from 0"),
        ],
        ids=["too far", "unknown feature", "happens later", "again", "asked too far", "no name", "revision"],
    )
    def test_a_refused_line_far_ahead_lets_no_forecast_be_made(
        self,
        run_folder: Path,
        own_lines: list[str],
        whole: Replayed,
        tmp_path: Path,
        late: str,
        cut: int,
        line: Any,
        words: str,
    ) -> None:
        kept, parts, far = tmp_path / "state", Replayed(), "2105-01-01T00:00:00Z"
        before = own_lines[: cut or int(words == "written already")]
        bad = json.dumps(json.loads(before[-1]) | {"available_at": far}) if line is None else line(far)
        at = rf"^standard input, line {len(before) + 1:,}: .*{words}"
        with pytest.raises((DataError, ClockError), match=at):
            replayed(run_folder, "-", said=feed(*before, bad), into=parts, snapshot=kept, late=late)
        passed = json.loads(before[-1])["available_at"] if before else ""
        assert parts.untimed == [made for made in whole.untimed if made["forecast_time"] <= passed]
        assert bool(parts.lines) == bool(cut)
        replayed(run_folder, "-", said=feed(*own_lines), into=parts, snapshot=kept, late=late)
        assert parts.untimed == whole.untimed

    def test_an_event_beyond_the_calendar_is_told_before_any_forecast(
        self, run_folder: Path, own_lines: list[str], whole: Replayed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("quantattn.forecasters.streaming.events.late.FAR", 2**63)
        parts, cut = Replayed(), 1250
        said = feed(*own_lines[:cut], news("x", "2250-01-01T00:00:00Z"))
        with pytest.raises(CalendarError, match=f"line {cut + 1:,}: .*knows its holidays"):
            replayed(run_folder, "-", said=said, into=parts)
        assert parts.untimed == whole.untimed[: len(parts.lines)]
        assert len(parts.lines) < len(whole.lines)

    def test_a_valid_event_far_ahead_lets_all_forecasts_before_it_be_made(self, run_folder: Path) -> None:
        said = feed(news("a", AFTER), news("b", "2022-12-31T00:00:00Z"))
        assert len(replayed(run_folder, "-", said=said, entities="JPM").lines) == 18

    def test_history_first_and_a_feed_behind_it(
        self, run_folder: Path, own_log: EventLog, own_lines: list[str], whole: Replayed, tmp_path: Path
    ) -> None:
        for overlap in (0, 40):
            parts, kept = Replayed(), tmp_path / f"state{overlap}"
            (tmp_path / "past.parquet").unlink(missing_ok=True)
            past = EventLog.from_valid(own_log.frame.head(1200), own_log.features)
            past.write(tmp_path / "past.parquet")
            replayed(run_folder, tmp_path / "past.parquet", into=parts, snapshot=kept)
            assert 0 < len(parts.lines) < len(whole.lines)
            said = feed(*own_lines[1200 - overlap :])
            replayed(run_folder, "-", said=said, into=parts, snapshot=kept)
            assert parts.untimed == whole.untimed
            assert any("hold already" in note for note in parts.notes) == bool(overlap)
            assert any("nothing tells whether events between" in note for note in parts.notes) != bool(
                overlap
            )

    def test_a_log_that_has_changed_behind_ones_back_is_refused(
        self, run_folder: Path, own_lines: list[str], tmp_path: Path
    ) -> None:
        kept = tmp_path / "state"
        replayed(run_folder, "-", said=feed(*own_lines[:1100]), snapshot=kept)
        content = kept.read_bytes()
        with pytest.raises(StateError, match="ends after line 1,000"):
            replayed(run_folder, "-", said=feed(*own_lines[:1000]), snapshot=kept)
        with pytest.raises(StateError, match="differs up to line 1,100"):
            replayed(run_folder, "-", said=feed(own_lines[0], *own_lines[2:1101]), snapshot=kept)
        assert kept.read_bytes() == content

    def test_a_snapshot_of_something_else_is_refused(self, run_folder: Path, tmp_path: Path) -> None:
        kept = tmp_path / "state"
        replayed(run_folder, until=FRIDAYS[1], snapshot=kept)
        content = kept.read_bytes()
        for options in ({"fold": 0}, {"model": "softmax"}):
            with pytest.raises(
                (CheckpointError, StateError), match="the snapshot was taken of a forecaster with"
            ):
                replayed(run_folder, snapshot=kept, **options)
        with pytest.raises(StateError, match="holds the events of all entities"):
            replayed(run_folder, snapshot=kept, entities="JPM")
        assert kept.read_bytes() == content
        kept.write_bytes(content[:-1])
        with pytest.raises(CheckpointError):
            replayed(run_folder, snapshot=kept)
        arrays, meta = (
            read_snapshot(tmp_path / "good") if (tmp_path / "good").write_bytes(content) else ({}, {})
        )
        for odd in (
            5,
            {},
            meta[ADDED] | {"done": "x"},
            meta[ADDED] | {"first": True},
            meta[ADDED] | {"log": None},
            meta[ADDED] | {"waiting": [["JPM", True, ""]]},
            meta[ADDED] | {"waiting": [5]},
        ):
            write_snapshot(kept, arrays, meta | {ADDED: odd})
            with pytest.raises(CheckpointError, match="start without it"):
                replayed(run_folder, snapshot=kept)
        with pytest.raises(UsageError, match="is a folder"):
            replayed(run_folder, snapshot=tmp_path)

    def test_of_some_entities_it_goes_on_with_these(
        self, run_folder: Path, whole: Replayed, tmp_path: Path
    ) -> None:
        parts = Replayed()
        for stop in (4, None):
            replayed(run_folder, entities="JPM", into=parts, stop_after=stop, snapshot=tmp_path / "state")
        assert parts.untimed == [line for line in whole.untimed if line["entity"] == "JPM"]
        with pytest.raises(StateError, match="holds the events of --entities JPM"):
            replayed(run_folder, snapshot=tmp_path / "state")

    def test_a_forecaster_that_was_warmed_in_python_goes_on(
        self, run_folder: Path, own_log: EventLog, own_lines: list[str], whole: Replayed, tmp_path: Path
    ) -> None:
        live = StreamingForecaster.from_checkpoint(run_folder / "folds" / "1" / "linear-0")
        live.update_many(own_log.frame.head(1200))
        write_snapshot(tmp_path / "state", *snapshot_of(live))
        given = replayed(run_folder, "-", said=feed(*own_lines[1200:]), snapshot=tmp_path / "state")
        assert given.untimed == [
            line
            for line in whole.untimed
            if line["forecast_time"] > own_log.frame["available_at"][1199].isoformat()
        ]

    def test_it_ends_where_it_was_told_to_and_goes_on_from_there(
        self, run_folder: Path, whole: Replayed, tmp_path: Path
    ) -> None:
        parts = Replayed()
        for until in (FRIDAYS[0], FRIDAYS[0], "2022-09-05", None):
            replayed(run_folder, until=until, into=parts, snapshot=tmp_path / "state")
        assert parts.untimed == whole.untimed


class TestData:
    def test_data_that_have_changed_are_told(self, run_folder: Path, tmp_path: Path) -> None:
        copy = tmp_path / "run"
        copy.mkdir()
        (copy / "study.yaml").write_bytes((run_folder / "study.yaml").read_bytes())
        (copy / "folds").symlink_to(run_folder / "folds")
        (copy / "forecasts.parquet").symlink_to(run_folder / "forecasts.parquet")
        named = study_hash(load_study(copy / "study.yaml"))
        (copy / "manifest.json").write_text(
            json.dumps({"data": {"packaged:us_equities": "0"}, "study_hash": named})
        )
        given = replayed(copy, until=FRIDAYS[0])
        assert any("no longer those of the run" in note for note in given.notes)

    def test_a_log_needs_no_data_of_the_run(self, run_folder: Path, tmp_path: Path) -> None:
        copy = tmp_path / "run"
        copy.mkdir()
        study = (
            (run_folder / "study.yaml")
            .read_text()
            .replace("packaged:us_equities", str(tmp_path / "gone.csv"))
        )
        (copy / "study.yaml").write_text(study)
        (copy / "folds").symlink_to(run_folder / "folds")
        said = feed(news("a", AFTER), news("b", FRIDAYS[1]))
        assert len(replayed(copy, "-", said=said).lines) == 3
        with pytest.raises(UsageError, match=r"gone\.csv"):
            replayed(copy)

    def test_a_run_that_was_edited_or_mixed_is_refused(self, run_folder: Path, tmp_path: Path) -> None:
        def copied() -> Path:
            copy = tmp_path / "run"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(run_folder, copy)
            named = study_hash(load_study(copy / "study.yaml"))
            (copy / "manifest.json").write_text(json.dumps({"study_hash": named}))
            return copy

        def refused(words: str) -> None:
            with pytest.raises(CheckpointError, match=words):
                replayed(tmp_path / "run", until=FRIDAYS[0])

        assert len(replayed(copied(), until=FRIDAYS[0]).lines) == 3
        study = copied() / "study.yaml"
        study.write_text(study.read_text().replace("offset: -15min", "offset: -45min"))
        refused(r"study\.yaml is not the study that this run was made of.*put the run's own back")
        copied().joinpath("manifest.json").write_text("{}")
        refused("nobody knows the run's study")
        unit = copied() / "folds" / "1" / "linear-0"
        shutil.rmtree(unit)
        shutil.copytree(run_folder / "folds" / "0" / "linear-0", unit)
        refused(r"holds forecasts of .fold, model, seed. \[.0, 'linear', 0.\]: it belongs to another unit")
        (tmp_path / "run" / "manifest.json").unlink()
        refused("it belongs to another unit")
        unit = copied() / "folds" / "1" / "linear-0"
        rows = pl.read_parquet(unit / "forecasts.parquet").with_columns(pl.col("y_pred") + 1)
        rows.write_parquet(unit / "forecasts.parquet")
        refused("holds other forecasts than .* it belongs to another run")
        (tmp_path / "run" / "manifest.json").unlink()
        refused(r"cannot be used: forecasts\.parquet was altered or cut short; run again with --resume")
        record = copied() / "folds" / "1" / "linear-0" / "unit.json"
        record.write_text(record.read_text().replace('"schema": 2', '"schema": 1'))
        refused("cannot be used: it was written in schema 1; run again with --resume")

    def test_a_parquet_file_of_something_else_is_refused(self, run_folder: Path, tmp_path: Path) -> None:
        pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "odd.parquet")
        with pytest.raises(EventDataError, match=r"was not written by EventLog\.write"):
            replayed(run_folder, tmp_path / "odd.parquet")
