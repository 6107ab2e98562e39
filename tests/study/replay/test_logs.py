"""What a replay reads, item by item, and where it goes on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from quantattn.errors import EventDataError, StateError
from quantattn.pit import EventLog
from quantattn.pit.timestamps import nanoseconds_of
from quantattn.study.replay.feed import Feed, Nothing, chunks_of
from quantattn.study.replay.logs import FrameLog, Item, LineLog
from quantattn.study.replay.pace import Alarm


def items_of(log: FrameLog | LineLog) -> list[str]:
    found = []
    while isinstance(item := log.peek(None), Item):
        assert log.peek(None) == item
        found.append(getattr(item.content, "event_id", "?"))
        log.pop()
    return found


def numbered(lines: list[str]) -> Iterator[tuple[int, bytes]]:
    return iter([(number, line.encode()) for number, line in enumerate(lines, 1)])


class TestFrames:
    def test_blocks_and_items_are_the_log_in_order(self, own_log: EventLog) -> None:
        times = nanoseconds_of(own_log.frame["available_at"])
        ids = own_log.frame["event_id"].to_list()
        log, found = FrameLog(own_log, print), []
        for before in (int(times[0]), int(times[400]), int(times[400]) + 1):
            log.peek()
            block = log.block(before)
            assert (block is None) == (before == times[0])
            if block is not None:
                assert (nanoseconds_of(block["available_at"]) < before).all()
                log.pass_block(block.height)
                found += block["event_id"].to_list()
            item = log.peek()
            assert isinstance(item, Item)
            assert item.at >= before
            found.append(item.content.event_id)  # type: ignore[union-attr]
            log.pop()
        assert found + items_of(log) == ids

    def test_the_end_comes_after_the_last_event(
        self, own_log: EventLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("quantattn.study.replay.logs._BLOCK", 7)  # 1317 is no multiple
        assert items_of(FrameLog(own_log, print)) == own_log.frame["event_id"].to_list()
        small = EventLog.from_valid(own_log.frame.head(14), own_log.features)
        assert len(items_of(FrameLog(small, print))) == 14

    @pytest.mark.parametrize("place", [1, 500, 1317])
    def test_it_goes_on_behind_a_position_of_the_same_log(self, own_log: EventLog, place: int) -> None:
        log, notes = FrameLog(own_log, print), []
        for _ in range(place):
            log.peek()
            log.pop()
        again = FrameLog(own_log, notes.append)
        again.go_on_behind(log.position())
        assert not again.anew
        assert notes == [f"the log goes on behind its event {place:,}, the last one in the snapshot"]
        assert again.position() == log.position()
        assert items_of(again) == own_log.frame["event_id"].to_list()[place:]

    def test_another_log_is_read_anew(self, own_log: EventLog) -> None:
        log = FrameLog(own_log, print)
        log.pass_block(500)
        other = EventLog.from_valid(own_log.frame[1:], own_log.features)
        for position in (log.position(), {}, {"kind": "lines", "count": 3}, log.position() | {"count": 9999}):
            again, notes = FrameLog(other, print), []
            again = FrameLog(other, notes.append)
            again.go_on_behind(position)
            assert again.anew
            assert len(notes) == 1
            assert items_of(again) == other.frame["event_id"].to_list()


class TestLines:
    def test_empty_lines_are_counted_and_left_out(self, own_lines: list[str]) -> None:
        lines = ["", own_lines[0], " ", "", own_lines[1], ""]
        log = LineLog(numbered(lines), "feed", print)
        first = log.peek(None)
        assert isinstance(first, Item)
        assert first.place == "feed, line 2"
        assert log.position()["count"] == 0
        log.pop()
        assert log.position()["count"] == 2
        assert len(items_of(log)) == 1
        assert log.position()["count"] == 5

    @pytest.mark.parametrize("place", [1, 3, 20])
    def test_it_goes_on_behind_a_position_of_the_same_lines(self, own_lines: list[str], place: int) -> None:
        lines, notes = ["", *own_lines[:30]], []
        log = LineLog(numbered(lines), "feed", print)
        for _ in range(place):
            log.peek(None)
            log.pop()
        again = LineLog(numbered(lines), "feed", notes.append)
        again.go_on_behind(log.position())
        assert items_of(again) == items_of(log)
        assert again.position() == log.position()
        assert notes == [f"feed goes on behind its line {place + 1}, the last one in the snapshot"]
        assert not again.anew

    def test_other_lines_are_read_anew_and_half_of_the_same_are_refused(self, own_lines: list[str]) -> None:
        log = LineLog(numbered(own_lines[:10]), "feed", print)
        assert len(items_of(log)) == 10
        position = log.position()
        other, notes = LineLog(numbered(own_lines[1:10]), "feed", print), []
        other = LineLog(numbered(own_lines[1:10]), "feed", notes.append)
        other.go_on_behind(position)
        assert len(items_of(other)) == 9
        assert other.anew
        assert len(notes) == 1
        for lines, words in (
            (own_lines[:9], "ends after line 9"),
            ([*own_lines[:9], own_lines[10]], "differs up to line 10"),
            ([*own_lines[:9], own_lines[9] + " "], "differs up to line 10"),
        ):
            broken = LineLog(numbered(lines), "feed", print)
            broken.go_on_behind(position)
            with pytest.raises(StateError, match=words):
                broken.peek(None)


class TestFeed:
    def test_what_comes_is_given_and_what_does_not_is_not_waited_for(self) -> None:
        reading, writing = os.pipe()
        feed = Feed(chunks_of(lambda: os.read(reading, 100)), "feed")
        assert feed.take(0) is Nothing.YET
        assert feed.take(0.01) is Nothing.YET
        os.write(writing, b"one\ntw")
        assert feed.take(30) == (1, b"one")
        assert feed.take(0.01) is Nothing.YET
        os.write(writing, b"o\nlast")
        assert feed.take(None) == (2, b"two")
        os.close(writing)
        assert feed.take(None) == (3, b"last")
        assert feed.take(None) is Nothing.MORE
        assert feed.take(None) is Nothing.MORE
        os.close(reading)

    def test_a_wait_without_end_is_ended_by_the_alarm(self) -> None:
        reading, writing = os.pipe()
        log, alarm = LineLog(Feed(chunks_of(lambda: os.read(reading, 100)), "feed"), "feed", print), Alarm()
        log.wake_by(alarm)
        threading.Timer(0.05, alarm.ring).start()
        assert log.peek(None) is Nothing.YET
        os.close(writing)
        assert log.peek(None) is Nothing.MORE
        os.close(reading)

    def test_a_fault_is_told_where_the_lines_are_taken(self) -> None:
        def broken() -> Iterator[bytes]:
            yield b"one\n"
            raise OSError(5, "Input/output error")

        feed = Feed(broken(), "feed")
        assert feed.take(None) == (1, b"one")
        with pytest.raises(OSError, match="Input/output"):
            feed.take(None)
        endless = Feed(iter([b"a" * (1 << 20), b"a"]), "feed")
        with pytest.raises(EventDataError, match="feed, line 1: longer than"):
            endless.take(None)

    @pytest.mark.parametrize(("size", "waiting"), [(40, 2), (100, 1), (101, 1), (1000, 1), (20, 5)])
    def test_it_gathers_no_more_than_so_many_bytes(
        self, monkeypatch: pytest.MonkeyPatch, size: int, waiting: int
    ) -> None:
        monkeypatch.setattr("quantattn.study.replay.feed.WAITING_BYTES", 100)
        given, line = 0, b"a" * size

        def lines() -> Iterator[bytes]:
            nonlocal given
            while given < 50:
                given += 1
                yield line + b"\n"

        def settle(wanted: int) -> None:
            deadline = time.monotonic() + 30
            while given < wanted and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(0.05)
            assert given == wanted

        feed = Feed(lines(), "feed")
        settle(waiting + 1)  # one more is in hand, and waits for room
        assert feed.take(None) == (1, line)
        settle(waiting + 2)
        rest = [feed.take(None) for _ in range(50)]
        assert rest == [*((place, line) for place in range(2, 51)), Nothing.MORE]

    def test_it_does_not_gather_what_nobody_takes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("quantattn.study.replay.feed.WAITING_LINES", 5)
        given = 0

        def lines() -> Iterator[bytes]:
            nonlocal given
            while given < 1000:
                given += 1
                yield b"a\n"

        feed = Feed(lines(), "feed")
        deadline = time.monotonic() + 30
        while given < 6 and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.05)
        assert given == 6
        assert [feed.take(None) for _ in range(3)] == [(1, b"a"), (2, b"a"), (3, b"a")]
