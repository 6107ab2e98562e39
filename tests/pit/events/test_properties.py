"""Random event tables against a naive oracle that reads, judges, orders and looks up one row at a time."""

from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.events.log import EventLog

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ["America/New_York", "Europe/London", "Australia/Lord_Howe", "Asia/Tokyo"]

# Close together, so that ties, daylight-saving nights and their neighbours come up often.
instants = st.sampled_from(
    [datetime(2024, 3, 10, 6, 59, 59, tzinfo=UTC), datetime(2024, 11, 3, 6, 30, tzinfo=UTC)]
).flatmap(lambda base: st.sampled_from([base, base + timedelta(microseconds=1), base + timedelta(hours=1)]))
walls = st.builds(
    datetime.combine,
    st.sampled_from(
        [date(2024, 3, 10), date(2024, 11, 3), date(2024, 10, 27), date(2024, 10, 6), date(2024, 4, 7)]
    ),
    st.sampled_from([datetime(1, 1, 1, hour, minute).time() for hour in (1, 2, 3) for minute in (0, 15, 45)]),
)
dates = st.dates(date(2024, 3, 7), date(2024, 3, 12)) | st.dates(date(2024, 12, 23), date(2025, 1, 2))


def zoned(instant, offset):
    return instant.astimezone(ZoneInfo(offset)).isoformat()


stamps = st.one_of(
    st.builds(zoned, instants, st.sampled_from([*ZONES, "UTC"])),
    walls.map(lambda wall: wall.isoformat(sep=" ")),
    dates.map(str),
    st.sampled_from([None, "junk", "2016-12-31T23:59:60Z"]),
)
rows = st.fixed_dictionaries(
    {
        "t": stamps,
        "p": stamps,
        "id": st.sampled_from(["a", "b", "c", None]),
        "r": st.integers(0, 2),
        "e": st.sampled_from(["A", "B", "*", None]),
        "x": st.sampled_from(["one", None]),
        "f": st.sampled_from([None, 0.0, -0.0, 1.5, float("inf")]),
    }
)
tables = st.lists(rows, min_size=1, max_size=14)
SCHEMA = {
    "t": pl.String,
    "p": pl.String,
    "id": pl.String,
    "r": pl.Int64,
    "e": pl.String,
    "x": pl.String,
    "f": pl.Float64,
}


EXCHANGES = {"XNYS": "America/New_York", "XLON": "Europe/London", "XTKS": "Asia/Tokyo"}


@cache
def sessions(calendar):
    listed = TradingCalendar(calendar).sessions(date(2024, 1, 1), date(2025, 12, 31))
    return [(day, since_epoch(opening)) for day, opening, _ in listed.rows()]


def since_epoch(moment):
    return (moment - EPOCH) // timedelta(microseconds=1) * 1_000


def read_by_hand(stamp, zone, calendar):
    """Give (event time, publication) in nanoseconds, or a reason."""
    if stamp is None:
        return "missing_time"
    if stamp == "junk":
        return "unreadable_time"
    if stamp.endswith(":60Z"):
        return "leap_second"
    if len(stamp) == 10:
        place = ZoneInfo(zone or EXCHANGES[calendar])
        day = date.fromisoformat(stamp)
        start, end = (
            since_epoch(datetime.combine(d, datetime.min.time(), place))
            for d in (day, day + timedelta(days=1))
        )
        for session, opening in sessions(calendar):
            if session > day and opening >= end:
                return start, opening
    moment = datetime.fromisoformat(stamp)
    if moment.tzinfo is None:
        if zone is None:
            return "naive_time"
        candidates = {moment.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)}
        real = {c for c in candidates if c.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == moment}
        if len(real) != 1:
            return "ambiguous_time" if real else "nonexistent_time"
        (moment,) = real
    return since_epoch(moment), since_epoch(moment)


def judge(row, zone, calendar, scheduled, publication):
    """Give the row's event, or its reason."""
    happened = read_by_hand(row["t"], zone, calendar)
    if isinstance(happened, str):
        return happened
    known = happened[1]
    if publication:
        read = read_by_hand(row["p"], zone, calendar)
        if isinstance(read, str):
            return read
        known = read[1]
        if known < happened[0] and not scheduled:
            return "available_before_event"
    if row["e"] is None:
        return "null_entity"
    if row["id"] is None:
        return "null_event_id"
    if row["f"] == float("inf"):
        return "infinite_feature"
    entity = None if row["e"] == "*" else row["e"]
    return (row["id"], row["r"], entity, happened[0], known, row["x"], row["f"])


def intake_by_hand(table, zone, calendar, latency, scheduled, publication):
    judged = [judge(row, zone, calendar, scheduled, publication) for row in table]
    rejects = {i: verdict for i, verdict in enumerate(judged) if isinstance(verdict, str)}
    kept = []
    for i, event in enumerate(judged):
        if i in rejects:
            continue
        same = [j for j, other in enumerate(judged) if not isinstance(other, str) and other[:2] == event[:2]]
        earliest = min(judged[j][4] for j in same)
        first = [j for j in same if judged[j][4] == earliest]
        if event[4] > earliest or any(judged[j] != event for j in first):
            rejects[i] = "conflicting_duplicate"
        elif first[0] != i:
            rejects[i] = "duplicate"
        else:
            name, revision, entity, happened, known, text, figure = event
            kept.append((name, revision, entity, happened, known + latency, text, figure))
    kept.sort(key=lambda event: (event[4], event[3], event[0], event[1]))
    return kept, rejects


