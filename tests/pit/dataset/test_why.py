"""What a reviewer is shown of one forecast."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit import PointInTimeDataset, WhyReport, information_hash
from quantattn.pit.dataset._why_text import span
from tests.pit.build import at, clock, event_log, labels

STORY: list[dict[str, Any]] = [
    {"event_id": "a", "available": 1, "text": "one"},
    {"event_id": "a", "revision": 1, "available": 3, "happened": 1, "text": "one, corrected"},
    {"event_id": "m", "available": 3, "entity": None, "text": "for all", "kind": "macro"},
    {"event_id": "other", "available": 3, "entity": "B", "text": "not for A"},
    {"event_id": "late", "available": 5, "text": "at the very instant"},
    {"event_id": "a", "revision": 2, "available": 6, "happened": 1},
    {"event_id": "next", "available": 5 + 90_061, "text": "much later"},
]


def report(rows: list[dict[str, Any]], second: int = 5, **options: Any) -> WhyReport:
    made = PointInTimeDataset(event_log(rows), clock([second]), labels([("A", second)]), check=False)
    return made.why("A", at(second), **options)


def test_what_was_visible_and_what_stands_of_it() -> None:
    told = report(STORY)
    assert told.n_visible == 3
    seen = told.visible
    assert list(zip(seen["event_id"], seen["revision"], strict=True)) == [("a", 0), ("a", 1), ("m", 0)]
    assert seen["superseded_at"].to_physical().to_list() == [at(3), None, None]
    visible = event_log([STORY[0], STORY[1], STORY[2]]).frame
    assert told.info_hash == information_hash(visible, ("x", "y"))


def test_what_just_was_not_visible_by_how_much_and_until_when() -> None:
    hidden = report(STORY).not_visible
    assert hidden["event_id"].to_list() == ["late", "a", "next"]
    assert hidden["hidden_until"].to_physical().to_list() == [at(5), at(6), at(90_066)]
    assert hidden["hidden_for"].dt.total_seconds().to_list() == [0, 1, 90_061]
    assert hidden["revises"].to_list() == [None, 1, None]


def test_a_version_is_superseded_only_by_what_the_forecast_sees() -> None:
    at_three = report(STORY, 3)
    assert at_three.visible["superseded_at"].to_list() == [None]
    assert at_three.not_visible["revises"].to_list()[0] == 0
    at_seven = report(STORY, 7)
    assert at_seven.visible["superseded_at"].to_physical().to_list() == [at(3), at(6), None, None, None]


def test_versions_that_arrive_in_the_wrong_order() -> None:
    rows = [
        {"event_id": "e", "revision": 2, "available": 1},
        {"event_id": "e", "revision": 0, "available": 2},
        {"event_id": "e", "revision": 1, "available": 9},
    ]
    told = report(rows)
    # Revision 0 was superseded before it arrived.
    assert told.visible["superseded_at"].to_physical().to_list() == [None, at(1)]
    assert told.not_visible["revises"].to_list() == [2]
    assert "older than revision 2" in str(told)
    # A version that is not listed supersedes all the same.
    assert report(rows, last=1).visible["superseded_at"].to_physical().to_list() == [at(1)]


def test_the_first_of_several_later_versions_supersedes() -> None:
    rows = [
        {"event_id": "e", "revision": 0, "available": 1},
        {"event_id": "e", "revision": 2, "available": 2},
        {"event_id": "e", "revision": 1, "available": 3},
    ]
    told = report(rows).visible
    assert told["revision"].to_list() == [0, 2, 1]
    assert told["superseded_at"].to_physical().to_list() == [at(2), None, at(2)]


def test_lengths_of_the_lists() -> None:
    told = report(STORY, last=1, next=2)
    assert told.visible["event_id"].to_list() == ["m"]
    assert told.not_visible["event_id"].to_list() == ["late", "a"]
    nothing = report(STORY, 0, last=5, next=0)
    assert (nothing.n_visible, nothing.visible.height, nothing.not_visible.height) == (0, 0, 0)
    assert str(nothing).count("  none") == 2
    assert nothing.to_markdown().count("\nnone") == 2
    assert nothing._repr_html_().count("<p>none</p>") == 2


def squeezed(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def test_the_text_for_a_terminal() -> None:
    lines = str(report(STORY)).splitlines()
    assert lines[0] == "Forecast for A at 2020-01-01T00:00:05Z: 3 event versions visible"
    assert lines[1].startswith("Information set ")
    assert lines[1].endswith(", scope entity+market")
    assert squeezed(lines[4:8]) == [
        "available at before it by whose kind event revision standing text",
        "2020-01-01T00:00:01Z 4 s A news a 0 superseded 2020-01-01T00:00:03Z 'one'",
        "2020-01-01T00:00:03Z 2 s A news a 1 stands 'one, corrected'",
        "2020-01-01T00:00:03Z 2 s market macro m 0 stands 'for all'",
    ]
    assert squeezed(lines[10:]) == [
        "hidden until missed by whose kind event revision what it is text",
        "2020-01-01T00:00:05Z 0 s, the same instant A news late 0 a new event 'at the very instant'",
        "2020-01-01T00:00:06Z 1 s A news a 2 replaces revision 1 (none)",
        "2020-01-02T01:01:06Z 1 d 1 h 1 min 1 s A news next 0 a new event 'much later'",
    ]
    assert repr(report(STORY)) == "<WhyReport of 'A': 3 visible; print it for the whole>"


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1_000, "0.000001 s"),
        (10**9, "1 s"),
        (60 * 10**9, "1 min"),
        (3_600 * 10**9 + 1, "1 h 0.000000001 s"),
        (86_400 * 10**9 - 1, "23 h 59 min 59.999999999 s"),
        (90_061 * 10**9 + 5 * 10**8, "1 d 1 h 1 min 1.5 s"),
    ],
)
def test_lengths_of_time(nanoseconds: int, expected: str) -> None:
    assert span(nanoseconds) == expected


NASTY = [
    "\x1b[2Jgone\n",
    "<script>alert(1)</script>",
    "a | b `c` [d](https://example.com) **e**",
    "\u202egnirts",
    "www.example.com",
    "'); DROP",
]


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)
        assert not attrs

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


@pytest.mark.parametrize("field", ["text", "kind", "event_id", "entity"])
@pytest.mark.parametrize("nasty", NASTY)
def test_untrusted_content_stays_content(field: str, nasty: str) -> None:
    rows: list[dict[str, Any]] = [
        {"available": 1, field: nasty},
        {"available": 9, "revision": 1, field: nasty},
    ]
    entity = nasty if field == "entity" else "A"
    made = PointInTimeDataset(event_log(rows), clock([5]), labels([(entity, 5)], (entity,)), check=False)
    told = made.why(entity, at(5))
    for shown in (str(told), told.to_markdown(), told._repr_html_()):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    # One line for each version, whatever it holds.
    assert len(str(told).splitlines()) == 10
    page = Elements()
    page.feed(told._repr_html_())
    assert page.names == {"div", "h4", "p", "b", "table", "thead", "tr", "th", "tbody", "td"}
    # repr() shows the same in a terminal and in the page.
    expected = repr(nasty) if field == "text" or not nasty.isprintable() else nasty
    assert page.cells.count(expected) == 2
    for line in told.to_markdown().splitlines():
        if line.startswith("| 2020"):
            assert line.count("|") == 9
            assert "<" not in line and "`" not in line and "[" not in line and "www." not in line


def test_a_long_text_is_cut() -> None:
    line = str(report([{"available": 1, "text": "x" * 150}])).splitlines()[5]
    assert line.endswith("'" + "x" * 99 + "…'")


def test_requests_that_cannot_be_answered() -> None:
    made = PointInTimeDataset(event_log(STORY), clock([5]), labels([("A", 5)]), check=False)
    with pytest.raises(EventDataError, match=r"entity='a' is not in the dataset \(did you mean 'A'\?\)"):
        made.why("a", at(5))
    with pytest.raises(UsageError, match="last=0, next=-1: give whole numbers, zero or more"):
        made.why("A", at(5), last=0, next=-1)
    for wrong in ({"last": 1.5}, {"next": "2"}, {"last": True}, {"next": None}):
        with pytest.raises(UsageError, match=r"(last|next)=.*: give whole numbers, zero or more"):
            made.why("A", at(5), **wrong)
    with pytest.raises(EventDataError, match="entity=5 is not in the dataset"):
        made.why(5, at(5))  # type: ignore[arg-type]
    with pytest.raises(TimestampError, match=r"time_zone='New York'.*did you mean 'America/New_York'"):
        made.why("A", at(5), time_zone="New York")
    with pytest.raises(UsageError, match=r"time_zone=5 is of type int; give a name"):
        made.why("A", at(5), time_zone=5)  # type: ignore[arg-type]


def test_times_on_the_wall_clock_of_the_exchange() -> None:
    rows: list[dict[str, Any]] = [
        {"event_id": "a", "available": -3_600, "text": "one"},
        {"event_id": "b", "available": 188 * 86_400, "text": "summer"},
    ]
    told = report(rows, time_zone="America/New_York")
    lines = squeezed(str(told).splitlines())
    assert lines[0] == "Forecast for A at 2020-01-01T00:00:05Z: 1 event versions visible"
    assert lines[1] == "That is 2019-12-31 19:00:05 -05:00 in America/New_York"
    assert lines[5:7] == [
        "available at America/New_York before it by whose kind event revision standing text",
        "2019-12-31T23:00:00Z 2019-12-31 18:00:00 -05:00 1 h 5 s A news a 0 stands 'one'",
    ]
    assert lines[10].startswith("2020-07-07T00:00:00Z 2020-07-06 20:00:00 -04:00 ")
    for shown in (told.to_markdown(), told._repr_html_()):
        assert "2019-12-31 19:00:05 -05:00 in America/New_York" in shown
        assert "2019-12-31 18:00:00 -05:00" in shown
        assert "2020-07-06 20:00:00 -04:00" in shown
    assert "America" not in str(report(rows))
    assert "That is 2020-01-01 00:00:05 +00:00 in UTC" in str(report(rows, time_zone="UTC"))


def test_texts_stay_escaped_beside_a_local_time() -> None:
    told = report([{"available": 1, "text": "<b>|`x`", "kind": "<i>"}], time_zone="Asia/Kolkata")
    assert "<b>" not in told.to_markdown()
    assert "<i>" not in told.to_markdown()
    assert "<i>" not in told._repr_html_()
    assert "2020-01-01 05:30:01 +05:30" in told.to_markdown()


def test_a_local_time_with_nanoseconds() -> None:
    made = PointInTimeDataset(event_log([{"available": 1}]), clock([5]), labels([("A", 5)]), check=False)
    told = made.why("A", at(5) + 20, time_zone="America/New_York")
    assert "That is 2019-12-31 19:00:05.00000002 -05:00 in" in str(told)