def events_of(log):
    return (
        log.frame.with_columns(pl.col("event_time", "available_at").to_physical())
        .select("event_id", "revision", "entity", "event_time", "available_at", "text", "f")
        .rows()
    )


options = st.fixed_dictionaries(
    {
        "zone": st.sampled_from([None, *ZONES]),
        "calendar": st.sampled_from(list(EXCHANGES)),
        "latency": st.sampled_from([0, 1, 3_600_000_000_000]),
        "scheduled": st.booleans(),
        "publication": st.booleans(),
    }
)


def intake(table, zone, calendar, latency, scheduled, publication):
    return EventLog.from_frame(
        pl.DataFrame(table, schema=SCHEMA),
        event_time="t",
        available_at="p" if publication else None,
        entity="e",
        event_id="id",
        text="x",
        revision="r",
        features=["f"],
        time_zone=zone,
        calendar=calendar,
        latency=timedelta(0) if not latency else f"{latency}ns",
        scheduled=scheduled,
    )


@settings(max_examples=120, deadline=None)
@given(tables, options)
def test_intake_order_and_views_against_the_oracle(table, chosen):
    kept, rejects = intake_by_hand(table, **chosen)
    log = intake(table, **chosen)
    assert events_of(log) == kept
    assert dict(log.rejects.select("row", "reason").rows()) == rejects
    assert sum(log.reject_counts.values()) == len(rejects) == len(table) - len(log)
    moments = sorted({event[4] + shift for event in kept for shift in (0, 1)})
    for moment in moments:
        best = {}
        for event in kept:
            if event[4] < moment and event[1] >= best.get(event[0], event)[1]:
                best[event[0]] = event
        assert events_of(log.as_of(moment)) == [event for event in kept if event in best.values()]
    for start, end in pairwise(moments):
        assert events_of(log.between(start, end)) == [e for e in kept if not e[4] < start and e[4] < end]


@settings(max_examples=40, deadline=None)
@given(tables, options, st.randoms(use_true_random=False))
def test_row_order_does_not_matter(table, chosen, generator):
    log = intake(table, **chosen)
    order = generator.sample(range(len(table)), len(table))
    shuffled = intake([table[i] for i in order], **chosen)
    assert shuffled.fingerprint == log.fingerprint
    assert shuffled.reject_counts == log.reject_counts


@settings(max_examples=40, deadline=None)
@given(tables, options)
def test_what_is_visible_does_not_depend_on_what_comes_later(table, chosen):
    log = intake(table, **chosen)
    moments = log.frame["available_at"].to_physical().to_list()
    for moment in moments:
        earlier = EventLog.from_valid(log.frame.filter(pl.col("available_at").to_physical() < moment), ["f"])
        assert earlier.as_of(moment).fingerprint == log.as_of(moment).fingerprint
        assert earlier.fingerprint == log.between(min(moments), moment).fingerprint


@settings(max_examples=40, deadline=None)
@given(tables, options, st.integers(0, 14))
def test_splitting_a_log_and_merging_it_changes_nothing(table, chosen, place):
    log = intake(table, **chosen)
    parts = [EventLog.from_valid(part, ["f"]) for part in (log.frame[:place], log.frame[place:])]
    assert EventLog.concat(reversed(parts)).fingerprint == log.fingerprint


def available_by_hand(row, chosen):
    event = judge(row, chosen["zone"], chosen["calendar"], chosen["scheduled"], chosen["publication"])
    return None if isinstance(event, str) else event[4] + chosen["latency"]


@settings(max_examples=60, deadline=None)
@given(tables, options, st.booleans())
def test_a_table_that_ends_earlier_gives_a_prefix(table, chosen, numbered):
    """Whatever comes later, the log of the rows known before an instant is the beginning of the whole."""

    def read(rows):
        if not numbered:
            return intake(rows, **chosen)
        return EventLog.from_frame(
            pl.DataFrame(rows, schema=SCHEMA),
            event_time="t",
            available_at="p" if chosen["publication"] else None,
            entity="e",
            event_id="id",
            text="x",
            features=["f"],
            time_zone=chosen["zone"],
            calendar=chosen["calendar"],
            latency=f"{chosen['latency']}ns",
            scheduled=chosen["scheduled"],
            number_revisions=True,
        )

    whole = read(table)
    moments = [available_by_hand(row, chosen) for row in table]
    for moment in sorted({moment for moment in moments if moment is not None}):
        earlier = [row for row, known in zip(table, moments, strict=True) if known is None or known < moment]
        part = read(earlier) if earlier else None
        events = [] if part is None else events_of(part)
        assert events == [event for event in events_of(whole) if event[4] < moment]
        cut = place = len(table) // 2
        # Two exports of the same rows, cut anywhere, merge into the same log.
        if not numbered and 0 < place < len(table):
            halves = [intake(half, **chosen) for half in (table[:cut], table[place - 1 :])]
            merged = EventLog.concat(halves)
            early = [
                intake([row for row in half if row in earlier], **chosen)
                for half in (table[:cut], table[place - 1 :])
                if any(row in earlier for row in half)
            ]
            if early:
                assert events_of(EventLog.concat(early)) == [e for e in events_of(merged) if e[4] < moment]
